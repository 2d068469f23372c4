//! What wins, comes second and limits at each of many points?

use super::choice::{Choice, Choices};
use super::form::Form;
use super::sweep::{Sweep, SweepPoints};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::units::Bytes;

/// A column for each question, a row for each point.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExplainedChoices {
    /// Seconds.
    pub times: Vec<f64>,
    /// Seconds that no algorithm on the fabric can beat.
    pub lower_bounds: Vec<f64>,
    /// Seconds of the runner-up; infinite where there is none.
    pub runner_up_times: Vec<f64>,
    /// Places in `names` of the winner's algorithm, its protocol, the runner-up's and what limits the
    /// winner; then the level that does.
    pub codes: [Vec<u8>; 6],
    /// What the codes stand for; the first is "".
    pub names: Vec<&'static str>,
}

impl Sweep<'_> {
    /// Answers every question about every point; see `times` for what is refused.
    pub fn explained(&self, points: SweepPoints, control: &Control) -> Result<ExplainedChoices> {
        self.check(points)?;
        control.set_total(points.bytes.len() as u64);
        let mut answer = ExplainedChoices {
            names: vec![""],
            ..ExplainedChoices::default()
        };
        let mut held: Option<(u32, Option<f64>, Choices)> = None;
        for (at, &bytes) in points.bytes.iter().enumerate() {
            if at % 1024 == 0 && control.is_cancelled() {
                let what = format!("{at} of {} buffers", points.bytes.len());
                return Err(Error::Cancelled { what });
            }
            let (ranks, rate) = points.at(at);
            if held.as_ref().is_none_or(|h| (h.0, h.1) != (ranks, rate)) {
                held = Some((ranks, rate, self.choices(ranks, rate)?));
            }
            let chosen = held.as_ref().and_then(|h| h.2.choose(Bytes::new(bytes)));
            answer.add(chosen.as_ref());
            control.advance(1);
        }
        Ok(answer)
    }

    /// Everything that competes on a group of `ranks`, with the swept level at `bandwidth` bytes/s.
    pub fn choices(&self, ranks: u32, bandwidth: Option<f64>) -> Result<Choices> {
        let group = self.cluster.group(self.stride, ranks);
        let cluster = self.with_bandwidth(&group, bandwidth);
        Choices::new(&self.rules, self.collective, &group, &cluster)
    }
}

impl ExplainedChoices {
    fn add(&mut self, chosen: Option<&Choice>) {
        let second = chosen.and_then(|c| c.runner_up);
        self.times.push(chosen.map_or(0.0, |c| c.time.value()));
        let bound = chosen.map_or(0.0, |c| c.lower_bound.value());
        self.lower_bounds.push(bound);
        let later = second.map_or(f64::INFINITY, |(_, time)| time.value());
        self.runner_up_times.push(later);
        let words =
            |form: Option<Form>| form.map_or(["", ""], |f| [f.algorithm.name(), f.protocol.name()]);
        let [algorithm, protocol] = words(chosen.map(|c| c.winner));
        let [second, with] = words(second.map(|(form, _)| form));
        let binding = chosen.map_or("", |c| c.binding.name());
        for (i, name) in [algorithm, protocol, second, with, binding]
            .into_iter()
            .enumerate()
        {
            let code = self.code(name);
            self.codes[i].push(code);
        }
        self.codes[5].push(chosen.map_or(u8::MAX, |c| byte(c.level)));
    }

    /// The place of a name; there are far fewer than 256.
    fn code(&mut self, name: &'static str) -> u8 {
        let known = self.names.iter().position(|&known| known == name);
        let place = known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        byte(place)
    }
}

fn byte(place: usize) -> u8 {
    u8::try_from(place).unwrap_or(u8::MAX)
}

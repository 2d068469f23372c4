//! Which step does a caller ask for, and are its counts and lengths right?

use super::pipeline::{Hops, Passes, Pipeline, Sends, Size};
use super::stages::{Pass, PipelineShape};
use crate::error::{Error, Result};
use crate::units::Seconds;
use serde::Deserialize;

/// Results up to which a step is laid out.
const MOST_RESULTS: u64 = 1 << 22;
/// Most that a micro-batch may be longer than one of length 1.
const MOST_LENGTH: f64 = 1e6;

/// A schedule by name, or an order, over stage times.
///
/// Times have one element for all virtual stages or one each; hops one for all borders or one each.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The schedule. Beside an order: the one whose gradients come from the same places.
    #[serde(default)]
    pub name: Option<String>,
    /// Pipeline stages (devices).
    pub stages: u32,
    /// Micro-batches of the step.
    pub micro_batches: u32,
    /// Model chunks per device; the schedule's own number where left out.
    #[serde(default)]
    pub chunks: Option<u32>,
    /// Stages over which a local loss is carried back.
    #[serde(default = "one")]
    pub window: u32,
    /// Parts that each sequence is cut into, where the schedule cuts them.
    #[serde(default = "one")]
    pub slices: u32,
    /// Forward pass of a micro-batch, or of a slice of length 1.
    pub forward_s: Vec<Seconds>,
    /// Backward pass of a micro-batch without the gradients of weights.
    pub backward_s: Vec<Seconds>,
    /// Gradients of weights; nothing where left out.
    #[serde(default)]
    pub weight_s: Option<Vec<Seconds>>,
    /// What a forward and a backward pass that run together save.
    #[serde(default = "nothing")]
    pub hidden_s: Vec<Seconds>,
    /// Time of a tensor between virtual stages on unlike devices.
    #[serde(default = "nothing")]
    pub hop_s: Vec<Seconds>,
    /// Who waits while a tensor is sent.
    #[serde(default)]
    pub sends: Sends,
    /// Length of the forward and backward pass of each micro-batch, or of each slice of each; none
    /// where all are of length 1.
    #[serde(default)]
    pub sizes: Vec<[f64; 2]>,
    /// What direct feedback adds before a stage may use the last stage's error.
    #[serde(default)]
    pub feedback_s: Seconds,
    /// Operations of each device in short, instead of the schedule's.
    #[serde(default)]
    pub order: Option<Vec<String>>,
    /// True where times are those of micro-batches on whole stages, to be cut evenly over the virtual
    /// stages of each and over slices.
    #[serde(default)]
    pub cut_stages: bool,
    /// True where the backward pass holds the gradients of weights: half of it where they are left
    /// out, as in a product of matrices, whose two gradients cost the same.
    #[serde(default)]
    pub whole_backward: bool,
    /// True where the event simulation is to bear witness.
    #[serde(default)]
    pub simulate: bool,
}

/// The request's times, one per virtual stage and border.
pub(super) struct Times {
    passes: Vec<Pass>,
    hops: Vec<Seconds>,
    sizes: Vec<Size>,
}

fn one() -> u32 {
    1
}

fn nothing() -> Vec<Seconds> {
    vec![Seconds::ZERO]
}

/// Fails where a step has more results than are laid out, `lanes` per stage and micro-batch, or
/// slice of one.
pub(super) fn check_size(stages: u32, lanes: usize, units: u32) -> Result<()> {
    let parts = u64::from(stages).saturating_mul(lanes as u64);
    let most = MOST_RESULTS / parts.max(1);
    if u64::from(units) <= most {
        return Ok(());
    }
    let rule = format!("a step of at most 2^22 results, {lanes} per stage and micro-batch");
    if most == 0 {
        let most = MOST_RESULTS / lanes.max(1) as u64;
        let allowed = format!("1 to {most} virtual stages: {rule}");
        return Err(Error::invalid("stages", stages, allowed));
    }
    let allowed = format!("1 to {most} on {stages} virtual stages: {rule}");
    Err(Error::invalid("micro_batches", units, allowed))
}

impl Times {
    pub(super) fn pipeline(&self, request: &Request, shape: PipelineShape) -> Pipeline<'_> {
        Pipeline {
            hops: Hops::Each(&self.hops),
            sends: request.sends,
            sizes: &self.sizes,
            feedback: request.feedback_s,
            ..Pipeline::new(shape, Passes::Each(&self.passes), Seconds::ZERO)
        }
    }
}

impl Request {
    /// Fails where a count is zero.
    pub(super) fn check_counts(&self) -> Result<()> {
        let counts = [
            ("stages", self.stages),
            ("micro_batches", self.micro_batches),
            ("chunks", self.chunks.unwrap_or(1)),
            ("window", self.window),
            ("slices", self.slices),
        ];
        match counts.into_iter().find(|(_, count)| *count == 0) {
            Some((field, count)) => Err(Error::invalid(field, count, "1 or more")),
            None => Ok(()),
        }
    }

    /// Times of `count` virtual stages and of what lies between them; `slices` of each micro-batch
    /// are run.
    pub(super) fn times(&self, count: u32, slices: u32) -> Result<Times> {
        let spread = |field: &str, given: &[Seconds]| self.spread(field, given, count, slices);
        let weight = self.weight_s.as_ref();
        let weight = weight.map(|given| spread("weight_s", given));
        let forward = spread("forward_s", &self.forward_s)?;
        let mut backward = spread("backward_s", &self.backward_s)?;
        let hidden = spread("hidden_s", &self.hidden_s)?;
        for (stage, saved) in hidden.iter().enumerate() {
            let most = forward[stage].min(backward[stage]);
            if *saved > most {
                let allowed = format!("at most {} s, the shorter of its passes", most.value());
                let field = format!("hidden_s of stage {stage}");
                return Err(Error::invalid(field, saved.value(), allowed));
            }
        }
        let weight = match weight.transpose()? {
            Some(weight) => weight,
            None if self.whole_backward => backward.iter().map(|whole| *whole / 2.0).collect(),
            None => vec![Seconds::ZERO; backward.len()],
        };
        if self.whole_backward {
            for (stage, (whole, part)) in backward.iter_mut().zip(&weight).enumerate() {
                if part > whole {
                    let allowed = format!("at most {} s, the backward pass", whole.value());
                    let field = format!("weight_s of stage {stage}");
                    return Err(Error::invalid(field, part.value(), allowed));
                }
                *whole = *whole - *part;
            }
        }
        let passes = (0..count as usize).map(|stage| Pass {
            forward: forward[stage],
            backward: backward[stage],
            weight: weight[stage],
            hidden: hidden[stage],
        });
        Ok(Times {
            passes: passes.collect(),
            hops: self.hops(count)?,
            sizes: self.lengths(slices)?,
        })
    }

    /// One element per virtual stage, cut where whole stages are given.
    fn spread(
        &self,
        field: &str,
        given: &[Seconds],
        count: u32,
        slices: u32,
    ) -> Result<Vec<Seconds>> {
        let (wanted, what) = if self.cut_stages {
            (self.stages, "stage")
        } else {
            (count, "virtual stage")
        };
        let each = count.div_ceil(wanted.max(1)) as usize;
        let parts = if self.cut_stages {
            each * slices as usize
        } else {
            1
        };
        let part = |stage: usize| given.get(stage).map(|time| *time / parts as f64);
        let found: Option<Vec<Seconds>> = match given.len() {
            1 => (0..count as usize).map(|_| part(0)).collect(),
            length if length == wanted as usize => (0..count as usize)
                .map(|stage| part(stage / each))
                .collect(),
            _ => None,
        };
        found.ok_or_else(|| {
            let got = format!("{} values", given.len());
            Error::invalid(field, got, format!("1 or {wanted}: one per {what}"))
        })
    }

    fn hops(&self, count: u32) -> Result<Vec<Seconds>> {
        let borders = count.saturating_sub(1) as usize;
        match self.hop_s.as_slice() {
            [hop] => Ok(vec![*hop; borders]),
            hops if hops.len() == borders => Ok(hops.to_vec()),
            hops => {
                let got = format!("{} values", hops.len());
                let allowed = format!("1 or {borders}: one per border of virtual stages");
                Err(Error::invalid("hop_s", got, allowed))
            }
        }
    }

    fn lengths(&self, slices: u32) -> Result<Vec<Size>> {
        let units = self.micro_batches.saturating_mul(slices);
        if !self.sizes.is_empty() && self.sizes.len() != units as usize {
            let got = format!("{} values", self.sizes.len());
            let what = if slices == 1 {
                "micro-batch"
            } else {
                "slice of each micro-batch"
            };
            let allowed = format!("{units}: one per {what}");
            return Err(Error::invalid("sizes", got, allowed));
        }
        let wrong = |size: &f64| !(0.0..=MOST_LENGTH).contains(size);
        let mut numbered = self.sizes.iter().enumerate();
        if let Some((at, size)) = numbered.find(|(_, size)| size.iter().any(wrong)) {
            let got = format!("{size:?}");
            return Err(Error::invalid(
                format!("sizes[{at}]"),
                got,
                "0 to 1e6, finite",
            ));
        }
        let sizes = self
            .sizes
            .iter()
            .map(|&[forward, backward]| Size { forward, backward });
        Ok(sizes.collect())
    }
}

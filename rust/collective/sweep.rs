//! How long does a collective take at many sizes, numbers of ranks and link rates?

use super::form::{Collective, Form, Forms};
use super::rank_counts::RankCounts;
use super::route::{GroupPlacement, Route};
use super::rules::Rules;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::hardware::{Cluster, Group};
use crate::units::{Bytes, BytesPerSecond};
use rayon::prelude::*;

/// Elements between two looks at the caller's wish to stop.
const CHUNK: usize = 1 << 15;

/// Keeps times finite on any fabric that can be read.
const MOST_BYTES: f64 = 1e30;

/// Rates that a link can have, in bytes/s.
const LEAST_RATE: f64 = 1.0;
const MOST_RATE: f64 = 1e18;

/// What differs from element to element: a single value stands for all.
#[derive(Debug, Clone, Copy)]
pub struct SweepPoints<'a> {
    /// Full buffers in bytes, as nccl-tests counts them.
    pub bytes: &'a [f64],
    /// Numbers of ranks: one, or one for each buffer.
    pub ranks: &'a [u32],
    /// Rates of the swept level in bytes/s per device and direction: none, one, or one for each buffer.
    pub bandwidths: &'a [f64],
}

/// One collective on groups of one cluster.
#[derive(Debug, Clone)]
pub struct Sweep<'a> {
    /// The fabric.
    pub cluster: &'a Cluster,
    /// Which collective.
    pub collective: Collective,
    /// What may carry it.
    pub rules: Rules,
    /// Distance between neighbours of a group.
    pub stride: u32,
    /// The level whose rate `SweepPoints::bandwidths` replaces; none: the outermost that the group crosses.
    pub level: Option<usize>,
}

impl Sweep<'_> {
    /// Seconds for every point, in order. Refuses what cannot be, naming the first such element.
    pub fn times(&self, points: SweepPoints, control: &Control) -> Result<Vec<f64>> {
        self.check(points)?;
        control.set_total(points.bytes.len() as u64);
        let places = self.places(points)?;
        let mut times = vec![0.0; points.bytes.len()];
        let parts = times.par_chunks_mut(CHUNK).enumerate();
        parts.try_for_each(|(i, times)| {
            if control.is_cancelled() {
                let what = format!("{} of {} buffers", control.progress().0, points.bytes.len());
                return Err(Error::Cancelled { what });
            }
            self.fill(times, points.part(i * CHUNK, times.len()), &places);
            control.advance(times.len() as u64);
            Ok(())
        })?;
        Ok(times)
    }

    /// Each number of ranks once, with its forms where the rate of the swept level is one.
    fn places(&self, points: SweepPoints) -> Result<PlacementsByCount> {
        let mut places = PlacementsByCount {
            numbers: RankCounts::new(points.ranks),
            at: Vec::new(),
            forms: Vec::new(),
        };
        if points.bandwidths.len() > 1 {
            for &ranks in &places.numbers.ranks {
                let place = GroupPlacement::new(&self.group(ranks), self.cluster);
                if !super::select::is_free(&place.group, self.cluster) {
                    self.rules.check(self.collective, &place, self.cluster)?;
                }
                places.at.push(place);
            }
            return Ok(places);
        }
        let mut site = SweepWorker::new(self);
        for &ranks in &places.numbers.ranks {
            let group = self.group(ranks);
            site.set(&group, points.bandwidths.first());
            let forms = Forms::by_rules(&self.rules, self.collective, &group, &site.cluster)?;
            places.forms.push(forms);
        }
        Ok(places)
    }

    fn fill(&self, times: &mut [f64], points: SweepPoints, places: &PlacementsByCount) {
        if let [forms] = places.forms.as_slice() {
            forms.times(points.bytes, times);
            return;
        }
        if points.bandwidths.len() <= 1 {
            for (at, (time, &bytes)) in times.iter_mut().zip(points.bytes).enumerate() {
                let forms = &places.forms[places.numbers.find(pick(points.ranks, at))];
                *time = forms.time(Bytes::new(bytes)).value();
            }
            return;
        }
        let same = match points.ranks {
            [_] => points.ranks.repeat(times.len()),
            _ => Vec::new(),
        };
        let ranks = if same.is_empty() { points.ranks } else { &same };
        places.numbers.each_run(ranks, |place, run| {
            self.fill_run(times, points, &places.at[place], run);
        });
    }

    /// The elements `run`, whose number of ranks is one; those that are free stay as they are, zero.
    fn fill_run(
        &self,
        times: &mut [f64],
        points: SweepPoints,
        place: &GroupPlacement,
        run: &[u32],
    ) {
        if super::select::is_free(&place.group, self.cluster) {
            return;
        }
        let level = self.level.unwrap_or_else(|| place.group.outermost());
        let (rules, collective) = (&self.rules, self.collective);
        let mut routes = rules.routes(place, self.cluster);
        let scale = Route::without_protocol(place, self.cluster).scale(level);
        for &at in run {
            let at = at as usize;
            let bytes = points.bytes[at];
            if bytes <= 0.0 && collective != Collective::Barrier {
                continue;
            }
            let bandwidth = BytesPerSecond::new(points.bandwidths[at]);
            let mut least = f64::INFINITY;
            let mut take = |form: Form| {
                least = least.min(form.fixed.value() + bytes * form.per_byte);
            };
            for route in &mut routes {
                route.set_bandwidth(level, &scale, bandwidth);
                rules.on(collective, route, self.cluster, &mut take);
            }
            times[at] = least;
        }
    }

    fn group(&self, ranks: u32) -> Group {
        self.cluster.group(self.stride, ranks)
    }

    /// The cluster with the swept level at `bandwidth`.
    pub(super) fn with_bandwidth(&self, group: &Group, bandwidth: Option<f64>) -> Cluster {
        let mut site = SweepWorker::new(self);
        site.set(group, bandwidth.as_ref());
        site.cluster
    }

    pub(super) fn check(&self, points: SweepPoints) -> Result<()> {
        let elements = points.bytes.len();
        for (name, len) in [
            ("ranks", points.ranks.len()),
            ("bandwidth_bytes_per_s", points.bandwidths.len().max(1)),
        ] {
            if len != 1 && len != elements {
                let allowed = format!("one value, or one for each of {elements} buffers");
                return Err(Error::invalid(name, format!("{len} values"), allowed));
            }
        }
        let count = self.cluster.system.levels.len();
        if let Some(level) = self.level.filter(|&level| level >= count) {
            return Err(Error::invalid(
                "level",
                level,
                format!("0 to {}", count - 1),
            ));
        }
        let sound = |bytes: &f64| (0.0..=MOST_BYTES).contains(bytes);
        if let Some(bytes) = points.bytes.iter().find(|bytes| !sound(bytes)) {
            return Err(Error::invalid("buffer_bytes", bytes, "0 to 1e30 bytes"));
        }
        let sound = |rate: &f64| (LEAST_RATE..=MOST_RATE).contains(rate);
        if let Some(rate) = points.bandwidths.iter().find(|rate| !sound(rate)) {
            let allowed = "1 to 1e18 bytes/s";
            return Err(Error::invalid("bandwidth_bytes_per_s", rate, allowed));
        }
        let check = |&ranks: &u32| self.cluster.check_group(self.stride, ranks);
        // where the least and the most can be, all can
        let ends = [points.ranks.iter().min(), points.ranks.iter().max()];
        match ends.into_iter().flatten().try_for_each(check) {
            Ok(()) => Ok(()),
            Err(_) => points.ranks.iter().try_for_each(check),
        }
    }

    /// Refuses a group that leaves the cluster, and a rate that no link has.
    pub fn check_group(&self, ranks: u32, bandwidth: Option<f64>) -> Result<()> {
        let rate = bandwidth.as_slice();
        self.check(SweepPoints {
            bytes: &[0.0],
            ranks: &[ranks],
            bandwidths: rate,
        })
    }
}

impl<'a> SweepPoints<'a> {
    /// Ranks and rate of one point.
    pub(super) fn at(&self, at: usize) -> (u32, Option<f64>) {
        let rates = self.bandwidths;
        let rate = (!rates.is_empty()).then(|| pick(rates, at));
        (pick(self.ranks, at), rate)
    }

    fn part(self, start: usize, len: usize) -> Self {
        let cut = |all: &'a [f64]| {
            if all.len() > 1 {
                &all[start..start + len]
            } else {
                all
            }
        };
        let ranks = if self.ranks.len() > 1 {
            &self.ranks[start..start + len]
        } else {
            self.ranks
        };
        Self {
            bytes: &self.bytes[start..start + len],
            ranks,
            bandwidths: cut(self.bandwidths),
        }
    }
}

fn pick<T: Copy>(all: &[T], at: usize) -> T {
    if let [only] = all { *only } else { all[at] }
}

/// What is found once for each number of ranks.
struct PlacementsByCount {
    numbers: RankCounts,
    /// Where each number of ranks lies; empty where `forms` says all.
    at: Vec<GroupPlacement>,
    forms: Vec<Forms>,
}

/// A thread's own copy of the fabric, whose rates it may change.
struct SweepWorker<'a> {
    sweep: &'a Sweep<'a>,
    cluster: Cluster,
    /// The level whose rate is not the catalog's.
    changed: usize,
}

impl<'a> SweepWorker<'a> {
    fn new(sweep: &'a Sweep<'a>) -> Self {
        Self {
            sweep,
            cluster: sweep.cluster.clone(),
            changed: 0,
        }
    }

    /// Sets the rate of the swept level; the others keep the catalog's.
    fn set(&mut self, group: &Group, bandwidth: Option<&f64>) {
        let Some(&bandwidth) = bandwidth else {
            return;
        };
        let place = self.sweep.level.unwrap_or_else(|| group.outermost());
        let own = &self.sweep.cluster.system.levels;
        let levels = &mut self.cluster.system.levels;
        if self.changed != place {
            levels[self.changed].bandwidth = own[self.changed].bandwidth;
            self.changed = place;
        }
        levels[place].bandwidth = BytesPerSecond::new(bandwidth);
    }
}

//! Runs the units of a search over all cores and joins what they found, in the units' order.

use super::keep::{Best, Found, Front};
use super::offload::{OffloadCounts, Wanted};
use super::space::{Limits, Objective, Offload, Space};
use super::unit::{Unit, UnitOutcome, Walk, units};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::estimate::Job;
use crate::plan::{Plan, Rule};
use rayon::prelude::*;

/// Why plans were turned down, counted by family.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rejections {
    /// Combinations that break a rule, by `Rule::FAMILIES`. A broken combination is counted once
    /// for all plans that share it.
    pub illegal: [u64; Rule::FAMILIES.len()],
    /// Legal plans that do not fit in memory.
    pub unfit: u64,
    /// Bytes that the nearest of them lacks; 0 where all fit.
    pub least_shortfall_bytes: f64,
}

impl Rejections {
    pub(super) fn illegal(&mut self, rule: &Rule) {
        self.illegal[rule.family()] += 1;
    }

    /// Counts a plan that lacks `bytes`; true where no plan so far lacked less.
    pub(super) fn does_not_fit(&mut self, bytes: f64) -> bool {
        let nearer = self.unfit == 0 || bytes < self.least_shortfall_bytes;
        if nearer {
            self.least_shortfall_bytes = bytes;
        }
        self.unfit += 1;
        nearer
    }

    fn is_further(&self, other: &Self) -> bool {
        let nearer = other.least_shortfall_bytes < self.least_shortfall_bytes;
        other.unfit > 0 && (self.unfit == 0 || nearer)
    }

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.illegal.iter_mut().zip(other.illegal) {
            *mine += theirs;
        }
        if self.is_further(other) {
            self.least_shortfall_bytes = other.least_shortfall_bytes;
        }
        self.unfit += other.unfit;
    }
}

/// What a search found and what it turned down.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The best plans, best first.
    pub best: Vec<Found>,
    /// Plans that no other beats in both time and memory, by rising time.
    pub front: Vec<Found>,
    /// Legal plans that fit and whose exact time was computed.
    pub priced: u64,
    /// Legal plans that fit and whose lower bound shows that they cannot enter either list.
    pub bounded: u64,
    /// Legal plans that fit.
    pub feasible: u64,
    /// Why the others were turned down.
    pub rejections: Rejections,
    /// Of the plans that do not fit, the one that lacks least.
    pub nearest: Option<Plan>,
    /// Plans that do not fit in device memory and were tried with other tiers.
    pub offload: OffloadCounts,
}

/// Walks all legal plans of `space` for `job`. The answer does not depend on the thread count.
pub fn search(job: &Job, space: &Space, limits: Limits, control: &Control) -> Result<Outcome> {
    limits.check()?;
    control.set_total(units(job, space).len() as u64);
    let found = walk_all(job, space, limits, None, control);
    if control.is_cancelled() {
        let (done, total) = control.progress();
        return Err(Error::Cancelled {
            what: format!("search after {done} of {total} units"),
        });
    }
    let mut outcome = join(found, limits);
    let helps = match limits.offload {
        Offload::Never => false,
        Offload::Auto => outcome.feasible == 0,
        Offload::Always => true,
    };
    if helps && limits.objective == Objective::Time {
        super::offload::add(job, space, limits, control, &mut outcome)?;
    }
    Ok(outcome)
}

/// Walks every unit; with `wanted`, only to gather plans that do not fit.
pub(super) fn walk_all(
    job: &Job,
    space: &Space,
    limits: Limits,
    wanted: Option<Wanted>,
    control: &Control,
) -> Vec<UnitOutcome> {
    let units = units(job, space);
    let walk = |(index, unit): (usize, &Unit)| {
        let walk = Walk::new(job, space, limits, index, wanted);
        let outcome = walk.run(*unit, control);
        if !control.is_cancelled() && wanted.is_none() {
            control.advance(1);
        }
        outcome
    };
    units.par_iter().enumerate().map(walk).collect()
}

fn join(found: Vec<UnitOutcome>, limits: Limits) -> Outcome {
    let mut best = Best::new(limits.top);
    let mut front = Front::default();
    let mut outcome = Outcome {
        best: Vec::new(),
        front: Vec::new(),
        priced: 0,
        bounded: 0,
        feasible: 0,
        rejections: Rejections::default(),
        nearest: None,
        offload: OffloadCounts::default(),
    };
    for unit in found {
        best.merge(&unit.best);
        front.merge(&unit.front);
        outcome.priced += unit.priced;
        outcome.bounded += unit.bounded;
        outcome.feasible += unit.feasible;
        if outcome.rejections.is_further(&unit.rejections) {
            outcome.nearest = unit.nearest;
        }
        outcome.rejections.add(&unit.rejections);
    }
    outcome.best = best.entries().iter().map(|e| e.item.clone()).collect();
    outcome.front = front.points().iter().map(|p| p.item.clone()).collect();
    outcome
}

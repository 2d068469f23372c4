//! Which plan is best on groups of unlike devices, and is that proven?

mod answer;
mod balance;
mod groups;
mod layers;
mod options;
mod plan_report;
mod positions;
mod unit;
mod walk;

pub use answer::{GroupUse, UnlikePlan, UnlikeReport, UnlikeStage};
pub use groups::{Groups, MOST_GROUPS};

use super::limits::Limits;
use super::report::RejectionCount;
use super::space::Space;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::plan::BrokenRule;
use crate::solve::Best;
use rayon::prelude::*;
use unit::{SharedFields, units};
use walk::{UnitOutcome, Walk, WalkInputs};

/// Units that are walked at one time once the best plans are known.
const WAVE: usize = 16;
/// Units that are asked for a first time to beat.
const SEEDED: usize = 8;
/// Room above that time, so that the plan itself is found again.
const ROOM: f64 = 1.0 + 1e-9;

/// The best plans of a model on groups of unlike devices (a heterogeneous cluster), by step time.
///
/// Stages are dealt to groups, whose order along the pipeline is a choice, as is leaving groups out. The
/// stages of a group share tensor ranks, sequence parallelism and recomputation; all stages share
/// replicas, micro-batch, schedule and ZeRO stage. A stage at an end of the pipeline holds any number of
/// layers; those of a group between them share theirs as evenly as can be. Each stage is priced and
/// weighed as `estimate` prices and weighs one on its own group's cluster, sends blocking; the pipeline
/// is the schedule's recurrence over the unlike stages; gradient reduction, gather and optimizer
/// are those of the slowest stage.
///
/// Every combination is priced, excluded by a bound (`balance.rs`), or does not fit. The answer does
/// not depend on the thread count.
pub fn search_unlike(
    groups: &Groups,
    space: &Space,
    limits: &Limits,
    control: &Control,
) -> Result<UnlikeReport> {
    for job in &groups.jobs {
        limits.check(job)?;
    }
    groups::check(space)?;
    let units = units(groups, space);
    control.set_total(units.len() as u64);
    let task = WalkInputs {
        groups,
        blocks: &options::blocks(groups, &units, space),
        space,
        control,
        top: limits.top,
    };
    let order = by_bound(task, &units);
    let mut best = Best::new(limits.top);
    let mut threshold = seeded(task, &units, &order);
    let mut outcomes: Vec<UnitOutcome> = Vec::new();
    let (mut at, mut wave) = (0, 1);
    while at < order.len() && !control.is_cancelled() {
        let end = order.len().min(at + wave);
        let walk = |&index: &usize| {
            let outcome = Walk::new(task, units[index], index, threshold).run();
            control.advance(1);
            outcome
        };
        let found: Vec<UnitOutcome> = order[at..end].par_iter().map(walk).collect();
        for outcome in found {
            best.merge(&outcome.best);
            outcomes.push(outcome);
        }
        threshold = threshold.min(best.threshold().unwrap_or(f64::INFINITY));
        (at, wave) = (end, WAVE.min(2 * wave));
    }
    if control.is_cancelled() {
        let (done, total) = control.progress();
        let what = format!("search after {done} of {total} units");
        return Err(Error::Cancelled { what });
    }
    Ok(report(&outcomes, &best))
}

/// Indices of units, the one that may hold the fastest plan first.
fn by_bound(task: WalkInputs, units: &[SharedFields]) -> Vec<usize> {
    let bound = |(index, unit): (usize, &SharedFields)| {
        let walk = Walk::new(task, *unit, index, f64::INFINITY);
        (index, walk.bound())
    };
    let mut bounds: Vec<(usize, f64)> = units.par_iter().enumerate().map(bound).collect();
    bounds.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    bounds.into_iter().map(|(index, _)| index).collect()
}

/// Seconds that the best plans do not exceed; endless where a first look finds too few plans.
fn seeded(task: WalkInputs, units: &[SharedFields], order: &[usize]) -> f64 {
    let mut best = Best::new(task.top);
    for &index in order.iter().take(SEEDED) {
        Walk::new(task, units[index], index, f64::INFINITY).seed(&mut best);
    }
    best.threshold().map_or(f64::INFINITY, |time| time * ROOM)
}

fn report(outcomes: &[UnitOutcome], best: &Best<UnlikePlan>) -> UnlikeReport {
    let sum = |of: fn(&UnitOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let (all, priced) = (sum(|o| o.combinations), sum(|o| o.priced));
    let unfit = sum(|o| o.unfit);
    let families = BrokenRule::FAMILIES.iter().enumerate();
    let turned_down = families.map(|(family, reason)| RejectionCount {
        reason,
        count: outcomes.iter().map(|o| o.illegal[family]).sum(),
        least_missing_bytes: None,
    });
    UnlikeReport {
        combinations: all,
        combinations_priced: priced,
        combinations_excluded_by_bound: all - priced - unfit,
        combinations_that_do_not_fit: unfit,
        dealings_priced: sum(|o| o.dealings),
        proven: true,
        rejected: turned_down.filter(|row| row.count > 0).collect(),
        best: best.entries().iter().map(|e| e.item.clone()).collect(),
    }
}

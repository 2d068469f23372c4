//! Which plans that do not fit in device memory are fast all the same, with tensors in other tiers?
//!
//! A plan is no faster with transfers than without, so plans are placed by rising transfer-free time
//! until that time alone is no better than the best found: none behind it can be.

use super::driver::Search;
use super::limits::OffloadWhen;
use super::priced_plan::{Best, PricedPlan, offer};
use super::report::SearchOutcome;
use crate::control::Control;
use crate::error::Result;
use crate::estimate::{SpillLimits, SpillResult, spilled};
use crate::solve::{Best as Least, Entry};
use rayon::prelude::*;

/// Plans that are held at one time, waiting to be placed.
pub(super) const WAVE: usize = 512;
/// Plans that are placed where nobody asked for more than an answer when nothing fits, and the
/// operations that each of their ranks may have in flight.
const AUTO: (u64, usize) = (512, 256);
/// Plans that are placed between two looks at the best one.
const HAND: usize = 16;

/// Plans that do not fit, by rising transfer-free time.
pub(super) type SpillQueue = Least<PricedPlan>;

/// Which plans that do not fit are still of interest.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpillCriteria {
    /// Behind this time and index.
    pub(super) after: Option<(f64, u64)>,
    /// Faster than this.
    pub(super) below: f64,
}

impl SpillCriteria {
    /// True for a plan with this transfer-free time.
    pub(super) fn admits(&self, time: f64, index: u64) -> bool {
        let later = |(t, i): (f64, u64)| time.total_cmp(&t).then(index.cmp(&i)).is_gt();
        time < self.below && self.after.is_none_or(later)
    }
}

/// What came of the plans that do not fit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OffloadCounts {
    /// Plans whose tensors were to be placed.
    pub placed: u64,
    /// Of those, plans that fit so and were among the best known by then; others are proven not to be.
    pub fit: u64,
    /// Transfer-free time that no plan left untried is faster than; none where none is left that
    /// could be among the best.
    pub untried_bound_s: Option<f64>,
    /// True where the work was stopped before all of them were tried.
    pub stopped: bool,
}

impl OffloadCounts {
    /// Leaves a plan of this transfer-free time untried.
    fn note_untried(&mut self, time: f64) {
        let least = self.untried_bound_s.unwrap_or(f64::INFINITY);
        self.untried_bound_s = Some(least.min(time));
    }

    /// Leaves all plans of this transfer-free time and more untried.
    fn stop_at(&mut self, time: f64) {
        self.note_untried(time);
        self.stopped = true;
    }
}

/// Adds plans that fit with offload to what a search found; where it is cancelled, those that were
/// placed by then.
pub(super) fn add(search: &Search, control: &Control, outcome: &mut SearchOutcome) -> Result<()> {
    let limits = search.limits();
    let mut best = Best::new(limits.top);
    for (index, found) in (0..).zip(&outcome.best) {
        let entry = Entry {
            key: found.composed.time,
            index,
            item: found.clone(),
        };
        offer(&mut best, entry, limits.column());
    }
    let mut criteria = SpillCriteria {
        after: None,
        below: best.threshold().unwrap_or(f64::INFINITY),
    };
    let mut counts = OffloadCounts::default();
    let mut skipped = f64::INFINITY;
    let most = if limits.offload == OffloadWhen::Auto {
        AUTO
    } else {
        (u64::MAX, usize::MAX)
    };
    loop {
        let (waiting, least) = search.spilled(criteria, control);
        skipped = skipped.min(least);
        if control.is_cancelled() {
            let tried = criteria.after.map_or(0.0, |(time, _)| time);
            counts.stop_at(tried.max(search.bound(0)));
            break;
        }
        control.set_total(counts.placed + waiting.entries().len() as u64);
        let done = place_wave(search, &waiting, (most, control), (&mut best, &mut counts))?;
        let last = waiting
            .entries()
            .last()
            .map(|entry| (entry.key, entry.index));
        if done || waiting.entries().len() < WAVE {
            break;
        }
        criteria = SpillCriteria {
            after: last,
            below: best.threshold().unwrap_or(f64::INFINITY),
        };
    }
    if skipped.is_finite() && best.admits(skipped, 0) {
        counts.note_untried(skipped);
    }
    outcome.best = best.entries().iter().map(|e| e.item.clone()).collect();
    outcome.offload = counts;
    Ok(())
}

/// Places waiting plans in order; true where no plan behind them can be of use.
fn place_wave(
    search: &Search,
    waiting: &SpillQueue,
    ((most, operations), control): ((u64, usize), &Control),
    (best, counts): (&mut Best, &mut OffloadCounts),
) -> Result<bool> {
    for hand in waiting.entries().chunks(HAND) {
        if counts.placed >= most {
            let next = hand
                .first()
                .filter(|entry| best.admits(entry.key, last_index(entry)));
            if let Some(entry) = next {
                counts.note_untried(entry.key);
            }
            return Ok(true);
        }
        let admitted: Vec<_> = hand
            .iter()
            .filter(|entry| best.admits(entry.key, last_index(entry)))
            .collect();
        let limits = SpillLimits {
            operations,
            below_s: best.threshold().unwrap_or(f64::INFINITY),
        };
        let placed: Result<Vec<SpillResult>> = admitted
            .par_iter()
            .map(|entry| {
                let job = search.job_in(entry.item.dtype);
                spilled(job, &entry.item.plan, limits, control)
            })
            .collect();
        if control.is_cancelled() {
            let first = admitted.first().map_or(f64::INFINITY, |entry| entry.key);
            counts.stop_at(first);
            return Ok(true);
        }
        control.advance(admitted.len() as u64);
        counts.placed += admitted.len() as u64;
        for (entry, placed) in admitted.iter().zip(placed?) {
            let placed = match placed {
                SpillResult::Fits(placed) => *placed,
                SpillResult::NoPlacement | SpillResult::Slow => continue,
                SpillResult::TooManyOperations => {
                    counts.note_untried(entry.key);
                    continue;
                }
            };
            counts.fit += 1;
            let mut item = entry.item.clone();
            item.composed.time = placed.step_time_s;
            item.offloaded = Some(placed);
            let entry = Entry {
                key: item.composed.time,
                // behind plans that fit without: of equal ones those come first
                index: last_index(entry),
                item,
            };
            offer(best, entry, search.limits().column());
        }
        if admitted.len() < hand.len() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The index of a plan that was placed: behind those of all plans that fit without.
fn last_index(entry: &Entry<PricedPlan>) -> u64 {
    entry.index | 1 << 63
}

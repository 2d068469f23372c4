//! Which plans that do not fit in device memory are fast all the same, with tensors in other tiers?
//!
//! A plan is no faster with transfers than without, so plans are placed by rising transfer-free time
//! until that time alone is no better than the best found: none behind it can be.

use super::driver::Search;
use super::limits::OffloadWhen;
use super::priced_plan::{Best, PricedPlan};
use super::report::SearchOutcome;
use crate::control::Control;
use crate::error::{Error, Result};
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
}

impl OffloadCounts {
    /// Leaves a plan of this transfer-free time untried.
    fn note_untried(&mut self, time: f64) {
        let least = self.untried_bound_s.unwrap_or(f64::INFINITY);
        self.untried_bound_s = Some(least.min(time));
    }
}

/// Adds plans that fit with offload to what a search found.
pub(super) fn add(search: &Search, control: &Control, outcome: &mut SearchOutcome) -> Result<()> {
    let limits = search.limits();
    let mut best = Best::new(limits.top);
    for (index, found) in (0..).zip(&outcome.best) {
        best.push(Entry {
            key: found.composed.time,
            index,
            item: found.clone(),
        });
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
        stop_if_cancelled(control, &counts)?;
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
        stop_if_cancelled(control, counts)?;
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
            best.push(Entry {
                key: item.composed.time,
                // behind plans that fit without: of equal ones those come first
                index: last_index(entry),
                item,
            });
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

fn stop_if_cancelled(control: &Control, counts: &OffloadCounts) -> Result<()> {
    if control.is_cancelled() {
        let what = format!("search after {} placements", counts.placed);
        return Err(Error::Cancelled { what });
    }
    Ok(())
}

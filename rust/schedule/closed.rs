//! When does a step end under the schedules that a search tries first, for one plan or several side by side?

use super::borders::Borders;
use super::rule::Schedule;
use super::stages::{Makespan, Stages};
use super::{gpipe, interleaved, interleaved_unlike_hops, makespan, one_forward_one_backward};
use crate::solve::Lane;
use crate::units::Seconds;

/// Length of a step in closed form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Closed<L> {
    /// From the first forward's start to the last backward's end, seconds.
    pub time: L,
    /// 1 where that is exact, 0 where it is only a lower bound.
    pub exact: L,
}

impl<L: Lane> Closed<L> {
    #[inline(always)]
    pub(super) fn exactly(time: L) -> Self {
        Self {
            time,
            exact: L::splat(1.0),
        }
    }
}

impl From<Closed<f64>> for Makespan {
    fn from(closed: Closed<f64>) -> Self {
        Self {
            time: Seconds::new(closed.time),
            exact: closed.exact >= 1.0,
        }
    }
}

/// Closed forms of plans of one schedule and one shape whose stage times differ.
///
/// `makespan` gives the same bits for each of them alone.
#[inline(always)]
pub fn closed_forms<L: Lane>(kind: Schedule, stages: &Stages<L>, micro_batches: u32) -> Closed<L> {
    match kind {
        Schedule::GPipe => gpipe::closed_form(&stages.whole(1), micro_batches),
        Schedule::OneForwardOneBackward => {
            one_forward_one_backward::closed_form(&stages.whole(1), micro_batches)
        }
        Schedule::Interleaved if stages.chunks > 1 => {
            interleaved::closed_form(&stages.whole(stages.chunks), micro_batches)
        }
        _ => one_by_one(kind, stages, micro_batches),
    }
}

/// The same over borders that are not alike. Stages are given without their hops.
///
/// Not inlined: it is long and asked for unlike hops alone, and in every loop over lanes it would lengthen
/// the build by half.
#[inline(never)]
pub fn closed_forms_over<L: Lane>(
    kind: Schedule,
    stages: &Stages<L>,
    borders: &Borders,
    micro_batches: u32,
) -> Closed<L> {
    match kind {
        Schedule::GPipe => gpipe::closed_form_over(&stages.whole(1), borders, micro_batches),
        Schedule::OneForwardOneBackward if borders.apart() == 0.0 => {
            one_forward_one_backward::closed_form_over(&stages.whole(1), borders, micro_batches)
        }
        Schedule::Interleaved if stages.chunks > 1 => {
            let whole = stages.whole(stages.chunks);
            interleaved_unlike_hops::closed_form_over(&whole, borders, micro_batches)
        }
        _ => Closed {
            exact: L::splat(0.0),
            ..closed_forms(kind, &borders.least(stages), micro_batches)
        },
    }
}

/// The same for schedules whose forms take one plan at a time.
fn one_by_one<L: Lane>(kind: Schedule, stages: &Stages<L>, micro_batches: u32) -> Closed<L> {
    let closed = |place| makespan(kind, &stages.at(place), micro_batches);
    let mut exact = L::splat(0.0);
    let time = L::gather(|place| {
        let one = closed(place);
        if one.exact {
            exact = L::gather(|at| if at == place { 1.0 } else { exact.at(at) });
        }
        one.time.value()
    });
    Closed { time, exact }
}

//! When does a `GPipe` step end: all forwards, a turn at the last stage, all backwards (Huang et al. 2019)?

use super::borders::Borders;
use super::bound;
use super::closed::Closed;
use super::operation::{Operation, Work};
use super::pipeline::Pipeline;
use super::rule::ScheduleRule;
use super::stages::{Makespan, Pass, PipelineShape, Scratch, Stages};
use crate::solve::Lane;

/// Closed form, exact for every input of this class.
///
/// `T = sum f_i + (m - 1) max f_i + sum b_i + (m - 1) max b_i + 2 (p - 1) hop`, seconds, for `p` stages
/// and `m` micro-batches: each half is a permutation flow shop whose jobs are all alike, so its
/// longest path runs along the slowest stage (Pinedo 2016, section 6.1).
#[inline(always)]
pub(super) fn closed_form<L: Lane>(stages: &Stages<L>, micro_batches: u32) -> Closed<L> {
    let again = f64::from(micro_batches - 1);
    let slowest = |of: fn(&Pass<L>) -> L| {
        let mut most = of(&stages.first);
        if stages.count > 1 {
            most = most.larger(of(&stages.last));
        }
        if stages.count > 2 {
            most = most.larger(of(&stages.middle));
        }
        most
    };
    let hops = 2.0 * f64::from(stages.count - 1) * stages.hop.value();
    let repeated = (slowest(|pass| pass.forward) + slowest(|pass| pass.backward)) * again;
    Closed::exactly(stages.all_work() + repeated + hops)
}

/// The same over unlike borders, exact too: `2 (p - 1) hop` is the sum of all hops there and back, and each
/// send that holds its stage is part of the pass before it.
#[inline(always)]
pub(super) fn closed_form_over<L: Lane>(
    stages: &Stages<L>,
    borders: &Borders,
    micro_batches: u32,
) -> Closed<L> {
    let back = stages.count.saturating_sub(1);
    let [down, up] = borders.held();
    let sent = |first, end, share: f64| borders.slowest_of(first, end) * share;
    let mut forward = stages.first.forward + sent(0, back.min(1), down);
    let mut backward = stages.first.backward;
    if back > 0 {
        forward = forward.larger(stages.last.forward);
        backward = backward.larger(stages.last.backward + sent(back - 1, back, up));
    }
    if back > 1 {
        forward = forward.larger(stages.middle.forward + sent(1, back, down));
        backward = backward.larger(stages.middle.backward + sent(0, back - 1, up));
    }
    let hops = borders.before(back) * (down + up + 2.0 * borders.apart());
    let again = f64::from(micro_batches - 1);
    Closed::exactly(stages.all_work() + (forward + backward) * again + hops)
}

/// The closed form over any stage times: `O(p)`.
pub(super) fn recurrence(
    pipeline: &Pipeline<'_>,
    micro_batches: u32,
    _scratch: &mut Scratch,
) -> f64 {
    over_any(pipeline, micro_batches)
}

/// The same for stages of any times.
pub(super) fn over_any(pipeline: &Pipeline<'_>, micro_batches: u32) -> f64 {
    let mut work = 0.0;
    let (mut forward, mut backward) = (0.0_f64, 0.0_f64);
    let count = pipeline.shape.stages;
    for stage in 0..count {
        let pass = pipeline.pass(stage, count);
        work += pass.both();
        if stage + 1 < count {
            work += 2.0 * pipeline.hop(stage);
        }
        forward = forward.max(pass.forward.value());
        backward = backward.max(pass.whole());
    }
    work + f64::from(micro_batches - 1) * (forward + backward)
}

/// All forwards, then all backwards (Huang et al. 2019).
pub(super) struct GPipe;

impl ScheduleRule for GPipe {
    fn name(&self) -> &'static str {
        "gpipe"
    }

    fn source(&self) -> &'static str {
        "Huang et al. 2019 (GPipe), section 2.3"
    }

    /// Every stage runs all forwards, then all backwards in the same order.
    fn order(
        &self,
        _shape: PipelineShape,
        micro_batches: u32,
        device: u32,
        order: &mut Vec<Operation>,
    ) {
        for work in [Work::Forward, Work::Backward] {
            order.extend((0..micro_batches).map(|m| Operation::new(work, device, m)));
        }
    }

    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        if pipeline.alike() {
            Makespan::exactly(over_any(pipeline, micro_batches))
        } else {
            let count = pipeline.shape.stages;
            Makespan::at_least(bound::whole_backward_bound(count, pipeline, micro_batches))
        }
    }

    fn in_flight(&self, _shape: PipelineShape, micro_batches: u32, _device: u32) -> u32 {
        micro_batches
    }
}

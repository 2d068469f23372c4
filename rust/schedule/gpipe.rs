//! When does a `GPipe` step end: all forwards, a turn at the last stage, all backwards (Huang et al. 2019)?

use super::stages::{Makespan, Operation, Pipeline, Scratch, Stages};
use crate::units::Seconds;

/// Closed form, exact for every input of this class.
///
/// `T = sum f_i + (m - 1) max f_i + sum b_i + (m - 1) max b_i + 2 (p - 1) hop`, seconds, for `p` stages
/// and `m` micro-batches: each half is a permutation flow shop whose jobs are all alike, so its
/// longest path runs along the slowest stage (Pinedo 2016, section 6.1).
pub(super) fn makespan(stages: &Stages, micro_batches: u32) -> Makespan {
    let count = u64::from(stages.count);
    let again = f64::from(micro_batches - 1);
    let slowest = |of: fn(&super::Pass) -> Seconds| {
        let end = if count > 1 {
            of(&stages.last)
        } else {
            Seconds::ZERO
        };
        let inner = if count > 2 {
            of(&stages.middle)
        } else {
            Seconds::ZERO
        };
        of(&stages.first).max(end).max(inner).value()
    };
    let hops = 2.0 * f64::from(stages.count - 1) * stages.hop.value();
    let repeated = again * (slowest(|pass| pass.forward) + slowest(|pass| pass.backward));
    Makespan {
        time: Seconds::new(stages.work_before(count) + repeated + hops),
        exact: true,
    }
}

/// The closed form over any stage times: `O(p)`.
pub(super) fn recurrence(
    pipeline: &Pipeline<'_>,
    micro_batches: u32,
    _scratch: &mut Scratch,
) -> f64 {
    let mut work = 0.0;
    let (mut forward, mut backward) = (0.0_f64, 0.0_f64);
    for pass in pipeline.passes {
        work += pass.both();
        forward = forward.max(pass.forward.value());
        backward = backward.max(pass.backward.value());
    }
    let hops = 2.0 * (pipeline.passes.len() - 1) as f64 * pipeline.hop.value();
    work + f64::from(micro_batches - 1) * (forward + backward) + hops
}

/// Every stage runs all forwards, then all backwards in the same order.
pub(super) fn order(micro_batches: u32) -> Vec<Operation> {
    let forward = (0..micro_batches).map(|micro_batch| Operation::Forward {
        micro_batch,
        chunk: 0,
    });
    let backward = (0..micro_batches).map(|micro_batch| Operation::Backward {
        micro_batch,
        chunk: 0,
    });
    forward.chain(backward).collect()
}

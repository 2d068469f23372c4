//! Stage times in; makespan, bubble and activations in flight out: one file per schedule.

mod gpipe;
mod interleaved;
mod one_forward_one_backward;
mod stages;

pub use stages::{Kind, Makespan, Operation, Pass, Pipeline, Scratch, Shape, Stages};

use crate::units::Seconds;

/// Micro-batches up to which a recurrence is run through.
const RUN_THROUGH: u32 = 16_384;

/// Makespan of one step in closed form: no allocation, time independent of the counts.
///
/// Where `exact` is false the time is a lower bound.
pub fn makespan(kind: Kind, stages: &Stages, micro_batches: u32) -> Makespan {
    let stages = kind.reads(stages);
    match kind {
        _ if micro_batches == 0 => Makespan::NOTHING,
        Kind::Interleaved if stages.chunks > 1 => interleaved::makespan(&stages, micro_batches),
        Kind::GPipe => gpipe::makespan(&stages, micro_batches),
        _ => one_forward_one_backward::makespan(&stages, micro_batches),
    }
}

/// Makespan of one step for any stage times, in O(stages x chunks x micro-batches).
pub fn recurrence(
    kind: Kind,
    pipeline: &Pipeline<'_>,
    micro_batches: u32,
    scratch: &mut Scratch,
) -> Seconds {
    let run = match kind {
        _ if micro_batches == 0 || pipeline.passes.is_empty() => return Seconds::ZERO,
        Kind::Interleaved if pipeline.chunks() > 1 => interleaved::recurrence,
        Kind::GPipe => gpipe::recurrence,
        _ => one_forward_one_backward::recurrence,
    };
    Seconds::new(run(pipeline, micro_batches, scratch))
}

/// Exact makespan of one step: the closed form where it is exact, else the recurrence.
pub fn step_time(
    kind: Kind,
    stages: &Stages,
    micro_batches: u32,
    scratch: &mut Scratch,
) -> Seconds {
    let closed = makespan(kind, stages, micro_batches);
    if closed.exact {
        return closed.time;
    }
    let mut passes = std::mem::take(&mut scratch.passes);
    let pipeline = kind.reads(stages).expand(&mut passes);
    let time = settled(kind, &pipeline, micro_batches, scratch);
    scratch.passes = passes;
    time.max(closed.time)
}

/// The recurrence, carried on along its last slope where there are very many micro-batches.
///
/// ```text
/// T(n) = T(a) + (n - a) / h (T(a) - T(a - h)),   a = n modulo p, at most `RUN_THROUGH`
/// ```
///
/// n: micro-batches; p: stages, the period of the order; h: half of a, a multiple of p. T is the
/// longest of many paths, each linear in n but for the period; once the busiest stage is always
/// busy its slope stays.
fn settled(
    kind: Kind,
    pipeline: &Pipeline<'_>,
    micro_batches: u32,
    scratch: &mut Scratch,
) -> Seconds {
    let stages = pipeline.stages.max(1);
    let end = RUN_THROUGH.max(stages.saturating_mul(4));
    if micro_batches <= end {
        return recurrence(kind, pipeline, micro_batches, scratch);
    }
    let last = end - (end - micro_batches % stages) % stages;
    let time = recurrence(kind, pipeline, last, scratch);
    let half = last / 2 / stages * stages;
    let before = recurrence(kind, pipeline, last - half, scratch);
    let slope = (time - before) / f64::from(half);
    time + slope * f64::from(micro_batches - last)
}

/// A time that the step cannot beat, in closed form.
pub fn lower_bound(kind: Kind, stages: &Stages, micro_batches: u32) -> Seconds {
    makespan(kind, stages, micro_batches).time
}

/// Idle time of the busiest stage within a step that takes `makespan`.
pub fn bubble(kind: Kind, stages: &Stages, micro_batches: u32, makespan: Seconds) -> Seconds {
    let rounds = kind.executed(micro_batches, stages.shape());
    let work = kind.reads(stages).busiest();
    (makespan - work * f64::from(rounds)).max(Seconds::ZERO)
}

/// Activations that `stage` holds at its peak, counted in micro-batches of one chunk.
pub fn in_flight(kind: Kind, stage: u32, shape: Shape, micro_batches: u32) -> u32 {
    match kind {
        Kind::GPipe => micro_batches,
        Kind::Interleaved if shape.chunks > 1 => {
            interleaved::in_flight(stage, shape, micro_batches)
        }
        _ => one_forward_one_backward::in_flight(stage, shape.stages, micro_batches),
    }
}

/// The operations of `stage` in the order in which it runs them.
pub fn order(kind: Kind, stage: u32, shape: Shape, micro_batches: u32) -> Vec<Operation> {
    match kind {
        Kind::GPipe => gpipe::order(micro_batches),
        Kind::Interleaved if shape.chunks > 1 => interleaved::order(stage, shape, micro_batches),
        _ => one_forward_one_backward::order(stage, shape.stages, micro_batches),
    }
}

//! Stage times in; makespan, bubble and activations in flight out: one file per schedule.

mod borders;
mod bound;
mod breadth_first;
mod chimera;
mod closed;
pub mod controller;
mod custom_order;
mod direct_feedback;
mod dual_pipe;
mod gpipe;
mod interleaved;
mod interleaved_unlike_hops;
mod interlocking;
pub mod layer_relay;
mod measures;
mod one_forward_one_backward;
mod operation;
pub mod partition;
mod pipedream;
mod pipedream_2bw;
mod pipeline;
mod pipelined_backpropagation;
pub mod progressive_freezing;
mod repeated;
mod replay;
mod report;
mod request;
mod rule;
mod run;
mod simulated;
mod sliced;
mod spelling;
mod stages;
pub mod swarm;
mod terapipe;
pub mod token_slices;
mod turns;
mod zero_bubble_h1;
mod zero_bubble_h2;
mod zero_bubble_v;

pub use borders::Borders;
pub use closed::{Closed, closed_forms, closed_forms_over};
pub use measures::{Bubble, Device, held};
pub use operation::{Gradient, Operation, Work};
pub use pipeline::{Hops, Passes, Pipeline, Sends, Size};
pub use pipelined_backpropagation::{Mitigation, mitigation_copies};
pub use report::ScheduleReport;
pub use request::Request;
pub use rule::{Schedule, ScheduleRule};
pub use run::{Run, interval, order, replay, run, run_order};
pub use simulated::{simulate, simulate_order};
pub use sliced::{SlicePasses, sliced_step};
pub use spelling::{read_order, spell};
pub use stages::{Makespan, Pass, PipelineShape, Scratch, Stages};

use crate::units::Seconds;

/// Micro-batches up to which a recurrence is run through.
const RUN_THROUGH: u32 = 16_384;
/// Operations up to which an order is laid out to be run through.
const LAID_OUT: u32 = 1 << 22;

/// Makespan of one step in closed form: no allocation.
///
/// Where `exact` is false the time is a lower bound.
pub fn makespan(kind: Schedule, stages: &Stages, micro_batches: u32) -> Makespan {
    if micro_batches == 0 {
        return Makespan::NOTHING;
    }
    let stages = kind.effective_stages(stages);
    // those that a search tries first need not be asked
    let plain = matches!(
        kind,
        Schedule::GPipe | Schedule::OneForwardOneBackward | Schedule::Interleaved
    );
    if !plain && (!kind.rule().flushes() || kind.rule().bypasses()) {
        let work = kind.busiest(&stages) * f64::from(micro_batches);
        return Makespan::at_least(work.value());
    }
    match kind {
        Schedule::Interleaved if stages.chunks > 1 => {
            interleaved::closed_form(&stages.plain(), micro_batches).into()
        }
        // one slice per micro-batch: the same order
        Schedule::GPipe | Schedule::TeraPipe => {
            gpipe::closed_form(&stages.plain(), micro_batches).into()
        }
        Schedule::OneForwardOneBackward | Schedule::Interleaved => {
            one_forward_one_backward::closed_form(&stages.plain(), micro_batches).into()
        }
        _ => bound(kind, &stages.pipeline(), micro_batches),
    }
}

/// A lower bound on a step for any stage times, in `O(virtual stages)`; exact where it says so.
pub fn bound(kind: Schedule, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
    if micro_batches == 0 {
        return Makespan::NOTHING;
    }
    kind.rule().bound(pipeline, micro_batches)
}

/// Makespan of one step for any stage times, in O(stages x chunks x micro-batches).
///
/// The pipeline must be one that the schedule's `check` lets through.
pub fn recurrence(
    kind: Schedule,
    pipeline: &Pipeline<'_>,
    micro_batches: u32,
    scratch: &mut Scratch,
) -> Seconds {
    if micro_batches == 0 || pipeline.shape.stages == 0 {
        return Seconds::ZERO;
    }
    let run = match (kind, pipeline.plain()) {
        (Schedule::GPipe, Some(_)) => gpipe::recurrence,
        (Schedule::BreadthFirst, Some(_)) => breadth_first::recurrence,
        (Schedule::Interleaved, Some(_)) if pipeline.shape.chunks > 1 => interleaved::recurrence,
        (
            Schedule::OneForwardOneBackward
            | Schedule::Interleaved
            | Schedule::PipeDream
            | Schedule::PipeDream2Bw,
            Some(_),
        ) => one_forward_one_backward::recurrence,
        // an order of the engine's own never waits in a circle
        _ => {
            let time = run::replay(kind, pipeline, micro_batches, scratch);
            return time.unwrap_or(Seconds::new(f64::INFINITY));
        }
    };
    Seconds::new(run(pipeline, micro_batches, scratch))
}

/// Exact time of one step: the closed form where it is exact, else the recurrence; where steps run
/// into one another, the time that one adds (`interval`).
pub fn step_time(
    kind: Schedule,
    stages: &Stages,
    micro_batches: u32,
    scratch: &mut Scratch,
) -> Seconds {
    let closed = makespan(kind, stages, micro_batches);
    if closed.exact {
        return closed.time;
    }
    let mut passes = std::mem::take(&mut scratch.passes);
    let read = kind.effective_stages(stages);
    let count = kind.rule().count(read.shape());
    let pipeline = read.expand_to(count, &mut passes);
    let time = recurrence_time(kind, &pipeline, micro_batches, scratch);
    scratch.passes = passes;
    time.max(closed.time)
}

/// The same over borders that are not alike, by the recurrence. Stages are given without their hops.
pub fn step_time_over(
    kind: Schedule,
    stages: &Stages,
    borders: &Borders,
    micro_batches: u32,
    scratch: &mut Scratch,
) -> Seconds {
    if micro_batches == 0 {
        return Seconds::ZERO;
    }
    let mut passes = std::mem::take(&mut scratch.passes);
    let mut hops = std::mem::take(&mut scratch.hops);
    let read = kind.effective_stages(stages);
    let count = kind.rule().count(read.shape());
    let shape = read.expand_to(count, &mut passes).shape;
    borders.apply(&mut passes, &mut hops);
    let mut pipeline = Pipeline::new(shape, Passes::Each(&passes), Seconds::ZERO);
    if borders.apart() > 0.0 {
        pipeline.hops = Hops::Each(&hops);
    }
    let time = recurrence_time(kind, &pipeline, micro_batches, scratch);
    (scratch.passes, scratch.hops) = (passes, hops);
    time
}

/// Time of one step by its recurrence; where steps run into one another, the time that one adds.
fn recurrence_time(
    kind: Schedule,
    pipeline: &Pipeline<'_>,
    micro_batches: u32,
    scratch: &mut Scratch,
) -> Seconds {
    if kind.rule().flushes() {
        step_time_extrapolated(kind, pipeline, micro_batches, scratch)
    } else {
        steady_period(kind, pipeline, scratch) * f64::from(micro_batches)
    }
}

/// The step's time by its recurrence, carried on along its last slope where there are very many micro-batches.
///
/// ```text
/// T(n) = T(a) + (n - a) / h (T(a) - T(a - h)),   a = n modulo p, at most `RUN_THROUGH`
/// ```
///
/// n: micro-batches; p: stages, the period of the order; h: half of a, a multiple of p. T is the
/// longest of many paths, each linear in n but for the period; once the busiest stage is always
/// busy its slope stays.
pub fn step_time_extrapolated(
    kind: Schedule,
    pipeline: &Pipeline<'_>,
    micro_batches: u32,
    scratch: &mut Scratch,
) -> Seconds {
    let stages = kind.rule().period(pipeline.shape).max(1);
    let passes = pipeline.shape.parts().saturating_mul(pipeline.shape.slices);
    let laid_out = LAID_OUT / passes.max(1);
    let end = RUN_THROUGH.min(laid_out).max(stages.saturating_mul(4));
    let mut step = |micro_batches| {
        if kind.rule().bypasses() {
            let time = interval(kind, pipeline, micro_batches, scratch);
            time.unwrap_or(Seconds::new(f64::INFINITY))
        } else {
            recurrence(kind, pipeline, micro_batches, scratch)
        }
    };
    if micro_batches <= end {
        return step(micro_batches);
    }
    let last = end - (end - micro_batches % stages) % stages;
    let time = step(last);
    let half = last / 2 / stages * stages;
    let before = step(last - half);
    let slope = (time - before) / f64::from(half);
    time + slope * f64::from(micro_batches - last)
}

/// Seconds that a micro-batch adds once the pipeline is full: the slope of the recurrence.
pub fn steady_period(kind: Schedule, pipeline: &Pipeline<'_>, scratch: &mut Scratch) -> Seconds {
    let round = kind.rule().period(pipeline.shape).max(1);
    let parts = pipeline.shape.parts().max(1);
    let far = (4 * parts).next_multiple_of(round);
    let plain = Pipeline {
        sizes: &[],
        ..*pipeline
    };
    let before = recurrence(kind, &plain, far, scratch);
    let after = recurrence(kind, &plain, 2 * far, scratch);
    (after - before) / f64::from(far)
}

/// A time that the step cannot beat, in closed form.
pub fn lower_bound(kind: Schedule, stages: &Stages, micro_batches: u32) -> Seconds {
    makespan(kind, stages, micro_batches).time
}

/// Idle time of the busiest stage within a step that takes `makespan`.
pub fn bubble(kind: Schedule, stages: &Stages, micro_batches: u32, makespan: Seconds) -> Seconds {
    let (rule, read) = (kind.rule(), kind.effective_stages(stages));
    let shape = read.shape();
    let rounds = f64::from(rule.executed(shape, micro_batches));
    let work = match rule.copies(shape) {
        1 => kind.busiest(stages) * rounds,
        copies => {
            let pairs = |device| f64::from(rule.pairs(shape, micro_batches, device));
            read.busiest_of_copies(f64::from(copies), rounds, pairs)
        }
    };
    (makespan - work).max(Seconds::ZERO)
}

/// Activations that `stage` holds at its peak, counted in micro-batches of one chunk.
pub fn in_flight(kind: Schedule, stage: u32, shape: PipelineShape, micro_batches: u32) -> u32 {
    kind.rule().in_flight(shape, micro_batches, stage)
}

impl Schedule {
    /// Work of the busiest device on one micro-batch.
    fn busiest(self, stages: &Stages) -> Seconds {
        let read = self.effective_stages(stages);
        let (rule, shape) = (self.rule(), read.shape());
        let last = rule.count(shape).saturating_sub(1);
        if last > 0 && rule.device(shape, 0, 0) == rule.device(shape, last, 0) {
            read.busiest_folded()
        } else {
            read.busiest()
        }
    }

    /// The stages as this schedule runs them: one chunk each unless it deals several, the backward
    /// pass whole unless it splits it.
    fn effective_stages(self, stages: &Stages) -> Stages {
        if matches!(self, Self::GPipe | Self::OneForwardOneBackward) {
            return Stages {
                chunks: 1,
                ..*stages
            }
            .merged();
        }
        let one = self.rule().chunks() == 1;
        let chunks = if one { 1 } else { stages.chunks };
        let read = Stages { chunks, ..*stages };
        if self.rule().splits() {
            read
        } else {
            read.merged()
        }
    }
}

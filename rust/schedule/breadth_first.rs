//! When does a breadth-first step end: every chunk runs all micro-batches before the next (Lamy-Poirier 2022)?

use super::bound::{self, StageTimes};
use super::gpipe::GPipe;
use super::operation::{Operation, Work};
use super::pipeline::Pipeline;
use super::rule::ScheduleRule;
use super::stages::{Makespan, PipelineShape, Scratch};
use crate::error::Result;

/// All micro-batches through one chunk, then through the next; backwards from the last chunk.
pub(super) struct BreadthFirst;

/// Devices whose clocks a bound keeps without allocating.
const AT_ONCE: usize = 128;

/// Seconds of a step of alike stages without hops.
///
/// ```text
/// T = ((v - 1) max(p, m) + p - 1 + m) (f + b)
/// ```
///
/// p: devices; v: chunks per device; m: micro-batches; f, b: seconds of a forward and a backward
/// pass of one chunk. With `m < p` a chunk waits until the first micro-batch has come round the
/// devices. For `m >= p` the bubble is `(p - 1) / (v m)` of the work (Lamy-Poirier 2022, section 4).
fn of_alike(shape: PipelineShape, micro_batches: u32, both: f64) -> f64 {
    let [p, v, m] = [shape.stages, shape.chunks, micro_batches].map(f64::from);
    ((v - 1.0) * p.max(m) + p - 1.0 + m) * both
}

/// The end of the step for any stages and borders, micro-batches being alike: `O(p v)`.
pub(super) fn recurrence(
    pipeline: &Pipeline<'_>,
    micro_batches: u32,
    scratch: &mut Scratch,
) -> f64 {
    scratch.reset(pipeline.shape.stages as usize);
    sweep_end(pipeline, micro_batches, &mut scratch.clock)
}

/// Exact for any stages and borders where micro-batches are alike and only receivers wait; `clocks`
/// hold a zero for each device.
///
/// With `F` of the first and `L` of the last micro-batch's end on virtual stage `s`:
///
/// ```text
/// F(s) = max(F(s - 1) + hop, L(s - p)) + t(s)
/// L(s) = max(F(s) + (m - 1) t(s), L(s - 1) + hop + t(s))
/// ```
///
/// t: seconds of a pass; p: devices; m: micro-batches. All micro-batches being alike, a longest
/// path through one chunk's sweep waits at one stage only (Pinedo 2016, section 6.1). Backwards
/// the same from the last stage down, each device free once its last forward has ended.
fn sweep_end(pipeline: &Pipeline<'_>, micro_batches: u32, clocks: &mut [f64]) -> f64 {
    let count = pipeline.shape.parts();
    let line = StageTimes::new(count, pipeline, micro_batches);
    let again = f64::from(micro_batches.saturating_sub(1));
    let mut sweep = |stage: u32, time: f64, [first, last]: [f64; 2]| {
        let device = (stage % pipeline.shape.stages) as usize;
        let first = first.max(clocks[device]) + time;
        let last = (first + again * time).max(last + time);
        clocks[device] = last;
        [first, last]
    };
    let mut ends = [0.0; 2];
    for stage in 0..count {
        let hop = line.hop(stage);
        ends = sweep(stage, line.pass(stage).forward.value(), ends).map(|end| end + hop);
    }
    ends = [0.0; 2];
    for stage in (0..count).rev() {
        let hop = line.hop(stage);
        ends = sweep(stage, line.pass(stage).whole(), ends.map(|end| end + hop));
    }
    ends[1]
}

impl ScheduleRule for BreadthFirst {
    fn name(&self) -> &'static str {
        "breadth-first"
    }

    fn source(&self) -> &'static str {
        "Lamy-Poirier 2022 (Breadth-First Pipeline Parallelism), section 4"
    }

    fn chunks(&self) -> u32 {
        2
    }

    fn check(&self, _shape: PipelineShape, _micro_batches: u32) -> Result<()> {
        Ok(())
    }

    /// Chunk after chunk, micro-batches in the same order in all of them.
    fn order(
        &self,
        shape: PipelineShape,
        micro_batches: u32,
        device: u32,
        order: &mut Vec<Operation>,
    ) {
        let of = |work, chunk| {
            let stage = chunk * shape.stages + device;
            (0..micro_batches).map(move |m| Operation::new(work, stage, m))
        };
        order.extend((0..shape.chunks).flat_map(|chunk| of(Work::Forward, chunk)));
        order.extend(
            (0..shape.chunks)
                .rev()
                .flat_map(|chunk| of(Work::Backward, chunk)),
        );
    }

    /// Exact where micro-batches are alike and only receivers wait for sends.
    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        let shape = pipeline.shape;
        let count = shape.parts();
        if shape.chunks == 1 {
            return GPipe.bound(pipeline, micro_batches);
        }
        if pipeline.alike() && pipeline.uniform(count) {
            let both = pipeline.pass(0, count).both();
            return Makespan::exactly(of_alike(shape, micro_batches, both));
        }
        let mut clocks = [0.0; AT_ONCE];
        match clocks.get_mut(..shape.stages as usize) {
            Some(clocks) if pipeline.alike() => {
                Makespan::exactly(sweep_end(pipeline, micro_batches, clocks))
            }
            _ => Makespan::at_least(bound::whole_backward_bound(count, pipeline, micro_batches)),
        }
    }

    /// Every chunk of every micro-batch.
    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, _device: u32) -> u32 {
        micro_batches.saturating_mul(shape.chunks)
    }
}

//! When does a step end whose losses stand on every stage and reach back over a window (Gomez et al. 2022)?

use super::bound::StageTimes;
use super::operation::{Gradient, Operation, Work};
use super::pipeline::{Pipeline, Sends, Size};
use super::rule::ScheduleRule;
use super::stages::{Makespan, PipelineShape};
use crate::error::{Error, Result};
use crate::units::Seconds;

/// Local losses, each carried back over `window` stages; a stage's weights learn from the farthest.
///
/// With a window of one this is local learning; with as many as there are stages it is as deep as
/// backpropagation from the end, which is then one loss among others. One micro-batch takes
/// `p F + k (B + W)` and not `p (F + B + W)`, for a window of `k` on alike stages whose backward
/// passes are whole: depth falls to the window.
pub(super) struct Interlocking;

/// Losses that reach a stage: its own and those of the stages after it.
fn losses(shape: PipelineShape, stage: u32) -> u32 {
    shape.window.min(shape.stages.saturating_sub(stage))
}

/// What bounds the passes of one step.
struct Paths<'p, 'a> {
    line: StageTimes<'p, 'a>,
    pipeline: &'p Pipeline<'a>,
    micro_batches: u32,
    total: Size,
    least: Size,
    most: Size,
}

impl Paths<'_, '_> {
    /// Backward pass of the loss `offset` stages on: seconds per length, and of its blocking send.
    fn local(&self, stage: u32, offset: u32) -> [f64; 2] {
        let (shape, pass) = (self.pipeline.shape, self.line.pass(stage));
        let learns = offset + 1 == losses(shape, stage);
        let weight = if learns { pass.weight.value() } else { 0.0 };
        let carried = offset + 1 < shape.window.min(shape.stages);
        let sent = if carried {
            self.line.sent_back(stage)
        } else {
            0.0
        };
        [pass.backward.value() + weight, sent]
    }

    /// A stage's work on all micro-batches, and what of it comes before the last one's forward.
    fn work(&self, stage: u32) -> [f64; 2] {
        let count = f64::from(self.micro_batches);
        let forward = self.line.pass(stage).forward.value();
        let sent = self.line.sent(stage);
        let mut all = forward * self.total.forward + sent * count;
        let mut before = forward * (self.total.forward - self.most.forward) + sent * (count - 1.0);
        for offset in 0..losses(self.pipeline.shape, stage) {
            let [local, sent] = self.local(stage, offset);
            all += local * self.total.backward + sent * count;
            let left = f64::from(offset + 1);
            before += local * (self.total.backward - left * self.most.backward).max(0.0)
                + sent * (count - left).max(0.0);
        }
        [all, before]
    }

    /// The last micro-batch's forward on `stage` and its loss's way back over the window.
    fn back(&self, stage: u32) -> f64 {
        let forward = self.line.pass(stage).forward.value() * self.least.forward;
        let held = self.line.sent(stage);
        let mut way = forward + held;
        for offset in 0..self.pipeline.shape.window.min(stage + 1) {
            let at = stage - offset;
            let [local, sent] = self.local(at, offset);
            way += local * self.least.backward + sent;
            if offset > 0 && self.pipeline.sends == Sends::Asynchronous {
                way += self.line.hop(at);
            }
        }
        way
    }
}

impl ScheduleRule for Interlocking {
    fn name(&self) -> &'static str {
        "interlocking"
    }

    fn source(&self) -> &'static str {
        "Gomez et al. 2022 (Interlocking Backpropagation), arXiv 2010.04116"
    }

    fn check(&self, shape: PipelineShape, _micro_batches: u32) -> Result<()> {
        super::rule::one_chunk(self.name(), shape)?;
        if shape.window > 0 {
            return Ok(());
        }
        let allowed = "1 or more: the stages over which a local loss is carried back";
        Err(Error::invalid("window", shape.window, allowed))
    }

    fn gradient(&self, shape: PipelineShape) -> Gradient {
        Gradient::Window(shape.window.min(shape.stages))
    }

    /// All but the farthest loss need gradients of inputs alone.
    fn splits(&self) -> bool {
        true
    }

    /// Turn `t` runs forward `t`, then the loss `o` stages on of micro-batch `t - o`, nearest first:
    /// what it waits for was run a turn before on the stage after.
    fn order(
        &self,
        shape: PipelineShape,
        micro_batches: u32,
        device: u32,
        order: &mut Vec<Operation>,
    ) {
        let losses = losses(shape, device);
        for turn in 0..micro_batches.saturating_add(losses.saturating_sub(1)) {
            if turn < micro_batches {
                order.push(Operation::new(Work::Forward, device, turn));
            }
            for offset in 0..losses.min(turn + 1) {
                let micro_batch = turn - offset;
                if micro_batch < micro_batches {
                    order.push(Operation::new(Work::Local(offset), device, micro_batch));
                }
            }
        }
    }

    /// ```text
    /// E_s = max( E_(s-1) + d_(s-1),  sum_(r<s) d_r + before_s )
    /// T >= max over s of  E_s + rest_s,  E_s + F_s + sum_(o<k) (L_(s-o,o) + hop)
    /// ```
    ///
    /// Seconds. E: start of the last micro-batch's forward; d: a forward with the hop behind it;
    /// before, rest: work of stage s before and from it on; `L_(s,o)`: backward pass of the loss o
    /// stages on; k: window. In `O(stages x window)`.
    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        if micro_batches == 0 {
            return Makespan::NOTHING;
        }
        let count = pipeline.shape.stages;
        let (total, least) = pipeline.lengths(micro_batches);
        let paths = Paths {
            line: StageTimes::new(count, pipeline, micro_batches),
            pipeline,
            micro_batches,
            total,
            least,
            most: pipeline.longest(micro_batches),
        };
        let (mut fill, mut last, mut longest) = (0.0, 0.0_f64, 0.0_f64);
        for stage in 0..count {
            let [all, before] = paths.work(stage);
            last = last.max(fill + before);
            longest = longest.max(fill + all).max(last + paths.back(stage));
            if pipeline.sizes.is_empty() {
                longest = longest.max(last + all - before);
            }
            fill += paths.line.down(stage);
            last += paths.line.down(stage);
        }
        let pass = pipeline.pass(0, count);
        let alike = pipeline.uniform(count) && pipeline.alike();
        let known = pass.balanced() || pass.weight == Seconds::ZERO;
        Makespan {
            time: Seconds::new(longest),
            exact: alike && known,
        }
    }

    /// `min(k, p - i, m)` micro-batches: until the farthest loss has come back.
    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        losses(shape, device).min(micro_batches)
    }
}

//! When does a `DualPipe` step end: pipelines both ways, forward and backward passes in pairs (`DeepSeek-AI` 2024)?
//!
//! Device `d` of `p` holds stage `d` of a pipeline down and stage `p - 1 - d` of one up. The one
//! nearer to its front is called near here, at `i = min(d, p - 1 - d)`, the other one far. Even
//! micro-batches run down, odd ones up.

use super::bound::{Shares, StageTimes};
use super::operation::{Operation, Work};
use super::pipeline::Pipeline;
use super::rule::ScheduleRule;
use super::stages::{Makespan, Pass, PipelineShape};
use crate::error::{Error, Result};
use std::collections::VecDeque;

/// Pipelines both ways, forward passes of one paired with backward passes of the other.
pub(super) struct DualPipe;

impl ScheduleRule for DualPipe {
    fn name(&self) -> &'static str {
        "dualpipe"
    }

    fn source(&self) -> &'static str {
        "DeepSeek-AI 2024 (DeepSeek-V3), section 3.2.1; github.com/deepseek-ai/DualPipe"
    }

    fn chunks(&self) -> u32 {
        2
    }

    fn check(&self, shape: PipelineShape, micro_batches: u32) -> Result<()> {
        let PipelineShape { stages, chunks, .. } = shape;
        if stages == 0 || !stages.is_multiple_of(2) {
            let allowed = "an even number: dualpipe runs pipelines both ways";
            return Err(Error::invalid("stages", stages, allowed));
        }
        if chunks != 2 {
            let allowed = "2: dualpipe holds one stage of each of two pipelines on a device";
            return Err(Error::invalid("chunks", chunks, allowed));
        }
        let least = stages.saturating_mul(2);
        if !micro_batches.is_multiple_of(2) || micro_batches < least {
            let allowed = format!(
                "an even number of {least} or more: dualpipe runs at least as many micro-batches \
                 each way as there are stages"
            );
            return Err(Error::invalid("micro_batches", micro_batches, allowed));
        }
        Ok(())
    }

    fn count(&self, shape: PipelineShape) -> u32 {
        shape.stages
    }

    fn device(&self, shape: PipelineShape, stage: u32, micro_batch: u32) -> u32 {
        if micro_batch.is_multiple_of(2) {
            stage
        } else {
            shape.stages.saturating_sub(stage + 1)
        }
    }

    fn order(
        &self,
        shape: PipelineShape,
        micro_batches: u32,
        device: u32,
        order: &mut Vec<Operation>,
    ) {
        let (half, each) = (shape.stages / 2, micro_batches / 2);
        let mut turns = DeviceOrder::new(shape, device, order);
        let from_front = turns.stages[NEAR];
        let from_middle = half.saturating_sub(from_front + 1);
        for _ in 0..2 * from_middle {
            turns.forward(NEAR);
        }
        for _ in 0..=from_front {
            turns.forward(NEAR);
            turns.forward(FAR);
        }
        for _ in 0..from_middle {
            turns.input(FAR);
            turns.weight();
            turns.forward(FAR);
        }
        for turn in 0..(each + from_front + 1).saturating_sub(shape.stages) {
            if turn == 0 && from_middle == 0 {
                turns.forward(NEAR);
                turns.backward(FAR);
            } else {
                turns.pair(NEAR, FAR);
            }
            turns.pair(FAR, NEAR);
        }
        for _ in 0..from_middle {
            turns.backward(FAR);
            turns.pair(FAR, NEAR);
        }
        // the second half leaves its weight gradients for the ramp
        for turn in 0..2 * (from_front + 1) {
            let lane = if turn.is_multiple_of(2) { FAR } else { NEAR };
            if turn <= from_front {
                turns.backward(lane);
            } else {
                turns.input(lane);
            }
        }
        for _ in 0..from_middle {
            turns.weight();
            turns.input(NEAR);
        }
        for _ in 0..=from_front {
            turns.weight();
        }
    }

    fn period(&self, _shape: PipelineShape) -> u32 {
        2
    }

    fn splits(&self) -> bool {
        true
    }

    /// Exact on alike stages without hops where forward pass and input gradients take the same time
    /// and weight gradients no longer.
    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        let count = pipeline.shape.stages;
        let pass = pipeline.pass(0, count);
        let ramps_fit = pass.forward == pass.backward
            && pass.weight <= pass.forward
            && pass.hidden <= pass.forward;
        if ramps_fit && pipeline.uniform(count) && pipeline.alike() {
            return Makespan::exactly(of_alike(count, micro_batches, pass));
        }
        Makespan::at_least(busiest(pipeline, micro_batches))
    }

    /// `p + 1` on every device (`DualPipe`, table of its README).
    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, _device: u32) -> u32 {
        shape.stages.saturating_add(1).min(micro_batches)
    }

    fn runs_pairs(&self) -> bool {
        true
    }

    fn pairs(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        let from_front = device.min(shape.stages.saturating_sub(device + 1));
        let from_middle = (shape.stages / 2).saturating_sub(from_front + 1);
        let turns = (micro_batches / 2 + from_front + 1).saturating_sub(shape.stages);
        let alone = u32::from(from_middle == 0 && turns > 0);
        2 * turns + from_middle - alone
    }

    fn copies(&self, _shape: PipelineShape) -> u32 {
        2
    }
}

/// Seconds of a step of alike stages without hops, `F = I >= W`.
///
/// ```text
/// T = m (F + B) - (m - p - 1) s + (p / 2 - 1) (F&B + B - 3 W)
/// ```
///
/// p: devices, m: micro-batches; F, I, W: seconds of forward pass, input and weight gradients;
/// `B = I + W`; s: what a pair saves, `F&B = F + B - s`. The first two terms are what the devices in
/// the middle run, `m - p - 1` of it in pairs; the last one is the published bubble (`DeepSeek-V3`,
/// table 2).
fn of_alike(stages: u32, micro_batches: u32, pass: Pass) -> f64 {
    let [p, m] = [stages, micro_batches].map(f64::from);
    let both = pass.both();
    let saved = pass.hidden.value();
    let bubble = both - saved + pass.whole() - 3.0 * pass.weight.value();
    m * both - (m - p - 1.0) * saved + (p / 2.0 - 1.0) * bubble
}

/// What a device runs less what its pairs save, after the shortest way to it.
///
/// ```text
/// T >= max over i of  sum_(r<i) u_r + work_i - n_i min(s_i, s_(p-1-i))
/// ```
///
/// Seconds; u: forward pass of the shortest micro-batch with the hop behind it, n: pairs, s: what one
/// saves on a stage, p: devices.
fn busiest(pipeline: &Pipeline<'_>, micro_batches: u32) -> f64 {
    let count = pipeline.shape.stages;
    let line = StageTimes::new(count, pipeline, micro_batches);
    let shares = Shares::new(pipeline, micro_batches, 2, 1);
    let (mut before, mut longest) = (0.0, 0.0_f64);
    for near in 0..count / 2 {
        let far = count - 1 - near;
        let work =
            |down, up| line.work_of(near, shares.of(down)) + line.work_of(far, shares.of(up));
        let [own, other] = [near, far].map(|stage| line.pass(stage).hidden.value());
        let saved = f64::from(DualPipe.pairs(pipeline.shape, micro_batches, near)) * own.min(other);
        longest = longest.max(before + work(0, 1).max(work(1, 0)) - saved);
        before += line.down(near);
    }
    longest
}

/// The pipeline whose front is nearer to the device.
const NEAR: usize = 0;
/// The other one.
const FAR: usize = 1;

/// A device's order while it is laid out.
struct DeviceOrder<'a> {
    order: &'a mut Vec<Operation>,
    /// Stages on the device, near and far.
    stages: [u32; 2],
    /// Next micro-batch to go forward, near and far.
    forwards: [u32; 2],
    /// Next micro-batch to go backward, near and far.
    backwards: [u32; 2],
    /// Weight gradients that are left, oldest first.
    left: VecDeque<Operation>,
}

impl<'a> DeviceOrder<'a> {
    fn new(shape: PipelineShape, device: u32, order: &'a mut Vec<Operation>) -> Self {
        let across = shape.stages.saturating_sub(device + 1);
        let down_is_near = device < across;
        let first = [u32::from(!down_is_near), u32::from(down_is_near)];
        Self {
            order,
            stages: [device.min(across), device.max(across)],
            forwards: first,
            backwards: first,
            left: VecDeque::new(),
        }
    }

    fn forward(&mut self, lane: usize) {
        let operation = Operation::new(Work::Forward, self.stages[lane], self.forwards[lane]);
        self.forwards[lane] += 2;
        self.order.push(operation);
    }

    fn backward(&mut self, lane: usize) {
        self.back(Work::Backward, lane);
    }

    /// Gradients of inputs alone.
    fn input(&mut self, lane: usize) {
        let operation = self.back(Work::Input, lane);
        self.left.push_back(operation);
    }

    fn back(&mut self, work: Work, lane: usize) -> Operation {
        let operation = Operation::new(work, self.stages[lane], self.backwards[lane]);
        self.backwards[lane] += 2;
        self.order.push(operation);
        operation
    }

    /// The oldest weight gradients that are left.
    fn weight(&mut self) {
        let oldest = self.left.pop_front();
        self.order.extend(oldest.map(|input| Operation {
            work: Work::Weight,
            ..input
        }));
    }

    /// A forward pass together with a backward pass.
    fn pair(&mut self, forward: usize, backward: usize) {
        self.forward(forward);
        if let Some(last) = self.order.last_mut() {
            *last = last.with_next();
        }
        self.backward(backward);
    }
}

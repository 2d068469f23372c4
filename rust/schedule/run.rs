//! What happens in a step, operation by operation?

use super::custom_order;
use super::operation::{Operation, Work};
use super::pipeline::Pipeline;
use super::replay::{Extent, Replay};
use super::rule::Schedule;
use super::stages::{PipelineShape, Scratch};
use super::steady_period;
use crate::error::{Error, Result};
use crate::units::Seconds;

/// A step, operation by operation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// Operations of each device in the order in which it runs them.
    pub orders: Vec<Vec<Operation>>,
    /// Start and end of each of them, seconds.
    pub spans: Vec<Vec<[f64; 2]>>,
    /// End of the last one.
    pub makespan: Seconds,
}

/// The operations of `device` in the order in which it runs them.
pub fn order(
    kind: Schedule,
    device: u32,
    shape: PipelineShape,
    micro_batches: u32,
) -> Vec<Operation> {
    let mut order = Vec::new();
    if micro_batches > 0 {
        kind.rule().order(shape, micro_batches, device, &mut order);
    }
    order
}

/// Makespan of a schedule, its order laid out and run.
pub fn replay(
    kind: Schedule,
    pipeline: &Pipeline<'_>,
    micro_batches: u32,
    scratch: &mut Scratch,
) -> Result<Seconds> {
    lay(kind, pipeline, micro_batches, scratch);
    let extent = kind.extent(pipeline.shape, micro_batches);
    scratch.replay.run(extent, pipeline).map(Seconds::new)
}

/// Lays out the order of every device.
fn lay(kind: Schedule, pipeline: &Pipeline<'_>, micro_batches: u32, scratch: &mut Scratch) {
    let replay = &mut scratch.replay;
    replay.clear();
    for device in 0..pipeline.shape.stages {
        kind.rule().order(
            pipeline.shape,
            micro_batches,
            device,
            &mut replay.operations,
        );
        replay.end_device();
    }
}

/// Seconds from one step to the next where no device waits for the others in between.
///
/// Where a pipeline is emptied between steps this is what a step adds when the order is run over and over: with the
/// optimizer's synchronisation bypassed, a device goes on to the next step at once (Qi et al. 2023, section 4).
/// Where a pipeline is not emptied it is what the micro-batches add once it is full.
///
/// Fails where the schedule cannot run this shape or these micro-batches.
pub fn interval(
    kind: Schedule,
    pipeline: &Pipeline<'_>,
    micro_batches: u32,
    scratch: &mut Scratch,
) -> Result<Seconds> {
    kind.rule().check(pipeline.shape, micro_batches)?;
    if !kind.rule().flushes() {
        return Ok(steady_period(kind, pipeline, scratch) * f64::from(micro_batches));
    }
    if !kind.rule().bypasses() {
        return replay(kind, pipeline, micro_batches, scratch);
    }
    lay(kind, pipeline, micro_batches, scratch);
    let extent = kind.extent(pipeline.shape, micro_batches);
    let step = scratch.replay.repeated(extent, pipeline)?;
    Ok(Seconds::new(step))
}

/// A step of a schedule with the start and end of each operation.
///
/// Fails where the schedule cannot run this shape or these micro-batches.
pub fn run(kind: Schedule, pipeline: &Pipeline<'_>, micro_batches: u32) -> Result<Run> {
    kind.rule().check(pipeline.shape, micro_batches)?;
    let mut scratch = Scratch::new();
    let makespan = replay(kind, pipeline, micro_batches, &mut scratch)?;
    Ok(scratch.replay.unpack(makespan))
}

/// A step in an order that the caller brings: one list of operations per device.
///
/// `extent`: virtual stages and micro-batches. Fails where an operation is missing, stands twice, or
/// waits in a circle, naming it.
pub fn run_order(
    orders: &[Vec<Operation>],
    extent: (u32, u32),
    gradient: super::Gradient,
    pipeline: &Pipeline<'_>,
) -> Result<Run> {
    let (stages, micro_batches) = extent;
    let mut replay = Replay::default();
    replay.clear();
    for order in orders {
        replay.operations.extend_from_slice(order);
        replay.end_device();
    }
    let extent = Extent {
        stages,
        micro_batches,
        gradient,
    };
    replay.complete(extent)?;
    let makespan = replay.run(extent, pipeline)?;
    custom_order::check_backwards(orders, extent)?;
    Ok(replay.unpack(Seconds::new(makespan)))
}

impl Schedule {
    /// Counts that an order of this schedule is laid out over.
    pub(super) fn extent(self, shape: PipelineShape, micro_batches: u32) -> Extent {
        let rule = self.rule();
        Extent {
            stages: rule.count(shape),
            micro_batches: rule.executed(shape, micro_batches),
            gradient: rule.gradient(shape),
        }
    }
}

impl Replay {
    /// Orders and spans by device.
    fn unpack(&self, makespan: Seconds) -> Run {
        let ranges = self.begins.windows(2);
        let ranges = ranges.map(|pair| pair[0] as usize..pair[1] as usize);
        Run {
            orders: ranges
                .clone()
                .map(|r| self.operations[r].to_vec())
                .collect(),
            spans: ranges.map(|r| self.spans[r].to_vec()).collect(),
            makespan,
        }
    }

    /// Fails unless every stage runs every micro-batch forward once and no result is made twice.
    fn complete(&self, extent: Extent) -> Result<()> {
        let mut made = std::collections::BTreeSet::new();
        for (device, pair) in self.begins.windows(2).enumerate() {
            let run = &self.operations[pair[0] as usize..pair[1] as usize];
            for (place, operation) in run.iter().enumerate() {
                let end = operation.micro_batch.saturating_add(operation.span);
                for micro_batch in operation.micro_batch..end.min(extent.micro_batches) {
                    let key = |work: Work| (work.lane(), operation.stage, micro_batch);
                    // the whole backward pass yields the gradients of weights too
                    let again = !made.insert(key(operation.work))
                        || operation.work == Work::Backward && !made.insert(key(Work::Weight));
                    if again {
                        return Err(Error::inconsistent(format!(
                            "order: device {device} runs {operation} at place {place}, which an \
                             operation before has run: each must stand once"
                        )));
                    }
                }
            }
        }
        for stage in 0..extent.stages {
            for micro_batch in 0..extent.micro_batches {
                if !made.contains(&(0, stage, micro_batch)) {
                    return Err(Error::inconsistent(format!(
                        "order: no device runs the forward pass of micro-batch {micro_batch} on \
                         stage {stage}; every stage must run every micro-batch"
                    )));
                }
            }
        }
        Ok(())
    }
}

//! When does each operation of an order end, if devices run theirs in turn?

use super::operation::{Gradient, Operation, Work};
use super::pipeline::{Pipeline, Sends};
use crate::error::{Error, Result};

/// Not ended yet.
const PENDING: f64 = -1.0;
/// No device.
const NOBODY: u32 = u32::MAX;

/// Orders of all devices and what is known while they run; kept so that repeated runs do not allocate.
#[derive(Debug, Clone, Default)]
pub(super) struct Replay {
    /// Operations, device after device.
    pub(super) operations: Vec<Operation>,
    /// Where each device's operations begin; one more than devices.
    pub(super) begins: Vec<u32>,
    /// Start and end of each operation, seconds.
    pub(super) spans: Vec<[f64; 2]>,
    /// End of each result by kind, stage, micro-batch; `PENDING` where it is still to come.
    ended: Vec<f64>,
    /// Device of each forward pass by stage, micro-batch.
    owner: Vec<u32>,
    next: Vec<u32>,
    /// End of each device's last operation, seconds.
    pub(super) clock: Vec<f64>,
    /// Ends of an earlier step, where steps are repeated.
    pub(super) base: Vec<f64>,
    parked: Vec<bool>,
    awake: Vec<u32>,
}

/// The counts that an order is laid out over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// Virtual stages.
    pub(super) stages: u32,
    /// Micro-batches, rounds filled up.
    pub(super) micro_batches: u32,
    /// Where gradients come from.
    pub(super) gradient: Gradient,
}

impl Replay {
    /// Empties the orders.
    pub(super) fn clear(&mut self) {
        self.operations.clear();
        self.begins.clear();
        self.begins.push(0);
    }

    /// Ends a device's order.
    pub(super) fn end_device(&mut self) {
        let count = u32::try_from(self.operations.len()).unwrap_or(u32::MAX);
        self.begins.push(count);
    }

    /// Runs the orders and gives the end of the last operation.
    ///
    /// Fails where an operation waits for one that never ends. `O(operations)`: a device runs on
    /// until it must wait, and is looked at again when what it may wait for has ended.
    pub(super) fn run(&mut self, extent: Extent, pipeline: &Pipeline<'_>) -> Result<f64> {
        self.clock.clear();
        self.clock.resize(self.begins.len() - 1, 0.0);
        self.resume(extent, pipeline)
    }

    /// The same where each device begins when it has ended the step before.
    pub(super) fn resume(&mut self, extent: Extent, pipeline: &Pipeline<'_>) -> Result<f64> {
        self.prepare(extent)?;
        while let Some(device) = self.awake.pop() {
            self.advance(device as usize, extent, pipeline);
        }
        let devices = self.begins.len() - 1;
        match (0..devices).find(|&d| self.next[d] < self.begins[d + 1]) {
            Some(device) => Err(self.deadlock(device, extent)),
            None => Ok(self.clock.iter().fold(0.0, |last, end| end.max(last))),
        }
    }

    fn prepare(&mut self, extent: Extent) -> Result<()> {
        let devices = self.begins.len() - 1;
        let cells = extent.stages as usize * extent.micro_batches as usize;
        self.ended.clear();
        self.ended.resize(cells * extent.gradient.lanes(), PENDING);
        self.owner.clear();
        self.owner.resize(cells, NOBODY);
        self.spans.clear();
        self.spans.resize(self.operations.len(), [0.0; 2]);
        self.next.clear();
        self.next.extend_from_slice(&self.begins[..devices]);
        self.parked.clear();
        self.parked.resize(devices, false);
        self.awake.clear();
        for device in (0..devices).rev() {
            let number = u32::try_from(device).unwrap_or(NOBODY);
            self.awake.push(number);
            for index in self.begins[device]..self.begins[device + 1] {
                let operation = self.operations[index as usize];
                let end = operation.micro_batch.saturating_add(operation.span);
                let inside = operation.stage < extent.stages && end <= extent.micro_batches;
                if !inside || operation.work.lane() >= extent.gradient.lanes() {
                    return Err(out_of_range(device, operation, extent));
                }
                if operation.work == Work::Forward {
                    for micro_batch in operation.micro_batch..end {
                        let cell = extent.cell(operation.stage, micro_batch);
                        self.owner[cell] = number;
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs a device until an operation must wait.
    fn advance(&mut self, device: usize, extent: Extent, pipeline: &Pipeline<'_>) {
        self.parked[device] = false;
        let end = self.begins[device + 1];
        while self.next[device] < end {
            let first = self.next[device] as usize;
            let both = self.operations[first].paired && first + 1 < end as usize;
            let last = first + usize::from(both);
            let mut ready = self.clock[device];
            for index in first..=last {
                let Some(time) = self.ready(self.operations[index], extent, pipeline) else {
                    self.parked[device] = true;
                    return;
                };
                ready = ready.max(time);
            }
            let end = ready + self.duration(first, last, extent, pipeline);
            self.clock[device] = end;
            self.next[device] = u32::try_from(last + 1).unwrap_or(u32::MAX);
            for index in first..=last {
                self.spans[index] = [ready, end];
                self.finish(self.operations[index], end, extent);
            }
        }
    }

    /// When an operation's inputs are there, or nothing where they are still to come.
    fn ready(&self, operation: Operation, extent: Extent, pipeline: &Pipeline<'_>) -> Option<f64> {
        let mut ready = 0.0_f64;
        let end = operation.micro_batch + operation.span;
        for micro_batch in operation.micro_batch..end {
            let time = self.input(operation, micro_batch, extent, pipeline)?;
            ready = ready.max(time);
        }
        Some(ready)
    }

    fn input(
        &self,
        operation: Operation,
        micro_batch: u32,
        extent: Extent,
        pipeline: &Pipeline<'_>,
    ) -> Option<f64> {
        let stage = operation.stage;
        let from = |lane: usize, stage: u32| {
            let end = self.ended[extent.at(lane, stage, micro_batch)];
            (end >= 0.0).then_some(end)
        };
        let hop = |from: u32, to: u32| self.delay(from, to, micro_batch, extent, pipeline);
        let after = stage + 1;
        match (operation.work, extent.gradient) {
            (Work::Forward, _) => match stage.checked_sub(1) {
                Some(before) => Some(from(0, before)? + hop(before, stage)),
                None => Some(0.0),
            },
            (Work::Weight, _) => from(1, stage),
            (Work::Local(0), _) => from(0, stage),
            (Work::Local(offset), _) if after < extent.stages => {
                let own = from(0, stage)?;
                Some(own.max(from(offset as usize, after)? + hop(after, stage)))
            }
            (Work::Local(_), _) => None,
            (Work::Backward | Work::Input, _) if after == extent.stages => from(0, stage),
            (Work::Backward | Work::Input, Gradient::Direct) => {
                let last = extent.stages - 1;
                let owner = |stage| self.owner[extent.cell(stage, micro_batch)];
                let away = owner(stage) != owner(last);
                let hop = if away { pipeline.hop(last - 1) } else { 0.0 };
                let error = from(0, last)? + hop + pipeline.feedback.value();
                Some(from(0, stage)?.max(error))
            }
            (Work::Backward | Work::Input, _) => {
                let own = from(0, stage)?;
                Some(own.max(from(1, after)? + hop(after, stage)))
            }
        }
    }

    /// Seconds that a tensor takes between stages, none on one device or where its sender has waited.
    fn delay(
        &self,
        from: u32,
        to: u32,
        micro_batch: u32,
        extent: Extent,
        pipeline: &Pipeline<'_>,
    ) -> f64 {
        let owner = |stage| self.owner[extent.cell(stage, micro_batch)];
        if pipeline.sends == Sends::Blocking || owner(from) == owner(to) {
            0.0
        } else {
            pipeline.hop(from.min(to).min(extent.stages.saturating_sub(2)))
        }
    }

    /// Seconds that an operation, or two together, hold their device.
    fn duration(&self, first: usize, last: usize, extent: Extent, pipeline: &Pipeline<'_>) -> f64 {
        let alone = |index: usize| {
            let operation = self.operations[index];
            let end = operation.micro_batch + operation.span;
            let run = (operation.micro_batch..end)
                .map(|micro_batch| self.cost(operation, micro_batch, extent, pipeline));
            run.sum::<f64>()
        };
        if first == last {
            return alone(first);
        }
        let saved = [first, last].map(|index| {
            let stage = self.operations[index].stage;
            pipeline.pass(stage, extent.stages).hidden.value()
        });
        let sum = alone(first) + alone(last);
        (sum - saved[0].min(saved[1])).max(0.0)
    }

    fn cost(
        &self,
        operation: Operation,
        micro_batch: u32,
        extent: Extent,
        pipeline: &Pipeline<'_>,
    ) -> f64 {
        let stage = operation.stage;
        let pass = pipeline.pass(stage, extent.stages);
        let size = pipeline.size(micro_batch);
        let (input, weight) = (pass.backward.value(), pass.weight.value());
        let window = match extent.gradient {
            Gradient::Window(window) => (window - 1).min(extent.stages - 1 - stage),
            _ => 0,
        };
        let (work, to) = match operation.work {
            Work::Forward => (pass.forward.value() * size.forward, Some(stage + 1)),
            Work::Backward => ((input + weight) * size.backward, stage.checked_sub(1)),
            Work::Input => (input * size.backward, stage.checked_sub(1)),
            Work::Weight => (weight * size.backward, None),
            // weights learn from the loss that is farthest away
            Work::Local(offset) => {
                let learns = if offset == window { weight } else { 0.0 };
                let before = stage.checked_sub(1);
                (
                    (input + learns) * size.backward,
                    before.filter(|_| extent.carries_loss(offset)),
                )
            }
        };
        let to = to.filter(|&to| to < extent.stages && pipeline.sends == Sends::Blocking);
        work + to.map_or(0.0, |to| {
            self.blocked(stage, to, micro_batch, extent, pipeline)
        })
    }

    /// Seconds that a blocking send holds its sender.
    fn blocked(
        &self,
        from: u32,
        to: u32,
        micro_batch: u32,
        extent: Extent,
        pipeline: &Pipeline<'_>,
    ) -> f64 {
        let owner = |stage| self.owner[extent.cell(stage, micro_batch)];
        if owner(from) == owner(to) || extent.gradient == Gradient::Direct && to < from {
            0.0
        } else {
            pipeline.hop(from.min(to))
        }
    }

    /// Notes an end and wakes the devices that may have waited for it.
    fn finish(&mut self, operation: Operation, end: f64, extent: Extent) {
        let Operation { work, stage, .. } = operation;
        for micro_batch in operation.micro_batch..operation.micro_batch + operation.span {
            self.ended[extent.at(work.lane(), stage, micro_batch)] = end;
            if work == Work::Backward {
                self.ended[extent.at(Work::Weight.lane(), stage, micro_batch)] = end;
            }
            match work {
                Work::Forward if stage + 1 < extent.stages => {
                    self.wake(extent.cell(stage + 1, micro_batch));
                }
                Work::Forward if extent.gradient == Gradient::Direct => {
                    for other in 0..stage {
                        self.wake(extent.cell(other, micro_batch));
                    }
                }
                Work::Backward | Work::Input | Work::Local(_) if stage > 0 => {
                    self.wake(extent.cell(stage - 1, micro_batch));
                }
                _ => {}
            }
        }
    }

    fn wake(&mut self, cell: usize) {
        let device = self.owner[cell];
        let parked = self.parked.get_mut(device as usize);
        if parked.is_some_and(std::mem::take) {
            self.awake.push(device);
        }
    }

    /// What the first stuck device waits for.
    fn deadlock(&self, device: usize, extent: Extent) -> Error {
        let place = self.next[device] - self.begins[device];
        let operation = self.operations[self.next[device] as usize];
        let wanted = extent.most_needed(operation);
        let held = wanted.filter(|w| self.operations.iter().any(|o| o.yields_result_of(*w)));
        let why = match (wanted, held) {
            (Some(wanted), None) => format!("for {wanted}, which no device runs"),
            (Some(wanted), Some(_)) => {
                format!("for {wanted}, which waits in a circle for operations behind this one")
            }
            (None, _) => "for an operation behind it on the same device".to_owned(),
        };
        Error::inconsistent(format!(
            "order: device {device} stops at its operation {place}, {operation}: it waits {why}"
        ))
    }
}

impl Extent {
    pub(super) fn cell(self, stage: u32, micro_batch: u32) -> usize {
        stage as usize * self.micro_batches as usize + micro_batch as usize
    }

    fn at(self, lane: usize, stage: u32, micro_batch: u32) -> usize {
        lane * self.stages as usize * self.micro_batches as usize + self.cell(stage, micro_batch)
    }

    /// True where a local loss is carried on to the stage before.
    fn carries_loss(self, offset: u32) -> bool {
        matches!(self.gradient, Gradient::Window(window) if offset + 1 < window)
    }

    /// The operation on another place that an operation needs most.
    fn most_needed(self, operation: Operation) -> Option<Operation> {
        let Operation {
            work,
            stage,
            micro_batch,
            ..
        } = operation;
        let (work, stage) = match work {
            Work::Forward => (Work::Forward, stage.checked_sub(1)?),
            Work::Weight => (Work::Input, stage),
            Work::Local(0) => (Work::Forward, stage),
            Work::Local(offset) => (Work::Local(offset - 1), stage + 1),
            _ if stage + 1 == self.stages => (Work::Forward, stage),
            _ if self.gradient == Gradient::Direct => (Work::Forward, self.stages - 1),
            _ => (work, stage + 1),
        };
        Some(Operation::new(work, stage, micro_batch))
    }
}

impl Operation {
    /// True where this yields the result of `most_needed`.
    fn yields_result_of(self, wanted: Self) -> bool {
        let end = self.micro_batch.saturating_add(self.span);
        let same = self.work.lane() == wanted.work.lane();
        let run = self.micro_batch..end;
        same && self.stage == wanted.stage && run.contains(&wanted.micro_batch)
    }
}

fn out_of_range(device: usize, operation: Operation, extent: Extent) -> Error {
    Error::invalid(
        format!("order of device {device}"),
        operation,
        format!(
            "stages below {} and micro-batches below {}, each with work that the schedule knows",
            extent.stages, extent.micro_batches
        ),
    )
}

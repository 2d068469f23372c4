//! Which times can an order that the caller brings not beat, and does it do all that a step needs?

use super::operation::{Gradient, Operation, Work};
use super::pipeline::Pipeline;
use super::replay::Extent;
use super::run::Run;
use crate::error::{Error, Result};
use std::collections::BTreeSet;

/// Seconds that no order of the same operations on the same devices can beat.
///
/// ```text
/// T >= max over devices d of       down_d + work_d
/// T >= max over devices d of       down_d + work_d - weight_d + up_d
/// T >= max over micro-batches of   their way down (and up, where gradients come up the chain)
/// ```
///
/// Seconds; `down_d`: the shortest way of a micro-batch down to the device, `up_d`: likewise up from
/// it, 0 where gradients come otherwise; `weight_d`: gradients of weights that stand apart, which
/// nothing waits for. A way counts passes and, between stages on unlike devices, hops. `work`: seconds that
/// each device computes.
pub(super) fn bound(run: &Run, extent: Extent, work: &[f64], pipeline: &Pipeline<'_>) -> f64 {
    let way = MicroBatchPaths::new(run, extent, pipeline);
    let mut nearest = NearestDevices::new(run.orders.len());
    let mut longest = 0.0_f64;
    for micro_batch in 0..extent.micro_batches {
        let down = way.down(micro_batch, &mut nearest.down);
        longest = longest.max(down + way.up(micro_batch, &mut nearest.up));
    }
    for (device, order) in run.orders.iter().enumerate() {
        let (down, up) = (nearest.down[device], nearest.up[device]);
        if down.is_finite() {
            let up = if up.is_finite() { up } else { 0.0 };
            let weight = way.weight_gradient_time(order);
            longest = longest.max(down + work[device] + (up - weight).max(0.0));
        }
    }
    longest
}

/// Shortest ways down to and up from each device, endless where no micro-batch comes.
struct NearestDevices {
    down: Vec<f64>,
    up: Vec<f64>,
}

impl NearestDevices {
    fn new(devices: usize) -> Self {
        let endless = vec![f64::INFINITY; devices];
        Self {
            down: endless.clone(),
            up: endless,
        }
    }
}

/// Fails where backward passes are run for some micro-batches and stages but not for all, gradients
/// of inputs without those of weights, or either on another device than the forward pass.
pub(super) fn check_backwards(orders: &[Vec<Operation>], extent: Extent) -> Result<()> {
    check_places(orders)?;
    let made = |works: &[Work]| -> BTreeSet<(u32, u32)> {
        let of = orders.iter().flatten().filter(|o| works.contains(&o.work));
        of.flat_map(|o| (o.micro_batch..o.micro_batch + o.span).map(|m| (o.stage, m)))
            .collect()
    };
    let missing = |what: &str, (stage, micro_batch): (u32, u32)| {
        Err(Error::inconsistent(format!(
            "order: no device runs the {what} of micro-batch {micro_batch} on stage {stage}"
        )))
    };
    let (input, weight) = (made(&[Work::Input]), made(&[Work::Weight]));
    if let Some(key) = input.difference(&weight).next() {
        return missing("weight gradient", *key);
    }
    let backward = made(&[Work::Backward, Work::Input, Work::Local(0)]);
    let mut all = (0..extent.stages).flat_map(|s| (0..extent.micro_batches).map(move |m| (s, m)));
    match all.find(|key| !backward.contains(key)) {
        Some(key) if !backward.is_empty() => missing("backward pass", key),
        _ => Ok(()),
    }
}

/// Fails where a device works on activations that another one has made.
fn check_places(orders: &[Vec<Operation>]) -> Result<()> {
    let run = |o: &Operation| {
        let stage = o.stage;
        (o.micro_batch..o.micro_batch + o.span).map(move |m| (stage, m))
    };
    for (device, order) in orders.iter().enumerate() {
        let forwards = order.iter().filter(|o| o.work == Work::Forward);
        let own: BTreeSet<(u32, u32)> = forwards.flat_map(run).collect();
        let away = |o: &&Operation| run(o).any(|key| !own.contains(&key));
        if let Some(operation) = order.iter().find(away) {
            return Err(Error::inconsistent(format!(
                "order: device {device} runs {operation}, whose forward pass another device runs"
            )));
        }
    }
    Ok(())
}

/// How micro-batches go down and up through the devices of an order.
struct MicroBatchPaths<'a> {
    pipeline: &'a Pipeline<'a>,
    extent: Extent,
    /// Device of each forward pass by stage, micro-batch.
    owner: Vec<usize>,
    /// True where two operations run together, which may hide a part of each.
    together: bool,
    backward: bool,
}

impl<'a> MicroBatchPaths<'a> {
    fn new(run: &Run, extent: Extent, pipeline: &'a Pipeline<'a>) -> Self {
        let mut owner = vec![usize::MAX; extent.stages as usize * extent.micro_batches as usize];
        for (device, order) in run.orders.iter().enumerate() {
            for operation in order.iter().filter(|o| o.work == Work::Forward) {
                for micro_batch in operation.micro_batch..operation.micro_batch + operation.span {
                    owner[extent.cell(operation.stage, micro_batch)] = device;
                }
            }
        }
        let all = || run.orders.iter().flatten();
        let carried = |o: &Operation| matches!(o.work, Work::Backward | Work::Input);
        Self {
            pipeline,
            extent,
            owner,
            together: all().any(|operation| operation.paired),
            backward: extent.gradient == Gradient::Chain && all().any(carried),
        }
    }

    /// Seconds of a micro-batch's forward passes; lowers what each device waits for its first one.
    fn down(&self, micro_batch: u32, heads: &mut [f64]) -> f64 {
        let size = self.pipeline.size(micro_batch).forward;
        let mut time = 0.0;
        for stage in 0..self.extent.stages {
            if stage > 0 {
                time += self.hop(stage - 1, micro_batch);
            }
            let device = self.owner[self.extent.cell(stage, micro_batch)];
            if let Some(head) = heads.get_mut(device) {
                *head = head.min(time);
            }
            let pass = self.pipeline.pass(stage, self.extent.stages);
            time += self.exposed_seconds(pass.forward.value() * size, stage);
        }
        time
    }

    /// Seconds of its gradients of inputs; lowers what comes after each device's last one.
    fn up(&self, micro_batch: u32, tails: &mut [f64]) -> f64 {
        if !self.backward {
            return 0.0;
        }
        let size = self.pipeline.size(micro_batch).backward;
        let mut time = 0.0;
        for stage in 0..self.extent.stages {
            if stage > 0 {
                time += self.hop(stage - 1, micro_batch);
            }
            let device = self.owner[self.extent.cell(stage, micro_batch)];
            if let Some(tail) = tails.get_mut(device) {
                *tail = tail.min(time);
            }
            let pass = self.pipeline.pass(stage, self.extent.stages);
            time += self.exposed_seconds(pass.backward.value() * size, stage);
        }
        time
    }

    /// Seconds of a device's gradients of weights that stand apart.
    fn weight_gradient_time(&self, order: &[Operation]) -> f64 {
        let apart = order.iter().filter(|o| o.work == Work::Weight);
        let each = apart.map(|operation| {
            let pass = self.pipeline.pass(operation.stage, self.extent.stages);
            let run = operation.micro_batch..operation.micro_batch + operation.span;
            let sizes: f64 = run.map(|m| self.pipeline.size(m).backward).sum();
            pass.weight.value() * sizes
        });
        each.sum()
    }

    /// Seconds between a stage and the next.
    fn hop(&self, border: u32, micro_batch: u32) -> f64 {
        let owner = |stage| self.owner[self.extent.cell(stage, micro_batch)];
        if owner(border) == owner(border + 1) {
            0.0
        } else {
            self.pipeline.hop(border)
        }
    }

    /// A pass without what another one that runs with it may hide.
    fn exposed_seconds(&self, seconds: f64, stage: u32) -> f64 {
        if !self.together {
            return seconds;
        }
        let pass = self.pipeline.pass(stage, self.extent.stages);
        (seconds - pass.hidden.value()).max(0.0)
    }
}

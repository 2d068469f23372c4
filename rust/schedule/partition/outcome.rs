//! What is said of a partition: its stages, its step and what is proven, or why there is none?

use super::costs::Costs;
use super::cuts::{Cut, Tables};
use super::pipeline_states::PipelineStates;
use super::{Layer, Request};
use crate::schedule::{
    Hops, Pass, Passes, Pipeline, PipelineShape, Schedule, Scratch, step_time_extrapolated,
};
use crate::units::Seconds;
use serde::Serialize;
use std::ops::Range;

/// A partition, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionOutcome {
    /// The best one.
    Partition(Partition),
    /// There is none.
    Infeasible(Infeasible),
}

/// Layers cut into stages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Partition {
    /// Stages along the pipeline.
    pub stages: Vec<Stage>,
    /// First layer of every stage but the first.
    pub cuts: Vec<usize>,
    /// What was made least: sum of stages and sends, and the slowest stage again and again.
    pub objective_s: f64,
    /// Forward and backward pass of the slowest stage.
    pub slowest_s: f64,
    /// One 1F1B step of this partition, run through.
    pub step_time_s: f64,
    /// What no partition's 1F1B step can beat.
    pub lower_bound_s: f64,
    /// True where no partition (in no allowed order of devices) has a smaller objective.
    pub is_exact: bool,
    /// What that rests on.
    pub proof: &'static str,
}

/// Layers on one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// Index of the device.
    pub device: usize,
    /// Its layers.
    pub layers: Range<usize>,
    /// Forward and backward pass of one micro-batch.
    pub work_s: f64,
    /// Send of one micro-batch into it: of its activations and of their gradients back, the mean.
    pub hop_s: f64,
    /// What it holds.
    pub held_bytes: f64,
    /// Micro-batches in flight.
    pub in_flight: u32,
}

/// Why there is no partition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Infeasible {
    /// `layers` (fewer than devices), `layer` (one that fits no device) or `memory`.
    pub reason: &'static str,
    /// The first layer that finds no room.
    pub layer: Option<usize>,
    /// The stage that would have to take it.
    pub stage: Option<usize>,
    /// What it needs there alone.
    pub needs_bytes: Option<f64>,
    /// False where only some orders of devices were tried.
    pub is_exact: bool,
    /// The same in words.
    pub message: String,
}

impl PartitionOutcome {
    /// The same where not every order was tried.
    pub(super) fn unproven(mut self) -> Self {
        if let Self::Infeasible(infeasible) = &mut self {
            infeasible.is_exact = infeasible.reason != "memory";
        }
        self
    }
}

/// The verdict where devices outnumber layers.
pub(super) fn too_few_layers(request: &Request) -> Option<PartitionOutcome> {
    let (layers, devices) = (request.layers.len(), request.devices.len());
    (layers < devices).then(|| {
        PartitionOutcome::Infeasible(Infeasible {
            reason: "layers",
            layer: None,
            stage: None,
            needs_bytes: None,
            is_exact: true,
            message: format!("{layers} layers cannot fill {devices} stages of one or more"),
        })
    })
}

/// The verdict where memory does not hold the model.
pub(super) fn no_room(
    costs: &Costs<'_>,
    places: &PipelineStates,
    tables: &Tables<'_>,
) -> PartitionOutcome {
    let fits_some = |layer: usize| {
        let range = layer..layer + 1;
        let devices = 0..costs.devices;
        devices.clone().any(|device| {
            let mut stages = devices.clone();
            stages.any(|stage| costs.fits(device, stage, &range))
        })
    };
    if let Some(layer) = (0..costs.layers).find(|layer| !fits_some(*layer)) {
        let needs = costs.held(costs.devices - 1, &(layer..layer + 1));
        return PartitionOutcome::Infeasible(Infeasible {
            reason: "layer",
            layer: Some(layer),
            stage: None,
            needs_bytes: Some(needs),
            is_exact: true,
            message: format!(
                "layer {layer} fits no device: it needs {needs:.4e} bytes even as the last stage"
            ),
        });
    }
    let (layer, state) = tables.farthest();
    let stage = places.states[state].filled;
    let last = stage.min(costs.devices - 1);
    let layer = layer.min(costs.layers - 1);
    let needs = costs.held(last, &(layer..layer + 1));
    let message = match layer {
        0 => format!("the first stage has no room for layer 0, which needs {needs:.4e} bytes"),
        _ => format!(
            "{stage} stages of {} hold layers 0 to {} at most; layer {layer} ({needs:.4e} bytes on \
             stage {last}) finds no room",
            costs.devices,
            layer - 1
        ),
    };
    PartitionOutcome::Infeasible(Infeasible {
        reason: "memory",
        layer: Some(layer),
        stage: Some(last),
        needs_bytes: Some(needs),
        is_exact: true,
        message,
    })
}

/// What is said of a partition; `bound` is what no step can beat, and whether the cut is proven.
pub(super) fn partition_found(
    costs: &Costs<'_>,
    cut: &Cut,
    (bound, is_exact): (f64, bool),
) -> PartitionOutcome {
    let mut before = None;
    let mut stages = Vec::new();
    for (place, (device, range)) in cut.stages.iter().enumerate() {
        stages.push(Stage {
            device: *device,
            layers: range.clone(),
            work_s: costs.seconds(*device, range),
            hop_s: costs.hop(place, (before, *device), range.start),
            held_bytes: costs.held(place, range),
            in_flight: costs.in_flight(place),
        });
        before = Some(*device);
    }
    let step = step(costs, &stages);
    PartitionOutcome::Partition(Partition {
        cuts: stages.iter().skip(1).map(|s| s.layers.start).collect(),
        objective_s: cut.objective,
        slowest_s: cut.slowest,
        step_time_s: step,
        // the bound's sums round: a step cannot lie below it
        lower_bound_s: bound.min(step),
        is_exact,
        proof: match (is_exact, costs.request.permute) {
            (true, false) => "every cut of the layers was weighed",
            (true, true) => "every cut of the layers and every order of the devices was weighed",
            (false, _) => "no swap of two devices is better; other orders may be",
        },
        stages,
    })
}

/// Seconds of one 1F1B step.
fn step(costs: &Costs<'_>, stages: &[Stage]) -> f64 {
    let passes: Vec<Pass> = stages.iter().map(|stage| pass(costs, stage)).collect();
    let hops = stages.iter().skip(1);
    let hops: Vec<Seconds> = hops.map(|stage| Seconds::new(stage.hop_s)).collect();
    let shape = PipelineShape::new(u32::try_from(stages.len()).unwrap_or(u32::MAX), 1);
    let pipeline = Pipeline {
        hops: Hops::Each(&hops),
        ..Pipeline::new(shape, Passes::Each(&passes), Seconds::ZERO)
    };
    let micro_batches = costs.request.micro_batches;
    let kind = Schedule::OneForwardOneBackward;
    step_time_extrapolated(kind, &pipeline, micro_batches, &mut Scratch::new()).value()
}

fn pass(costs: &Costs<'_>, stage: &Stage) -> Pass {
    let device = costs.device(stage.device);
    let layers = &costs.request.layers[stage.layers.clone()];
    let sum = |of: fn(&Layer) -> &[f64]| {
        let times = layers
            .iter()
            .map(|layer| of(layer).get(device.kind).copied());
        Seconds::new(times.map(|time| time.unwrap_or(0.0)).sum::<f64>() / device.speed)
    };
    Pass {
        weight: sum(|layer| &layer.weight_s),
        ..Pass::new(
            sum(|layer| &layer.forward_s),
            sum(|layer| &layer.backward_s),
        )
    }
}

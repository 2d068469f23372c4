//! Which layers should each stage of a pipeline hold, also on unlike devices, and is that proven?

mod costs;
mod cuts;
mod outcome;
mod pipeline_states;

use crate::control::Control;
use crate::error::amounts::{count, not_negative, positive};
use crate::error::{Error, Result};
use costs::Costs;
use cuts::Tables;
use pipeline_states::PipelineStates;
use serde::Deserialize;

pub use outcome::{Infeasible, Partition, PartitionOutcome, Stage};

/// Most layers and devices, so that tables stay small.
const MOST: usize = 4096;
/// Ranges of layers weighed up to which the best order of devices is proven.
const MOST_WEIGHED: f64 = 4e9;

/// A model to be cut and the devices that it is cut onto.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Layers along the model.
    pub layers: Vec<Layer>,
    /// Devices along the pipeline, or in any order where they may be permuted.
    pub devices: Vec<Device>,
    /// Links: none (sends take no time), one per border of the pipeline whichever devices stand
    /// there, or one per pair of devices, row after row from the earlier one to the later one.
    #[serde(default)]
    pub links: Vec<Link>,
    /// Micro-batches of a step.
    pub micro_batches: u32,
    /// True where devices may stand in any order.
    #[serde(default)]
    pub permute: bool,
}

/// A layer for one micro-batch; times have one entry per kind of device.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Forward pass, seconds at speed 1.
    pub forward_s: Vec<f64>,
    /// Backward pass without the gradients of weights, likewise.
    pub backward_s: Vec<f64>,
    /// Gradients of weights, likewise; empty where the backward pass has them.
    #[serde(default)]
    pub weight_s: Vec<f64>,
    /// Weights, gradients, optimizer states: held once.
    #[serde(default)]
    pub state_bytes: f64,
    /// Activations: held for each micro-batch in flight.
    #[serde(default)]
    pub activation_bytes: f64,
    /// What goes on to the next layer, and comes back as its gradient.
    #[serde(default)]
    pub output_bytes: f64,
}

/// A device of the pipeline.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Which entry of the layers' times holds for it.
    #[serde(default)]
    pub kind: usize,
    /// What those times are divided by.
    #[serde(default = "one")]
    pub speed: f64,
    /// Memory; no limit where left out.
    #[serde(default)]
    pub capacity_bytes: Option<f64>,
}

/// A link between two devices: `bytes / bandwidth + latency` seconds.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Bytes a second; no limit where left out.
    #[serde(default)]
    pub bandwidth_bytes_per_s: Option<f64>,
    /// Seconds that any message takes.
    #[serde(default)]
    pub latency_s: f64,
}

fn one() -> f64 {
    1.0
}

/// The best partition of layers into stages, or why there is none.
///
/// ```text
/// T = sum_s g_s + 2 sum_s c_s + (m - 1) max_s g_s
/// ```
///
/// Seconds; g: forward and backward pass of a stage's layers on its device, c: bytes over bandwidth
/// and latency of the border behind it, the mean of both ways, m: micro-batches (Zheng et al. 2022 (Alpa), section 5.2;
/// Li et al. 2021, section 3.3). Where sends take no time and backward passes are everywhere the
/// same multiple of forward passes, a 1F1B step takes no longer, and just as long if the last stage
/// is the slowest. Stage `s` of `p` holds its layers' states and `min(p - s, m)` micro-batches of
/// their activations. Each device holds one layer or more: an empty stage would
/// only add two sends.
///
/// Exact: all ranges of layers are weighed in `O(p L^2)`, and of each prefix every pair of sum and
/// slowest stage is kept that no other beats in both. Where devices may be permuted, prefixes are
/// told apart by the devices that they use; beyond `4e9` ranges the order is found by swaps.
pub fn partition(request: &Request, control: &Control) -> Result<PartitionOutcome> {
    check(request)?;
    let costs = Costs::new(request);
    if let Some(verdict) = outcome::too_few_layers(request) {
        return Ok(verdict);
    }
    let places = places(request, &costs);
    if !request.permute || places.ranges_to_weigh(costs.layers) <= MOST_WEIGHED {
        let tables = Tables::new(&costs, &places, control)?;
        let Some(cut) = tables.best(control)? else {
            return Ok(outcome::no_room(&costs, &places, &tables));
        };
        let bound = tables.bound();
        return Ok(outcome::partition_found(&costs, &cut, (bound, true)));
    }
    swaps(request, &costs, control)
}

/// The states of a pipeline that is filled from the front.
fn places(request: &Request, costs: &Costs) -> PipelineStates {
    let order: Vec<usize> = (0..request.devices.len()).collect();
    if request.permute {
        PipelineStates::any_order(costs)
    } else {
        PipelineStates::in_order(&order)
    }
}

/// The best order that no swap of two devices betters, from three beginnings.
fn swaps(request: &Request, costs: &Costs, control: &Control) -> Result<PartitionOutcome> {
    let given: Vec<usize> = (0..request.devices.len()).collect();
    let mut rising = given.clone();
    rising.sort_by(|a, b| costs.pace(*a).total_cmp(&costs.pace(*b)));
    let falling: Vec<usize> = rising.iter().rev().copied().collect();
    let mut best: Option<cuts::Cut> = None;
    for mut order in [given.clone(), rising, falling] {
        let mut held = best_cut_in_order(&order, costs, control)?;
        let mut bettered = true;
        while bettered {
            bettered = false;
            for first in 0..order.len() {
                for second in first + 1..order.len() {
                    order.swap(first, second);
                    let tried = best_cut_in_order(&order, costs, control)?;
                    if cuts::beats(tried.as_ref(), held.as_ref()) {
                        (held, bettered) = (tried, true);
                    } else {
                        order.swap(first, second);
                    }
                }
            }
        }
        if cuts::beats(held.as_ref(), best.as_ref()) {
            best = held;
        }
    }
    let Some(cut) = best else {
        let places = PipelineStates::in_order(&given);
        let tables = Tables::new(costs, &places, control)?;
        return Ok(outcome::no_room(costs, &places, &tables).unproven());
    };
    Ok(outcome::partition_found(
        costs,
        &cut,
        (costs.bound_in_any_order(), false),
    ))
}

fn best_cut_in_order(
    order: &[usize],
    costs: &Costs,
    control: &Control,
) -> Result<Option<cuts::Cut>> {
    Tables::new(costs, &PipelineStates::in_order(order), control)?.best(control)
}

/// Refuses what cannot be weighed.
fn check(request: &Request) -> Result<()> {
    count("layers", request.layers.len(), 1, MOST)?;
    count("devices", request.devices.len(), 1, MOST)?;
    if request.micro_batches == 0 {
        return Err(Error::invalid("micro_batches", 0, "1 or more"));
    }
    let kinds = request.layers[0].forward_s.len();
    count("layers[0].forward_s", kinds, 1, MOST)?;
    for (index, layer) in request.layers.iter().enumerate() {
        layer.check(index, kinds)?;
    }
    for (index, device) in request.devices.iter().enumerate() {
        let field = |name| format!("devices[{index}].{name}");
        count(&field("kind"), device.kind, 0, kinds - 1)?;
        positive(&field("speed"), device.speed)?;
        if let Some(capacity) = device.capacity_bytes {
            not_negative(&field("capacity_bytes"), capacity)?;
        }
    }
    let devices = request.devices.len();
    let lengths = [0, devices - 1, devices * devices];
    if !lengths.contains(&request.links.len()) {
        let allowed = format!(
            "none, {} (one per border) or {} (one per pair of devices)",
            lengths[1], lengths[2]
        );
        return Err(Error::invalid("links", request.links.len(), allowed));
    }
    for (index, link) in request.links.iter().enumerate() {
        let field = |name| format!("links[{index}].{name}");
        if let Some(bandwidth) = link.bandwidth_bytes_per_s {
            positive(&field("bandwidth_bytes_per_s"), bandwidth)?;
        }
        not_negative(&field("latency_s"), link.latency_s)?;
    }
    Ok(())
}

impl Layer {
    fn check(&self, index: usize, kinds: usize) -> Result<()> {
        let times = [
            ("forward_s", &self.forward_s),
            ("backward_s", &self.backward_s),
            ("weight_s", &self.weight_s),
        ];
        for (name, seconds) in times {
            let field = format!("layers[{index}].{name}");
            let left_out = name == "weight_s" && seconds.is_empty();
            if seconds.len() != kinds && !left_out {
                let allowed = format!("{kinds} times, one per kind of device");
                return Err(Error::invalid(field, seconds.len(), allowed));
            }
            for &time in seconds {
                not_negative(&field, time)?;
            }
        }
        let sizes = [
            ("state_bytes", self.state_bytes),
            ("activation_bytes", self.activation_bytes),
            ("output_bytes", self.output_bytes),
        ];
        for (name, bytes) in sizes {
            not_negative(&format!("layers[{index}].{name}"), bytes)?;
        }
        Ok(())
    }
}

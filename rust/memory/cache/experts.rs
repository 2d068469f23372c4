//! What do buffers for the experts of a mixture save in memory and cost in time, and what does static gating cost?

use super::machine::{Machine, MachineOverrides};
use super::policy::Policy;
use super::replay::{Trace, replay};
use crate::control::Control;
use crate::error::amounts::{count, not_negative, positive};
use crate::error::{Error, Result};
use crate::hardware::Cluster;
use crate::solve::Random;
use crate::units::Dtype;
use serde::{Deserialize, Serialize};

/// Accesses of the run that tells the hit rate, about.
const RUN: u64 = 1 << 20;
/// Batches of that run at most.
const MOST_BATCHES: u64 = 1 << 12;

/// A mixture of experts served with expert parallelism over all devices of a cluster.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpertBufferingRequest {
    /// Layers with experts.
    pub layers: u64,
    /// Experts of a layer; the devices divide them.
    pub experts: u64,
    /// Experts that a token meets.
    pub top_k: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Width of an expert.
    pub ffn: u64,
    /// Products of an expert: 2, or 3 where it is gated.
    #[serde(default = "two")]
    pub products: u64,
    /// Tokens of a batch on each device.
    pub tokens: u64,
    /// Slots that static gating gives each expert, over the tokens.
    pub capacity: f64,
    /// Elements outside of experts, which every device holds and every token multiplies with.
    #[serde(default)]
    pub other_parameters: f64,
    /// Format of weights and activations.
    #[serde(default = "fp16")]
    pub dtype: Dtype,
    /// Experts of a layer that a device holds; all of its own where left out.
    #[serde(default)]
    pub buffered: Option<u64>,
    /// What a full buffer gives up.
    #[serde(default = "lifo")]
    pub policy: Policy,
    /// Exponent of the Zipf law by which tokens choose experts; ranks are dealt over devices in turn.
    #[serde(default)]
    pub exponent: f64,
    /// Rate of a device in an all-to-all, bytes a second; none passes where left out.
    #[serde(default)]
    pub all_to_all_bytes_per_s: Option<f64>,
    /// Of the draws by which batches choose.
    #[serde(default)]
    pub seed: u64,
    /// Figures in the place of those of the cluster.
    #[serde(default)]
    pub machine: MachineOverrides,
}

/// One way of gating; amounts of a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gating {
    /// Slots that a layer's experts work on.
    pub slots: f64,
    /// Activations of a layer with experts: the mask, what goes to experts, inside them, what returns.
    pub activation_bytes: f64,
    /// The layers with experts.
    pub experts_s: f64,
    /// A batch, everything outside of experts included.
    pub batch_s: f64,
}

/// What gating and buffers come to; amounts of a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ExpertBufferingReport {
    /// As many slots for every expert, used or not.
    pub fixed: Gating,
    /// As many tokens as chose it.
    pub dynamic: Gating,
    /// Batches of dynamic gating in the time of one of static gating.
    pub speedup: f64,
    /// Weights, all of a device's experts held.
    pub static_bytes: f64,
    /// Weights with the buffers.
    pub buffered_bytes: f64,
    /// Experts that a batch asks for in a layer, on average, on the device whose are asked for most.
    pub active_experts: f64,
    /// Of them, those that the buffer holds, without the first requests.
    pub hit_rate: f64,
    /// Copies of the others, which nothing hides.
    pub copy_s: f64,
    /// The least that a buffer of that size could copy, the future being known.
    pub least_copy_s: f64,
}

fn two() -> u64 {
    2
}

fn fp16() -> Dtype {
    Dtype::Fp16
}

fn lifo() -> Policy {
    Policy::Lifo
}

/// Gating and buffers of experts (Huang et al. 2023, arXiv 2303.06182). Of a device with `S` tokens:
///
/// ```text
/// static:  n = E C S slots,  mask of S n elements;   dynamic: n = k S slots, no mask
/// activations = e (mask + n (2 d + f))
/// t_layer = max(q 2 d f n / F, W_layer / B) + dispatch + 2 n d e / B_all
/// dispatch: 2 (2 S n d / F + S n e / B) where there is a mask, else 2 n d e / B
/// t_batch = layers t_layer + max(2 P S / F, P e / B)
/// ```
///
/// E: experts, C: capacity over tokens, k: experts of a token, d: width, f: expert's width, e: bytes of
/// an element, q: products, P: elements outside of experts, F: FLOP/s, B: bytes/s, W: weights of a
/// device's experts. A batch runs its active experts by their numbers, each copied unless it is there: hits are
/// those of a run over drawn batches. In that order LIFO keeps what the next batch asks for first.
pub fn expert_buffering(
    cluster: &Cluster,
    request: &ExpertBufferingRequest,
    control: &Control,
) -> Result<ExpertBufferingReport> {
    check(cluster, request)?;
    let machine = Machine::of(cluster, request.dtype, &request.machine)?;
    let layout = Layout::new(cluster, request, &machine);
    let (tokens, top_k) = (request.tokens as f64, request.top_k as f64);
    let fixed = layout.gating(request.experts as f64 * request.capacity * tokens, true);
    let dynamic = layout.gating(top_k * tokens, false);
    let held = request
        .buffered
        .map_or(layout.own, |held| held.min(layout.own));
    let layers = request.layers as f64;
    let others = request.other_parameters * layout.element;
    let runs = expert_demand(request, layout.devices, control)?;
    let trace = Trace::new(&runs.ids, &[])?;
    let found = replay(&trace, request.policy, held, request.seed, control)?;
    let best = replay(&trace, Policy::Belady, held, request.seed, control)?;
    let warm = (found.accesses - found.cold_misses).max(1) as f64;
    let active = found.accesses as f64 / runs.batches as f64;
    let expert_s = layout.expert_bytes / (machine.copy_bytes_per_s / layout.devices);
    let hit_rate = found.hits as f64 / warm;
    let copied = |rate: f64| layers * active * (1.0 - rate) * expert_s;
    Ok(ExpertBufferingReport {
        fixed,
        dynamic,
        speedup: fixed.batch_s / dynamic.batch_s,
        static_bytes: others + layers * layout.own as f64 * layout.expert_bytes,
        buffered_bytes: others + layers * held as f64 * layout.expert_bytes,
        active_experts: active,
        hit_rate,
        copy_s: copied(hit_rate),
        least_copy_s: copied(best.hits as f64 / warm),
    })
}

/// Sizes and rates of one device.
struct Layout<'a> {
    request: &'a ExpertBufferingRequest,
    devices: f64,
    /// Experts of a layer that are a device's own.
    own: u64,
    element: f64,
    expert_bytes: f64,
    flops_per_s: f64,
    bytes_per_s: f64,
}

impl<'a> Layout<'a> {
    fn new(cluster: &Cluster, request: &'a ExpertBufferingRequest, machine: &Machine) -> Self {
        let devices = f64::from(cluster.devices);
        let element = request.dtype.bytes();
        let weights = request.products as f64 * request.hidden as f64 * request.ffn as f64;
        Self {
            request,
            devices,
            own: request.experts.div_ceil(u64::from(cluster.devices)),
            element,
            expert_bytes: weights * element,
            flops_per_s: machine.flops_per_s / devices,
            bytes_per_s: machine.near_bytes_per_s / devices,
        }
    }

    fn gating(&self, slots: f64, masked: bool) -> Gating {
        let request = self.request;
        let (hidden, ffn) = (request.hidden as f64, request.ffn as f64);
        let (tokens, element) = (request.tokens as f64, self.element);
        let mask = if masked { tokens * slots } else { 0.0 };
        let moved = slots * hidden * element;
        let products = request.products as f64 * 2.0 * hidden * ffn * slots / self.flops_per_s;
        let weights = self.own as f64 * self.expert_bytes / self.bytes_per_s;
        let dispatch = if masked {
            2.0 * (2.0 * mask * hidden / self.flops_per_s + mask * element / self.bytes_per_s)
        } else {
            2.0 * moved / self.bytes_per_s
        };
        let exchange = request.all_to_all_bytes_per_s;
        let exchanged = exchange.map_or(0.0, |rate| 2.0 * moved / rate);
        let layer = products.max(weights) + dispatch + exchanged;
        let others = (2.0 * request.other_parameters * tokens / self.flops_per_s)
            .max(request.other_parameters * element / self.bytes_per_s);
        let experts_s = request.layers as f64 * layer;
        Gating {
            slots,
            activation_bytes: element * (mask + slots * (2.0 * hidden + ffn)),
            experts_s,
            batch_s: experts_s + others,
        }
    }
}

/// Experts that drawn batches ask of one device in one layer.
struct ExpertDemand {
    ids: Vec<u32>,
    batches: u64,
}

/// Draws batches: an expert is active with chance `1 - (1 - p)^(k S devices)`, by itself.
fn expert_demand(
    request: &ExpertBufferingRequest,
    devices: f64,
    control: &Control,
) -> Result<ExpertDemand> {
    let weights: Vec<f64> = (1..=request.experts)
        .map(|rank| (rank as f64).powf(-request.exponent))
        .collect();
    let total: f64 = weights.iter().sum();
    let draws = request.top_k as f64 * request.tokens as f64 * devices;
    // ranks 1, 1 + devices, ..: the device whose experts are asked for most
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let stride = devices as usize;
    let chances: Vec<f64> = weights
        .iter()
        .step_by(stride)
        .map(|weight| -(draws * (-weight / total).ln_1p()).exp_m1())
        .collect();
    let batches = (RUN / chances.len() as u64).clamp(2, MOST_BATCHES);
    let mut random = Random::new(request.seed, 0);
    let mut ids = Vec::new();
    for _ in 0..batches {
        if control.is_cancelled() {
            let what = "draws of batches".to_owned();
            return Err(Error::Cancelled { what });
        }
        for (id, chance) in (0_u32..).zip(&chances) {
            if random.uniform() < *chance {
                ids.push(id);
            }
        }
    }
    Ok(ExpertDemand { ids, batches })
}

fn check(cluster: &Cluster, request: &ExpertBufferingRequest) -> Result<()> {
    count("layers", request.layers, 1, 1 << 20)?;
    count("experts", request.experts, 1, 1 << 20)?;
    count("top_k", request.top_k, 1, request.experts)?;
    count("hidden", request.hidden, 1, 1 << 32)?;
    count("ffn", request.ffn, 1, 1 << 32)?;
    count("products", request.products, 1, 16)?;
    count("tokens", request.tokens, 1, 1 << 40)?;
    positive("capacity", request.capacity)?;
    not_negative("other_parameters", request.other_parameters)?;
    if !(0.0..=8.0).contains(&request.exponent) {
        return Err(Error::invalid("exponent", request.exponent, "0 to 8"));
    }
    if let Some(rate) = request.all_to_all_bytes_per_s {
        positive("all_to_all_bytes_per_s", rate)?;
    }
    let devices = u64::from(cluster.devices);
    if !request.experts.is_multiple_of(devices) {
        let allowed = format!("a multiple of the {devices} devices");
        return Err(Error::invalid("experts", request.experts, allowed));
    }
    Ok(())
}

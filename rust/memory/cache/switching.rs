//! How long do prompts take whose experts are whole models, kept in far memory and copied near when asked for?

use super::machine::{Machine, MachineOverrides};
use super::policy::Policy;
use super::popularity::{Demand, Popularity};
use crate::control::Control;
use crate::error::Result;
use crate::error::amounts::{count, not_negative, positive};
use crate::hardware::Cluster;
use crate::units::Dtype;
use serde::{Deserialize, Serialize};

/// Most experts, prompts and tokens.
const MOST: u64 = 1 << 32;

/// A composition of experts on machines that run one model at a time, all devices together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSwitchingRequest {
    /// Experts to be served.
    pub experts: u64,
    /// Format of weights and arithmetic.
    #[serde(default = "bf16")]
    pub dtype: Dtype,
    /// Prompts of a batch; each asks for one expert by itself.
    pub prompts: u64,
    /// Of near memory, what no expert may take: keys, values, activations; bytes.
    #[serde(default)]
    pub reserved_bytes: f64,
    /// True where far memory keeps a copy of what is near, so that nothing is written back.
    #[serde(default = "yes")]
    pub inclusive: bool,
    /// What a copy takes beside its bytes.
    #[serde(default)]
    pub copy_latency_s: f64,
    /// What full near memory gives up.
    #[serde(default)]
    pub policy: Policy,
    /// Chances of the experts; all alike where left out.
    #[serde(default)]
    pub popularity: Option<Popularity>,
    /// A collective of one token's activations, seconds.
    #[serde(default)]
    pub collective_s: f64,
    /// Figures in the place of those of the cluster.
    #[serde(default)]
    pub machine: MachineOverrides,
    /// What a prompt asks of its expert.
    pub expert: PromptWork,
    /// What a prompt asks of the router, which stays near and takes all prompts at once.
    #[serde(default)]
    pub router: Option<PromptWork>,
}

/// A model's passes over a prompt.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptWork {
    /// Weights, elements that a token multiplies with.
    pub parameters: f64,
    /// Weights, bytes; the elements in the format of the request where left out.
    #[serde(default)]
    pub weight_bytes: Option<f64>,
    /// Tokens of the prompt, in one pass.
    pub input_tokens: u64,
    /// Tokens that follow one by one.
    #[serde(default)]
    pub output_tokens: u64,
    /// How the layers run; where left out, without launches, collectives and traffic between kernels.
    #[serde(default)]
    pub decoder: Option<Decoder>,
}

/// Layers of a decoder with gated feed-forward networks, as Llama's.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decoder {
    /// Layers.
    pub layers: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Width of the feed-forward network.
    pub ffn: u64,
    /// Heads of attention.
    pub heads: u64,
    /// True where a layer is one kernel, whose intermediate results stay on chip.
    #[serde(default)]
    pub fused: bool,
}

impl Decoder {
    /// Kernels of a pass: one a layer, or twelve (two norms, two sums, rotation, cache, attention, activation,
    /// four products), and three for embedding, last norm and head.
    fn kernels(&self) -> f64 {
        self.layers as f64 * if self.fused { 1.0 } else { 12.0 } + 3.0
    }

    /// Bytes that a token writes and reads between kernels, behind `keys` tokens:
    ///
    /// ```text
    /// A = layers e (2 (12 h + 3 f) + 4 heads keys)
    /// ```
    ///
    /// h: width, f: feed-forward width, e: bytes of an element. Products, norms, sums and rotation leave
    /// 12 times the width and the gated network three times its own; scores are written and read before
    /// and after the softmax.
    fn between_kernels(&self, element: f64, keys: f64) -> f64 {
        if self.fused {
            return 0.0;
        }
        let widths = 12.0 * self.hidden as f64 + 3.0 * self.ffn as f64;
        self.layers as f64 * element * (2.0 * widths + 4.0 * self.heads as f64 * keys)
    }
}

/// What serving comes to. Times are null where the experts do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ModelSwitchingReport {
    /// True if near and far memory hold all experts.
    pub fits: bool,
    /// Experts that near memory holds beside the router.
    pub near_experts: u64,
    /// Experts that the node holds.
    pub node_experts: u64,
    /// Nodes that hold all experts near; null where not even one fits.
    pub nodes_all_near: Option<u64>,
    /// Nodes that hold all experts near or far; null where not even one fits.
    pub nodes: Option<u64>,
    /// Copy of one expert from far to near.
    pub switch_s: f64,
    /// Prompts that find their expert near, in the long run.
    pub hit_rate: Option<f64>,
    /// Router, all prompts at once.
    pub router_s: Option<f64>,
    /// Copies of a batch.
    pub copy_s: Option<f64>,
    /// One prompt by its expert.
    pub expert_s: Option<f64>,
    /// The batch.
    pub total_s: Option<f64>,
}

fn bf16() -> Dtype {
    Dtype::Bf16
}

fn yes() -> bool {
    true
}

/// Serves a batch of prompts (Prabhakar et al. 2024, SN40L, arXiv 2405.07518, section VI-C).
///
/// ```text
/// T = T_router + n (1 - h) (W / B_copy + t_copy) + n T_expert          n prompts, one after the other
/// T_expert = pass(input tokens) + output tokens * pass(1)
/// pass(k) = max(W / B, 2 P k / F) + k A / B + kernels t_launch + 2 layers t_collective
/// ```
///
/// h: hit rate of near memory over experts; W: weights, bytes; P: weights, elements; A: bytes of
/// activations between kernels that are not fused; B: near memory, bytes/s; F: FLOP/s. A layer has two
/// collectives, as tensor parallelism does. Weights are read only: giving one up costs nothing. Keys
/// and values are left out, and copies do not overlap with anything.
pub fn model_switching(
    cluster: &Cluster,
    request: &ModelSwitchingRequest,
    control: &Control,
) -> Result<ModelSwitchingReport> {
    check(request)?;
    let machine = Machine::of(cluster, request.dtype, &request.machine)?;
    let size = |work: &PromptWork| work.bytes(request.dtype);
    let weights = size(&request.expert);
    let router_bytes = request.router.as_ref().map_or(0.0, size);
    let near = whole((machine.near_bytes - request.reserved_bytes - router_bytes) / weights);
    let far = whole(machine.far_bytes / weights);
    let node = if request.inclusive {
        far.max(near)
    } else {
        far + near
    };
    let mut answer = ModelSwitchingReport {
        fits: request.experts <= node && near > 0,
        near_experts: near,
        node_experts: node,
        nodes_all_near: nodes(request.experts, near),
        nodes: nodes(request.experts, node).filter(|_| near > 0),
        switch_s: weights / machine.copy_bytes_per_s + request.copy_latency_s,
        hit_rate: None,
        router_s: None,
        copy_s: None,
        expert_s: None,
        total_s: None,
    };
    if answer.fits {
        serve(request, &machine, &mut answer, control)?;
    }
    Ok(answer)
}

fn serve(
    request: &ModelSwitchingRequest,
    machine: &Machine,
    answer: &mut ModelSwitchingReport,
    control: &Control,
) -> Result<()> {
    let alike = Popularity::Zipf {
        objects: request.experts,
        exponent: 0.0,
    };
    let demand = Demand::new(request.popularity.as_ref().unwrap_or(&alike), &[])?;
    let found = demand.hits(request.policy, answer.near_experts as f64, control)?;
    let prompts = request.prompts as f64;
    let copy = prompts * (1.0 - found.hit_rate) * answer.switch_s;
    let passes = PassSetting { request, machine };
    let router = request.router.as_ref().map_or(0.0, |router| {
        passes.run(router, prompts * router.input_tokens as f64)
            + router.output_tokens as f64 * passes.run(router, prompts)
    });
    let expert = &request.expert;
    let prompt = passes.run(expert, expert.input_tokens as f64)
        + expert.output_tokens as f64 * passes.run(expert, 1.0);
    answer.hit_rate = Some(found.hit_rate);
    answer.router_s = Some(router);
    answer.copy_s = Some(copy);
    answer.expert_s = Some(prompt);
    answer.total_s = Some(router + copy + prompts * prompt);
    Ok(())
}

impl PromptWork {
    fn bytes(&self, dtype: Dtype) -> f64 {
        self.weight_bytes.unwrap_or(self.parameters * dtype.bytes())
    }
}

/// What a pass depends on beside its model.
struct PassSetting<'a> {
    request: &'a ModelSwitchingRequest,
    machine: &'a Machine,
}

impl PassSetting<'_> {
    /// A pass of so many tokens, seconds.
    fn run(&self, work: &PromptWork, tokens: f64) -> f64 {
        if tokens <= 0.0 {
            return 0.0;
        }
        let (request, machine) = (self.request, self.machine);
        let read = work.bytes(request.dtype) / machine.near_bytes_per_s;
        let multiplied = 2.0 * work.parameters * tokens / machine.flops_per_s;
        let layers = work.decoder.map_or(0.0, |decoder| {
            let keys = work.input_tokens as f64 + work.output_tokens as f64 / 2.0;
            let between = decoder.between_kernels(request.dtype.bytes(), keys);
            tokens * between / machine.near_bytes_per_s
                + decoder.kernels() * machine.launch_s
                + 2.0 * decoder.layers as f64 * request.collective_s
        });
        read.max(multiplied) + layers
    }
}

/// How many whole objects this many are; none where it is less than nothing.
fn whole(many: f64) -> u64 {
    // at most 1e60 by the checks, and a cast stops at the largest number
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let many = many.max(0.0) as u64;
    many.min(1 << 62)
}

fn nodes(experts: u64, each: u64) -> Option<u64> {
    (each > 0).then(|| experts.div_ceil(each))
}

fn check(request: &ModelSwitchingRequest) -> Result<()> {
    count("experts", request.experts, 1, MOST)?;
    count("prompts", request.prompts, 1, MOST)?;
    not_negative("reserved_bytes", request.reserved_bytes)?;
    not_negative("copy_latency_s", request.copy_latency_s)?;
    not_negative("collective_s", request.collective_s)?;
    check_work("expert", &request.expert)?;
    if let Some(Popularity::Zipf { objects, .. }) = request.popularity {
        count(
            "popularity.objects",
            objects,
            request.experts,
            request.experts,
        )?;
    }
    if let Some(Popularity::Measured(weights)) = &request.popularity {
        let listed = weights.len() as u64;
        count("popularity", listed, request.experts, request.experts)?;
    }
    request
        .router
        .map_or(Ok(()), |router| check_work("router", &router))
}

fn check_work(field: &str, work: &PromptWork) -> Result<()> {
    let at = |name: &str| format!("{field}.{name}");
    positive(&at("parameters"), work.parameters)?;
    if let Some(bytes) = work.weight_bytes {
        positive(&at("weight_bytes"), bytes)?;
    }
    count(&at("input_tokens"), work.input_tokens, 0, MOST)?;
    count(&at("output_tokens"), work.output_tokens, 0, MOST)?;
    if let Some(decoder) = work.decoder {
        for (name, value) in [
            ("layers", decoder.layers),
            ("hidden", decoder.hidden),
            ("ffn", decoder.ffn),
            ("heads", decoder.heads),
        ] {
            count(&at(&format!("decoder.{name}")), value, 1, MOST)?;
        }
    }
    Ok(())
}

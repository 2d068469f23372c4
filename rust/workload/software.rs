//! What does training software do beside a model's products: passes over memory, launches, gathers?

use crate::error::{Error, Result};
use crate::units::Seconds;
use serde::{Deserialize, Serialize};

/// Largest number of passes, bytes or collectives that is taken for real.
const MOST: f64 = 1000.0;

/// A software profile: facts of a training program that are no choice of a plan.
///
/// Passes are counted in tensors of the width that they go over, in the activation format, forward
/// and backward. The default is fused kernels, launched ahead of the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Software {
    /// Name of the profile.
    pub name: String,
    /// Passes of a norm. Fused: reads input, writes output; backward reads output gradient and input
    /// and writes the input gradient, and reads both again for the gains' gradient, which sums over
    /// tokens and not over columns (a kernel of its own).
    pub norm: [f64; 2],
    /// Passes of a rotation of queries and keys. Fused: reads and writes each way.
    pub rotary: [f64; 2],
    /// Passes of a plain activation. Fused: reads, writes; reads gradient and input, writes gradient.
    pub activation: [f64; 2],
    /// Passes of a gated activation over its output width. Fused: reads two halves, writes one; reads
    /// gradient and two halves, writes two gradients.
    pub gated_activation: [f64; 2],
    /// Passes over the scores of unfused attention between its products, dropout left out. Fused scale,
    /// mask and softmax: reads and writes; backward reads output and gradient and writes.
    pub scores: [f64; 2],
    /// Those that a causal mask spares: a kernel that knows it reads the lower triangle only.
    pub scores_spared: [f64; 2],
    /// Passes by which an addition to the residual stream exceeds one fused kernel.
    pub addition: [f64; 2],
    /// Passes over a product's output by which its bias is added outside of the product.
    pub bias: [f64; 2],
    /// Bytes of a gradient's element by which adding it to its sum exceeds one pass that reads both and
    /// writes the sum.
    pub accumulation: f64,
    /// Bytes per logit that the cross-entropy moves. The default is Megatron-LM's separate passes of
    /// `vocab_parallel_cross_entropy`: cast to fp32 (2 + 4), row maximum (4), shift (4 + 4),
    /// exponential (4 + 4), row sum (4), normalisation (4 + 4); backward the fp32 softmax is scaled in
    /// place (4 + 4) and cast (4 + 2).
    pub loss: [f64; 2],
    /// Bytes per logit that the cross-entropy holds at most beside what it keeps for its backward pass;
    /// absent: logits and their gradient in the activation format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_memory: Option<f64>,
    /// Passes over what routed experts return by which their biases are added, forward and backward, where
    /// the product does not do so itself.
    pub expert_bias: [f64; 2],
    /// Tokens are sorted once more between all-to-all and experts, each way, where a rank holds several
    /// experts (Megatron-Core, `MoEAlltoAllTokenDispatcher`): rows arrive by rank and are wanted by expert.
    pub sorts_received: bool,
    /// A token crosses to a unit of the fabric once and is copied there to the ranks of its experts (`DeepEP`,
    /// `HybridEP`: DeepSeek-V3, arXiv 2412.19437, section 3.2.2); else each of its copies crosses.
    pub sends_once: bool,
    /// Weights are cast to a narrow format once a step; else for every micro-batch.
    pub casts_weights_once: bool,
    /// Collectives into which ZeRO-3 cuts the gather of one layer's weights: 1 where they are flat.
    pub gathers_per_layer: f64,
    /// True where weights are gathered once more for what the backward pass computes again.
    pub gathers_again: bool,
    /// Time that the host takes for each rank of such a gather while the device waits: a list of as
    /// many views, into which as many copies go.
    pub gather_rank_time: Seconds,
    /// True where the host waits for each kernel before it issues the next one.
    pub blocking: bool,
    /// Backward passes over queries, keys and values by which their gradients become one tensor, where
    /// one product made all three and another program's fused attention takes them apart.
    pub joined: f64,
    /// Scales of whole tensors in fp8 come from earlier steps; else a tensor is read once more to find its
    /// own before it is cast.
    pub delayed_scaling: bool,
    /// Bytes that a device moves per gathered weight beside a ZeRO-3 gather, which delivers one flat
    /// piece of each rank: 0 where weights are views of what the collective writes.
    pub gather_copy: f64,
    /// Bytes that a device moves per gradient before ZeRO stages 2 and 3 reduce it: gradients are put
    /// side by side, cast and divided.
    pub reduce_copy: f64,
    /// Bytes that clipping and update of Adam move per trained element; absent: those of the separate
    /// kernels of Megatron-LM (`memory::optimizer_traffic`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<f64>,
    /// Full recomputation of a layer ends with the last tensor that its backward pass reads, so what
    /// follows is not run again: the last product of a feed-forward part and the addition behind it
    /// (PyTorch 2.1 on, `torch/utils/checkpoint.py`, early stop of the non-reentrant kind).
    pub stops_early: bool,
    /// Recomputation repeats products whose output no gradient reads, too: those at the end of a layer.
    /// A compiler drops them, and so does a checkpoint that stops once it has what it needs.
    pub repeat_unread: bool,
    /// Keys and values of all context ranks are gathered before attention starts, which then waits for
    /// them; else each rank attends to what it has while the next part arrives.
    pub gathers_keys_first: bool,
    /// Replicas whose devices share the adapters of a unit send to the next stage at unlike times, each
    /// with all adapters to itself; else those that lie side by side send at once.
    pub staggers_sends: bool,
    /// Selective recomputation repeats the feed-forward half besides the attention core, so that the
    /// narrow products alone stay.
    pub selective_feed_forward: bool,
    /// Tokens reach experts and come back by products with masks of tokens by slots, not by sorting;
    /// every expert then computes all slots of its capacity factor.
    pub dispatch_products: bool,
    /// Time that the host takes to issue what one kernel of a lowered block stands for.
    pub host_time: Seconds,
}

impl Default for Software {
    fn default() -> Self {
        Self {
            name: String::new(),
            norm: [2.0, 5.0],
            rotary: [2.0, 2.0],
            activation: [2.0, 3.0],
            gated_activation: [3.0, 5.0],
            scores: [2.0, 3.0],
            scores_spared: [0.5, 1.0],
            addition: [0.0, 0.0],
            bias: [0.0, 0.0],
            accumulation: 0.0,
            loss: [38.0, 14.0],
            loss_memory: None,
            expert_bias: [0.0, 0.0],
            sorts_received: false,
            sends_once: false,
            casts_weights_once: false,
            gathers_per_layer: 1.0,
            gathers_again: false,
            gather_rank_time: Seconds::ZERO,
            blocking: false,
            joined: 0.0,
            delayed_scaling: false,
            gather_copy: 0.0,
            reduce_copy: 0.0,
            update: None,
            stops_early: false,
            repeat_unread: true,
            gathers_keys_first: false,
            staggers_sends: false,
            selective_feed_forward: false,
            dispatch_products: false,
            host_time: Seconds::ZERO,
        }
    }
}

impl Software {
    /// Refuses figures that no program has.
    pub fn check(&self) -> Result<()> {
        let pairs = [
            ("norm", self.norm),
            ("rotary", self.rotary),
            ("activation", self.activation),
            ("gated_activation", self.gated_activation),
            ("scores", self.scores),
            ("scores_spared", self.scores_spared),
            ("addition", self.addition),
            ("bias", self.bias),
            ("loss", self.loss),
            ("expert_bias", self.expert_bias),
        ];
        for (field, pair) in pairs {
            for value in pair {
                within(field, value, 0.0, MOST)?;
            }
        }
        let bytes = [
            ("joined", self.joined),
            ("gather_copy", self.gather_copy),
            ("reduce_copy", self.reduce_copy),
            ("update", self.update.unwrap_or(0.0)),
            ("loss_memory", self.loss_memory.unwrap_or(0.0)),
        ];
        for (field, value) in bytes {
            within(field, value, 0.0, MOST)?;
        }
        within("gathers_per_layer", self.gathers_per_layer, 1.0, MOST)?;
        within("accumulation", self.accumulation, 0.0, MOST)?;
        within("gather_rank_time", self.gather_rank_time.value(), 0.0, 1.0)?;
        within("host_time", self.host_time.value(), 0.0, 1.0)
    }
}

fn within(field: &str, value: f64, least: f64, most: f64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let field = format!("training.software.{field}");
    Err(Error::invalid(field, value, format!("{least} to {most}")))
}

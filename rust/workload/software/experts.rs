//! How do tokens reach experts, what runs there, and how do they come back?

use super::limits;
use crate::error::Result;
use crate::units::Seconds;
use serde::{Deserialize, Serialize};

/// Most rows of a tile: operands of larger ones fit into no device's registers or on-chip memory.
const MOST_TILE_ROWS: f64 = 4096.0;

/// `[software.experts]` of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Experts {
    /// Tokens reach experts and come back by products with masks of tokens by slots, not by sorting;
    /// every expert then computes all slots of its capacity factor.
    pub dispatch_products: bool,
    /// Passes over rows of tokens that go to experts, forward and backward: they are picked in the order of experts,
    /// read and written; what a program adds to that counts more.
    pub dispatch_passes: [f64; 2],
    /// The same of rows that come back, are weighed and added up.
    pub combine_passes: [f64; 2],
    /// Kernels beside the passes of a dispatch, forward and backward, that take elements one by one: rows that are
    /// picked or added up by an index of every element (`torch.gather`, `scatter_add`).
    pub dispatch_strided: [f64; 2],
    /// The same of rows that come back.
    pub combine_strided: [f64; 2],
    /// Passes over all tokens of a micro-batch for each expert of the rank, forward and backward: a loop over experts
    /// each of which picks rows out of the stream makes a gradient as long as the stream and adds it to the others.
    pub stream_passes: [f64; 2],
    /// Passes over what the first product of routed experts makes, beside their activation's.
    pub expert_passes: [f64; 2],
    /// Passes over what routed experts return by which their biases are added, forward and backward, where
    /// the product does not do so itself.
    pub expert_bias: [f64; 2],
    /// Kernels of those, forward and backward, that take elements one by one; their passes are not counted above.
    pub expert_bias_strided: [f64; 2],
    /// Tokens are sorted once more between all-to-all and experts, each way, where a rank holds several
    /// experts (Megatron-Core, `MoEAlltoAllTokenDispatcher`): rows arrive by rank and are wanted by expert.
    pub sorts_received: bool,
    /// A token reaches a rank once, crosses to a unit of the fabric once and is copied there to the ranks of its
    /// experts (`DeepEP`, `HybridEP`: DeepSeek-V3, arXiv 2412.19437, section 3.2.2); else each copy crosses.
    pub sends_once: bool,
    /// What the kernels of an all-to-all of tokens take for each row beside its bytes: of one that sends them to
    /// experts, and of one that brings them back and adds them up.
    pub row_time: [Seconds; 2],
    /// Before a dispatch each rank gathers which of all experts every token of the group wants, a byte each, and
    /// reads that map (`HybridEP`, `allgather_routing_map`).
    pub gathers_routing: bool,
    /// With each copy of a dispatched token go the router's weights, in fp32, of all experts of the fabric's
    /// innermost unit, and their gradients on the way back (`HybridEP`).
    pub sends_row_weights: bool,
    /// The router's weights of dispatched tokens, in fp32, cross in an all-to-all of their own.
    pub sends_weights: bool,
    /// Operands of routed experts are cast one expert after another: a kernel for each, and where a scale
    /// of a whole tensor is sought three, which find the maximum, make the scale of it and cast.
    pub casts_each_expert: bool,
    /// Small kernels of routing beside those that move tokens, forward and backward: counts, maps of rows,
    /// the loss that balances the load.
    pub routing_kernels: [f64; 2],
    /// How often a router picks out of the scores of all experts by a selection of PyTorch: for the tokens, for the
    /// loss that balances the load. None where a fused kernel does both.
    pub selections: f64,
    /// All-to-alls of one micro-batch run under the opposite pass of another (Megatron-Core,
    /// `overlap_moe_expert_parallel_comm`). Every pass is taken as paired, those that fill and drain a
    /// pipeline, too.
    pub pairs_passes: bool,
    /// Share of compute that those all-to-alls take from the pass beside them; absent: what any collective takes.
    pub paired_share: Option<f64>,
    /// Products of routed experts are kernels of their own, of which one follows another, though several streams are
    /// there for them (Transformer Engine's `GroupedLinear` on cuBLAS); else one kernel computes all experts of a rank.
    pub experts_in_turn: bool,
    /// Rows of a tile of the one kernel that computes all experts, where rows of several may share a tile: it is
    /// computed for each of them, and the others' rows are masked. Each expert but the first begins somewhere in a
    /// tile, so that it has so many rows more. None where every expert has tiles of its own.
    pub shared_tile_rows: f64,
    /// What routed experts keep is copied out of buffers of the largest load into pages and back (Megatron-Core,
    /// `moe_paged_stash`): the inputs of both grouped products and of the activation. Copies run on streams of their
    /// own and are priced as if nothing hid them: products of narrow experts want the same memory.
    pub stashes_experts: bool,
    /// The router's probabilities multiply what experts' activations make and not what experts return, which nobody
    /// keeps then (Transformer Engine pull request 1468).
    pub weighs_activations: bool,
}

impl Default for Experts {
    fn default() -> Self {
        Self {
            dispatch_products: false,
            dispatch_passes: [2.0, 2.0],
            combine_passes: [2.0, 2.0],
            dispatch_strided: [0.0, 0.0],
            combine_strided: [0.0, 0.0],
            stream_passes: [0.0, 0.0],
            expert_passes: [0.0, 0.0],
            expert_bias: [0.0, 0.0],
            expert_bias_strided: [0.0, 0.0],
            sorts_received: false,
            sends_once: false,
            row_time: [Seconds::ZERO; 2],
            gathers_routing: false,
            sends_row_weights: false,
            sends_weights: false,
            casts_each_expert: false,
            routing_kernels: [0.0, 0.0],
            selections: 0.0,
            pairs_passes: false,
            paired_share: None,
            experts_in_turn: false,
            shared_tile_rows: 0.0,
            stashes_experts: false,
            weighs_activations: false,
        }
    }
}

impl Experts {
    /// Refuses figures that no program has.
    pub(super) fn check(&self) -> Result<()> {
        limits::pair("experts.dispatch_passes", self.dispatch_passes)?;
        limits::pair("experts.combine_passes", self.combine_passes)?;
        limits::pair("experts.dispatch_strided", self.dispatch_strided)?;
        limits::pair("experts.combine_strided", self.combine_strided)?;
        limits::pair("experts.stream_passes", self.stream_passes)?;
        limits::pair("experts.expert_passes", self.expert_passes)?;
        limits::pair("experts.expert_bias", self.expert_bias)?;
        limits::pair("experts.expert_bias_strided", self.expert_bias_strided)?;
        limits::times("experts.row_time", self.row_time)?;
        limits::pair("experts.routing_kernels", self.routing_kernels)?;
        limits::count("experts.selections", self.selections)?;
        limits::within(
            "experts.shared_tile_rows",
            self.shared_tile_rows,
            0.0,
            MOST_TILE_ROWS,
        )?;
        limits::within(
            "experts.paired_share",
            self.paired_share.unwrap_or_default(),
            0.0,
            1.0,
        )
    }
}

//! What does training software do beside a model's products: passes over memory, launches, gathers?

use crate::error::{Error, Result};
use crate::units::{Dtype, Seconds};
use serde::{Deserialize, Serialize};

/// Largest number of passes, bytes or collectives that is taken for real.
const MOST: f64 = 1000.0;

/// Largest multiple to which rows of a vocabulary are rounded up.
const MOST_ROWS: f64 = 1_048_576.0;

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
    /// Widths that a norm keeps, in the activation format: its input, or what kernels of their own made of it.
    pub norm_kept: f64,
    /// Passes of a rotation of queries and keys. Fused: reads and writes each way.
    pub rotary: [f64; 2],
    /// Kernels of those, forward and backward, that take elements one by one; their passes are not counted above.
    pub rotary_strided: [f64; 2],
    /// Passes of a plain activation. Fused: reads, writes; reads gradient and input, writes gradient.
    pub activation: [f64; 2],
    /// Widths that GELU keeps: its input, or what kernels of their own made of it.
    pub activation_kept: f64,
    /// Passes of a gated activation over its output width. Fused: reads two halves, writes one; reads
    /// gradient and two halves, writes two gradients.
    pub gated_activation: [f64; 2],
    /// Kernels of those, forward and backward, that take elements one by one; their passes are not counted above.
    pub gated_activation_strided: [f64; 2],
    /// Widths that a gated activation keeps: its two inputs, and where the gate and the product are kernels of
    /// their own, what the gate made.
    pub gated_kept: f64,
    /// Passes over the scores of unfused attention between its products, dropout left out. Fused scale,
    /// mask and softmax: reads and writes; backward reads output and gradient and writes.
    pub scores: [f64; 2],
    /// Those that a causal mask spares: a kernel that knows it reads the lower triangle only.
    pub scores_spared: [f64; 2],
    /// Passes over queries, keys and values around unfused attention beyond those that give the context its
    /// order back and join the gradients of all three: copies that bring heads side by side, scaling.
    pub heads: [f64; 2],
    /// Passes by which an addition to the residual stream exceeds one fused kernel.
    pub addition: [f64; 2],
    /// Kernels of those, forward and backward, that take elements one by one; their passes are not counted above.
    pub addition_strided: [f64; 2],
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
    /// Bytes of a logit that the loss keeps for its backward pass, and that lie beside them when most do;
    /// absent: the fp32 softmax of Megatron-LM, and logits with their gradient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logits: Option<[f64; 2]>,
    /// The second of those where tensor ranks share the vocabulary, if it differs (`loss_parallel` of `PyTorch`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logits_shared: Option<f64>,
    /// Rows of the embedding table and of the head are rounded up to a multiple of this where the model does
    /// not say how many there are (`padded_vocab`). Megatron-LM: 128 (`--make-vocab-size-divisible-by`), there
    /// of each tensor rank's part.
    pub vocabulary_multiple: u64,
    /// Passes over what routed experts return by which their biases are added, forward and backward, where
    /// the product does not do so itself.
    pub expert_bias: [f64; 2],
    /// Kernels of those, forward and backward, that take elements one by one; their passes are not counted above.
    pub expert_bias_strided: [f64; 2],
    /// Passes over rows of tokens that go to experts, forward and backward: they are picked in the order of experts,
    /// read and written; what a program adds to that counts more.
    pub dispatch_passes: [f64; 2],
    /// The same of rows that come back, are weighed and added up.
    pub combine_passes: [f64; 2],
    /// Passes over what the first product of routed experts makes, beside their activation's.
    pub expert_passes: [f64; 2],
    /// Tokens are sorted once more between all-to-all and experts, each way, where a rank holds several
    /// experts (Megatron-Core, `MoEAlltoAllTokenDispatcher`): rows arrive by rank and are wanted by expert.
    pub sorts_received: bool,
    /// A token reaches a rank once, crosses to a unit of the fabric once and is copied there to the ranks of its
    /// experts (`DeepEP`, `HybridEP`: DeepSeek-V3, arXiv 2412.19437, section 3.2.2); else each copy crosses.
    pub sends_once: bool,
    /// Weights are cast to a narrow format once a step, behind the update; else for every micro-batch.
    pub casts_weights_once: bool,
    /// Collectives into which ZeRO-3 cuts the gather of one layer's weights: 1 where they are flat.
    pub gathers_per_layer: f64,
    /// True where weights are gathered once more for what the backward pass computes again.
    pub gathers_again: bool,
    /// Weights that the forward pass gathered (ZeRO stage 3) stay whole until the backward pass has used them
    /// (`reshard_after_forward = False` of FSDP).
    pub keeps_gathered: bool,
    /// Inputs of products that tensor ranks gather stay whole for the backward pass (`DTensor` of `PyTorch`,
    /// whose products save what they read); else each rank keeps its part, which is gathered again
    /// (Korthikanti et al. 2022, section 4.2.2).
    pub keeps_gathered_inputs: bool,
    /// What stages hand over stays until the step ends: for each of its micro-batches a buffer of the input
    /// and one of the output's gradient, the output and the input's gradient (`torch.distributed.pipelining`).
    pub keeps_handed: bool,
    /// Gradients of a virtual stage are summed whole and reduced once its last micro-batch has gone back;
    /// then their shards alone stay, which are tensors of their own (FSDP in a pipeline). Those of one block
    /// lie beside the sum before they are added to it, and the last buffer of a reduction stays until the
    /// next one (`_root_post_backward_final_callback` of `_fsdp_state.py` frees it after a last backward
    /// pass, which a pipeline never declares).
    pub reduces_by_stage: bool,
    /// The last stage puts the outputs of all micro-batches together at the end of a step
    /// (`torch.distributed.pipelining`).
    pub merges_outputs: bool,
    /// Gathers of weights fill buffers of their own, out of which weights are copied; embedding and head are
    /// gathered together and stay whole (FSDP2 of `PyTorch`).
    pub gathers_apart: bool,
    /// Owners cast weights of products before a gather, so that narrow ones travel and stay (FSDP2 of
    /// `PyTorch` with `torchao`, `enable_fsdp_float8_all_gather`), where replicas share them: see `narrows`.
    pub gathers_narrow: bool,
    /// Shards of weights are the fp32 ones that the optimizer updates (ZeRO stage 3): what a gather sends is
    /// cast for it, and no narrower shard stays (FSDP of `PyTorch` with mixed precision).
    pub wide_shards: bool,
    /// Weights become narrow again where a pass needs them, and no narrow copy of them stays.
    pub recasts_weights: bool,
    /// Time that the host takes for each rank of such a gather while the device waits: a list of as
    /// many views, into which as many copies go.
    pub gather_rank_time: Seconds,
    /// Time that the host takes for such a gather, and for each rank of it, before it issues the next
    /// kernels: it may run ahead of the device with both.
    pub gather_host_time: [Seconds; 2],
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
    /// Stage 1 of ZeRO sums whole gradients on every rank (an all-reduce), though each updates a part of them;
    /// else a rank gets the sums of its own part (reduce-scatter).
    pub reduces_whole: bool,
    /// Stages 1 and 2 of ZeRO deal whole tensors, so many of each layer, to ranks, each of which broadcasts its
    /// own after the update, one broadcast after another; 0 where ranks hold even shards and one all-gather
    /// brings them.
    pub dealt_tensors: u32,
    /// A stage of a pipeline sends and receives in turn, as one blocking message follows another; else what goes
    /// one way and what comes the other way travel together.
    pub sends_apart: bool,
    /// Gathers by which tensor ranks rejoin what a stage hands over, mean of forward and backward pass.
    pub handover_gathers: f64,
    /// Passes over the rejoined tensor beside them, mean of forward and backward pass.
    pub handover_copies: f64,
    /// Time that the host takes a hand-over, which it first waits for, while the device has nothing to do.
    pub handover_time: Seconds,
    /// Inputs of layers that are kept for full recomputation are cut over the tensor ranks and gathered before
    /// a layer is computed again (`distribute-checkpointed-activations` of Megatron-LM).
    pub shared_checkpoints: bool,
    /// Bytes that clipping and update of Adam move per trained element with fp32 state, of which narrower
    /// state takes its share; absent: those of the separate kernels of Megatron-LM (`memory::optimizer_traffic`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<f64>,
    /// The same with state of 16 bits; absent: its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_narrow: Option<f64>,
    /// Gradients are let go of after an update and come back one after another as the next backward pass makes
    /// them (`zero_grad(set_to_none=True)` of `PyTorch`), so that in a step of one micro-batch none are there
    /// when most activations are.
    pub frees_gradients: bool,
    /// Copies of all elements that an update trains which lie beside state and gradients while it goes on, in
    /// the format of the state: what an optimizer that takes lists of tensors at once makes between its kernels.
    pub update_held: f64,
    /// Time that the host takes in a step for the tensors of one layer, whose gradients it checks and measures
    /// one by one while the device waits; without shards of the state (ZeRO stage 0).
    pub layer_update_time: Seconds,
    /// Full recomputation of a layer ends with the last tensor that its backward pass reads, so what
    /// follows is not run again: the last product of a feed-forward part and the addition behind it
    /// (PyTorch 2.1 on, `torch/utils/checkpoint.py`, early stop of the non-reentrant kind).
    pub stops_early: bool,
    /// Recomputation repeats products whose output no gradient reads, too: those at the end of a layer, and
    /// keeps what they make where it keeps outputs. A compiler drops them, and so does, of what is repeated,
    /// a checkpoint that stops once it has what it needs.
    pub repeat_unread: bool,
    /// A product that adds its weight's gradient to the sum itself gives the framework a tensor of that shape in
    /// the gradient's place, in the format of activations, which stays and serves all weights of one shape
    /// (`get_dummy_wgrad` of Transformer Engine since its pull request 1651 of April 2025, which Megatron-Core's
    /// head takes, too). Holds where gradients are fused (`Training::fused_gradients`).
    pub gradient_stand_ins: bool,
    /// Keys and values of all context ranks are gathered before attention starts, which then waits for
    /// them; else each rank attends to what it has while the next part arrives.
    pub gathers_keys_first: bool,
    /// Passes over the width of queries for each part of keys and values that comes round a ring of context
    /// ranks, forward and backward, by which the part's results are made and merged. The default is Transformer
    /// Engine's `AttnFuncWithCPAndKVP2P` of balanced ranks, which let half of the parts see half of their queries:
    /// a kernel merges outputs (3 passes, or 1.5), half of the queries are copied (1 of them); backward the same of
    /// gradients of queries, and copies of outputs and their gradients, too.
    pub ring: [f64; 2],
    /// The same over the widths of keys and values: copies of half of them; backward sums of their gradients.
    pub ring_keys: [f64; 2],
    /// Widths of queries, and of keys and values, that a pass of attention holds until it ends for each context
    /// rank. The default is Transformer Engine's, whose forward pass keeps the outputs of all steps until they
    /// are merged (`out_per_step`) and all parts that came (`p2p_comm_buffers`).
    pub ring_held: [f64; 2],
    /// Replicas whose devices share the adapters of a unit send to the next stage at unlike times, each
    /// with all adapters to itself; else those that lie side by side send at once.
    pub staggers_sends: bool,
    /// Selective recomputation repeats the feed-forward half besides the attention core, so that the
    /// narrow products alone stay.
    pub selective_feed_forward: bool,
    /// Selective recomputation keeps what fused attention and every second dense product of a layer
    /// make, from the first product on, and its input; it repeats all else (torchtitan,
    /// `selective_ac_option = op`).
    pub selective_alternate: bool,
    /// Queries, keys and values come from products of their own, and so do both inputs of a gated
    /// activation.
    pub products_apart: bool,
    /// Gradients of weights leave their product once, in the format of activations, and are added to no sum
    /// on the rank: their owner adds them up (FSDP), or there is one micro-batch.
    pub plain_gradients: bool,
    /// Selective recomputation keeps a layer's input and what products make, alone, and repeats all that
    /// lies between: norms, rotations, activations (policies of `jax.checkpoint` by names of products).
    pub keeps_products: bool,
    /// Selective recomputation keeps what the attention core makes, too, and does not repeat it (policy
    /// `minimal_flash` of `MaxText`).
    pub keeps_core: bool,
    /// Selective recomputation that keeps products makes the output projection of attention again, and the
    /// stream behind it (policies `save_qkv_proj` and `qkv_proj_offloaded` of `MaxText`).
    pub repeats_output: bool,
    /// Rows of the embedding are picked by a product of one-hot rows with the table, and their
    /// gradients added by another (`use_iota_embed` of `MaxText`).
    pub embedding_product: bool,
    /// Reductions among tensor ranks in the backward pass run alone, and the device waits.
    pub reductions_wait: bool,
    /// Tensor ranks add up what they exchange in fp32, cast before and behind: the library of collectives
    /// adds no bf16.
    pub sums_wide: bool,
    /// Tokens reach experts and come back by products with masks of tokens by slots, not by sorting;
    /// every expert then computes all slots of its capacity factor.
    pub dispatch_products: bool,
    /// Time that the host takes to issue what one kernel of a lowered block stands for.
    pub host_time: Seconds,
    /// Operands of routed experts are cast one expert after another: a kernel for each, and where a scale
    /// of a whole tensor is sought three, which find the maximum, make the scale of it and cast.
    pub casts_each_expert: bool,
    /// Time that the host takes beside `host_time` for each expert of a grouped product, forward and
    /// backward: views, allocations and launches in loops over experts.
    pub expert_host_time: [Seconds; 2],
    /// Time that the host takes beside `host_time` for the routing of a mixture layer, forward and
    /// backward: counts of tokens, the loss that balances them, copies to the host.
    pub routing_host_time: [Seconds; 2],
    /// Dispatch takes token counts that the host reads back first: what follows is issued once the device
    /// has come that far.
    pub routing_waits: bool,
    /// Attention and router are replayed from captured graphs: in a layer with routed experts the host
    /// issues what lies between dispatch and combine alone.
    pub replays_attention: bool,
    /// Layers that are a state-space mixer or attention and nothing else are replayed from captured graphs.
    pub replays_mixers: bool,
    /// All-to-alls of one micro-batch run under the opposite pass of another (Megatron-Core,
    /// `overlap_moe_expert_parallel_comm`). Every pass is taken as paired, those that fill and drain a
    /// pipeline, too.
    pub pairs_passes: bool,
    /// Share of compute that those all-to-alls take from the pass beside them; absent: what any collective takes.
    pub paired_share: Option<f64>,
    /// Small kernels of routing beside those that move tokens, forward and backward: counts, maps of rows,
    /// the loss that balances the load.
    pub routing_kernels: [f64; 2],
    /// How often a router picks out of the scores of all experts by a selection of PyTorch: for the tokens, for the
    /// loss that balances the load. None where a fused kernel does both.
    pub selections: f64,
    /// The router's weights of dispatched tokens, in fp32, cross in an all-to-all of their own.
    pub sends_weights: bool,
    /// What the kernels of an all-to-all of tokens take for each row beside its bytes: of one that sends them to
    /// experts, and of one that brings them back and adds them up.
    pub row_time: [Seconds; 2],
    /// Before a dispatch each rank gathers which of all experts every token of the group wants, a byte each, and
    /// reads that map (`HybridEP`, `allgather_routing_map`).
    pub gathers_routing: bool,
    /// With each copy of a dispatched token go the router's weights, in fp32, of all experts of the fabric's
    /// innermost unit, and their gradients on the way back (`HybridEP`).
    pub sends_row_weights: bool,
    /// Format of the products of fused attention, where it is not that in which activations are kept
    /// (Megatron-Core, `fp8_dot_product_attention`): 16 bits, fp8 or mxfp8.
    pub attention_format: Option<Dtype>,
    /// Products of routed experts are kernels of their own, of which one follows another, though several streams are
    /// there for them (Transformer Engine's `GroupedLinear` on cuBLAS); else one kernel computes all experts of a rank.
    pub experts_in_turn: bool,
    /// What routed experts keep is copied out of buffers of the largest load into pages and back (Megatron-Core,
    /// `moe_paged_stash`): the inputs of both grouped products and of the activation. Copies run on streams of their
    /// own and are priced as if nothing hid them: products of narrow experts want the same memory.
    pub stashes_experts: bool,
    /// The router's probabilities multiply what experts' activations make and not what experts return, which nobody
    /// keeps then (Transformer Engine pull request 1468).
    pub weighs_activations: bool,
    /// The up-projections of latent attention run again in the backward pass (Megatron-Core,
    /// `recompute_modules` with `mla_up_proj`).
    pub repeats_latent: bool,
}

impl Default for Software {
    #[allow(clippy::too_many_lines)] // a line for each field
    fn default() -> Self {
        Self {
            name: String::new(),
            norm: [2.0, 5.0],
            rotary: [2.0, 2.0],
            rotary_strided: [0.0, 0.0],
            activation: [2.0, 3.0],
            gated_activation: [3.0, 5.0],
            gated_activation_strided: [0.0, 0.0],
            norm_kept: 1.0,
            activation_kept: 1.0,
            gated_kept: 2.0,
            scores: [2.0, 3.0],
            scores_spared: [0.5, 1.0],
            heads: [0.0, 0.0],
            addition: [0.0, 0.0],
            addition_strided: [0.0, 0.0],
            bias: [0.0, 0.0],
            accumulation: 0.0,
            loss: [38.0, 14.0],
            logits: None,
            logits_shared: None,
            vocabulary_multiple: 128,
            expert_bias: [0.0, 0.0],
            expert_bias_strided: [0.0, 0.0],
            dispatch_passes: [2.0, 2.0],
            combine_passes: [2.0, 2.0],
            expert_passes: [0.0, 0.0],
            sorts_received: false,
            sends_once: false,
            casts_weights_once: false,
            gathers_per_layer: 1.0,
            gathers_again: false,
            keeps_gathered: false,
            keeps_gathered_inputs: false,
            keeps_handed: false,
            reduces_by_stage: false,
            merges_outputs: false,
            gathers_apart: false,
            gathers_narrow: false,
            wide_shards: false,
            recasts_weights: false,
            gather_rank_time: Seconds::ZERO,
            gather_host_time: [Seconds::ZERO; 2],
            blocking: false,
            joined: 0.0,
            delayed_scaling: false,
            gather_copy: 0.0,
            reduce_copy: 0.0,
            reduces_whole: false,
            dealt_tensors: 0,
            sends_apart: false,
            handover_gathers: 1.0,
            handover_copies: 0.0,
            handover_time: Seconds::ZERO,
            shared_checkpoints: false,
            update: None,
            update_narrow: None,
            frees_gradients: false,
            update_held: 0.0,
            layer_update_time: Seconds::ZERO,
            stops_early: false,
            repeat_unread: true,
            gradient_stand_ins: true,
            gathers_keys_first: false,
            ring: [2.75, 3.75],
            ring_keys: [0.5, 2.75],
            ring_held: [1.0, 1.0],
            staggers_sends: false,
            selective_feed_forward: false,
            selective_alternate: false,
            products_apart: false,
            plain_gradients: false,
            keeps_products: false,
            keeps_core: false,
            repeats_output: false,
            embedding_product: false,
            reductions_wait: false,
            sums_wide: false,
            dispatch_products: false,
            host_time: Seconds::ZERO,
            casts_each_expert: false,
            expert_host_time: [Seconds::ZERO; 2],
            routing_host_time: [Seconds::ZERO; 2],
            routing_waits: false,
            replays_attention: false,
            replays_mixers: false,
            pairs_passes: false,
            paired_share: None,
            routing_kernels: [0.0, 0.0],
            selections: 0.0,
            sends_weights: false,
            row_time: [Seconds::ZERO; 2],
            attention_format: None,
            gathers_routing: false,
            sends_row_weights: false,
            experts_in_turn: false,
            stashes_experts: false,
            weighs_activations: false,
            repeats_latent: false,
        }
    }
}

impl Software {
    /// Figures of the forward and the backward pass, by field.
    fn pairs(&self) -> [(&'static str, [f64; 2]); 23] {
        [
            ("norm", self.norm),
            ("rotary", self.rotary),
            ("rotary_strided", self.rotary_strided),
            ("activation", self.activation),
            ("gated_activation", self.gated_activation),
            ("gated_activation_strided", self.gated_activation_strided),
            ("scores", self.scores),
            ("scores_spared", self.scores_spared),
            ("heads", self.heads),
            ("addition", self.addition),
            ("addition_strided", self.addition_strided),
            ("bias", self.bias),
            ("loss", self.loss),
            ("logits", self.logits.unwrap_or_default()),
            ("expert_bias", self.expert_bias),
            ("expert_bias_strided", self.expert_bias_strided),
            ("dispatch_passes", self.dispatch_passes),
            ("combine_passes", self.combine_passes),
            ("expert_passes", self.expert_passes),
            ("routing_kernels", self.routing_kernels),
            ("ring", self.ring),
            ("ring_keys", self.ring_keys),
            ("ring_held", self.ring_held),
        ]
    }

    /// True where weights of products are cast before so many replicas gather them: context ranks that hold
    /// shards of an only replica gather wide ones (`enable_fsdp_float8_all_gather` counts where
    /// `parallel_dims.dp_shard_enabled`: torchtitan/float8.py).
    pub const fn narrows(&self, replicas: u32) -> bool {
        self.gathers_narrow && replicas > 1
    }

    /// Refuses figures that no program has.
    pub fn check(&self) -> Result<()> {
        for (field, pair) in self.pairs() {
            for value in pair {
                within(field, value, 0.0, MOST)?;
            }
        }
        let single = [
            ("accumulation", self.accumulation),
            ("dealt_tensors", f64::from(self.dealt_tensors)),
            ("handover_gathers", self.handover_gathers),
            ("handover_copies", self.handover_copies),
            ("joined", self.joined),
            ("norm_kept", self.norm_kept),
            ("activation_kept", self.activation_kept),
            ("gated_kept", self.gated_kept),
            ("gather_copy", self.gather_copy),
            ("reduce_copy", self.reduce_copy),
            ("selections", self.selections),
            ("update", self.update.unwrap_or(0.0)),
            ("update_narrow", self.update_narrow.unwrap_or(0.0)),
            ("update_held", self.update_held),
            ("logits_shared", self.logits_shared.unwrap_or(0.0)),
        ];
        for (field, value) in single {
            within(field, value, 0.0, MOST)?;
        }
        if let Some(format) = self.attention_format
            && !matches!(
                format,
                Dtype::Bf16 | Dtype::Fp16 | Dtype::Fp8 | Dtype::Mxfp8
            )
        {
            let allowed = "bf16, fp16, fp8 or mxfp8";
            let field = "training.software.attention_format";
            return Err(Error::invalid(field, format.name(), allowed));
        }
        within("paired_share", self.paired_share.unwrap_or(0.0), 0.0, 1.0)?;
        within("gathers_per_layer", self.gathers_per_layer, 1.0, MOST)?;
        let rows = self.vocabulary_multiple as f64;
        within("vocabulary_multiple", rows, 1.0, MOST_ROWS)?;
        let times = [
            ("gather_rank_time", self.gather_rank_time),
            ("gather_host_time", self.gather_host_time[0]),
            ("gather_host_time", self.gather_host_time[1]),
            ("handover_time", self.handover_time),
            ("layer_update_time", self.layer_update_time),
            ("host_time", self.host_time),
            ("row_time", self.row_time[0]),
            ("row_time", self.row_time[1]),
            ("expert_host_time", self.expert_host_time[0]),
            ("expert_host_time", self.expert_host_time[1]),
            ("routing_host_time", self.routing_host_time[0]),
            ("routing_host_time", self.routing_host_time[1]),
        ];
        for (field, time) in times {
            within(field, time.value(), 0.0, 1.0)?;
        }
        Ok(())
    }
}

fn within(field: &str, value: f64, least: f64, most: f64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let field = format!("training.software.{field}");
    Err(Error::invalid(field, value, format!("{least} to {most}")))
}

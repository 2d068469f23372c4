//! The shape of a transformer as plain data; serde's refusal of unknown fields is the schema.

use crate::error::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which stacks a model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Causal decoder (GPT, Llama, ...).
    Decoder,
    /// Bidirectional encoder (BERT).
    Encoder,
    /// Encoder and decoder with cross-attention (T5).
    EncoderDecoder,
}

/// Feed-forward activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// One input projection.
    Gelu,
    /// One input projection.
    Relu,
    /// The square of a `ReLU` (So et al. 2021, Primer, arXiv 2109.08668): one input projection.
    Relu2,
    /// Gated: two input projections.
    Swiglu,
    /// Gated: two input projections.
    Geglu,
}

/// Norm of the residual stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// Gain and bias.
    Layernorm,
    /// Gain only.
    Rmsnorm,
}

/// How positions enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Position {
    /// A trained table of `max_positions` rows.
    Learned,
    /// Rotation of queries and keys.
    Rotary,
    /// Linear bias on the scores.
    Alibi,
    /// T5's bucketed bias, trained per head.
    Relative,
    /// Nothing.
    None,
}

/// What one layer's attention sees, or what stands in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKind {
    /// All (earlier) positions.
    Full,
    /// The last `sliding_window` positions.
    Sliding,
    /// No attention: a state-space mixer of `state_space`'s widths.
    StateSpace,
}

/// What a mixer does with its state at a position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateRule {
    /// It decays, and what is new is added (Mamba-2).
    #[default]
    Decay,
    /// It decays, and what it has under the new key is replaced: the gated delta rule (Yang et al. 2024, arXiv
    /// 2412.06464). B is then the key, C the query and the step the strength of writing.
    GatedDelta,
}

/// Widths of a mixer with a state: Mamba-2 (Dao and Gu 2024, arXiv 2405.21060, section 7) or Gated `DeltaNet`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateSpace {
    /// What it does with its state.
    #[serde(default)]
    pub rule: StateRule,
    /// Heads.
    pub heads: u64,
    /// Width of one head.
    pub head_dim: u64,
    /// Width of the state: of the vectors B and C.
    pub state: u64,
    /// Groups of heads that share B and C.
    #[serde(default = "one")]
    pub groups: u64,
    /// Taps of the causal convolution.
    #[serde(default = "four")]
    pub convolution: u64,
    /// Positions of a chunk, within which the scan multiplies matrices; absent: 128, or 64 of a delta rule.
    #[serde(default)]
    pub chunk: Option<u64>,
    /// Bias of the convolution; absent: Mamba-2 has one.
    #[serde(default)]
    pub convolution_bias: Option<bool>,
}

/// Routed experts of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixtureOfExperts {
    /// Experts per sparse layer.
    pub experts: u64,
    /// Experts per token.
    pub top_k: u64,
    /// Inner width of one expert.
    pub expert_ffn: u64,
    /// Width to which tokens are projected before they travel, and back after they return; absent: experts
    /// read the stream's own width (`LatentMoE`, arXiv 2601.18089).
    #[serde(default)]
    pub latent_width: Option<u64>,
    /// Inner width of the shared experts together; 0: none.
    #[serde(default)]
    pub shared_ffn: u64,
    /// True where the shared experts' output is scaled by a trained gate (Qwen2-MoE).
    #[serde(default)]
    pub shared_gate: bool,
    /// First layers that stay dense.
    #[serde(default)]
    pub first_dense_layers: u64,
    /// Of the layers after those, every how many-th is sparse (1: all).
    #[serde(default = "one")]
    pub every: u64,
    /// True where the router has a trained bias per expert.
    #[serde(default)]
    pub router_bias: bool,
    /// Most tokens that an expert takes, over the mean; absent: no token is dropped.
    #[serde(default)]
    pub capacity_factor: Option<f64>,
    /// How unevenly tokens choose experts.
    #[serde(default)]
    pub expert_load: ExpertLoad,
}

/// How unevenly tokens choose experts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpertLoad {
    /// All experts alike.
    #[default]
    Balanced,
    /// Expert `i` draws tokens in proportion to `i^-exponent`.
    PowerLaw {
        /// The exponent, 0 = balanced.
        exponent: f64,
    },
    /// Measured share of tokens per expert.
    Histogram {
        /// One non-negative weight per expert.
        weights: Vec<f64>,
    },
}

/// Low-rank adapters beside frozen weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lora {
    /// Rank of the adapters.
    pub rank: u64,
    /// Which projections carry one: any of "query", "key", "value", "output", "up", "gate", "down".
    pub targets: Vec<String>,
}

fn one() -> u64 {
    1
}

/// The shape of a transformer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transformer {
    /// Name for reports.
    pub name: String,
    /// Stacks.
    pub family: Family,
    /// Layers (of each stack, for an encoder-decoder: `encoder_layers` and `layers`).
    pub layers: u64,
    /// Encoder layers of an encoder-decoder.
    #[serde(default)]
    pub encoder_layers: u64,
    /// Encoder positions of an encoder-decoder; absent: as many as decoder positions.
    #[serde(default)]
    pub encoder_sequence: Option<u64>,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads; absent: as many as query heads.
    #[serde(default)]
    pub kv_heads: Option<u64>,
    /// Width of one head; absent: hidden / heads.
    #[serde(default)]
    pub head_dim: Option<u64>,
    /// Inner width of dense feed-forward layers.
    pub ffn: u64,
    /// Vocabulary as in the checkpoint's tokenizer.
    pub vocab: u64,
    /// Rows of the embedding table where it is padded; absent: `vocab`.
    #[serde(default)]
    pub padded_vocab: Option<u64>,
    /// Rows of a learned position table.
    #[serde(default)]
    pub max_positions: u64,
    /// Rows of a trained table of segment kinds (BERT); 0: none.
    #[serde(default)]
    pub segments: u64,
    /// Buckets of a relative position bias, trained per head and shared by a stack's layers.
    #[serde(default = "thirty_two")]
    pub relative_buckets: u64,
    /// How positions enter.
    pub position: Position,
    /// Feed-forward activation.
    pub activation: Activation,
    /// Norm of the residual stream.
    pub norm: Norm,
    /// True where embedding and head share one table.
    #[serde(default)]
    pub tied_embeddings: bool,
    /// Biases on the query, key and value projections.
    #[serde(default)]
    pub qkv_bias: bool,
    /// Bias on the attention output projection.
    #[serde(default)]
    pub output_bias: bool,
    /// Biases on feed-forward projections.
    #[serde(default)]
    pub ffn_bias: bool,
    /// Attention and feed-forward read the same norm and add to the stream together (GPT-J).
    #[serde(default)]
    pub parallel_block: bool,
    /// Norm gains on queries and keys per head (Qwen3, Gemma 3).
    #[serde(default)]
    pub qk_norm: bool,
    /// A gate on the heads' context, projected with the queries (Qwen3-Next; Qiu et al. 2025, arXiv 2505.06708).
    #[serde(default)]
    pub output_gate: bool,
    /// Further norms after attention and feed-forward (Gemma 2 and 3).
    #[serde(default)]
    pub post_norms: bool,
    /// Norm between embedding and first layer (BLOOM, BERT).
    #[serde(default)]
    pub embedding_norm: bool,
    /// False where there is no norm before the head (BERT).
    #[serde(default = "yes")]
    pub final_norm: bool,
    /// Multi-head latent attention (DeepSeek-V2).
    #[serde(default)]
    pub latent: Option<LatentAttention>,
    /// Kinds of attention, repeated over the layers; empty: all full.
    #[serde(default)]
    pub attention_pattern: Vec<AttentionKind>,
    /// Layers that are one part each, a letter a layer: `M` state-space mixer, `*` attention, `-` dense
    /// feed-forward, `E` routed experts (Megatron-Core's hybrid layer pattern); empty: layers have two halves.
    #[serde(default)]
    pub layer_pattern: String,
    /// State-space mixers.
    #[serde(default)]
    pub state_space: Option<StateSpace>,
    /// Window of sliding layers.
    #[serde(default)]
    pub sliding_window: Option<u64>,
    /// Routed experts.
    #[serde(default)]
    pub experts: Option<MixtureOfExperts>,
    /// Modules behind the last layer that predict one token further each (DeepSeek-V3, arXiv 2412.19437,
    /// section 2.2): a projection of stream and next token's embedding, a layer, and the shared head again.
    #[serde(default)]
    pub prediction_layers: u64,
    /// The layers of such a module, in the letters of `layer_pattern`; empty: one like the last layer.
    #[serde(default)]
    pub prediction_pattern: String,
    /// Parameters of further trained vectors or heads that take part in no listed operator
    /// (BERT's pooler and prediction heads), by name.
    #[serde(default)]
    pub extra_parameters: BTreeMap<String, u64>,
    /// Freezes all weights but the adapters.
    #[serde(default)]
    pub lora: Option<Lora>,
    /// Freezes the first layers and the embedding.
    #[serde(default)]
    pub frozen_layers: u64,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// Other spellings that mean this model.
    #[serde(default)]
    pub aliases: Vec<String>,
}

/// Widths of multi-head latent attention (DeepSeek-V2, section 2.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatentAttention {
    /// Compressed width of queries; absent: queries are projected directly.
    #[serde(default)]
    pub query_rank: Option<u64>,
    /// Compressed width of keys and values.
    pub kv_rank: u64,
    /// Width per head of queries and keys without position.
    pub nope_dim: u64,
    /// Width per head of queries and keys with rotary position (keys share one).
    pub rope_dim: u64,
    /// Width per head of values.
    pub value_dim: u64,
}

fn yes() -> bool {
    true
}

fn thirty_two() -> u64 {
    32
}

fn four() -> u64 {
    4
}

impl Transformer {
    /// Reads a transformer from its JSON text and checks it.
    pub fn from_json(text: &str) -> Result<Self> {
        let model: Self = crate::error::from_json("model", text)?;
        model.check()?;
        Ok(model)
    }
}

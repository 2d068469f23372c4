//! What is kept during a step, when is it used, and where may it lie?

use serde::{Deserialize, Serialize};

/// Kinds of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Weights in the compute format.
    Weights,
    /// Weights of routed experts.
    Experts,
    /// Embedding tables, and the head where it is one.
    Embeddings,
    /// Gradients.
    Gradients,
    /// Master weights and optimizer state.
    Optimizer,
    /// Activations kept for the backward pass.
    Activations,
    /// Keys and values of earlier tokens.
    KvCache,
    /// Outputs of the head and their gradients.
    Logits,
    /// Gathered weights and unreduced gradients of sharded training.
    Buckets,
    /// Working set of running operators.
    Workspace,
    /// What the allocator loses.
    Fragmentation,
    /// Driver context and communicator buffers.
    Reserve,
    /// Anything else.
    Other,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 13] = [
        Self::Weights,
        Self::Experts,
        Self::Embeddings,
        Self::Gradients,
        Self::Optimizer,
        Self::Activations,
        Self::KvCache,
        Self::Logits,
        Self::Buckets,
        Self::Workspace,
        Self::Fragmentation,
        Self::Reserve,
        Self::Other,
    ];

    /// Name, as it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Experts => "experts",
            Self::Embeddings => "embeddings",
            Self::Gradients => "gradients",
            Self::Optimizer => "optimizer",
            Self::Activations => "activations",
            Self::KvCache => "kv_cache",
            Self::Logits => "logits",
            Self::Buckets => "buckets",
            Self::Workspace => "workspace",
            Self::Fragmentation => "fragmentation",
            Self::Reserve => "reserve",
            Self::Other => "other",
        }
    }
}

/// An instant at which compute reads or writes a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Use {
    /// Instant, from 0.
    pub at: u32,
    /// Bytes read.
    #[serde(default)]
    pub read_bytes: f64,
    /// Bytes written.
    #[serde(default)]
    pub written_bytes: f64,
}

/// What happens instead where the host updates a tensor in its own memory (Ren et al. 2021,
/// ZeRO-Offload, section 4): gradients travel there, the new weights travel back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Update {
    /// Instant of the update: one of the tensor's uses, which it replaces.
    pub at: u32,
    /// Instant at which gradients leave the device.
    pub out_at: u32,
    /// Bytes of gradients.
    pub out_bytes: f64,
    /// Bytes of new weights.
    pub back_bytes: f64,
    /// Bytes that the host's memory moves meanwhile.
    pub touched_bytes: f64,
}

/// Something that takes memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    /// Name, as `layer 3 weights`.
    pub name: String,
    /// Kind.
    pub class: Class,
    /// Size.
    pub bytes: f64,
    /// First instant at which it exists.
    #[serde(default)]
    pub from: u32,
    /// Instant at which it no longer exists; none: it outlasts the step.
    #[serde(default)]
    pub to: Option<u32>,
    /// When compute needs it, in time order.
    #[serde(default)]
    pub uses: Vec<Use>,
    /// True where it may not be split over tiers.
    #[serde(default)]
    pub whole: bool,
    /// Tiers in which it may lie; empty: all.
    #[serde(default)]
    pub tiers: Vec<String>,
    /// How the host would update it.
    #[serde(default)]
    pub update: Option<Update>,
}

impl Tensor {
    /// True where its data outlast the step: weights, optimizer state.
    pub fn survives(&self) -> bool {
        self.to.is_none()
    }
}

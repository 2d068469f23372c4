//! What follows from the shape: widths left to defaults, and the kind of each layer.

use super::config::{Activation, AttentionKind, Family, Norm, Position, Transformer};

/// Which stack a layer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stack {
    /// The only stack of a decoder or an encoder.
    Single,
    /// The encoder of an encoder-decoder.
    Encoder,
    /// The decoder of an encoder-decoder, with cross-attention.
    CrossDecoder,
}

/// What distinguishes a layer from others of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LayerKind {
    /// Its stack.
    pub(super) stack: Stack,
    /// What its attention sees.
    pub(super) attention: AttentionKind,
    /// True with routed experts.
    pub(super) sparse: bool,
    /// True when its weights are frozen.
    pub(super) frozen: bool,
}

impl LayerKind {
    /// Name of the block, as `sliding_sparse_layer`.
    pub(super) fn name(self) -> String {
        let mut words = Vec::new();
        if self.frozen {
            words.push("frozen");
        }
        match self.stack {
            Stack::Single => {}
            Stack::Encoder => words.push("encoder"),
            Stack::CrossDecoder => words.push("decoder"),
        }
        if self.attention == AttentionKind::Sliding {
            words.push("sliding");
        }
        words.push(if self.sparse { "sparse" } else { "dense" });
        words.push("layer");
        words.join("_")
    }
}

impl Activation {
    /// Input projections of a feed-forward layer.
    pub const fn projections(self) -> u64 {
        match self {
            Self::Gelu | Self::Relu => 1,
            Self::Swiglu | Self::Geglu => 2,
        }
    }
}

impl Norm {
    /// Trained vectors of one norm.
    pub const fn vectors(self) -> u64 {
        match self {
            Self::Layernorm => 2,
            Self::Rmsnorm => 1,
        }
    }
}

impl Transformer {
    /// Key and value heads.
    pub fn key_value_heads(&self) -> u64 {
        self.kv_heads.unwrap_or(self.heads)
    }

    /// Width of one head.
    pub fn head_width(&self) -> u64 {
        self.head_dim.unwrap_or(self.hidden / self.heads.max(1))
    }

    /// Rows of the embedding table.
    pub fn table_rows(&self) -> u64 {
        self.padded_vocab.unwrap_or(self.vocab)
    }

    /// Rows of the learned position table, 0 where there is none.
    pub(super) fn position_rows(&self) -> u64 {
        match self.position {
            Position::Learned => self.max_positions,
            _ => 0,
        }
    }

    /// Encoder positions for a job of `sequence` decoder positions.
    pub fn memory_sequence(&self, sequence: u64) -> u64 {
        self.encoder_sequence.unwrap_or(sequence)
    }

    /// Norms of the residual stream in one layer beside cross-attention's own.
    pub(super) fn layer_norms(&self) -> u64 {
        let before = if self.parallel_block { 1 } else { 2 };
        before + if self.post_norms { 2 } else { 0 }
    }

    /// True where layer `index` of the decoder (or only) stack has routed experts.
    pub fn is_sparse(&self, index: u64) -> bool {
        self.experts.as_ref().is_some_and(|m| {
            index >= m.first_dense_layers
                && (index - m.first_dense_layers + 1).is_multiple_of(m.every.max(1))
        })
    }

    /// What attention sees in layer `index` of the decoder (or only) stack.
    pub fn attention_kind(&self, index: u64) -> AttentionKind {
        let length = self.attention_pattern.len() as u64;
        usize::try_from(index.checked_rem(length).unwrap_or(0))
            .ok()
            .and_then(|i| self.attention_pattern.get(i).copied())
            .unwrap_or(AttentionKind::Full)
    }

    /// Layers of all stacks.
    pub fn all_layers(&self) -> u64 {
        match self.family {
            Family::EncoderDecoder => self.encoder_layers + self.layers,
            Family::Decoder | Family::Encoder => self.layers,
        }
    }

    /// The kind of every layer from input to output.
    pub(super) fn layer_kinds(&self) -> Vec<LayerKind> {
        let encoder = self.all_layers() - self.layers;
        let stack = if self.family == Family::EncoderDecoder {
            Stack::CrossDecoder
        } else {
            Stack::Single
        };
        let below = (0..encoder).map(|i| LayerKind {
            stack: Stack::Encoder,
            attention: AttentionKind::Full,
            sparse: false,
            frozen: i < self.frozen_layers,
        });
        let above = (0..self.layers).map(|i| LayerKind {
            stack,
            attention: self.attention_kind(i),
            sparse: self.is_sparse(i),
            frozen: encoder + i < self.frozen_layers,
        });
        below.chain(above).collect()
    }
}

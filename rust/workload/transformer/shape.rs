//! What follows from the shape: widths left to defaults, and the kind of each layer.

use super::config::{Activation, AttentionKind, Family, Norm, Position, Transformer};
use crate::workload::Dim;

/// Which stack a layer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workload) enum Stack {
    /// The only stack of a decoder or an encoder.
    Single,
    /// The encoder of an encoder-decoder.
    Encoder,
    /// The decoder of an encoder-decoder, with cross-attention.
    CrossDecoder,
}

/// What distinguishes a layer from others of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workload) struct LayerKind {
    /// Its stack.
    pub(in crate::workload) stack: Stack,
    /// What its attention sees, or what stands in its place; none where it has neither.
    pub(in crate::workload) mixer: Option<AttentionKind>,
    /// Its feed-forward half; none where it has none.
    pub(in crate::workload) feed: Option<Feed>,
    /// True when its weights are frozen.
    pub(in crate::workload) frozen: bool,
}

/// A layer's feed-forward half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workload) enum Feed {
    /// One for all tokens.
    Dense,
    /// Routed experts.
    Sparse,
}

/// Letters of layers that are one part each.
pub(super) const LETTERS: &str = "M*-E";

impl LayerKind {
    /// Name of the block, as `sliding_sparse_layer`.
    ///
    /// A layer of one part is named after it alone, as `state_space_layer`.
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
        match self.mixer {
            Some(AttentionKind::Sliding) => words.push("sliding"),
            Some(AttentionKind::StateSpace) => words.push("state_space"),
            Some(AttentionKind::Full) if self.feed.is_none() => words.push("attention"),
            Some(AttentionKind::Full) | None => {}
        }
        match self.feed {
            Some(Feed::Sparse) => words.push("sparse"),
            Some(Feed::Dense) => words.push("dense"),
            None => {}
        }
        words.push("layer");
        words.join("_")
    }

    /// The layer of a letter.
    fn of_letter(letter: char, frozen: bool) -> Self {
        let (mixer, feed) = match letter {
            'M' => (Some(AttentionKind::StateSpace), None),
            '*' => (Some(AttentionKind::Full), None),
            'E' => (None, Some(Feed::Sparse)),
            _ => (None, Some(Feed::Dense)),
        };
        Self {
            stack: Stack::Single,
            mixer,
            feed,
            frozen,
        }
    }

    /// True with routed experts.
    pub(super) fn is_sparse(self) -> bool {
        self.feed == Some(Feed::Sparse)
    }

    /// The kind of attention, where it has attention.
    pub(in crate::workload) fn attention(self) -> Option<AttentionKind> {
        self.mixer.filter(|kind| *kind != AttentionKind::StateSpace)
    }

    /// True with a state-space mixer.
    pub(in crate::workload) fn has_state_space(self) -> bool {
        self.mixer == Some(AttentionKind::StateSpace)
    }
}

impl Activation {
    /// Input projections of a feed-forward layer.
    pub const fn projections(self) -> u64 {
        match self {
            Self::Gelu | Self::Relu | Self::Relu2 => 1,
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

    /// Widths of a head that are projected for its query: two where a gate comes with it.
    pub(in crate::workload) fn query_parts(&self) -> u64 {
        1 + u64::from(self.output_gate)
    }

    /// Rows of the embedding table.
    pub fn table_rows(&self) -> u64 {
        self.padded_vocab.unwrap_or(self.vocab)
    }

    /// The model as a program keeps it that rounds the rows of its embedding table up to a multiple, unless
    /// the model says itself how many it has.
    #[must_use]
    pub fn rounded_to(&self, multiple: u64) -> Self {
        let rounded =
            (!self.vocab.is_multiple_of(multiple)).then(|| self.vocab.next_multiple_of(multiple));
        Self {
            padded_vocab: self.padded_vocab.or(rounded),
            ..self.clone()
        }
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
    pub(super) fn layer_norms(&self, kind: LayerKind) -> u64 {
        let halves = u64::from(kind.mixer.is_some()) + u64::from(kind.feed.is_some());
        let before = if self.parallel_block { 1 } else { halves };
        before + if self.post_norms { halves } else { 0 }
    }

    /// True where layer `index` of the decoder (or only) stack has routed experts.
    pub fn is_sparse(&self, index: u64) -> bool {
        if !self.layer_pattern.is_empty() {
            let letters = self.layer_pattern.as_bytes();
            let letter = usize::try_from(index).ok().and_then(|i| letters.get(i));
            return letter == Some(&b'E');
        }
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

    /// Layers that attend, so that they cache keys and values.
    pub fn attention_layers(&self) -> usize {
        let kinds = self.layer_kinds();
        kinds.iter().filter(|k| k.attention().is_some()).count()
    }

    /// Layers with a state-space mixer, so that they keep its state.
    pub fn scan_layers(&self) -> usize {
        let kinds = self.layer_kinds();
        kinds.iter().filter(|k| k.has_state_space()).count()
    }

    /// The kind of every layer from input to output.
    pub(in crate::workload) fn layer_kinds(&self) -> Vec<LayerKind> {
        let encoder = self.all_layers() - self.layers;
        let stack = if self.family == Family::EncoderDecoder {
            Stack::CrossDecoder
        } else {
            Stack::Single
        };
        let frozen = |index: u64| index < self.frozen_layers;
        if !self.layer_pattern.is_empty() {
            let letters = (0..).zip(self.layer_pattern.chars());
            let layers = letters.map(|(i, letter)| LayerKind::of_letter(letter, frozen(i)));
            return layers.collect();
        }
        let below = (0..encoder).map(|i| LayerKind {
            stack: Stack::Encoder,
            mixer: Some(AttentionKind::Full),
            feed: Some(Feed::Dense),
            frozen: frozen(i),
        });
        let above = (0..self.layers).map(|i| LayerKind {
            stack,
            mixer: Some(self.attention_kind(i)),
            feed: Some(if self.is_sparse(i) {
                Feed::Sparse
            } else {
                Feed::Dense
            }),
            frozen: frozen(encoder + i),
        });
        below.chain(above).collect()
    }

    /// The layers of a module that predicts one token further.
    pub(in crate::workload) fn prediction_kinds(&self) -> Vec<LayerKind> {
        if self.prediction_pattern.is_empty() {
            return self.layer_kinds().pop().into_iter().collect();
        }
        let letters = self.prediction_pattern.chars();
        letters.map(|l| LayerKind::of_letter(l, false)).collect()
    }

    /// Width in which routed experts read and write tokens, and the dim that it is.
    pub(in crate::workload) fn expert_width(&self) -> (Dim, u64) {
        let latent = self.experts.as_ref().and_then(|m| m.latent_width);
        latent.map_or((Dim::Hidden, self.hidden), |width| (Dim::Rank, width))
    }
}

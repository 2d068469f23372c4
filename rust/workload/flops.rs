//! How many FLOPs one token of training counts for, in each convention that papers use.

use super::transformer::{Activation, AttentionKind, Family, Transformer};
use crate::units::Flops;
use serde::{Deserialize, Serialize};

/// A way to count the FLOPs of training, forward and backward, as data beside a published figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlopConvention {
    /// Matrix products with attention over all positions (Korthikanti et al. 2022, appendix A).
    Model,
    /// The same with attention over visible positions only.
    ModelCausal,
    /// As that, of a model without windows and gates: what Megatron-Bridge prints of gated experts whose
    /// activation is not `SiLU` (gpt-oss).
    ModelUngated,
    /// Layers run forward twice (Narayanan et al. 2021, section 3.1, full recomputation).
    Hardware,
    /// `6 N + 12 L H Q T` (Chowdhery et al. 2022, appendix B).
    Palm,
}

/// Forward FLOPs per decoder token, apart by what recomputation repeats.
struct Forward {
    layers: f64,
    head: f64,
}

/// Multiply-adds per token of one layer's weights, apart by whose tokens meet them.
struct LayerProducts {
    own: f64,
    memory: f64,
}

/// FLOPs of a batch of the GPT family as printed in Korthikanti et al. 2022, appendix A:
/// `72 B s l h^2 (1 + s/(6 h) + v/(12 h l))`, B sequences of s tokens, l layers of width h, v
/// vocabulary entries.
pub fn gpt_model_flops(batch: f64, sequence: f64, layers: f64, hidden: f64, vocab: f64) -> Flops {
    let attention = sequence / (6.0 * hidden);
    let head = vocab / (12.0 * hidden * layers);
    let scale = 72.0 * batch * sequence * layers * hidden * hidden;
    Flops::new(scale * (1.0 + attention + head))
}

/// FLOPs of a batch of the GPT family under full recomputation, as printed in Narayanan et al.
/// 2021, equation 3: `96 B s l h^2 (1 + s/(6 h) + v/(16 h l))`, symbols as in `gpt_model_flops`.
pub fn gpt_hardware_flops(
    batch: f64,
    sequence: f64,
    layers: f64,
    hidden: f64,
    vocab: f64,
) -> Flops {
    let attention = sequence / (6.0 * hidden);
    let head = vocab / (16.0 * hidden * layers);
    let scale = 96.0 * batch * sequence * layers * hidden * hidden;
    Flops::new(scale * (1.0 + attention + head))
}

impl Transformer {
    /// FLOPs that one (decoder) token of training counts for, at `sequence` tokens.
    ///
    /// Frozen weights and adapters change what is run, not this count. The vocabulary is padded,
    /// as it is multiplied; the plain GPT family uses the printed forms.
    pub fn flops_per_token(&self, sequence: u64, convention: FlopConvention) -> Flops {
        let length = sequence as f64;
        let [layers, hidden, vocab] = [self.layers, self.hidden, self.table_rows()].map(as_f64);
        match convention {
            FlopConvention::Model if self.is_plain_gpt() => {
                gpt_model_flops(1.0, length, layers, hidden, vocab) / length
            }
            FlopConvention::Hardware if self.is_plain_gpt() => {
                gpt_hardware_flops(1.0, length, layers, hidden, vocab) / length
            }
            FlopConvention::Model => {
                let forward = self.forward_flops(sequence, false);
                Flops::new(3.0 * (forward.layers + forward.head))
            }
            FlopConvention::ModelCausal => {
                let forward = self.forward_flops(sequence, true);
                Flops::new(3.0 * (forward.layers + forward.head))
            }
            FlopConvention::ModelUngated => {
                let forward = self.ungated().forward_flops(sequence, true);
                Flops::new(3.0 * (forward.layers + forward.head))
            }
            FlopConvention::Hardware => {
                let forward = self.forward_flops(sequence, false);
                Flops::new(4.0 * forward.layers + 3.0 * forward.head)
            }
            FlopConvention::Palm => Flops::new(self.palm_flops(length)),
        }
    }

    /// The same without windows and gates.
    fn ungated(&self) -> Self {
        Self {
            activation: Activation::Gelu,
            sliding_window: None,
            attention_pattern: Vec::new(),
            ..self.clone()
        }
    }

    /// True for the shape that the printed forms assume: multi-head attention of the stream's
    /// width in every layer, `4 h` inner width, no gate, no experts.
    pub fn is_plain_gpt(&self) -> bool {
        self.family == Family::Decoder
            && self.latent.is_none()
            && self.experts.is_none()
            && self.sliding_window.is_none()
            && self.key_value_heads() == self.heads
            && self.heads * self.head_width() == self.hidden
            && self.ffn == 4 * self.hidden
            && self.activation.projections() == 1
    }

    /// `6 N + 12 L H Q T`: N parameters that a token meets, L layers, H heads of width Q, T tokens
    /// (Chowdhery et al. 2022, appendix B).
    fn palm_flops(&self, sequence: f64) -> f64 {
        let [width, value] = self.attention_widths();
        let attention = as_f64(self.all_layers()) * as_f64(self.heads) * (width + value) / 2.0;
        6.0 * as_f64(self.parameters().active_per_token) + 12.0 * attention * sequence
    }

    /// Width per head of queries and of values.
    fn attention_widths(&self) -> [f64; 2] {
        self.latent.as_ref().map_or_else(
            || [as_f64(self.head_width()); 2],
            |l| [as_f64(l.nope_dim + l.rope_dim), as_f64(l.value_dim)],
        )
    }

    /// Two FLOPs per multiply-add of every matrix product.
    fn forward_flops(&self, sequence: u64, causal: bool) -> Forward {
        let own = sequence as f64;
        let memory = as_f64(self.memory_sequence(sequence));
        let cross = self.family == Family::EncoderDecoder;
        let [query, value] = self.attention_widths();
        let per_position = as_f64(self.heads) * (query + value);
        let mut products = 0.0;
        for index in 0..self.layers {
            let masked = causal && self.family != Family::Encoder;
            let mut positions = self.seen(self.attention_kind(index), own, masked);
            positions += if cross { memory } else { 0.0 };
            let layer = self.layer_products(self.is_sparse(index), cross);
            products += layer.own + layer.memory * memory / own + per_position * positions;
        }
        if cross {
            let layer = self.layer_products(false, false);
            let encoder = layer.own + per_position * memory;
            products += as_f64(self.encoder_layers) * encoder * memory / own;
        }
        let [hidden, modules] = [self.hidden, self.prediction_layers].map(as_f64);
        if let Some(last) = self.layers.checked_sub(1) {
            let positions = self.seen(self.attention_kind(last), own, causal);
            let layer = self.layer_products(self.is_sparse(last), false).own;
            products += modules * (layer + per_position * positions + 2.0 * hidden * hidden);
        }
        Forward {
            layers: 2.0 * products,
            head: 2.0 * (1.0 + modules) * hidden * as_f64(self.table_rows()),
        }
    }

    /// Key positions that a query is counted to meet: `w`, or with the mask `w - w^2/(2 s)`, which
    /// halves full attention (w = s).
    fn seen(&self, kind: AttentionKind, sequence: f64, masked: bool) -> f64 {
        let window = match kind {
            AttentionKind::Sliding => self.sliding_window.map_or(sequence, as_f64).min(sequence),
            AttentionKind::Full => sequence,
        };
        if masked {
            window - window * window / (2.0 * sequence)
        } else {
            window
        }
    }

    fn layer_products(&self, sparse: bool, cross: bool) -> LayerProducts {
        let hidden = as_f64(self.hidden);
        let [attention, key_value] = self.attention_products();
        let memory = if cross { key_value } else { 0.0 };
        let query_and_output = if cross { attention - key_value } else { 0.0 };
        let per_inner = hidden * as_f64(self.activation.projections() + 1);
        let feed_forward = match &self.experts {
            Some(m) if sparse => {
                let inner = as_f64(m.top_k * m.expert_ffn + m.shared_ffn);
                let gate = if m.shared_gate { hidden } else { 0.0 };
                per_inner * inner + hidden * as_f64(m.experts) + gate
            }
            _ => per_inner * as_f64(self.ffn),
        };
        LayerProducts {
            own: attention + query_and_output + feed_forward,
            memory,
        }
    }

    /// Weights of one attention's products: all of them, and those of keys and values.
    fn attention_products(&self) -> [f64; 2] {
        let (hidden, heads) = (as_f64(self.hidden), as_f64(self.heads));
        let [width, value] = self.attention_widths();
        let output = heads * value * hidden;
        let Some(latent) = &self.latent else {
            let key_value = 2.0 * hidden * as_f64(self.key_value_heads()) * width;
            return [hidden * heads * width + key_value + output, key_value];
        };
        let query = latent.query_rank.map_or(hidden * heads * width, |rank| {
            as_f64(rank) * (hidden + heads * width)
        });
        let rank = as_f64(latent.kv_rank);
        let compressed = hidden * (rank + as_f64(latent.rope_dim));
        let key_value = compressed + rank * heads * (as_f64(latent.nope_dim) + value);
        [query + key_value + output, key_value]
    }
}

fn as_f64(count: u64) -> f64 {
    count as f64
}

//! How many FLOPs one token of training counts for, in each convention that papers use.

use super::operator::Scan;
use super::transformer::{
    Activation, AttentionKind, Family, Feed, LayerKind, Stack, StateRule, StateSpace, Transformer,
};
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
    /// As `model_causal`, of hybrids as Megatron-Bridge prints them (`hybrid_flops` of its `flop_utils.py`):
    /// state-space mixers are twice as wide as the stream, whatever their width is, and their scan takes
    /// `7 d N` a token, d that width, N state; routers and what joins predictions are left out. A gated delta rule
    /// counts as `8 H P^2` beside its projections and its convolution, and what joins predictions counts beside it
    /// (Megatron-LM, `num_floating_point_operations`).
    ModelHybrid,
    /// Layers run forward twice (Narayanan et al. 2021, section 3.1, full recomputation).
    Hardware,
    /// The same with attention over visible positions only (`throughput_hook.py` of InternLM/xtuner).
    HardwareCausal,
    /// Layers alone, whose products run forward twice and scores once. So NVIDIA counted in 2019 and 2020: of 1.2B
    /// parameters, 62.4 TFLOP/s and 1,288 ms for 8,192 tokens (nv-adlr.github.io/MegatronLMV1) are 80.37 TFLOP,
    /// and this count is 80.40.
    HardwareLayers,
    /// `6 N + 12 L H Q T` (Chowdhery et al. 2022, appendix B).
    Palm,
    /// `6 N` (Kaplan et al. 2020, section 2.1), N with the embedding, as most who print it count.
    Parameters,
}

/// Forward FLOPs per decoder token, apart by what recomputation repeats.
struct Forward {
    layers: f64,
    head: f64,
}

/// What is counted.
#[derive(Clone, Copy, PartialEq)]
enum Counted {
    /// All products, with scores of all positions.
    All,
    /// Scores of visible positions alone.
    Visible,
    /// The same, of hybrids as Megatron-Bridge prints them.
    Printed,
}

/// Multiply-adds per token of one layer's weights, apart by whose tokens meet them.
#[derive(Default)]
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
                let forward = self.forward_flops(sequence, Counted::All);
                Flops::new(3.0 * (forward.layers + forward.head))
            }
            FlopConvention::ModelCausal => {
                let forward = self.forward_flops(sequence, Counted::Visible);
                Flops::new(3.0 * (forward.layers + forward.head))
            }
            FlopConvention::ModelUngated => {
                let forward = self.ungated().forward_flops(sequence, Counted::Visible);
                Flops::new(3.0 * (forward.layers + forward.head))
            }
            FlopConvention::ModelHybrid => {
                let forward = self.forward_flops(sequence, Counted::Printed);
                Flops::new(3.0 * (forward.layers + forward.head))
            }
            FlopConvention::Hardware => {
                let forward = self.forward_flops(sequence, Counted::All);
                Flops::new(4.0 * forward.layers + 3.0 * forward.head)
            }
            FlopConvention::HardwareCausal => {
                let forward = self.forward_flops(sequence, Counted::Visible);
                Flops::new(4.0 * forward.layers + 3.0 * forward.head)
            }
            FlopConvention::HardwareLayers => {
                let layers = |sequence| self.forward_flops(sequence, Counted::All).layers;
                let scores = layers(sequence.saturating_mul(2)) - layers(sequence); // they grow with the sequence
                Flops::new(4.0 * layers(sequence) - scores)
            }
            FlopConvention::Palm => Flops::new(self.palm_flops(length)),
            FlopConvention::Parameters => Flops::new(self.palm_flops(0.0)),
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
    /// width in every layer, `4 h` inner width, no gates, no experts, no state space.
    pub fn is_plain_gpt(&self) -> bool {
        self.family == Family::Decoder
            && self.latent.is_none()
            && self.experts.is_none()
            && self.sliding_window.is_none()
            && self.state_space.is_none()
            && !self.output_gate
            && self.layer_pattern.is_empty()
            && self.key_value_heads() == self.heads
            && self.heads * self.head_width() == self.hidden
            && self.ffn == 4 * self.hidden
            && self.activation.projections() == 1
    }

    /// `6 N + 12 L H Q T`: N parameters that a token meets, L layers with attention, H heads of width Q, T
    /// tokens (Chowdhery et al. 2022, appendix B).
    fn palm_flops(&self, sequence: f64) -> f64 {
        let [width, value] = self.attention_widths();
        let attention = self.attention_layers() as f64 * as_f64(self.heads) * (width + value) / 2.0;
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
    fn forward_flops(&self, sequence: u64, counted: Counted) -> Forward {
        let own = sequence as f64;
        let memory = as_f64(self.memory_sequence(sequence));
        let [query, value] = self.attention_widths();
        let per_position = as_f64(self.heads) * (query + value);
        let mut products = 0.0;
        for kind in self.layer_kinds() {
            let length = if kind.stack == Stack::Encoder {
                memory
            } else {
                own
            };
            let layer = self.layer_flops(kind, length, counted);
            let cross = kind.stack == Stack::CrossDecoder;
            let crossed = if cross {
                layer.memory * memory / own + per_position * memory
            } else {
                0.0
            };
            products += layer.own * (length / own) + crossed;
        }
        let [hidden, modules] = [self.hidden, self.prediction_layers].map(as_f64);
        for kind in self.prediction_kinds() {
            products += modules * self.layer_flops(kind, own, counted).own;
        }
        let ruled = |widths: &StateSpace| widths.rule == StateRule::GatedDelta;
        if counted != Counted::Printed || self.state_space.as_ref().is_some_and(ruled) {
            products += modules * 2.0 * hidden * hidden;
        }
        Forward {
            layers: 2.0 * products,
            head: 2.0 * (1.0 + modules) * hidden * as_f64(self.table_rows()),
        }
    }

    /// Multiply-adds per token of one layer over `length` positions, those of cross-attention's scores
    /// apart.
    fn layer_flops(&self, kind: LayerKind, length: f64, counted: Counted) -> LayerProducts {
        let mut layer = self.layer_products(kind, counted);
        let decodes = kind.stack != Stack::Encoder && self.family != Family::Encoder;
        let masked = counted != Counted::All && decodes;
        if let Some(attention) = kind.attention() {
            let [query, value] = self.attention_widths();
            layer.own +=
                as_f64(self.heads) * (query + value) * self.seen(attention, length, masked);
        }
        if let (Some(widths), true) = (&self.state_space, kind.has_state_space()) {
            layer.own += match counted {
                Counted::Printed => self.printed_mixer(widths),
                _ => self.mixer_products(widths, length, masked),
            };
        }
        layer
    }

    /// Multiply-adds per token of a state-space mixer: projections and scan.
    fn mixer_products(&self, widths: &StateSpace, length: f64, masked: bool) -> f64 {
        let [hidden, heads] = [self.hidden, widths.heads].map(as_f64);
        let inner = heads * as_f64(widths.head_dim);
        let state = as_f64(widths.groups) * as_f64(widths.state);
        let chunk = as_f64(widths.chunk()).min(length);
        let seen = if masked { chunk / 2.0 } else { chunk };
        let scan: Scan = widths.scan();
        let numbers = heads * as_f64(widths.rule.numbers());
        hidden * (3.0 * inner + 2.0 * state + numbers) + scan.multiplications(seen)
    }

    /// The same as Megatron-Bridge prints it, and Megatron-LM of a gated delta rule.
    fn printed_mixer(&self, widths: &StateSpace) -> f64 {
        let [hidden, heads] = [self.hidden, widths.heads].map(as_f64);
        let state = as_f64(widths.groups) * as_f64(widths.state);
        if widths.rule == StateRule::GatedDelta {
            let width = as_f64(widths.head_dim);
            let inner = heads * width;
            let convolved = as_f64(widths.convolution) * (2.0 * state + inner);
            let rule = 4.0 * inner * width;
            return hidden * (3.0 * inner + 2.0 * state + 2.0 * heads) + convolved + rule;
        }
        let inner = 2.0 * hidden;
        let scan = 3.5 * inner * as_f64(widths.state);
        hidden * (3.0 * inner + 2.0 * state + heads) + scan
    }

    /// Key positions that a query is counted to meet: `w`, or with the mask `w - w^2/(2 s)`, which
    /// halves full attention (w = s).
    fn seen(&self, kind: AttentionKind, sequence: f64, masked: bool) -> f64 {
        let window = match kind {
            AttentionKind::Sliding => self.sliding_window.map_or(sequence, as_f64).min(sequence),
            AttentionKind::Full | AttentionKind::StateSpace => sequence,
        };
        if masked {
            window - window * window / (2.0 * sequence)
        } else {
            window
        }
    }

    /// Products of attention and feed-forward with weights.
    fn layer_products(&self, kind: LayerKind, counted: Counted) -> LayerProducts {
        let hidden = as_f64(self.hidden);
        let mut products = LayerProducts::default();
        if kind.attention().is_some() {
            let [attention, key_value] = self.attention_products();
            products.own += attention;
            if kind.stack == Stack::CrossDecoder {
                products.own += attention - key_value;
                products.memory += key_value;
            }
        }
        let inner = as_f64(self.activation.projections() + 1);
        products.own += match (kind.feed, &self.experts) {
            (Some(Feed::Sparse), Some(m)) => {
                let outer = as_f64(self.expert_width().1);
                let routed = outer * as_f64(m.top_k * m.expert_ffn);
                let latent = m.latent_width.map_or(0.0, as_f64);
                let router = match counted {
                    Counted::Printed => 0.0,
                    _ => hidden * (as_f64(m.experts) + f64::from(u8::from(m.shared_gate))),
                };
                inner * (routed + hidden * as_f64(m.shared_ffn)) + 2.0 * hidden * latent + router
            }
            (Some(_), _) => inner * hidden * as_f64(self.ffn),
            (None, _) => 0.0,
        };
        products
    }

    /// Weights of one attention's products: all of them, and those of keys and values.
    fn attention_products(&self) -> [f64; 2] {
        let (hidden, heads) = (as_f64(self.hidden), as_f64(self.heads));
        let [width, value] = self.attention_widths();
        let output = heads * value * hidden;
        let Some(latent) = &self.latent else {
            let key_value = 2.0 * hidden * as_f64(self.key_value_heads()) * width;
            let queries = hidden * heads * width * as_f64(self.query_parts());
            return [queries + key_value + output, key_value];
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

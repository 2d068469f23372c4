//! How many parameters a transformer has, in closed form and apart from its operators.

use super::config::{
    AttentionKind, MixtureOfExperts, Position, StateRule, StateSpace, Transformer,
};
use super::shape::{Feed, LayerKind, Stack};

/// Parameter counts. All but `padded_total` use the unpadded vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// All of them, as in the checkpoint, and adapters.
    pub total: u64,
    /// The same with the padded vocabulary.
    pub padded_total: u64,
    /// Tables of tokens, positions, segments and relative biases, and the embedding norm.
    pub embedding: u64,
    /// All layers.
    pub layers: u64,
    /// Vocabulary projection unless tied, and final norms.
    pub head: u64,
    /// Listed extra parameters.
    pub extra: u64,
    /// Those that one token meets: all but the experts it is not sent to.
    pub active_per_token: u64,
    /// Those that are not frozen.
    pub trained: u64,
}

impl Parameters {
    /// The counts with their names.
    pub const fn named(self) -> [(&'static str, u64); 8] {
        [
            ("total", self.total),
            ("padded_total", self.padded_total),
            ("embedding", self.embedding),
            ("layers", self.layers),
            ("head", self.head),
            ("extra", self.extra),
            ("active_per_token", self.active_per_token),
            ("trained", self.trained),
        ]
    }
}

/// Counts of one layer, wide enough for any shape.
#[derive(Debug, Clone, Copy, Default)]
struct LayerCount {
    own: u128,
    adapters: u128,
    idle_experts: u128,
}

impl Transformer {
    /// Counts parameters.
    pub fn parameters(&self) -> Parameters {
        let mut layers = LayerCount::default();
        let mut frozen = 0;
        for kind in self.layer_kinds() {
            let layer = self.layer_count(kind);
            layers.own += layer.own;
            layers.adapters += layer.adapters;
            layers.idle_experts += layer.idle_experts;
            frozen += if kind.frozen { layer.own } else { 0 };
        }
        let prediction = self.prediction_count();
        layers.own += prediction.own;
        layers.idle_experts += prediction.idle_experts;
        let embedding = self.table_count(self.vocab);
        let head = self.head_count(self.vocab);
        let extra = self.extra_parameters.values().map(|&n| u128::from(n)).sum();
        let layer_total = layers.own + layers.adapters;
        let total = embedding + head + extra + layer_total;
        let padded = self.table_count(self.table_rows()) + self.head_count(self.table_rows());
        let trained = if self.lora.is_some() {
            layers.adapters
        } else if self.frozen_layers > 0 {
            total - frozen - embedding
        } else {
            total
        };
        Parameters {
            total: whole(total),
            padded_total: whole(padded + extra + layer_total),
            embedding: whole(embedding),
            layers: whole(layer_total),
            head: whole(head),
            extra: whole(extra),
            active_per_token: whole(total - layers.idle_experts),
            trained: whole(trained),
        }
    }

    fn table_count(&self, vocab: u64) -> u128 {
        let rows = wide(vocab) + wide(self.position_rows()) + wide(self.segments);
        let stacks = if self.encoder_layers > 0 { 2 } else { 1 };
        let relative = match self.position {
            Position::Relative => stacks * wide(self.relative_buckets) * wide(self.heads),
            _ => 0,
        };
        // both stacks of an encoder-decoder share the tables and have a norm each
        let norms = if self.embedding_norm { stacks } else { 0 };
        rows * wide(self.hidden) + relative + norms * self.norm_count()
    }

    fn head_count(&self, vocab: u64) -> u128 {
        let stacks = if self.encoder_layers > 0 { 2 } else { 1 };
        let norms = if self.final_norm { stacks } else { 0 };
        let table = if self.tied_embeddings {
            0
        } else {
            wide(vocab) * wide(self.hidden)
        };
        table + norms * self.norm_count()
    }

    /// Of each further prediction: its layers, a projection of two streams into one, three norms.
    fn prediction_count(&self) -> LayerCount {
        let modules = wide(self.prediction_layers);
        let mut layer = LayerCount::default();
        for kind in self.prediction_kinds() {
            let one = self.layer_count(kind);
            layer.own += one.own;
            layer.idle_experts += one.idle_experts;
        }
        let joined = 2 * wide(self.hidden) * wide(self.hidden) + 3 * self.norm_count();
        LayerCount {
            own: modules * (layer.own + joined),
            adapters: 0,
            idle_experts: modules * layer.idle_experts,
        }
    }

    fn norm_count(&self) -> u128 {
        wide(self.norm.vectors()) * wide(self.hidden)
    }

    fn layer_count(&self, kind: LayerKind) -> LayerCount {
        let cross = kind.stack == Stack::CrossDecoder;
        let copies = if cross { 2 } else { 1 };
        let norms = wide(self.layer_norms(kind)) + copies - 1;
        let mut count = LayerCount {
            own: norms * self.norm_count(),
            adapters: 0,
            idle_experts: 0,
        };
        match (&self.state_space, kind.mixer) {
            (Some(widths), Some(AttentionKind::StateSpace)) => {
                count.own += self.state_space_count(widths);
            }
            (_, Some(_)) => {
                count.own += self.attention_count(cross);
                count.adapters += copies * self.attention_adapters();
            }
            (_, None) => {}
        }
        match (kind.feed, &self.experts) {
            (Some(Feed::Sparse), Some(mixture)) => self.add_mixture(mixture, &mut count),
            (Some(_), _) => {
                count.own += self.feed_forward_count(self.hidden, self.ffn);
                count.adapters += self.feed_forward_adapters(self.hidden, self.ffn);
            }
            (None, _) => {}
        }
        count
    }

    fn add_mixture(&self, mixture: &MixtureOfExperts, count: &mut LayerCount) {
        let hidden = wide(self.hidden);
        let (_, outer) = self.expert_width();
        let one = self.feed_forward_count(outer, mixture.expert_ffn);
        let experts = wide(mixture.experts);
        count.own += experts * (one + hidden + u128::from(mixture.router_bias));
        count.own += mixture.latent_width.map_or(0, |l| 2 * hidden * wide(l));
        let adapter = self.feed_forward_adapters(outer, mixture.expert_ffn);
        count.adapters += experts * adapter;
        count.idle_experts += (experts - wide(mixture.top_k)) * (one + adapter);
        if mixture.shared_ffn > 0 {
            count.own += self.feed_forward_count(self.hidden, mixture.shared_ffn);
            count.own += if mixture.shared_gate { hidden } else { 0 };
            count.adapters += self.feed_forward_adapters(self.hidden, mixture.shared_ffn);
        }
    }

    /// `h (2 H P + 2 G N + H) + (H P + 2 G N) (k + b) + 3 H + H P + H P h`: input projection; convolution of k
    /// taps and its bias; decay, skip and step bias of each head; gated norm; output projection. With a delta
    /// rule two numbers of each head are projected and two trained, and heads share the gains of the norm.
    fn state_space_count(&self, widths: &StateSpace) -> u128 {
        let hidden = wide(self.hidden);
        let heads = wide(widths.heads);
        let inner = heads * wide(widths.head_dim);
        let mixed = inner + 2 * wide(widths.groups) * wide(widths.state);
        let taps = wide(widths.taps());
        let [projected, trained] = [widths.rule.numbers(), widths.rule.trained()].map(wide);
        let gains = match widths.rule {
            StateRule::Decay => inner,
            StateRule::GatedDelta => wide(widths.head_dim),
        };
        hidden * (inner + mixed + projected * heads)
            + mixed * taps
            + trained * heads
            + gains
            + inner * hidden
    }

    /// `h a d_q + h g (d_k + d_v) + a d_v h` with biases; twice in a cross-attending layer.
    fn attention_count(&self, cross: bool) -> u128 {
        let hidden = wide(self.hidden);
        let heads = wide(self.heads);
        let output_bias = if self.output_bias { hidden } else { 0 };
        if let Some(latent) = &self.latent {
            let [kv, nope, rope, value] = [
                latent.kv_rank,
                latent.nope_dim,
                latent.rope_dim,
                latent.value_dim,
            ]
            .map(wide);
            let bias = u128::from(self.qkv_bias);
            let query = match latent.query_rank.map(wide) {
                Some(rank) => rank * (hidden + bias + 1 + heads * (nope + rope)),
                None => hidden * heads * (nope + rope),
            };
            let key_value = (hidden + bias) * (kv + rope) + kv + kv * heads * (nope + value);
            return query + key_value + heads * value * hidden + output_bias;
        }
        let width = wide(self.head_width());
        let asked = heads * wide(self.query_parts());
        let columns = (asked + 2 * wide(self.key_value_heads())) * width;
        let bias = if self.qkv_bias { columns } else { 0 };
        let one = hidden * columns + bias + heads * width * hidden + output_bias;
        let norms = if self.qk_norm { 2 * width } else { 0 };
        norms + if cross { 2 * one } else { one }
    }

    /// `(p + 1) h f` with biases, p input projections of the outer width h.
    fn feed_forward_count(&self, outer: u64, inner: u64) -> u128 {
        let (hidden, inner) = (wide(outer), wide(inner));
        let inputs = wide(self.activation.projections());
        let biases = if self.ffn_bias {
            inputs * inner + hidden
        } else {
            0
        };
        (inputs + 1) * hidden * inner + biases
    }

    /// Adapters of rank r on a projection from m to n columns: `r (m + n)`.
    fn adapter_count(&self, target: &str, from: u128, to: u128) -> u128 {
        let lora = self.lora.as_ref();
        let lora = lora.filter(|l| l.targets.iter().any(|t| t == target));
        lora.map_or(0, |l| wide(l.rank) * (from + to))
    }

    fn attention_adapters(&self) -> u128 {
        let hidden = wide(self.hidden);
        let heads = wide(self.heads);
        let [query, key, value, context] = if let Some(l) = &self.latent {
            let query = heads * wide(l.nope_dim + l.rope_dim);
            let from = l.query_rank.map_or(hidden, wide);
            let (kv, context) = (wide(l.kv_rank), heads * wide(l.value_dim));
            let key = (kv, heads * wide(l.nope_dim));
            [(from, query), key, (kv, context), (context, hidden)]
        } else {
            let width = wide(self.head_width());
            let keys = (hidden, wide(self.key_value_heads()) * width);
            let queries = heads * width;
            let asked = queries * wide(self.query_parts());
            [(hidden, asked), keys, keys, (queries, hidden)]
        };
        [
            ("query", query),
            ("key", key),
            ("value", value),
            ("output", context),
        ]
        .into_iter()
        .map(|(target, (from, to))| self.adapter_count(target, from, to))
        .sum()
    }

    fn feed_forward_adapters(&self, outer: u64, inner: u64) -> u128 {
        let (hidden, inner) = (wide(outer), wide(inner));
        ["up", "gate", "down"]
            .into_iter()
            .map(|target| self.adapter_count(target, hidden, inner))
            .sum()
    }
}

fn wide(count: u64) -> u128 {
    u128::from(count)
}

/// Back to 64 bits; `check` refuses models that do not fit.
fn whole(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

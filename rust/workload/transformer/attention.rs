//! The attention half of a layer: multi-head, grouped-query and cross-attention.

use super::block::{BlockBuilder, Projection};
use super::config::{AttentionKind, Family, Position};
use super::shape::{LayerKind, Stack};
use crate::workload::{Attention, Dim, Extent, OperatorClass, OperatorKind, Region, SavedAs};

impl BlockBuilder<'_> {
    /// Query columns.
    fn queries(&self) -> Extent {
        Extent::wide(Dim::Heads, self.model.heads, self.model.head_width() as f64)
    }

    /// Key (or value) columns.
    fn keys(&self) -> Extent {
        let heads = self.model.key_value_heads();
        Extent::wide(Dim::KvHeads, heads, self.model.head_width() as f64)
    }

    /// Fused projection of queries, keys and values, with what acts on queries and keys.
    pub(super) fn self_attention(&mut self, input: usize, kind: LayerKind) -> usize {
        let (queries, keys) = (self.queries(), self.keys());
        let qkv = self.matmul(&Projection {
            name: "qkv",
            class: OperatorClass::Matmul,
            region: Region::Attention,
            input: Some(input),
            contract: self.hidden(),
            parts: vec![
                (self.query_columns(), "query"),
                (keys, "key"),
                (keys, "value"),
            ],
            experts: None,
            bias: self.model.qkv_bias,
        });
        // the core's inputs are kept even where the core itself is recomputed
        for part in [self.query_columns(), keys, keys] {
            self.save(qkv, part, Region::Attention, SavedAs::Activation);
        }
        let mut last = qkv;
        if self.model.qk_norm {
            last = self.query_key_norm(last, queries, keys);
        }
        if self.model.position == Position::Rotary {
            last = self.rotary(last, vec![queries, keys]);
        }
        let mut context = self.core(last, self.plain_core(kind));
        if self.model.output_gate {
            context = self.output_gate(context, queries);
        }
        self.attention_output(context, queries)
    }

    /// Columns that are projected for the queries: with their gates where they have some.
    fn query_columns(&self) -> Extent {
        let queries = self.queries();
        let times = queries.times * self.model.query_parts() as f64;
        Extent { times, ..queries }
    }

    /// The context times the sigmoid of its gate, in one pass: reads both and writes one; backward, reads those
    /// and a gradient and writes two.
    fn output_gate(&mut self, context: usize, queries: Extent) -> usize {
        let kind = OperatorKind::Elementwise {
            width: vec![queries],
            forward_passes: 3.0,
            backward_passes: 5.0,
            strided: [0.0; 2],
            vectors: Vec::new(),
        };
        let class = OperatorClass::Elementwise;
        let index = self.push("output_gate", class, Region::Attention, Some(context), kind);
        self.save(index, queries, Region::Attention, SavedAs::Activation);
        self.repeat_between_products(index);
        index
    }

    fn query_key_norm(&mut self, input: usize, queries: Extent, keys: Extent) -> usize {
        let gain = self.vector(Extent::new(Dim::HeadDim, self.model.head_width()));
        let [forward_passes, backward_passes] = self.training.software.layer.norm;
        let operation = OperatorKind::Elementwise {
            width: vec![queries, keys],
            forward_passes,
            backward_passes,
            strided: [0.0; 2],
            vectors: vec![gain.clone(), gain],
        };
        let class = OperatorClass::Normalization;
        let index = self.push("qk_norm", class, Region::Attention, Some(input), operation);
        let kept = self.training.software.recompute.norm_kept;
        for width in [queries, keys] {
            let kept = width.times_wide(kept);
            self.save(index, kept, Region::Attention, SavedAs::Activation);
        }
        if self.training.software.recompute.keeps_products {
            // the product that made them keeps them already
            self.recompute_selectively(index);
        }
        index
    }

    /// Rotation of queries and keys: linear, so nothing is kept.
    pub(super) fn rotary(&mut self, input: usize, width: Vec<Extent>) -> usize {
        let [forward_passes, backward_passes] = self.training.software.layer.rotary;
        let kind = OperatorKind::Elementwise {
            width,
            forward_passes,
            backward_passes,
            strided: self.training.software.layer.rotary_strided,
            vectors: Vec::new(),
        };
        let class = OperatorClass::Elementwise;
        let index = self.push("rotary", class, Region::Attention, Some(input), kind);
        self.repeat_between_products(index);
        index
    }

    /// The core of multi-head and grouped-query self-attention.
    pub(super) fn plain_core(&self, kind: LayerKind) -> Attention {
        let width = self.model.head_width();
        Attention {
            heads: self.model.heads,
            kv_heads: self.model.key_value_heads(),
            query_dim: width,
            value_dim: width,
            causal: kind.stack != Stack::Encoder && self.model.family != Family::Encoder,
            window: match kind.attention() {
                Some(AttentionKind::Sliding) => self.model.sliding_window,
                _ => None,
            },
            flash: self.training.flash_attention,
            memory_sequence: None,
            dropout: self.training.dropout,
        }
    }

    /// Scores, softmax and context. Plain attention keeps all key positions even under a mask
    /// (Korthikanti et al. 2022, section 4.1: 5 a s^2 b bytes with dropout in 16-bit); a fused
    /// kernel keeps one fp32 log-sum-exp per head.
    pub(super) fn core(&mut self, input: usize, attention: Attention) -> usize {
        let own = self.positions.unwrap_or(self.training.sequence);
        let keys = attention.memory_sequence.unwrap_or(own) as f64;
        let scores = Extent::wide(Dim::Heads, attention.heads, keys);
        let statistics = Extent::new(Dim::Heads, attention.heads);
        let context = Extent::wide(Dim::Heads, attention.heads, attention.value_dim as f64);
        let (flash, dropout) = (attention.flash, attention.dropout);
        let class = OperatorClass::Attention;
        let kind = OperatorKind::Attention(attention);
        let index = self.push("core", class, Region::Attention, Some(input), kind);
        if !self.training.software.recompute.keeps_core {
            self.recompute_selectively(index);
        }
        if flash {
            self.save(index, statistics, Region::Attention, SavedAs::Fp32);
            let precision = self.training.precision;
            let narrow = precision.matmul().bytes() < precision.activation().bytes();
            // a gate keeps it where there is one
            if narrow && !self.model.output_gate {
                // the output projection keeps a narrow copy, the core's backward pass reads the wide one
                self.save(index, context, Region::Attention, SavedAs::Activation);
            }
        } else {
            self.save(index, scores, Region::Attention, SavedAs::Activation);
            if dropout {
                self.save(index, scores, Region::Attention, SavedAs::Byte);
                self.save(index, scores, Region::Attention, SavedAs::Activation);
            }
        }
        index
    }

    /// Projection of the heads' context back to the residual stream.
    pub(super) fn attention_output(&mut self, core: usize, context: Extent) -> usize {
        self.matmul(&Projection {
            name: "out",
            class: OperatorClass::Matmul,
            region: Region::Attention,
            input: Some(core),
            contract: context,
            parts: vec![(self.hidden(), "output")],
            experts: None,
            bias: self.model.output_bias,
        })
    }

    /// Queries from the decoder, keys and values from the encoder's output.
    pub(super) fn cross_attention(&mut self, input: usize, kind: LayerKind) -> usize {
        let (queries, keys) = (self.queries(), self.keys());
        let memory = self.model.memory_sequence(self.training.sequence);
        let projection = |name, input, parts, hidden, bias| Projection {
            name,
            class: OperatorClass::Matmul,
            region: Region::Attention,
            input,
            contract: hidden,
            parts,
            experts: None,
            bias,
        };
        let (hidden, bias) = (self.hidden(), self.model.qkv_bias);
        let parts = vec![(queries, "query")];
        let query = self.matmul(&projection("cross_query", Some(input), parts, hidden, bias));
        self.save(query, queries, Region::Attention, SavedAs::Activation);
        self.share_block_input();
        self.positions = Some(memory);
        let parts = vec![(keys, "key"), (keys, "value")];
        let key_value = self.matmul(&projection("cross_kv", None, parts, hidden, bias));
        self.positions = None;
        self.save(key_value, keys, Region::Attention, SavedAs::Activation);
        self.save(key_value, keys, Region::Attention, SavedAs::Activation);
        let core = Attention {
            causal: false,
            window: None,
            memory_sequence: Some(memory),
            ..self.plain_core(kind)
        };
        let core = self.core(query, core);
        self.attention_output(core, queries)
    }
}

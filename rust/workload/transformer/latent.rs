//! Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).

use super::block::{BlockBuilder, Part, Projection};
use super::config::LatentAttention;
use super::shape::LayerKind;
use crate::workload::{Attention, Dim, Extent, OperatorClass, OperatorKind, Region, SavedAs};

impl BlockBuilder<'_> {
    /// Compressed queries and keys with values, expanded to heads, then the core.
    ///
    /// The compressing products and norms lie in `Region::Residual`: their outputs belong to no head.
    pub(super) fn latent_attention(
        &mut self,
        input: usize,
        latent: &LatentAttention,
        kind: LayerKind,
    ) -> usize {
        let heads = self.model.heads;
        let per_head = |width: u64| Extent::wide(Dim::Heads, heads, width as f64);
        let query_dim = latent.nope_dim + latent.rope_dim;
        let (queries, values) = (per_head(query_dim), per_head(latent.value_dim));
        let query = self.latent_query(input, latent, queries);
        self.save(query, queries, Region::Attention, SavedAs::Activation);
        let compressed = Extent::new(Dim::Rank, latent.kv_rank);
        let shared_key = Extent::new(Dim::HeadDim, latent.rope_dim);
        let parts = vec![
            (compressed, "key_value_down"),
            (shared_key, "key_value_down"),
        ];
        let down = self.compress("kv_down", input, parts);
        let normed = self.norm("kv_norm", Region::Residual, Some(down), compressed);
        let parts = vec![(per_head(latent.nope_dim), "key"), (values, "value")];
        let up = self.expand("kv_up", normed, compressed, parts);
        // keys are kept with the shared rotary part copied to every head
        self.save(up, queries, Region::Attention, SavedAs::Activation);
        self.save(up, values, Region::Attention, SavedAs::Activation);
        self.join_heads(up, latent);
        let rotary = self.rotary(query, vec![per_head(latent.rope_dim), shared_key]);
        let core = Attention {
            kv_heads: heads,
            query_dim,
            value_dim: latent.value_dim,
            ..self.plain_core(kind)
        };
        let core = self.core(rotary, core);
        self.attention_output(core, values)
    }

    /// Writes keys, to each of which the shared rotary part is copied, and values, out of the product that
    /// makes both: reads a head's width of that product and writes one of a key and a value, and the other
    /// way round backward (Megatron-Core, `fused_apply_mla_rope_for_kv`).
    fn join_heads(&mut self, input: usize, latent: &LatentAttention) {
        let made = latent.nope_dim + latent.value_dim;
        let moved = (made + made + latent.rope_dim) as f64;
        let kind = OperatorKind::Elementwise {
            width: vec![Extent::wide(Dim::Heads, self.model.heads, moved)],
            forward_passes: 1.0,
            backward_passes: 1.0,
            strided: [0.0; 2],
            vectors: Vec::new(),
        };
        let class = OperatorClass::Elementwise;
        self.push("join_heads", class, Region::Attention, Some(input), kind);
    }

    fn latent_query(&mut self, input: usize, latent: &LatentAttention, queries: Extent) -> usize {
        let Some(rank) = latent.query_rank else {
            let hidden = self.hidden();
            return self.expand("query", input, hidden, vec![(queries, "query")]);
        };
        let rank = Extent::new(Dim::Rank, rank);
        let down = self.compress("query_down", input, vec![(rank, "query_down")]);
        let normed = self.norm("query_norm", Region::Residual, Some(down), rank);
        self.expand("query_up", normed, rank, vec![(queries, "query")])
    }

    fn compress(&mut self, name: &'static str, input: usize, parts: Vec<Part>) -> usize {
        self.matmul(&Projection {
            name,
            class: OperatorClass::Matmul,
            region: Region::Residual,
            input: Some(input),
            contract: self.hidden(),
            parts,
            experts: None,
            bias: self.model.qkv_bias,
        })
    }

    fn expand(
        &mut self,
        name: &'static str,
        input: usize,
        contract: Extent,
        parts: Vec<Part>,
    ) -> usize {
        self.matmul(&Projection {
            name,
            class: OperatorClass::Matmul,
            region: Region::Attention,
            input: Some(input),
            contract,
            parts,
            experts: None,
            bias: false,
        })
    }
}

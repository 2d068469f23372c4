//! What enters the first layer: token, position and segment tables, their sum, dropout and norm.

use super::block::BlockBuilder;
use super::config::{Family, Position, Transformer};
use crate::workload::{
    Block, BlockRole, Dim, Extent, OperatorClass, OperatorKind, Region, SavedAs, Training,
};

/// The embedding block. A tied table belongs to the head's product.
pub(super) fn embedding(model: &Transformer, training: &Training) -> Block {
    let frozen = model.lora.is_some() || model.frozen_layers > 0;
    let mut block = BlockBuilder::new(model, training, frozen);
    block.stream_entry("tokens", !model.tied_embeddings, true);
    if model.family == Family::EncoderDecoder {
        block.positions = Some(model.memory_sequence(training.sequence));
        block.stream_entry("encoder_tokens", false, false);
        block.positions = None;
        if model.position == Position::Relative {
            block.relative_bias();
        }
    }
    if model.position == Position::Relative {
        block.relative_bias();
    }
    block.finish("embedding", BlockRole::Embedding)
}

impl BlockBuilder<'_> {
    /// The tables of one stack, summed; both stacks of an encoder-decoder read the same ones.
    fn stream_entry(&mut self, name: &'static str, owns_tokens: bool, owns_others: bool) {
        let rows = Extent::new(Dim::Vocab, self.model.table_rows());
        let mut last = self.lookup(name, Region::Vocabulary, rows, owns_tokens);
        let mut tables = 1.0;
        let others = [
            ("positions", self.model.position_rows()),
            ("segments", self.model.segments),
        ];
        for (name, rows) in others.into_iter().filter(|(_, rows)| *rows > 0) {
            let rows = Extent::new(Dim::Position, rows);
            last = self.lookup(name, Region::Residual, rows, owns_others);
            tables += 1.0;
        }
        if tables > 1.0 || self.training.dropout {
            last = self.table_sum(last, tables);
        }
        if self.model.embedding_norm {
            let hidden = self.hidden();
            self.norm("embedding_norm", Region::Residual, Some(last), hidden);
        }
    }

    pub(super) fn lookup(
        &mut self,
        name: &'static str,
        region: Region,
        rows: Extent,
        owns_table: bool,
    ) -> usize {
        let kind = OperatorKind::Lookup {
            rows,
            width: self.hidden(),
            owns_table,
        };
        self.push(name, OperatorClass::Embedding, region, None, kind)
    }

    fn table_sum(&mut self, input: usize, tables: f64) -> usize {
        let dropout = self.training.dropout;
        let hidden = self.hidden();
        let kind = OperatorKind::Elementwise {
            width: vec![hidden],
            // reads each row, writes their sum, and the one-byte mask
            forward_passes: tables + 1.0 + if dropout { 0.5 } else { 0.0 },
            // dropout reads gradient and mask and writes; the sum alone passes the gradient on
            backward_passes: if dropout { 2.5 } else { 0.0 },
            strided: [0.0; 2],
            vectors: Vec::new(),
        };
        let class = OperatorClass::Elementwise;
        let index = self.push("entry", class, Region::Residual, Some(input), kind);
        if dropout {
            self.save(index, hidden, Region::Residual, SavedAs::Byte);
        }
        index
    }

    /// T5's bucketed bias, one table per stack, shared by its layers. Its work is in the core.
    fn relative_bias(&mut self) {
        let buckets = self.model.relative_buckets as f64;
        let table = self.vector(Extent::wide(Dim::Heads, self.model.heads, buckets));
        let kind = OperatorKind::Elementwise {
            width: Vec::new(),
            forward_passes: 0.0,
            backward_passes: 0.0,
            strided: [0.0; 2],
            vectors: vec![table],
        };
        let class = OperatorClass::Embedding;
        self.push("relative_bias", class, Region::Attention, None, kind);
    }
}

//! What leaves the last layer: final norm, predictions of further tokens, vocabulary, loss, extra vectors?

use super::block::{BlockBuilder, Projection};
use super::config::{Family, Transformer};
use super::shape::LayerKind;
use crate::workload::{
    Block, BlockRole, Dim, Extent, OperatorClass, OperatorKind, Region, SavedAs, Training,
};

/// The head block. Every position is projected on the vocabulary, in encoders too.
pub(super) fn head(model: &Transformer, training: &Training) -> Block {
    let mut block = BlockBuilder::new(model, training, false);
    if model.family == Family::EncoderDecoder && model.final_norm {
        block.encoder_norm();
    }
    let hidden = block.hidden();
    let mut last = model
        .final_norm
        .then(|| block.norm("final_norm", Region::Residual, None, hidden));
    let kinds = model.prediction_kinds();
    for _ in 0..model.prediction_layers {
        last = Some(block.prediction(&kinds));
    }
    // every module's stream meets the one table
    let streams = model.prediction_layers + 1;
    block.positions = (streams > 1).then_some(training.sequence.saturating_mul(streams));
    block.vocabulary(last);
    block.positions = None;
    if !model.extra_parameters.is_empty() {
        block.extra();
    }
    block.finish("head", BlockRole::Head)
}

impl BlockBuilder<'_> {
    /// A module that predicts one token further: `M [norm(h); norm(e)]`, its layers, a norm (DeepSeek-V3,
    /// arXiv 2412.19437, equations 21 to 23). The table of `e` is the embedding's.
    fn prediction(&mut self, kinds: &[LayerKind]) -> usize {
        let rows = Extent::new(Dim::Vocab, self.model.table_rows());
        let next = self.lookup("next_tokens", Region::Vocabulary, rows, false);
        self.stream_norm("next_token_norm", Some(next));
        let stream = self.stream_norm("prediction_norm", None);
        let hidden = self.hidden();
        let joined = self.matmul(&Projection {
            name: "prediction",
            class: OperatorClass::Matmul,
            region: Region::Residual,
            input: Some(stream),
            contract: Extent::wide(hidden.dim, hidden.size, 2.0),
            parts: vec![(hidden, "prediction")],
            experts: None,
            bias: false,
        });
        let mut end = joined;
        for &kind in kinds {
            [_, _, end] = self.layer_behind(Some(end), kind);
        }
        self.stream_norm("prediction_end_norm", Some(end))
    }

    /// The encoder's last norm, laid here so that it is counted once; keeps its output for all
    /// cross-attention layers.
    fn encoder_norm(&mut self) {
        let hidden = self.hidden();
        self.positions = Some(self.model.memory_sequence(self.training.sequence));
        let index = self.norm("encoder_norm", Region::Residual, None, hidden);
        self.save(index, hidden, Region::Residual, SavedAs::Activation);
        self.positions = None;
    }

    /// Projection and cross-entropy, whose fp32 softmax is kept (Korthikanti et al. 2022,
    /// section 4.3: 4 s b h / t (1 + v/h) with norm and projection inputs).
    fn vocabulary(&mut self, input: Option<usize>) {
        let vocab = Extent::new(Dim::Vocab, self.model.table_rows());
        let own = self.trained;
        // a tied table is frozen with the embedding
        self.trained = own && !(self.model.tied_embeddings && self.model.frozen_layers > 0);
        let head = self.matmul(&Projection {
            name: "head",
            class: OperatorClass::Head,
            region: Region::Vocabulary,
            input,
            contract: self.hidden(),
            parts: vec![(vocab, "head")],
            experts: None,
            bias: false,
        });
        self.trained = own;
        if !self.training.forward_only {
            let kind = OperatorKind::Loss { vocab };
            let class = OperatorClass::Loss;
            let loss = self.push("loss", class, Region::Vocabulary, Some(head), kind);
            match self.training.software.vocabulary.logits {
                None => self.save(loss, vocab, Region::Vocabulary, SavedAs::Fp32),
                Some([kept, _]) => {
                    let bytes = Extent::wide(vocab.dim, vocab.size, kept);
                    self.save(loss, bytes, Region::Vocabulary, SavedAs::Byte);
                }
            }
        }
    }

    fn extra(&mut self) {
        let sizes = self.model.extra_parameters.values();
        let vectors = sizes
            .map(|&size| self.vector(Extent::new(Dim::Rank, size)))
            .collect();
        let kind = OperatorKind::Elementwise {
            width: Vec::new(),
            forward_passes: 0.0,
            backward_passes: 0.0,
            strided: [0.0; 2],
            vectors,
        };
        let class = OperatorClass::Elementwise;
        self.push("extra", class, Region::Residual, None, kind);
    }
}

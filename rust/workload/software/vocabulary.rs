//! What do embedding, head and loss move and keep?

use super::limits;
use crate::error::Result;
use serde::{Deserialize, Serialize};

/// Largest multiple to which rows of a vocabulary are rounded up.
const MOST_ROWS: f64 = 1_048_576.0;

/// `[software.vocabulary]` of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Vocabulary {
    /// Bytes per logit that the cross-entropy moves. The default is Megatron-LM's separate passes of
    /// `vocab_parallel_cross_entropy`: cast to fp32 (2 + 4), row maximum (4), shift (4 + 4),
    /// exponential (4 + 4), row sum (4), normalisation (4 + 4); backward the fp32 softmax is scaled in
    /// place (4 + 4) and cast (4 + 2).
    pub loss: [f64; 2],
    /// Bytes of a logit that the loss keeps for its backward pass, and that lie beside them when most do;
    /// absent: the fp32 softmax of Megatron-LM, and logits with their gradient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logits: Option<[f64; 2]>,
    /// The second of those where tensor ranks share the vocabulary, if it differs (`loss_parallel` of `PyTorch`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logits_shared: Option<f64>,
    /// Rows of the embedding table and of the head are rounded up to a multiple of this where the model does
    /// not say how many there are (`padded_vocab`). Megatron-LM: 128 (`--make-vocab-size-divisible-by`), there
    /// of each tensor rank's part.
    pub vocabulary_multiple: u64,
    /// Rows of the embedding are picked by a product of one-hot rows with the table, and their
    /// gradients added by another (`use_iota_embed` of `MaxText`).
    pub embedding_product: bool,
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self {
            loss: [38.0, 14.0],
            logits: None,
            logits_shared: None,
            vocabulary_multiple: 128,
            embedding_product: false,
        }
    }
}

impl Vocabulary {
    /// Refuses figures that no program has.
    pub(super) fn check(&self) -> Result<()> {
        limits::pair("vocabulary.loss", self.loss)?;
        limits::pair("vocabulary.logits", self.logits.unwrap_or_default())?;
        limits::count(
            "vocabulary.logits_shared",
            self.logits_shared.unwrap_or_default(),
        )?;
        let rows = self.vocabulary_multiple as f64;
        limits::within("vocabulary.vocabulary_multiple", rows, 1.0, MOST_ROWS)
    }
}

//! What does a slice of a sequence read and keep of the slices beside it?

use super::lower::Lowering;
use crate::workload::{Attention, Operator, OperatorKind};

impl Lowering<'_> {
    /// Keys of earlier slices that queries may read: all of them, or those of the window.
    pub(super) fn keys_in_front(&self, core: &Attention) -> f64 {
        if core.memory_sequence.is_some() {
            return 0.0; // the encoder's output, at hand for every slice
        }
        core.window
            .map_or(self.before, |w| self.before.min(w as f64))
    }

    /// Bytes of the keys and values of a slice, and of those in front that it reads.
    pub(super) fn keys_bytes(&self, operator: &Operator, core: &Attention) -> [f64; 2] {
        let kv_heads = self.local_heads(operator, core.kv_heads);
        let columns = kv_heads * (core.query_dim + core.value_dim) as f64;
        let token = self.batch * columns * self.activation.bytes();
        [self.positions(operator), self.keys_in_front(core)].map(|tokens| tokens * token)
    }

    /// By how much wider the scores that are kept are than those of the slice's own keys.
    pub(super) fn wider_scores(&self, operator: &Operator) -> f64 {
        match &operator.kind {
            OperatorKind::Attention(core) if !core.flash && self.before > 0.0 => {
                let keys = self.key_positions(operator, core);
                keys / (keys - self.keys_in_front(core))
            }
            _ => 1.0,
        }
    }
}

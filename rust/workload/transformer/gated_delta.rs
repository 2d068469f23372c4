//! The mixer of a layer with a gated delta rule (Gated `DeltaNet`: Yang et al. 2024, arXiv 2412.06464, section 3).

use super::block::BlockBuilder;
use super::config::StateSpace;
use super::state_space::Columns;
use crate::workload::{Dim, Extent, OperatorClass, OperatorKind, Region, SavedAs};

impl BlockBuilder<'_> {
    /// Gate, values, keys, queries, strength and decay from one projection; convolution of values, keys and
    /// queries; the rule; norm of each head with its gate; output projection (Megatron-Core, `GatedDeltaNet`).
    pub(super) fn gated_delta(&mut self, input: usize, widths: &StateSpace) -> usize {
        let columns = widths.columns();
        let projected = self.fused(&columns.entering(input, self.hidden()));
        let Columns { inner, state, .. } = columns;
        for part in columns.parts() {
            self.save(projected, part, Region::Attention, SavedAs::Activation);
        }
        // forward it reads and writes its channels, backward it reads them and a gradient and writes one
        let convolved = self.convolution(projected, widths, [2.0, 3.0]);
        self.save(convolved, inner, Region::Attention, SavedAs::Activation);
        if widths.heads > widths.groups {
            // keys and queries at length one, which norms keep beside their copies for all heads
            for part in [state, state] {
                self.save(convolved, part, Region::Attention, SavedAs::Activation);
            }
        }
        let kind = OperatorKind::Scan(widths.scan());
        let class = OperatorClass::StateSpace;
        let ruled = self.push(
            "delta_rule",
            class,
            Region::Attention,
            Some(convolved),
            kind,
        );
        let of_heads = |width: u64| Extent::wide(Dim::Heads, widths.heads, width as f64);
        // queries and keys of every head at length one, and what takes keys out of a chunk's values
        let chunk = widths.chunk().min(self.training.sequence);
        for part in [2 * widths.state, chunk].map(of_heads) {
            self.save(ruled, part, Region::Attention, SavedAs::Activation);
        }
        self.save(ruled, of_heads(2), Region::Attention, SavedAs::Fp32);
        let normed = self.gated_norm(ruled, inner, widths.head_dim);
        self.fused(&columns.leaving(normed, self.hidden()))
    }

    /// A norm of each head, whose gains all heads share, times its gate: one pass more than a norm forward,
    /// which reads the gate, and two more backward, which writes its gradient, too.
    fn gated_norm(&mut self, input: usize, inner: Extent, width: u64) -> usize {
        let [forward, backward] = self.training.software.layer.norm;
        let kind = OperatorKind::Elementwise {
            width: vec![inner],
            forward_passes: forward + 1.0,
            backward_passes: backward + 2.0,
            strided: [0.0; 2],
            vectors: vec![self.vector(Extent::new(Dim::HeadDim, width))],
        };
        let class = OperatorClass::Normalization;
        let index = self.push("gated_norm", class, Region::Attention, Some(input), kind);
        self.save(index, inner, Region::Attention, SavedAs::Activation);
        self.repeat_between_products(index);
        index
    }
}

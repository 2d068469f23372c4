//! The state-space mixer of a layer (Mamba-2: Dao and Gu 2024, arXiv 2405.21060, section 7.1).

use super::block::{BlockBuilder, Projection};
use super::config::StateSpace;
use crate::workload::{Dim, Extent, OperatorClass, OperatorKind, Region, SavedAs, Scan, Weight};

/// Columns of a mixer, per position.
struct Columns {
    /// The input `x`, and so the gate `z` and the output.
    inner: Extent,
    /// One of the vectors B and C.
    state: Extent,
    /// One number a head, as the step.
    heads: Extent,
}

impl StateSpace {
    /// The scan.
    pub(in crate::workload) fn scan(&self) -> Scan {
        Scan {
            heads: self.heads,
            head_dim: self.head_dim,
            state: self.state,
            groups: self.groups,
            chunk: self.chunk,
        }
    }

    fn columns(&self) -> Columns {
        Columns {
            inner: Extent::wide(Dim::Heads, self.heads, self.head_dim as f64),
            state: Extent::wide(Dim::Groups, self.groups, self.state as f64),
            heads: Extent::new(Dim::Heads, self.heads),
        }
    }
}

impl BlockBuilder<'_> {
    /// Gate, input, B, C and step from one projection; convolution of input, B and C; scan with its gate;
    /// norm of the gated output; output projection (Megatron-Core, `MambaMixer`).
    pub(super) fn state_space(&mut self, input: usize, widths: &StateSpace) -> usize {
        let Columns {
            inner,
            state,
            heads,
        } = widths.columns();
        let parts = [inner, inner, state, state, heads];
        let projected = self.fused(&Projection {
            name: "mixer_in",
            class: OperatorClass::Matmul,
            region: Region::Attention,
            input: Some(input),
            contract: self.hidden(),
            parts: parts.map(|part| (part, "mixer_in")).to_vec(),
            experts: None,
            bias: false,
        });
        // convolution and scan keep what both read: what is convolved is convolved again in the backward pass
        for part in parts {
            self.save(projected, part, Region::Attention, SavedAs::Activation);
        }
        let convolved = self.convolution(projected, widths);
        let kind = OperatorKind::Scan(widths.scan());
        let class = OperatorClass::StateSpace;
        let scanned = self.push("scan", class, Region::Attention, Some(convolved), kind);
        // the output before its gate
        self.save(scanned, inner, Region::Attention, SavedAs::Activation);
        let normed = self.norm("gated_norm", Region::Attention, Some(scanned), inner);
        self.fused(&Projection {
            name: "mixer_out",
            class: OperatorClass::Matmul,
            region: Region::Attention,
            input: Some(normed),
            contract: inner,
            parts: vec![(self.hidden(), "mixer_out")],
            experts: None,
            bias: false,
        })
    }

    /// A causal convolution along the positions, channel by channel, whose activation is fused. Forward it
    /// reads and writes its channels; the backward pass does so once more, then reads them and their gradient
    /// and writes a gradient (mamba-ssm, `mamba_split_conv1d_scan_combined`). Decay, skip and step bias of the
    /// scan are counted here.
    fn convolution(&mut self, input: usize, widths: &StateSpace) -> usize {
        let Columns {
            inner,
            state,
            heads,
        } = widths.columns();
        let taps = (widths.convolution + u64::from(widths.convolution_bias)) as f64;
        let more = |extent: Extent, times: f64| Extent {
            times: extent.times * times,
            ..extent
        };
        let vectors: Vec<Weight> = [more(inner, taps), more(state, 2.0 * taps), more(heads, 3.0)]
            .into_iter()
            .map(|extent| self.vector(extent))
            .collect();
        let kind = OperatorKind::Elementwise {
            width: vec![inner, more(state, 2.0)],
            forward_passes: 2.0,
            backward_passes: 5.0,
            strided: [0.0; 2],
            vectors,
        };
        let class = OperatorClass::StateSpace;
        self.push("convolution", class, Region::Attention, Some(input), kind)
    }
}

//! The state-space mixer of a layer (Mamba-2: Dao and Gu 2024, arXiv 2405.21060, section 7.1).

use super::block::{BlockBuilder, Projection};
use super::config::{StateRule, StateSpace};
use crate::workload::{Dim, Extent, OperatorClass, OperatorKind, Region, SavedAs, Scan, Weight};

/// Columns of a mixer, per position.
pub(super) struct Columns {
    /// The input `x`, and so the gate `z` and the output.
    pub(super) inner: Extent,
    /// One of the vectors B and C.
    pub(super) state: Extent,
    /// Numbers of each head: the step, or strength and decay of a delta rule.
    pub(super) heads: Extent,
}

impl Columns {
    /// What is projected: gate, input, B, C and numbers of heads.
    pub(super) fn parts(&self) -> [Extent; 5] {
        [self.inner, self.inner, self.state, self.state, self.heads]
    }

    /// The projection into the mixer.
    pub(super) fn entering(&self, input: usize, stream: Extent) -> Projection {
        projection("mixer_in", input, stream, &self.parts())
    }

    /// The projection of what it makes back to the stream.
    pub(super) fn leaving(&self, input: usize, stream: Extent) -> Projection {
        projection("mixer_out", input, self.inner, &[stream])
    }
}

fn projection(name: &'static str, input: usize, contract: Extent, parts: &[Extent]) -> Projection {
    Projection {
        name,
        class: OperatorClass::Matmul,
        region: Region::Attention,
        input: Some(input),
        contract,
        parts: parts.iter().map(|part| (*part, name)).collect(),
        experts: None,
        bias: false,
    }
}

impl StateSpace {
    /// The scan.
    pub fn scan(&self) -> Scan {
        Scan {
            rule: self.rule,
            heads: self.heads,
            head_dim: self.head_dim,
            state: self.state,
            groups: self.groups,
            chunk: self.chunk(),
        }
    }

    /// Positions of a chunk.
    pub(in crate::workload) fn chunk(&self) -> u64 {
        self.chunk.unwrap_or(match self.rule {
            StateRule::Decay => 128,
            StateRule::GatedDelta => 64,
        })
    }

    /// Trained numbers of the convolution for each of its channels.
    pub(super) fn taps(&self) -> u64 {
        let biased = self.rule == StateRule::Decay;
        self.convolution + u64::from(self.convolution_bias.unwrap_or(biased))
    }

    pub(super) fn columns(&self) -> Columns {
        Columns {
            inner: Extent::wide(Dim::Heads, self.heads, self.head_dim as f64),
            state: Extent::wide(Dim::Groups, self.groups, self.state as f64),
            heads: Extent::wide(Dim::Heads, self.heads, self.rule.numbers() as f64),
        }
    }
}

impl StateRule {
    /// Numbers that are projected for each head.
    pub const fn numbers(self) -> u64 {
        match self {
            Self::Decay => 1,
            Self::GatedDelta => 2,
        }
    }

    /// Trained numbers of each head: decay, bias and, of Mamba-2, a skip.
    pub(super) const fn trained(self) -> u64 {
        match self {
            Self::Decay => 3,
            Self::GatedDelta => 2,
        }
    }
}

impl BlockBuilder<'_> {
    /// Gate, input, B, C and step from one projection; convolution of input, B and C; scan with its gate;
    /// norm of the gated output; output projection (Megatron-Core, `MambaMixer`).
    pub(super) fn state_space(&mut self, input: usize, widths: &StateSpace) -> usize {
        let columns = widths.columns();
        let inner = columns.inner;
        let projected = self.fused(&columns.entering(input, self.hidden()));
        // convolution and scan keep what both read: what is convolved is convolved again in the backward pass
        for part in columns.parts() {
            self.save(projected, part, Region::Attention, SavedAs::Activation);
        }
        // forward it reads and writes its channels; the backward pass does so once more, then reads them and
        // their gradient and writes a gradient (mamba-ssm, `mamba_split_conv1d_scan_combined`)
        let convolved = self.convolution(projected, widths, [2.0, 5.0]);
        let kind = OperatorKind::Scan(widths.scan());
        let class = OperatorClass::StateSpace;
        let scanned = self.push("scan", class, Region::Attention, Some(convolved), kind);
        // the output before its gate
        self.save(scanned, inner, Region::Attention, SavedAs::Activation);
        let normed = self.norm("gated_norm", Region::Attention, Some(scanned), inner);
        self.fused(&columns.leaving(normed, self.hidden()))
    }

    /// A causal convolution along the positions, channel by channel, whose activation is fused, with its passes
    /// over them forward and backward. Decay, skip and step bias of the scan are counted here.
    pub(super) fn convolution(
        &mut self,
        input: usize,
        widths: &StateSpace,
        [forward_passes, backward_passes]: [f64; 2],
    ) -> usize {
        let Columns {
            inner,
            state,
            heads,
        } = widths.columns();
        let taps = widths.taps() as f64;
        let more = |extent: Extent, times: f64| Extent {
            times: extent.times * times,
            ..extent
        };
        let trained = Extent::wide(Dim::Heads, heads.size, widths.rule.trained() as f64);
        let vectors: Vec<Weight> = [more(inner, taps), more(state, 2.0 * taps), trained]
            .into_iter()
            .map(|extent| self.vector(extent))
            .collect();
        let kind = OperatorKind::Elementwise {
            width: vec![inner, more(state, 2.0)],
            forward_passes,
            backward_passes,
            strided: [0.0; 2],
            vectors,
        };
        let class = OperatorClass::StateSpace;
        self.push("convolution", class, Region::Attention, Some(input), kind)
    }
}

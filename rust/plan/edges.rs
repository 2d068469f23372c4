//! Which collectives take an activation from how one operator leaves it to how the next wants it?
//!
//! The same for its gradient, the other way; and which ranks take part.

use super::kernels::memory;
use super::lower::{Lowering, PendingCollective};
use super::program::Purpose;
use super::sharding::{Layout, Side, transition};
use crate::collective::{Collective, Crossing};
use crate::units::{Dtype, Seconds};
use crate::workload::{Dim, Extent, Operator, OperatorClass, OperatorKind};

/// Layouts over both sides of the tensor ranks.
pub(super) type Layouts = [Layout; 2];

/// What becomes of an activation on its way: where it starts and ends.
pub(super) type LayoutChange = (Layouts, Layouts);

impl Lowering<'_> {
    /// How an operator wants its input and leaves its output.
    pub(super) fn layouts(&self, operator: &Operator) -> (Layouts, Layouts) {
        let sides = Side::ALL.map(|side| self.sharding.layouts(operator, side));
        (sides.map(|side| side.0), sides.map(|side| side.1))
    }

    /// How the residual stream lies.
    pub(super) fn residual(&self) -> Layouts {
        Side::ALL.map(|side| self.sharding.residual(side))
    }

    /// Parts into which layouts cut a tensor.
    pub(super) fn parts(&self, layouts: Layouts) -> f64 {
        self.parts_along(layouts[0], Side::Columns) * self.parts_along(layouts[1], Side::Rows)
    }

    fn parts_along(&self, layout: Layout, side: Side) -> f64 {
        match (layout, side) {
            (Layout::Sharded(_), Side::Columns) => f64::from(self.mesh.columns.size),
            (Layout::Sharded(_), Side::Rows) => f64::from(self.mesh.rows.size),
            _ => 1.0,
        }
    }

    /// The collectives of a tensor's way, of which the last may run under so many kernels behind it.
    ///
    /// Sides that want the same collective make one of all tensor ranks. Else what makes the tensor
    /// smaller comes first and what makes it larger last, and each moves the part that the other
    /// side leaves.
    pub(super) fn convert_layout(
        &self,
        operator: &Operator,
        (from, to): LayoutChange,
        under: u32,
    ) -> Vec<PendingCollective> {
        let bytes = self.edge_bytes(operator);
        let wire = |collective, span, bytes, under| PendingCollective {
            purpose: Purpose::Tensor,
            collective,
            span,
            bytes,
            under,
            crossing: Crossing::Each,
            handling: Seconds::ZERO,
        };
        let [columns, rows] = [0, 1].map(|side| transition(from[side], to[side]));
        let columns = columns.map(|collective| (collective, Side::Columns));
        let rows = rows.map(|collective| (collective, Side::Rows));
        match (columns, rows) {
            (None, None) => Vec::new(),
            (Some((collective, _)), Some((other, _))) if collective == other => {
                vec![wire(collective, self.mesh.tensor, bytes, under)]
            }
            (Some(one), Some(other)) => {
                let (first, last) = if rank(one.0) <= rank(other.0) {
                    (one, other)
                } else {
                    (other, one)
                };
                // the other side is as it was during the first, as it will be during the last
                vec![
                    self.along(first, from, bytes, 0),
                    self.along(last, to, bytes, under),
                ]
            }
            (Some(one), None) | (None, Some(one)) => vec![self.along(one, to, bytes, under)],
        }
    }

    /// The collectives on a product's input, of which gathers carry it as the product reads it: it is
    /// cast in parts, before it is gathered, and so once more for the weight's gradient (Transformer
    /// Engine, `gather_along_first_dim` of `pytorch/distributed.py`: `_all_gather_fp8`, `_mxfp8`, `_nvfp4`).
    pub(super) fn gathered_narrow(
        &self,
        operator: &Operator,
        mut wires: Vec<PendingCollective>,
    ) -> Vec<PendingCollective> {
        let share = self.format(operator).bytes() / self.activation.bytes();
        if share < 1.0 && matches!(operator.kind, OperatorKind::Matmul { .. }) {
            let gathers = wires
                .iter_mut()
                .filter(|wire| wire.collective == Collective::AllGather);
            gathers.for_each(|wire| wire.bytes *= share);
        }
        wires
    }

    /// Adds a collective on a tensor's way; sums that are to be wide are cast to fp32 before it and back behind.
    pub(super) fn exchange(
        &mut self,
        forward: bool,
        operator: &Operator,
        mut wire: PendingCollective,
    ) {
        let (narrow, wide) = (self.activation.bytes(), Dtype::Fp32.bytes());
        let sums = matches!(
            wire.collective,
            Collective::AllReduce | Collective::ReduceScatter
        );
        if sums && self.training.software.tensor.sums_wide && wire.span.size > 1 && narrow < wide {
            let elements = wire.bytes / narrow;
            wire.bytes = elements * wide;
            // both casts stand before it, so that what runs under it stays what it is
            let cast = || memory(elements * (narrow + wide), 1.0);
            self.compute(forward, operator, cast());
            self.compute(forward, operator, cast());
        }
        self.communicate(forward, operator, wire);
    }

    /// A collective over one side, while the other lies as `layouts` say.
    fn along(
        &self,
        (collective, side): (Collective, Side),
        layouts: Layouts,
        bytes: f64,
        under: u32,
    ) -> PendingCollective {
        let (span, parts) = match side {
            Side::Columns => (self.mesh.columns, self.parts_along(layouts[1], Side::Rows)),
            Side::Rows => (self.mesh.rows, self.parts_along(layouts[0], Side::Columns)),
        };
        PendingCollective {
            purpose: Purpose::Tensor,
            collective,
            span,
            bytes: bytes / parts,
            under,
            crossing: Crossing::Each,
            handling: Seconds::ZERO,
        }
    }

    /// Bytes of the full tensor on an operator's input edge, before any cut over tensor ranks.
    fn edge_bytes(&self, operator: &Operator) -> f64 {
        let columns = match &operator.kind {
            OperatorKind::Matmul {
                contract, experts, ..
            } => contract.columns() * experts.as_ref().map_or(1.0, |r| self.copies(r)),
            OperatorKind::Route {
                width,
                routed,
                back,
            } => width.columns() * if *back { self.copies(routed) } else { 1.0 },
            // key heads that are fewer than the ranks travel once for each rank that wants them
            _ => operator.input.map_or(0.0, |p| {
                let output = self.block.operators[p].output();
                let whole = |e: &Extent| self.sharding.whole(operator.region, e);
                output.iter().map(whole).sum()
            }),
        };
        self.tokens(operator) * columns * self.activation.bytes()
    }

    /// Adds the sums of a norm over a width that is cut: in each pass two numbers per token, or one
    /// where the mean is not taken off, in fp32 (Xu et al. 2021, Optimus, arXiv 2104.05343).
    pub(super) fn sum_statistics(&mut self, operator: &Operator, forward: bool) {
        let OperatorKind::Elementwise { width, vectors, .. } = &operator.kind else {
            return;
        };
        let cut = width.iter().any(|e| e.dim == Dim::Hidden);
        if operator.class != OperatorClass::Normalization || !cut || self.mesh.rows.size < 2 {
            return;
        }
        // a norm that takes the mean off has a bias beside its gains
        let bytes = self.tokens_of(operator) * vectors.len() as f64 * Dtype::Fp32.bytes();
        let wire = PendingCollective {
            purpose: Purpose::Tensor,
            collective: Collective::AllReduce,
            span: self.mesh.rows,
            bytes,
            under: 0,
            crossing: Crossing::Each,
            handling: Seconds::ZERO,
        };
        self.communicate(forward, operator, wire);
    }
}

/// Where a collective stands among those of one tensor: reductions to parts, sums, then gathers.
const fn rank(collective: Collective) -> u8 {
    match collective {
        Collective::ReduceScatter => 0,
        Collective::AllGather => 2,
        _ => 1,
    }
}

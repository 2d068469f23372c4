//! Which ranks split which dim in which region? The one sharding rule.
//!
//! It also says which collective follows where one operator's output lies unlike the next operator's input.
//! Tensor ranks may form a grid, and the rule then holds on each side of it: a projection from or to the
//! residual stream has the stream's width cut over the rows and its other width over the columns
//! (two-dimensional weight-stationary sharding: Pope et al. 2022, section 3.2.2); everything between
//! projections is cut over both.

use super::choice::Plan;
use crate::collective::Collective;
use crate::workload::{Dim, Extent, Operator, OperatorKind, Region};

/// How an activation lies over the tensor ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Every rank holds all of it.
    Replicated,
    /// Every rank holds a part of this dim.
    Sharded(Dim),
    /// Every rank holds a summand.
    Partial,
}

/// A side of the grid of tensor ranks. Without a grid all of them are columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Side {
    /// Ranks that split heads, feed-forward width and vocabulary.
    Columns,
    /// Ranks that split the residual stream's width.
    Rows,
}

impl Side {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Columns, Self::Rows];
}

/// A plan's split of named dims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharding {
    tensor: u32,
    rows: u32,
    expert: u32,
    expert_tensor: u32,
    sequence_parallel: bool,
}

impl Sharding {
    /// The split that a plan makes.
    pub fn new(plan: &Plan) -> Self {
        Self {
            tensor: plan.tensor,
            rows: plan.tensor_rows.max(1),
            expert: plan.expert,
            expert_tensor: plan.expert_tensor_ranks(),
            sequence_parallel: plan.sequence_parallel,
        }
    }

    /// Into how many parts a dim is cut inside a region, between its projections.
    pub fn degree(&self, region: Region, dim: Dim) -> u32 {
        match (region, dim) {
            (Region::Attention, Dim::Heads | Dim::KvHeads | Dim::Groups)
            | (Region::Mlp, Dim::Ffn)
            | (Region::Vocabulary, Dim::Vocab) => self.tensor,
            (Region::Residual | Region::Attention | Region::Mlp, Dim::Hidden) => self.rows,
            (Region::Experts, Dim::ExpertFfn) => self.expert_tensor,
            (Region::Experts, Dim::Expert) => self.expert,
            _ => 1,
        }
    }

    /// Into how many parts a dim of an operator is cut.
    pub fn degree_of(&self, operator: &Operator, dim: Dim) -> u32 {
        let degree = self.degree(operator.region, dim);
        if dim != Dim::Hidden && self.is_grid(operator) {
            (degree / self.rows).max(1)
        } else {
            degree
        }
    }

    /// True for a projection whose weight is cut along both sides of the grid.
    fn is_grid(&self, operator: &Operator) -> bool {
        let OperatorKind::Matmul {
            contract, columns, ..
        } = &operator.kind
        else {
            return false;
        };
        let hidden = |extent: &Extent| extent.dim == Dim::Hidden;
        let rows = self.degree(operator.region, Dim::Hidden) > 1;
        rows && (hidden(contract) || columns.iter().any(hidden))
    }

    /// Columns of an extent that lies in a region, between its projections, on the fullest rank. A
    /// dim with fewer entries than ranks is replicated, one that does not divide is padded: both show
    /// as more than an even share.
    pub fn local(&self, region: Region, extent: &Extent) -> f64 {
        columns_on_fullest(extent, self.degree(region, extent.dim))
    }

    /// Columns of an extent of an operator on the fullest rank.
    pub fn local_of(&self, operator: &Operator, extent: &Extent) -> f64 {
        columns_on_fullest(extent, self.degree_of(operator, extent.dim))
    }

    /// Columns of an extent over all ranks that split it, copies and padding included.
    pub fn whole(&self, region: Region, extent: &Extent) -> f64 {
        self.local(region, extent) * f64::from(self.degree(region, extent.dim).max(1))
    }

    /// Local columns of a product: extents on unlike dims multiply.
    pub fn local_product(&self, region: Region, shape: &[Extent]) -> f64 {
        shape.iter().map(|e| self.local(region, e)).product()
    }

    /// Local columns of a sum of parts of an operator that lie side by side.
    pub fn local_sum(&self, operator: &Operator, parts: &[Extent]) -> f64 {
        parts.iter().map(|e| self.local_of(operator, e)).sum()
    }

    /// How the residual stream lies over one side of the tensor ranks.
    pub fn residual(&self, side: Side) -> Layout {
        match side {
            Side::Columns if self.sequence_parallel && self.tensor > self.rows => {
                Layout::Sharded(Dim::Sequence)
            }
            Side::Rows if self.rows > 1 => Layout::Sharded(Dim::Hidden),
            _ => Layout::Replicated,
        }
    }

    /// The dim of some extents of an operator that is cut over one side.
    fn cut(&self, operator: &Operator, extents: &[Extent], side: Side) -> Option<Dim> {
        let grid = self.is_grid(operator);
        let along = |dim: Dim| match side {
            Side::Columns => dim != Dim::Hidden,
            Side::Rows => self.rows > 1 && (dim == Dim::Hidden || !grid),
        };
        let mut dims = extents.iter().map(|e| e.dim);
        dims.find(|&dim| dim != Dim::Expert && along(dim) && self.degree_of(operator, dim) > 1)
    }

    /// How an operator wants its input and leaves its output, over one side of the tensor ranks.
    pub fn layouts(&self, operator: &Operator, side: Side) -> (Layout, Layout) {
        let ranks = match side {
            Side::Columns => self.tensor,
            Side::Rows => self.rows,
        };
        // what no side cuts follows the tokens of the residual stream, whole in width
        let uncut = match side {
            Side::Columns => self.residual(side),
            Side::Rows => Layout::Replicated,
        };
        let uncut = (uncut, uncut);
        match &operator.kind {
            OperatorKind::Matmul {
                contract, columns, ..
            } => {
                if let Some(dim) = self.cut(operator, std::slice::from_ref(contract), side) {
                    (Layout::Sharded(dim), Layout::Partial)
                } else if let Some(dim) = self.cut(operator, columns, side) {
                    (Layout::Replicated, Layout::Sharded(dim))
                } else {
                    uncut
                }
            }
            OperatorKind::Elementwise { width, .. } => self
                .cut(operator, width, side)
                .map_or(uncut, |dim| (Layout::Sharded(dim), Layout::Sharded(dim))),
            OperatorKind::Attention(_) | OperatorKind::Scan(_) if ranks > 1 => {
                (Layout::Sharded(Dim::Heads), Layout::Sharded(Dim::Heads))
            }
            OperatorKind::Lookup { .. } if ranks > 1 => (Layout::Replicated, Layout::Partial),
            OperatorKind::Loss { .. } if ranks > 1 => {
                (Layout::Sharded(Dim::Vocab), Layout::Replicated)
            }
            _ => uncut,
        }
    }

    /// The ranks over which an operator's token-wise work is split beside data and context.
    pub fn token_degree(&self, operator: &Operator) -> u32 {
        match self.layouts(operator, Side::Columns) {
            (Layout::Sharded(Dim::Sequence), Layout::Sharded(Dim::Sequence)) => {
                self.tensor / self.rows
            }
            _ => 1,
        }
    }
}

/// Columns of an extent that the fullest of `degree` ranks holds.
fn columns_on_fullest(extent: &Extent, degree: u32) -> f64 {
    extent.size.div_ceil(u64::from(degree).max(1)) as f64 * extent.times
}

/// The collective that turns one layout into another.
pub fn transition(from: Layout, to: Layout) -> Option<Collective> {
    match (from, to) {
        (Layout::Partial, Layout::Replicated) => Some(Collective::AllReduce),
        (Layout::Partial, Layout::Sharded(_)) => Some(Collective::ReduceScatter),
        (Layout::Sharded(_), Layout::Replicated) => Some(Collective::AllGather),
        (Layout::Sharded(a), Layout::Sharded(b)) if !same_cut(a, b) => Some(Collective::AllToAll),
        _ => None,
    }
}

/// Heads are cut together with the heads and groups that they share.
fn same_cut(a: Dim, b: Dim) -> bool {
    let heads = |d| matches!(d, Dim::Heads | Dim::KvHeads | Dim::Groups);
    a == b || (heads(a) && heads(b))
}

/// The collective of the backward pass on an edge whose forward goes `from` -> `to`.
///
/// A replicated input that feeds cut columns gets one summand of its gradient per rank; the
/// producer of a sum wants the same gradient on every rank (Shoeybi et al. 2019, section 3,
/// operators f and g; Korthikanti et al. 2022, section 4.2.2, g and g-bar).
pub fn adjoint(from: Layout, to: Layout, consumer_output: Layout) -> Option<Collective> {
    let (gradient, wanted) = gradients(from, to, consumer_output);
    transition(gradient, wanted)
}

/// How the gradient on an edge lies where its consumer leaves it, and how its producer wants it.
pub(super) fn gradients(from: Layout, to: Layout, consumer_output: Layout) -> (Layout, Layout) {
    let gradient = match (to, consumer_output) {
        (Layout::Replicated, Layout::Sharded(_)) => Layout::Partial,
        _ => to,
    };
    let wanted = match from {
        Layout::Partial => Layout::Replicated,
        other => other,
    };
    (gradient, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: Layout = Layout::Sharded(Dim::Sequence);
    const HEADS: Layout = Layout::Sharded(Dim::Heads);

    #[test]
    fn megatron_pairs_follow_from_the_rule() {
        let full = Layout::Replicated;
        assert_eq!(transition(full, full), None);
        assert_eq!(adjoint(full, full, HEADS), Some(Collective::AllReduce));
        assert_eq!(
            transition(Layout::Partial, full),
            Some(Collective::AllReduce)
        );
        assert_eq!(adjoint(Layout::Partial, full, full), None);
    }

    #[test]
    fn sequence_parallel_pairs_follow_from_the_rule() {
        assert_eq!(
            transition(TOKENS, Layout::Replicated),
            Some(Collective::AllGather)
        );
        assert_eq!(
            adjoint(TOKENS, Layout::Replicated, HEADS),
            Some(Collective::ReduceScatter)
        );
        assert_eq!(
            transition(Layout::Partial, TOKENS),
            Some(Collective::ReduceScatter)
        );
        assert_eq!(
            adjoint(Layout::Partial, TOKENS, TOKENS),
            Some(Collective::AllGather)
        );
    }
}

//! Which ranks split which dim in which region? The one sharding rule.
//!
//! It also says which collective follows where one operator's output lies unlike the next operator's input.

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

/// A plan's split of named dims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharding {
    tensor: u32,
    expert: u32,
    expert_tensor: u32,
    sequence_parallel: bool,
}

impl Sharding {
    /// The split that a plan makes.
    pub fn new(plan: &Plan) -> Self {
        Self {
            tensor: plan.tensor,
            expert: plan.expert,
            expert_tensor: plan.expert_tensor_ranks(),
            sequence_parallel: plan.sequence_parallel,
        }
    }

    /// Into how many parts a dim is cut inside a region.
    pub fn degree(&self, region: Region, dim: Dim) -> u32 {
        match (region, dim) {
            (Region::Attention, Dim::Heads | Dim::KvHeads)
            | (Region::Mlp, Dim::Ffn)
            | (Region::Vocabulary, Dim::Vocab) => self.tensor,
            (Region::Experts, Dim::ExpertFfn) => self.expert_tensor,
            (Region::Experts, Dim::Expert) => self.expert,
            _ => 1,
        }
    }

    /// Columns of an extent that the fullest rank holds. A dim with fewer entries than ranks is
    /// replicated, one that does not divide is padded: both show as more than an even share.
    pub fn local(&self, region: Region, extent: &Extent) -> f64 {
        let degree = u64::from(self.degree(region, extent.dim));
        extent.size.div_ceil(degree.max(1)) as f64 * extent.times
    }

    /// Local columns of a product: extents on unlike dims multiply.
    pub fn local_product(&self, region: Region, shape: &[Extent]) -> f64 {
        shape.iter().map(|e| self.local(region, e)).product()
    }

    /// Local columns of a sum of parts that lie side by side.
    pub fn local_sum(&self, region: Region, parts: &[Extent]) -> f64 {
        parts.iter().map(|e| self.local(region, e)).sum()
    }

    /// How the residual stream lies over the tensor ranks.
    pub fn residual(&self) -> Layout {
        if self.sequence_parallel && self.tensor > 1 {
            Layout::Sharded(Dim::Sequence)
        } else {
            Layout::Replicated
        }
    }

    fn cut(&self, region: Region, extents: &[Extent]) -> Option<Dim> {
        extents
            .iter()
            .find(|e| e.dim != Dim::Expert && self.degree(region, e.dim) > 1)
            .map(|e| e.dim)
    }

    /// How an operator wants its input and leaves its output.
    pub fn layouts(&self, operator: &Operator) -> (Layout, Layout) {
        let residual = (self.residual(), self.residual());
        let region = operator.region;
        match &operator.kind {
            OperatorKind::Matmul {
                contract, columns, ..
            } => {
                if let Some(dim) = self.cut(region, std::slice::from_ref(contract)) {
                    (Layout::Sharded(dim), Layout::Partial)
                } else if let Some(dim) = self.cut(region, columns) {
                    (Layout::Replicated, Layout::Sharded(dim))
                } else {
                    residual
                }
            }
            OperatorKind::Elementwise { width, .. } => self
                .cut(region, width)
                .map_or(residual, |dim| (Layout::Sharded(dim), Layout::Sharded(dim))),
            OperatorKind::Attention(_) if self.tensor > 1 => {
                (Layout::Sharded(Dim::Heads), Layout::Sharded(Dim::Heads))
            }
            OperatorKind::Lookup { .. } if self.tensor > 1 => (Layout::Replicated, Layout::Partial),
            OperatorKind::Loss { .. } if self.tensor > 1 => {
                (Layout::Sharded(Dim::Vocab), Layout::Replicated)
            }
            _ => residual,
        }
    }

    /// The ranks over which an operator's token-wise work is split beside data and context.
    pub fn token_degree(&self, operator: &Operator) -> u32 {
        match self.layouts(operator) {
            (Layout::Sharded(Dim::Sequence), Layout::Sharded(Dim::Sequence)) => self.tensor,
            _ => 1,
        }
    }
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

/// Query and key heads are cut together.
fn same_cut(a: Dim, b: Dim) -> bool {
    let heads = |d| matches!(d, Dim::Heads | Dim::KvHeads);
    a == b || (heads(a) && heads(b))
}

/// The collective of the backward pass on an edge whose forward goes `from` -> `to`.
///
/// A replicated input that feeds cut columns gets one summand of its gradient per rank; the
/// producer of a sum wants the same gradient on every rank (Shoeybi et al. 2019, section 3,
/// operators f and g; Korthikanti et al. 2022, section 4.2.2, g and g-bar).
pub fn adjoint(from: Layout, to: Layout, consumer_output: Layout) -> Option<Collective> {
    let gradient = match (to, consumer_output) {
        (Layout::Replicated, Layout::Sharded(_)) => Layout::Partial,
        _ => to,
    };
    let wanted = match from {
        Layout::Partial => Layout::Replicated,
        other => other,
    };
    transition(gradient, wanted)
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

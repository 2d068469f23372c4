//! The virtual stages that one split of the layers makes, and their sums under each choice of blocks.

use crate::estimate::{Chunks, Factors, Job, Sums};
use crate::plan::{Plan, RecomputePolicy, Split};
use std::cell::OnceCell;

/// Virtual stages, shared by all plans of a unit that split the layers alike.
pub(super) struct Cut {
    pub(super) chunks: Chunks,
    /// By blocks of the unit, made when first asked for.
    sums: Vec<OnceCell<CutSums>>,
}

/// Sums under every recomputation.
pub(super) struct CutSums {
    /// In the order of the lists.
    pub(super) all: Vec<Sums>,
    /// What none of them is quicker or leaner than.
    pub(super) ideal: Sums,
}

impl Cut {
    pub(super) fn new(job: &Job, split: Split, count: u64, blocks: usize) -> Self {
        Self {
            chunks: Chunks::new(job, split, count),
            sums: (0..blocks).map(|_| OnceCell::new()).collect(),
        }
    }

    /// Sums of the blocks at a place of the unit, by recomputation.
    pub(super) fn sums(
        &self,
        job: &Job,
        (at, factors): (usize, &Factors),
        policies: &[RecomputePolicy],
        plan: &Plan,
    ) -> &CutSums {
        self.sums[at].get_or_init(|| {
            let sum = |policy| Sums::new(job, factors, &self.chunks, policy, plan.pipeline > 1);
            let all: Vec<Sums> = policies.iter().map(|&policy| sum(policy)).collect();
            let ideal = Sums::ideal(&all).unwrap_or_else(|| sum(plan.recompute));
            CutSums { all, ideal }
        })
    }
}

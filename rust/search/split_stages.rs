//! The virtual stages that one split of the layers makes, and their sums under each choice of blocks.

use super::lists::{Lists, longest};
use crate::estimate::{Chunks, Factors, Job, RecomputationCosts, Sums};
use crate::plan::{Recomputation, Split};
use std::cell::OnceCell;

/// Virtual stages, shared by all plans of a unit that split the layers alike.
pub(super) struct SplitStages {
    pub(super) split: Split,
    pub(super) chunks: Chunks,
    copied: bool,
    /// Recomputations to try.
    pub(super) choices: Vec<Recomputation>,
    /// By blocks of the unit, made when first asked for.
    sums: Vec<OnceCell<SplitSums>>,
}

/// Sums of the virtual stages.
pub(super) struct SplitSums {
    pub(super) sums: Sums,
    /// What no recomputation is quicker or leaner than; none where there is none to try.
    pub(super) ideal: Option<RecomputationCosts>,
    /// By recomputation, made when first asked for.
    all: OnceCell<Vec<RecomputationCosts>>,
}

impl SplitStages {
    pub(super) fn new(
        (job, lists): (&Job, &Lists),
        split: Split,
        count: u64,
        (blocks, copied): (usize, bool),
    ) -> Self {
        Self {
            split,
            chunks: Chunks::new(job, split, count),
            copied,
            choices: lists.choices(longest(split)),
            sums: (0..blocks).map(|_| OnceCell::new()).collect(),
        }
    }

    /// Sums of the blocks at a place of the unit.
    pub(super) fn sums(
        &self,
        ground: (&Job, &Lists),
        (at, factors): (usize, &Factors),
    ) -> &SplitSums {
        self.sums[at].get_or_init(|| SplitSums::new(ground, factors, self))
    }
}

impl SplitSums {
    fn new((job, lists): (&Job, &Lists), factors: &Factors, cut: &SplitStages) -> Self {
        let sums = Sums::new(job, factors, &cut.chunks, cut.copied);
        let of = |choice| RecomputationCosts::new(job, factors, (&cut.chunks, &sums), choice);
        // whatever follows several policies lies between those that follow one
        let pure: Vec<RecomputationCosts> =
            lists.policies().map(Recomputation::all).map(of).collect();
        Self {
            ideal: RecomputationCosts::lower_bound_of(&pure, &sums),
            sums,
            all: OnceCell::new(),
        }
    }

    /// What each recomputation keeps and repeats, in the order of the cut's choices.
    pub(super) fn all(
        &self,
        job: &Job,
        factors: &Factors,
        cut: &SplitStages,
    ) -> &[RecomputationCosts] {
        self.all.get_or_init(|| {
            let of =
                |&choice| RecomputationCosts::new(job, factors, (&cut.chunks, &self.sums), choice);
            cut.choices.iter().map(of).collect()
        })
    }
}

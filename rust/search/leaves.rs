//! How are the plans of a family weighed and priced: several side by side, and few of them in full?

use super::limits::{Objective, OffloadWhen};
use super::offload::SpillCriteria;
use super::search_part::NearestMiss;
use super::split_stages::{SplitStages, SplitSums};
use super::walk::Walk;
use crate::estimate::{
    Composer, FullestRankWork, ModelStates, PlanBoundWork, PlanInputs, PlanLanes,
    RecomputationCosts,
};
use crate::plan::{Plan, Recomputation};
use crate::solve::{Entry, Wide, run_widest};
use crate::units::Bytes;
use std::array::from_fn;

/// Plans side by side: as many as keep their numbers in the registers and the nearest cache.
const SIDE: usize = 8;

/// Plans of a family that differ in overlaps alone: their memory is the same.
#[derive(Clone, Copy)]
struct Leaf<'b> {
    choice: Recomputation,
    recomputed: &'b RecomputationCosts,
    /// Percent of kept activations on the host.
    share: u32,
    /// Index of the first of them.
    index: u64,
    /// Bytes on the fullest rank, and its stage; once they are weighed.
    memory: f64,
    fullest: f64,
}

/// Leaves that wait until there are enough of them.
struct Batch<'b> {
    leaves: [Leaf<'b>; SIDE],
    len: usize,
}

impl<'b> Batch<'b> {
    fn new(blank: Leaf<'b>) -> Self {
        Self {
            leaves: [blank; SIDE],
            len: 0,
        }
    }

    /// Takes a leaf; true where the batch is full.
    fn push(&mut self, leaf: Leaf<'b>) -> bool {
        self.leaves[self.len] = leaf;
        self.len += 1;
        self.len == SIDE
    }

    /// What each computes again; old ones stand in the places that are not taken.
    fn recomputations(&self) -> [&'b RecomputationCosts; SIDE] {
        from_fn(|place| self.leaves[place].recomputed)
    }

    fn pending(&self) -> &[Leaf<'b>] {
        &self.leaves[..self.len]
    }
}

/// What the leaves of a family share.
type Shared<'s> = (&'s mut Plan, PlanInputs<'s>, &'s ModelStates);

impl Walk<'_, '_> {
    /// Weighs and prices the plans that differ in recomputation, kept activations on the host and
    /// overlaps of the traffic between replicas.
    pub(super) fn leaves(
        &mut self,
        inputs: PlanInputs,
        state: &ModelStates,
        (cut, sums): (&SplitStages, &SplitSums),
    ) {
        let lists = self.context.lists;
        let mut plan = inputs.plan.clone();
        let all = sums.all(self.job, inputs.factors, cut);
        let (Some(again), Some(&choice)) = (all.first(), cut.choices.first()) else {
            return;
        };
        let blank = Leaf {
            choice,
            recomputed: again,
            share: 0,
            index: 0,
            memory: 0.0,
            fullest: 0.0,
        };
        let (mut waiting, mut fitting) = (Batch::new(blank), Batch::new(blank));
        let inputs = PlanInputs {
            recomputed: again,
            ..inputs
        };
        for (&choice, again) in cut.choices.iter().zip(all) {
            for &share in &lists.host_activations {
                let leaf = Leaf {
                    choice,
                    recomputed: again,
                    share,
                    index: self.index + 1,
                    ..blank
                };
                self.index += lists.overlaps.len() as u64;
                if waiting.push(leaf) {
                    self.check_memory((&mut plan, inputs, state), &mut waiting, &mut fitting);
                }
            }
        }
        self.check_memory((&mut plan, inputs, state), &mut waiting, &mut fitting);
        self.price_all((&mut plan, inputs, state), &mut fitting);
    }

    /// Weighs leaves side by side; those that fit wait to be priced.
    fn check_memory<'b>(
        &mut self,
        (plan, inputs, state): Shared,
        waiting: &mut Batch<'b>,
        fitting: &mut Batch<'b>,
    ) {
        if waiting.len == 0 {
            return;
        }
        let again = waiting.recomputations();
        let percent = |place: usize| f64::from(waiting.leaves[place].share);
        let lanes = PlanLanes::<Wide<SIDE>>::new((&inputs, state), &again, percent);
        let (memory, fullest) = run_widest(FullestRankWork(&lanes));
        let memory: [f64; SIDE] = memory.into();
        let fullest: [f64; SIDE] = fullest.into();
        for (leaf, (memory, fullest)) in waiting
            .leaves
            .iter_mut()
            .zip(memory.into_iter().zip(fullest))
        {
            (leaf.memory, leaf.fullest) = (memory, fullest);
        }
        let fits = |leaf: &Leaf| leaf.memory <= self.capacity;
        if fitting.len == 0 && self.criteria.is_none() && waiting.pending().iter().all(fits) {
            self.price_all((plan, inputs, state), waiting);
            return;
        }
        for leaf in waiting.pending() {
            let over = leaf.memory - self.capacity;
            if over > 0.0 {
                self.note_unfit(leaf, over, (&mut *plan, inputs, state));
            } else if self.criteria.is_none() && fitting.push(*leaf) {
                self.price_all((&mut *plan, inputs, state), fitting);
            }
        }
        waiting.len = 0;
    }

    /// Notes leaves that do not fit, or lets them wait for other tiers.
    fn note_unfit(&mut self, leaf: &Leaf, over: f64, (plan, inputs, state): Shared) {
        let overlaps = &self.context.lists.overlaps;
        let part = &mut self.found.part;
        let held = part.nearest.as_ref().map(|nearest| nearest.lacks_bytes);
        let nearer = self.seeks_nearest() && held.is_none_or(|held| over <= held);
        if self.criteria.is_none() && !nearer {
            self.found.part.counts.unfit += overlaps.len() as u64;
            return;
        }
        leaf.write_to_plan(plan);
        for (index, &(reduce, gather)) in (leaf.index..).zip(overlaps) {
            plan.overlap_grad_reduce = reduce;
            plan.overlap_param_gather = gather;
            let inputs = PlanInputs {
                plan,
                recomputed: leaf.recomputed,
                ..inputs
            };
            match self.criteria {
                Some(criteria) => {
                    self.queue_spill(&Composer { inputs, state }, (leaf, index), criteria);
                }
                None => self.note_nearest(over, plan, index),
            }
        }
    }

    /// Prices leaves that fit in device memory, side by side by their closed forms.
    fn price_all(&mut self, (plan, inputs, state): Shared, fitting: &mut Batch) {
        if fitting.len == 0 {
            return;
        }
        let again = fitting.recomputations();
        let leaves = fitting.pending();
        let apart = self.all || self.energies;
        for (place, &(reduce, gather)) in self.context.lists.overlaps.iter().enumerate() {
            plan.overlap_grad_reduce = reduce;
            plan.overlap_param_gather = gather;
            if apart {
                for leaf in leaves {
                    self.price(leaf, place as u64, (&mut *plan, inputs, state));
                }
                continue;
            }
            let side = PlanInputs { plan, ..inputs };
            let percent = |place: usize| f64::from(fitting.leaves[place].share);
            let lanes = PlanLanes::<Wide<SIDE>>::new((&side, state), &again, percent);
            let least = run_widest(PlanBoundWork(&lanes));
            let time: [f64; SIDE] = least.time.into();
            let exact: [f64; SIDE] = least.exact.into();
            let host: [f64; SIDE] = least.host.into();
            for (lane, leaf) in leaves.iter().enumerate() {
                let fits = host[lane] <= self.host;
                let slow = time[lane] > self.time_limit() || {
                    let floor = self.measured(time[lane], leaf.memory, None);
                    self.cannot_improve(&floor, leaf.index + place as u64)
                };
                if fits && slow {
                    self.count_excluded(exact[lane] >= 1.0);
                } else {
                    self.price(leaf, place as u64, (&mut *plan, inputs, state));
                }
            }
        }
        fitting.len = 0;
    }

    /// Seconds of a step above which no plan is of use: known where the quickest alone are asked for.
    fn time_limit(&self) -> f64 {
        let limits = self.context.limits;
        let alone = limits.objective == Objective::Time && limits.front.is_empty();
        if alone && limits.ahead_of_s.is_none() {
            self.found.part.best.threshold().unwrap_or(f64::INFINITY)
        } else {
            f64::INFINITY
        }
    }

    /// Counts a plan whose closed form shows that it is of no use.
    fn count_excluded(&mut self, exact: bool) {
        let counts = &mut self.found.part.counts;
        if exact {
            counts.priced += 1;
        } else {
            counts.by_form += 1;
        }
    }

    /// Prices a plan that fits in device memory: a bound on time, then the time itself.
    fn price(&mut self, leaf: &Leaf, place: u64, (plan, inputs, state): Shared) {
        let index = leaf.index + place;
        leaf.write_to_plan(plan);
        let inputs = PlanInputs {
            plan,
            recomputed: leaf.recomputed,
            ..inputs
        };
        let composer = Composer { inputs, state };
        let draft = composer.draft(leaf.memory(&composer));
        let over = draft.least().host - self.host;
        if over > 0.0 {
            self.note_nearest(over, composer.plan, index);
            return;
        }
        let least = self.measures(&composer, draft.least());
        if !self.all && self.cannot_improve(&least, index) {
            self.count_excluded(draft.exact());
            return;
        }
        self.found.part.counts.priced += 1;
        let composed = draft.finish(&mut self.scratch);
        if self.all {
            self.found.rows.push(composer.plan, &composed);
        } else {
            self.keep(composed, &composer, index);
        }
    }

    /// Notes a plan that lacks bytes.
    fn note_nearest(&mut self, over: f64, plan: &Plan, index: u64) {
        let sought = self.seeks_nearest();
        let part = &mut self.found.part;
        part.counts.unfit += 1;
        let held = part.nearest.as_ref();
        if sought && held.is_none_or(|held| over <= held.lacks_bytes) {
            let nearest = NearestMiss {
                lacks_bytes: over,
                index,
                plan: plan.clone(),
                dtype: self.context.dtype(),
            };
            NearestMiss::keep(&mut part.nearest, nearest);
        }
    }

    /// True where the plan that lacks least is asked for: where nothing fits so far.
    fn seeks_nearest(&self) -> bool {
        !self.bounds || self.found.part.best.entries().is_empty()
    }

    /// Lets a plan that does not fit wait for its tensors to be placed, if it may be of use.
    fn queue_spill(
        &mut self,
        composer: &Composer,
        (leaf, index): (&Leaf, u64),
        criteria: SpillCriteria,
    ) {
        let places = &self.job.memories.places[self.job.memories.main()..];
        let everywhere: f64 = places.iter().map(|place| place.capacity.value()).sum();
        if leaf.memory > everywhere {
            return;
        }
        let draft = composer.draft(leaf.memory(composer));
        let least = draft.least().time;
        // near twins of the plans that recompute all layers alike or none
        if self.context.limits.offload == OffloadWhen::Auto && composer.plan.recompute_layers > 0 {
            self.found.skipped = self.found.skipped.min(least);
            return;
        }
        let waiting = &mut self.found.waiting;
        if least >= criteria.below || !waiting.admits(least, index) {
            return;
        }
        let composed = draft.finish(&mut self.scratch);
        if criteria.admits(composed.time, index) {
            waiting.push(Entry {
                key: composed.time,
                index,
                item: self.context.found(composer.plan, composed),
            });
        }
    }
}

impl Leaf<'_> {
    /// Makes a plan of the family the leaf's own.
    fn write_to_plan(&self, plan: &mut Plan) {
        plan.recomputing(self.choice);
        plan.offload_activations = self.share;
    }

    fn memory(&self, composer: &Composer) -> (Bytes, u32) {
        (Bytes::new(self.memory), composer.stage_at(self.fullest))
    }
}

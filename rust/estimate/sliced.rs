//! How long is the pipeline of a plan that cuts sequences along their tokens?

use super::compose::StepParts;
use super::plan_lanes::{PlanBound, PlanLanes, StepOutline};
use super::recomputation_costs::RecomputationCosts;
use super::sums::VirtualStageWork;
use crate::schedule::{SlicePasses, sliced_step};
use crate::solve::Lane;

impl<L: Lane> PlanLanes<'_, L> {
    /// The outline of plans whose sequences are cut: slices are passes of their own, so the sum of a
    /// micro-batch says only how long a rank is busy at least.
    ///
    /// What runs under the last backward pass or the first forward pass runs under that of the first
    /// slice: slices go forward in order and come back the other way round.
    pub(super) fn sliced_outline(&self) -> StepOutline<L> {
        let mut virtuals = [VirtualStageWork::default(); 3];
        let mut front = None;
        let mut parts = StepParts::default();
        for place in 0..self.state.slices.len() {
            self.with_slice(place, |slice| {
                let own = slice.virtuals();
                for (sum, slice) in virtuals.iter_mut().zip(&own) {
                    sum.join(slice);
                }
                if front.is_none() && !self.job.training.forward_only {
                    slice.after_backward(&own, &mut parts);
                }
                front = Some(own);
            });
        }
        let mut busiest = L::splat(0.0);
        for position in (0..3).filter(|&position| self.exists(position)) {
            let shares = &self.facts.shares;
            let work = shares.passes(&virtuals, position, |v| v.forward + v.backward);
            busiest = busiest.larger(work);
        }
        parts.pipeline = busiest * f64::from(self.facts.micro_batches);
        StepOutline {
            stages: self.stages(&virtuals, 0.0),
            virtuals,
            parts,
            exact: L::splat(0.0),
        }
    }

    /// The least that such plans take. Not inlined: others, which ask far more often, are not to make room for it.
    #[inline(never)]
    pub(super) fn sliced_least(&self) -> PlanBound<L> {
        let outline = self.sliced_outline();
        PlanBound {
            time: outline.parts.step(),
            exact: outline.exact,
            host: self.host_memory(),
        }
    }

    /// Looks at one slice as at plans whose sequences are no longer than that.
    fn with_slice(&self, place: usize, look: impl FnOnce(&PlanLanes<L>)) {
        let (Some(inputs), Some(state)) = (self.inputs.slice(place), self.state.slices.get(place))
        else {
            return;
        };
        let again = self
            .recomputed
            .iter()
            .filter_map(|one| one.slices.get(place));
        let again: Vec<&RecomputationCosts> = again.collect();
        look(&PlanLanes {
            inputs: &inputs,
            state,
            recomputed: &again,
            share: self.share,
            swaps: self.swaps,
        });
    }
}

impl PlanLanes<'_, f64> {
    /// The outline with the exact length of the pipeline.
    #[inline(never)]
    pub(super) fn sliced_whole(&self) -> StepOutline<f64> {
        let mut outline = self.sliced_outline();
        outline.parts.pipeline = self.sliced_pipeline();
        outline.exact = 1.0;
        outline
    }

    /// Seconds of the pipeline: one kind of virtual stage stands for all between the ends.
    fn sliced_pipeline(&self) -> f64 {
        let mut slices = Vec::with_capacity(self.state.slices.len());
        for place in 0..self.state.slices.len() {
            self.with_slice(place, |slice| {
                let passes = slice.without_sends();
                slices.push(SlicePasses {
                    forward: [0, 1, 2].map(|kind| passes[kind].forward),
                    backward: [0, 1, 2].map(|kind| passes[kind].backward),
                    borders: slice.state.borders,
                });
            });
        }
        sliced_step(&slices, self.plan.pipeline, self.facts.micro_batches)
    }
}

impl<L: Lane> VirtualStageWork<L> {
    /// Adds the passes of another slice.
    fn join(&mut self, other: &Self) {
        self.forward = self.forward + other.forward;
        self.backward = self.backward + other.backward;
        self.weight += other.weight;
        self.under_weight += other.under_weight;
        self.paired += other.paired;
        self.shard_exposed = self.shard_exposed + other.shard_exposed;
        self.send += other.send;
        self.offload_exposed = self.offload_exposed + other.offload_exposed;
    }
}

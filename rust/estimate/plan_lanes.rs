//! What do the passes and the step of a plan take, or of several that differ in recomputation alone?

use super::compose::{PlanInputs, StepParts};
use super::model_states::ModelStates;
use super::recomputation_costs::{RecomputationCosts, StageRecomputation};
use super::sums::VirtualStageWork;
use crate::schedule::{self, Pass, Stages};
use crate::solve::{Lane, LaneWork};
use crate::units::Seconds;
use std::ops::Deref;

/// Plans side by side that share a setting and a state. They differ in what they compute again and in
/// how much of what they keep lies on the host.
#[derive(Debug, Clone, Copy)]
pub struct PlanLanes<'a, L> {
    pub(super) inputs: &'a PlanInputs<'a>,
    pub(super) state: &'a ModelStates,
    pub(super) recomputed: &'a [&'a RecomputationCosts],
    /// Share of the layers' kept activations that lie in host memory.
    pub(super) share: L,
    /// True where that is not nothing for all of them.
    pub(super) swaps: bool,
}

impl<'a, L> Deref for PlanLanes<'a, L> {
    type Target = PlanInputs<'a>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        self.inputs
    }
}

/// Bytes on the fullest rank of each, and its stage.
#[derive(Debug, Clone, Copy)]
pub struct FullestRankWork<'s, 'a, L>(pub &'s PlanLanes<'a, L>);

impl<L: Lane> LaneWork for FullestRankWork<'_, '_, L> {
    type Output = (L, L);

    #[inline(always)]
    fn run(self) -> (L, L) {
        self.0.memory()
    }
}

/// The least that each takes.
#[derive(Debug, Clone, Copy)]
pub struct PlanBoundWork<'s, 'a, L>(pub &'s PlanLanes<'a, L>);

impl<L: Lane> LaneWork for PlanBoundWork<'_, '_, L> {
    type Output = PlanBound<L>;

    #[inline(always)]
    fn run(self) -> PlanBound<L> {
        self.0.least()
    }
}

/// A step in closed form.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepOutline<L> {
    pub(super) virtuals: [VirtualStageWork<L>; 3],
    pub(super) stages: Stages<L>,
    /// Pipeline and what follows it; the other parts are left out.
    pub(super) parts: StepParts<L>,
    /// 1 where the length of the pipeline is exact, 0 where it is a lower bound.
    pub(super) exact: L,
}

/// The least that a plan takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanBound<L> {
    /// Seconds of a step, by the schedule's closed form.
    pub time: L,
    /// 1 where that is exact, 0 where it is a lower bound.
    pub exact: L,
    /// Bytes in the host memory of a node whose ranks all lie in the stage that fills it most.
    pub host: L,
}

impl<'a, L: Lane> PlanLanes<'a, L> {
    /// Plans of a setting: for each lane what it computes again and its percentage on the host.
    #[inline(always)]
    pub fn new(
        (inputs, state): (&'a PlanInputs<'a>, &'a ModelStates),
        again: &'a [&'a RecomputationCosts],
        percent: impl FnMut(usize) -> f64,
    ) -> Self {
        let share = L::gather(percent) / 100.0;
        Self {
            inputs,
            state,
            recomputed: again,
            share,
            swaps: !L::splat(0.0).reaches(share).all_reach(1.0),
        }
    }

    /// The least that each takes.
    #[inline(always)]
    fn least(&self) -> PlanBound<L> {
        if self.is_sliced() {
            return self.sliced_least();
        }
        let outline = self.outline();
        PlanBound {
            time: outline.parts.step(),
            exact: outline.exact,
            host: self.host_memory(),
        }
    }

    /// What each keeps and computes again on virtual stages of some kind.
    #[inline(always)]
    pub(super) fn side_by_side(
        &self,
        of: impl Fn(&RecomputationCosts) -> &StageRecomputation,
    ) -> StageRecomputation<L> {
        StageRecomputation::gather(|place| of(self.recomputed[place]))
    }

    /// The same for the first virtual stage, those between and the last one.
    #[inline(always)]
    pub(super) fn recomputation(&self, position: usize) -> StageRecomputation<L> {
        match position {
            0 => self.side_by_side(|again| &again.ends[0]),
            1 => self.side_by_side(|again| &again.between),
            _ => self.side_by_side(|again| &again.ends[1]),
        }
    }

    /// All of a step but its exact length and what is only shown.
    #[inline(always)]
    pub(super) fn outline(&self) -> StepOutline<L> {
        let (kind, count) = (self.plan.schedule, self.facts.micro_batches);
        let borders = &self.state.borders;
        let mut virtuals = self.without_sends();
        let (stages, closed) = if self.state.unlike {
            let stages = self.stages(&virtuals, 0.0);
            let closed = schedule::closed_forms_over(kind, &stages, borders, count);
            self.send_all(&mut virtuals);
            (stages, closed)
        } else {
            self.send_all(&mut virtuals);
            let stages = self.stages(&virtuals, borders.slowest());
            (stages, schedule::closed_forms(kind, &stages, count))
        };
        let mut parts = StepParts {
            pipeline: closed.time,
            ..StepParts::default()
        };
        if !self.job.training.forward_only {
            self.after_backward(&virtuals, &mut parts);
        }
        StepOutline {
            virtuals,
            stages,
            parts,
            exact: closed.exact,
        }
    }

    /// The three kinds of virtual stage with the traffic that the plan adds to each pass.
    #[inline(always)]
    pub(super) fn virtuals(&self) -> [VirtualStageWork<L>; 3] {
        let mut virtuals = self.without_sends();
        self.send_all(&mut virtuals);
        virtuals
    }

    /// The same but for sends.
    #[inline(always)]
    pub(super) fn without_sends(&self) -> [VirtualStageWork<L>; 3] {
        // arrays are written out: their `map` is not always inlined
        let [first, middle, last] = self.by_position(|stage| stage.work);
        let mut virtuals = [first.splat(), middle.splat(), last.splat()];
        for (position, sum) in virtuals.iter_mut().enumerate() {
            let again = self.recomputation(position);
            sum.backward = sum.backward + again.seconds;
            if self.facts.splits {
                sum.backward = sum.backward + sum.under_weight;
            }
            if self.plan.stage() >= 2 {
                self.shard_traffic(sum, position);
            }
            if self.swaps {
                self.swap_activations(sum, &again, position);
            }
        }
        virtuals
    }

    /// Sends that block the stage: each pass hands its output on. Tensor ranks send one part each
    /// and the receivers rejoin them (Narayanan et al. 2021, section 4.1).
    #[inline(always)]
    fn send_all(&self, virtuals: &mut [VirtualStageWork<L>; 3]) {
        // under compute a send still takes its share of the compute units
        let overlap = self.plan.overlap_pipeline;
        let share = if overlap { self.state.contention } else { 1.0 };
        for (sum, [outputs, gradients]) in virtuals.iter_mut().zip(&self.state.sends) {
            let (outputs, gradients) = (outputs * share, gradients * share);
            sum.forward = sum.forward + outputs;
            sum.backward = sum.backward + gradients;
            sum.send += outputs;
            sum.send += gradients;
        }
    }

    #[inline(always)]
    pub(super) fn stages(&self, virtuals: &[VirtualStageWork<L>; 3], hop: f64) -> Stages<L> {
        let (splits, pairs) = (self.facts.splits, self.facts.pairs);
        let pass = |v: &VirtualStageWork<L>| {
            let weight = L::splat(if splits { v.weight } else { 0.0 });
            Pass {
                forward: v.forward,
                backward: v.backward - weight,
                weight,
                hidden: L::splat(if pairs { v.paired } else { 0.0 }),
            }
        };
        Stages {
            count: self.plan.pipeline,
            chunks: self.plan.interleave,
            first: pass(&virtuals[0]),
            middle: pass(&virtuals[1]),
            last: pass(&virtuals[2]),
            hop: Seconds::new(if self.plan.overlap_pipeline { hop } else { 0.0 }),
        }
    }
}

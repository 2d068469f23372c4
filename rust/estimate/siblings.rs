//! What do the passes and the step of a plan take, or of several that differ in recomputation alone?

use super::compose::{Parts, Setting};
use super::recomputed::{Again, Recomputed};
use super::state::State;
use super::sums::Virtual;
use crate::schedule::{self, Pass, Stages};
use crate::solve::{Lane, Work};
use crate::units::Seconds;
use std::ops::Deref;

/// Plans side by side that share a setting and a state. They differ in what they compute again and in
/// how much of what they keep lies on the host.
#[derive(Debug, Clone, Copy)]
pub struct Siblings<'a, L> {
    pub(super) setting: &'a Setting<'a>,
    pub(super) state: &'a State,
    pub(super) again: &'a [&'a Recomputed],
    /// Share of the layers' kept activations that lie in host memory.
    pub(super) share: L,
    /// True where that is not nothing for all of them.
    pub(super) swaps: bool,
}

impl<'a, L> Deref for Siblings<'a, L> {
    type Target = Setting<'a>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        self.setting
    }
}

/// Bytes on the fullest rank of each, and its stage.
#[derive(Debug, Clone, Copy)]
pub struct Weigh<'s, 'a, L>(pub &'s Siblings<'a, L>);

impl<L: Lane> Work for Weigh<'_, '_, L> {
    type Output = (L, L);

    #[inline(always)]
    fn run(self) -> (L, L) {
        self.0.memory()
    }
}

/// The least that each takes.
#[derive(Debug, Clone, Copy)]
pub struct Outlined<'s, 'a, L>(pub &'s Siblings<'a, L>);

impl<L: Lane> Work for Outlined<'_, '_, L> {
    type Output = Least<L>;

    #[inline(always)]
    fn run(self) -> Least<L> {
        self.0.least()
    }
}

/// A step in closed form.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outline<L> {
    pub(super) virtuals: [Virtual<L>; 3],
    pub(super) stages: Stages<L>,
    /// Pipeline and what follows it; the other parts are left out.
    pub(super) parts: Parts<L>,
    /// 1 where the length of the pipeline is exact, 0 where it is a lower bound.
    pub(super) exact: L,
}

/// The least that a plan takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Least<L> {
    /// Seconds of a step, by the schedule's closed form.
    pub time: L,
    /// 1 where that is exact, 0 where it is a lower bound.
    pub exact: L,
    /// Bytes in the host memory of a node whose ranks all lie in the stage that fills it most.
    pub host: L,
}

impl<'a, L: Lane> Siblings<'a, L> {
    /// Plans of a setting: for each lane what it computes again and its percentage on the host.
    #[inline(always)]
    pub fn new(
        (setting, state): (&'a Setting<'a>, &'a State),
        again: &'a [&'a Recomputed],
        percent: impl FnMut(usize) -> f64,
    ) -> Self {
        let share = L::gather(percent) / 100.0;
        Self {
            setting,
            state,
            again,
            share,
            swaps: !L::splat(0.0).reaches(share).all_reach(1.0),
        }
    }

    /// The least that each takes.
    #[inline(always)]
    fn least(&self) -> Least<L> {
        if self.is_sliced() {
            return self.sliced_least();
        }
        let outline = self.outline();
        Least {
            time: outline.parts.step(),
            exact: outline.exact,
            host: self.host_memory(),
        }
    }

    /// What each keeps and computes again on virtual stages of some kind.
    #[inline(always)]
    pub(super) fn each(&self, of: impl Fn(&Recomputed) -> &Again) -> Again<L> {
        Again::gather(|place| of(self.again[place]))
    }

    /// The same for the first virtual stage, those between and the last one.
    #[inline(always)]
    pub(super) fn repeats(&self, position: usize) -> Again<L> {
        match position {
            0 => self.each(|again| &again.ends[0]),
            1 => self.each(|again| &again.between),
            _ => self.each(|again| &again.ends[1]),
        }
    }

    /// All of a step but its exact length and what is only shown.
    #[inline(always)]
    pub(super) fn outline(&self) -> Outline<L> {
        let (kind, count) = (self.plan.schedule, self.frame.micro_batches);
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
        let mut parts = Parts {
            pipeline: closed.time,
            ..Parts::default()
        };
        if !self.job.training.forward_only {
            self.after_backward(&virtuals, &mut parts);
        }
        Outline {
            virtuals,
            stages,
            parts,
            exact: closed.exact,
        }
    }

    /// The three kinds of virtual stage with the traffic that the plan adds to each pass.
    #[inline(always)]
    pub(super) fn virtuals(&self) -> [Virtual<L>; 3] {
        let mut virtuals = self.without_sends();
        self.send_all(&mut virtuals);
        virtuals
    }

    /// The same but for sends.
    #[inline(always)]
    pub(super) fn without_sends(&self) -> [Virtual<L>; 3] {
        // arrays are written out: their `map` is not always inlined
        let [first, middle, last] = self.three(|stage| stage.work);
        let mut virtuals = [first.splat(), middle.splat(), last.splat()];
        for (position, sum) in virtuals.iter_mut().enumerate() {
            let again = self.repeats(position);
            sum.backward = sum.backward + again.seconds;
            if self.frame.splits {
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
    fn send_all(&self, virtuals: &mut [Virtual<L>; 3]) {
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
    pub(super) fn stages(&self, virtuals: &[Virtual<L>; 3], hop: f64) -> Stages<L> {
        let (splits, pairs) = (self.frame.splits, self.frame.pairs);
        let pass = |v: &Virtual<L>| {
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

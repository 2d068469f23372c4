//! What does a choice of recomputation keep on each virtual stage, and what does it compute again?

use super::block::{BlockFactor, Factors};
use super::chunk::{BlockCounts, Chunks, MAX_BLOCKS};
use super::job::Job;
use super::layer_order::LayerOrder;
use super::sums::Sums;
use crate::plan::{ExpertRecompute, Recomputation, RecomputePolicy};
use crate::solve::Lane;
use crate::workload::{Block, BlockRole};

/// One virtual stage, of one plan or of several side by side.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct StageRecomputation<L = f64> {
    /// Seconds that its backward pass computes again.
    pub(super) seconds: L,
    /// Bytes that its layers keep, per micro-batch.
    pub(super) layers: L,
    /// Bytes that the layer keeps that keeps most.
    pub(super) largest: L,
    /// The largest working set: an operator's, with what comes back of a recomputed layer.
    pub(super) transient: L,
}

/// What one recomputation means for the virtual stages of a split.
#[derive(Debug, Clone, PartialEq)]
pub struct RecomputationCosts {
    /// First and last virtual stage.
    pub(super) ends: [StageRecomputation; 2],
    /// Each distinct one between.
    pub(super) middle: Vec<StageRecomputation>,
    /// What stands for all of those: the most that any keeps, and the seconds that a backward pass takes
    /// beyond the one of `Sums::between`.
    pub(super) between: StageRecomputation,
    /// Which of the distinct ones between is slowest: the one that is shown.
    pub(super) slowest: usize,
    /// The same of each slice; none where sequences are not cut.
    pub(super) slices: Vec<Self>,
}

/// How often each block occurs in a virtual stage under each policy.
type PolicyCounts = [[f64; MAX_BLOCKS]; 3];

/// Deals the blocks of a virtual stage, `layers` in order, to policies. Embedding and head repeat
/// nothing.
pub(super) fn deal_to_policies(
    job: &Job,
    counts: &BlockCounts,
    layers: &LayerOrder,
    choice: Recomputation,
) -> PolicyCounts {
    let mut dealt = [[0.0; MAX_BLOCKS]; 3];
    if choice.uniform() {
        // no policy changes embedding and head
        dealt[choice.policy as usize] = *counts;
        return dealt;
    }
    let all = layers.all();
    let front = match choice.layers {
        0 => all,
        some => layers.leading(some as usize),
    };
    let apart = choice.experts != ExpertRecompute::Same;
    for (block, (front, all)) in front.into_iter().zip(all).enumerate() {
        let experts = apart && job.graph.blocks.get(block).is_some_and(Block::has_experts);
        dealt[choice.of(0, experts) as usize][block] += front;
        dealt[choice.rest as usize][block] += all - front;
    }
    for (block, (counted, layers)) in counts.iter().zip(all).enumerate() {
        dealt[RecomputePolicy::None as usize][block] += counted - layers;
    }
    dealt
}

/// Bytes that a block keeps per micro-batch, and those that come back while it is recomputed.
pub(super) fn kept_and_transient(
    job: &Job,
    policy: RecomputePolicy,
    factor: &BlockFactor,
    role: BlockRole,
) -> (f64, f64) {
    let a = &factor.activations;
    if job.training.forward_only {
        return (0.0, 0.0);
    }
    let kept = match (role, policy) {
        (BlockRole::Layer, RecomputePolicy::Full) => a.input + a.keys,
        (BlockRole::Layer, RecomputePolicy::Selective) => a.kept_selective,
        _ => a.kept,
    };
    (kept.value(), (a.kept - kept).value())
}

impl StageRecomputation {
    fn new(job: &Job, factors: &Factors, dealt: &PolicyCounts) -> Self {
        let mut sum = Self::default();
        let mut gradients = 0.0;
        let blocks = factors.blocks.iter().zip(&job.graph.blocks).enumerate();
        for (index, (factor, block)) in blocks {
            for policy in RecomputePolicy::ALL {
                let count = dealt[policy as usize][index];
                if count == 0.0 {
                    continue;
                }
                let (kept, back) = kept_and_transient(job, policy, factor, block.role);
                sum.transient = sum
                    .transient
                    .max(factor.activations.transient.value() + back);
                gradients += count * factor.activations.keys_gradient.value();
                if block.role == BlockRole::Layer {
                    sum.seconds += count * factor.recompute_time(policy);
                    sum.layers += count * kept;
                    sum.largest = sum.largest.max(kept);
                }
            }
        }
        if job.training.forward_only {
            sum.seconds = 0.0;
        } else {
            // those of all layers wait while a later slice goes back
            sum.transient += gradients;
        }
        sum
    }

    fn least(&self, other: &Self) -> Self {
        Self {
            seconds: self.seconds.min(other.seconds),
            layers: self.layers.min(other.layers),
            largest: self.largest.min(other.largest),
            transient: self.transient.min(other.transient),
        }
    }
}

impl<L: Lane> StageRecomputation<L> {
    /// What each of several plans keeps and repeats on some virtual stage.
    #[inline(always)]
    pub(super) fn gather<'a>(of: impl Fn(usize) -> &'a StageRecomputation) -> Self {
        Self {
            seconds: L::gather(|place| of(place).seconds),
            layers: L::gather(|place| of(place).layers),
            largest: L::gather(|place| of(place).largest),
            transient: L::gather(|place| of(place).transient),
        }
    }

    /// The larger of each.
    #[inline(always)]
    pub(super) fn most(&self, other: &Self) -> Self {
        Self {
            seconds: self.seconds.larger(other.seconds),
            layers: self.layers.larger(other.layers),
            largest: self.largest.larger(other.largest),
            transient: self.transient.larger(other.transient),
        }
    }
}

impl RecomputationCosts {
    /// Adds up what a choice keeps and repeats of the blocks in `sums`.
    pub fn new(
        job: &Job,
        factors: &Factors,
        (chunks, sums): (&Chunks, &Sums),
        choice: Recomputation,
    ) -> Self {
        let again = |counts: &BlockCounts, layers: &LayerOrder| {
            StageRecomputation::new(job, factors, &deal_to_policies(job, counts, layers, choice))
        };
        let middle = chunks.middle.iter().zip(&chunks.middle_orders);
        let middle = middle
            .map(|(counts, layers)| again(counts, layers))
            .collect();
        Self {
            ends: [
                again(&chunks.first, &chunks.orders[0]),
                again(&chunks.last, &chunks.orders[1]),
            ],
            middle,
            between: StageRecomputation::default(),
            slowest: 0,
            slices: factors
                .slices
                .iter()
                .zip(&sums.slices)
                .map(|(slice, sums)| Self::new(job, slice, (chunks, sums), choice))
                .collect(),
        }
        .with_between(sums)
    }

    /// Finds the slowest between the ends and what stands for all of them.
    fn with_between(mut self, sums: &Sums) -> Self {
        let (mut slowest, mut backward) = (0.0, 0.0_f64);
        self.between = StageRecomputation::default();
        for (index, (again, stage)) in self.middle.iter().zip(&sums.middle).enumerate() {
            self.between = self.between.most(again);
            let passed = stage.work.backward + again.seconds;
            backward = backward.max(passed);
            if stage.work.forward + passed > slowest {
                (slowest, self.slowest) = (stage.work.forward + passed, index);
            }
        }
        self.between.seconds = (backward - sums.between.work.backward).max(0.0);
        let slices = std::mem::take(&mut self.slices).into_iter();
        let settled = slices
            .zip(&sums.slices)
            .map(|(slice, sums)| slice.with_between(sums));
        self.slices = settled.collect();
        self
    }

    /// Takes the least of each, in every slice too.
    fn take_minimum(&mut self, other: &Self) {
        let mine = self.ends.iter_mut().chain(&mut self.middle);
        for (least, other) in mine.zip(other.ends.iter().chain(&other.middle)) {
            *least = least.least(other);
        }
        for (slice, other) in self.slices.iter_mut().zip(&other.slices) {
            slice.take_minimum(other);
        }
    }

    /// What none of several choices is quicker or leaner than, for plans that keep all activations on
    /// the device: the least of each. None where there is no choice.
    pub fn lower_bound_of(all: &[Self], sums: &Sums) -> Option<Self> {
        let mut ideal = all.first()?.clone();
        for one in &all[1..] {
            ideal.take_minimum(one);
        }
        Some(ideal.with_between(sums))
    }

    /// Seconds of forward and backward passes of the first virtual stage, of what stands for those between
    /// and of the last one.
    pub(super) fn passes(&self, sums: &Sums) -> [[f64; 3]; 2] {
        let three = [
            (sums.ends[0], self.ends[0]),
            (sums.between, self.between),
            (sums.ends[1], self.ends[1]),
        ];
        [
            three.map(|(stage, _)| stage.work.forward),
            three.map(|(stage, again)| stage.work.backward + again.seconds),
        ]
    }
}

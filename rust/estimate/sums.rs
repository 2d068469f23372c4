//! What do the blocks of each virtual stage add up to, whatever the schedule and sharding of state?

use super::block::{BlockFactor, Factors};
use super::chunk::{Chunks, Counts};
use super::job::Job;
use crate::plan::{Purpose, RecomputePolicy};
use crate::workload::BlockRole;

/// Work of one virtual stage, per micro-batch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Virtual {
    pub(super) forward: f64,
    pub(super) backward: f64,
    /// The part of the backward pass that yields gradients of weights.
    pub(super) weight: f64,
    /// What the backward pass grows by where that part runs apart.
    pub(super) under_weight: f64,
    /// What a forward and a backward pass save where they run together: the expert all-to-alls of
    /// one run under the kernels of the other.
    pub(super) paired: f64,
    /// What the plan's sharding of weights and gradients adds (ZeRO-2 and 3).
    pub(super) shard_exposed: f64,
    /// What its sends add.
    pub(super) send: f64,
    /// What copies of kept activations to the host and back add.
    pub(super) offload_exposed: f64,
}

/// Elements of the weights of one virtual stage, and its layers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Params {
    pub(super) dense: f64,
    pub(super) expert: f64,
    pub(super) frozen: f64,
    pub(super) frozen_expert: f64,
    pub(super) layers: f64,
}

/// What only some plans ask of a virtual stage, per micro-batch: apart, so that others do not copy it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Detail {
    /// The part of `Virtual::under_weight` in expert all-to-alls.
    pub(super) expert_under_weight: f64,
    /// Bytes that its layers keep for the backward pass.
    pub(super) kept: f64,
    /// What runs beside their copies: the layers, and the head behind or before them.
    pub(super) layer_time: Passes,
    pub(super) head_time: Passes,
}

/// Seconds of a forward pass, of a backward pass, and of one without gradients of weights.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Passes {
    pub(super) forward: f64,
    pub(super) backward: f64,
    pub(super) input: f64,
}

impl Passes {
    fn add(&mut self, block: &BlockFactor, policy: RecomputePolicy, count: f64) {
        let backward = block.backward_time(policy);
        let apart = block.under_weight.iter().sum::<f64>() - block.weight;
        self.forward += count * block.forward_time();
        self.backward += count * backward;
        self.input += count * (backward + apart);
    }
}

/// What the ranks of one virtual stage hold.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Held {
    pub(super) dense: f64,
    pub(super) expert: f64,
    pub(super) frozen: f64,
    pub(super) frozen_expert: f64,
    /// Kept by layers, per micro-batch.
    pub(super) layers: f64,
    /// Kept by the layer that keeps most.
    pub(super) largest_kept: f64,
    /// Kept by embedding and head, per micro-batch.
    pub(super) ends: f64,
    pub(super) transient: f64,
    /// Weights of the largest layer, and of the largest of embedding and head.
    pub(super) largest: f64,
    pub(super) largest_end: f64,
    /// Trained weights of the largest block.
    pub(super) largest_trained: f64,
}

/// The first, the middle and the last virtual stage of a plan, summed over their blocks.
///
/// They depend on the blocks' factors, the split and the recomputation policy alone, so a search
/// sums once for all schedules, ZeRO stages and overlaps.
#[derive(Debug, Clone, PartialEq)]
pub struct Sums {
    pub(super) virtuals: [Virtual; 3],
    pub(super) params: [Params; 3],
    pub(super) details: [Detail; 3],
    /// Held by the first and the last virtual stage.
    pub(super) ends: [Held; 2],
    /// Held by each distinct virtual stage between.
    pub(super) middle: Vec<Held>,
    /// The most that any of those holds of each class.
    pub(super) most: Held,
    /// Which of the distinct middle stages is slowest: it stands for all in time.
    pub(super) slowest_middle: usize,
}

impl Sums {
    /// Sums the blocks of a split. A pipeline's first stage holds a copy of a tied table.
    pub fn new(
        job: &Job,
        factors: &Factors,
        chunks: &Chunks,
        policy: RecomputePolicy,
        pipelined: bool,
    ) -> Self {
        let adder = Adder {
            job,
            factors,
            policy,
            pipelined,
        };
        let mut virtuals = [Virtual::default(); 3];
        virtuals[0] = adder.work(&chunks.first);
        virtuals[2] = adder.work(&chunks.last);
        let ends = [&chunks.first, &chunks.last].map(|counts| adder.residents(counts));
        let middle: Vec<Held> = chunks.middle.iter().map(|c| adder.residents(c)).collect();
        let mut slowest_middle = 0;
        for (index, counts) in chunks.middle.iter().enumerate() {
            let work = adder.work(counts);
            if work.forward + work.backward > virtuals[1].forward + virtuals[1].backward {
                virtuals[1] = work;
                slowest_middle = index;
            }
        }
        let slowest = chunks.middle.get(slowest_middle);
        let [first, between, last] = chunks.layers;
        Self {
            virtuals,
            params: [
                adder.params(&chunks.first, first),
                slowest.map_or_else(Params::default, |counts| adder.params(counts, between)),
                adder.params(&chunks.last, last),
            ],
            details: [
                adder.detail(&chunks.first),
                slowest.map_or_else(Detail::default, |counts| adder.detail(counts)),
                adder.detail(&chunks.last),
            ],
            ends,
            most: middle
                .iter()
                .fold(Held::default(), |most, held| most.most(held)),
            middle,
            slowest_middle,
        }
    }
}

impl Sums {
    /// What none of several sums of the same blocks is quicker or leaner than, for plans that keep
    /// all activations on the device: the least of each pass and of each class of memory.
    pub fn ideal(all: &[Self]) -> Option<Self> {
        let mut ideal = all.first()?.clone();
        for sums in &all[1..] {
            for (least, one) in ideal.virtuals.iter_mut().zip(&sums.virtuals) {
                least.backward = least.backward.min(one.backward);
            }
            for (least, one) in ideal.ends.iter_mut().zip(&sums.ends) {
                least.leaner(one);
            }
            for (least, one) in ideal.middle.iter_mut().zip(&sums.middle) {
                least.leaner(one);
            }
            ideal.most.leaner(&sums.most);
        }
        Some(ideal)
    }

    /// True where both take the same virtual stage for the slowest between the ends.
    pub fn same_middle(&self, other: &Self) -> bool {
        self.slowest_middle == other.slowest_middle
    }
}

impl Held {
    /// Takes over what another keeps less of.
    fn leaner(&mut self, other: &Self) {
        self.layers = self.layers.min(other.layers);
        self.largest_kept = self.largest_kept.min(other.largest_kept);
        self.transient = self.transient.min(other.transient);
    }

    /// The larger of each class.
    pub(super) fn most(&self, other: &Self) -> Self {
        Self {
            dense: self.dense.max(other.dense),
            expert: self.expert.max(other.expert),
            frozen: self.frozen.max(other.frozen),
            frozen_expert: self.frozen_expert.max(other.frozen_expert),
            layers: self.layers.max(other.layers),
            largest_kept: self.largest_kept.max(other.largest_kept),
            ends: self.ends.max(other.ends),
            transient: self.transient.max(other.transient),
            largest: self.largest.max(other.largest),
            largest_end: self.largest_end.max(other.largest_end),
            largest_trained: self.largest_trained.max(other.largest_trained),
        }
    }
}

/// What summing reads.
struct Adder<'a> {
    job: &'a Job,
    factors: &'a Factors,
    policy: RecomputePolicy,
    pipelined: bool,
}

impl Adder<'_> {
    fn work(&self, counts: &Counts) -> Virtual {
        let mut sum = Virtual::default();
        for (block, &count) in self.factors.blocks.iter().zip(counts) {
            if count > 0.0 {
                sum.forward += count * block.forward_time();
                sum.backward += count * block.backward_time(self.policy);
                sum.weight += count * block.weight;
                sum.under_weight += count * block.under_weight.iter().sum::<f64>();
                sum.paired += count * block.paired_time();
            }
        }
        if self.job.training.forward_only {
            sum = Virtual {
                forward: sum.forward,
                ..Virtual::default()
            };
        }
        sum
    }

    fn params(&self, counts: &Counts, layers: f64) -> Params {
        let mut sum = Params {
            layers,
            ..Params::default()
        };
        for (block, &count) in self.factors.blocks.iter().zip(counts) {
            sum.dense += count * block.dense(self.pipelined);
            sum.expert += count * block.weights.expert;
            sum.frozen += count * block.weights.frozen;
            sum.frozen_expert += count * block.weights.frozen_expert;
        }
        sum
    }

    fn detail(&self, counts: &Counts) -> Detail {
        let mut sum = Detail::default();
        let blocks = self.factors.blocks.iter().zip(&self.job.graph.blocks);
        for ((block, graph), &count) in blocks.zip(counts).filter(|(_, count)| **count > 0.0) {
            sum.expert_under_weight += count * block.under_weight[Purpose::Expert as usize];
            match graph.role {
                BlockRole::Layer => {
                    sum.layer_time.add(block, self.policy, count);
                    sum.kept += count * kept(self.job, self.policy, block, graph.role).0;
                }
                BlockRole::Head => sum.head_time.add(block, self.policy, count),
                BlockRole::Embedding => {}
            }
        }
        if self.job.training.forward_only {
            sum.expert_under_weight = 0.0;
        }
        sum
    }

    fn residents(&self, counts: &Counts) -> Held {
        let mut held = Held::default();
        let blocks = self.factors.blocks.iter().zip(&self.job.graph.blocks);
        for ((factor, block), &count) in blocks.zip(counts) {
            if count == 0.0 {
                continue;
            }
            held.dense += count * factor.dense(self.pipelined);
            held.expert += count * factor.weights.expert;
            held.frozen += count * factor.weights.frozen;
            held.frozen_expert += count * factor.weights.frozen_expert;
            let trained = factor.dense(self.pipelined) + factor.weights.expert;
            held.largest_trained = held.largest_trained.max(trained);
            let (kept, again) = kept(self.job, self.policy, factor, block.role);
            if block.role == BlockRole::Layer {
                held.layers += count * kept;
                held.largest_kept = held.largest_kept.max(kept);
                held.largest = held.largest.max(factor.weights.local());
            } else {
                held.ends += count * kept;
                held.largest_end = held.largest_end.max(factor.weights.local());
            }
            let transient = factor.activations.transient.value() + again;
            held.transient = held.transient.max(transient);
        }
        held
    }
}

/// Bytes that a block keeps per micro-batch, and those that come back while it is recomputed.
pub(super) fn kept(
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
        (BlockRole::Layer, RecomputePolicy::Full) => a.input,
        (BlockRole::Layer, RecomputePolicy::Selective) => a.kept_selective,
        _ => a.kept,
    };
    (kept.value(), (a.kept - kept).value())
}

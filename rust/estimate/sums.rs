//! What do the blocks of each virtual stage add up to, whatever is recomputed, scheduled or sharded?

use super::block::{BlockFactor, Factors};
use super::chunk::{BlockCounts, Chunks};
use super::job::Job;
use super::newton_schulz::NewtonSchulz;
use crate::plan::Purpose;
use crate::solve::Lane;
use crate::workload::BlockRole;

/// Work of one virtual stage, per micro-batch, of one plan or several side by side.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct VirtualStageWork<L = f64> {
    pub(super) forward: L,
    pub(super) backward: L,
    /// Of those passes, seconds for which the host is busy issuing kernels; recomputation aside.
    pub(super) issued: [f64; 2],
    /// The part of the backward pass that yields gradients of weights.
    pub(super) weight: f64,
    /// What the backward pass grows by where that part runs apart.
    pub(super) under_weight: f64,
    /// What a forward and a backward pass save where they run together: the expert all-to-alls of
    /// one run under the kernels of the other.
    pub(super) paired: f64,
    /// What the plan's sharding of weights and gradients adds (ZeRO-2 and 3).
    pub(super) shard_exposed: L,
    /// What its sends add.
    pub(super) send: f64,
    /// What copies of kept activations to the host and back add.
    pub(super) offload_exposed: L,
}

impl VirtualStageWork {
    /// The longer of each pass, which saves no more than either. Where gradients of weights run apart, the
    /// longer of the grown backward passes and of what is left of them without those gradients count; the
    /// longest of each part by itself could leave a shorter input pass where a part grows.
    fn most(&self, other: &Self) -> Self {
        let backward = self.backward.max(other.backward);
        let apart = self.apart().max(other.apart());
        let input = self.input().max(other.input());
        Self {
            forward: self.forward.max(other.forward),
            backward,
            issued: [0, 1].map(|way| self.issued[way].max(other.issued[way])),
            weight: apart - input,
            under_weight: apart - backward,
            paired: self.paired.min(other.paired),
            shard_exposed: self.shard_exposed.max(other.shard_exposed),
            send: self.send.max(other.send),
            offload_exposed: self.offload_exposed.max(other.offload_exposed),
        }
    }

    /// The backward pass where gradients of weights run apart.
    fn apart(&self) -> f64 {
        self.backward + self.under_weight
    }

    /// What of it does not wait for them: gradients of inputs.
    fn input(&self) -> f64 {
        self.apart() - self.weight
    }

    /// The same for several plans side by side.
    #[inline(always)]
    pub(super) fn splat<L: Lane>(&self) -> VirtualStageWork<L> {
        VirtualStageWork {
            forward: L::splat(self.forward),
            backward: L::splat(self.backward),
            issued: self.issued,
            weight: self.weight,
            under_weight: self.under_weight,
            paired: self.paired,
            shard_exposed: L::splat(self.shard_exposed),
            send: self.send,
            offload_exposed: L::splat(self.offload_exposed),
        }
    }
}

/// Elements of the weights of one virtual stage, and its layers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct VirtualStageParams {
    pub(super) dense: f64,
    pub(super) expert: f64,
    pub(super) frozen: f64,
    pub(super) frozen_expert: f64,
    /// Of `frozen`, in embedding and head.
    pub(super) frozen_ends: f64,
    pub(super) layers: f64,
    /// Of all these, in embedding and head.
    pub(super) ends: f64,
    /// Of `dense`, what is multiplied wide in embedding and head.
    pub(super) wide_ends: f64,
    pub(super) newton: NewtonSchulz,
}

impl VirtualStageParams {
    /// The larger of each.
    fn most(&self, other: &Self) -> Self {
        Self {
            dense: self.dense.max(other.dense),
            expert: self.expert.max(other.expert),
            frozen: self.frozen.max(other.frozen),
            frozen_expert: self.frozen_expert.max(other.frozen_expert),
            frozen_ends: self.frozen_ends.max(other.frozen_ends),
            layers: self.layers.max(other.layers),
            ends: self.ends.max(other.ends),
            wide_ends: self.wide_ends.max(other.wide_ends),
            newton: self.newton.maximum(&other.newton),
        }
    }
}

/// What only some plans ask of a virtual stage, per micro-batch: apart, so that others do not copy it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct VirtualStageDetail {
    /// The part of `VirtualStageWork::under_weight` in expert all-to-alls.
    pub(super) expert_under_weight: f64,
    /// What runs beside the copies of kept activations: the layers, and the head behind or before.
    pub(super) layer_time: PassTimes,
    pub(super) head_time: PassTimes,
}

/// Seconds of a forward pass, of a backward pass, and of one without gradients of weights.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PassTimes {
    pub(super) forward: f64,
    pub(super) backward: f64,
    pub(super) input: f64,
}

impl VirtualStageDetail {
    /// The larger of each.
    fn most(&self, other: &Self) -> Self {
        Self {
            expert_under_weight: self.expert_under_weight.max(other.expert_under_weight),
            layer_time: self.layer_time.most(&other.layer_time),
            head_time: self.head_time.most(&other.head_time),
        }
    }
}

impl PassTimes {
    /// The longer of each.
    fn most(&self, other: &Self) -> Self {
        Self {
            forward: self.forward.max(other.forward),
            backward: self.backward.max(other.backward),
            input: self.input.max(other.input),
        }
    }

    fn add(&mut self, block: &BlockFactor, count: f64) {
        let backward = block.backward_time();
        let apart = block.under_weight.iter().sum::<f64>() - block.weight;
        self.forward += count * block.forward_time();
        self.backward += count * backward;
        self.input += count * (backward + apart);
    }
}

/// What the ranks of one virtual stage hold beside their `VirtualStageParams`, whatever passes keep.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct VirtualStageMemory {
    /// Kept by embedding and head, per micro-batch, bytes.
    pub(super) ends: f64,
    /// Weights of the largest layer, and of the largest of embedding and head.
    pub(super) largest: f64,
    pub(super) largest_end: f64,
    /// Weights of embedding and head together.
    pub(super) end_weights: f64,
    /// Trained weights of the largest block.
    pub(super) largest_trained: f64,
    /// Elements that stand in for gradients of layers, and of embedding and head.
    pub(super) stand_ins: [f64; 2],
}

impl VirtualStageMemory {
    /// The larger of each class.
    fn most(&self, other: &Self) -> Self {
        Self {
            ends: self.ends.max(other.ends),
            largest: self.largest.max(other.largest),
            largest_end: self.largest_end.max(other.largest_end),
            end_weights: self.end_weights.max(other.end_weights),
            largest_trained: self.largest_trained.max(other.largest_trained),
            stand_ins: [0, 1].map(|at| self.stand_ins[at].max(other.stand_ins[at])),
        }
    }
}

/// One virtual stage: backward passes without what they compute again.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct VirtualStage {
    pub(super) work: VirtualStageWork,
    pub(super) params: VirtualStageParams,
    pub(super) detail: VirtualStageDetail,
    pub(super) held: VirtualStageMemory,
}

impl VirtualStage {
    /// One that takes, weighs and holds as much as either.
    fn most(self, other: Self) -> Self {
        Self {
            work: self.work.most(&other.work),
            params: self.params.most(&other.params),
            detail: self.detail.most(&other.detail),
            held: self.held.most(&other.held),
        }
    }
}

/// The first, the last and each distinct virtual stage between, summed over their blocks.
///
/// They depend on the blocks' factors and the split alone, so a search sums once for all schedules,
/// recomputations, ZeRO stages and overlaps.
#[derive(Debug, Clone, PartialEq)]
pub struct Sums {
    /// First and last.
    pub(super) ends: [VirtualStage; 2],
    /// Each distinct one between.
    pub(super) middle: Vec<VirtualStage>,
    /// What stands for all of those: the most of each of their parts, so that no step is longer than it is
    /// with this one in every place, whichever of them bounds a part of it.
    pub(super) between: VirtualStage,
    /// Expert all-to-alls that wait for an opposite pass all along the model, forward and backward: the first
    /// micro-batch goes forward and the last one backward without one.
    pub(super) unpaired: [f64; 2],
    /// The same of each slice; none where sequences are not cut.
    pub(super) slices: Vec<Self>,
}

impl Sums {
    /// Sums the blocks of a split; `copied`: first and last stage hold copies of a tied table (`Plan::copies_table`).
    pub fn new(job: &Job, factors: &Factors, chunks: &Chunks, copied: bool) -> Self {
        let adder = Adder {
            job,
            factors,
            copied,
        };
        let [first, between, last] = chunks.layers;
        let of = |counts: &BlockCounts| adder.stage(counts, between);
        let middle: Vec<VirtualStage> = chunks.middle.iter().map(of).collect();
        let between = middle.iter().copied().reduce(VirtualStage::most);
        Self {
            ends: [
                adder.stage(&chunks.first, first),
                adder.stage(&chunks.last, last),
            ],
            middle,
            between: between.unwrap_or_default(),
            unpaired: adder.unpaired(chunks),
            slices: factors
                .slices
                .iter()
                .map(|slice| Self::new(job, slice, chunks, copied))
                .collect(),
        }
    }
}

/// What summing reads.
struct Adder<'a> {
    job: &'a Job,
    factors: &'a Factors,
    copied: bool,
}

impl Adder<'_> {
    fn stage(&self, counts: &BlockCounts, layers: f64) -> VirtualStage {
        VirtualStage {
            work: self.work(counts),
            params: self.params(counts, layers),
            detail: self.detail(counts),
            held: self.held(counts),
        }
    }

    fn work(&self, counts: &BlockCounts) -> VirtualStageWork {
        let mut sum = VirtualStageWork::default();
        for (block, &count) in self.factors.blocks.iter().zip(counts) {
            if count > 0.0 {
                sum.forward += count * block.forward_time();
                sum.backward += count * block.backward_time();
                for (sum, issued) in sum.issued.iter_mut().zip(block.issued) {
                    *sum += count * issued;
                }
                sum.weight += count * block.weight;
                sum.under_weight += count * block.under_weight.iter().sum::<f64>();
                sum.paired += count * block.paired_time();
            }
        }
        if self.job.training.forward_only {
            sum = VirtualStageWork {
                forward: sum.forward,
                issued: sum.issued,
                ..VirtualStageWork::default()
            };
        }
        sum
    }

    fn unpaired(&self, chunks: &Chunks) -> [f64; 2] {
        let mut sum = [0.0; 2];
        if self.job.training.forward_only {
            return sum;
        }
        for counts in chunks.along() {
            for (block, &count) in self.factors.blocks.iter().zip(counts) {
                for (sum, seconds) in sum.iter_mut().zip(block.paired) {
                    *sum += count * seconds;
                }
            }
        }
        sum
    }

    fn params(&self, counts: &BlockCounts, layers: f64) -> VirtualStageParams {
        let mut sum = VirtualStageParams {
            layers,
            ..VirtualStageParams::default()
        };
        let blocks = self.factors.blocks.iter().zip(&self.job.graph.blocks);
        for ((block, graph), &count) in blocks.zip(counts) {
            sum.dense += count * block.dense(self.copied);
            sum.expert += count * block.weights.expert;
            sum.frozen += count * block.weights.frozen;
            sum.frozen_expert += count * block.weights.frozen_expert;
            if graph.role != BlockRole::Layer {
                sum.frozen_ends += count * block.weights.frozen;
                sum.ends += count * (block.dense(self.copied) + block.weights.frozen);
                sum.wide_ends += count * block.wide(self.copied);
            }
            sum.newton.add(&block.newton, count);
        }
        sum
    }

    fn detail(&self, counts: &BlockCounts) -> VirtualStageDetail {
        let mut sum = VirtualStageDetail::default();
        let blocks = self.factors.blocks.iter().zip(&self.job.graph.blocks);
        for ((block, graph), &count) in blocks.zip(counts).filter(|(_, count)| **count > 0.0) {
            sum.expert_under_weight += count * block.under_weight[Purpose::Expert as usize];
            match graph.role {
                BlockRole::Layer => sum.layer_time.add(block, count),
                BlockRole::Head => sum.head_time.add(block, count),
                BlockRole::Embedding => {}
            }
        }
        if self.job.training.forward_only {
            sum.expert_under_weight = 0.0;
        }
        sum
    }

    fn held(&self, counts: &BlockCounts) -> VirtualStageMemory {
        let mut held = VirtualStageMemory::default();
        let blocks = self.factors.blocks.iter().zip(&self.job.graph.blocks);
        for ((factor, block), &count) in blocks.zip(counts) {
            if count == 0.0 {
                continue;
            }
            let trained = factor.dense(self.copied) + factor.weights.expert;
            held.largest_trained = held.largest_trained.max(trained);
            let stand_ins = &mut held.stand_ins[usize::from(block.role != BlockRole::Layer)];
            *stand_ins = stand_ins.max(factor.weights.stand_ins);
            let local = factor.weights.local();
            if block.role == BlockRole::Layer {
                held.largest = held.largest.max(local);
            } else {
                held.largest_end = held.largest_end.max(local);
                held.end_weights += count * local;
                if !self.job.training.forward_only {
                    held.ends += count * factor.activations.kept.value();
                }
            }
        }
        held
    }
}

//! What each stage's ranks hold at their fullest moment.

use super::chunk::Counts;
use super::compose::{Composer, kind};
use crate::memory::{Footprint, Holdings};
use crate::plan::RecomputePolicy;
use crate::schedule::{self, Shape};
use crate::units::Bytes;
use crate::workload::BlockRole;

/// Sums over the blocks of one virtual stage.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    dense: f64,
    expert: f64,
    frozen: f64,
    /// Kept by layers, per micro-batch.
    layers: f64,
    /// Kept by embedding and head, per micro-batch.
    ends: f64,
    transient: f64,
    largest: f64,
}

/// The memory of a composed plan.
pub(super) struct Residents<'a, 'b> {
    composer: &'a Composer<'b>,
    held: [Held; 3],
}

impl<'a, 'b> Residents<'a, 'b> {
    pub(super) fn new(composer: &'a Composer<'b>, slowest_middle: usize) -> Self {
        let chunks = composer.chunks;
        let mut residents = Self {
            composer,
            held: [Held::default(); 3],
        };
        residents.held[0] = residents.sum(&chunks.first);
        if let Some(counts) = chunks.middle.get(slowest_middle) {
            residents.held[1] = residents.sum(counts);
        }
        residents.held[2] = if chunks.count > 1 {
            residents.sum(&chunks.last)
        } else {
            residents.held[0]
        };
        residents
    }

    fn sum(&self, counts: &Counts) -> Held {
        let mut held = Held::default();
        let blocks = &self.composer.job.graph.blocks;
        for ((factor, block), &count) in self.composer.factors.blocks.iter().zip(blocks).zip(counts)
        {
            if count == 0.0 {
                continue;
            }
            held.dense += count * factor.dense(self.composer.plan.pipeline > 1);
            held.expert += count * factor.weights.expert;
            held.frozen += count * factor.weights.frozen;
            let (kept, again) = self.kept(factor, block.role);
            if block.role == BlockRole::Layer {
                held.layers += count * kept;
                held.largest = held.largest.max(factor.weights.local());
            } else {
                held.ends += count * kept;
            }
            held.transient = held
                .transient
                .max(factor.activations.transient.value() + again);
        }
        held
    }

    /// Bytes that a block keeps per micro-batch, and those that come back while it is recomputed.
    fn kept(&self, factor: &super::block::BlockFactor, role: BlockRole) -> (f64, f64) {
        let a = &factor.activations;
        if self.composer.training().forward_only {
            return (0.0, 0.0);
        }
        let kept = match (role, self.composer.policy()) {
            (BlockRole::Layer, RecomputePolicy::Full) => a.input,
            (BlockRole::Layer, RecomputePolicy::Selective) => a.kept_selective,
            _ => a.kept,
        };
        (kept.value(), (a.kept - kept).value())
    }

    /// Bytes by class on the ranks of one stage.
    pub(super) fn stage(&self, stage: u32) -> Footprint {
        let composer = self.composer;
        let plan = composer.plan;
        let position = match stage {
            0 => 0,
            s if s + 1 == plan.pipeline => 2,
            _ => 1,
        };
        let own = &self.held[position];
        let middle = &self.held[1];
        let chunks = f64::from(plan.interleave);
        let both = |of: fn(&Held) -> f64| of(own) + (chunks - 1.0) * of(middle);
        let shape = Shape {
            stages: plan.pipeline,
            chunks: plan.interleave,
        };
        let count = plan.micro_batches(composer.training().global_batch);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let kind = kind(plan.schedule);
        let in_flight = f64::from(schedule::in_flight(kind, stage, shape, count));
        // the head's chunk is the last to go forward: one micro-batch of it, but for GPipe
        let ends_in_flight = match kind {
            schedule::Kind::GPipe => in_flight,
            _ if position == 0 && plan.pipeline > 1 => in_flight.min(f64::from(plan.pipeline)),
            _ => 1.0,
        };
        let layers = own.layers.max(middle.layers);
        let activations = layers * in_flight + own.ends * ends_in_flight;
        let holdings = Holdings {
            dense: both(|h| h.dense),
            expert: both(|h| h.expert),
            frozen: both(|h| h.frozen),
            dense_shards: composer.links.dense.shards,
            expert_shards: composer.links.expert.shards,
            zero: plan.zero,
            activations: Bytes::new(activations),
            transient: Bytes::new(own.transient.max(middle.transient)),
            gathered: 2.0 * own.largest.max(middle.largest),
            hidden: composer.job.graph.hidden as f64,
        };
        let reserve = composer.job.cluster.device.reserved_memory;
        Footprint::new(&holdings, composer.training(), reserve)
    }

    /// The most bytes on any rank and the stage where they lie. Activations in flight fall along
    /// the pipeline, so the second stage stands for all between the ends.
    pub(super) fn fullest(&self) -> (Bytes, u32) {
        let last = self.composer.plan.pipeline - 1;
        let mut fullest = (Bytes::ZERO, 0);
        for stage in [0, 1.min(last), last] {
            let total = self.stage(stage).total();
            if total > fullest.0 {
                fullest = (total, stage);
            }
        }
        fullest
    }
}

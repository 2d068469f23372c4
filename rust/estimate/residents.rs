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

impl Held {
    /// The larger of each class.
    fn most(&self, other: &Self) -> Self {
        Self {
            dense: self.dense.max(other.dense),
            expert: self.expert.max(other.expert),
            frozen: self.frozen.max(other.frozen),
            layers: self.layers.max(other.layers),
            ends: self.ends.max(other.ends),
            transient: self.transient.max(other.transient),
            largest: self.largest.max(other.largest),
        }
    }
}

/// The memory of a composed plan.
pub(super) struct Residents<'a, 'b> {
    composer: &'a Composer<'b>,
    held: [Held; 3],
}

impl<'a, 'b> Residents<'a, 'b> {
    pub(super) fn new(composer: &'a Composer<'b>) -> Self {
        let chunks = composer.chunks;
        let mut residents = Self {
            composer,
            held: [Held::default(); 3],
        };
        residents.held[0] = residents.sum(&chunks.first);
        for counts in &chunks.middle {
            residents.held[1] = residents.held[1].most(&residents.sum(counts));
        }
        residents.held[2] = if chunks.count > 1 {
            residents.sum(&chunks.last)
        } else {
            residents.held[0]
        };
        residents
    }

    /// What the ranks of a stage hold by chunk: their own end, and chunks between. With several
    /// chunks a rank, the most that any holds of each class stands for those between.
    fn chunks(&self, stage: u32) -> (Held, Held) {
        let chunks = self.composer.chunks;
        let own = match stage {
            0 => self.held[0],
            s if s + 1 == self.composer.plan.pipeline => self.held[2],
            s => {
                let kind = chunks.kinds.get(s as usize - 1).copied();
                let counts = kind.and_then(|kind| chunks.middle.get(kind));
                match counts {
                    Some(counts) if self.composer.plan.interleave == 1 => self.sum(counts),
                    _ => self.held[1],
                }
            }
        };
        let between = if self.composer.plan.interleave == 1 {
            own
        } else {
            self.held[1]
        };
        (own, between)
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
        let (own, middle) = self.chunks(stage);
        let chunks = f64::from(plan.interleave);
        let both = |of: fn(&Held) -> f64| of(&own) + (chunks - 1.0) * of(&middle);
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
            _ if stage == 0 && plan.pipeline > 1 => in_flight.min(f64::from(plan.pipeline)),
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
            gathered: if self.shards() {
                2.0 * own.largest.max(middle.largest)
            } else {
                0.0
            },
            hidden: composer.job.graph.hidden as f64,
        };
        let reserve = composer.job.cluster.device.reserved_memory;
        Footprint::new(&holdings, composer.training(), reserve)
    }

    /// True where ZeRO cuts weights at all.
    fn shards(&self) -> bool {
        let links = self.composer.links;
        links.dense.shards > 1.0 || links.expert.shards > 1.0
    }

    /// The most bytes on any rank and the stage where they lie. Activations in flight fall along
    /// the pipeline, so the first stage of each kind stands for all of that kind.
    pub(super) fn fullest(&self) -> (Bytes, u32) {
        let last = self.composer.plan.pipeline - 1;
        let mut fullest = (self.stage(0).total(), 0);
        let mut weigh = |stage: u32| {
            let total = self.stage(stage).total();
            if total > fullest.0 {
                fullest = (total, stage);
            }
        };
        if self.composer.plan.interleave > 1 {
            if last > 1 {
                weigh(1);
            }
        } else {
            self.composer
                .chunks
                .firsts
                .iter()
                .copied()
                .for_each(&mut weigh);
        }
        if last > 0 {
            weigh(last);
        }
        fullest
    }
}

//! What do each stage's ranks hold at their fullest moment?

use super::compose::Composer;
use super::sums::Held;
use crate::memory::{FRAGMENTATION, Footprint, Holdings};
use crate::schedule::Kind;
use crate::units::Bytes;

/// The memory of a composed plan.
pub(super) struct Residents<'a, 'b> {
    composer: &'a Composer<'b>,
}

impl<'a, 'b> Residents<'a, 'b> {
    pub(super) fn new(composer: &'a Composer<'b>) -> Self {
        Self { composer }
    }

    /// What the ranks of a stage hold by chunk: their own end, and chunks between. With several
    /// chunks a rank, the most that any holds of each class stands for those between.
    fn chunks(&self, stage: u32) -> (&'b Held, &'b Held) {
        let (sums, plan) = (self.composer.sums, self.composer.plan);
        let own = match stage {
            0 => &sums.ends[0],
            s if s + 1 == plan.pipeline => &sums.ends[1],
            s => {
                let kind = self.composer.chunks.kinds.get(s as usize - 1);
                let held = kind.and_then(|&kind| sums.middle.get(kind));
                held.filter(|_| plan.interleave == 1).unwrap_or(&sums.most)
            }
        };
        (
            own,
            if plan.interleave == 1 {
                own
            } else {
                &sums.most
            },
        )
    }

    /// Bytes by class on the ranks of one stage.
    pub(super) fn stage(&self, stage: u32) -> Footprint {
        self.footprint(&self.holdings(stage))
    }

    /// What a device of one stage has left for activations and working sets, allocator loss taken
    /// off, and micro-batches in flight there.
    pub(super) fn room(&self, stage: u32) -> (Bytes, u32) {
        let bare = Holdings {
            activations: Bytes::new(0.0),
            transient: Bytes::new(0.0),
            ..self.holdings(stage)
        };
        let left = self.composer.job.capacity() - self.footprint(&bare).total();
        (
            left.max(Bytes::new(0.0)) / FRAGMENTATION,
            self.in_flight(stage),
        )
    }

    fn footprint(&self, holdings: &Holdings) -> Footprint {
        let reserve = self.composer.job.cluster.device.reserved_memory;
        Footprint::new(holdings, self.composer.training(), reserve)
    }

    fn micro_batches(&self) -> u32 {
        let composer = self.composer;
        let count = composer
            .plan
            .micro_batches(composer.training().global_batch);
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn in_flight(&self, stage: u32) -> u32 {
        let plan = self.composer.plan;
        let rule = plan.schedule.rule();
        rule.in_flight(plan.pipeline_shape(), self.micro_batches(), stage)
    }

    fn holdings(&self, stage: u32) -> Holdings {
        let composer = self.composer;
        let plan = composer.plan;
        let (own, middle) = self.chunks(stage);
        let (rule, shape) = (plan.schedule.rule(), plan.pipeline_shape());
        let [first, inner, last] = rule.held(shape, stage).map(f64::from);
        let [front, back] = &composer.sums.ends;
        let both = |of: fn(&Held) -> f64| first * of(front) + inner * of(middle) + last * of(back);
        let count = self.micro_batches();
        let in_flight = f64::from(self.in_flight(stage));
        // the head's chunk is the last to go forward: one micro-batch of it, unless all go forward first
        let all_first = matches!(
            plan.schedule,
            Kind::GPipe | Kind::BreadthFirst | Kind::TeraPipe
        );
        let ends_in_flight = match all_first {
            true => f64::from(count),
            _ if stage == 0 && plan.pipeline > 1 => in_flight.min(f64::from(plan.pipeline)),
            _ => 1.0,
        };
        let most = own.most(middle).most(if last > 0.0 { back } else { own });
        let head = if all_first { f64::from(count) } else { 1.0 };
        let ends = first * front.ends * ends_in_flight + last * back.ends * head;
        let away = most.layers * in_flight * composer.offloaded_share();
        // the layer on its way and the one in use
        let passing = (2.0 * most.largest_kept * composer.offloaded_share()).min(away);
        let activations = most.layers * in_flight - away + passing + ends;
        let older = f64::from(rule.versions(shape, count, stage)) - 1.0;
        Holdings {
            dense: both(|h| h.dense),
            expert: both(|h| h.expert),
            frozen: both(|h| h.frozen),
            frozen_expert: both(|h| h.frozen_expert),
            dense_shards: composer.links.dense.shards,
            expert_shards: composer.links.expert.shards,
            zero: plan.zero,
            activations: Bytes::new(activations),
            offloaded: Bytes::new(away),
            host_optimizer: plan.offload_optimizer,
            transient: Bytes::new(most.transient),
            gathered: if self.shards() {
                most.largest + most.largest.max(most.largest_end)
            } else {
                0.0
            },
            unreduced: if self.shards() {
                most.largest_trained
            } else {
                0.0
            },
            older_versions: older,
            hidden: composer.job.graph.hidden as f64,
        }
    }

    /// True where ZeRO cuts weights at all.
    fn shards(&self) -> bool {
        let links = self.composer.links;
        links.dense.shards > 1.0 || links.expert.shards > 1.0
    }

    /// The most bytes that any rank holds in host memory.
    pub(super) fn host(&self) -> Bytes {
        let stages = 0..self.composer.plan.pipeline;
        stages.fold(Bytes::new(0.0), |most, stage| {
            most.max(self.stage(stage).host)
        })
    }

    /// The most bytes on any rank and the stage where they lie. Where activations in flight fall
    /// along the pipeline, the first stage of each kind stands for all of that kind.
    pub(super) fn fullest(&self) -> (Bytes, u32) {
        let last = self.composer.plan.pipeline - 1;
        let mut fullest = (self.stage(0).total(), 0);
        let mut weigh = |stage: u32| {
            let total = self.stage(stage).total();
            if total > fullest.0 {
                fullest = (total, stage);
            }
        };
        let plan = self.composer.plan;
        let falls = matches!(
            plan.schedule,
            Kind::GPipe | Kind::OneForwardOneBackward | Kind::Interleaved
        );
        if !falls {
            (1..last).for_each(&mut weigh);
        } else if plan.interleave > 1 {
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

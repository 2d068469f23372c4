//! What do each stage's ranks hold at their fullest moment?

use super::compose::{Composer, PlanInputs};
use super::plan_lanes::PlanLanes;
use super::recomputation_costs::StageRecomputation;
use super::schedule_facts::{ChunkKind, StageOccupancy};
use super::sums::VirtualStage;
use crate::memory::{FRAGMENTATION, Footprint, Holdings, KeptActivations};
use crate::plan::Activations;
use crate::solve::Lane;
use crate::units::Bytes;
use crate::workload::BlockRole;

impl PlanInputs<'_> {
    fn chunk(&self, own: ChunkKind) -> &VirtualStage {
        let sums = self.sums;
        match own {
            ChunkKind::First => &sums.ends[0],
            ChunkKind::Last => &sums.ends[1],
            ChunkKind::Middle(kind) => sums.middle.get(kind).unwrap_or(&sums.between),
            ChunkKind::Most => &sums.between,
        }
    }

    /// What the ranks of a stage hold by chunk: their own end, and chunks between. With several
    /// chunks a rank, the most that any holds of each class stands for those between.
    fn chunks_of(&self, occupancy: &StageOccupancy) -> (&VirtualStage, &VirtualStage) {
        let own = self.chunk(occupancy.own);
        let several = self.plan.interleave > 1;
        (own, if several { &self.sums.between } else { own })
    }

    /// What a rank of a stage holds whatever passes keep: weights, gradients, optimizer state.
    pub(super) fn state_of(&self, occupancy: &StageOccupancy) -> Footprint {
        let (own, middle) = self.chunks_of(occupancy);
        let [first, inner, last] = occupancy.held;
        let [front, back] = &self.sums.ends;
        let both =
            |of: fn(&VirtualStage) -> f64| first * of(front) + inner * of(middle) + last * of(back);
        let of_all = |of: fn(&VirtualStage) -> f64| {
            let most = of(own).max(of(middle));
            if last > 0.0 { most.max(of(back)) } else { most }
        };
        let shared = if self.shards() { 1.0 } else { 0.0 };
        let holdings = Holdings {
            dense: both(|s| s.params.dense),
            expert: both(|s| s.params.expert),
            frozen: both(|s| s.params.frozen),
            frozen_expert: both(|s| s.params.frozen_expert),
            frozen_ends: both(|s| s.params.frozen_ends),
            wide_ends: both(|s| s.params.wide_ends),
            dense_shards: self.links.dense.shards,
            expert_shards: self.links.expert.shards,
            zero: self.plan.stage(),
            narrow: self.job.training.software.zero.narrows(self.plan.data),
            host_optimizer: self.plan.offload_optimizer,
            layer: shared * of_all(|s| s.held.largest),
            end: shared * of_all(|s| s.held.largest_end),
            ends: shared * both(|s| s.held.end_weights),
            chunks: first + inner + last,
            unreduced: shared * of_all(|s| s.held.largest_trained),
            frees_gradients: self.gradients_come_late(),
            older_versions: occupancy.older,
            summed: self.whole_gradients(occupancy, (own, middle)),
            matrices: [
                both(|s| s.params.newton.elements[0]),
                both(|s| s.params.newton.elements[1]),
            ],
            hidden: self.job.graph.hidden as f64,
        };
        let reserve = self.job.cluster.device.reserved_memory;
        let mut footprint = Footprint::new(&holdings, &self.job.training, reserve);
        // layers of all kinds have tensors of about the same shapes, so the largest kind's serve the others
        let stand_ins = of_all(|s| s.held.stand_ins[0]) + of_all(|s| s.held.stand_ins[1]);
        let element = self.job.training.precision.activation().bytes();
        footprint.add_workspace(Bytes::new(
            self.handed_over_tensors(occupancy) + stand_ins * element,
        ));
        footprint
    }

    /// True where no gradients are there when most activations are: one micro-batch, and no buffers of a
    /// reduction that stay, as those of whole gradients do among replicas.
    pub(super) fn gradients_come_late(&self) -> bool {
        let plan = self.plan;
        let alone = plan.stage() >= 2 || !self.shards();
        self.job.training.software.optimizer.frees_gradients
            && alone
            && self.facts.micro_batches == 1
    }

    /// Trained elements on a rank whose gradients are summed whole at one time, where each virtual stage
    /// reduces its own after its last micro-batch: those of one, if the rank goes back through all
    /// micro-batches of one before the next, else all.
    fn whole_gradients(
        &self,
        occupancy: &StageOccupancy,
        (own, middle): (&VirtualStage, &VirtualStage),
    ) -> f64 {
        let [first, inner, last] = occupancy.held;
        let [front, back] = &self.sums.ends;
        let trained = |s: &VirtualStage| s.params.dense + s.params.expert;
        let (rule, shape) = (self.plan.schedule.rule(), self.plan.pipeline_shape());
        if !rule.backs_by_chunk(shape, self.facts.micro_batches) {
            return first * trained(front) + inner * trained(middle) + last * trained(back);
        }
        let held = [(first, front), (inner, middle), (last, back)];
        let of =
            |(count, stage): (f64, &VirtualStage)| if count > 0.0 { trained(stage) } else { 0.0 };
        held.into_iter().map(of).fold(trained(own), f64::max)
    }

    /// Bytes of what stages hand over and the software keeps until the step ends, beyond the inputs of
    /// micro-batches in flight, which count as activations:
    /// `2 s m h + 2 (r m - f) h + l k o`: s, r, l virtual stages of the rank that send, receive and make
    /// logits; m micro-batches; f of those in flight that were received; h, o bytes of what is handed over
    /// and of logits (`torch/distributed/pipelining/stage.py`: buffers for inputs and for gradients of
    /// outputs, outputs, gradients of inputs). k is m, less the one at work where the software's profile says
    /// what lies beside the loss (`software.vocabulary.logits`), and m more where they are put together behind the last
    /// micro-batch (`_merge_outputs` of `schedules.py`): nothing that was free until then is that long, so
    /// the allocator, which does not join what it got piece by piece, takes new memory.
    fn handed_over_tensors(&self, occupancy: &StageOccupancy) -> f64 {
        let training = &self.job.training;
        if !training.software.pipeline.keeps_handed
            || training.forward_only
            || self.plan.pipeline < 2
        {
            return 0.0;
        }
        let blocks = || self.factors.blocks.iter().zip(&self.job.graph.blocks);
        let of = |role: BlockRole, bytes: fn(&Activations) -> Bytes| {
            let found = blocks().find(|(_, block)| block.role == role);
            found.map_or(0.0, |(factor, _)| bytes(&factor.activations).value())
        };
        let handed = of(BlockRole::Layer, |a| a.input);
        let logits = of(BlockRole::Head, |a| a.output);
        let [first, inner, last] = occupancy.held;
        let (sends, receives) = (first + inner, inner + last);
        let count = f64::from(self.facts.micro_batches);
        let flying = f64::from(occupancy.in_flight) * receives / (first + inner + last);
        let waiting = (receives * count - flying).max(0.0);
        let mut outputs = count;
        if training.software.vocabulary.logits.is_some() {
            outputs -= 1.0;
        }
        if training.software.pipeline.merges_outputs {
            outputs += count;
        }
        2.0 * (sends * count + waiting) * handed + last * outputs * logits
    }

    /// True where ZeRO cuts weights at all.
    fn shards(&self) -> bool {
        self.links.dense.shards > 1.0 || self.links.expert.shards > 1.0
    }
}

/// Of what passes keep: bytes on the device, those of embedding and head among them, bytes in host
/// memory, and the largest working set.
struct KeptBytes<L> {
    activations: L,
    ends: f64,
    offloaded: L,
    transient: L,
}

impl<L: Lane> PlanLanes<'_, L> {
    #[inline(always)]
    fn recomputation_of(&self, own: ChunkKind) -> StageRecomputation<L> {
        match own {
            ChunkKind::First => self.side_by_side(|again| &again.ends[0]),
            ChunkKind::Last => self.side_by_side(|again| &again.ends[1]),
            ChunkKind::Middle(kind) => {
                self.side_by_side(move |again| again.middle.get(kind).unwrap_or(&again.between))
            }
            ChunkKind::Most => self.side_by_side(|again| &again.between),
        }
    }

    /// What passes keep on a rank of a stage.
    #[inline(always)]
    fn kept_bytes(&self, occupancy: &StageOccupancy) -> KeptBytes<L> {
        let [first, _, last] = occupancy.held;
        let [front, back] = &self.sums.ends;
        let mut most = self.recomputation_of(occupancy.own);
        if self.plan.interleave > 1 {
            most = most.most(&self.side_by_side(|again| &again.between));
        }
        if last > 0.0 {
            most = most.most(&self.side_by_side(|again| &again.ends[1]));
        }
        let ends =
            first * front.held.ends * occupancy.ends[0] + last * back.held.ends * occupancy.ends[1];
        let kept = most.layers * f64::from(occupancy.in_flight);
        if !self.swaps {
            return KeptBytes {
                activations: kept + ends,
                ends,
                offloaded: L::splat(0.0),
                transient: most.transient,
            };
        }
        let away = kept * self.share;
        // the layer on its way and the one in use
        let passing = (most.largest * 2.0 * self.share).smaller(away);
        KeptBytes {
            activations: kept - away + passing + ends,
            ends,
            offloaded: away,
            transient: most.transient,
        }
    }

    /// The most bytes that any rank holds in host memory.
    #[inline(always)]
    pub(super) fn host_bytes(&self) -> L {
        let occupancies = self.facts.occupancies.iter().zip(&self.state.residents);
        occupancies.fold(L::splat(0.0), |most, (occupancy, state)| {
            most.larger(self.kept_bytes(occupancy).offloaded + state.host.value())
        })
    }

    /// The most bytes on any rank and the stage where they lie.
    #[inline(always)]
    pub(super) fn memory(&self) -> (L, L) {
        let mut fullest = (L::splat(0.0), L::splat(0.0));
        for (occupancy, state) in self.facts.occupancies.iter().zip(&self.state.residents) {
            let keeps = self.kept_bytes(occupancy);
            let total = state.total_with(keeps.activations, keeps.transient);
            let stage = L::splat(f64::from(occupancy.stage));
            fullest.1 = total.above(fullest.0, stage, fullest.1);
            fullest.0 = total.larger(fullest.0);
        }
        fullest
    }
}

impl Composer<'_> {
    fn occupancy(&self, stage: u32) -> StageOccupancy {
        StageOccupancy::new(self.plan, self.chunks, self.facts.micro_batches, stage)
    }

    /// Bytes by class on the ranks of one stage.
    pub(super) fn footprint(&self, stage: u32) -> Footprint {
        let occupancy = self.occupancy(stage);
        self.state_of(&occupancy).with(&self.kept(&occupancy))
    }

    /// What an update holds beside state and gradients on the ranks of one stage.
    pub(super) fn update_bytes(&self, stage: u32) -> Bytes {
        self.state_of(&self.occupancy(stage)).updating
    }

    /// What a device of one stage has left for activations and working sets, allocator loss taken
    /// off, and micro-batches in flight there.
    pub(super) fn activation_room(&self, stage: u32) -> (Bytes, u32) {
        let occupancy = self.occupancy(stage);
        let state = self.state_of(&occupancy);
        let mut left = self.job.capacity() - state.total();
        if state.updated() > left {
            // no activations help where the update alone does not fit
            left = Bytes::ZERO;
        }
        (
            left.max(Bytes::new(0.0)) / FRAGMENTATION,
            occupancy.in_flight,
        )
    }

    /// What passes keep on a rank of a stage.
    pub(super) fn kept(&self, occupancy: &StageOccupancy) -> KeptActivations {
        let keeps = self.lanes().kept_bytes(occupancy);
        KeptActivations {
            activations: Bytes::new(keeps.activations),
            ends: Bytes::new(keeps.ends),
            offloaded: Bytes::new(keeps.offloaded),
            transient: Bytes::new(keeps.transient),
        }
    }

    /// The most bytes on any rank and the stage where they lie.
    pub fn memory(&self) -> (Bytes, u32) {
        let (memory, stage) = self.lanes().memory();
        (Bytes::new(memory), self.stage_at(stage))
    }

    /// The weighed stage of this number.
    pub fn stage_at(&self, number: f64) -> u32 {
        let mut stages = self
            .facts
            .occupancies
            .iter()
            .map(|occupancy| occupancy.stage);
        stages
            .find(|&stage| f64::from(stage) >= number)
            .unwrap_or(0)
    }
}

//! How long is a step, and how full is a rank, given priced blocks, links and a schedule?
//!
//! No allocation, no strings: search calls this for every plan, `estimate` for one.

use super::block::{Factors, Lines};
use super::chunk::{BlockCounts, Chunks};
use super::job::Job;
use super::layer_order::LayerOrder;
use super::links::Links;
use super::model_states::ModelStates;
use super::plan_lanes::PlanLanes;
use super::recomputation_costs::{RecomputationCosts, StageRecomputation, deal_to_policies};
use super::schedule_facts::ScheduleFacts;
use super::sums::{Sums, VirtualStage, VirtualStageWork};
use crate::collective::Forms;
use crate::plan::{Plan, Purpose, RecomputePolicy};
use crate::schedule::{self, Borders, Scratch, Stages};
use crate::solve::Lane;
use crate::units::{Bytes, Joules, Seconds};
use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// Seconds of a step by part, on the critical path unless named hidden.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StepParts<L = f64> {
    /// First forward to last backward.
    pub pipeline: L,
    /// Idle time of the busiest stage within it.
    pub bubble: L,
    /// Sends between stages on the busiest stage, within `pipeline`.
    pub send: L,
    /// ZeRO-3 gathers and scatters that compute does not hide on the busiest stage, and the copies beside
    /// them, within `pipeline`.
    pub shard_exposed: L,
    /// Expert all-to-alls of the first forward and the last backward pass that have no opposite pass to run
    /// under.
    pub unpaired: L,
    /// Gradient reduction after the last backward.
    pub gradient_exposed: L,
    /// Gradient reduction under the backward pass.
    pub gradient_hidden: L,
    /// Gather of updated weights that nothing hides.
    pub gather_exposed: L,
    /// Gather of updated weights under the next forward pass.
    pub gather_hidden: L,
    /// Sum of tied embedding gradients between first and last stage.
    pub embedding_sync: L,
    /// Optimizer, on the device or on the host.
    pub optimizer: L,
    /// Copies of kept activations to the host and back that compute does not hide on the busiest
    /// stage, within `pipeline`.
    pub offload_exposed: L,
    /// The same under compute.
    pub offload_hidden: L,
    /// Copies of gradients to the host after the last backward.
    pub to_host_exposed: L,
    /// The same under the last backward.
    pub to_host_hidden: L,
    /// Copies of updated weights from the host after its update.
    pub from_host_exposed: L,
    /// The same under its update.
    pub from_host_hidden: L,
}

impl<L: Lane> StepParts<L> {
    /// Length of the step.
    #[inline(always)]
    pub fn step(&self) -> L {
        self.pipeline
            + self.unpaired
            + self.gradient_exposed
            + self.gather_exposed
            + self.embedding_sync
            + self.optimizer
            + self.to_host_exposed
            + self.from_host_exposed
    }
}

/// What one plan costs, as plain numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanCost {
    /// Step time in seconds.
    pub time: f64,
    /// Bytes on the fullest rank.
    pub memory: f64,
    /// Bytes in the host memory of the fullest node.
    pub host: f64,
    /// Index of the fullest stage.
    pub fullest: u32,
    /// Where the time goes.
    pub parts: StepParts,
    /// Which kind of virtual stage is busiest: 0 first, 1 middle, 2 last.
    pub busiest: usize,
}

impl PlanCost {
    /// True where the plan fits in the memory of the devices and of their hosts.
    pub fn fits(&self, job: &Job) -> bool {
        let host = job
            .host_capacity()
            .is_none_or(|most| self.host <= most.value());
        self.memory <= job.capacity().value() && host
    }
}

/// Everything that composing a plan reads but its state.
#[derive(Debug, Clone, Copy)]
pub struct PlanInputs<'a> {
    /// The job.
    pub job: &'a Job,
    /// The plan.
    pub plan: &'a Plan,
    /// Its priced blocks.
    pub factors: &'a Factors,
    /// Its collectives between blocks.
    pub links: &'a Links,
    /// Its virtual stages.
    pub chunks: &'a Chunks,
    /// The blocks of each virtual stage, summed.
    pub sums: &'a Sums,
    /// What it computes again.
    pub recomputed: &'a RecomputationCosts,
    /// What its schedule fixes.
    pub facts: &'a ScheduleFacts,
}

/// Everything that composing a plan reads.
#[derive(Debug, Clone, Copy)]
pub struct Composer<'a> {
    /// All but the state.
    pub inputs: PlanInputs<'a>,
    /// What its ZeRO stage and the optimizer's place fix.
    pub state: &'a ModelStates,
}

/// A composer is a setting with its state.
impl<'a> Deref for Composer<'a> {
    type Target = PlanInputs<'a>;

    fn deref(&self) -> &Self::Target {
        &self.inputs
    }
}

/// A plan priced but for the exact length of its pipeline.
#[derive(Debug, Clone, Copy)]
pub struct PartialCost {
    kind: schedule::Schedule,
    stages: Stages,
    /// Where hops are unlike; the stages are without them then.
    borders: Option<Borders>,
    count: u32,
    work: f64,
    exact: bool,
    composed: PlanCost,
}

impl PartialCost {
    /// The plan with a step time that it cannot beat; with its own where `exact` holds.
    pub fn least(&self) -> &PlanCost {
        &self.composed
    }

    /// True where the schedule's closed form is exact.
    pub fn exact(&self) -> bool {
        self.exact
    }

    /// Runs the schedule's recurrence where its closed form is only a bound.
    pub fn finish(mut self, scratch: &mut Scratch) -> PlanCost {
        if !self.exact {
            let (kind, stages, count) = (self.kind, &self.stages, self.count);
            let pipeline = match &self.borders {
                None => schedule::step_time(kind, stages, count, scratch).value(),
                Some(borders) => {
                    let time = schedule::step_time_over(kind, stages, borders, count, scratch);
                    time.value().max(self.composed.parts.pipeline)
                }
            };
            self.composed.parts.pipeline = pipeline;
            self.composed.parts.bubble = (pipeline - self.work).max(0.0);
            self.composed.time = self.composed.parts.step();
        }
        self.composed
    }
}

impl Composer<'_> {
    /// Time and memory of a step.
    pub fn compose(&self, scratch: &mut Scratch) -> PlanCost {
        self.draft(self.memory()).finish(scratch)
    }

    /// This plan alone.
    #[inline]
    pub(super) fn lanes(&self) -> PlanLanes<'_, f64> {
        let percent = f64::from(self.plan.offload_activations);
        let again = std::slice::from_ref(&self.inputs.recomputed);
        PlanLanes::new((&self.inputs, self.state), again, |_| percent)
    }

    /// Everything but the exact length of the pipeline, for a plan whose memory is known.
    pub fn draft(&self, (memory, fullest): (Bytes, u32)) -> PartialCost {
        let lanes = self.lanes();
        let outline = if self.is_sliced() {
            lanes.sliced_whole()
        } else {
            lanes.outline()
        };
        let (virtuals, shares) = (&outline.virtuals, &self.facts.shares);
        let count = self.facts.micro_batches;
        let (work, busiest) = self.busiest(virtuals);
        let work = work - self.beyond_shown(busiest);
        let rounds = f64::from(count);
        let mut parts = StepParts {
            bubble: (outline.parts.pipeline - work * rounds).max(0.0),
            send: shares.passes(virtuals, busiest, |v| v.send) * rounds,
            shard_exposed: shares.passes(virtuals, busiest, |v| v.shard_exposed) * rounds,
            ..outline.parts
        };
        if lanes.swaps {
            self.offload_parts((virtuals, busiest), &mut parts);
        }
        PartialCost {
            kind: self.plan.schedule,
            stages: outline.stages.at(0),
            borders: self.state.unlike.then_some(self.state.borders),
            count,
            work: work * rounds,
            exact: outline.exact >= 1.0,
            composed: PlanCost {
                time: parts.step(),
                memory: memory.value(),
                host: lanes.host_memory(),
                fullest,
                parts,
                busiest,
            },
        }
    }

    /// Gradient reduction, optimizer, weight gather, tied embeddings.
    pub(super) fn after_backward(&self, virtuals: &[VirtualStageWork; 3], parts: &mut StepParts) {
        self.lanes().after_backward(virtuals, parts);
    }

    /// Micro-batches of a step.
    pub fn micro_batches(&self) -> f64 {
        self.plan.micro_batches(self.job.training.global_batch) as f64
    }

    /// Joules of a step: devices draw their limit while kernels of the busiest stage run.
    pub fn energy(&self, composed: &PlanCost) -> Joules {
        let parts = &composed.parts;
        let busy = parts.pipeline - parts.bubble - parts.send - parts.shard_exposed;
        let update = if self.plan.offload_optimizer {
            0.0
        } else {
            parts.optimizer
        };
        let busy = busy - self.waits(composed) - parts.offload_exposed + update;
        let busy = busy.max(0.0);
        let (step, busy) = (Seconds::new(composed.time), Seconds::new(busy));
        crate::economics::energy(&self.job.cluster, step, busy)
    }

    /// Exposed collectives inside blocks on the busiest stage, and what its device waits for launches.
    fn waits(&self, composed: &PlanCost) -> f64 {
        let lines = self.rank_lines(composed);
        let exposed: f64 = lines.iter().flat_map(|l| l.exposed).sum();
        let launches: f64 = lines.iter().map(Lines::launches).sum();
        (exposed + launches) * self.micro_batches()
    }

    /// Lines of one micro-batch on the busiest stage: forward, backward, recomputation.
    pub(super) fn rank_lines(&self, composed: &PlanCost) -> [Lines; 3] {
        let mut lines = [Lines::default(); 3];
        for (counts, layers, times) in self.rank_counts(composed) {
            self.add_lines(&mut lines, (counts, layers), times);
        }
        self.move_lines(&mut lines, composed.busiest);
        lines
    }

    /// Blocks of the virtual stages on the busiest rank, their layers in order, and how often it runs
    /// each.
    pub(super) fn rank_counts(&self, composed: &PlanCost) -> [(&BlockCounts, &LayerOrder, f64); 3] {
        let chunks = self.chunks;
        let [first, inner, last] = self.facts.shares.runs(composed.busiest);
        let front = (&chunks.first, &chunks.orders[0]);
        let kind = self.recomputed.slowest;
        let middle = chunks.middle.get(kind).zip(chunks.middle_orders.get(kind));
        let middle = middle.unwrap_or(front);
        [
            (front.0, front.1, first),
            (middle.0, middle.1, inner),
            (&chunks.last, &chunks.orders[1], last),
        ]
    }

    /// The first virtual stage, the slowest between and the last one.
    fn representative_stages(&self) -> [VirtualStage; 3] {
        let [first, last] = self.sums.ends;
        let middle = self.sums.middle.get(self.recomputed.slowest);
        [first, middle.copied().unwrap_or_default(), last]
    }

    /// What the schedule exposes or hides beyond a block's own lines: collectives under gradients
    /// of weights that run apart, expert all-to-alls under an opposite pass.
    fn move_lines(&self, lines: &mut [Lines; 3], position: usize) {
        let shares = &self.facts.shares;
        let stages = &self.representative_stages();
        if self.facts.splits {
            let all = shares.passes(stages, position, |s| s.work.under_weight);
            let expert = shares.passes(stages, position, |s| s.detail.expert_under_weight);
            for (purpose, out) in [(Purpose::Tensor, all - expert), (Purpose::Expert, expert)] {
                lines[1].exposed[purpose as usize] += out;
                lines[1].hidden[purpose as usize] -= out;
            }
        }
        if self.facts.pairs {
            let expert = Purpose::Expert as usize;
            let mut rest = shares.passes(stages, position, |s| s.work.paired);
            for line in &mut lines[..2] {
                let under = rest.min(line.exposed[expert]);
                line.exposed[expert] -= under;
                line.hidden[expert] += under;
                rest -= under;
            }
        }
    }

    fn add_lines(
        &self,
        lines: &mut [Lines; 3],
        (counts, layers): (&BlockCounts, &LayerOrder),
        times: f64,
    ) {
        let trains = !self.job.training.forward_only;
        let dealt = deal_to_policies(self.job, counts, layers, self.plan.recomputation());
        for (index, (block, &count)) in self.factors.blocks.iter().zip(counts).enumerate() {
            lines[0].add(&block.forward, count * times);
            if trains {
                lines[1].add(&block.backward, count * times);
                for policy in RecomputePolicy::ALL {
                    if let Some(again) = block.recompute_lines(policy) {
                        lines[2].add(again, dealt[policy as usize][index] * times);
                    }
                }
            }
        }
    }

    /// A pass of one micro-batch through a virtual stage of a kind (0 first, 1 between, 2 last) with the
    /// traffic that the plan adds to it.
    pub(super) fn pass_seconds(&self, position: usize) -> PassSeconds {
        let sum = &self.lanes().virtuals()[position];
        PassSeconds {
            forward: sum.forward,
            backward: sum.backward,
            weight: sum.weight,
        }
    }

    /// What the virtual stage that stands for those between takes longer than the one that is shown, on one rank
    /// and per micro-batch: its own pace is idle time there.
    fn beyond_shown(&self, position: usize) -> f64 {
        let index = self.recomputed.slowest;
        let shown = self
            .sums
            .middle
            .get(index)
            .zip(self.recomputed.middle.get(index));
        let [_, inner, _] = self.facts.shares.runs(position);
        let work = |stage: &VirtualStage, again: &StageRecomputation| {
            let work = &stage.work;
            let apart = if self.facts.splits {
                work.under_weight
            } else {
                0.0
            };
            let saved = if self.facts.pairs { work.paired } else { 0.0 };
            work.forward + work.backward + again.seconds + apart - saved
        };
        shown.map_or(0.0, |(stage, again)| {
            inner * (work(&self.sums.between, &self.recomputed.between) - work(stage, again))
        })
    }

    /// Work of one micro-batch on the busiest rank, and which end (or middle) it is.
    fn busiest(&self, virtuals: &[VirtualStageWork; 3]) -> (f64, usize) {
        let pairs = self.facts.pairs;
        let work =
            |v: &VirtualStageWork| v.forward + v.backward - if pairs { v.paired } else { 0.0 };
        let mut best = (0.0, 0);
        for position in 0..3 {
            let work = self.facts.shares.passes(virtuals, position, work);
            if self.exists(position) && work > best.0 {
                best = (work, position);
            }
        }
        best
    }
}

impl<'a> PlanInputs<'a> {
    /// True where sequences are cut along their tokens.
    #[inline(always)]
    pub(super) fn is_sliced(&self) -> bool {
        !self.factors.slices.is_empty()
    }

    /// A slice of each sequence as a setting of its own.
    pub(super) fn slice(&self, place: usize) -> Option<PlanInputs<'a>> {
        Some(PlanInputs {
            factors: self.factors.slices.get(place)?,
            sums: self.sums.slices.get(place)?,
            recomputed: self.recomputed.slices.get(place)?,
            ..*self
        })
    }
}

impl PlanInputs<'_> {
    /// Time of a tensor between two stages that lie farthest apart.
    pub(super) fn hop(&self) -> f64 {
        let links = self.links;
        self.hop_over(&links.stage, &links.staggered)
    }

    /// Times of a tensor between neighbouring stages, and what they hold: the sender for the whole time, or
    /// its compute for a share of it where the receiver alone waits.
    ///
    /// Where a pipeline comes back over its devices or runs both ways over them, all hops are taken to be the slowest.
    pub(super) fn borders(&self, contention: f64) -> Borders {
        let (links, facts) = (self.links, self.facts);
        let overlap = self.plan.overlap_pipeline;
        let share = if overlap { contention } else { 1.0 };
        let back = if self.job.training.forward_only {
            0.0
        } else {
            share
        };
        let none = Borders::new([share, back], if overlap { 1.0 } else { 0.0 });
        if self.chunks.count < 2 {
            return none;
        }
        let nearer = links.nearer.iter().flatten();
        let borders = nearer.fold(none, |borders, near| {
            borders.with_hop(near.every, self.hop_over(&near.stage, &near.staggered))
        });
        let borders = borders.with_hop(links.farthest, self.hop());
        if facts.zigzags && borders.unlike() {
            return none.with_hop(1, borders.slowest());
        }
        borders
    }

    /// Time of a tensor over one link.
    ///
    /// `t = w send + host + g rejoin + c b / r`: of the software w = 2 where it sends and receives in turn
    /// (`software.pipeline.sends_apart`), its host's time, g gathers and c passes over the b bytes that tensor ranks
    /// rejoin; r the sustained rate of main memory.
    fn hop_over(&self, stage: &Forms, staggered: &Forms) -> f64 {
        let plan = self.plan;
        let training = &self.job.training;
        let tokens =
            f64::from(plan.micro_batch) * self.factors.tokens as f64 / f64::from(plan.context);
        let bytes = tokens * self.job.graph.hidden as f64 * training.precision.activation().bytes();
        let software = &training.software;
        let ways = if software.pipeline.sends_apart {
            2.0
        } else {
            1.0
        };
        let part = bytes / f64::from(plan.tensor);
        let link = if training.software.pipeline.staggers_sends {
            staggered
        } else {
            stage
        };
        let send = ways * link.time(Bytes::new(part)).value();
        let handled = send + software.pipeline.handover_time.value();
        if plan.sequence_parallel {
            return handled;
        }
        let held = Bytes::new(bytes / f64::from(plan.tensor_rows));
        let rejoin = self.links.rejoin.time(held).value();
        let copies = if plan.tensor > 1 {
            let rate = self.job.cluster.device.main_memory().sustained();
            software.pipeline.handover_copies * (held / rate).value()
        } else {
            0.0
        };
        handled + software.pipeline.handover_gathers * rejoin + copies
    }

    /// What the first virtual stage, those between and the last one are in some respect.
    pub(super) fn by_position<T>(&self, of: impl Fn(&VirtualStage) -> T) -> [T; 3] {
        let [first, last] = &self.sums.ends;
        [of(first), of(&self.sums.between), of(last)]
    }

    /// The first virtual stage, what stands for those between, or the last one.
    pub(super) fn stage(&self, position: usize) -> &VirtualStage {
        match position {
            0 => &self.sums.ends[0],
            1 => &self.sums.between,
            _ => &self.sums.ends[1],
        }
    }

    /// What that one keeps and computes again.
    pub(super) fn recomputation_at(&self, position: usize) -> &StageRecomputation {
        match position {
            0 => &self.recomputed.ends[0],
            1 => &self.recomputed.between,
            _ => &self.recomputed.ends[1],
        }
    }

    /// True where some rank is a first, middle or last one.
    pub(super) fn exists(&self, position: usize) -> bool {
        match position {
            0 => true,
            1 => self.plan.pipeline > 2,
            _ => self.plan.pipeline > 1,
        }
    }
}

/// Seconds of the passes of one micro-batch through a virtual stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassSeconds {
    /// Forward pass.
    pub(super) forward: f64,
    /// Backward pass.
    pub(super) backward: f64,
    /// The part of it that yields gradients of weights.
    pub(super) weight: f64,
}

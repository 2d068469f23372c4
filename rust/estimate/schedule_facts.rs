//! What does a plan's schedule fix, whatever is recomputed, sharded or moved?

use super::chunk::Chunks;
use super::job::Job;
use super::newton_schulz::NewtonSchulz;
use super::sums::VirtualStageParams;
use crate::plan::Plan;
use crate::schedule::{PipelineShape, Schedule, ScheduleRule};
use crate::solve::Lane;

/// Facts of a schedule on so many stages, chunks and micro-batches. They do not depend on what
/// ranks hold, so a search asks the schedule once for all of that.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleFacts {
    /// Virtual stages that ranks hold.
    pub(super) shares: VirtualStageShares,
    /// True where gradients of weights run apart from those of inputs.
    pub(super) splits: bool,
    /// True where passes run in pairs.
    pub(super) pairs: bool,
    /// True where virtual stages do not go round the devices in one direction.
    pub(super) zigzags: bool,
    /// How the chunks of a rank take turns.
    pub(super) turns: ChunkTurns,
    /// Micro-batches of a replica.
    pub(super) micro_batches: u32,
    /// The stages of which one is fullest.
    pub(super) occupancies: Vec<StageOccupancy>,
}

/// The chunks that stand for those between a rank's ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkKind {
    /// The first virtual stage.
    First,
    /// The last one.
    Last,
    /// One of the distinct ones between.
    Middle(usize),
    /// The most that any of those holds of each class.
    Most,
}

/// What the ranks of one stage have in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StageOccupancy {
    pub(super) stage: u32,
    /// The stage's own chunk.
    pub(super) own: ChunkKind,
    /// First, inner and last virtual stages held.
    pub(super) held: [f64; 3],
    /// Micro-batches of one chunk whose activations are held.
    pub(super) in_flight: u32,
    /// The same of the first virtual stage's embedding and of the last one's head.
    pub(super) ends: [f64; 2],
    /// Versions of the weights beside the newest.
    pub(super) older: f64,
}

impl ScheduleFacts {
    /// Asks a plan's schedule.
    pub fn new(job: &Job, plan: &Plan, chunks: &Chunks) -> Self {
        let rule = plan.schedule.rule();
        let micro_batches = plan.micro_batches(job.training.global_batch);
        let micro_batches = u32::try_from(micro_batches).unwrap_or(u32::MAX);
        let mut facts = Self {
            shares: VirtualStageShares::new(plan),
            splits: rule.splits(),
            pairs: rule.runs_pairs(),
            zigzags: zigzags(rule, plan.pipeline_shape()),
            turns: ChunkTurns::new(plan, micro_batches),
            micro_batches,
            occupancies: Vec::new(),
        };
        for stage in candidate_stages(plan, chunks) {
            let occupancy = StageOccupancy::new(plan, chunks, micro_batches, stage);
            let known = |held: &StageOccupancy| StageOccupancy { stage, ..*held } == occupancy;
            if !facts.occupancies.iter().any(known) {
                facts.occupancies.push(occupancy);
            }
        }
        facts
    }
}

/// The chunks of a rank whose passes take turns: so many of one in a row, then as many of the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ChunkTurns {
    /// Chunks; one where they do not take turns.
    pub(super) chunks: f64,
    /// Passes of a chunk in its turn.
    pub(super) passes: f64,
}

impl ChunkTurns {
    fn new(plan: &Plan, micro_batches: u32) -> Self {
        let passes = match plan.schedule {
            // the last turn is shorter where micro-batches are no multiple of stages
            Schedule::Interleaved => match micro_batches % plan.pipeline {
                0 => plan.pipeline,
                left => left,
            },
            Schedule::BreadthFirst => micro_batches,
            _ => 1,
        };
        let chunks = if passes > 1 { plan.interleave } else { 1 };
        Self {
            chunks: f64::from(chunks),
            passes: f64::from(passes),
        }
    }
}

/// The stages of which one is fullest. Where activations in flight fall along the pipeline, the first
/// stage of each kind stands for all of that kind.
fn candidate_stages(plan: &Plan, chunks: &Chunks) -> Vec<u32> {
    let last = plan.pipeline - 1;
    let falls = matches!(
        plan.schedule,
        Schedule::GPipe | Schedule::OneForwardOneBackward | Schedule::Interleaved
    );
    let mut stages = vec![0];
    if !falls {
        stages.extend(1..last);
    } else if plan.interleave > 1 {
        stages.extend((last > 1).then_some(1));
    } else {
        stages.extend(&chunks.firsts);
    }
    stages.extend((last > 0).then_some(last));
    stages
}

impl StageOccupancy {
    /// Asks a plan's schedule about one stage.
    pub(super) fn new(plan: &Plan, chunks: &Chunks, micro_batches: u32, stage: u32) -> Self {
        let (rule, shape) = (plan.schedule.rule(), plan.pipeline_shape());
        let own = match stage {
            0 => ChunkKind::First,
            s if s + 1 == plan.pipeline => ChunkKind::Last,
            s => chunks
                .kinds
                .get(s as usize - 1)
                .filter(|_| plan.interleave == 1)
                .map_or(ChunkKind::Most, |&kind| ChunkKind::Middle(kind)),
        };
        let in_flight = rule.in_flight(shape, micro_batches, stage);
        // the head's chunk is the last to go forward: one micro-batch of it, unless all go forward first
        let all_first = matches!(
            plan.schedule,
            Schedule::GPipe | Schedule::BreadthFirst | Schedule::TeraPipe
        );
        let all = f64::from(micro_batches);
        let front = match all_first {
            true => all,
            _ if stage == 0 && plan.pipeline > 1 => f64::from(in_flight.min(plan.pipeline)),
            _ => 1.0,
        };
        Self {
            stage,
            own,
            held: rule.held(shape, stage).map(f64::from),
            in_flight,
            ends: [front, if all_first { all } else { 1.0 }],
            older: f64::from(rule.versions(shape, micro_batches, stage)) - 1.0,
        }
    }
}

/// How many first, middle and last virtual stages the ranks of each position hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct VirtualStageShares {
    held: [[f64; 3]; 3],
    /// The same divided by the copies.
    runs: [[f64; 3]; 3],
    /// Copies of each stage: a rank runs a micro-batch through one of them.
    pub(super) copies: f64,
}

impl VirtualStageShares {
    fn new(plan: &Plan) -> Self {
        let (rule, shape) = (plan.schedule.rule(), plan.pipeline_shape());
        let held = [0, 1, plan.pipeline - 1].map(|device| held_virtual_stages(rule, shape, device));
        let copies = f64::from(rule.copies(shape));
        Self {
            held,
            runs: held.map(|stages| stages.map(|count| count / copies)),
            copies,
        }
    }

    /// Sum of a quantity over the virtual stages that a rank holds.
    pub(super) fn all<T>(&self, virtuals: &[T; 3], position: usize, of: impl Fn(&T) -> f64) -> f64 {
        let [first, middle, last] = self.held[position];
        first * of(&virtuals[0]) + middle * of(&virtuals[1]) + last * of(&virtuals[2])
    }

    /// What the optimizer orthogonalises of the virtual stages that a rank holds.
    pub(super) fn newton(
        &self,
        virtuals: &[VirtualStageParams; 3],
        position: usize,
    ) -> NewtonSchulz {
        let mut sum = NewtonSchulz::default();
        for (stage, count) in virtuals.iter().zip(self.held[position]) {
            sum.add(&stage.newton, count);
        }
        sum
    }

    /// The same for what a rank runs of one micro-batch.
    #[inline(always)]
    pub(super) fn passes<T, L: Lane>(
        &self,
        virtuals: &[T; 3],
        position: usize,
        of: impl Fn(&T) -> L,
    ) -> L {
        let [first, middle, last] = self.runs[position];
        of(&virtuals[0]) * first + of(&virtuals[1]) * middle + of(&virtuals[2]) * last
    }

    /// First, middle and last virtual stages that a rank holds.
    pub(super) fn counts(&self, position: usize) -> [f64; 3] {
        self.held[position]
    }

    /// First, middle and last virtual stages that a rank runs of one micro-batch.
    pub(super) fn runs(&self, position: usize) -> [f64; 3] {
        self.runs[position]
    }
}

/// True where some virtual stage does not lie on the device behind that of the one before.
fn zigzags(rule: &dyn ScheduleRule, shape: PipelineShape) -> bool {
    let last = rule.count(shape).saturating_sub(1);
    let around = |stage| rule.device(shape, stage, 0) == stage % shape.stages.max(1);
    rule.copies(shape) > 1 || !around(last)
}

fn held_virtual_stages(rule: &dyn ScheduleRule, shape: PipelineShape, device: u32) -> [f64; 3] {
    rule.held(shape, device).map(f64::from)
}

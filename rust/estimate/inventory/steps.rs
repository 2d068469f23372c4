//! What does a rank run in what order, and how long is each part?

use crate::error::{Error, Result};
use crate::estimate::block::BlockFactor;
use crate::estimate::chunk::{StageBlock, sequences};
use crate::estimate::compose::{Composer, PlanCost};
use crate::memory::placement::Window;
use crate::plan::{RecomputePolicy, Split};
use crate::schedule::{Operation, Work, order};
use crate::workload::{Block, BlockRole};

/// Most operations of a rank that are looked at one by one.
const MOST_OPERATIONS: usize = 16_384;

/// The operations of a rank and the groups of blocks that they run through.
pub(super) struct Steps<'a, 'b> {
    pub(super) composer: &'a Composer<'b>,
    pub(super) stage: u32,
    /// Operations, in order.
    pub(super) order: Vec<Operation>,
    /// Groups of blocks of each virtual stage of the model, front first.
    pub(super) groups: Vec<Vec<Vec<StageBlock>>>,
    /// First instant of each operation.
    pub(super) first: Vec<u32>,
    /// First instant of the update; it has one for each group that the rank holds.
    pub(super) update: u32,
    /// Virtual stages and groups that the rank holds, in the order of their update.
    pub(super) held: Vec<(u32, usize)>,
    /// Micro-batches of the step, and those that stand for them.
    micro_batches: [u32; 2],
}

impl<'a, 'b> Steps<'a, 'b> {
    pub(super) fn new(
        composer: &'a Composer<'b>,
        split: Split,
        (stage, instants): (u32, usize),
    ) -> Result<Self> {
        let (order, micro_batches) = representative_order(composer, stage);
        if order.len() > MOST_OPERATIONS {
            let allowed = format!("a schedule with up to {MOST_OPERATIONS} operations in flight");
            return Err(Error::invalid("plan.schedule", order.len(), allowed));
        }
        let mut held: Vec<u32> = order.iter().map(|o| o.stage).collect();
        held.sort_unstable();
        held.dedup();
        let per_pass = (instants / order.len().max(1)).max(1);
        let cut = |blocks: Vec<StageBlock>| {
            let size = blocks.len().div_ceil(per_pass).max(1);
            blocks.chunks(size).map(<[StageBlock]>::to_vec).collect()
        };
        let count = composer.chunks.count;
        let groups: Vec<Vec<Vec<StageBlock>>> =
            sequences(composer.job, composer.plan, split, count)
                .map(cut)
                .collect();
        let mut first = Vec::with_capacity(order.len());
        let mut at = 0;
        for operation in &order {
            first.push(at);
            at += u32::try_from(groups[operation.stage as usize].len()).unwrap_or(u32::MAX);
        }
        let of_stage = |&stage: &u32| (0..groups[stage as usize].len()).map(move |g| (stage, g));
        Ok(Self {
            composer,
            stage,
            held: held.iter().flat_map(of_stage).collect(),
            order,
            groups,
            first,
            update: at,
            micro_batches,
        })
    }

    /// Instants of the step.
    pub(super) fn instants(&self) -> u32 {
        self.update + u32::try_from(self.held.len()).unwrap_or(u32::MAX).max(1)
    }

    /// The instant at which an operation runs through a group: backward passes start behind.
    pub(super) fn instant(&self, operation: usize, group: usize) -> u32 {
        let of = &self.order[operation];
        let count = self.groups[of.stage as usize].len();
        let place = if of.work == Work::Forward {
            group
        } else {
            count - 1 - group
        };
        self.first[operation] + u32::try_from(place).unwrap_or(u32::MAX)
    }

    /// Blocks of a group with their factors.
    pub(super) fn blocks(
        &self,
        stage: u32,
        group: usize,
    ) -> impl Iterator<Item = (&BlockFactor, &Block, RecomputePolicy)> {
        let of = &self.composer.factors.blocks;
        let graph = &self.composer.job.graph.blocks;
        let blocks = self.groups[stage as usize][group].iter();
        blocks.map(move |placed| (&of[placed.block], &graph[placed.block], placed.again))
    }

    /// True where a group has a block of this role.
    pub(super) fn has(&self, stage: u32, group: usize, role: BlockRole) -> bool {
        self.blocks(stage, group)
            .any(|(_, block, _)| block.role == role)
    }

    /// Operations on a virtual stage, with their place in the order.
    pub(super) fn on(&self, stage: u32) -> impl Iterator<Item = (usize, &Operation)> {
        let all = self.order.iter().enumerate();
        all.filter(move |(_, operation)| operation.stage == stage)
    }

    /// A window for each operation and one for the update. All together last as long as the rank
    /// works in a step: each stands for as many as there are like it, but the last pass of the step
    /// for itself alone, since gradients are whole when it ends.
    pub(super) fn windows(&self, composed: &PlanCost) -> Vec<Window> {
        let times: Vec<f64> = self.order.iter().map(|o| self.seconds(o)).collect();
        let [count, few] = self.micro_batches.map(f64::from);
        let all: f64 = times.iter().sum();
        let last = times.last().copied().unwrap_or(0.0);
        let whole = all * count / few;
        // passes that run in pairs take less than their sum
        let shrink = if whole > 0.0 {
            (composed.parts.pipeline / whole).min(1.0)
        } else {
            1.0
        };
        let repeats = if all > last {
            (whole - last) / (all - last)
        } else {
            1.0
        };
        let mut windows: Vec<Window> = self
            .order
            .iter()
            .zip(&times)
            .enumerate()
            .map(|(index, (operation, seconds))| Window {
                name: name(operation),
                compute_s: seconds * shrink,
                instants: u32::try_from(self.groups[operation.stage as usize].len())
                    .unwrap_or(u32::MAX),
                repeats: if index + 1 == times.len() {
                    1.0
                } else {
                    repeats
                },
            })
            .collect();
        windows.push(Window {
            name: "update".to_owned(),
            compute_s: composed.parts.optimizer,
            instants: self.instants() - self.update,
            repeats: 1.0,
        });
        windows
    }

    fn seconds(&self, operation: &Operation) -> f64 {
        let last = self.composer.chunks.count - 1;
        let position = match u64::from(operation.stage) {
            0 => 0,
            stage if stage == last => 2,
            _ => 1,
        };
        let times = self.composer.pass_seconds(position);
        let one = match operation.work {
            Work::Forward => times.forward,
            Work::Backward | Work::Local(_) => times.backward,
            Work::Input => times.backward - times.weight,
            Work::Weight => times.weight,
        };
        one * f64::from(operation.span)
    }
}

/// The operations of a rank with as few micro-batches as fill the pipeline as all of them do; how many
/// the step has, and how many stand for them.
pub(super) fn representative_order(composer: &Composer, stage: u32) -> (Vec<Operation>, [u32; 2]) {
    let plan = composer.plan;
    let (rule, shape) = (plan.schedule.rule(), plan.pipeline_shape());
    let count = plan.micro_batches(composer.job.training.global_batch);
    let count = rule.executed(shape, u32::try_from(count).unwrap_or(u32::MAX));
    // as few micro-batches as fill the pipeline as all of them do
    let most = rule.in_flight(shape, count, stage);
    let fills = |few: &u32| {
        rule.check(shape, *few).is_ok()
            && rule.executed(shape, *few) == *few
            && rule.in_flight(shape, *few, stage) == most
    };
    let few = (2..count).find(fills).unwrap_or(count);
    let order = order(plan.schedule, stage, shape, few);
    (order, [count, few])
}

fn name(operation: &Operation) -> String {
    let work = match operation.work {
        Work::Forward => "forward",
        Work::Backward | Work::Local(_) => "backward",
        Work::Input => "input gradients",
        Work::Weight => "weight gradients",
    };
    format!(
        "{work} {} of stage {}",
        operation.micro_batch, operation.stage
    )
}

//! Which tasks does a step consist of, in the order of its schedule?

use super::Category;
use super::MOST_TASKS;
use super::builder::{OperationChain, Owner, TimelineBuilder};
use super::pieces::{Piece, Pieces, level};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::estimate::chunk::{StageBlock, sequences};
use crate::estimate::compose::Composer;
use crate::estimate::price::Pricer;
use crate::estimate::slices::programs;
use crate::plan::{BlockProgram, Mesh, Plan, RecomputePolicy, Split};
use crate::schedule::{Operation, PipelineShape, Schedule, Work, order};
use crate::solve::Dependency;

/// A step while it is laid out.
pub(super) struct StepLayout<'a, 'b> {
    pub(super) composer: &'a Composer<'b>,
    pub(super) state: TimelineBuilder,
    /// Blocks of each virtual stage along the model.
    pub(super) sequences: Vec<Vec<StageBlock>>,
    /// By slice of a sequence, block and policy of recomputation.
    pub(super) pieces: Vec<Vec<[Pieces; 3]>>,
    pub(super) orders: Vec<Vec<Operation>>,
    /// Level that gradients and gathered weights cross.
    pub(super) replicas: usize,
    /// What each device's blocks have left to wait for.
    pub(super) devices: Vec<DeviceProgress>,
    next: Vec<usize>,
    /// End of each forward and backward pass by stage and micro-batch.
    ended: [Vec<Option<Dependency>>; 2],
    /// Slices of all micro-batches.
    units: u32,
}

/// What a device has run last.
#[derive(Debug, Clone, Default)]
pub(super) struct DeviceProgress {
    /// Ends of the last block and of the one before.
    pub(super) recent: [Vec<Dependency>; 2],
    /// Reductions that the optimizer waits for.
    pub(super) reductions: Vec<Dependency>,
    /// True once updated weights have been gathered, where no pass hides it.
    pub(super) gathered: bool,
    /// Micro-batches whose gradients each virtual stage has still to add here.
    gradients_left: Vec<u32>,
    /// Micro-batches that each virtual stage has run forward here.
    forwards: Vec<u32>,
    /// Ends of its last operation.
    pub(super) last: Vec<Dependency>,
}

/// One operation while it is laid out.
struct OpenOperation {
    operation: Operation,
    /// Micro-batch, or slice of one, counted over all of them.
    unit: u32,
    blocks: Vec<StageBlock>,
    block: usize,
    piece: usize,
    chain: OperationChain,
    /// What the pass waits for: nothing comes from the host before.
    begin: Vec<Dependency>,
    /// Copies to the host with which the pass ends.
    copies: Vec<Dependency>,
}

impl<'a, 'b> StepLayout<'a, 'b> {
    /// Prices the pieces of every block and lays out the orders.
    pub(super) fn new(composer: &'a Composer<'b>, split: Split) -> Result<Self> {
        let (job, plan) = (composer.job, composer.plan);
        let (kind, shape) = sliced_order(plan);
        let count = plan.micro_batches(job.training.global_batch);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let units = kind.rule().executed(shape, count);
        let mut state = TimelineBuilder::new(plan.pipeline, &job.cluster);
        let mut pricer = Pricer::new(&job.cluster);
        let count_of = u64::from(plan.virtual_stages());
        let sequences: Vec<Vec<StageBlock>> = sequences(job, plan, split, count_of).collect();
        let mut priced = |block: usize, program: &BlockProgram| {
            RecomputePolicy::ALL.map(|again| {
                let placed = StageBlock { block, again };
                if sequences.iter().flatten().any(|other| *other == placed) {
                    Pieces::new(job, placed, program, (&mut pricer, &mut state.labels))
                } else {
                    Pieces::default()
                }
            })
        };
        let mut pieces: Vec<Vec<[Pieces; 3]>> = vec![Vec::new(); plan.token_slices.count()];
        for block in 0..job.graph.blocks.len() {
            for (slice, program) in pieces.iter_mut().zip(programs(job, plan, block)) {
                slice.push(priced(block, &program));
            }
        }
        check_size(&sequences, &pieces, units)?;
        let orders: Vec<Vec<Operation>> = (0..plan.pipeline)
            .map(|device| order(kind, device, shape, count))
            .collect();
        let mesh = Mesh::new(plan);
        let spans = [mesh.replicas, mesh.expert_replicas];
        let levels = spans.map(|span| level(&job.cluster, span));
        let count = sequences.len();
        let cells = count * units as usize;
        Ok(Self {
            composer,
            state,
            sequences,
            pieces,
            next: vec![0; orders.len()],
            devices: orders
                .iter()
                .map(|o| DeviceProgress::new(o, count))
                .collect(),
            orders,
            replicas: levels[0].max(levels[1]),
            ended: [vec![None; cells], vec![None; cells]],
            units,
        })
    }

    /// Lays out every operation, then what follows the last backward pass.
    pub(super) fn lay_out(&mut self, control: &Control) -> Result<()> {
        let mut left: usize = self.orders.iter().map(Vec::len).sum();
        while left > 0 {
            let before = left;
            for device in 0..self.orders.len() {
                while let Some(taken) = self.lay_next(device) {
                    left -= taken;
                    if control.is_cancelled() {
                        let what = format!("{} tasks laid out", self.state.tasks.len());
                        return Err(Error::Cancelled { what });
                    }
                }
            }
            if left == before {
                let name = self.composer.plan.schedule.rule().name();
                return Err(Error::inconsistent(format!(
                    "plan.schedule: the order of {name} waits in a circle"
                )));
            }
        }
        self.finish_step();
        Ok(())
    }

    /// Lays out a device's next operation, or two that run together; says how many.
    fn lay_next(&mut self, device: usize) -> Option<usize> {
        let place = self.next[device];
        let first = *self.orders[device].get(place)?;
        let second = self.orders[device].get(place + 1).copied();
        let second = second.filter(|_| first.paired);
        let mut open = Vec::new();
        for operation in [Some(first), second].into_iter().flatten() {
            for unit in operation.micro_batch..operation.micro_batch + operation.span {
                let inputs = self.inputs(operation, unit)?;
                open.push(self.open(operation, unit, inputs));
            }
        }
        // weights are not fetched ahead over the border of two passes
        let here = &mut self.devices[device];
        let last = std::mem::take(&mut here.last);
        for one in &mut open {
            one.chain.after.extend_from_slice(&last);
            one.begin.clone_from(&one.chain.after);
        }
        here.recent = [last.clone(), last];
        self.run(device, &mut open);
        for done in open {
            self.close(device, done);
        }
        let taken = 1 + usize::from(second.is_some());
        self.next[device] += taken;
        Some(taken)
    }

    /// What an operation waits for on other ranks, or nothing while that is not laid out.
    fn inputs(&self, operation: Operation, unit: u32) -> Option<Vec<Dependency>> {
        let last = self.sequences.len() - 1;
        let stage = operation.stage as usize;
        let ended = |lane: usize, stage: usize| {
            self.ended[lane][stage * self.units as usize + unit as usize]
        };
        match operation.work {
            Work::Forward if stage == 0 => Some(Vec::new()),
            Work::Forward => Some(vec![ended(0, stage - 1)?]),
            Work::Weight => Some(vec![ended(1, stage)?]),
            _ if stage == last => Some(vec![ended(0, stage)?]),
            _ => Some(vec![ended(0, stage)?, ended(1, stage + 1)?]),
        }
    }

    fn open(&self, operation: Operation, unit: u32, after: Vec<Dependency>) -> OpenOperation {
        let mut blocks = self.sequences[operation.stage as usize].clone();
        if operation.work != Work::Forward {
            blocks.reverse();
        }
        OpenOperation {
            operation,
            unit,
            blocks,
            block: 0,
            piece: 0,
            chain: OperationChain::new(after),
            begin: Vec::new(),
            copies: Vec::new(),
        }
    }

    /// Lays out operations side by side: where one waits for a collective, the next goes on.
    fn run(&mut self, device: usize, open: &mut [OpenOperation]) {
        let mut left = open.len();
        while left > 0 {
            left = 0;
            for one in &mut *open {
                if self.run_to_collective(device, one) {
                    left += 1;
                }
            }
        }
    }

    /// Lays out an operation up to its next collective; true while more of it is left.
    fn run_to_collective(&mut self, device: usize, open: &mut OpenOperation) -> bool {
        while let Some(&block) = open.blocks.get(open.block) {
            if open.piece == 0 {
                self.enter(device, block, open);
            }
            let piece = self
                .pass(block, open.operation.work, self.slice(open.unit))
                .get(open.piece)
                .cloned();
            let Some(piece) = piece else {
                self.leave(device, block, open);
                open.block += 1;
                open.piece = 0;
                continue;
            };
            open.piece += 1;
            let owner = self.owner(open);
            self.state.piece(device, &piece, owner, &mut open.chain);
            if piece.waits() {
                return true;
            }
        }
        false
    }

    /// Which slice of its sequence a unit is.
    pub(super) fn slice(&self, unit: u32) -> usize {
        unit as usize % self.pieces.len()
    }

    /// Seconds of a unit's tensor over a border.
    fn hop(&self, unit: u32, border: u32) -> f64 {
        let state = self.composer.state;
        let sliced = state.slices.get(self.slice(unit));
        sliced.unwrap_or(state).borders.at(border)
    }

    fn pass(&self, placed: StageBlock, work: Work, slice: usize) -> &[Piece] {
        let pieces = &self.pieces[slice][placed.block][placed.again as usize];
        match work {
            Work::Forward => &pieces.forward,
            Work::Input => &pieces.input,
            Work::Weight => &pieces.weight,
            Work::Backward | Work::Local(_) => &pieces.backward,
        }
    }

    fn enter(&mut self, device: usize, block: StageBlock, open: &mut OpenOperation) {
        let Operation { work, stage, .. } = open.operation;
        let before = self.devices[device].forwards[stage as usize];
        if work != Work::Weight {
            let first = work == Work::Forward && before == 0;
            self.gather(device, block.block, first, &mut open.chain);
        }
        if !matches!(work, Work::Forward | Work::Weight) {
            let ahead = if open.block < 2 {
                open.begin.clone()
            } else {
                self.devices[device].recent[0].clone()
            };
            self.copy_from_host(
                device,
                (block, self.slice(open.unit)),
                &ahead,
                &mut open.chain,
            );
        }
    }

    fn leave(&mut self, device: usize, block: StageBlock, open: &mut OpenOperation) {
        if matches!(open.operation.work, Work::Backward | Work::Weight) {
            let stage = open.operation.stage;
            let last = self.devices[device].gradients_left[stage as usize] == 1;
            self.reduce(device, block.block, last, &mut open.chain);
        }
        let recent = &mut self.devices[device].recent;
        recent.swap(0, 1);
        recent[1].clone_from(&open.chain.after);
        if open.operation.work == Work::Forward {
            let placed = (block, self.slice(open.unit));
            open.copies
                .extend(self.copy_to_host(device, placed, &open.chain.after));
            if open.block + 1 == open.blocks.len() {
                open.chain.after.append(&mut open.copies);
            }
        }
    }

    /// Sends an operation's result on and notes its end.
    fn close(&mut self, device: usize, mut open: OpenOperation) {
        let Operation { work, stage, .. } = open.operation;
        let count = self.sequences.len();
        let here = &mut self.devices[device];
        match work {
            Work::Backward | Work::Weight => here.gradients_left[stage as usize] -= 1,
            Work::Forward => here.forwards[stage as usize] += 1,
            _ => {}
        }
        let to = match work {
            Work::Forward => Some(stage + 1).filter(|to| (*to as usize) < count),
            Work::Weight => None,
            _ => stage.checked_sub(1),
        };
        let plan = self.composer.plan;
        let (rule, shape) = (plan.schedule.rule(), plan.pipeline_shape());
        let place = |stage| rule.device(shape, stage, open.unit);
        let away = to.filter(|&to| place(to) != place(stage));
        let owner = self.owner(&open);
        let owner = match away {
            Some(_) => Owner {
                category: Category::Send,
                ..owner
            },
            None => owner,
        };
        let border = to.map_or(stage, |to| to.min(stage));
        let hop = (self.hop(open.unit, border), "send");
        let after = std::mem::take(&mut open.chain.after);
        let sends_on = away.is_some() && plan.overlap_pipeline;
        let end = if sends_on {
            let direction = usize::from(work != Work::Forward);
            let label = self.state.labels.of(hop.1);
            let engine = self.state.ranks[device].sends[direction];
            self.devices[device].last.extend_from_slice(&after);
            self.state.add(engine, (hop.0, label), owner, &after)
        } else if away.is_some() {
            self.state.kernel(device, hop, owner, &after)
        } else if let [only] = after[..] {
            only
        } else {
            self.state.kernel(device, (0.0, "join"), owner, &after)
        };
        if !sends_on {
            self.devices[device].last.push(end);
        }
        let cell = stage as usize * self.units as usize + open.unit as usize;
        match work {
            Work::Forward => self.ended[0][cell] = Some(end),
            Work::Weight => {}
            _ => self.ended[1][cell] = Some(end),
        }
    }
}

impl DeviceProgress {
    /// A device that has run nothing of its order yet.
    fn new(order: &[Operation], count: usize) -> Self {
        let mut device = Self {
            gradients_left: vec![0; count],
            forwards: vec![0; count],
            ..Self::default()
        };
        for operation in order {
            if matches!(operation.work, Work::Backward | Work::Weight) {
                device.gradients_left[operation.stage as usize] += operation.span;
            }
        }
        device
    }
}

/// The schedule that a plan runs and its shape, slices of sequences counted.
fn sliced_order(plan: &Plan) -> (Schedule, PipelineShape) {
    let shape = plan.pipeline_shape();
    if !plan.token_slices.cuts() {
        return (plan.schedule, shape);
    }
    let slices = u32::try_from(plan.token_slices.count()).unwrap_or(u32::MAX);
    (Schedule::TeraPipe, PipelineShape { slices, ..shape })
}

impl StepLayout<'_, '_> {
    fn owner(&self, open: &OpenOperation) -> Owner {
        let slices = u32::try_from(self.pieces.len()).unwrap_or(u32::MAX);
        Owner {
            category: match open.operation.work {
                Work::Forward => Category::Forward,
                Work::Input => Category::Input,
                Work::Weight => Category::Weight,
                Work::Backward | Work::Local(_) => Category::Backward,
            },
            micro_batch: i32::try_from(open.unit / slices).unwrap_or(i32::MAX),
            stage: i32::try_from(open.operation.stage).unwrap_or(i32::MAX),
        }
    }
}

/// Refuses steps that would fill the memory with tasks.
fn check_size(
    sequences: &[Vec<StageBlock>],
    pieces: &[Vec<[Pieces; 3]>],
    units: u32,
) -> Result<()> {
    let of = |slice: &Vec<[Pieces; 3]>| -> usize {
        let placed = sequences.iter().flatten();
        placed
            .map(|placed| slice[placed.block][placed.again as usize].tasks() + 4)
            .sum()
    };
    let each: usize = pieces.iter().map(of).sum();
    let tasks = each.saturating_mul(units as usize / pieces.len().max(1));
    if tasks > MOST_TASKS {
        let allowed = format!("up to {MOST_TASKS} tasks of all stages and micro-batches");
        return Err(Error::invalid(
            "timeline",
            format!("{tasks} tasks"),
            allowed,
        ));
    }
    Ok(())
}

//! When does each pass, copy and update of an offloaded step start and end?

use crate::error::Result;
use crate::solve::{Dependency, QueueDiscipline, Tasks, simulate};
use serde::Serialize;

/// What works on one thing at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// The device's compute units.
    Compute,
    /// The fabric between devices.
    Fabric,
    /// Copies from the host's memory to the device.
    FromHost,
    /// Copies from the device to the host's memory.
    ToHost,
    /// Reads of the drives.
    FromDrive,
    /// Writes of the drives.
    ToDrive,
    /// The host's processor.
    Host,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Compute,
        Self::Fabric,
        Self::FromHost,
        Self::ToHost,
        Self::FromDrive,
        Self::ToDrive,
        Self::Host,
    ];
}

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskKind {
    /// Forward pass of a layer.
    Forward,
    /// Backward pass, with what is recomputed.
    Backward,
    /// Something that a pass needs comes nearer to the device.
    Load,
    /// Room is made on the device.
    Evict,
    /// What a pass made goes away from the device.
    Store,
    /// Weights and optimizer state are updated.
    Update,
    /// Updated weights come back to the device.
    Return,
}

/// A copy, a collective or nothing (of 0 seconds).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Move {
    pub(super) engine: Engine,
    pub(super) seconds: f64,
    /// How many passes ahead of its own it may begin; 0: when the pass before has ended.
    pub(super) ahead: usize,
}

impl Move {
    pub(super) const NONE: Self = Self::on(Engine::Fabric, 0.0, 0);

    pub(super) const fn on(engine: Engine, seconds: f64, ahead: usize) -> Self {
        Self {
            engine,
            seconds,
            ahead,
        }
    }
}

/// One layer's forward or backward pass, what must come before it and what goes after it, in order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pass {
    pub(super) layer: usize,
    pub(super) backward: bool,
    pub(super) seconds: f64,
    pub(super) before: [Move; 3],
    pub(super) after: [Move; 3],
    /// An earlier pass whose stores its loads bring back.
    pub(super) needs: Option<usize>,
}

/// The update of one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Update {
    pub(super) layer: usize,
    /// Reads of the drives, and copies of gradients to the host.
    pub(super) read: f64,
    pub(super) down: f64,
    /// The update itself, and who does it.
    pub(super) engine: Engine,
    pub(super) seconds: f64,
    /// Writes of the drives, copies to the device, and the gather of what other ranks updated.
    pub(super) write: f64,
    pub(super) back: f64,
    pub(super) gather: f64,
    /// The last pass that adds to its gradients.
    pub(super) pass: usize,
}

impl Update {
    /// Nothing to be done.
    pub(super) const fn none(engine: Engine) -> Self {
        Self {
            layer: 0,
            read: 0.0,
            down: 0.0,
            engine,
            seconds: 0.0,
            write: 0.0,
            back: 0.0,
            gather: 0.0,
            pass: 0,
        }
    }
}

/// A step of one device, as passes and updates in the order in which they are asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Step {
    pub(super) passes: Vec<Pass>,
    pub(super) updates: Vec<Update>,
    /// True where nothing runs beside anything else.
    pub(super) serial: bool,
    /// True where updates wait for all gradients, whose norm clips them.
    pub(super) clipped: bool,
    /// Updates that the weights of a pass may lack: 1 where the update is delayed.
    pub(super) delay: usize,
}

/// Passes whose stores may be on their way when another pass begins: two buffers.
const STORES: usize = 2;
/// Layers of optimizer state in host memory beside the drives: read, updated, written.
pub(super) const STAGED: usize = 3;

/// A task as it ran.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Span {
    /// Who did it.
    pub engine: Engine,
    /// What it did.
    pub doing: TaskKind,
    /// Layer, the embedding among them.
    pub layer: usize,
    /// Start, seconds.
    pub start_s: f64,
    /// End, seconds.
    pub end_s: f64,
}

/// A step as it ran.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct StepRun {
    /// End of everything.
    pub(super) end: f64,
    /// End of the last pass, and of the last of what the passes store.
    pub(super) passes: f64,
    pub(super) stores: f64,
    /// Seconds for which each engine works.
    pub(super) busy: [f64; 7],
    pub(super) spans: Vec<Span>,
}

impl Step {
    /// Runs `rounds` such steps one behind the other.
    pub(super) fn run(&self, rounds: usize) -> Result<StepRun> {
        let mut lay = StepLayout::new(self);
        for _ in 0..rounds {
            lay.round();
        }
        lay.finish()
    }
}

/// Tasks of a step while they are laid out.
struct StepLayout<'a> {
    step: &'a Step,
    tasks: Tasks,
    what: Vec<(Engine, TaskKind, usize)>,
    /// Of this round: passes, the last load of each pass so far, the last store of each.
    done: Vec<u32>,
    loaded: Vec<Option<u32>>,
    stored: Vec<Option<u32>>,
    /// What the passes of a round must wait for, by round.
    fresh: Vec<Vec<Dependency>>,
    last_pass: Option<u32>,
    /// The last store of this round by the engine that ends it: engines keep their order.
    last_stores: [Option<u32>; 7],
    /// Most passes that any load runs ahead.
    most_ahead: usize,
}

fn after(task: u32) -> Dependency {
    Dependency { task, delay: 0.0 }
}

impl<'a> StepLayout<'a> {
    fn new(step: &'a Step) -> Self {
        let mut tasks = Tasks::new();
        for _ in Engine::ALL {
            tasks.engine(QueueDiscipline::Added);
        }
        let moves = step.passes.iter().flat_map(|pass| pass.before);
        Self {
            step,
            tasks,
            what: Vec::new(),
            done: Vec::new(),
            loaded: Vec::new(),
            stored: Vec::new(),
            fresh: Vec::new(),
            last_pass: None,
            last_stores: [None; 7],
            most_ahead: moves.map(|found| found.ahead).max().unwrap_or(0),
        }
    }

    fn add(
        &mut self,
        engine: Engine,
        doing: TaskKind,
        layer: usize,
        of: f64,
        waits: &[Dependency],
    ) -> u32 {
        self.what.push((engine, doing, layer));
        self.tasks.add(engine as u32, of, waits)
    }

    fn round(&mut self) {
        let count = self.step.passes.len();
        self.done.clear();
        self.loaded = vec![None; count];
        self.stored = vec![None; count];
        self.last_stores = [None; 7];
        for turn in 0..count {
            self.loads(turn);
            self.pass(turn);
            self.stores(turn);
        }
        self.updates();
    }

    /// Loads that may begin when the pass at `turn` does, those of earlier passes first.
    fn loads(&mut self, turn: usize) {
        let step = self.step;
        let near = step.passes.iter().enumerate().skip(turn);
        for (number, pass) in near.take(self.most_ahead + 1) {
            let mut ahead = usize::MAX;
            for found in pass.before {
                // nothing overtakes what it comes through
                ahead = if step.serial {
                    0
                } else {
                    ahead.min(found.ahead)
                };
                if found.seconds > 0.0 && number.saturating_sub(ahead) == turn {
                    self.load(turn, number, found);
                }
            }
        }
    }

    fn load(&mut self, turn: usize, number: usize, found: Move) {
        let pass = &self.step.passes[number];
        let mut waits: Vec<Dependency> = Vec::new();
        match self.loaded[number] {
            Some(nearer) => waits.push(after(nearer)),
            None => waits.extend(self.gate()),
        }
        if let Some(before) = turn.checked_sub(1) {
            waits.push(after(self.done[before]));
            if self.step.serial {
                waits.extend(self.stored[before].map(after));
            }
        }
        waits.extend(pass.needs.and_then(|at| self.stored[at]).map(after));
        let doing = if found.engine == Engine::ToHost {
            TaskKind::Evict
        } else {
            TaskKind::Load
        };
        let task = self.add(found.engine, doing, pass.layer, found.seconds, &waits);
        self.loaded[number] = Some(task);
    }

    /// The updates that the weights of this round must hold.
    fn gate(&self) -> Vec<Dependency> {
        let round = self.fresh.len().checked_sub(1 + self.step.delay);
        round.map_or(Vec::new(), |round| self.fresh[round].clone())
    }

    fn pass(&mut self, turn: usize) {
        let pass = self.step.passes[turn];
        let mut waits: Vec<Dependency> = self.loaded[turn].map(after).into_iter().collect();
        if turn == 0 {
            waits.extend(self.gate());
        }
        let room = if self.step.serial { 1 } else { STORES };
        let full = turn.checked_sub(room).and_then(|at| self.stored[at]);
        waits.extend(full.map(after));
        let doing = if pass.backward {
            TaskKind::Backward
        } else {
            TaskKind::Forward
        };
        let task = self.add(Engine::Compute, doing, pass.layer, pass.seconds, &waits);
        self.done.push(task);
        self.last_pass = Some(task);
    }

    fn stores(&mut self, turn: usize) {
        let pass = self.step.passes[turn];
        let mut last = self.done[turn];
        for found in pass.after.iter().filter(|found| found.seconds > 0.0) {
            let (engine, seconds) = (found.engine, found.seconds);
            last = self.add(engine, TaskKind::Store, pass.layer, seconds, &[after(last)]);
            self.stored[turn] = Some(last);
            self.last_stores[engine as usize] = Some(last);
        }
    }

    fn updates(&mut self) {
        let step = self.step;
        let mut all: Vec<Dependency> = self
            .last_stores
            .iter()
            .flatten()
            .copied()
            .map(after)
            .collect();
        all.extend(self.done.last().copied().map(after));
        let mut written: Vec<u32> = Vec::with_capacity(step.updates.len());
        let mut ends: [Option<u32>; 7] = [None; 7];
        for (turn, update) in step.updates.iter().enumerate() {
            let mut waits = vec![after(self.done[update.pass])];
            waits.extend(self.stored[update.pass].map(after));
            if step.clipped {
                waits.extend(&all);
            }
            waits.extend(turn.checked_sub(STAGED).map(|at| after(written[at])));
            if let (true, Some(before)) = (step.serial, written.last()) {
                waits.push(after(*before));
            }
            let mut last = None;
            let moves = [
                (Engine::FromDrive, TaskKind::Load, update.read),
                (Engine::ToHost, TaskKind::Store, update.down),
                (update.engine, TaskKind::Update, update.seconds),
                (Engine::ToDrive, TaskKind::Store, update.write),
                (Engine::FromHost, TaskKind::Return, update.back),
                (Engine::Fabric, TaskKind::Return, update.gather),
            ];
            for (engine, doing, seconds) in moves.into_iter().filter(|found| found.2 > 0.0) {
                let chained = last.map(after);
                let from = chained.as_ref().map_or(&waits[..], std::slice::from_ref);
                last = Some(self.add(engine, doing, update.layer, seconds, from));
                ends[engine as usize] = last;
            }
            written.push(last.unwrap_or(self.done[update.pass]));
        }
        all.extend(ends.into_iter().flatten().map(after));
        self.fresh.push(all);
    }

    fn finish(self) -> Result<StepRun> {
        let line = simulate(&self.tasks)?;
        let end_of = |task: u32| line.end[task as usize];
        let mut ran = StepRun {
            end: line.makespan(),
            passes: self.last_pass.map_or(0.0, end_of),
            spans: Vec::with_capacity(self.what.len()),
            ..StepRun::default()
        };
        let stores = self.last_stores.iter().flatten().map(|&task| end_of(task));
        ran.stores = stores.fold(ran.passes, f64::max);
        for (index, &(engine, doing, layer)) in self.what.iter().enumerate() {
            let (start_s, end_s) = (line.start[index], line.end[index]);
            ran.busy[engine as usize] += end_s - start_s;
            ran.spans.push(Span {
                engine,
                doing,
                layer,
                start_s,
                end_s,
            });
        }
        Ok(ran)
    }
}

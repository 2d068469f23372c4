//! Times where engines take what is ready first, or work slower while others run.

use super::tasks::{QueueDiscipline, Tasks, Timeline};
use crate::error::Result;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No task.
const NONE: u32 = u32::MAX;

/// Steps from event to event: a task is ready, or an engine has finished.
pub(super) fn run(tasks: &Tasks) -> Result<Timeline> {
    let mut state = State::new(tasks);
    while let Some(Reverse(event)) = state.events.pop() {
        state.now = event.time;
        match event.what {
            EventKind::Ready(task) => state.arrive(task),
            EventKind::Finished { engine, stamp } => {
                if state.engines[engine as usize].stamp == stamp {
                    state.finish(engine as usize);
                }
            }
        }
    }
    match state.missing.iter().position(|&missing| missing != DONE) {
        Some(stuck) => {
            let done = state.missing.iter().filter(|&&m| m == DONE).count();
            Err(tasks.circle(done, stuck))
        }
        None => Ok(state.line),
    }
}

/// In place of missing inputs: the task has ended.
const DONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Event {
    time: f64,
    what: EventKind,
}

/// Finishes come before arrivals at the same time, lower numbers first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    Finished { engine: u32, stamp: u32 },
    Ready(u32),
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.time
            .total_cmp(&other.time)
            .then(self.what.cmp(&other.what))
    }
}

/// What an engine is doing.
#[derive(Debug, Clone, Copy)]
struct Engine {
    task: u32,
    /// Work left of it at `since`, in seconds at full speed.
    left: f64,
    since: f64,
    /// Seconds that a second of work takes now.
    slowness: f64,
    /// Changes with every change of pace, so that an outdated finish is known.
    stamp: u32,
}

struct State<'a> {
    tasks: &'a Tasks,
    now: f64,
    events: BinaryHeap<Reverse<Event>>,
    engines: Vec<Engine>,
    /// Ready tasks of each engine that takes the first that is ready, the next on top.
    ready: Vec<BinaryHeap<Reverse<(u64, u32)>>>,
    /// True for the ready tasks of the other engines.
    set: Vec<bool>,
    /// Tasks in the order of each engine, for engines that keep to it.
    queue: Vec<u32>,
    next: Vec<u32>,
    begins: Vec<u32>,
    missing: Vec<u32>,
    earliest: Vec<f64>,
    outputs: Vec<(u32, f64)>,
    output_begins: Vec<u32>,
    arrivals: u64,
    /// Who slows each engine and by how much, and which engines each one slows.
    slowed_by: Vec<Vec<(u32, f64)>>,
    slows: Vec<Vec<u32>>,
    line: Timeline,
}

impl<'a> State<'a> {
    fn new(tasks: &'a Tasks) -> Self {
        let (queue, begins) = tasks.by_engine();
        let engines = begins.len() - 1;
        let (outputs, output_begins) = outputs(tasks);
        let missing: Vec<u32> = tasks
            .begins
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect();
        let idle = Engine {
            task: NONE,
            left: 0.0,
            since: 0.0,
            slowness: 1.0,
            stamp: 0,
        };
        let mut state = Self {
            tasks,
            now: 0.0,
            events: BinaryHeap::new(),
            engines: vec![idle; engines],
            ready: vec![BinaryHeap::new(); engines],
            set: vec![false; tasks.len()],
            queue,
            next: begins[..engines].to_vec(),
            begins,
            earliest: vec![0.0; tasks.len()],
            outputs,
            output_begins,
            arrivals: 0,
            slowed_by: slowed_by(tasks),
            slows: slows(tasks),
            line: Timeline {
                start: vec![0.0; tasks.len()],
                end: vec![0.0; tasks.len()],
            },
            missing,
        };
        for (task, &missing) in (0_u32..).zip(&state.missing) {
            if missing == 0 {
                let what = EventKind::Ready(task);
                state.events.push(Reverse(Event { time: 0.0, what }));
            }
        }
        state
    }

    /// A task's inputs are all there.
    fn arrive(&mut self, task: u32) {
        let engine = self.tasks.engines[task as usize] as usize;
        match self.tasks.turns[engine] {
            QueueDiscipline::Ready => {
                self.arrivals += 1;
                self.ready[engine].push(Reverse((self.arrivals, task)));
            }
            QueueDiscipline::Added => self.set[task as usize] = true,
        }
        self.begin(engine);
    }

    /// The task that an idle engine starts now, if one may start.
    fn next_task(&mut self, engine: usize) -> Option<u32> {
        if self.tasks.turns[engine] == QueueDiscipline::Ready {
            return self.ready[engine].pop().map(|Reverse((_, task))| task);
        }
        let next = self.next[engine];
        let task = *self.queue[..self.begins[engine + 1] as usize].get(next as usize)?;
        self.set[task as usize].then(|| {
            self.next[engine] += 1;
            task
        })
    }

    /// Starts the engine's next task if it is idle and may.
    fn begin(&mut self, engine: usize) {
        if self.engines[engine].task != NONE {
            return;
        }
        let Some(task) = self.next_task(engine) else {
            return;
        };
        self.line.start[task as usize] = self.now;
        let slowness = self.slowness(engine);
        let state = &mut self.engines[engine];
        state.task = task;
        state.left = self.tasks.durations[task as usize];
        state.since = self.now;
        state.slowness = slowness;
        self.schedule_end(engine);
        self.update_slowed(engine);
    }

    /// Ends the engine's task and hands its result on.
    fn finish(&mut self, engine: usize) {
        let task = std::mem::replace(&mut self.engines[engine].task, NONE) as usize;
        self.line.end[task] = self.now;
        self.missing[task] = DONE;
        let outputs = self.output_begins[task] as usize..self.output_begins[task + 1] as usize;
        for index in outputs {
            let (next, delay) = self.outputs[index];
            let next_index = next as usize;
            let time = self.earliest[next_index].max(self.now + delay);
            self.earliest[next_index] = time;
            self.missing[next_index] -= 1;
            if self.missing[next_index] > 0 {
                continue;
            }
            let at = self.tasks.engines[next_index] as usize;
            if time <= self.now && self.tasks.turns[at] == QueueDiscipline::Added {
                // its place in the order is known: no need to wait for others of this moment
                self.arrive(next);
            } else {
                let what = EventKind::Ready(next);
                self.events.push(Reverse(Event { time, what }));
            }
        }
        self.update_slowed(engine);
        self.begin(engine);
    }

    /// How many seconds a second of the engine's work takes beside what runs now.
    fn slowness(&self, engine: usize) -> f64 {
        let active = |(by, _): &&(u32, f64)| self.engines[*by as usize].task != NONE;
        let active = self.slowed_by[engine].iter().filter(active);
        active.map(|(_, factor)| factor).product()
    }

    /// Sets the pace of all engines that `engine` slows anew.
    fn update_slowed(&mut self, engine: usize) {
        for index in 0..self.slows[engine].len() {
            let other = self.slows[engine][index] as usize;
            if self.engines[other].task == NONE {
                continue;
            }
            let slowness = self.slowness(other);
            let state = &mut self.engines[other];
            if slowness.total_cmp(&state.slowness).is_eq() {
                continue;
            }
            let worked = (self.now - state.since) / state.slowness;
            state.left = (state.left - worked).max(0.0);
            state.since = self.now;
            state.slowness = slowness;
            self.schedule_end(other);
        }
    }

    /// Says when the engine's task will end if nothing changes.
    fn schedule_end(&mut self, engine: usize) {
        let state = &mut self.engines[engine];
        state.stamp += 1;
        let time = state.since + state.left * state.slowness;
        let (engine, stamp) = (u32::try_from(engine).unwrap_or(NONE), state.stamp);
        let what = EventKind::Finished { engine, stamp };
        self.events.push(Reverse(Event { time, what }));
    }
}

/// Who slows each engine, and by how much.
fn slowed_by(tasks: &Tasks) -> Vec<Vec<(u32, f64)>> {
    let mut all = vec![Vec::new(); tasks.turns.len()];
    for slow in &tasks.slows {
        all[slow.engine as usize].push((slow.by, slow.factor));
    }
    all
}

/// Which engines each one slows.
fn slows(tasks: &Tasks) -> Vec<Vec<u32>> {
    let mut all: Vec<Vec<u32>> = vec![Vec::new(); tasks.turns.len()];
    for slow in &tasks.slows {
        let own = &mut all[slow.by as usize];
        if !own.contains(&slow.engine) {
            own.push(slow.engine);
        }
    }
    all
}

/// Who waits for each task, side by side, and where each task's begin.
fn outputs(tasks: &Tasks) -> (Vec<(u32, f64)>, Vec<u32>) {
    let mut begins = vec![0_u32; tasks.len() + 1];
    for input in &tasks.inputs {
        begins[input.task as usize + 1] += 1;
    }
    for task in 0..tasks.len() {
        begins[task + 1] += begins[task];
    }
    let mut next = begins.clone();
    let mut outputs = vec![(NONE, 0.0); tasks.inputs.len()];
    for task in 0..tasks.len() {
        for input in tasks.inputs_of(task) {
            let place = &mut next[input.task as usize];
            outputs[*place as usize] = (u32::try_from(task).unwrap_or(NONE), input.delay);
            *place += 1;
        }
    }
    (outputs, begins)
}

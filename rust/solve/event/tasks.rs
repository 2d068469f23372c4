//! Which tasks are there, and what do they wait for?

use crate::error::{Error, Result};

/// A task that must have ended some time before another starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dependency {
    /// Index of the task waited for.
    pub task: u32,
    /// How long after its end, 0 or more.
    pub delay: f64,
}

/// Which of its tasks an engine runs next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueDiscipline {
    /// The one that was added first.
    #[default]
    Added,
    /// The one that was ready first; of those, the one that was added first.
    Ready,
}

/// An engine that works slower while another one runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowdown {
    /// The engine that is slowed.
    pub engine: u32,
    /// The engine that slows it.
    pub by: u32,
    /// How much longer its work takes meanwhile, 1 or more.
    pub factor: f64,
}

/// Tasks on engines, laid out flat: a task's inputs lie side by side.
#[derive(Debug, Clone)]
pub struct Tasks {
    pub(super) durations: Vec<f64>,
    pub(super) engines: Vec<u32>,
    pub(super) inputs: Vec<Dependency>,
    /// Where each task's inputs begin; one more than tasks.
    pub(super) begins: Vec<u32>,
    pub(super) turns: Vec<QueueDiscipline>,
    pub(super) slows: Vec<Slowdown>,
}

/// Start and end of every task, in the order in which they were added.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// Starts.
    pub start: Vec<f64>,
    /// Ends.
    pub end: Vec<f64>,
}

impl Timeline {
    /// End of the last task.
    pub fn makespan(&self) -> f64 {
        self.end.iter().fold(0.0, |last, end| end.max(last))
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl Tasks {
    /// No tasks and no engines.
    pub fn new() -> Self {
        Self {
            durations: Vec::new(),
            engines: Vec::new(),
            inputs: Vec::new(),
            begins: vec![0],
            turns: Vec::new(),
            slows: Vec::new(),
        }
    }

    /// Adds an engine and gives its index.
    pub fn engine(&mut self, turn: QueueDiscipline) -> u32 {
        self.turns.push(turn);
        count(self.turns.len() - 1)
    }

    /// Adds a task of `duration` on `engine` and gives its index.
    pub fn add(&mut self, engine: u32, duration: f64, inputs: &[Dependency]) -> u32 {
        self.durations.push(duration);
        self.engines.push(engine);
        self.inputs.extend_from_slice(inputs);
        self.begins.push(count(self.inputs.len()));
        count(self.durations.len() - 1)
    }

    /// Makes an engine work slower while another one runs.
    pub fn slow(&mut self, slow: Slowdown) {
        self.slows.push(slow);
    }

    /// Tasks added so far.
    pub fn len(&self) -> usize {
        self.durations.len()
    }

    /// True without any task.
    pub fn is_empty(&self) -> bool {
        self.durations.is_empty()
    }

    /// Engine of a task.
    pub fn engine_of(&self, task: u32) -> Option<u32> {
        self.engines.get(task as usize).copied()
    }

    /// What a task waits for.
    pub fn inputs_of(&self, task: usize) -> &[Dependency] {
        &self.inputs[self.begins[task] as usize..self.begins[task + 1] as usize]
    }

    /// True where every engine runs its tasks as they were added and none slows another.
    pub(super) fn in_order(&self) -> bool {
        self.slows.iter().all(|slow| slow.factor <= 1.0)
            && self
                .turns
                .iter()
                .all(|turn| *turn == QueueDiscipline::Added)
    }

    /// Tasks of each engine side by side, and where each engine's begin.
    pub(super) fn by_engine(&self) -> (Vec<u32>, Vec<u32>) {
        let mut begins = vec![0_u32; self.turns.len() + 1];
        for &engine in &self.engines {
            begins[engine as usize + 1] += 1;
        }
        for engine in 0..self.turns.len() {
            begins[engine + 1] += begins[engine];
        }
        let mut next = begins.clone();
        let mut queue = vec![0; self.len()];
        for (task, &engine) in self.engines.iter().enumerate() {
            let place = &mut next[engine as usize];
            queue[*place as usize] = count(task);
            *place += 1;
        }
        (queue, begins)
    }

    pub(super) fn check(&self) -> Result<()> {
        let time = |field: &str, value: f64| {
            if value >= 0.0 && value.is_finite() {
                return Ok(());
            }
            Err(Error::invalid(field, value, "0 or more, finite"))
        };
        let (tasks, engines) = (count(self.len()), count(self.turns.len()));
        for &duration in &self.durations {
            time("task.duration", duration)?;
        }
        for &engine in &self.engines {
            within("task.engine", engine, engines)?;
        }
        for input in &self.inputs {
            within("task.after", input.task, tasks)?;
            time("task.after.delay", input.delay)?;
        }
        for slow in &self.slows {
            within("slow.engine", slow.engine, engines)?;
            within("slow.by", slow.by, engines)?;
            if !(slow.factor >= 1.0 && slow.factor.is_finite()) {
                return Err(Error::invalid(
                    "slow.factor",
                    slow.factor,
                    "1 or more, finite",
                ));
            }
        }
        Ok(())
    }

    /// The error of tasks that wait in a circle.
    pub(super) fn circle(&self, done: usize, stuck: usize) -> Error {
        Error::inconsistent(format!(
            "tasks: {} of {} wait in a circle, the first is task {stuck}",
            self.len() - done,
            self.len()
        ))
    }
}

fn within(field: &str, index: u32, count: u32) -> Result<()> {
    if index < count {
        return Ok(());
    }
    Err(Error::invalid(
        field,
        index,
        format!("an index below {count}"),
    ))
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

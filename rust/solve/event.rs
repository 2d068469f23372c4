//! When does each task end, if tasks wait for one another and every resource works in a given order?

use crate::error::{Error, Result};

/// A task to be run by one resource.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Task {
    /// How long the resource is held, 0 or more.
    pub duration: f64,
    /// What must have ended before.
    pub after: Vec<After>,
}

/// A task that must have ended some time before another starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct After {
    /// Index of the task waited for.
    pub task: usize,
    /// How long after its end, 0 or more.
    pub delay: f64,
}

/// End of every task, each started as early as its inputs and its resource allow.
///
/// `queues` holds, per resource, the tasks that it runs in order; a task in no queue has a resource
/// of its own. Fails on an index out of range, a task queued twice, and tasks that wait in a circle.
pub fn simulate(tasks: &[Task], queues: &[Vec<usize>]) -> Result<Vec<f64>> {
    let waits = Waits::new(tasks, queues)?;
    let mut missing = waits.missing.clone();
    let mut start = vec![0.0_f64; tasks.len()];
    let mut end = vec![0.0_f64; tasks.len()];
    let mut ready: Vec<usize> = (0..tasks.len()).filter(|&t| missing[t] == 0).collect();
    let mut done = 0;
    while let Some(task) = ready.pop() {
        end[task] = start[task] + tasks[task].duration;
        done += 1;
        for next in &waits.next[task] {
            start[next.task] = start[next.task].max(end[task] + next.delay);
            missing[next.task] -= 1;
            if missing[next.task] == 0 {
                ready.push(next.task);
            }
        }
    }
    match missing.iter().position(|&count| count > 0) {
        Some(stuck) if done < tasks.len() => Err(Error::inconsistent(format!(
            "tasks: {} of {} wait in a circle, the first is task {stuck}",
            tasks.len() - done,
            tasks.len()
        ))),
        _ => Ok(end),
    }
}

/// Who waits for whom, inputs and queues together.
struct Waits {
    next: Vec<Vec<After>>,
    missing: Vec<usize>,
}

impl Waits {
    fn new(tasks: &[Task], queues: &[Vec<usize>]) -> Result<Self> {
        let mut waits = Self {
            next: vec![Vec::new(); tasks.len()],
            missing: vec![0; tasks.len()],
        };
        for (index, task) in tasks.iter().enumerate() {
            for after in &task.after {
                waits.add("task.after", after.task, index, after.delay)?;
            }
        }
        let mut queued = vec![false; tasks.len()];
        for queue in queues {
            for (place, &task) in queue.iter().enumerate() {
                match queued.get_mut(task) {
                    Some(seen) if !*seen => *seen = true,
                    Some(_) => return Err(Error::invalid("queues", task, "each task once")),
                    None => return Err(out_of_range("queues", task, tasks.len())),
                }
                if place > 0 {
                    waits.add("queues", queue[place - 1], task, 0.0)?;
                }
            }
        }
        Ok(waits)
    }

    fn add(&mut self, field: &str, from: usize, to: usize, delay: f64) -> Result<()> {
        let count = self.next.len();
        let Some(next) = self.next.get_mut(from) else {
            return Err(out_of_range(field, from, count));
        };
        next.push(After { task: to, delay });
        self.missing[to] += 1;
        Ok(())
    }
}

fn out_of_range(field: &str, task: usize, count: usize) -> Error {
    Error::invalid(field, task, format!("an index below {count}"))
}

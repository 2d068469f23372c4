//! When does each task start and end, if tasks wait for one another and for the engines that run them?

mod contended;
mod ordered;
mod tasks;

pub use tasks::{Dependency, QueueDiscipline, Slowdown, Tasks, Timeline};

use crate::error::Result;

/// Start and end of every task, each started as early as its inputs and its engine allow.
///
/// An engine runs one task at a time: in the order in which its tasks were added, or whichever is
/// ready first (`QueueDiscipline`). Fails on an index out of range, a time below zero or not finite, and tasks
/// that wait in a circle. The same tasks always give the same times.
pub fn simulate(tasks: &Tasks) -> Result<Timeline> {
    tasks.check()?;
    if tasks.in_order() {
        ordered::run(tasks)
    } else {
        contended::run(tasks)
    }
}

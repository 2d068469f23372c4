//! Mathematics without a domain: best-k, Pareto front, event simulation.

mod best;
mod event;
mod pareto;

pub use best::{Best, Entry};
pub use event::{After, Task, simulate};
pub use pareto::{Front, Point};

//! Mathematics without a domain: best-k, Pareto front, event simulation, order statistics.

mod best;
mod event;
mod normal;
mod pareto;

pub use best::{Best, Entry};
pub use event::{After, Task, simulate};
pub use normal::expected_largest;
pub use pareto::{Front, Point};

//! Mathematics without a domain: best-k, Pareto front, events, flows, lanes, order statistics, random numbers.

pub mod assign;
mod best;
mod event;
mod flow;
mod frontier;
mod lane;
mod normal;
mod pareto;
mod random;

pub use best::{Best, Entry};
pub use event::{Dependency, QueueDiscipline, Slowdown, Tasks, Timeline, simulate};
pub use flow::{Flows, Link, Load, Outcome, Simulation, Transfer};
pub use frontier::{Coordinates, Corner, Frontier, MOST_COORDINATES};
pub use lane::{Lane, LaneWork, Wide, run_widest};
pub use normal::expected_largest;
pub use pareto::{Front, Point};
pub use random::Random;

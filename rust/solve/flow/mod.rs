//! When does each transfer end, if all of them share links fairly?

mod queue;
mod run;
mod schedule;
mod sharing;

pub use run::{Load, Outcome, Simulation};
pub use schedule::{Flows, Link, Transfer};

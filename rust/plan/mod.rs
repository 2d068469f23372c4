//! Every choice of a training plan as plain data, its legality, and its lowering to a program.

mod choice;

pub use choice::{Plan, RecomputePolicy, Schedule};

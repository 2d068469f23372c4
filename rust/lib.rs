//! Scalewright's engine: what a training job costs on a cluster under a plan, and which plan is best.
//!
//! Modules are floors; each imports only from lower ones (`tests/engine/layers.rs` checks it).
//! A workload and a plan are lowered to a small program, the program is priced on the hardware,
//! the schedule composes the prices into a step, and search walks the plans.

mod defaults;

pub mod control;
pub mod error;
pub mod solve;
pub mod units;

pub mod hardware;
pub mod workload;

pub mod collective;
pub mod economics;
pub mod memory;
pub mod operator_cost;
pub mod schedule;

pub mod plan;

pub mod estimate;

pub mod calibration;

pub mod search;

#[cfg(feature = "python")]
mod python;

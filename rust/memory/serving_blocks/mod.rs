//! In which blocks, from which memories, does one device generate the most tokens in a second?

mod answer;
mod family;
mod machine;
mod problem;
mod search;
mod tables;

pub use answer::{Block, Lanes, Memory, Policy, serving_blocks, serving_policy};
pub use machine::{ServingOptions, problem_of};
pub use problem::{
    Attention, Compute, DEVICE_LANE, HOST_LANE, Hop, Layer, MOST, MemoryPlace, Problem, SerialLanes,
};

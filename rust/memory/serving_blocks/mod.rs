//! Where do weights, cache and states lie, and in which blocks are texts generated, so that one device
//! generates the most tokens in a second?

mod answer;
mod family;
mod machine;
mod problem;
mod search;
mod tables;

pub use answer::{Block, Lanes, Memory, Policy, serving_blocks, serving_policy};
pub use machine::{Asked, problem_of};
pub use problem::{
    Attention, Compute, DEVICE_LANE, HOST_LANE, Home, Hop, Layer, MOST, Problem, Serial,
};

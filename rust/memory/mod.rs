//! How many bytes does a rank hold, by class, and how is memory beyond the device put to use?

pub mod cache;
mod footprint;
pub mod serving_blocks;

pub use footprint::{
    Footprint, Holdings, host_optimizer_traffic, optimizer_bytes, optimizer_traffic,
};

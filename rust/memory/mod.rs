//! How many bytes does a rank hold, by tensor class, and what do caches and steps over memory tiers come to?

pub mod cache;
mod footprint;
pub mod offload;

pub use footprint::{
    Footprint, Holdings, host_optimizer_traffic, optimizer_bytes, optimizer_traffic,
};

//! How many bytes does a rank hold, by tensor class, and what do caches over memory tiers save?

pub mod cache;
mod footprint;

pub use footprint::{
    Footprint, Holdings, host_optimizer_traffic, optimizer_bytes, optimizer_traffic,
};

//! How many bytes does a rank hold, by tensor class, and what do caches over memory tiers save?

pub mod cache;
mod footprint;
pub mod placement;
mod retention;

pub use footprint::{
    FRAGMENTATION, Footprint, Holdings, host_optimizer_traffic, optimizer_bytes, optimizer_kinds,
    optimizer_traffic,
};
pub use retention::{Cell, Retained};

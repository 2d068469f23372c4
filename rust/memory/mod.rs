//! How many bytes does a rank hold, where should they lie, and what should be kept, moved or computed again?

pub mod cache;
mod footprint;
pub mod offload;
pub mod placement;
pub mod rematerialise;
mod retention;
pub mod serving_blocks;

pub use footprint::{
    FRAGMENTATION, Footprint, Holdings, KeptActivations, bytes_saved_by_muon, frozen_bytes,
    host_optimizer_traffic, matrix_traffic, optimizer_bytes, optimizer_kinds, optimizer_traffic,
    weight_bytes,
};
pub use retention::{Cell, Retained};

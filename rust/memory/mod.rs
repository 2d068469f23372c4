//! How many bytes one rank holds, by tensor class, from already-sharded counts.

mod footprint;
pub mod offload;

pub use footprint::{
    Footprint, Holdings, host_optimizer_traffic, optimizer_bytes, optimizer_traffic,
};

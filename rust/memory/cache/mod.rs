//! What does a cache over slower memory serve, how long do its misses take, and what is it good for?

mod belady;
mod characteristic;
pub mod embedding_rows;
pub mod experts;
mod fifo;
mod hits;
mod lfu;
mod lifo;
mod lru;
mod machine;
mod mattson;
pub mod neurons;
mod policy;
mod popularity;
mod random;
mod replay;
mod static_cache;
pub mod switching;
pub mod tiers;
mod zipf;

pub use hits::Hits;
pub use machine::{Machine, MachineOverrides};
pub use mattson::lru_curve;
pub use policy::Policy;
pub use popularity::{Demand, Popularity};
pub use replay::{Replay, Trace, replay};

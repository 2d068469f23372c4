//! What does a cache over slower memory serve, how long do its misses take, and what is it good for?

mod belady;
mod characteristic;
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
mod popular;
mod popularity;
mod random;
mod replay;
pub mod rows;
pub mod switching;
pub mod tiers;
mod zipf;

pub use hits::Hits;
pub use machine::{Changes, Machine};
pub use mattson::lru_curve;
pub use policy::Policy;
pub use popularity::{Demand, Popularity};
pub use replay::{Replay, Trace, replay};

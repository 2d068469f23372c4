//! Which tensors of a chain should be kept, computed again or moved away, and is that proven?

mod chain;
mod choosing;
mod laid;
mod least;
mod polish;
mod prices;
mod recompute;
mod retention;
mod sequence;
mod transfers;
mod verdict;

pub use chain::{Block, Link, MOST_BLOCKS, Partial, Request};
pub use laid::Span;
pub use retention::Retention;
pub use sequence::{Operation, Pass};
pub use verdict::{Choices, Decision, Policy, Recomputed, Rematerialised, rematerialise};

//! Which tensors of a chain should be kept, computed again or moved away, and is that proven?

mod chain;
mod choice_search;
mod least_memory;
mod polish;
mod prices;
mod recompute;
mod report;
mod retention;
mod sequence;
mod simulated;
mod transfers;

pub use chain::{Block, Link, MOST_BLOCKS, Request, SelectiveRecompute};
pub use report::{Choices, Decision, Policy, RecomputedChain, RematerialiseReport, rematerialise};
pub use retention::Retention;
pub use sequence::{Operation, Pass};
pub use simulated::Span;

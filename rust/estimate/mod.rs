//! The only composer: a workload, a cluster and a plan become time, memory, energy and dollars.

mod block;
mod chunk;
mod compose;
mod job;
mod links;
mod price;
mod report;
mod residents;
mod verdict;

pub use block::{BlockFactor, CLASSES, FactorKey, Factors, Lines};
pub use chunk::{Chunks, Counts};
pub use compose::{Composed, Composer, Draft, Parts};
pub use job::Job;
pub use links::Links;
pub use price::Pricer;
pub use report::{Estimate, StageMemory, Term};
pub use verdict::{Shortfall, Verdict, estimate, price};

//! The only composer: a workload, a cluster and a plan become time, memory, energy and dollars.

mod block;
mod chains;
mod chunk;
mod compose;
mod explain;
mod host;
pub mod inventory;
mod job;
mod links;
mod many;
mod offloaded;
mod price;
mod report;
mod residents;
mod slices;
mod spilled;
mod sums;
pub mod timeline;
mod traffic;
mod verdict;
mod words;

pub use block::{BlockFactor, CLASSES, FactorKey, Factors, Lines};
pub use chains::{StageAsked, StageChain, stage_chain};
pub use chunk::{Chunks, Counts};
pub use compose::{Composed, Composer, Draft, Parts};
pub use explain::Explanation;
pub use job::Job;
pub use links::Links;
pub use many::{COLUMNS, Desk, Row, column, estimate_many};
pub use offloaded::{Growth, Largest, Offloaded, largest, offload};
pub use price::Pricer;
pub use report::{Estimate, StageMemory, Term};
pub use slices::{SliceTimes, slice_times};
pub use spilled::{Away, Spill, Spilled, spilled};
pub use sums::Sums;
pub use verdict::{Shortfall, Verdict, estimate, explained, price};

//! Which plan is best, and is that proven: every legal plan of a space is priced or excluded by a bound.

mod keep;
mod offload;
mod report;
pub mod robust;
mod runner;
pub mod sensitivity;
mod space;
mod uncertainty;
mod unit;

pub use keep::Found;
pub use offload::OffloadCounts;
pub use report::{FrontPoint, Rejected, SearchReport};
pub use runner::{Outcome, Rejections, search};
pub use space::{Limits, Objective, Offload, Space};
pub use uncertainty::{Uncertain, Uncertainty};

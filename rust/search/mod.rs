//! Which plan is best, and is that proven: every legal plan of a space is priced or excluded by a bound.

mod keep;
mod offload;
mod report;
mod runner;
mod space;
mod unit;
pub mod unlike;

pub use keep::Found;
pub use offload::OffloadCounts;
pub use report::{FrontPoint, Rejected, SearchReport};
pub use runner::{Outcome, Rejections, search};
pub use space::{Limits, Objective, Offload, Space};

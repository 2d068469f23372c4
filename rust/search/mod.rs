//! Which plan is best, and is that proven: every legal plan of a space is priced or excluded by a bound.

mod cut;
mod keep;
mod limits;
mod lists;
mod offload;
mod part;
mod report;
pub mod robust;
mod rows;
pub mod sensitivity;
mod space;
mod uncertainty;
mod unit;
mod walk;
mod whole;

pub use keep::Found;
pub use limits::{Limits, Method, Objective, Offload};
pub use offload::OffloadCounts;
pub use part::{Counts, Nearest, Part};
pub use report::{FrontPoint, Outcome, Rejected, SearchReport};
pub use rows::Rows;
pub use space::Space;
pub use uncertainty::{Uncertain, Uncertainty};
pub use whole::{Search, search};

//! Which plan is best, and is that proven: every legal plan of a space is priced or excluded by a bound.

pub mod codesign;
mod cut;
mod grid;
mod keep;
mod leaves;
mod limits;
mod lists;
mod offload;
mod part;
mod possible;
mod report;
pub mod robust;
mod rows;
pub mod sensitivity;

mod space;
mod uncertainty;
mod unit;
pub mod unlike;
mod variants;
mod walk;
mod whole;

pub use grid::{Axis, Grid, MOST_VARIANTS, Step, Varied};
pub use keep::Found;
pub use limits::{Limits, Method, Objective, OffloadWhen};
pub use offload::OffloadCounts;
pub use part::{Counts, Nearest, Part};
pub use report::{FrontPoint, Outcome, Rejected, SearchReport, Told};
pub use rows::Rows;
pub use space::Space;
pub use uncertainty::{Uncertain, Uncertainty};
pub use variants::{Fate, Row};
pub use whole::{Search, search};

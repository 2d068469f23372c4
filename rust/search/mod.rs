//! Which plan is best, and is that proven: every legal plan of a space is priced or excluded by a bound.

pub mod codesign;
mod grid;
mod leaves;
mod legal_values;
mod limits;
mod lists;
mod offload;
mod priced_plan;
mod report;
pub mod robust;
mod rows;
mod search_part;
pub mod sensitivity;
mod split_stages;

mod driver;
mod space;
mod uncertainty;
mod unit;
pub mod unlike;
mod variants;
mod walk;

pub use driver::{Search, search};
pub use grid::{Axis, AxisValue, Grid, MOST_VARIANTS, VariedConstant};
pub use limits::{Limits, Method, Objective, OffloadWhen};
pub use offload::OffloadCounts;
pub use priced_plan::PricedPlan;
pub use report::{FrontPoint, PlanReport, RejectionCount, SearchOutcome, SearchReport};
pub use rows::PlanRows;
pub use search_part::{NearestMiss, PlanCounts, SearchPart};
pub use space::Space;
pub use uncertainty::{UncertainConstant, Uncertainty};
pub use variants::{VariantOutcome, VariantRow};

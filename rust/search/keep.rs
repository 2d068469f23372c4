//! What a search keeps of a plan that was priced and fits.

use crate::estimate::{Composed, Spilled};
use crate::plan::Plan;
use crate::solve;

/// A plan and its price.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The plan.
    pub plan: Plan,
    /// Its price.
    pub composed: Composed,
    /// What lies outside device memory, where the plan fits in no other way.
    pub offloaded: Option<Spilled>,
}

/// The best few plans.
pub(super) type Best = solve::Best<Found>;
/// Plans that no other beats in both time and memory.
pub(super) type Front = solve::Front<Found>;

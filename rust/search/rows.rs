//! Every plan of a unit that fits, as columns.

use crate::estimate::{COLUMNS, PlanCost, column};
use crate::plan::Plan;

/// Plans and their prices, a row each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanRows {
    /// Plan fields, plan by plan, in the order of `COLUMNS`.
    pub fields: Vec<u32>,
    /// Step times, seconds.
    pub times: Vec<f64>,
    /// Bytes on the fullest rank.
    pub memories: Vec<f64>,
}

impl PlanRows {
    pub(super) fn push(&mut self, plan: &Plan, composed: &PlanCost) {
        self.fields
            .extend((0..COLUMNS.len()).map(|field| column(plan, field)));
        self.times.push(composed.time);
        self.memories.push(composed.memory);
    }
}

//! What a search keeps of a plan that was priced and fits.

use crate::estimate::{COLUMNS, PlanCost, SpilledPlan, column};
use crate::plan::Plan;
use crate::solve;
use crate::workload::Precision;
use serde::{Deserialize, Serialize};

/// A plan and its price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PricedPlan {
    /// The plan.
    pub plan: Plan,
    /// Its price.
    pub composed: PlanCost,
    /// Its precision recipe, where the space lists some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Precision>,
    /// What lies outside device memory, where the plan fits in no other way. Parts of a search hold
    /// none: plans are placed when all parts have come together.
    #[serde(skip)]
    pub offloaded: Option<SpilledPlan>,
}

impl PricedPlan {
    /// A plan that fits in device memory.
    pub(super) fn new(plan: &Plan, composed: PlanCost) -> Self {
        Self {
            plan: plan.clone(),
            composed,
            dtype: None,
            offloaded: None,
        }
    }
}

/// The best few plans.
pub(super) type Best = solve::Best<PricedPlan>;
/// Plans that no other beats in everything that counts.
pub(super) type Front = solve::Frontier<PricedPlan>;

/// Offers a plan to the best ones, of which each differs in the plan field `distinct`, if any.
pub(super) fn offer(best: &mut Best, entry: solve::Entry<PricedPlan>, distinct: Option<usize>) {
    match distinct {
        None => best.push(entry),
        Some(field) => best.push_apart(entry, |a, b| same(a, b, field)),
    };
}

/// Joins the best plans of two walks.
pub(super) fn join(best: &mut Best, other: &Best, distinct: Option<usize>) {
    match distinct {
        None => best.merge(other),
        Some(field) => best.merge_apart(other, |a, b| same(a, b, field)),
    }
}

fn same(a: &PricedPlan, b: &PricedPlan, field: usize) -> bool {
    let alike = column(&a.plan, field) == column(&b.plan, field);
    // lengths of slices have no number
    alike && (COLUMNS[field] != "token_slices" || a.plan.token_slices == b.plan.token_slices)
}

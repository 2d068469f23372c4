//! What a search tells: the best plans in full, the front, and why the others were turned down.

use super::keep::Found;
use super::runner::Outcome;
use crate::estimate::{Estimate, Job, Verdict, estimate};
use crate::plan::{Plan, Rule};
use serde::Serialize;

/// A reason for which plans were turned down, and how many.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rejected {
    /// The reason.
    pub reason: &'static str,
    /// Plans (or combinations that stand for several plans) turned down for it.
    pub count: u64,
    /// For plans that do not fit: bytes that the nearest of them lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_missing_bytes: Option<f64>,
}

/// A point of the front of time against memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrontPoint {
    /// The plan.
    pub plan: Plan,
    /// Time of a step.
    pub step_time_s: f64,
    /// Bytes on the fullest rank.
    pub peak_memory_bytes: f64,
}

/// What a search tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchReport {
    /// Legal plans that fit and whose exact time was computed.
    pub plans_priced: u64,
    /// Legal plans that fit and that a lower bound on their time excludes from the best and the front.
    pub plans_excluded_by_bound: u64,
    /// Legal plans that fit.
    pub plans_feasible: u64,
    /// True where every legal plan of the space was priced or excluded by a bound; false where plans
    /// that could be better with offload were left untried.
    pub proven: bool,
    /// Plans that do not fit in device memory and whose tensors were placed over other tiers.
    pub plans_placed: u64,
    /// Of those, plans that fit so.
    pub plans_that_fit_with_offload: u64,
    /// Where others were left untried: the step time that none of them beats.
    pub untried_with_offload_bound_s: Option<f64>,
    /// Why others were turned down.
    pub rejected: Vec<Rejected>,
    /// The best plans, best first.
    pub best: Vec<Estimate>,
    /// Plans that no other beats in both time and memory, by rising time.
    pub pareto: Vec<FrontPoint>,
    /// Where nothing fits: the plan that lacks least.
    pub nearest: Option<Estimate>,
}

impl SearchReport {
    /// Prices the found plans in full.
    pub fn new(job: &Job, outcome: &Outcome) -> Self {
        let best = outcome.best.iter();
        let nearest = outcome.nearest.as_ref().filter(|_| outcome.best.is_empty());
        Self {
            plans_priced: outcome.priced,
            plans_excluded_by_bound: outcome.bounded,
            plans_feasible: outcome.feasible,
            proven: outcome.offload.untried_bound_s.is_none(),
            plans_placed: outcome.offload.placed,
            plans_that_fit_with_offload: outcome.offload.fit,
            untried_with_offload_bound_s: outcome.offload.untried_bound_s,
            rejected: rejected(outcome),
            best: best.filter_map(|found| in_full(job, found)).collect(),
            pareto: outcome.front.iter().map(point).collect(),
            nearest: nearest.and_then(|plan| priced(job, plan)),
        }
    }
}

fn in_full(job: &Job, found: &Found) -> Option<Estimate> {
    let estimate = priced(job, &found.plan)?;
    Some(match &found.offloaded {
        Some(offloaded) => estimate.with_offload(job, offloaded.clone()),
        None => estimate,
    })
}

fn priced(job: &Job, plan: &Plan) -> Option<Estimate> {
    match estimate(job, plan) {
        Verdict::Priced(estimate) => Some(*estimate),
        Verdict::Illegal(_) => None,
    }
}

fn rejected(outcome: &Outcome) -> Vec<Rejected> {
    let counts = &outcome.rejections;
    let mut rows: Vec<Rejected> = Rule::FAMILIES
        .iter()
        .zip(counts.illegal)
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| Rejected {
            reason,
            count,
            least_missing_bytes: None,
        })
        .collect();
    if counts.unfit > 0 {
        rows.push(Rejected {
            reason: "does not fit in memory",
            count: counts.unfit,
            least_missing_bytes: Some(counts.least_shortfall_bytes),
        });
    }
    rows
}

fn point(found: &Found) -> FrontPoint {
    FrontPoint {
        plan: found.plan.clone(),
        step_time_s: found.composed.time,
        peak_memory_bytes: found.composed.memory,
    }
}

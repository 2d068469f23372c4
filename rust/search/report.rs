//! What a search tells: the best plans in full, the front, and why the others were turned down.

use super::driver::Search;
use super::limits::{Method, Objective};
use super::offload::OffloadCounts;
use super::priced_plan::PricedPlan;
use super::search_part::{NearestMiss, PlanCounts};
use crate::estimate::{Estimate, Job, Verdict, estimate};
use crate::plan::{BrokenRule, Plan};
use crate::workload::Precision;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a search found and what it turned down.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchOutcome {
    /// The best plans, best first.
    pub best: Vec<PricedPlan>,
    /// Plans that no other beats in all measures of the front, by rising first one; of those that fit in device
    /// memory as they are.
    pub front: Vec<PricedPlan>,
    /// What became of the plans.
    pub counts: PlanCounts,
    /// Where nothing fits: the plan that lacks least.
    pub nearest: Option<NearestMiss>,
    /// Where units were left: what none of their plans is better than, in the objective's unit.
    pub unwalked: Option<f64>,
    /// Plans that do not fit in device memory and were tried with other tiers.
    pub offload: OffloadCounts,
}

/// A reason for which plans were turned down, and how many.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RejectionCount {
    /// The reason.
    pub reason: &'static str,
    /// Plans (or combinations that stand for several plans) turned down for it.
    pub count: u64,
    /// For plans that do not fit: bytes that the nearest of them lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_missing_bytes: Option<f64>,
}

/// A plan in full.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanReport {
    /// What it costs.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Its precision recipe, where the space lists some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Precision>,
}

/// A point of the front.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrontPoint {
    /// The plan.
    pub plan: Plan,
    /// Time of a step.
    pub step_time_s: f64,
    /// Bytes on the fullest rank.
    pub peak_memory_bytes: f64,
    /// Energy of a step.
    pub energy_j_per_step: f64,
    /// Price of a step, where prices are known.
    pub cost_usd_per_step: Option<f64>,
    /// Devices.
    pub devices: u32,
    /// Its precision recipe, where the space lists some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Precision>,
}

/// Legal plans that one bound excludes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ExclusionCount {
    /// The bound.
    pub bound: &'static str,
    /// Plans.
    pub count: u64,
}

/// What a search tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchReport {
    /// Legal plans of the units walked: priced, excluded by a bound, or not fitting.
    pub plans_legal: u64,
    /// Legal plans that fit and whose exact time was computed.
    pub plans_priced: u64,
    /// Legal plans that are known not to fit in memory.
    pub plans_not_fitting: u64,
    /// Legal plans that a lower bound excludes from the best and the front.
    pub plans_excluded_by_bound: u64,
    /// The same, bound by bound.
    pub excluded: Vec<ExclusionCount>,
    /// Legal plans that fit; none where groups were excluded by time before they were weighed.
    pub plans_feasible: Option<u64>,
    /// Plans that fit and are faster than asked for, where it was asked.
    pub plans_ahead: Option<u64>,
    /// True where every legal plan of the space was priced or excluded by a bound; false where units
    /// were not walked, or plans that could be better with offload were left untried.
    pub proven: bool,
    /// What no plan of the space is better than in the objective, by the field of `best` that it
    /// bounds: the best plan's own where the search is proven. None where nothing is known to fit.
    pub bound: BTreeMap<&'static str, f64>,
    /// Plans that do not fit in device memory and were tried with tensors in other tiers.
    pub plans_placed: u64,
    /// Of those, plans that fit so and were among the best known by then; others are proven not to be.
    pub plans_that_fit_with_offload: u64,
    /// Where others were left untried: the step time that none of them beats.
    pub untried_with_offload_bound_s: Option<f64>,
    /// True where the work was stopped while such plans were tried.
    pub stopped: bool,
    /// Why others were turned down.
    pub rejected: Vec<RejectionCount>,
    /// The best plans, best first.
    pub best: Vec<PlanReport>,
    /// Plans that no other beats in all measures of the front, by rising first one.
    pub pareto: Vec<FrontPoint>,
    /// Where nothing fits: the plan that lacks least.
    pub nearest: Option<PlanReport>,
}

impl SearchReport {
    /// Prices the found plans in full.
    pub fn new(search: &Search, outcome: &SearchOutcome) -> Self {
        let counts = &outcome.counts;
        let best = outcome.best.iter();
        let best: Vec<PlanReport> = best.filter_map(|found| in_full(search, found)).collect();
        let nearest = outcome.nearest.as_ref().filter(|_| best.is_empty());
        let whole = search.limits().method == Method::Exhaustive;
        let feasible = counts.priced + counts.by_form;
        let untried = outcome.offload.untried_bound_s;
        Self {
            plans_legal: counts.legal(),
            plans_priced: counts.priced,
            plans_not_fitting: counts.not_fitting(),
            plans_excluded_by_bound: counts.excluded(),
            excluded: excluded(counts),
            plans_feasible: whole.then_some(feasible),
            plans_ahead: search.limits().ahead_of_s.map(|_| counts.ahead),
            proven: untried.is_none() && outcome.unwalked.is_none(),
            bound: bound(
                search.limits().objective,
                best.first().map(|told| &told.estimate),
                outcome,
            ),
            plans_placed: outcome.offload.placed,
            plans_that_fit_with_offload: outcome.offload.fit,
            untried_with_offload_bound_s: untried,
            stopped: outcome.offload.stopped,
            rejected: rejected(outcome, whole),
            best,
            pareto: outcome
                .front
                .iter()
                .filter_map(|found| point(search, found))
                .collect(),
            nearest: nearest.and_then(|nearest| {
                let estimate = priced(search.job_in(nearest.dtype), &nearest.plan)?;
                Some(PlanReport {
                    estimate,
                    dtype: nearest.dtype,
                })
            }),
        }
    }
}

fn excluded(counts: &PlanCounts) -> Vec<ExclusionCount> {
    let all = [
        (
            "work of a step, spread evenly over the devices",
            counts.by_work,
        ),
        (
            "closed form of the schedule for the quickest of a group",
            counts.by_group,
        ),
        ("closed form of the plan's own schedule", counts.by_form),
    ];
    all.into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(bound, count)| ExclusionCount { bound, count })
        .collect()
}

/// What no plan is better than: the best plan, or what was left undone.
fn bound(
    objective: Objective,
    best: Option<&Estimate>,
    outcome: &SearchOutcome,
) -> BTreeMap<&'static str, f64> {
    let (name, of): (_, fn(&Estimate) -> Option<f64>) = match objective {
        Objective::Time | Objective::Devices => ("step_time_s", |best| Some(best.step_time_s)),
        Objective::Memory => ("peak_memory_bytes", |best| Some(best.peak_memory_bytes)),
        Objective::Energy => ("energy_j_per_step", |best| Some(best.energy_j_per_step)),
        Objective::Dollars => ("cost_usd_per_step", |best| best.cost_usd_per_step),
    };
    let untried = outcome.offload.untried_bound_s;
    [best.and_then(of), outcome.unwalked, untried]
        .into_iter()
        .flatten()
        .reduce(f64::min)
        .filter(|least| least.is_finite())
        .map(|least| (name, least))
        .into_iter()
        .collect()
}

fn in_full(search: &Search, found: &PricedPlan) -> Option<PlanReport> {
    let job = search.job_in(found.dtype);
    let estimate = priced(job, &found.plan)?;
    let estimate = match &found.offloaded {
        Some(offloaded) => estimate.with_offload(job, offloaded.clone()),
        None => estimate,
    };
    Some(PlanReport {
        estimate,
        dtype: found.dtype,
    })
}

fn priced(job: &Job, plan: &Plan) -> Option<Estimate> {
    match estimate(job, plan) {
        Verdict::Priced(estimate) => Some(*estimate),
        Verdict::Illegal(_) => None,
    }
}

/// Where bounds leave plans unweighed, the plan that lacks least is only known if none fits.
fn rejected(outcome: &SearchOutcome, whole: bool) -> Vec<RejectionCount> {
    let counts = &outcome.counts;
    let mut rows: Vec<RejectionCount> = BrokenRule::FAMILIES
        .iter()
        .zip(counts.illegal)
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| RejectionCount {
            reason,
            count,
            least_missing_bytes: None,
        })
        .collect();
    let known = whole || outcome.best.is_empty();
    if counts.not_fitting() > 0 {
        rows.push(RejectionCount {
            reason: "does not fit in memory",
            count: counts.not_fitting(),
            least_missing_bytes: outcome
                .nearest
                .as_ref()
                .filter(|_| known)
                .map(|n| n.lacks_bytes),
        });
    }
    rows
}

fn point(search: &Search, found: &PricedPlan) -> Option<FrontPoint> {
    let job = search.job_in(found.dtype);
    let estimate = priced(job, &found.plan)?;
    Some(FrontPoint {
        plan: found.plan.clone(),
        step_time_s: found.composed.time,
        peak_memory_bytes: found.composed.memory,
        energy_j_per_step: estimate.energy_j_per_step,
        cost_usd_per_step: estimate.cost_usd_per_step,
        devices: job.cluster.devices,
        dtype: found.dtype,
    })
}

//! Estimates one plan, or says which rule it breaks.

use super::block::Factors;
use super::chunk::Chunks;
use super::compose::{Composer, PlanCost, PlanInputs};
use super::explain::{Explanation, explain};
use super::job::Job;
use super::links::Links;
use super::model_states::ModelStates;
use super::price::Pricer;
use super::recomputation_costs::RecomputationCosts;
use super::report::Estimate;
use super::schedule_facts::ScheduleFacts;
use super::sums::Sums;
use crate::plan::{BrokenRule, Plan, RecomputePolicy, check};
use crate::schedule::Scratch;
use crate::units::Bytes;
use serde::Serialize;

/// The answer to "what does this plan cost": a value also where the plan cannot run.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// The plan is legal; whether it fits in memory stands in the estimate.
    Priced(Box<Estimate>),
    /// The plan breaks a rule.
    Illegal(BrokenRule),
}

/// What a plan lacks in memory, and the cheapest single change that would make it fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shortfall {
    /// Stage whose ranks are too full.
    pub stage: u32,
    /// Tier that is too small.
    pub tier: String,
    /// Bytes needed there.
    pub needed_bytes: f64,
    /// Bytes that a plan may use.
    pub available_bytes: f64,
    /// Bytes that are missing.
    pub missing_bytes: f64,
    /// The change of one field that fits at the least step time, as `recompute = full`.
    pub remedy: Option<String>,
    /// Step time with that change.
    pub remedy_step_time_s: Option<f64>,
}

/// Prices one plan for a job.
pub fn estimate(job: &Job, plan: &Plan) -> Verdict {
    let priced = with_composer(job, plan, |composer| {
        let composed = composer.compose(&mut Scratch::new());
        (Estimate::new(composer, &composed), composed)
    });
    let (mut estimate, composed) = match priced {
        Ok(priced) => priced,
        Err(rule) => return Verdict::Illegal(rule),
    };
    if !composed.fits(job) {
        estimate.shortfall = Some(shortfall(job, plan, &composed));
    }
    Verdict::Priced(Box::new(estimate))
}

/// Prices one plan and explains every term of its time.
pub fn explained(job: &Job, plan: &Plan) -> Result<Vec<Explanation>, BrokenRule> {
    with_composer(job, plan, |composer| {
        let composed = composer.compose(&mut Scratch::new());
        let estimate = Estimate::new(composer, &composed);
        let terms: Vec<String> = estimate.time.into_iter().map(|t| t.term).collect();
        explain(composer, &composed, &terms)
    })
}

/// Builds everything that composing a legal plan reads and hands it to `work`.
pub(super) fn with_composer<R>(
    job: &Job,
    plan: &Plan,
    work: impl FnOnce(&Composer) -> R,
) -> Result<R, BrokenRule> {
    let split = check(plan, &job.shape, &job.training, job.cluster.devices)?;
    let mut pricer = Pricer::new(&job.cluster);
    let factors = Factors::new(job, plan, &mut pricer);
    let links = Links::new(plan, job.dealt_tensors(plan), &mut pricer);
    let chunks = Chunks::new(job, split, u64::from(plan.virtual_stages()));
    let sums = Sums::new(job, &factors, &chunks, plan.copies_table());
    let again = RecomputationCosts::new(job, &factors, (&chunks, &sums), plan.recomputation());
    let facts = ScheduleFacts::new(job, plan, &chunks);
    let inputs = PlanInputs {
        job,
        plan,
        factors: &factors,
        links: &links,
        chunks: &chunks,
        sums: &sums,
        recomputed: &again,
        facts: &facts,
    };
    let state = &ModelStates::new(&inputs);
    Ok(work(&Composer { inputs, state }))
}

/// Step time and memory of a plan, or the rule it breaks.
pub fn price(job: &Job, plan: &Plan) -> Result<PlanCost, BrokenRule> {
    with_composer(job, plan, |composer| composer.compose(&mut Scratch::new()))
}

fn shortfall(job: &Job, plan: &Plan, composed: &PlanCost) -> Shortfall {
    let device = job.capacity().value();
    let (tier, needed, available) = if composed.memory > device {
        let tier = job.cluster.device.main_memory().name.clone();
        (tier, composed.memory, device)
    } else {
        let host = job.host_capacity().map_or(0.0, Bytes::value);
        ("host memory of a node".to_owned(), composed.host, host)
    };
    let remedy = remedy(job, plan);
    Shortfall {
        stage: composed.fullest,
        tier,
        needed_bytes: needed,
        available_bytes: available,
        missing_bytes: needed - available,
        remedy_step_time_s: remedy.as_ref().map(|(_, time)| *time),
        remedy: remedy.map(|(change, _)| change),
    }
}

/// Tries changes of one field (or of two axes that trade ranks) and returns the fastest that fits.
fn remedy(job: &Job, plan: &Plan) -> Option<(String, f64)> {
    let mut best: Option<(String, f64)> = None;
    for (name, changed) in changes(plan) {
        let Ok(composed) = price(job, &changed) else {
            continue;
        };
        let better = best
            .as_ref()
            .is_none_or(|(_, least)| composed.time < *least);
        if composed.fits(job) && better {
            best = Some((name, composed.time));
        }
    }
    best
}

/// Changes that save memory, named as the user would set them.
fn changes(plan: &Plan) -> Vec<(String, Plan)> {
    let mut all = Vec::new();
    for (name, recompute) in [
        ("selective", RecomputePolicy::Selective),
        ("full", RecomputePolicy::Full),
    ] {
        all.push((
            format!("recompute = {name}"),
            Plan {
                recompute,
                recompute_layers: 0,
                recompute_rest: RecomputePolicy::None,
                ..plan.clone()
            },
        ));
    }
    for zero in plan.zero + 1..=3 {
        all.push((
            format!("zero = {zero}"),
            Plan {
                zero,
                ..plan.clone()
            },
        ));
    }
    if plan.tensor > 1 && !plan.sequence_parallel {
        let changed = Plan {
            sequence_parallel: true,
            ..plan.clone()
        };
        all.push(("sequence_parallel = true".to_owned(), changed));
    }
    let mut micro_batch = plan.micro_batch / 2;
    while micro_batch > 0 {
        let changed = Plan {
            micro_batch,
            ..plan.clone()
        };
        all.push((format!("micro_batch = {micro_batch}"), changed));
        micro_batch /= 2;
    }
    let mut factor = 2;
    while factor <= plan.data && plan.data.is_multiple_of(factor) {
        let data = plan.data / factor;
        let (tensor, pipeline) = (plan.tensor * factor, plan.pipeline * factor);
        let wider = Plan {
            tensor,
            data,
            ..plan.clone()
        };
        let deeper = Plan {
            pipeline,
            data,
            ..plan.clone()
        };
        all.push((format!("tensor = {tensor}, data = {data}"), wider));
        all.push((format!("pipeline = {pipeline}, data = {data}"), deeper));
        factor *= 2;
    }
    all
}

//! Which tensors does a rank of a plan keep, when are they used, and what runs meanwhile?
//!
//! The rank runs its operations in the schedule's order; each is a window, cut into instants at groups
//! of blocks, and the update is one more. Long steps are stood for by as many micro-batches as it
//! takes to fill the pipeline, their windows counted several times.

mod steps;
mod tensors;

use super::compose::{Composer, PlanCost};
use super::job::Job;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::memory::placement::{self, Class, LiveSet, Objective, PlacementOutcome, Problem};
use crate::memory::{bytes_saved_by_muon, optimizer_kinds};
use crate::plan::{BrokenRule, Plan, Split};
use crate::schedule::Scratch;
use crate::solve::assign::Limits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use steps::Steps;

/// What is asked of the placement of a plan's tensors.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanPlacementRequest {
    /// What is minimised.
    pub objective: Objective,
    /// Pipeline stage whose ranks are looked at; none: the fullest.
    pub stage: Option<u32>,
    /// True where tensors may not be split over tiers.
    pub whole: bool,
    /// Years that no tier may wear out in.
    pub years: Option<f64>,
    /// Instants that a step is cut into, if its operations leave the choice.
    pub instants: usize,
    /// Gap between the best placement and the bound at which the proof may stop.
    pub relative_gap: f64,
    /// Relaxed programs after which the best placement found is returned with its bound.
    pub nodes: u64,
    /// Tiers in which tensors may lie; empty: the device's main one and all behind it. Caches in front
    /// of it are part of the price of kernels already.
    pub tiers: Vec<String>,
}

impl Default for PlanPlacementRequest {
    fn default() -> Self {
        Self {
            objective: Objective::default(),
            stage: None,
            whole: false,
            years: None,
            instants: 256,
            relative_gap: 1e-6,
            nodes: 10_000,
            tiers: Vec::new(),
        }
    }
}

/// A rank's tensors and where they best lie.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanPlacement {
    /// Pipeline stage of the rank.
    pub stage: u32,
    /// Step time of the plan as `estimate` gives it, all in the main tier, whether it fits or not.
    pub estimated_step_time_s: f64,
    /// The rank's tensors, windows and what never moves.
    pub problem: Problem,
    /// Names of the tiers, nearest first.
    pub tiers: Vec<String>,
    /// Master weights and optimizer state of the rank by kind, bytes.
    #[serde(rename = "optimizer_bytes")]
    pub optimizer: BTreeMap<&'static str, f64>,
    /// Bytes alive over the step, wherever they lie.
    pub live: LiveSet,
    /// Where they lie, or what is missing.
    #[serde(flatten)]
    pub outcome: PlacementOutcome,
}

/// Places the tensors of one rank of a plan, or says which rule the plan breaks.
pub fn place(
    job: &Job,
    plan: &Plan,
    wish: &PlanPlacementRequest,
    control: &Control,
) -> Result<std::result::Result<PlanPlacement, BrokenRule>> {
    check(plan, wish)?;
    let split = match crate::plan::check(plan, &job.shape, &job.training, job.cluster.devices) {
        Ok(split) => split,
        Err(rule) => return Ok(Err(rule)),
    };
    if plan.token_slices.cuts() {
        return Ok(Err(BrokenRule::Slices(
            "token_slices above 1 is not placed: when each slice's tensors are used is not known",
        )));
    }
    let placed = super::verdict::with_composer(job, plan, |composer| {
        let composed = composer.compose(&mut Scratch::new());
        let stage = wish.stage.unwrap_or(composed.fullest);
        let problem = problem(composer, split, (&composed, stage), wish)?;
        let memories = &job.memories;
        let limits = Limits {
            gap: wish.relative_gap,
            nodes: wish.nodes,
            below: f64::INFINITY,
            shortage: true,
        };
        let outcome = placement::place(&problem, memories, &limits, control)?;
        let names = memories.places.iter().map(|p| p.tier.name.clone());
        Ok(PlanPlacement {
            stage,
            estimated_step_time_s: composed.time,
            tiers: names.collect(),
            optimizer: optimizer(job, &problem),
            live: LiveSet::new(&problem),
            problem,
            outcome,
        })
    });
    match placed {
        Ok(placed) => placed.map(Ok),
        Err(rule) => Ok(Err(rule)),
    }
}

/// Bytes of master weights and optimizer state by kind.
fn optimizer(job: &Job, problem: &Problem) -> BTreeMap<&'static str, f64> {
    let state = problem.tensors.iter();
    let state = state.filter(|t| t.class == Class::Optimizer);
    // what stays on the device to be updated is momentum of matrices, with no second moment
    let mut held = [("", 0.0); 3];
    for tensor in state {
        let mut kinds = optimizer_kinds(&job.training, job.graph.hidden as f64);
        if tensor.update.is_none() {
            kinds[2].1 -= bytes_saved_by_muon(&job.training);
        }
        let each: f64 = kinds.iter().map(|(_, bytes)| bytes).sum();
        for (held, (kind, bytes)) in held.iter_mut().zip(kinds) {
            *held = (
                kind,
                held.1 + tensor.bytes * bytes / each.max(f64::MIN_POSITIVE),
            );
        }
    }
    held.into_iter().filter(|(_, bytes)| *bytes > 0.0).collect()
}

/// Operations of a rank of a stage that its placement looks at one by one.
pub(super) fn operations(composer: &Composer, stage: u32) -> usize {
    steps::representative_order(composer, stage).0.len()
}

fn check(plan: &Plan, wish: &PlanPlacementRequest) -> Result<()> {
    if plan.offload_optimizer || plan.offload_activations > 0 {
        let what = "plan.offload_optimizer, plan.offload_activations: got an offload; allowed: neither, \
                    placement decides what leaves the device";
        return Err(Error::inconsistent(what));
    }
    if let Some(stage) = wish.stage.filter(|s| *s >= plan.pipeline) {
        let allowed = format!("0 to {}", plan.pipeline - 1);
        return Err(Error::invalid("stage", stage, allowed));
    }
    if !(1..=4096).contains(&wish.instants) {
        return Err(Error::invalid("instants", wish.instants, "1 to 4096"));
    }
    if !(0.0..1.0).contains(&wish.relative_gap) {
        return Err(Error::invalid(
            "relative_gap",
            wish.relative_gap,
            "0 up to but not including 1",
        ));
    }
    Ok(())
}

/// The placement problem of a rank of `stage`.
pub(super) fn problem(
    composer: &Composer,
    split: Split,
    (composed, stage): (&PlanCost, u32),
    wish: &PlanPlacementRequest,
) -> Result<Problem> {
    let steps = Steps::new(composer, split, (stage, wish.instants))?;
    let mut problem = Problem {
        windows: steps.windows(composed),
        tensors: steps.tensors(),
        fixed: steps.fixed(),
        activation_factor: crate::memory::FRAGMENTATION,
        rest_s: 0.0,
        objective: wish.objective,
        years: wish.years,
        main_share: 1.0 - composer.job.memory_margin,
    };
    problem.rest_s = (composed.time - problem.transfer_free_s()).max(0.0);
    let memories = &composer.job.memories;
    let behind = memories.places[memories.main()..].iter();
    let tiers: Vec<String> = if wish.tiers.is_empty() {
        behind.map(|place| place.tier.name.clone()).collect()
    } else {
        wish.tiers.clone()
    };
    for tensor in &mut problem.tensors {
        tensor.whole = wish.whole;
        tensor.tiers.clone_from(&tiers);
    }
    Ok(problem)
}

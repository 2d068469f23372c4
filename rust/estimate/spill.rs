//! How long is a step of a plan that does not fit, if placement puts what is too much into other tiers?

use super::compose::Composer;
use super::inventory::{PlanPlacementRequest, operations, problem};
use super::job::Job;
use super::verdict::with_composer;
use crate::control::Control;
use crate::error::Result;
use crate::memory::placement::{Class, Placement, PlacementOutcome, Problem, place_below};
use crate::plan::{Plan, Split, check};
use crate::schedule::Scratch;
use crate::solve::assign::Limits;
use serde::Serialize;

/// Relaxed programs that the placement of a stage may take; tensors may be split, so one is enough.
const MOST_NODES: u64 = 100;

/// A plan whose ranks keep some of their tensors in tiers behind the main one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpilledPlan {
    /// Time of a step.
    pub step_time_s: f64,
    /// Of that, transfers that nothing hides on the stage that is held up longest.
    pub transfers_s: f64,
    /// That stage.
    pub stage: u32,
    /// The most that lies in a device of that stage at one instant.
    pub device_bytes: f64,
    /// Proven gap of its placement.
    pub relative_gap: f64,
    /// Tensors of its ranks outside the main tier at the fullest instant, bytes by tier and class.
    pub away: Vec<SpilledBytes>,
}

/// Bytes of a class in a tier behind the main one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpilledBytes {
    /// The tier.
    pub tier: String,
    /// The class.
    pub class: Class,
    /// Bytes.
    pub bytes: f64,
}

/// What came of placing a plan's tensors.
#[derive(Debug, Clone, PartialEq)]
pub enum SpillResult {
    /// It fits so.
    Fits(Box<SpilledPlan>),
    /// Some stage has no placement, or the plan is not legal.
    NoPlacement,
    /// Proven: with transfers it is no faster than what was asked for.
    Slow,
    /// A stage has more operations than were to be looked at.
    TooManyOperations,
}

/// Which answers are of interest.
#[derive(Debug, Clone, Copy)]
pub struct SpillLimits {
    /// Operations that each stage may have in flight.
    pub operations: usize,
    /// The step must be shorter than this.
    pub below_s: f64,
}

impl Default for SpillLimits {
    fn default() -> Self {
        Self {
            operations: usize::MAX,
            below_s: f64::INFINITY,
        }
    }
}

/// Places the tensors of every stage that does not fit, if none has more operations in flight than the
/// limits allow, until one of them makes the step too long.
///
/// The step is longer by the transfers of the stage that is held up longest; stages wait for one
/// another, so what a shorter delay elsewhere adds is hidden by it.
pub fn spilled(
    job: &Job,
    plan: &Plan,
    limits: SpillLimits,
    control: &Control,
) -> Result<SpillResult> {
    let Ok(split) = check(plan, &job.shape, &job.training, job.cluster.devices) else {
        return Ok(SpillResult::NoPlacement);
    };
    if plan.offload_optimizer || plan.offload_activations > 0 || plan.token_slices.cuts() {
        return Ok(SpillResult::NoPlacement);
    }
    with_composer(job, plan, |composer| {
        slowest_stage(composer, split, limits, control)
    })
    .unwrap_or(Ok(SpillResult::NoPlacement))
}

fn slowest_stage(
    composer: &Composer,
    split: Split,
    limits: SpillLimits,
    control: &Control,
) -> Result<SpillResult> {
    let composed = composer.compose(&mut Scratch::new());
    let capacity = composer.job.capacity().value();
    let over = |stage: &u32| composer.footprint(*stage).total().value() > capacity;
    let stages: Vec<u32> = (0..composer.plan.pipeline).filter(over).collect();
    if stages
        .iter()
        .any(|stage| operations(composer, *stage) > limits.operations)
    {
        return Ok(SpillResult::TooManyOperations);
    }
    let mut worst: Option<SpilledPlan> = None;
    let mut placed: Vec<Problem> = Vec::new();
    for stage in stages {
        let problem = problem(
            composer,
            split,
            (&composed, stage),
            &PlanPlacementRequest::default(),
        )?;
        if placed.contains(&problem) {
            continue; // a stage like one before it
        }
        let memories = &composer.job.memories;
        let exact = Limits {
            gap: 1e-6,
            nodes: MOST_NODES,
            below: limits.below_s - composed.time + problem.transfer_free_s(),
            // a search passes over what does not fit
            shortage: false,
        };
        let placement = match place_below(&problem, memories, &exact, control)? {
            Some(PlacementOutcome::Placed(placement)) => placement,
            Some(PlacementOutcome::Impossible(_)) => return Ok(SpillResult::NoPlacement),
            None => return Ok(SpillResult::Slow),
        };
        let transfers_s = (placement.step_time_s - placement.transfer_free_s).max(0.0);
        if worst.as_ref().is_none_or(|w| transfers_s > w.transfers_s) {
            worst = Some(SpilledPlan {
                step_time_s: composed.time + transfers_s,
                transfers_s,
                stage,
                device_bytes: placement.tiers[memories.main()].peak_bytes,
                relative_gap: placement.relative_gap,
                away: spilled_bytes(composer.job, &placement),
            });
        }
        placed.push(problem);
    }
    Ok(worst.map_or(SpillResult::NoPlacement, |worst| {
        SpillResult::Fits(Box::new(worst))
    }))
}

fn spilled_bytes(job: &Job, placement: &Placement) -> Vec<SpilledBytes> {
    let behind = job.memories.own..job.memories.places.len();
    let fullest = placement.live.at as usize;
    let of = |(place, class): (usize, Class)| {
        let tier = &job.memories.places[place].tier.name;
        let lines = placement.memory.iter();
        let lying = lines.filter(|held| held.tier == *tier && held.class == class);
        let bytes = lying.map(|held| held.bytes[fullest]).sum();
        SpilledBytes {
            tier: tier.clone(),
            class,
            bytes,
        }
    };
    let pairs = behind.flat_map(|place| Class::ALL.map(|class| (place, class)));
    pairs.map(of).filter(|away| away.bytes >= 1.0).collect()
}

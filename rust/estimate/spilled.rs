//! How long is a step of a plan that does not fit, if placement puts what is too much into other tiers?

use super::compose::Composer;
use super::inventory::{Wish, problem};
use super::job::Job;
use super::residents::Residents;
use super::verdict::with_composer;
use crate::control::Control;
use crate::error::Result;
use crate::memory::placement::{Class, Outcome, Placement, place};
use crate::plan::{Plan, Split, check};
use crate::schedule::Scratch;
use crate::solve::assign::Limits;
use serde::Serialize;

/// Relaxed programs that the placement of a stage may take; tensors may be split, so one is enough.
const MOST_NODES: u64 = 100;

/// A plan whose ranks keep some of their tensors in tiers behind the main one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spilled {
    /// Time of a step.
    pub step_time_s: f64,
    /// Of that, transfers that nothing hides on the stage that is held up longest.
    pub transfers_s: f64,
    /// That stage.
    pub stage: u32,
    /// Proven gap of its placement.
    pub gap: f64,
    /// Tensors of its ranks outside the main tier, bytes by tier and class.
    pub away: Vec<Away>,
}

/// Bytes of a class in a tier behind the main one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Away {
    /// The tier.
    pub tier: String,
    /// The class.
    pub class: Class,
    /// Bytes while they are not in use.
    pub bytes: f64,
}

/// Places the tensors of every stage that does not fit; none where some stage has no placement, or
/// where the plan is not legal.
///
/// The step is longer by the transfers of the stage that is held up longest; stages wait for one
/// another, so what a shorter delay elsewhere adds is hidden by it.
pub fn spilled(job: &Job, plan: &Plan, control: &Control) -> Result<Option<Spilled>> {
    let Ok(split) = check(plan, &job.shape, &job.training, job.cluster.devices) else {
        return Ok(None);
    };
    if plan.offload_optimizer || plan.offload_activations > 0 {
        return Ok(None);
    }
    with_composer(job, plan, |composer| worst(composer, split, control)).unwrap_or(Ok(None))
}

fn worst(composer: &Composer, split: Split, control: &Control) -> Result<Option<Spilled>> {
    let composed = composer.compose(&mut Scratch::new());
    let residents = Residents::new(composer);
    let capacity = composer.job.capacity().value();
    let over = |stage: &u32| residents.stage(*stage).total().value() > capacity;
    let limits = Limits {
        gap: 1e-6,
        nodes: MOST_NODES,
    };
    let mut worst: Option<Spilled> = None;
    for stage in (0..composer.plan.pipeline).filter(over) {
        let problem = problem(composer, split, (&composed, stage), &Wish::default())?;
        let memories = &composer.job.memories;
        let Outcome::Placed(placement) = place(&problem, memories, &limits, control)? else {
            return Ok(None);
        };
        let transfers_s = (placement.step_s - placement.transfer_free_s).max(0.0);
        if worst.as_ref().is_none_or(|w| transfers_s > w.transfers_s) {
            worst = Some(Spilled {
                step_time_s: composed.time + transfers_s,
                transfers_s,
                stage,
                gap: placement.gap,
                away: away(composer.job, &placement),
            });
        }
    }
    Ok(worst)
}

fn away(job: &Job, placement: &Placement) -> Vec<Away> {
    let behind = job.memories.own..job.memories.places.len();
    let of = |(place, class): (usize, Class)| {
        let tensors = placement.tensors.iter().filter(|t| t.class == class);
        let bytes = tensors.map(|t| t.bytes * t.shares[place]).sum();
        Away {
            tier: job.memories.places[place].tier.name.clone(),
            class,
            bytes,
        }
    };
    let pairs = behind.flat_map(|place| Class::ALL.map(|class| (place, class)));
    pairs.map(of).filter(|away| away.bytes >= 1.0).collect()
}

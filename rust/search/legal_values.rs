//! Which listed values of a field can some plan of a job have, and what do the others break?

use super::space::{Space, listed};
use crate::estimate::Job;
use crate::plan::{
    BrokenRule, ExpertRecompute, Plan, RecomputePolicy, check_host, check_recompute,
};

/// Values of the fields whose legality no mesh and no schedule decides.
#[derive(Debug)]
pub(super) struct LegalValues {
    pub(super) host_activations: Vec<u32>,
    pub(super) host_optimizers: Vec<bool>,
    pub(super) rests: Vec<RecomputePolicy>,
    pub(super) experts: Vec<ExpertRecompute>,
    /// What the values that are left out break.
    pub(super) broken: Vec<BrokenRule>,
}

impl LegalValues {
    pub(super) fn new(space: &Space, job: &Job) -> Self {
        let mut broken = Vec::new();
        let hosted = |plan: Plan| check_host(&plan, &job.shape, &job.training);
        let again = |plan: Plan| check_recompute(&plan, &job.shape);
        let host_activations = legal(
            listed(space.offload_activations.as_ref(), &[0]),
            &mut broken,
            |offload_activations| {
                hosted(Plan {
                    offload_activations,
                    ..Plan::default()
                })
            },
        );
        let host_optimizers = legal(
            listed(space.offload_optimizer.as_ref(), &[false]),
            &mut broken,
            |offload_optimizer| {
                hosted(Plan {
                    offload_optimizer,
                    ..Plan::default()
                })
            },
        );
        let rests = legal(
            listed(space.recompute_rest.as_ref(), &[RecomputePolicy::None]),
            &mut broken,
            |recompute_rest| {
                again(Plan {
                    recompute_layers: 1,
                    recompute_rest,
                    ..Plan::default()
                })
            },
        );
        let experts = legal(
            listed(space.recompute_experts.as_ref(), &[ExpertRecompute::Same]),
            &mut broken,
            |recompute_experts| {
                again(Plan {
                    recompute_experts,
                    ..Plan::default()
                })
            },
        );
        Self {
            host_activations,
            host_optimizers,
            rests,
            experts,
            broken,
        }
    }
}

/// The values with which a plan of a job can be legal; what the others break is noted.
fn legal<T: Copy>(
    values: Vec<T>,
    broken: &mut Vec<BrokenRule>,
    check: impl Fn(T) -> Result<(), BrokenRule>,
) -> Vec<T> {
    let mut kept = values;
    kept.retain(|&value| check(value).inspect_err(|rule| broken.push(*rule)).is_ok());
    kept
}

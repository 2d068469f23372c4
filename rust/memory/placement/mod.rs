//! Where should each byte of a step live: which tier, when, and is that proven best?
//!
//! Tensors with lifetimes and uses become items of a multiple-choice program (`solve::assign`): an
//! option of an item is a tier with what the tensor then holds, moves and wears out. Within a window
//! transfers run beside compute, so a window lasts as long as its compute or its busiest lane.

mod answer;
mod build;
mod live_set;
mod option_costs;
mod problem;
mod request;
mod rules;
mod step_lengths;
mod tally;
mod tensor;
mod wear;

pub use answer::{
    HeldBytes, LaneUse, PlacedTensor, Placement, PlacementOutcome, Shortage, TierUse,
};
pub use live_set::LiveSet;
pub use problem::{Fixed, MOST_INSTANTS, MOST_TENSORS, Objective, Problem, Window};
pub use request::{Request, TensorPlacement};
pub use rules::{FixedRule, RuleCost};
pub use tensor::{Class, Tensor, Update, Use};

use crate::control::Control;
use crate::error::Result;
use crate::hardware::Memories;
use crate::solve::assign::Limits;
use build::{ModelObjective, StepLengths};
use option_costs::PlacementContext;
use step_lengths::PlacementSearchOutcome;

/// Places the tensors of a problem on the memories of a device, or says what is missing.
///
/// The step is `sum over windows of repeats * max(compute, busiest lane) + rest`. The wear that is
/// allowed, refreshes and the energy of keeping are taken over that step. Among placements that are
/// equal in all that counts, the one that moves and keeps the fewest bytes behind the main tier is
/// taken. Fixed rules are weighed on the same tensors, tiers and windows.
pub fn place(
    problem: &Problem,
    memories: &Memories,
    limits: &Limits,
    control: &Control,
) -> Result<PlacementOutcome> {
    let limits = Limits {
        below: f64::INFINITY,
        ..*limits
    };
    let outcome = place_below(problem, memories, &limits, control)?;
    Ok(outcome.unwrap_or_else(|| PlacementOutcome::Impossible(Vec::new()))) // every placement is below infinity
}

/// As [`place`]; none where it is proven that no placement has an objective below `limits.below`, which
/// takes far less than to find the best one.
pub fn place_below(
    problem: &Problem,
    memories: &Memories,
    limits: &Limits,
    control: &Control,
) -> Result<Option<PlacementOutcome>> {
    problem.check(memories)?;
    let context = PlacementContext::new(problem, memories);
    let homeless = answer::tensors_without_tier(problem, &context);
    if !homeless.is_empty() {
        return Ok(Some(PlacementOutcome::Impossible(homeless)));
    }
    Ok(
        match step_lengths::best_placement(&context, limits, control)? {
            PlacementSearchOutcome::Found(mut best, proven) => {
                best.pulled_to_main_tier(&context, control)?;
                let mut placement = context.answer(&best, &proven);
                let rules = rules::known_rules(&context);
                let weighed = rules
                    .iter()
                    .map(|rule| context.rule_cost(&best.built, rule));
                placement.rules = weighed.collect();
                Some(PlacementOutcome::Placed(Box::new(placement)))
            }
            PlacementSearchOutcome::Nothing(missing) => Some(PlacementOutcome::Impossible(missing)),
            PlacementSearchOutcome::NoneBelow => None,
        },
    )
}

/// What one fixed rule costs on the tensors of a problem; none where the main tier is too small even
/// for what never moves.
pub fn fixed_rule_cost(
    problem: &Problem,
    memories: &Memories,
    rule: &FixedRule,
) -> Result<Option<RuleCost>> {
    problem.check(memories)?;
    let context = PlacementContext::new(problem, memories);
    let shortest = StepLengths::only(problem.transfer_free_s());
    let built = context.build(ModelObjective::Objective(shortest)).ok();
    Ok(built.map(|built| context.rule_cost(&built, rule)))
}

//! What do fixed rules of placement cost: everything near, optimizer state in host memory, all on flash?

use super::answer::{Shortage, shortages};
use super::build::{BuiltModel, ModelObjective, StepLengths};
use super::option_costs::PlacementContext;
use super::tally::PlacementTally;
use super::tensor::Class;
use serde::{Deserialize, Serialize};

/// A rule that sends each class to tiers in fixed shares, as `FlexGen`'s percentages do (Sheng et al.
/// 2023, section 4.2). Classes that it does not name lie in the main tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedRule {
    /// What it is called.
    pub name: String,
    /// Class, tier, and share of the class in that tier; the rest stays in the main tier.
    pub shares: Vec<(Class, String, f64)>,
    /// True where the host updates what lies with it.
    #[serde(default)]
    pub in_place: bool,
}

/// What a rule comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleCost {
    /// The rule.
    pub name: String,
    /// Objective, whether it fits or not.
    #[serde(rename = "objective_value")]
    pub objective: f64,
    /// Length of a step.
    pub step_time_s: f64,
    /// What it lacks; empty where it fits.
    pub missing: Vec<Shortage>,
}

/// Rules of well-known systems that the tiers of a device allow.
pub(super) fn known_rules(context: &PlacementContext) -> Vec<FixedRule> {
    let memories = context.memories;
    let main = memories.places[memories.main()].tier.name.clone();
    let rule = |name: String, classes: &[Class], tier: &str, in_place: bool| FixedRule {
        name,
        shares: classes.iter().map(|c| (*c, tier.to_owned(), 1.0)).collect(),
        in_place,
    };
    let mut rules = vec![rule(format!("everything in {main}"), &[], &main, false)];
    let states = [
        Class::Weights,
        Class::Experts,
        Class::Gradients,
        Class::Optimizer,
    ];
    if let Some(host) = memories.host {
        let host = memories.places[host].tier.name.as_str();
        let title = format!("ZeRO-Offload: optimizer state in {host}, updated there");
        rules.push(rule(title, &[Class::Optimizer], host, true));
        let title = format!("kept activations in {host}");
        rules.push(rule(title, &[Class::Activations], host, false));
    }
    let farther = &memories.places[memories.own..];
    for place in farther {
        let tier = place.tier.name.as_str();
        let title = format!("ZeRO-Infinity: all model states in {tier}");
        rules.push(rule(title, &states, tier, false));
    }
    rules
}

impl PlacementContext<'_> {
    /// Weighs a rule on the same model that the optimum is found on.
    pub(super) fn rule_cost(&self, built: &BuiltModel, rule: &FixedRule) -> RuleCost {
        let mut shares = vec![0.0; built.model.options()];
        for (item, tensor) in (0..).zip(&self.problem.tensors) {
            let options = built.model.options_of(item);
            let in_place = rule.in_place && tensor.update.is_some();
            let find = |tier: &str| {
                let there = |option: &u32| {
                    let site = built.options[*option as usize];
                    self.memories.places[site.place].tier.name == tier && site.keep == 0
                };
                let there: Vec<u32> = options.clone().filter(there).collect();
                let wanted = |option: &&u32| built.options[**option as usize].in_place == in_place;
                there.iter().find(wanted).or(there.first()).copied()
            };
            let mut left = 1.0;
            for (class, tier, share) in &rule.shares {
                if let Some(option) = find(tier).filter(|_| *class == tensor.class) {
                    let share = share.min(left);
                    shares[option as usize] += share;
                    left -= share;
                }
            }
            let main = &self.memories.places[self.memories.main()].tier.name;
            if let Some(option) = find(main) {
                shares[option as usize] += left;
            } else if let Some(option) = options.clone().next() {
                shares[option as usize] += left;
            }
        }
        let tally = PlacementTally::new(self, built, &shares);
        // the model that is over the rule's own step says what that lacks
        let own = ModelObjective::Objective(StepLengths::only(tally.step_s));
        let depends = self.depends_on_length();
        let own = depends.then(|| self.build(own).ok()).flatten();
        let built = own.as_ref().unwrap_or(built);
        RuleCost {
            name: rule.name.clone(),
            objective: tally.objective(),
            step_time_s: tally.step_s,
            missing: shortages(self, built, &built.model.evaluate(&shares).excess),
        }
    }
}

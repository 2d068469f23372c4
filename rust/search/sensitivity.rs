//! By how much does a step change with each constant of the cluster, and where does the best plan change?

use super::driver::search;
use super::limits::{Limits, OffloadWhen};
use super::space::Space;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::estimate::{Job, PlanCost, price};
use crate::hardware::{Cluster, Constant};
use crate::plan::Plan;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// What is asked of the constants.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SensitivityRequest {
    /// Share by which each constant is made larger, then smaller.
    pub change: f64,
    /// Whether the best plan is searched again under each change.
    pub search: bool,
}

impl Default for SensitivityRequest {
    fn default() -> Self {
        Self {
            change: 0.1,
            search: false,
        }
    }
}

impl SensitivityRequest {
    fn check(self) -> Result<()> {
        if (1e-6..=0.9).contains(&self.change) {
            return Ok(());
        }
        let allowed = "a share from 1e-6 to 0.9";
        Err(Error::invalid("change", self.change, allowed))
    }
}

/// A plan under one change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChangedCost {
    /// Time of a step.
    pub step_time_s: f64,
    /// Bytes on the fullest rank.
    pub peak_memory_bytes: f64,
    /// True where the plan fits.
    pub fits: bool,
}

/// The best plan under one change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangedBest {
    /// The plan.
    pub plan: Plan,
    /// Time of its step.
    pub step_time_s: f64,
    /// Bytes on its fullest rank.
    pub peak_memory_bytes: f64,
    /// True where it is another plan than the one that is best without the change.
    pub changed: bool,
}

/// One constant, changed in one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Swing {
    /// What the constant was multiplied by; a share stays at most 1.
    pub factor: f64,
    /// The plan that was asked for.
    #[serde(flatten)]
    pub cost: ChangedCost,
    /// The plan that is then best, where that was asked for and any fits.
    pub best: Option<ChangedBest>,
}

/// What one constant does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// The constant.
    #[serde(flatten)]
    pub constant: Constant,
    /// With a larger value.
    pub up: Swing,
    /// With a smaller value.
    pub down: Swing,
    /// `d ln(step time) / d ln(constant)` of the plan, between both changes.
    pub elasticity: f64,
    /// The same of the best step time, the plan being chosen anew; none where it was not asked for or
    /// nothing fits under one change.
    pub best_elasticity: Option<f64>,
}

/// What every constant does to a plan and to the best plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sensitivity {
    /// The plan.
    pub plan: Plan,
    /// What it costs as the constants are.
    #[serde(flatten)]
    pub cost: ChangedCost,
    /// The best plan as the constants are, where it was asked for and any fits.
    pub best: Option<ChangedBest>,
    /// Every constant, the one that moves the step time of the plan most first.
    pub effects: Vec<Effect>,
}

/// Prices a plan with each constant of the cluster made larger and smaller, alone; where asked for,
/// the best plan of the space is searched again each time.
pub fn sensitivity(
    job: &Job,
    plan: &Plan,
    space: &Space,
    request: SensitivityRequest,
    control: &Control,
) -> Result<Sensitivity> {
    request.check()?;
    space.one_recipe()?;
    let cost = cost(job, plan)?;
    let best = if request.search {
        best_plan(job, space, None, control)?
    } else {
        None
    };
    let constants = job.cluster.constants();
    let changes: Vec<Change> = (0..constants.len())
        .flat_map(|at| [1.0 + request.change, 1.0 - request.change].map(|factor| (at, factor)))
        .map(|(at, factor)| Change {
            at,
            factor: constants[at].applied(factor),
            worse: constants[at].kind.larger_is_better() == (factor < 1.0),
        })
        .collect();
    control.set_total(changes.len() as u64);
    let one = |change: &Change| -> Result<Swing> {
        let changed = change.job(job)?;
        let best = match &best {
            Some(best) => searched(&changed, space, best, change.worse, control)?,
            None => None,
        };
        control.advance(1);
        Ok(Swing {
            factor: change.factor,
            cost: self::cost(&changed, plan)?,
            best,
        })
    };
    // a search takes all threads by itself
    let swings: Vec<Swing> = if request.search {
        changes.iter().map(one).collect::<Result<_>>()?
    } else {
        changes.par_iter().map(one).collect::<Result<_>>()?
    };
    let mut swings = swings.into_iter();
    let mut effects: Vec<Effect> = constants
        .into_iter()
        .zip(std::iter::from_fn(|| swings.next().zip(swings.next())))
        .map(|(constant, (up, down))| Effect::new(constant, up, down))
        .collect();
    effects.sort_by(|a, b| b.moves(&cost).total_cmp(&a.moves(&cost)));
    Ok(Sensitivity {
        plan: plan.clone(),
        cost,
        best,
        effects,
    })
}

/// One constant times a factor.
struct Change {
    at: usize,
    factor: f64,
    /// True where no plan can be better for it.
    worse: bool,
}

impl Change {
    fn job(&self, job: &Job) -> Result<Job> {
        let mut factors = vec![1.0; self.at];
        factors.push(self.factor);
        job.on(Cluster::scaled(&job.cluster, &factors))
    }
}

impl Effect {
    fn new(constant: Constant, up: Swing, down: Swing) -> Self {
        let apart = (up.factor / down.factor).ln();
        let slope = |up: f64, down: f64| (up / down).ln() / apart;
        let best = up.best.as_ref().zip(down.best.as_ref());
        Self {
            elasticity: slope(up.cost.step_time_s, down.cost.step_time_s),
            best_elasticity: best.map(|(up, down)| slope(up.step_time_s, down.step_time_s)),
            constant,
            up,
            down,
        }
    }

    /// Seconds by which the step moves most; behind them, bytes.
    fn moves(&self, cost: &ChangedCost) -> f64 {
        let both = [&self.up, &self.down].map(|swing| swing.cost.step_time_s);
        let most = |most: f64, time: f64| most.max((time - cost.step_time_s).abs());
        both.into_iter().fold(0.0, most)
    }
}

fn cost(job: &Job, plan: &Plan) -> Result<ChangedCost> {
    match price(job, plan) {
        Ok(composed) => Ok(ChangedCost {
            step_time_s: composed.time,
            peak_memory_bytes: composed.memory,
            fits: composed.fits(job),
        }),
        Err(rule) => Err(Error::inconsistent(format!("plan: {rule}"))),
    }
}

/// The best plan under a change.
fn searched(
    job: &Job,
    space: &Space,
    best: &ChangedBest,
    worse: bool,
    control: &Control,
) -> Result<Option<ChangedBest>> {
    // no constant makes a step shorter where it gets worse: a best plan that stays as it is stays the best
    if worse && let Ok(composed) = price(job, &best.plan) {
        let same = (composed.time - best.step_time_s).abs() <= 0.0;
        if same && composed.fits(job) {
            return Ok(Some(winner(&best.plan, &composed, Some(best))));
        }
    }
    best_plan(job, space, Some(best), control)
}

fn best_plan(
    job: &Job,
    space: &Space,
    before: Option<&ChangedBest>,
    control: &Control,
) -> Result<Option<ChangedBest>> {
    let limits = Limits {
        top: 1,
        offload: OffloadWhen::Never,
        ..Limits::default()
    };
    let found = search(job, space, &limits, &control.part())?;
    let first = found.best.first();
    Ok(first.map(|found| winner(&found.plan, &found.composed, before)))
}

fn winner(plan: &Plan, composed: &PlanCost, before: Option<&ChangedBest>) -> ChangedBest {
    ChangedBest {
        plan: plan.clone(),
        step_time_s: composed.time,
        peak_memory_bytes: composed.memory,
        changed: before.is_some_and(|before| before.plan != *plan),
    }
}

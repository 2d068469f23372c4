//! Which plan is good whatever the constants truly are, within what is known of them?

use super::driver::search;
use super::limits::{Limits, OffloadWhen};
use super::report::SearchOutcome;
use super::space::Space;
use super::uncertainty::{UncertainConstant, Uncertainty};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::estimate::{Job, PlanPricer, PriceRow};
use crate::plan::Plan;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most draws: the shares of so many are within 0.4% at odds of twenty to one.
const MOST_SAMPLES: u32 = 100_000;
/// The percentile of regret that is told beside the mean and the worst.
const PERCENTILE: f64 = 0.95;

/// What is asked of a pool of plans.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RobustRequest {
    /// Fastest plans of the search that are compared; the front of time against memory joins them.
    pub pool: usize,
    /// Draws of the constants.
    pub samples: u32,
    /// Which draws: the same seed gives the same ones on every machine and any number of threads.
    pub seed: u64,
    /// Regret up to which a plan counts as near the best.
    pub tolerance: f64,
    /// How far constants may be off, by name; see `Uncertainty::new`.
    pub uncertainty: BTreeMap<String, f64>,
}

impl Default for RobustRequest {
    fn default() -> Self {
        Self {
            pool: 200,
            samples: 256,
            seed: 0,
            tolerance: 0.02,
            uncertainty: BTreeMap::new(),
        }
    }
}

impl RobustRequest {
    fn check(&self) -> Result<()> {
        if !(1..=MOST_SAMPLES).contains(&self.samples) {
            let allowed = format!("1 to {MOST_SAMPLES}");
            return Err(Error::invalid("samples", self.samples, allowed));
        }
        if !(0.0..=1.0).contains(&self.tolerance) {
            let allowed = "a share from 0 to 1";
            return Err(Error::invalid("tolerance", self.tolerance, allowed));
        }
        Ok(())
    }
}

/// How one plan of the pool fares over the draws. A draw in which it does not fit has no time; its
/// regret is then without bound, and figures that would be infinite are left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Risk {
    /// The plan.
    pub plan: Plan,
    /// Step time as the constants are.
    pub step_time_s: f64,
    /// Bytes on the fullest rank, likewise.
    pub peak_memory_bytes: f64,
    /// Mean over the draws of the regret: the step time over that of the draw's best plan, less 1.
    pub mean_regret: Option<f64>,
    /// The regret that 95% of the draws do not exceed.
    pub p95_regret: Option<f64>,
    /// The largest regret of any draw.
    pub worst_regret: Option<f64>,
    /// Share of the draws in which the plan is the best of the pool; of equal ones the first counts.
    pub best_probability: f64,
    /// Share of the draws in which its regret is at most the tolerance.
    pub near_probability: f64,
    /// Share of the draws in which it fits.
    pub fits_probability: f64,
    /// Its step time with every constant at the better end of its interval, and at the worse end, made
    /// wider by draws outside.
    ///
    /// A step is not shorter where a constant gets worse, so there are none.
    pub bounds_s: [f64; 2],
}

/// How the plans of a pool fare where constants are known within intervals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Robust {
    /// Step time that no plan outside the pool beats as the constants are; none where the pool holds
    /// every plan of the space that is legal and fits. Under other constants a plan outside may be better than all
    /// of the pool: in that the choice is a heuristic.
    pub outside_bound_s: Option<f64>,
    /// Draws.
    pub samples: u32,
    /// Draws in which no plan of the pool fits; they bear on nothing but `fits_probability`.
    pub samples_without_plan: u32,
    /// Which draws.
    pub seed: u64,
    /// Regret up to which a plan is near the best.
    pub tolerance: f64,
    /// What was drawn.
    pub uncertain: Vec<UncertainConstant>,
    /// The pool, by rising step time as the constants are.
    pub plans: Vec<Risk>,
    /// Place of the plan of least worst regret; of equal ones the first.
    pub least_worst_regret: Option<usize>,
    /// Place of the plan of least 95% regret.
    pub least_p95_regret: Option<usize>,
    /// Places of the plans within the tolerance of the best in every draw.
    pub always_near: Vec<usize>,
}

/// Searches the best plans, prices them under draws of the constants, and says how each fares.
pub fn robust(
    job: &Job,
    space: &Space,
    request: &RobustRequest,
    control: &Control,
) -> Result<Robust> {
    request.check()?;
    space.one_recipe()?;
    let uncertainty = Uncertainty::new(&job.cluster, &request.uncertainty)?;
    let limits = Limits {
        top: request.pool,
        offload: OffloadWhen::Never,
        ..Limits::default()
    };
    let found = search(job, space, &limits, control)?;
    let pool = Pool::of(&found, request.pool);
    if pool.plans.is_empty() {
        let what = "robust: got a job in which no plan fits in device memory; allowed: one in which some do";
        return Err(Error::inconsistent(what));
    }
    let (done, _) = control.progress();
    control.set_total(done + u64::from(request.samples));
    let draws = draws(job, &pool, &uncertainty, request, control)?;
    let at = |shortest| pool.times(&job.on(job.cluster.scaled(&uncertainty.corner(shortest)))?);
    let ends = [at(true)?, at(false)?];
    Ok(pool.judged(&draws, &ends, uncertainty.listed(), request))
}

/// Step times of the pool in each draw; infinite where a plan does not fit.
fn draws(
    job: &Job,
    pool: &Pool,
    uncertainty: &Uncertainty,
    request: &RobustRequest,
    control: &Control,
) -> Result<Vec<Vec<f64>>> {
    let one = |index: u32| {
        if control.is_cancelled() {
            let (done, total) = control.progress();
            let what = format!("robust after {done} of {total} parts");
            return Err(Error::Cancelled { what });
        }
        let factors = uncertainty.draw(request.seed, u64::from(index));
        let drawn = job.on(job.cluster.scaled(&factors))?;
        let mut times = pool.times(&drawn)?;
        for price in &mut times {
            if !price.fits {
                price.time = f64::INFINITY;
            }
        }
        control.advance(1);
        Ok(times.into_iter().map(|price| price.time).collect())
    };
    (0..request.samples).into_par_iter().map(one).collect()
}

/// What a plan costs under some constants.
#[derive(Debug, Clone, Copy)]
struct DrawPrice {
    time: f64,
    fits: bool,
}

/// The plans that are compared.
struct Pool {
    /// With step time and memory as the constants are, by rising time.
    plans: Vec<(Plan, f64, f64)>,
    outside: Option<f64>,
}

impl Pool {
    /// The best plans of a search for `top` of them, and its front.
    fn of(found: &SearchOutcome, top: usize) -> Self {
        let mut plans: Vec<(Plan, f64, f64)> = Vec::new();
        for found in found.best.iter().chain(&found.front) {
            if !plans.iter().any(|(plan, ..)| *plan == found.plan) {
                let composed = &found.composed;
                plans.push((found.plan.clone(), composed.time, composed.memory));
            }
        }
        plans.sort_by(|a, b| a.1.total_cmp(&b.1));
        let last = found.best.last().filter(|_| found.best.len() >= top);
        Self {
            plans,
            outside: last.map(|last| last.composed.time),
        }
    }

    fn times(&self, job: &Job) -> Result<Vec<DrawPrice>> {
        let mut desk = PlanPricer::new(job);
        let price = |(plan, ..): &(Plan, f64, f64)| match desk.price(plan) {
            PriceRow::Priced { time, fits, .. } => Ok(DrawPrice { time, fits }),
            // what is legal does not depend on the constants
            PriceRow::Illegal => Err(Error::inconsistent(
                "robust: a plan of the pool is not legal",
            )),
        };
        self.plans.iter().map(price).collect()
    }

    fn judged(
        self,
        draws: &[Vec<f64>],
        ends: &[Vec<DrawPrice>; 2],
        uncertain: Vec<UncertainConstant>,
        request: &RobustRequest,
    ) -> Robust {
        let outside = self.outside;
        let least = |times: &Vec<f64>| times.iter().copied().fold(f64::INFINITY, f64::min);
        let bests: Vec<f64> = draws.iter().map(least).collect();
        let without = bests.iter().filter(|best| best.is_infinite()).count();
        let plans = self.risks(draws, &bests, ends, request.tolerance);
        let near = plans.iter().enumerate();
        let near = near.filter(|(_, risk)| risk.near_probability >= 1.0);
        Robust {
            outside_bound_s: outside,
            samples: request.samples,
            samples_without_plan: u32::try_from(without).unwrap_or(u32::MAX),
            seed: request.seed,
            tolerance: request.tolerance,
            uncertain,
            least_worst_regret: least_of(&plans, |risk| risk.worst_regret),
            least_p95_regret: least_of(&plans, |risk| risk.p95_regret),
            always_near: near.map(|(at, _)| at).collect(),
            plans,
        }
    }

    fn risks(
        self,
        draws: &[Vec<f64>],
        bests: &[f64],
        [better, worse]: &[Vec<DrawPrice>; 2],
        tolerance: f64,
    ) -> Vec<Risk> {
        let mut wins = vec![0.0; self.plans.len()];
        for (times, best) in draws.iter().zip(bests) {
            let first = times.iter().position(|time| time <= best);
            if let Some(first) = first.filter(|_| best.is_finite()) {
                wins[first] += 1.0;
            }
        }
        let risk = |(at, (plan, time, memory)): (usize, (Plan, f64, f64))| {
            let own: Vec<f64> = draws.iter().map(|times| times[at]).collect();
            let regrets = Regrets::new(&own, bests, tolerance);
            let drawn = own.iter().copied().filter(|time| time.is_finite());
            let bounds = drawn.fold([better[at].time, worse[at].time], |[least, most], time| {
                [time.min(least), time.max(most)]
            });
            Risk {
                plan,
                step_time_s: time,
                peak_memory_bytes: memory,
                mean_regret: regrets.mean(),
                p95_regret: percentile(&regrets.all).and_then(finite),
                worst_regret: regrets.all.last().copied().and_then(finite),
                best_probability: wins[at] / regrets.all.len().max(1) as f64,
                near_probability: regrets.near,
                fits_probability: regrets.fits,
                bounds_s: bounds,
            }
        };
        self.plans.into_iter().enumerate().map(risk).collect()
    }
}

/// The figures that follow from a plan's times and the best times of the same draws.
struct Regrets {
    /// Rising.
    all: Vec<f64>,
    near: f64,
    fits: f64,
}

impl Regrets {
    fn new(times: &[f64], bests: &[f64], tolerance: f64) -> Self {
        let pairs = times.iter().zip(bests).filter(|(_, best)| best.is_finite());
        let mut all: Vec<f64> = pairs.map(|(time, best)| time / best - 1.0).collect();
        all.sort_by(f64::total_cmp);
        let near = all.iter().filter(|regret| **regret <= tolerance).count();
        let fits = times.iter().filter(|time| time.is_finite()).count();
        Self {
            near: near as f64 / all.len().max(1) as f64,
            fits: fits as f64 / times.len() as f64,
            all,
        }
    }

    fn mean(&self) -> Option<f64> {
        let sum: f64 = self.all.iter().sum();
        finite(sum / self.all.len() as f64)
    }
}

/// A number that can be told.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// The least value that at least 95% of rising values do not exceed.
fn percentile(rising: &[f64]) -> Option<f64> {
    let within = |at: &usize| (at + 1) as f64 >= PERCENTILE * rising.len() as f64;
    (0..rising.len()).find(within).map(|at| rising[at])
}

/// Place of the plan with the least of a figure; plans without one do not count.
fn least_of(plans: &[Risk], of: impl Fn(&Risk) -> Option<f64>) -> Option<usize> {
    let named = (0..)
        .zip(plans)
        .filter_map(|(at, risk)| Some((at, of(risk)?)));
    named.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
}

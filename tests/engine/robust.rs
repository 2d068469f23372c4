//! Do sensitivities and regrets agree with pricing every changed cluster by hand, whatever the threads?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use rayon::ThreadPoolBuilder;
use scalewright::control::Control;
use scalewright::error::Error;
use scalewright::estimate::{Job, price};
use scalewright::plan::Plan;
use scalewright::search::robust::{Robust, RobustRequest, robust};
use scalewright::search::sensitivity::{self, Sensitivity};
use scalewright::search::{Limits, OffloadWhen, Space, Uncertainty, search};
use std::collections::BTreeMap;
use worlds::jobs;

fn job() -> Job {
    let mut cluster = worlds::nodes_of_eight(32);
    cluster.device = worlds::a100();
    cluster.system.device.clone_from(&cluster.device.name);
    let training = jobs::training(64, 2048, "");
    jobs::job(&jobs::llama(12, 4096, 16), &cluster, &training)
}

fn asked(uncertainty: &[(&str, f64)]) -> RobustRequest {
    let named = uncertainty.iter().map(|(name, u)| ((*name).to_owned(), *u));
    RobustRequest {
        pool: 20,
        samples: 24,
        seed: 7,
        uncertainty: named.collect(),
        ..RobustRequest::default()
    }
}

fn run(job: &Job, asked: &RobustRequest) -> Robust {
    robust(job, &Space::default(), asked, &Control::new()).unwrap()
}

/// Nothing is off.
fn known() -> RobustRequest {
    asked(&[("device", 0.0), ("fabric", 0.0)])
}

fn best(job: &Job, top: usize) -> Vec<(Plan, f64)> {
    let limits = Limits {
        top,
        offload: OffloadWhen::Never,
        ..Limits::default()
    };
    let found = search(job, &Space::default(), &limits, &Control::new()).unwrap();
    let best = found.best.into_iter();
    best.map(|found| (found.plan, found.composed.time))
        .collect()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

#[test]
fn regrets_are_those_of_pricing_each_draw_by_hand() {
    let job = job();
    let asked = asked(&[("device.matmul.efficiency", 0.3), ("fabric.*.latency", 1.0)]);
    let found = run(&job, &asked);
    let uncertainty = Uncertainty::new(&job.cluster, &asked.uncertainty).unwrap();
    let drawn: Vec<Job> = (0..u64::from(asked.samples))
        .map(|draw| uncertainty.draw(asked.seed, draw))
        .map(|factors| job.on(job.cluster.scaled(&factors)).unwrap())
        .collect();
    let times = |plan: &Plan| {
        drawn
            .iter()
            .map(|job| price(job, plan).unwrap().time)
            .collect()
    };
    let all: Vec<Vec<f64>> = found.plans.iter().map(|risk| times(&risk.plan)).collect();
    let mut best = vec![f64::INFINITY; drawn.len()];
    for times in &all {
        best.iter_mut()
            .zip(times)
            .for_each(|(best, time)| *best = time.min(*best));
    }
    let mut wins = 0.0;
    for (risk, times) in found.plans.iter().zip(&all) {
        let regrets: Vec<f64> = times.iter().zip(&best).map(|(t, b)| t / b - 1.0).collect();
        let count = regrets.len() as f64;
        let mean = regrets.iter().sum::<f64>() / count;
        let worst = regrets.iter().copied().fold(0.0, f64::max);
        let within = regrets.iter().filter(|r| **r <= asked.tolerance).count() as f64;
        let above = regrets
            .iter()
            .filter(|r| **r > risk.p95_regret.unwrap())
            .count() as f64;
        assert!(near(risk.mean_regret.unwrap(), mean) && near(risk.worst_regret.unwrap(), worst));
        assert!(near(risk.near_probability, within / count));
        assert!(above <= 0.05 * count && risk.p95_regret.unwrap() <= worst);
        assert!(
            times
                .iter()
                .all(|t| (risk.bounds_s[0]..=risk.bounds_s[1]).contains(t))
        );
        wins += risk.best_probability;
    }
    assert!(near(wins, 1.0));
    let least = found.plans[found.least_worst_regret.unwrap()].worst_regret;
    assert!(found.plans.iter().all(|risk| risk.worst_regret >= least));
}

#[test]
fn where_all_is_known_the_nominal_best_wins_every_draw() {
    let job = job();
    let found = run(&job, &known());
    assert!(found.uncertain.is_empty());
    let first = &found.plans[0];
    assert!((first.best_probability, first.worst_regret) == (1.0, Some(0.0)));
    for risk in &found.plans {
        assert!(
            near(risk.bounds_s[0], risk.step_time_s) && near(risk.bounds_s[1], risk.step_time_s)
        );
        let regret = risk.step_time_s / first.step_time_s - 1.0;
        assert!((risk.worst_regret.unwrap() - regret).abs() < 1e-12);
    }
    assert!(
        found
            .always_near
            .iter()
            .all(|&at| found.plans[at].step_time_s <= 1.02 * first.step_time_s)
    );
}

#[test]
fn the_pool_holds_the_best_plans_and_says_what_no_other_beats() {
    let job = job();
    let found = run(&job, &known());
    let best = best(&job, 21);
    for (plan, _) in &best[..20] {
        assert!(found.plans.iter().any(|risk| risk.plan == *plan));
    }
    assert!(near(found.outside_bound_s.unwrap(), best[19].1));
    assert!(best[20].1 >= found.outside_bound_s.unwrap());
    let small = Space {
        tensor: Some(vec![2]),
        pipeline: Some(vec![2]),
        context: Some(vec![1]),
        micro_batch: Some(vec![1]),
        ..Space::default()
    };
    let asked = RobustRequest {
        pool: 1000,
        ..known()
    };
    let all = robust(&job, &small, &asked, &Control::new()).unwrap();
    assert!(all.outside_bound_s.is_none() && all.plans.len() > 20);
}

#[test]
fn draws_do_not_depend_on_the_number_of_threads() {
    let job = job();
    let on = |threads| {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| run(&job, &asked(&[])))
    };
    assert_eq!(on(1), on(5));
    assert!(
        run(&job, &asked(&[]))
            != run(
                &job,
                &RobustRequest {
                    seed: 8,
                    ..asked(&[])
                }
            )
    );
}

#[test]
fn a_plan_that_a_draw_leaves_no_room_has_no_regret_but_a_chance_to_fit() {
    let job = job();
    let found = run(&job, &asked(&[("device.memory.capacity", 9.0)]));
    let fullest = found
        .plans
        .iter()
        .max_by(|a, b| a.peak_memory_bytes.total_cmp(&b.peak_memory_bytes));
    let (fullest, leanest) = (fullest.unwrap(), found.plans.last().unwrap());
    assert!(fullest.fits_probability > 0.0 && fullest.fits_probability < 0.95);
    assert!(leanest.fits_probability > fullest.fits_probability);
    assert!(fullest.worst_regret.is_none() && fullest.mean_regret.is_none());
    assert!(fullest.near_probability <= fullest.fits_probability);
    // the front reaches down to plans that always fit
    assert!(
        found.plans[found.least_worst_regret.unwrap()]
            .worst_regret
            .is_some()
    );
}

#[test]
fn wrong_uncertainties_are_refused_by_name() {
    let job = job();
    let refused = |given: &[(&str, f64)]| {
        let given = given
            .iter()
            .map(|(name, u)| ((*name).to_owned(), *u))
            .collect();
        let refused = Uncertainty::new(&job.cluster, &given);
        refused.map(|_| ()).unwrap_err().to_string()
    };
    assert!(
        refused(&[("device.memory.bandwith", 0.1)]).contains("nearest: device.memory.bandwidth")
    );
    assert!(refused(&[("fabric", -0.1)]).contains("uncertainty.fabric: got -0.1; allowed: 0 to 9"));
}

fn moved(job: &Job, plan: &Plan, change: f64, search: bool) -> Sensitivity {
    let asked = sensitivity::SensitivityRequest { change, search };
    let space = Space::default();
    sensitivity::sensitivity(job, plan, &space, asked, &Control::new()).unwrap()
}

#[test]
fn elasticities_of_times_less_those_of_rates_are_one() {
    // a step is homogeneous: twice every time and half of every rate make it twice as long (Euler)
    let job = job();
    for (plan, _) in best(&job, 5) {
        let found = moved(&job, &plan, 1e-5, false);
        let sum = |of: fn(&str) -> bool| -> f64 {
            let some = found.effects.iter().filter(|e| of(e.constant.unit));
            some.map(|effect| effect.elasticity).sum()
        };
        let total = sum(|unit| unit == "s") - sum(|unit| unit.ends_with("/s"));
        assert!((total - 1.0).abs() < 1e-3, "{total}");
    }
}

#[test]
fn effects_are_those_of_pricing_and_searching_each_change_by_hand() {
    let job = job();
    let (plan, _) = best(&job, 3).pop().unwrap();
    let found = moved(&job, &plan, 0.9, true);
    let names: BTreeMap<String, usize> = job
        .cluster
        .constants()
        .into_iter()
        .map(|c| c.name)
        .zip(0..)
        .collect();
    assert_eq!(names.len(), found.effects.len());
    let nominal = found.best.as_ref().unwrap();
    let mut changed = 0;
    for effect in &found.effects {
        for swing in [&effect.up, &effect.down] {
            let mut factors = vec![1.0; names[&effect.constant.name]];
            factors.push(swing.factor);
            let there = job.on(job.cluster.scaled(&factors)).unwrap();
            assert!(near(
                swing.cost.step_time_s,
                price(&there, &plan).unwrap().time
            ));
            let (winner, time) = best(&there, 1).pop().unwrap();
            let told = swing.best.as_ref().unwrap();
            assert!(near(told.step_time_s, time), "{}", effect.constant.name);
            assert_eq!(
                (&told.plan, told.changed),
                (&winner, winner != nominal.plan)
            );
            changed += u32::from(told.changed);
        }
    }
    assert!(changed > 0);
    let most = |e: &sensitivity::Effect| {
        let off = |s: &sensitivity::Swing| (s.cost.step_time_s - found.cost.step_time_s).abs();
        off(&e.up).max(off(&e.down))
    };
    assert!(
        found
            .effects
            .windows(2)
            .all(|pair| most(&pair[0]) >= most(&pair[1]))
    );
}

#[test]
fn both_stop_when_asked() {
    let job = job();
    let control = Control::new();
    control.cancel();
    let stopped = robust(&job, &Space::default(), &asked(&[]), &control);
    assert!(matches!(stopped, Err(Error::Cancelled { .. })));
    let asked = sensitivity::SensitivityRequest {
        change: 0.1,
        search: true,
    };
    let stopped = sensitivity::sensitivity(
        &job,
        &Plan {
            data: 32,
            ..Plan::default()
        },
        &Space::default(),
        asked,
        &control,
    );
    assert!(matches!(stopped, Err(Error::Cancelled { .. })));
}

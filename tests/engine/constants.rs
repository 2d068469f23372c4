//! Do the constants of a cluster have unlike names, and does a step follow them as physics says?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use proptest::prelude::*;
use scalewright::estimate::{Job, PlanCost, price};
use scalewright::hardware::{Cluster, Constant, ConstantKind};
use scalewright::plan::{Plan, Schedule};
use scalewright::search::Uncertainty;
use scalewright::units::{Dtype, FlopsPerSecond};
use std::collections::BTreeMap;
use worlds::{fabrics, jobs};

/// Rounding of sums of many terms.
const SLACK: f64 = 1e-9;

/// Share of the peak that products hold at the power limit, below what they reach in a short test.
const LASTING: f64 = 0.4;

fn scaled(job: &Job, factor: impl Fn(&Constant) -> f64) -> Job {
    let factors: Vec<f64> = job.cluster.constants().iter().map(factor).collect();
    job.on(job.cluster.scaled(&factors)).unwrap()
}

fn cost(job: &Job, plan: &Plan) -> PlanCost {
    price(job, plan).unwrap()
}

/// Twice as long, whatever is a rate or a time; the rest stays.
fn twice_as_slow(constant: &Constant) -> f64 {
    match constant.unit {
        "s" => 2.0,
        unit if unit.ends_with("/s") => 0.5,
        _ => 1.0,
    }
}

/// A device with everything that a model of products and attention may have.
fn rich(job: &Job, spread: f64) -> Job {
    let mut cluster = jobs::contended(job.clone()).cluster;
    let device = worlds::h100();
    cluster.device.matmul.throttle = device.matmul.throttle;
    cluster.device.tiers.insert(0, device.tiers[0].clone());
    cluster.device.speed_spread = spread;
    let peak = cluster.device.engine_peak(Dtype::Bf16).value();
    let lasting = FlopsPerSecond::new(LASTING * peak);
    cluster.device.sustained.insert(Dtype::Bf16, lasting);
    job.on(cluster).unwrap()
}

/// The plan under a schedule that runs gradients of weights apart, where that is legal.
fn with_weights_apart(job: &Job, plan: &Plan) -> Plan {
    let apart = Plan {
        schedule: Schedule::ZeroBubbleH1,
        interleave: 1,
        overlap_pipeline: true,
        ..plan.clone()
    };
    let legal = price(job, &apart).is_ok();
    if legal { apart } else { plan.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn half_of_every_rate_and_twice_every_time_make_a_step_twice_as_long(
        (job, plan) in jobs::planned(),
        spread in prop::sample::select(vec![0.0, 0.015]),
    ) {
        let job = rich(&job, spread);
        let (now, then) = (cost(&job, &plan), cost(&scaled(&job, twice_as_slow), &plan));
        prop_assert!((then.time / now.time - 2.0).abs() < SLACK, "{} {}", now.time, then.time);
        prop_assert!((then.memory - now.memory).abs() <= 0.0);
    }

    #[test]
    fn no_constant_makes_a_step_shorter_where_it_gets_worse(
        (job, plan) in jobs::planned(),
        change in prop::sample::select(vec![0.01, 0.1, 0.5]),
        apart in any::<bool>(),
    ) {
        let job = rich(&job, 0.015);
        let plan = if apart { with_weights_apart(&job, &plan) } else { plan };
        let now = cost(&job, &plan);
        for (at, constant) in job.cluster.constants().iter().enumerate() {
            let mut factors = vec![1.0; at];
            let better = constant.kind.larger_is_better();
            factors.push(if better { 1.0 / (1.0 + change) } else { 1.0 + change });
            let worse = job.on(job.cluster.scaled(&factors)).unwrap();
            let then = cost(&worse, &plan);
            prop_assert!(now.fits(&job) || !then.fits(&worse), "{}", constant.name);
            prop_assert!(
                then.time >= now.time * (1.0 - SLACK),
                "{}: {} to {}", constant.name, now.time, then.time
            );
        }
    }

    #[test]
    fn no_draw_lies_outside_the_corners_of_its_intervals(
        (job, plan) in jobs::planned(),
        seed in any::<u64>(),
        everything in any::<bool>(),
    ) {
        let job = rich(&job, 0.015);
        let given = if everything {
            ["device", "fabric", "host"].map(|name| (name.to_owned(), 0.4)).into()
        } else {
            BTreeMap::new()
        };
        let uncertainty = Uncertainty::new(&job.cluster, &given).unwrap();
        let time = |factors: Vec<f64>| cost(&job.on(job.cluster.scaled(&factors)).unwrap(), &plan).time;
        let [least, most] = [true, false].map(|shortest| time(uncertainty.corner(shortest)));
        for draw in 0..8 {
            let drawn = time(uncertainty.draw(seed, draw));
            prop_assert!(drawn >= least * (1.0 - SLACK) && drawn <= most * (1.0 + SLACK));
        }
    }
}

#[test]
fn rates_that_last_follow_the_peak_and_stay_the_same_share_of_it() {
    for share in [LASTING, 2.0] {
        let mut cluster = worlds::nodes_of_eight(8);
        let peak = cluster.device.engine_peak(Dtype::Bf16).value();
        let lasting = FlopsPerSecond::new(share * peak);
        cluster.device.sustained.insert(Dtype::Bf16, lasting);
        let scaled = |name: &str| {
            let factor = |c: &Constant| if c.name == name { 1.5 } else { 1.0 };
            let factors: Vec<f64> = cluster.constants().iter().map(factor).collect();
            cluster.scaled(&factors)
        };
        let unchanged = scaled("").device.sustained[&Dtype::Bf16].value();
        assert!((unchanged - share * peak).abs() <= 0.0);
        for name in ["device.matrix_peak.bf16", "device.sustained.bf16"] {
            let now = scaled(name).device.sustained[&Dtype::Bf16].value();
            assert!((now / (1.5 * share * peak) - 1.0).abs() < 1e-12, "{name}");
        }
        let now = scaled("device.matrix_peak.bf16");
        let held = now.constants();
        let held = held.iter().find(|c| c.name == "device.sustained.bf16");
        assert!((held.unwrap().value / share - 1.0).abs() < 1e-12);
    }
}

#[test]
fn where_a_lasting_rate_binds_a_higher_peak_helps_and_a_better_kernel_does_not() {
    let toy = jobs::job(
        &jobs::gpt(4, 4096),
        &worlds::nodes_of_eight(8),
        &jobs::training(32, 2048, ""),
    );
    let plan = Plan {
        data: 8,
        ..Plan::default()
    };
    let job = rich(&toy, 0.0);
    let time = |name: &str, by: f64| {
        let factor = |c: &Constant| if c.name.starts_with(name) { by } else { 1.0 };
        cost(&scaled(&job, factor), &plan).time
    };
    let now = cost(&job, &plan).time;
    for by in [0.9, 1.1] {
        let held = time("device.matmul.efficiency", by);
        assert!((held / now - 1.0).abs() < SLACK, "{now} {held}");
    }
    // beyond what lasts, a worse kernel is slower
    assert!(time("device.matmul.efficiency", 0.3) > 1.1 * now);
    for name in ["device.matrix_peak", "device.sustained"] {
        let (quicker, slower) = (time(name, 1.1), time(name, 0.9));
        assert!(quicker < 0.97 * now && slower > 1.03 * now, "{name}");
    }
    assert!((time("", 1.0) - now).abs() <= 0.0);
}

/// Toy clusters of every kind of level, with a host.
fn clusters() -> Vec<Cluster> {
    let mut all = vec![
        worlds::nodes_of_eight(16),
        worlds::oversubscribed(64),
        worlds::torus(64),
        worlds::full_mesh(8),
        worlds::reducing_switches(16),
        fabrics::optical(16),
        fabrics::wide_area(16),
        fabrics::ramp(64),
    ];
    for cluster in &mut all {
        cluster.system.host = Some(jobs::host());
    }
    all
}

#[test]
fn names_are_unlike_and_values_positive() {
    for cluster in clusters() {
        let constants = cluster.constants();
        let mut names: Vec<&str> = constants.iter().map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        assert!(
            constants
                .iter()
                .all(|c| c.value > 0.0 && c.value.is_finite())
        );
        let level = &cluster.system.levels[0].name;
        for name in [
            "device.matrix_peak.bf16".to_owned(),
            "device.memory.bandwidth".to_owned(),
            format!("fabric.{level}.latency"),
            "host.link.bandwidth".to_owned(),
        ] {
            assert!(names.contains(&name.as_str()), "{name} in {names:?}");
        }
    }
}

#[test]
fn scaling_multiplies_the_named_value_alone_and_shares_end_at_one() {
    for cluster in clusters() {
        let before = cluster.constants();
        for (at, constant) in before.iter().enumerate() {
            let mut factors = vec![1.0; at];
            factors.push(1.5);
            let after = cluster.scaled(&factors).constants();
            for (then, now) in after.iter().zip(&before) {
                let own = then.name == constant.name;
                let factor = if own { constant.applied(1.5) } else { 1.0 };
                let near = (then.value / (now.value * factor) - 1.0).abs() < 1e-12;
                assert!(near, "{} through {}", then.name, constant.name);
                assert!(then.kind != ConstantKind::Share || then.value <= 1.0 + 1e-12);
            }
        }
    }
}

//! Does software only ever add to what the machine needs, and by what its profile says?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

mod worlds;

use proptest::prelude::*;
use scalewright::estimate::{Job, price};
use scalewright::hardware::Cluster;
use scalewright::plan::{Plan, RecomputePolicy, Task, lower};
use scalewright::units::{Dtype, FlopsPerSecond};
use scalewright::workload::Recompute;
use worlds::fabrics;
use worlds::jobs;

fn plan() -> Plan {
    Plan {
        micro_batch: 2,
        ..Plan::default()
    }
}

fn cluster(devices: u32) -> Cluster {
    fabrics::one_switch(devices)
}

fn job(software: &str, devices: u32) -> Job {
    let more = format!(r#", "flash_attention": false, "software": {software}"#);
    let training = jobs::training(8 * u64::from(devices), 2048, &more);
    jobs::job(&jobs::llama(4, 1024, 4), &cluster(devices), &training)
}

fn seconds(job: &Job, plan: &Plan) -> f64 {
    jobs::priced(job, plan).step_time_s
}

#[test]
fn the_default_profile_is_not_written_and_changes_nothing() {
    let training = jobs::training(8, 2048, "");
    let text = serde_json::to_string(&training).unwrap();
    assert!(!text.contains("software"));
    let plain = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &training);
    let named = jobs::training(
        8,
        2048,
        r#", "software": {"name": "own", "host_time": 0.0}"#,
    );
    let named = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &named);
    assert_eq!(seconds(&plain, &plan()), seconds(&named, &plan()));
}

#[test]
fn every_pass_that_is_added_makes_the_step_longer() {
    let fused = seconds(&job("{}", 1), &plan());
    for field in [
        "norm",
        "rotary",
        "gated_activation",
        "addition",
        "scores",
        "loss",
    ] {
        let more = seconds(&job(&format!(r#"{{"{field}": [60.0, 60.0]}}"#), 1), &plan());
        assert!(more > fused, "{field}: {more} after {fused}");
    }
}

#[test]
fn a_slow_host_sets_the_pace_of_every_pass() {
    let host = 1e-3;
    let slow = job(&format!(r#"{{"host_time": {host}}}"#), 1);
    let estimate = jobs::priced(&slow, &plan());
    let kernels: f64 = slow
        .graph
        .order
        .iter()
        .map(|&block| lower(&slow.graph, block, &slow.training, &plan()))
        .flat_map(|program| [program.forward, program.backward].concat())
        .map(|task| match task {
            Task::Compute { kernel, .. } => match kernel {
                scalewright::operator_cost::Kernel::Memory { launches, .. } => launches,
                _ => 1.0,
            },
            _ => 0.0,
        })
        .sum();
    let passes: f64 = estimate
        .time
        .iter()
        .filter(|line| line.group == "compute")
        .map(|line| line.time_s)
        .sum();
    let issued = kernels * host * 4.0;
    assert!((passes / issued - 1.0).abs() < 1e-9, "{passes} of {issued}");
}

#[test]
fn a_host_that_keeps_up_costs_nothing() {
    let quick = seconds(&job(r#"{"host_time": 1e-9}"#, 1), &plan());
    assert_eq!(quick, seconds(&job("{}", 1), &plan()));
}

#[test]
fn gathers_by_tensor_are_never_shorter_than_flat_ones() {
    let sharded = Plan {
        data: 8,
        zero: 3,
        overlap_param_gather: false,
        recompute: RecomputePolicy::None,
        ..plan()
    };
    let flat = seconds(&job("{}", 8), &sharded);
    let cut = seconds(&job(r#"{"gathers_per_layer": 12.0}"#, 8), &sharded);
    assert!(cut > flat, "{cut} after {flat}");
}

/// Seconds of a plan beyond those of the same plan under the default profile.
fn beyond(software: &str, devices: u32, plan: &Plan) -> f64 {
    seconds(&job(software, devices), plan) - seconds(&job("{}", devices), plan)
}

#[test]
fn copies_count_once_for_each_gather_and_reduction_of_a_sharded_layer() {
    let sharded = |zero| Plan {
        data: 8,
        zero,
        overlap_param_gather: false,
        ..plan()
    };
    let (gathers, reductions) = (r#"{"gather_copy": 4.0}"#, r#"{"reduce_copy": 4.0}"#);
    let twice = beyond(gathers, 8, &sharded(3));
    let once = beyond(reductions, 8, &sharded(3));
    assert!(once > 0.0);
    assert!((twice / once - 2.0).abs() < 1e-6, "{twice} and {once}");
    let again = beyond(reductions, 8, &sharded(2));
    assert!((again / once - 1.0).abs() < 1e-6, "{again} and {once}");
    assert_eq!(beyond(gathers, 8, &sharded(2)), 0.0);
    for zero in [0, 1] {
        assert_eq!(beyond(reductions, 8, &sharded(zero)), 0.0, "stage {zero}");
    }
}

#[test]
fn an_update_takes_as_long_as_the_bytes_that_it_moves() {
    let optimizer = |bytes: f64| {
        let job = job(&format!(r#"{{"update": {bytes}}}"#), 1);
        let estimate = jobs::priced(&job, &plan());
        let lines = estimate.time.iter().filter(|line| line.term == "optimizer");
        lines.map(|line| line.time_s).sum::<f64>()
    };
    let (half, whole) = (optimizer(40.0), optimizer(80.0));
    assert!(half > 0.0);
    assert!((whole / half - 2.0).abs() < 1e-9, "{whole} after {half}");
}

/// Names of the operators of a layer that full recomputation leaves out.
fn spared(more: &str) -> Vec<&'static str> {
    let more = format!(r#", "software": {{"stops_early": true}}{more}"#);
    let training = jobs::training(8, 2048, &more);
    let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &training);
    let layers = job.graph.blocks.iter();
    let layer = layers.max_by_key(|block| block.operators.len()).unwrap();
    let left = layer.operators.iter();
    let left = left.filter(|operator| operator.recompute == Recompute::Never);
    left.map(|operator| operator.name).collect()
}

#[test]
fn recomputation_that_stops_early_leaves_out_what_follows_the_last_kept_tensor() {
    assert_eq!(spared(""), ["down", "add"]);
    // the mask of a dropout is made after the product
    assert!(spared(r#", "dropout": true"#).is_empty());
}

#[test]
fn stopping_early_shortens_full_recomputation_alone() {
    let early = r#"{"stops_early": true}"#;
    let again = |recompute| Plan {
        recompute,
        ..plan()
    };
    assert!(beyond(early, 1, &again(RecomputePolicy::Full)) < 0.0);
    for policy in [RecomputePolicy::None, RecomputePolicy::Selective] {
        assert_eq!(beyond(early, 1, &again(policy)), 0.0);
    }
}

#[test]
fn joined_gradients_of_fused_attention_lengthen_the_backward_pass() {
    let flash = |software: &str| {
        let more = format!(r#", "flash_attention": true, "software": {software}"#);
        let training = jobs::training(8, 2048, &more);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &training);
        seconds(&job, &plan())
    };
    let (apart, two, four) = (
        flash("{}"),
        flash(r#"{"joined": 20.0}"#),
        flash(r#"{"joined": 40.0}"#),
    );
    assert!(apart < two && two < four, "{apart}, {two}, {four}");
}

#[test]
fn casts_lengthen_steps_in_narrow_formats_alone() {
    let cluster = Cluster {
        device: worlds::h100(),
        ..cluster(1)
    };
    let step = |precision: &str, narrow: &str| {
        let more = format!(r#", "precision": "{precision}", "software": {{"narrow": {narrow}}}"#);
        let training = jobs::training(8, 2048, &more);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster, &training);
        seconds(&job, &plan())
    };
    let none = "[0.0, 0.0, 0.0]";
    let plain = step("fp8", none);
    for narrow in ["[9.0, 0.0, 0.0]", "[0.0, 9.0, 0.0]", "[0.0, 0.0, 9.0]"] {
        let longer = step("fp8", narrow);
        assert!(longer > plain, "{narrow}: {longer} after {plain}");
    }
    assert_eq!(step("bf16", "[9.0, 9.0, 9.0]"), step("bf16", none));
}

#[test]
fn figures_that_no_program_has_are_refused_by_name() {
    for (field, value) in [
        ("norm", "[-1.0, 5.0]"),
        ("loss", "[38.0, 1e9]"),
        ("host_time", "2.0"),
        ("gathers_per_layer", "0.5"),
        ("joined", "-1.0"),
        ("narrow", "[0.0, 1e9, 0.0]"),
        ("gather_copy", "1e9"),
        ("reduce_copy", "-2.0"),
        ("update", "1e9"),
    ] {
        let more = format!(r#", "software": {{"{field}": {value}}}"#);
        let training = jobs::training(8, 2048, &more);
        let error = training.check().unwrap_err().to_string();
        assert!(error.contains(&format!("software.{field}")), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_rate_that_lasts_never_beats_the_tested_one(share in 0.05_f64..2.0) {
        let base = job("{}", 1);
        let mut hot = base.cluster.clone();
        let peak = hot.device.engine_peak(Dtype::Bf16).value();
        hot.device.sustained.insert(Dtype::Bf16, FlopsPerSecond::new(share * peak));
        let slowed = base.on(hot.clone()).unwrap();
        let (cold, warm) = (seconds(&base, &plan()), seconds(&slowed, &plan()));
        prop_assert!(warm >= cold);
        hot.device.sustained.insert(Dtype::Bf16, FlopsPerSecond::new(0.5 * share * peak));
        let hotter = base.on(hot).unwrap();
        prop_assert!(seconds(&hotter, &plan()) >= warm);
        prop_assert!(price(&slowed, &plan()).is_ok());
    }
}

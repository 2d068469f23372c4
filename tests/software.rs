//! Does software only ever add to what the machine needs, and by what its profile says?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

mod worlds;

use proptest::prelude::*;
use scalewright::estimate::{Job, price};
use scalewright::hardware::Cluster;
use scalewright::plan::{Plan, RecomputePolicy, Task, lower};
use scalewright::units::{Dtype, FlopsPerSecond};
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
fn passes_for_biases_lengthen_products_that_have_one() {
    let step = |model: &str, software: &str| {
        let training = jobs::training(8, 2048, &format!(r#", "software": {software}"#));
        seconds(&jobs::job(model, &cluster(1), &training), &plan())
    };
    let apart = r#"{"bias": [2.0, 0.0]}"#;
    let plain = jobs::llama(4, 1024, 4);
    let biased = plain.replace(
        r#""norm": "rmsnorm""#,
        r#""norm": "rmsnorm", "qkv_bias": true"#,
    );
    assert_eq!(step(&plain, "{}"), step(&plain, apart));
    assert!(step(&biased, apart) > step(&biased, "{}"));
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

/// Seconds of a step of eight ranks that share weights, without overlap.
fn gathered(software: &str, data: u32, recompute: RecomputePolicy) -> f64 {
    let sharded = Plan {
        data,
        zero: 3,
        overlap_param_gather: false,
        recompute,
        ..plan()
    };
    let training = jobs::training(
        16,
        2048,
        &format!(r#", "flash_attention": false, "software": {software}"#),
    );
    let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster(data), &training);
    seconds(&job, &sharded)
}

#[test]
fn what_a_host_does_for_each_rank_of_a_gather_grows_with_the_ranks() {
    let waits = |data| {
        let with = r#"{"gathers_per_layer": 4.0, "gather_rank_time": 1e-4}"#;
        let without = r#"{"gathers_per_layer": 4.0}"#;
        let none = RecomputePolicy::None;
        gathered(with, data, none) - gathered(without, data, none)
    };
    // 16 sequences: 16 / (2 data) micro-batches, each with two passes over 4 layers of 4 gathers
    let of = |data: u32| f64::from(16 / (2 * data)) * 2.0 * 4.0 * 4.0 * f64::from(data) * 1e-4;
    for data in [4, 8] {
        let (waited, meant) = (waits(data), of(data));
        assert!((waited / meant - 1.0).abs() < 1e-6, "{waited} of {meant}");
    }
}

#[test]
fn weights_are_gathered_again_only_for_what_is_computed_again() {
    let (once, twice) = (r#"{"gathers_again": false}"#, r#"{"gathers_again": true}"#);
    let none = RecomputePolicy::None;
    assert_eq!(gathered(once, 8, none), gathered(twice, 8, none));
    let full = RecomputePolicy::Full;
    assert!(gathered(twice, 8, full) > gathered(once, 8, full));
}

#[test]
fn a_host_that_waits_for_each_kernel_hides_none_of_its_work() {
    let launches = |software: &str| {
        let estimate = jobs::priced(&job(software, 1), &plan());
        let lines = estimate.time.iter();
        lines
            .filter(|line| line.term.starts_with("launches"))
            .map(|line| line.time_s)
            .sum::<f64>()
    };
    let host = 1e-6;
    let ahead = launches(&format!(r#"{{"host_time": {host}}}"#));
    let blocking = launches(&format!(r#"{{"host_time": {host}, "blocking": true}}"#));
    let twice = launches(&format!(
        r#"{{"host_time": {}, "blocking": true}}"#,
        2.0 * host
    ));
    assert!(blocking > ahead && blocking > 0.0);
    assert!(
        (twice / blocking - 2.0).abs() < 1e-9,
        "{twice} and {blocking}"
    );
}

#[test]
fn a_copy_of_gradients_lengthens_only_sums_of_their_own() {
    let step = |software: &str, fused: bool| {
        let more = format!(r#", "fused_gradients": {fused}, "software": {software}"#);
        let training = jobs::training(8, 2048, &more);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &training);
        seconds(&job, &plan())
    };
    let (plain, copied) = ("{}", r#"{"accumulation": 8.0}"#);
    assert_eq!(step(plain, true), step(copied, true));
    assert!(step(copied, false) > step(plain, false));
}

#[test]
fn figures_that_no_program_has_are_refused_by_name() {
    for (field, value) in [
        ("norm", "[-1.0, 5.0]"),
        ("loss", "[38.0, 1e9]"),
        ("host_time", "2.0"),
        ("bias", "[-1.0, 0.0]"),
        ("accumulation", "1e9"),
        ("gather_rank_time", "2.0"),
        ("gathers_per_layer", "0.5"),
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

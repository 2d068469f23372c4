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

/// Bytes of the passes over memory in a layer's two passes of a mixture, of which experts take biases.
fn moved(software: &str, precision: &str, plan: &Plan) -> f64 {
    let mut model: serde_json::Value = serde_json::from_str(&jobs::mixture(4, 1024)).unwrap();
    model["ffn_bias"] = true.into();
    let more = format!(r#", "precision": "{precision}", "software": {software}"#);
    let training = jobs::training(64, 2048, &more);
    let graph = jobs::model(&model.to_string()).graph(&training);
    let bytes = |task: &Task| match task.kernel() {
        Some(scalewright::operator_cost::Kernel::Memory { bytes, .. }) => bytes.value(),
        _ => 0.0,
    };
    let block = graph.blocks.len() - 2;
    let program = lower(&graph, block, &training, plan);
    let tasks = [program.forward, program.backward].concat();
    tasks.iter().map(bytes).sum()
}

#[test]
fn experts_whose_tokens_are_biased_and_sorted_apart_move_more() {
    let spread = Plan {
        data: 2,
        expert: 2,
        ..plan()
    };
    let fused = moved("{}", "bf16", &spread);
    let biased = moved(r#"{"expert_bias": [6.0, 6.0]}"#, "bf16", &spread);
    let sorted = moved(r#"{"sorts_received": true}"#, "bf16", &spread);
    assert!(
        biased > fused && sorted > fused,
        "{biased} {sorted} {fused}"
    );
    // alone, a rank has nobody to receive from
    let alone = moved(r#"{"sorts_received": true}"#, "bf16", &plan());
    assert_eq!(alone, moved("{}", "bf16", &plan()));
}

#[test]
fn weights_cast_once_a_step_spare_every_micro_batch_their_passes() {
    let once = r#"{"casts_weights_once": true}"#;
    for precision in ["fp8", "mxfp8", "nvfp4"] {
        let (spared, each) = (
            moved(once, precision, &plan()),
            moved("{}", precision, &plan()),
        );
        assert!(spared < each, "{precision}: {spared} of {each}");
        // activations are cast for every product all the same
        assert!(spared > moved("{}", "bf16", &plan()), "{precision}");
    }
    assert_eq!(moved(once, "bf16", &plan()), moved("{}", "bf16", &plan()));
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

#[test]
fn figures_that_no_program_has_are_refused_by_name() {
    for (field, value) in [
        ("norm", "[-1.0, 5.0]"),
        ("loss", "[38.0, 1e9]"),
        ("host_time", "2.0"),
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

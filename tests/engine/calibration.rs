//! Are published metrics what a paper's own arithmetic gives for a priced plan?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use scalewright::calibration::{Metric, Priced, Request, published};
use scalewright::estimate::{Estimate, Job, Verdict, estimate};
use scalewright::plan::Plan;
use scalewright::workload::{Training, Transformer, gpt_hardware_flops, gpt_model_flops};

const MODEL: &str = r#"{"name": "toy-gpt", "family": "decoder", "layers": 4, "hidden": 1024,
    "heads": 16, "ffn": 4096, "vocab": 51200, "position": "learned", "max_positions": 2048,
    "activation": "gelu", "norm": "layernorm", "tied_embeddings": true, "qkv_bias": true,
    "output_bias": true, "ffn_bias": true}"#;
const PLAN: &str = r#"{"tensor": 2, "data": 4, "micro_batch": 2, "recompute": "full"}"#;

fn job() -> Job {
    let model = Transformer::from_json(MODEL).unwrap();
    let text = r#"{"global_batch": 16, "sequence": 2048}"#;
    let training: Training = serde_json::from_str(text).unwrap();
    Job::new(&model, &worlds::nodes_of_eight(8), &training, 0.0).unwrap()
}

fn priced(job: &Job, plan: &str) -> (Estimate, Priced) {
    let plan: Plan = serde_json::from_str(plan).unwrap();
    let Verdict::Priced(estimate) = estimate(job, &plan) else {
        unreachable!("the plan is legal");
    };
    let text = serde_json::to_string(&estimate).unwrap();
    (*estimate, Priced::from_json(&text).unwrap())
}

fn figure(job: &Job, priced: &Priced, request: &str) -> f64 {
    let request: Request = serde_json::from_str(request).unwrap();
    published(job, priced, &request).unwrap()
}

fn assert_near(got: f64, wanted: f64) {
    assert!((got / wanted - 1.0).abs() < 1e-12, "{got} for {wanted}");
}

#[test]
fn rates_follow_the_convention() {
    let job = job();
    let (estimate, priced) = priced(&job, PLAN);
    let shape = (16.0, 2048.0, 4.0, 1024.0, 51_200.0);
    let model = gpt_model_flops(shape.0, shape.1, shape.2, shape.3, shape.4).value();
    let hardware = gpt_hardware_flops(shape.0, shape.1, shape.2, shape.3, shape.4).value();
    let step = estimate.step_time_s;
    let ask = |request: &str| figure(&job, &priced, request);
    assert_near(
        ask(r#"{"metric": "model_tflops_per_gpu", "unit": "TFLOP/s", "flops": "model"}"#),
        model / step / 8.0 / 1e12,
    );
    assert_near(
        ask(r#"{"metric": "aggregate_pflops", "unit": "PFLOP/s", "flops": "hardware"}"#),
        hardware / step / 1e15,
    );
    for unit in ["TFLOPS", "TFLOPs/s/GPU", "tflop/s"] {
        let request =
            format!(r#"{{"metric": "tflops_per_gpu", "unit": "{unit}", "flops": "model"}}"#);
        assert_near(ask(&request), model / step / 8.0 / 1e12);
    }
    assert_near(
        ask(r#"{"metric": "MFU", "unit": "% of 300", "flops": "model"}"#),
        100.0 * model / step / 8.0 / 300e12,
    );
    assert_near(
        ask(r#"{"metric": "mfu", "unit": "share", "flops": "model", "peak": "150 TFLOP/s"}"#),
        model / step / 8.0 / 150e12,
    );
}

#[test]
fn hardware_utilisation_counts_what_is_computed_again() {
    let job = job();
    let (estimate, priced) = priced(&job, PLAN);
    let run = figure(&job, &priced, r#"{"metric": "HFU", "flops": "model"}"#);
    assert_near(run, 100.0 * estimate.hfu);
    let third = figure(
        &job,
        &priced,
        r#"{"metric": "HFU", "flops": "palm", "recomputed": "third_more"}"#,
    );
    let palm = figure(&job, &priced, r#"{"metric": "MFU", "flops": "palm"}"#);
    assert_near(third, palm * 4.0 / 3.0);
}

#[test]
fn times_and_tokens_follow_the_step() {
    let job = job();
    let (estimate, priced) = priced(&job, PLAN);
    let (step, tokens) = (estimate.step_time_s, 16.0 * 2048.0);
    let ask = |request: &str| figure(&job, &priced, request);
    assert_near(
        ask(r#"{"metric": "iteration_time", "unit": "ms", "flops": "model"}"#),
        step * 1e3,
    );
    assert_near(
        ask(r#"{"metric": "days_for_300B_tokens", "unit": "day", "flops": "model"}"#),
        300e9 / tokens * step / 86_400.0,
    );
    assert_near(
        ask(r#"{"metric": "tokens_per_s_per_gpu", "unit": "tokens/s", "flops": "model"}"#),
        tokens / step / 8.0,
    );
}

#[test]
fn layer_times_add_up_to_the_layers_share_of_the_step() {
    let job = job();
    let (estimate, priced) = priced(&job, PLAN);
    let ask = |name: &str| {
        let request = format!(r#"{{"metric": "{name}", "flops": "model"}}"#);
        figure(&job, &priced, &request)
    };
    let total = ask("layer_total_time");
    assert_near(
        total,
        ask("layer_forward_time") + ask("layer_backward_time"),
    );
    let micro_batches = 2.0;
    assert!(total * 4.0 * micro_batches < estimate.step_time_s);
    assert!(ask("layer_backward_time") > 2.0 * ask("layer_forward_time"));
}

#[test]
fn memory_metrics_are_parts_of_the_peak() {
    let job = job();
    let (estimate, priced) = priced(&job, PLAN);
    let ask = |name: &str| {
        let request = format!(r#"{{"metric": "{name}", "unit": "B", "flops": "model"}}"#);
        figure(&job, &priced, &request)
    };
    assert_near(ask("peak_memory_per_gpu"), estimate.peak_memory_bytes);
    let held = &estimate.memory[0];
    let state = held.weights_bytes + held.gradients_bytes + held.optimizer_bytes;
    assert_near(ask("weights_grads_optimizer_memory_per_gpu"), state);
    assert!(ask("peak_allocated_per_gpu") < ask("peak_memory_per_gpu"));
    assert_near(
        ask("peak_allocated_last_stage"),
        ask("peak_allocated_per_gpu"),
    );
}

#[test]
fn memory_of_the_last_stage_is_a_metric_of_its_own() {
    let job = job();
    let plan = r#"{"tensor": 2, "pipeline": 2, "data": 2, "micro_batch": 1}"#;
    let (estimate, priced) = priced(&job, plan);
    let ask = |name: &str| {
        let request = format!(r#"{{"metric": "{name}", "unit": "B", "flops": "model"}}"#);
        figure(&job, &priced, &request)
    };
    let stages = estimate.memory.iter();
    let taken: Vec<_> = stages
        .map(|s| s.total_bytes - s.reserve_bytes - s.fragmentation_bytes)
        .collect();
    let apart = (taken[0] - taken[1]).abs();
    assert!(apart > 1e6, "stages of this plan must differ: {taken:?}");
    assert_near(ask("peak_allocated_last_stage"), taken[1]);
    let fullest = if taken[0] > taken[1] {
        taken[0]
    } else {
        taken[1]
    };
    assert_near(ask("peak_allocated_per_gpu"), fullest);
}

#[test]
fn what_is_not_known_is_refused() {
    let job = job();
    let (_, priced) = priced(&job, PLAN);
    assert!(
        Metric::named("mfuu")
            .unwrap_err()
            .to_string()
            .contains("mfu")
    );
    assert_eq!(
        Metric::named("days_for_1.5T_tokens").unwrap(),
        Metric::RunTime(1.5e12)
    );
    for amount in ["nan", "inf", "-1b", "", "1e300"] {
        assert!(Metric::named(&format!("days_for_{amount}_tokens")).is_err());
    }
    for request in [
        r#"{"metric": "mfu", "unit": "furlong", "flops": "model"}"#,
        r#"{"metric": "mfu", "flops": "model", "peak": 0}"#,
    ] {
        let request: Request = serde_json::from_str(request).unwrap();
        assert!(published(&job, &priced, &request).is_err());
    }
    let (_, staged) = self::priced(&job, r#"{"pipeline": 2, "data": 4}"#);
    let text = r#"{"metric": "layer_total_time", "flops": "model"}"#;
    let request: Request = serde_json::from_str(text).unwrap();
    assert!(published(&job, &staged, &request).is_err());
}

//! What do the kernels of a gated delta rule cost where they were timed, and how do they share their work?

#![allow(clippy::unwrap_used)] // the lints' own exemption ends at test functions

use crate::worlds;

use proptest::prelude::*;
use scalewright::estimate::{Job, Verdict, estimate};
use scalewright::hardware::Device;
use scalewright::operator_cost::Kernel;
use scalewright::plan::{Plan, Task, lower};
use worlds::{fabrics, jobs};

fn h200() -> Device {
    let path = "python/scalewright/catalog/devices/h200-sxm.toml";
    toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Two layers whose rule has so many heads of keys and of values, and sequences so long.
fn job(keys: u64, values: u64, positions: u64) -> Job {
    let model = format!(
        r#"{{"name": "ruled", "family": "decoder", "layers": 2, "hidden": 2048, "heads": 16, "ffn": 4096,
        "vocab": 32000, "position": "rotary", "activation": "swiglu", "norm": "rmsnorm",
        "output_gate": true, "attention_pattern": ["state_space", "full"],
        "state_space": {{"rule": "gated_delta", "heads": {values}, "head_dim": 128, "state": 128,
        "groups": {keys}}}}}"#
    );
    let training = jobs::training(8, positions, "");
    jobs::job(&model, &fabrics::one_switch(8), &training)
}

/// Kernels of the rule in a layer that has it.
fn kernels(job: &Job, plan: &Plan, forward: bool) -> Vec<Kernel> {
    let mut found = Vec::new();
    for block in 0..job.graph.blocks.len() {
        let program = lower(&job.graph, block, &job.training, plan);
        let tasks = if forward {
            program.forward
        } else {
            program.backward
        };
        found.extend(tasks.iter().filter_map(|task| match task {
            Task::Compute { kernel, .. } if matches!(kernel, Kernel::DeltaRule { .. }) => {
                Some(*kernel)
            }
            _ => None,
        }));
    }
    found
}

/// Seconds of those on a device.
fn seconds(job: &Job, plan: &Plan, forward: bool, device: &Device) -> f64 {
    let kernels = kernels(job, plan, forward);
    assert!(!kernels.is_empty());
    kernels.iter().map(|k| k.cost(device).time.value()).sum()
}

/// Milliseconds of flash-linear-attention 0.5.1 on H200, forward and backward, one sequence: heads of keys and values,
/// positions (QwenLM/FlashQLA, `benchmark/benchmark_results_H200.txt`, 6e5d2ea1). `slowdown` and `chain`
/// of `[delta_rule]` in `catalog/defaults.toml` are fitted to them, so this tells how near two constants come.
const TIMED: [(u64, u64, u64, f64, Option<f64>); 6] = [
    (16, 32, 8_192, 0.472, Some(1.444)),
    (16, 32, 32_768, 1.890, Some(5.697)),
    (16, 64, 8_192, 0.814, None),
    (16, 64, 32_768, 3.331, None),
    (8, 16, 8_192, 0.316, Some(0.957)),
    (4, 8, 32_768, 0.902, Some(2.743)),
];

#[test]
fn kernels_take_what_was_timed() {
    let device = h200();
    let mut errors = Vec::new();
    for (keys, values, positions, forward, backward) in TIMED {
        let job = job(keys, values, positions);
        let mut near = |way: bool, timed: f64| {
            let error = seconds(&job, &Plan::default(), way, &device) / (timed * 1e-3) - 1.0;
            assert!(
                error.abs() < 0.19,
                "{keys} {values} {positions} {way}: {error:+.3}"
            );
            errors.push(error.abs());
        };
        near(true, forward);
        if let Some(backward) = backward {
            near(false, backward);
        }
    }
    assert!(errors.iter().sum::<f64>() / (errors.len() as f64) < 0.07);
}

/// Context ranks exchange positions for whole heads of keys, which a state-space scan may copy instead.
#[test]
fn context_ranks_share_out_keys() {
    let legal = |keys: u64, context: u32| {
        let plan = Plan {
            context,
            data: 8 / context,
            ..Plan::default()
        };
        matches!(estimate(&job(keys, 16, 4096), &plan), Verdict::Priced(_))
    };
    assert!(legal(4, 4) && legal(16, 8));
    assert!(!legal(4, 8) && !legal(2, 4));
}

proptest! {
    /// Tensor ranks share all heads: products and traffic of a rank are a share of those of one alone, and chunks follow
    /// one another as before.
    #[test]
    fn tensor_ranks_share_heads(
        tensor in prop::sample::select(vec![2_u32, 4, 8]),
        more in 1..4_u64,
        chunks in 1..40_u64,
        forward: bool,
    ) {
        let job = job(8, 8 * more, 64 * chunks);
        let alone = kernels(&job, &Plan { data: 8, ..Plan::default() }, forward);
        let plan = Plan { tensor, data: 8 / tensor, ..Plan::default() };
        let shared = kernels(&job, &plan, forward);
        prop_assert_eq!(alone.len(), shared.len());
        for (alone, shared) in alone.iter().zip(&shared) {
            let parts = |kernel: &Kernel| match kernel {
                Kernel::DeltaRule { flops, bytes, chain, .. } => [flops.value(), bytes.value(), *chain],
                _ => [0.0; 3],
            };
            let [[a, b, c], [d, e, f]] = [parts(alone), parts(shared)];
            let share = f64::from(tensor);
            prop_assert!((a - share * d).abs() <= 1e-9 * a && (b - share * e).abs() <= 1e-9 * b);
            prop_assert!((c - f).abs() <= 0.0);
        }
    }

    /// However few its heads are, a rule takes as long as its chunks in turn; more heads never take less.
    #[test]
    fn few_heads_wait_for_the_chain(chunks in 8..200_u64, forward: bool) {
        let device = h200();
        let time = |heads: u64| seconds(&job(1, heads, 64 * chunks), &Plan::default(), forward, &device);
        let one = time(1);
        let times: Vec<f64> = [2, 8, 32].map(time).to_vec();
        prop_assert!(one > 1.09e-6 * chunks as f64);
        prop_assert!(one <= times[0] && times[0] <= times[1] && times[1] <= times[2]);
        // two heads take hardly longer than one, 32 take longer
        prop_assert!(times[0] < 1.2 * one);
    }
}

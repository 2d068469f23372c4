//! What does attention of a training step cost where its kernels were timed, under windows and in narrow formats?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

use crate::worlds;

use proptest::prelude::*;
use scalewright::hardware::{AttentionPass, Device, TrainingAttention};
use scalewright::operator_cost::Kernel;
use scalewright::plan::{Plan, Purpose, Task, lower};
use scalewright::units::{Dtype, Seconds};
use worlds::jobs;

fn catalog(name: &str) -> Device {
    let path = format!("python/scalewright/catalog/devices/{name}.toml");
    toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Causal attention of 64 heads, `window` keys wide.
fn kernel(positions: f64, window: f64, width: f64, dtype: Dtype, backward: bool) -> Kernel {
    let seen = |span: f64| span - span * (span - 1.0) / (2.0 * positions);
    let visible = seen(window.min(positions));
    Kernel::Attention {
        batch_heads: 64.0,
        batch_kv_heads: 8.0,
        queries: positions,
        visible,
        longest: positions.min(2.0 * visible),
        hidden: seen(positions) - visible,
        keys: positions,
        query_dim: width,
        value_dim: width,
        dtype,
        backward,
    }
}

fn seconds(kernel: Kernel, device: &Device) -> f64 {
    kernel.cost(device).time.value()
}

/// Devices whose training kernels were timed, or are those of a timed one.
const TIMED: [&str; 4] = ["a100-sxm-80gb", "h200-sxm", "gb200", "gb300"];

proptest! {
    /// A wider window never takes less time, and none never less than any.
    #[test]
    fn attention_grows_with_its_window(
        positions in 256.0..65536.0f64,
        shares in (0.001..1.0f64, 0.001..1.0f64),
        width in prop::sample::select(vec![64.0, 128.0, 192.0, 256.0]),
        name in prop::sample::select(TIMED.to_vec()),
        backward in any::<bool>(),
    ) {
        let device = catalog(name);
        let positions = positions.floor();
        let (narrow, wide) = (shares.0.min(shares.1), shares.0.max(shares.1));
        let time = |window: f64| {
            seconds(kernel(positions, window.max(1.0), width, Dtype::Bf16, backward), &device)
        };
        let [narrow, wide, open] = [narrow * positions, wide * positions, positions].map(time);
        prop_assert!(narrow <= wide * (1.0 + 1e-9), "{narrow} {wide}");
        prop_assert!(wide <= open * (1.0 + 1e-9), "{wide} {open}");
    }

    /// No kernel outruns the matrix engine or the memory.
    #[test]
    fn attention_stays_under_the_roofline(
        positions in 256.0..65536.0f64,
        window in 0.001..1.0f64,
        name in prop::sample::select(TIMED.to_vec()),
        dtype in prop::sample::select(vec![Dtype::Bf16, Dtype::Fp8, Dtype::Mxfp8]),
        backward in any::<bool>(),
    ) {
        let device = catalog(name);
        let dtype = device.attention_format(dtype);
        let positions = positions.floor();
        let kernel = kernel(positions, (window * positions).max(1.0), 128.0, dtype, backward);
        let cost = kernel.cost(&device);
        let arithmetic = cost.flops.value() / device.engine_peak(dtype).value();
        let traffic = cost.traffic.value() / device.main_memory().sustained().value();
        prop_assert!(cost.time.value() >= arithmetic.max(traffic));
    }
}

/// A kernel that computes what a window hides takes as long as without one.
#[test]
fn a_kernel_that_skips_nothing_pays_for_what_a_window_hides() {
    for name in ["gb200", "gb300"] {
        let device = catalog(name);
        for (dtype, skips) in [(Dtype::Bf16, true), (Dtype::Mxfp8, false)] {
            let time = |window| seconds(kernel(8192.0, window, 64.0, dtype, true), &device);
            let (windowed, open) = (time(128.0), time(8192.0));
            assert_eq!(windowed < 0.5 * open, skips, "{name} {dtype:?}");
            assert!(skips || (windowed / open - 1.0).abs() < 0.01);
        }
    }
}

/// Published timings (NVIDIA/cudnn-frontend, February 2026), Llama 3.1 of 64 heads, 8,192 positions, in ms.
#[test]
fn timed_kernels_come_out_as_they_were_timed() {
    for (name, forward, backward) in [
        ("h200-sxm", 1.708e-3, 5.083e-3),
        ("gb200", 0.688e-3, 2.097e-3),
        ("gb300", 0.583e-3, 1.985e-3),
    ] {
        let device = catalog(name);
        for (published, backward) in [(forward, false), (backward, true)] {
            let kernel = kernel(8192.0, 8192.0, 128.0, Dtype::Bf16, backward);
            let error = seconds(kernel, &device) / published - 1.0;
            assert!(error.abs() < 0.08, "{name} {backward}: {error}");
        }
    }
}

/// A device that lists no kernels in a narrow format multiplies in 16 bits, and one without timed ones as `attention` says.
#[test]
fn unlisted_formats_run_in_sixteen_bits() {
    let mut device = catalog("h200-sxm");
    let time =
        |dtype, device: &Device| seconds(kernel(8192.0, 8192.0, 128.0, dtype, false), device);
    assert_eq!(time(Dtype::Mxfp8, &device), time(Dtype::Bf16, &device));
    let timed = time(Dtype::Bf16, &device);
    let slower = AttentionPass {
        efficiency: 0.3,
        window: Seconds::ZERO,
        ..AttentionPass::default()
    };
    let only_backward = TrainingAttention {
        forward: None,
        backward: Some(slower),
    };
    device.training_attention.insert(Dtype::Bf16, only_backward);
    let prefill = time(Dtype::Bf16, &device);
    device.training_attention.clear();
    assert_eq!(prefill, time(Dtype::Bf16, &device));
    assert!(prefill > timed);
}

/// Queries, keys and values are cast before a forward pass, the context's gradient before the backward one, in two layouts
/// behind a change of order: 8 bytes and the scales of blocks of 32 for an element.
#[test]
fn narrow_attention_casts_its_operands() {
    let cast = |software: &str| {
        let more = format!(r#", "software": {software}"#);
        let training = jobs::training(32, 2048, &more);
        let graph = jobs::model(&jobs::llama(4, 1024, 2)).graph(&training);
        let plan = Plan {
            micro_batch: 4,
            ..Plan::default()
        };
        let program = lower(&graph, graph.blocks.len() - 2, &training, &plan);
        [program.forward, program.backward].map(|tasks| {
            let bytes = tasks.iter().map(|task| match task {
                Task::Compute {
                    kernel: Kernel::Cast { bytes, .. },
                    ..
                } => bytes.value(),
                _ => 0.0,
            });
            bytes.sum::<f64>()
        })
    };
    assert_eq!(cast("{}"), [0.0; 2]);
    let [forward, backward] = cast(r#"{"layer": {"attention_format": "mxfp8"}}"#);
    let element = 2.0 + 2.0 + 2.0 + 2.0 * Dtype::Mxfp8.bytes();
    let tokens = 4.0 * 2048.0;
    // 1,024 columns of queries, two heads of 64 of keys and values
    assert_eq!(forward, tokens * (1024.0 + 2.0 * 128.0) * element);
    assert_eq!(backward, tokens * 1024.0 * element);
}

/// A ring hides under the attention kernel, which follows it whatever else runs around attention.
#[test]
fn what_goes_round_a_ring_stands_right_before_the_attention_kernel() {
    let plan = Plan {
        context: 4,
        micro_batch: 4,
        ..Plan::default()
    };
    for software in [
        "{}",
        r#"{"layer": {"attention_format": "mxfp8"}}"#,
        r#"{"layer": {"joined": 2.0}}"#,
    ] {
        let more = format!(r#", "software": {software}"#);
        let training = jobs::training(32, 2048, &more);
        let graph = jobs::model(&jobs::llama(4, 1024, 2)).graph(&training);
        let program = lower(&graph, graph.blocks.len() - 2, &training, &plan);
        for tasks in [&program.forward, &program.backward] {
            let ring = tasks.iter().position(|task| {
                matches!(
                    task,
                    Task::Communicate {
                        purpose: Purpose::Context,
                        under: 1,
                        ..
                    }
                )
            });
            let next = &tasks[ring.unwrap() + 1];
            let kernel = next.kernel().unwrap();
            assert!(
                matches!(kernel, Kernel::Attention { .. }),
                "{software}: {kernel:?}"
            );
        }
    }
}

//! How long does a kernel take that multiprocessors pace: a scan, a convolution, a selection, elements one by one?

use super::kernel::KernelCost;
use super::pace::Pace;
use crate::hardware::Device;
use crate::units::{Bytes, Dtype, Flops, Seconds};

/// Bytes that the kernels of a scan move while the vector engine could do one operation in fp32.
///
/// `SCAN_BYTES` and `SCAN_FLOPS` solve two measurements on H100 (vector peak 66.9 TFLOP/s) of mamba-ssm's kernels in
/// Triton, bf16. Forward: vllm-project/vllm, pull request 27299, figures of 2025-10-25, "original" (128 heads of width 64,
/// state 128, one group, chunks of 256): 84.7 ns a position at 4,096 to 262,144 positions, for 137.5 kB and 8.45 MFLOP.
/// Forward and backward: the profile of Nemotron 3 Nano in GiscardBiamby/Automodel-scalingai-f26, `mfu/` (64 heads of
/// width 64, state 128, 8 groups, chunks of 128): 192 ns a position, for 455 kB and 12.58 MFLOP. Both are well under the
/// memory rate, so that what bounds such kernels are the multiprocessors: addresses, exponentials and small products.
/// Their number and clock is what the vector peak stands for on another device.
const SCAN_BYTES: f64 = 0.0568;
/// Operations of products that those kernels do in the same while.
const SCAN_FLOPS: f64 = 2.60;
/// Time of the kernels of a gated delta rule over that of a scan's kernels with the same traffic and products.
///
/// Of 0.7 to 1, the value with the least mean error (5%) over eleven times of flash-linear-attention 0.5.1 (Triton, bf16) on
/// H200 (vector peak 66.9 TFLOP/s), 4 to 64 heads of width 128, 8,192 and 32,768 positions, forward and backward:
/// QwenLM/FlashQLA, `benchmark/benchmark_results_H200.txt` (6e5d2ea1). With 1 they come out 17% long.
const DELTA: f64 = 0.8;
/// How long a chunk of 64 positions takes where a kernel hands the state of a gated delta rule on from chunk to chunk, while
/// most units wait, over what a kernel takes beside its traffic: reads of what the chunk before has not made yet, two
/// products and their write are time in flight, too.
///
/// In the same table 32,768 positions take 0.902 ms with 8 heads, 1.890 with 32 and 3.331 with 64, so 0.56 ms for 512
/// chunks beside what grows with the heads, 1.09 us each, where a kernel takes 4.1 us beside its traffic.
const CHAIN: f64 = 0.266;
/// The same as `SCAN_BYTES` of the kernels of a causal convolution of a few taps (`causal_conv1d`), from the second of
/// those measurements: 1.58 TB/s forward and 1.24 TB/s backward, mean over a step's two forward and one backward kernels.
const CONVOLUTION_BYTES: f64 = 0.0211;
/// Operations that the vector engine could do while `torch.topk` looks at one score: it sets a block of threads to each
/// row, which finds the smallest of the k by its bits, two a pass.
///
/// From sgl-project/sglang pull request 13374 (November 2025), 6 of 384 experts, scores and weights in one kernel beside:
/// 19.2 ns a row between 1,024 and 40,000 rows. Pull request 6946, another author's table of 8 of 256 experts out of 4
/// of 8 groups, so 520 scores a row: 26.4 ns between 5,000 and 40,000. Neither names the device; other tables of these
/// tests are of H200 (vector peak 66.9 TFLOP/s), so that both come to 0.050 to 0.051 ns a score.
const SELECTION: f64 = 3_360.0;

/// Operations that the vector engine could do while a kernel of `PyTorch` takes one element where it cannot take several at
/// once, because an operand is part of a wider tensor, is repeated along a dim or has another format: it finds the
/// address of each, loads and stores it alone (`elementwise_kernel` and `unrolled_elementwise_kernel` of `PyTorch`).
///
/// 51.2 TFLOP/s of H100 PCIe over 239 G elements/s: casts of 2^29 and 2^31 elements before they were vectorised
/// (pytorch/pytorch pull request 137053). 66.9 of H200 over 313: `prelu` with a weight for each of 10,240 columns, 1.18
/// TB/s of fp16, less 2 us for start and end (tile-ai/TileOPs pull request 500). Both give 214, 1.2 elements a clock and
/// multiprocessor. On A100 it is as many (190 G elements/s, pytorch/pytorch pull request 195542), which is half as many
/// operations, since its multiprocessors have half the lanes: there such kernels take half of what is priced.
const STRIDED: f64 = 214.0;

/// Prices a kernel of a scan, which multiplies and moves at once.
///
/// ```text
/// time = max(B / r, p (B / b + F / f) / V) + t_stream
/// ```
///
/// B: bytes; r: sustained rate of main memory, bytes/s; F: flops; V: peak of the vector engine, flop/s; b:
/// `SCAN_BYTES`; f: `SCAN_FLOPS`; p: slowdown of the `pace`, of both terms; `t_stream`: `Device::stream_overhead`, s.
pub(super) fn cost((flops, bytes): (Flops, Bytes), device: &Device, pace: Pace) -> KernelCost {
    bound(work(flops, bytes) * pace.slowdown, (flops, bytes), device)
}

/// Prices a kernel of a gated delta rule: `DELTA` of that, or `CHAIN` of the `stream_overhead` for each chunk that it takes in turn.
pub(super) fn delta_rule(
    (flops, bytes): (Flops, Bytes),
    chain: f64,
    device: &Device,
    pace: Pace,
) -> KernelCost {
    let work = DELTA * work(flops, bytes) * pace.slowdown;
    let cost = bound(work, (flops, bytes), device);
    let waits = device.stream_overhead() * (1.0 + CHAIN * chain);
    KernelCost {
        time: cost.time.max(waits),
        ..cost
    }
}

/// Operations of the vector engine for which a scan's products and traffic stand.
fn work(flops: Flops, bytes: Bytes) -> f64 {
    bytes.value() / SCAN_BYTES + flops.value() / SCAN_FLOPS
}

/// Prices a kernel of a causal convolution: the same without products, at `CONVOLUTION_BYTES`.
pub(super) fn convolution(bytes: Bytes, device: &Device, pace: Pace) -> KernelCost {
    let work = bytes.value() / CONVOLUTION_BYTES;
    bound(work * pace.slowdown, (Flops::ZERO, bytes), device)
}

/// Prices the selection of a few of each row's fp32 scores, so many in all: `scores` times `SELECTION`, or their traffic.
pub(super) fn selection(scores: f64, device: &Device, pace: Pace) -> KernelCost {
    let bytes = Bytes::new(scores * Dtype::Fp32.bytes());
    bound(
        scores * SELECTION * pace.slowdown,
        (Flops::ZERO, bytes),
        device,
    )
}

/// Prices kernels of a deep-learning framework that take so many elements one by one, and so many bytes.
pub(super) fn strided((elements, bytes): (f64, Bytes), device: &Device, pace: Pace) -> KernelCost {
    let work = elements * STRIDED * pace.slowdown;
    bound(work, (Flops::ZERO, bytes), device)
}

/// The longer of traffic and of `work`, operations of the vector engine.
fn bound(work: f64, (flops, bytes): (Flops, Bytes), device: &Device) -> KernelCost {
    let moved = bytes / device.main_memory().sustained();
    let worked = Seconds::new(work / device.vector.value());
    KernelCost {
        time: moved.max(worked) + device.stream_overhead(),
        flops,
        traffic: bytes,
    }
}

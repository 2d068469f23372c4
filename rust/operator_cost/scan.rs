//! How long does one kernel of a state-space mixer take, of its scan or of its convolution?

use super::kernel::KernelCost;
use super::pace::Pace;
use crate::hardware::Device;
use crate::units::{Bytes, Flops, Seconds};

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
/// The same as `SCAN_BYTES` of the kernels of a causal convolution of a few taps (`causal_conv1d`), from the second of
/// those measurements: 1.58 TB/s forward and 1.24 TB/s backward, mean over a step's two forward and one backward kernels.
const CONVOLUTION_BYTES: f64 = 0.0211;

/// Prices a kernel of a scan, which multiplies and moves at once.
///
/// ```text
/// time = max(B / r, p (B / b + F / f) / V) + t_stream
/// ```
///
/// B: bytes; r: sustained rate of main memory, bytes/s; F: flops; V: peak of the vector engine, flop/s; b:
/// `SCAN_BYTES`; f: `SCAN_FLOPS`; p: slowdown of the `pace`, of both terms; `t_stream`: `Device::stream_overhead`, s.
pub(super) fn cost((flops, bytes): (Flops, Bytes), device: &Device, pace: Pace) -> KernelCost {
    let work = bytes.value() / SCAN_BYTES + flops.value() / SCAN_FLOPS;
    bound(work * pace.slowdown, (flops, bytes), device)
}

/// Prices a kernel of a causal convolution: the same without products, at `CONVOLUTION_BYTES`.
pub(super) fn convolution(bytes: Bytes, device: &Device, pace: Pace) -> KernelCost {
    let work = bytes.value() / CONVOLUTION_BYTES;
    bound(work * pace.slowdown, (Flops::ZERO, bytes), device)
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

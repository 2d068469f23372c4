//! How long does a kernel take that multiprocessors pace: a scan, a convolution, a selection, elements one by one?

use super::kernel::KernelCost;
use super::pace::Pace;
use crate::defaults::{delta_rule, scan, selection, strided};
use crate::hardware::Device;
use crate::units::{Bytes, Dtype, Flops, Seconds};

/// Prices a kernel of a scan, which multiplies and moves at once.
///
/// ```text
/// time = max(B / r, p (B / b + F / f) / V) + t_stream
/// ```
///
/// B: bytes; r: sustained rate of main memory, bytes/s; F: flops; V: peak of the vector engine, flop/s; b, f:
/// `[scan]` of the defaults; p: slowdown of the `pace`, of both terms; `t_stream`: `Device::stream_overhead`, s.
pub(super) fn cost((flops, bytes): (Flops, Bytes), device: &Device, pace: Pace) -> KernelCost {
    bound(work(flops, bytes) * pace.slowdown, (flops, bytes), device)
}

/// Prices a kernel of a gated delta rule: `slowdown` of that, or `chain` of the `stream_overhead` for each chunk that
/// it takes in turn.
pub(super) fn delta_rule(
    (flops, bytes): (Flops, Bytes),
    chain: f64,
    device: &Device,
    pace: Pace,
) -> KernelCost {
    let work = delta_rule::SLOWDOWN * work(flops, bytes) * pace.slowdown;
    let cost = bound(work, (flops, bytes), device);
    let waits = device.stream_overhead() * (1.0 + delta_rule::CHAIN * chain);
    KernelCost {
        time: cost.time.max(waits),
        ..cost
    }
}

/// Operations of the vector engine for which a scan's products and traffic stand.
fn work(flops: Flops, bytes: Bytes) -> f64 {
    bytes.value() / scan::BYTES + flops.value() / scan::FLOPS
}

/// Prices a kernel of a causal convolution: the same without products, at `convolution_bytes`.
pub(super) fn convolution(bytes: Bytes, device: &Device, pace: Pace) -> KernelCost {
    let work = bytes.value() / scan::CONVOLUTION_BYTES;
    bound(work * pace.slowdown, (Flops::ZERO, bytes), device)
}

/// Prices the selection of a few of each row's fp32 scores, so many in all: `scores` times `[selection]` of the
/// defaults, or their traffic.
pub(super) fn selection(scores: f64, device: &Device, pace: Pace) -> KernelCost {
    let bytes = Bytes::new(scores * Dtype::Fp32.bytes());
    bound(
        scores * selection::OPERATIONS * pace.slowdown,
        (Flops::ZERO, bytes),
        device,
    )
}

/// Prices kernels of a deep-learning framework that take so many elements one by one, and so many bytes.
pub(super) fn strided((elements, bytes): (f64, Bytes), device: &Device, pace: Pace) -> KernelCost {
    let work = elements * strided::OPERATIONS * pace.slowdown;
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

//! How long does one kernel of a state-space scan take?

use super::kernel::KernelCost;
use super::pace::Pace;
use crate::hardware::Device;
use crate::units::{Bytes, Dtype, Flops, Seconds};

/// Share of main memory's sustained rate that these kernels reach.
///
/// From the five kernels of mamba-ssm's forward pass in Triton on H100 (vllm-project/vllm, pull request 27299, figures of
/// 2025-10-25, "original": 128 heads of width 64, state 128, one group, chunks of 256, bf16). At 4,096 to 262,144
/// positions they run 12.1 to 10.7 million positions a second and move 105 kB each: 0.42, 0.44, 0.45, 0.41, 0.38,
/// 0.37 and 0.38 of 3.015 TB/s, of which this is the median; shorter runs wait for the host. The backward pass,
/// whose kernels are of the same kind, and other devices are taken to be alike.
const SHARE: f64 = 0.41;

/// Prices a kernel that multiplies and moves at once.
///
/// ```text
/// time = max(B / (e r), p F / P) + t_stream
/// ```
///
/// B: bytes; e: `SHARE`; r: sustained rate of main memory, bytes/s; F: flops; P: peak of the format, flop/s; p:
/// slowdown of the `pace`; `t_stream`: `Device::stream_overhead`, s.
pub(super) fn cost(
    (flops, bytes, dtype): (Flops, Bytes, Dtype),
    device: &Device,
    pace: Pace,
) -> KernelCost {
    let moved = bytes / (device.main_memory().sustained() * SHARE);
    let multiplied = Seconds::new(flops.value() / device.engine_peak(dtype).value());
    KernelCost {
        time: moved.max(multiplied * pace.slowdown) + device.stream_overhead(),
        flops,
        traffic: bytes,
    }
}

//! What one kernel costs on one device: time, traffic, energy. Blind to plans and models.

mod attention;
mod decode;
mod kernel;
mod matmul;
mod memory;
mod moe;
mod pace;
mod prefill;
mod scan;
mod timed;

pub use decode::TimedDecode;
pub use kernel::{Kernel, KernelCost};
pub use moe::TimedExperts;
pub use pace::{Pace, SustainedPace};
pub use prefill::TimedPrefill;
pub use timed::{Timed, TimedMatmul};

/// Bytes of an element of what layers hand to timed kernels of inference and take back, in bf16 or fp16.
const LAYER_BYTES: f64 = 2.0;

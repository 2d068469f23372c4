//! What one kernel costs on one device: time, traffic, energy. Blind to plans and models.

mod attention;
mod kernel;
mod matmul;
mod memory;
mod timed;

pub use kernel::{Kernel, KernelCost};
pub use timed::{Timed, TimedMatmul};

//! What one kernel costs on one device: time, traffic, energy. Blind to plans and models.

mod attention;
mod kernel;
mod matmul;
mod memory;

pub use kernel::{Kernel, KernelCost};

//! What one kernel costs on one device: time, traffic, energy. Blind to plans and models.

mod kernel;

pub use kernel::{Kernel, KernelCost};

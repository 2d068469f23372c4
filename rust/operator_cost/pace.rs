//! At which pace do matrix engines run while kernels follow one another, hour after hour?

use super::matmul::{self, Product};
use crate::hardware::Device;
use crate::units::{Bytes, Dtype, FlopsPerSecond, Seconds};

/// Edge of the square product by which short and lasting rates are compared, as in public tests.
const TESTED: f64 = 8192.0;

/// What power management does to the matrix work of a kernel. Traffic keeps its rates: the clock of
/// memory is another one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Seconds that matrix work takes over those that the device's constants say.
    pub slowdown: f64,
    /// True where `slowdown` has all that power does: products do not slow down by their length, too.
    pub settled: bool,
}

/// The pace of the kernels of a long run, in one format.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SustainedPace {
    /// Of matrix products and of fused attention.
    pub pace: Pace,
    /// By how much longer the engine takes for a large product than in a test: below 1 where the rate
    /// that lasts is not reached.
    pub over: f64,
}

impl Pace {
    /// That of a kernel which is timed alone.
    pub const ALONE: Self = Self {
        slowdown: 1.0,
        settled: false,
    };

    /// The same on a device that is `factor` times slower.
    #[must_use]
    pub fn slowed_by(self, factor: f64) -> Self {
        Self {
            slowdown: self.slowdown * factor,
            ..self
        }
    }
}

impl SustainedPace {
    /// That of a run whose kernels have nothing but their own length to slow them.
    pub const UNKNOWN: Self = Self {
        pace: Pace::ALONE,
        over: 1.0,
    };

    /// Pace of a long run on `device` in `dtype`, in which a large product runs at `rate`.
    ///
    /// ```text
    /// slowdown = max(1, ((F / r - t_launch)^q - t_memory^q)^(1/q) / t_engine), whatever their length
    /// ```
    ///
    /// r: `rate`, flop/s; F: flops of a product of 8,192 x 8,192 x 8,192; `t_engine`:
    /// its time on the engine without `throttle`, s; `t_memory`, `t_launch`: what `matmul` says beside, s;
    /// q: `overlap` of the device's products. So that product runs at r. Power management
    /// acts over milliseconds, which are many kernels: in a run the clock follows from all of them, a
    /// long product does not lower it once more and a short one does not escape it. Fused attention runs at
    /// the same clock; its tests were not throttled (`docs/attention-kernels.md`).
    pub fn of(device: &Device, dtype: Dtype, rate: FlopsPerSecond) -> Self {
        let product = Product {
            batch: 1.0,
            m: TESTED,
            n: TESTED,
            k: TESTED,
            dtype,
            weights: dtype,
            output_bytes: dtype.bytes().max(2.0),
            transposed: false,
            added: false,
            copies: matmul::ALL_LAYERS,
            beside: Bytes::ZERO,
        };
        let parts = matmul::parts(product, device);
        let lasting = parts.flops / rate;
        let left = (lasting - parts.launch).max(Seconds::ZERO);
        let over = parts.engine_of(left).value() / parts.engine.value();
        Self {
            pace: Pace {
                slowdown: over.max(1.0),
                settled: true,
            },
            over,
        }
    }
}

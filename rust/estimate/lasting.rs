//! How much longer do products take in a long run than in a short test, and what do better kernels gain?

use crate::hardware::Device;
use crate::operator_cost::Kernel;
use crate::units::{Dtype, FlopsPerSecond};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Edge of the square product by which short and lasting rates are compared, as in public tests.
const TESTED: f64 = 8192.0;

/// A device on which products slow down in long runs.
///
/// `h = max(1, t / s)`: by how much longer products take in a long run than in a short test; t: rate of a
/// product of 8,192 x 8,192 x 8,192 in the test, flop/s; s: the rate that lasts, flop/s.
///
/// Where constants of a device are scaled, t follows the peak alone, so that no constant makes a step
/// shorter where it gets worse by lowering h. An efficiency b times as high counts as
/// `h min(b, s / t)` times: what is better in a test gains nothing beyond s.
#[derive(Debug, Clone)]
pub(super) struct Lasting<'a> {
    device: Cow<'a, Device>,
    slowdown: BTreeMap<Dtype, f64>,
}

impl<'a> Lasting<'a> {
    /// What lasts on `device`.
    pub(super) fn new(device: &'a Device) -> Self {
        let mut found = Self {
            device: Cow::Borrowed(device),
            slowdown: BTreeMap::new(),
        };
        for (&dtype, &rate) in &device.sustained {
            let (over, better) = match device.unscaled.as_deref() {
                None => (tested(device, dtype) / rate.value(), 1.0),
                Some(before) => compared(before, device, dtype, rate),
            };
            let slowdown = over.max(1.0);
            found.slowdown.insert(dtype, slowdown);
            let held = (better * slowdown).min(slowdown / over);
            if (held - better).abs() > 0.0 {
                let efficiency = device.matmul_efficiency(dtype) * held / better;
                let matmul = &mut found.device.to_mut().matmul;
                matmul.efficiency.insert(dtype, efficiency);
            }
        }
        found
    }

    /// The device with its efficiencies as far as they last.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// By how much longer products of a format take than in a short test.
    pub(super) fn slowdown(&self, dtype: Dtype) -> f64 {
        self.slowdown.get(&dtype).copied().unwrap_or(1.0)
    }
}

/// Rate of the large product in a short test, flop/s.
fn tested(device: &Device, dtype: Dtype) -> f64 {
    let product = Kernel::Matmul {
        batch: 1.0,
        m: TESTED,
        n: TESTED,
        k: TESTED,
        dtype,
        output_bytes: 2.0,
    };
    let cost = product.cost(device);
    cost.flops.value() / cost.time.value()
}

/// The tested rate over the one that lasts, and the efficiency over that before constants were scaled.
fn compared(before: &Device, now: &Device, dtype: Dtype, rate: FlopsPerSecond) -> (f64, f64) {
    let peak = |device: &Device| device.engine_peak(dtype).value();
    let over = tested(before, dtype) * (peak(now) / peak(before)) / rate.value();
    let better = now.matmul_efficiency(dtype) / before.matmul_efficiency(dtype);
    (over, better)
}

//! At which pace do kernels run in a long run, and what do better constants gain there?

use crate::hardware::Device;
use crate::operator_cost::SustainedPace;
use crate::units::{Dtype, FlopsPerSecond};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// A device on which kernels follow one another, hour after hour.
///
/// Where constants of a device are scaled, paces are those from before, the rate that lasts taken
/// against the peak, so that no constant makes a step shorter where it gets worse. An efficiency b times
/// as high counts as `min(b s h, h / o)` times, `h = max(1, o)`, o: by how much longer the engine takes for a
/// large product in a long run than in a test; s: share of the tested rate that the program's library
/// reaches (`product_share`). What is better in a test gains nothing beyond the rate that lasts, and a slow
/// library loses nothing to power before it comes to that rate. Attention keeps its pace.
#[derive(Debug, Clone)]
pub(super) struct LongRun<'a> {
    device: Cow<'a, Device>,
    paces: BTreeMap<Dtype, SustainedPace>,
}

impl<'a> LongRun<'a> {
    /// What lasts on `device`.
    pub(super) fn new(device: &'a Device) -> Self {
        let before = device.unscaled.as_deref().unwrap_or(device);
        let mut found = Self {
            device: Cow::Borrowed(device),
            paces: BTreeMap::new(),
        };
        for (&dtype, &rate) in &device.sustained {
            let peaks = device.engine_peak(dtype).value() / before.engine_peak(dtype).value();
            let paces = SustainedPace::of(before, dtype, FlopsPerSecond::new(rate.value() / peaks));
            found.paces.insert(dtype, paces);
        }
        let formats = device.sustained.keys().chain(device.product_share.keys());
        for &dtype in formats.collect::<BTreeSet<_>>() {
            let share = device.product_share.get(&dtype).copied().unwrap_or(1.0);
            let over = found.sustained_pace(dtype).over;
            let limit = if device.sustained.contains_key(&dtype) {
                over.max(1.0) / over
            } else {
                f64::INFINITY
            };
            let efficiency = device.matmul_efficiency(dtype);
            let better = efficiency / before.matmul_efficiency(dtype);
            let held = (better * share * over.max(1.0)).min(limit);
            if (held - better).abs() > 0.0 {
                let matmul = &mut found.device.to_mut().matmul;
                matmul.efficiency.insert(dtype, efficiency * held / better);
            }
        }
        found
    }

    /// The device with its efficiencies as far as they last.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// The pace of kernels in a format, or in that in which the device multiplies it.
    ///
    /// One of 16 bits stands in for the other with the same kernels. Products with block scales that
    /// software applies are slower ones of their own.
    pub(super) fn sustained_pace(&self, dtype: Dtype) -> SustainedPace {
        let known = self.paces.get(&dtype);
        let known = known.or_else(|| self.paces.get(&self.substitute_format(dtype)?));
        known.copied().unwrap_or(SustainedPace::UNKNOWN)
    }

    fn substitute_format(&self, dtype: Dtype) -> Option<Dtype> {
        let narrow = matches!(dtype, Dtype::Bf16 | Dtype::Fp16);
        self.device.engine_format(dtype).filter(|_| narrow)
    }
}

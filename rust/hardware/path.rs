//! A path: a link between a device and memory behind it, and who shares it.

use super::device::{positive, share};
use crate::error::Result;
use crate::units::BytesPerSecond;
use serde::{Deserialize, Serialize};

/// A link that bytes cross on their way between a device and a tier; each direction has its own rate.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Short name, as `pcie-switch`.
    pub name: String,
    /// Rate towards the device.
    pub bandwidth: BytesPerSecond,
    /// Rate away from the device, where it is unlike the other.
    #[serde(default)]
    pub write_bandwidth: Option<BytesPerSecond>,
    /// Share of the rate that copies sustain.
    #[serde(default = "one")]
    pub efficiency: f64,
    /// Devices that share it and use it at once, where the job has so many; 0 means all of a node.
    #[serde(default = "single")]
    pub shared_by: u32,
    /// The next path towards the device; none: the device itself.
    #[serde(default)]
    pub behind: Option<String>,
}

impl Path {
    /// Sustained rates towards the device and away from it.
    pub fn rates(&self) -> [BytesPerSecond; 2] {
        let away = self.write_bandwidth.unwrap_or(self.bandwidth);
        [self.bandwidth * self.efficiency, away * self.efficiency]
    }

    /// Refuses figures that no path can have.
    pub(super) fn check(&self, path: &str) -> Result<()> {
        for (field, rate) in ["bandwidth", "write_bandwidth"].iter().zip(self.rates()) {
            positive(&format!("{path}.{field}"), rate.value())?;
        }
        share(&format!("{path}.efficiency"), self.efficiency)
    }
}

fn one() -> f64 {
    1.0
}

fn single() -> u32 {
    1
}

//! A memory tier: a place where bytes can live, and what reaching them costs.

use crate::units::{Bytes, BytesPerSecond, Seconds};
use serde::{Deserialize, Serialize};

/// What a tier is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TierKind {
    /// On-chip memory: last-level cache or scratchpad.
    Sram,
    /// Stacked DRAM beside the die.
    Hbm,
    /// Graphics DRAM.
    Gddr,
    /// Low-power DRAM.
    Lpddr,
    /// Socketed DRAM of the host.
    Ddr,
    /// Memory behind a CXL link.
    Cxl,
    /// Flash.
    Ssd,
}

/// One tier, as seen from one device.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryTier {
    /// Short name, as `hbm`.
    pub name: String,
    /// What it is made of.
    pub kind: TierKind,
    /// How much fits.
    pub capacity: Bytes,
    /// Peak rate of reads and of writes together on a shared bus.
    pub bandwidth: BytesPerSecond,
    /// Share of the peak rate that a well-written streaming kernel reaches.
    #[serde(default = "one")]
    pub efficiency: f64,
    /// Time to the first byte.
    #[serde(default)]
    pub latency: Seconds,
}

impl MemoryTier {
    /// The rate that streaming kernels reach.
    pub fn sustained(&self) -> BytesPerSecond {
        self.bandwidth * self.efficiency
    }
}

fn one() -> f64 {
    1.0
}

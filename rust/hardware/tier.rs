//! A memory tier: a place where bytes can live, and what reaching them costs.

use super::device::{positive, share};
use crate::error::{Error, Result};
use crate::units::{Bytes, BytesPerSecond, DollarsPerByte, JoulesPerByte, Seconds, WattsPerByte};
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
    /// Managed-retention memory: non-volatile cells written for hours or days, not for years.
    Mrm,
    /// A store or another device's memory behind a network.
    Remote,
}

/// One tier, as seen from one device.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryTier {
    /// Short name, as `hbm`.
    pub name: String,
    /// What it is made of.
    pub kind: TierKind,
    /// The technology of the catalog that fields left out come from, as `hbm2e`.
    #[serde(default)]
    pub technology: Option<String>,
    /// How much fits into one unit.
    pub capacity: Bytes,
    /// Peak rate of one unit: of reads and of writes together on a shared bus.
    pub bandwidth: BytesPerSecond,
    /// Peak rate of reads alone, where it is unlike `bandwidth`.
    #[serde(default)]
    pub read_bandwidth: Option<BytesPerSecond>,
    /// Peak rate of writes alone, where it is unlike `bandwidth`.
    #[serde(default)]
    pub write_bandwidth: Option<BytesPerSecond>,
    /// Like units that are used as one: drives of an array, modules of a board.
    #[serde(default = "single")]
    pub units: u32,
    /// Devices that share the units and use them at once, where the job has so many; 0 means all of a
    /// node.
    #[serde(default = "single")]
    pub shared_by: u32,
    /// The path or the tier through which a device reaches this one; none: directly.
    #[serde(default)]
    pub behind: Option<String>,
    /// Share of the peak rate that a well-written streaming kernel reaches.
    #[serde(default = "one")]
    pub efficiency: f64,
    /// Time to the first byte.
    #[serde(default)]
    pub latency: Seconds,
    /// Energy of a read.
    #[serde(default)]
    pub read_energy: JoulesPerByte,
    /// Energy of a write.
    #[serde(default)]
    pub write_energy: JoulesPerByte,
    /// Power of keeping data: refresh and standby.
    #[serde(default)]
    pub keeping_power: WattsPerByte,
    /// What a byte of it costs to buy.
    #[serde(default)]
    pub price: Option<DollarsPerByte>,
    /// Writes that a cell survives; none: no limit that matters.
    #[serde(default)]
    pub endurance: Option<f64>,
    /// How long a cell keeps what was written without being written again; none: as long as needed.
    #[serde(default)]
    pub retention: Option<Seconds>,
}

impl MemoryTier {
    /// A tier with nothing but size and speed.
    pub fn plain(name: &str, kind: TierKind, capacity: Bytes, bandwidth: BytesPerSecond) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            technology: None,
            capacity,
            bandwidth,
            read_bandwidth: None,
            write_bandwidth: None,
            units: 1,
            shared_by: 1,
            behind: None,
            efficiency: 1.0,
            latency: Seconds::ZERO,
            read_energy: JoulesPerByte::ZERO,
            write_energy: JoulesPerByte::ZERO,
            keeping_power: WattsPerByte::ZERO,
            price: None,
            endurance: None,
            retention: None,
        }
    }

    /// The rate that streaming kernels reach.
    pub fn sustained(&self) -> BytesPerSecond {
        self.bandwidth * self.efficiency
    }

    /// Rates of reads alone and of writes alone that one unit sustains.
    pub fn rates(&self) -> [BytesPerSecond; 2] {
        [self.read_bandwidth, self.write_bandwidth]
            .map(|rate| rate.unwrap_or(self.bandwidth) * self.efficiency)
    }

    /// Refuses figures that no tier can have.
    pub(super) fn check(&self, path: &str) -> Result<()> {
        let at = |field: &str| format!("{path}.{field}");
        positive(&at("capacity"), self.capacity.value())?;
        positive(&at("bandwidth"), self.bandwidth.value())?;
        for (field, rate) in [
            ("read_bandwidth", self.read_bandwidth),
            ("write_bandwidth", self.write_bandwidth),
        ] {
            rate.map_or(Ok(()), |rate| positive(&at(field), rate.value()))?;
        }
        share(&at("efficiency"), self.efficiency)?;
        if !(1..=1_000_000).contains(&self.units) {
            return Err(Error::invalid(at("units"), self.units, "1 to 1000000"));
        }
        if let Some(endurance) = self.endurance {
            positive(&at("endurance"), endurance)?;
        }
        if let Some(retention) = self.retention {
            positive(&at("retention"), retention.value())?;
        }
        Ok(())
    }
}

fn one() -> f64 {
    1.0
}

fn single() -> u32 {
    1
}

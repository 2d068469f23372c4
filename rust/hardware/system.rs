//! A system: nodes of one device kind and the fabric levels that join them.

use super::device::{positive, share};
use super::group::MAX_LEVELS;
use super::level::{Level, LevelKind};
use super::path::Path;
use super::tier::MemoryTier;
use crate::defaults;
use crate::error::amounts::count;
use crate::error::{Error, Result};
use crate::units::{Bytes, BytesPerSecond, Dollars, Watts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A machine room in one entry: which device, how many a node, how they are joined.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Catalog name, as `dgx-a100-80gb`.
    pub name: String,
    /// Full name.
    pub title: String,
    /// Catalog name of the device.
    pub device: String,
    /// Other spellings that mean this system.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Devices in one chassis (for host memory, power and price).
    pub devices_per_node: u32,
    /// Fabric levels, innermost first.
    pub levels: Vec<Level>,
    /// The host side of a node.
    #[serde(default)]
    pub host: Option<Host>,
    /// Memory of a node beyond its devices' and the host's, nearest first: flash, CXL, remote stores.
    #[serde(default)]
    pub tiers: Vec<MemoryTier>,
    /// Links that memory lies behind and that devices share.
    #[serde(default)]
    pub paths: Vec<Path>,
    /// Power of a node beside its devices: processors, fans, switches, conversion.
    #[serde(default)]
    pub node_overhead_power: Watts,
    /// Facility power over equipment power.
    #[serde(default = "default_pue")]
    pub power_usage_effectiveness: f64,
    /// What it costs.
    #[serde(default)]
    pub price: Price,
    /// Where each figure comes from, by field path.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
}

/// The host side of a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Host memory of a node.
    pub memory: Bytes,
    /// Rate of the host memory.
    pub memory_bandwidth: BytesPerSecond,
    /// Rate per device and direction between device and host.
    pub link_bandwidth: BytesPerSecond,
    /// Share of the link's rate that copies of pinned memory sustain. The default is 24.8 of 31.5
    /// GB/s on eight A100-SXM4 over `PCIe` 4.0 x16 (nvbandwidth 0.8, NVIDIA developer forum thread
    /// 352186).
    #[serde(default = "default_host_efficiency")]
    pub link_efficiency: f64,
    /// Share of the memory's rate that streaming kernels sustain. Stated default: STREAM triads of
    /// server processors reach 75% to 85% of the channels' peak.
    #[serde(default = "default_host_efficiency")]
    pub memory_efficiency: f64,
    /// A path of the system that the link runs into, as a switch that several devices share.
    #[serde(default)]
    pub behind: Option<String>,
    /// Energy, price and wear of the memory; sizes and rates are the fields above.
    #[serde(default)]
    pub tier: Option<MemoryTier>,
}

impl Host {
    /// A host with sizes and rates, and the stated efficiencies.
    pub fn new(memory: Bytes, memory_bandwidth: BytesPerSecond, link: BytesPerSecond) -> Self {
        Self {
            memory,
            memory_bandwidth,
            link_bandwidth: link,
            link_efficiency: default_host_efficiency(),
            memory_efficiency: default_host_efficiency(),
            behind: None,
            tier: None,
        }
    }

    /// Refuses figures that no host can have; a system without a host leaves `host` out.
    fn check(&self, path: &str) -> Result<()> {
        let at = |field: &str| format!("{path}.{field}");
        positive(&at("memory"), self.memory.value())?;
        positive(&at("memory_bandwidth"), self.memory_bandwidth.value())?;
        positive(&at("link_bandwidth"), self.link_bandwidth.value())?;
        share(&at("link_efficiency"), self.link_efficiency)?;
        share(&at("memory_efficiency"), self.memory_efficiency)
    }
}

/// What a system costs to own or rent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Price {
    /// Purchase price of a node, its share of the network included.
    pub node: Option<Dollars>,
    /// Rent of one device for an hour; when given it is used instead of ownership.
    pub rent_per_device_hour: Option<Dollars>,
    /// Years over which the purchase is written off.
    pub lifetime_years: f64,
    /// Price of a kilowatt-hour.
    pub energy_per_kwh: Dollars,
}

impl Default for Price {
    fn default() -> Self {
        Self {
            node: None,
            rent_per_device_hour: None,
            lifetime_years: defaults::site::LIFETIME_YEARS,
            energy_per_kwh: defaults::site::ENERGY_PER_KWH,
        }
    }
}

impl System {
    /// True where level `i` is a bus inside a node, which traffic between nodes passes by: adapters lie beside
    /// the devices.
    pub fn inside_node(&self, i: usize) -> bool {
        let bus = self.levels.get(i).filter(|l| l.kind == LevelKind::Pcie);
        bus.and_then(|level| level.devices)
            .is_some_and(|devices| devices <= self.devices_per_node)
    }

    /// Refuses figures that no system can have.
    pub fn check(&self) -> Result<()> {
        let at = |field: &str| format!("system {}.{field}", self.name);
        count(&at("devices_per_node"), self.devices_per_node, 1, u32::MAX)?;
        if self.levels.is_empty() || self.levels.len() > MAX_LEVELS {
            let allowed = format!("1 to {MAX_LEVELS} fabric levels");
            return Err(Error::invalid(at("levels"), self.levels.len(), allowed));
        }
        if !(1.0..=1e3).contains(&self.power_usage_effectiveness) {
            let got = self.power_usage_effectiveness;
            return Err(Error::invalid(
                at("power_usage_effectiveness"),
                got,
                "1 to 1000",
            ));
        }
        let single_hop = |level: &Level| level.kind == LevelKind::SingleHop;
        if self.levels.len() > 1 && self.levels.iter().any(single_hop) {
            let allowed = "one level where one is single-hop: its nodes are the devices";
            return Err(Error::invalid(at("levels"), self.levels.len(), allowed));
        }
        positive(&at("price.lifetime_years"), self.price.lifetime_years)?;
        let mut inner = 1;
        for level in &self.levels {
            level.check(&at(&format!("levels.{}", level.name)), inner)?;
            inner = level.devices.unwrap_or(inner);
        }
        let host = self.host.as_ref();
        host.map_or(Ok(()), |host| host.check(&at("host")))
    }
}

fn default_host_efficiency() -> f64 {
    defaults::host::EFFICIENCY
}

fn default_pue() -> f64 {
    defaults::site::POWER_USAGE_EFFECTIVENESS
}

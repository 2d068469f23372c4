//! A system: nodes of one device kind and the fabric levels that join them.

use super::device::{positive, share};
use super::group::{MAX_DIMS, MAX_LEVELS};
use super::library::Library;
use crate::error::{Error, Result};
use crate::units::{Bytes, BytesPerSecond, Dollars, Seconds, Watts};
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

/// How the members of a level are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LevelKind {
    /// A non-blocking switch: every member reaches every other at full rate.
    Switch,
    /// Direct links between all members; `bandwidth` is the sum over one member's links.
    Mesh,
    /// A `PCIe` tree.
    Pcie,
    /// A switched network of nodes with `oversubscription` above the node.
    FatTree,
    /// A torus of `dims`; `bandwidth` is that of one link in one direction.
    Torus,
}

/// One level of the fabric.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Short name, as `nvswitch`.
    pub name: String,
    /// How its members are joined.
    pub kind: LevelKind,
    /// Devices inside one unit of this level (all lower levels included); absent: no limit.
    #[serde(default)]
    pub devices: Option<u32>,
    /// Rate per device and direction into this level (per link for a torus).
    pub bandwidth: BytesPerSecond,
    /// Share of that rate that large collectives reach.
    #[serde(default = "default_link_efficiency")]
    pub efficiency: f64,
    /// Time that one message step takes beside its bytes.
    pub latency: Seconds,
    /// Downlink over uplink rate above a node (1 = non-blocking).
    #[serde(default = "one")]
    pub oversubscription: f64,
    /// Shape of a torus; empty for the other kinds.
    #[serde(default)]
    pub dims: Vec<u32>,
    /// True when the torus rings close.
    #[serde(default)]
    pub wrap: bool,
    /// True when switches can reduce and multicast (NVLS, SHARP).
    #[serde(default)]
    pub in_network_reduction: bool,
    /// True where the library reduces inside a unit before it crosses this level (XLA between slices).
    #[serde(default)]
    pub hierarchical: bool,
    /// How the collective library drives this level; absent: by its kind.
    #[serde(default)]
    pub library: Option<Library>,
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
            lifetime_years: 4.0,
            energy_per_kwh: Dollars::new(0.08),
        }
    }
}

impl System {
    /// Refuses figures that no system can have.
    pub fn check(&self) -> Result<()> {
        let at = |field: &str| format!("system {}.{field}", self.name);
        positive(&at("devices_per_node"), f64::from(self.devices_per_node))?;
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
        positive(&at("price.lifetime_years"), self.price.lifetime_years)?;
        let mut inner = 1;
        for level in &self.levels {
            level.check(&at(&format!("levels.{}", level.name)), inner)?;
            inner = level.devices.unwrap_or(inner);
        }
        Ok(())
    }
}

impl Level {
    fn check(&self, path: &str, inner: u32) -> Result<()> {
        positive(&format!("{path}.bandwidth"), self.bandwidth.value())?;
        share(&format!("{path}.efficiency"), self.efficiency)?;
        if !(1.0..=1e9).contains(&self.oversubscription) {
            let got = self.oversubscription;
            return Err(Error::invalid(
                format!("{path}.oversubscription"),
                got,
                "1 to 1e9",
            ));
        }
        if let Some(devices) = self.devices
            && (devices == 0 || devices % inner != 0)
        {
            let allowed = format!("a multiple of the {inner} devices of the level inside it");
            return Err(Error::invalid(format!("{path}.devices"), devices, allowed));
        }
        let seconds = self.latency.value();
        if !(seconds.is_finite() && seconds >= 0.0) {
            return Err(Error::invalid(
                format!("{path}.latency"),
                seconds,
                "a finite number, 0 or more",
            ));
        }
        if let Some(library) = &self.library {
            library.check(&format!("{path}.library"))?;
        }
        let torus = self.kind == LevelKind::Torus;
        if torus == self.dims.is_empty() || self.dims.len() > MAX_DIMS || self.dims.contains(&0) {
            let got = format!("{:?}", self.dims);
            return Err(Error::invalid(
                format!("{path}.dims"),
                got,
                "1 to 3 sizes for a torus, none else",
            ));
        }
        Ok(())
    }
}

fn one() -> f64 {
    1.0
}

fn default_pue() -> f64 {
    1.1
}

fn default_link_efficiency() -> f64 {
    0.8
}

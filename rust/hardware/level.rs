//! A level of the fabric: how its members are joined, and what limits the links between them.

use super::device::{positive, share};
use super::group::MAX_DIMS;
use super::library::Library;
use super::slice::Torus;
use crate::defaults;
use crate::error::{Error, Result};
use crate::units::{Bytes, BytesPerSecond, Seconds};
use serde::{Deserialize, Serialize};

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
    /// A mesh of lines on a wafer: `dims` without wrap; `bandwidth` is that of one link in one direction.
    WaferMesh,
    /// Groups of routers, each joined to each other group by global links; `bandwidth` is a device's
    /// part of its group's global links.
    Dragonfly,
    /// Circuits between units that a switch of mirrors sets; `bandwidth` is that of all circuits of a unit, per device.
    OpticalSwitch,
    /// Every node reaches every other over light in one hop, by its transceivers; `bandwidth` is that of all of them.
    SingleHop,
    /// Long links over which window and loss limit the rate of a flow.
    WideArea,
}

impl LevelKind {
    /// True for the kinds across which devices load from and store to one another's memory.
    pub const fn reaches_memory(self) -> bool {
        matches!(self, Self::Switch | Self::Mesh | Self::Pcie)
    }

    /// True for the kinds whose members meet in switches, not over direct links.
    pub const fn is_switched(self) -> bool {
        !matches!(self, Self::Torus | Self::WaferMesh | Self::Mesh)
    }

    /// True for the kinds whose members lie along `dims`.
    pub const fn has_dims(self) -> bool {
        matches!(self, Self::Torus | Self::WaferMesh)
    }
}

/// How packets find their way between the groups of a dragonfly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// Always over the link of the two groups.
    Minimal,
    /// Over a third group where that link is full (Valiant).
    #[default]
    Adaptive,
}

/// Which dimensions of a torus are rings, not lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "allowed: true, false, or a list of them for each of dims"
)]
pub enum Wrap {
    /// All of them, or none.
    All(bool),
    /// One word for each.
    Each(Vec<bool>),
}

impl Default for Wrap {
    fn default() -> Self {
        Self::All(false)
    }
}

impl Wrap {
    /// True where dimension `axis` closes.
    pub fn closes(&self, axis: usize) -> bool {
        match self {
            Self::All(closes) => *closes,
            Self::Each(all) => all.get(axis).copied().unwrap_or(false),
        }
    }

    fn check(&self, path: &str, kind: LevelKind, dims: usize) -> Result<()> {
        let field = || format!("{path}.wrap");
        let closes = match self {
            Self::All(closes) => *closes,
            Self::Each(all) if all.len() == dims => all.contains(&true),
            Self::Each(all) => {
                let allowed = format!("true, false, or {dims} of them, one for each of dims");
                return Err(Error::invalid(field(), format!("{all:?}"), allowed));
            }
        };
        if closes && kind != LevelKind::Torus {
            return Err(Error::invalid(field(), true, "true for a torus only"));
        }
        Ok(())
    }
}

/// The circuits of an optical switch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Optical {
    /// Time to turn the mirrors; nothing passes meanwhile.
    pub reconfiguration: Seconds,
    /// Partners that a unit can send to without turning them.
    pub circuits: u32,
}

/// A network of subnets that each join one transceiver of a node in every communication group (RAMP).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SingleHop {
    /// Transceivers of a node, and communication groups of the network.
    pub transceivers: u32,
    /// Racks of a communication group.
    pub racks: u32,
    /// Nodes of a rack.
    pub nodes: u32,
    /// Rate at which a node adds two of its inputs.
    pub addition: BytesPerSecond,
}

impl SingleHop {
    /// Refuses networks in which some partners would share no transceiver.
    fn check(&self, path: &str) -> Result<()> {
        let most = self.transceivers;
        for (name, count, allowed) in [
            ("transceivers", self.transceivers, 65_535),
            ("racks", self.racks, most),
            ("nodes", self.nodes, most.saturating_mul(most)),
        ] {
            if count == 0 || count > allowed {
                let allowed = format!("1 to {allowed}");
                return Err(Error::invalid(format!("{path}.{name}"), count, allowed));
            }
        }
        positive(&format!("{path}.addition"), self.addition.value())
    }
}

/// What limits a flow over a long way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WideArea {
    /// There and back.
    pub round_trip: Seconds,
    /// Share of the packets that are lost.
    pub loss: f64,
    /// Parallel flows of one unit.
    pub flows: u32,
    /// Bytes of one flow under way without an answer.
    pub window: Bytes,
    /// Bytes of one packet.
    pub segment: Bytes,
}

/// Constant of the loss bound: `sqrt(3/2)` for one answer a packet (Mathis et al. 1997).
const LOSS_CONSTANT: f64 = 1.224_744_871_391_589;

impl WideArea {
    /// Rate of all flows of one unit.
    ///
    /// `f min(W / RTT, MSS sqrt(3/2) / (RTT sqrt(loss)))`, `f` flows of window `W` bytes and segments of
    /// `MSS` bytes. Mathis, Semke, Mahdavi and Ott 1997, equation 3; the window bound of RFC 7323.
    pub fn rate(&self) -> BytesPerSecond {
        let round_trip = self.round_trip.value();
        let window = self.window.value() / round_trip;
        let lossy = if self.loss > 0.0 {
            self.segment.value() * LOSS_CONSTANT / (round_trip * self.loss.sqrt())
        } else {
            f64::INFINITY
        };
        BytesPerSecond::new(f64::from(self.flows) * window.min(lossy))
    }

    fn check(&self, path: &str, latency: Seconds) -> Result<()> {
        positive(&format!("{path}.round_trip"), self.round_trip.value())?;
        positive(&format!("{path}.window"), self.window.value())?;
        positive(&format!("{path}.segment"), self.segment.value())?;
        positive(&format!("{path}.flows"), f64::from(self.flows))?;
        if !(0.0..1.0).contains(&self.loss) {
            let allowed = "0 to below 1";
            return Err(Error::invalid(format!("{path}.loss"), self.loss, allowed));
        }
        if latency * 2.0 < self.round_trip * (1.0 - 1e-9) {
            return Err(Error::invalid(
                format!("{path}.round_trip"),
                self.round_trip.value(),
                format!("at most twice the level's latency of {} s", latency.value()),
            ));
        }
        Ok(())
    }
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
    /// Adapters into this level that the devices of a unit below share; absent: each has its part.
    /// `bandwidth` stays the part of one device where all send; fewer senders share all adapters.
    #[serde(default)]
    pub adapters: Option<u32>,
    /// Shape of a torus or wafer mesh; empty for the other kinds.
    #[serde(default)]
    pub dims: Vec<u32>,
    /// Which rings of a torus close: all, none, or one word for each of `dims`.
    #[serde(default)]
    pub wrap: Wrap,
    /// Side of the blocks that optical switches join to slices of a torus, 0 where none do; absent: a job on a part of
    /// the torus takes devices row by row. See `slice`.
    #[serde(default)]
    pub block: Option<u32>,
    /// The whole torus of which this is a slice.
    #[serde(skip)]
    pub(super) whole: Option<Box<Torus>>,
    /// False where devices on `PCIe` cannot reach one another's memory, so that all passes the host's.
    #[serde(default = "yes")]
    pub peer_to_peer: bool,
    /// True when switches can reduce and multicast (NVLS, SHARP).
    #[serde(default)]
    pub in_network_reduction: bool,
    /// True when those switches hand out and take in parts too, so that reduce-scatter and all-gather need no
    /// ring (`SwarmX`); false where they serve all-reduce alone.
    #[serde(default)]
    pub in_network_parts: bool,
    /// True where the library reduces inside a unit before it crosses this level (XLA between slices).
    #[serde(default)]
    pub hierarchical: bool,
    /// How a dragonfly routes between its groups.
    #[serde(default)]
    pub routing: Routing,
    /// The circuits of an optical switch; only there.
    #[serde(default)]
    pub optical: Option<Optical>,
    /// What limits flows over a wide area; only there.
    #[serde(default)]
    pub wide_area: Option<WideArea>,
    /// The transceivers of a single-hop network; only there.
    #[serde(default)]
    pub single_hop: Option<SingleHop>,
    /// How the collective library drives this level; absent: by its kind.
    #[serde(default)]
    pub library: Option<Library>,
}

impl Level {
    /// Sustained rate per device and direction, with `below` devices in a unit of the level below.
    ///
    /// `bandwidth * efficiency / oversubscription`, at most a device's part of what its unit's flows
    /// reach over a wide area.
    pub fn sustained(&self, below: u32) -> BytesPerSecond {
        self.sustained_of(self.bandwidth, below)
    }

    /// As `sustained`, were `bandwidth` the level's own, in bytes/s.
    #[inline]
    pub fn sustained_of(&self, bandwidth: BytesPerSecond, below: u32) -> BytesPerSecond {
        let rate = bandwidth.value() * self.efficiency / self.oversubscription;
        let flows = self.wide_area.map_or(f64::INFINITY, |wide| {
            wide.rate().value() / f64::from(below.max(1))
        });
        BytesPerSecond::new(rate.min(flows))
    }

    /// How many times its part a sender gets where only `senders` of the `below` devices of a unit send, which share
    /// so many adapters or have their own: `below / max(senders, adapters)`, at least 1.
    pub fn alone(adapters: Option<u32>, senders: u32, below: u32) -> f64 {
        let used = adapters.map_or(below, |adapters| adapters.max(senders));
        (f64::from(below) / f64::from(used.max(1))).max(1.0)
    }

    /// How the collective library drives this level: its own table, else that of its kind.
    #[inline]
    pub fn driven_by(&self) -> &Library {
        let own = self.library.as_ref();
        own.unwrap_or_else(|| Library::of_kind(self.kind))
    }

    /// The same level with nothing left to a default.
    #[must_use]
    pub fn full(&self) -> Self {
        Self {
            library: Some(*self.driven_by()),
            ..self.clone()
        }
    }

    pub(super) fn check(&self, path: &str, inner: u32) -> Result<()> {
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
        if self
            .adapters
            .is_some_and(|count| count == 0 || count > inner)
        {
            let got = self.adapters.unwrap_or_default();
            let allowed = format!("1 to the {inner} devices of a unit of the level inside it");
            return Err(Error::invalid(format!("{path}.adapters"), got, allowed));
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
        self.check_kind(path)
    }

    fn check_kind(&self, path: &str) -> Result<()> {
        let shaped = self.kind.has_dims();
        if shaped == self.dims.is_empty() || self.dims.len() > MAX_DIMS || self.dims.contains(&0) {
            let got = format!("{:?}", self.dims);
            let allowed = "1 to 3 sizes for a torus or wafer mesh, none else";
            return Err(Error::invalid(format!("{path}.dims"), got, allowed));
        }
        self.wrap.check(path, self.kind, self.dims.len())?;
        if self.block.is_some() && self.kind != LevelKind::Torus {
            let got = self.block.unwrap_or_default();
            return Err(Error::invalid(
                format!("{path}.block"),
                got,
                "a number for kind torus, none else",
            ));
        }
        if !self.peer_to_peer && self.kind != LevelKind::Pcie {
            let allowed = "false for kind pcie only";
            return Err(Error::invalid(
                format!("{path}.peer_to_peer"),
                false,
                allowed,
            ));
        }
        let own = [
            ("optical", self.optical.is_some(), LevelKind::OpticalSwitch),
            ("wide_area", self.wide_area.is_some(), LevelKind::WideArea),
            (
                "single_hop",
                self.single_hop.is_some(),
                LevelKind::SingleHop,
            ),
        ];
        for (name, given, kind) in own {
            if given != (self.kind == kind) {
                let got = if given { "a table" } else { "none" };
                let allowed = format!("a table for kind {name}, none else");
                return Err(Error::invalid(format!("{path}.{name}"), got, allowed));
            }
        }
        if let Some(optical) = &self.optical {
            positive(
                &format!("{path}.optical.circuits"),
                f64::from(optical.circuits),
            )?;
            positive(
                &format!("{path}.optical.reconfiguration"),
                optical.reconfiguration.value(),
            )?;
        }
        if let Some(network) = &self.single_hop {
            network.check(&format!("{path}.single_hop"))?;
        }
        self.wide_area.as_ref().map_or(Ok(()), |wide| {
            wide.check(&format!("{path}.wide_area"), self.latency)
        })
    }
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

fn default_link_efficiency() -> f64 {
    defaults::level::EFFICIENCY
}

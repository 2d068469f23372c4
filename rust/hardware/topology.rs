//! Which links does a cluster have, and which of them does a message take?

use super::cluster::Cluster;
use super::level::{Level, LevelKind, Routing, Wrap};
use crate::error::{Error, Result};
use crate::solve::Link;
use crate::units::Seconds;

/// Keeps a topology within a few hundred megabytes.
const MOST_LINKS: u64 = 1 << 24;

/// Which of several ways a message takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RouteChoice {
    /// Over all links of a unit together.
    #[default]
    AllLinks,
    /// Over its device's share of a unit's links.
    OwnShare,
    /// As `AllLinks`, and on a torus the other one of two equally long ways.
    Turned,
}

/// The links of a cluster, at sustained rates.
///
/// A switched level has one uplink and one downlink for each unit of the level below, as wide as its
/// devices together; a mesh has a link for each ordered pair, and so has a dragonfly on its minimal way (on the
/// adaptive one its links count as one, whose detours the closed forms' rates hold); a torus has two a
/// dimension and unit.
/// A message between nodes leaves through its device's own adapter, not through the links inside the
/// node, and passes the uplinks of every network level up to the one that joins both ends. Beside the
/// uplinks of a unit lie the shares that its devices have of them, a pair for each: a message takes the
/// one or the other, as its algorithm spreads over all adapters of a unit or keeps to its own.
#[derive(Debug, Clone)]
pub struct Topology {
    links: Vec<Link>,
    tiers: Vec<LevelLinks>,
}

/// One level as laid out in the list of links.
#[derive(Debug, Clone)]
struct LevelLinks {
    kind: LevelKind,
    /// Index of the level's first link, and of its devices' first share.
    first: u32,
    shares: u32,
    /// Devices in one unit of the level below, and in one of this level.
    below: u32,
    within: u32,
    /// True inside a node.
    inside: bool,
    dims: Vec<u32>,
    wrap: Wrap,
    latency: Seconds,
}

impl Topology {
    /// Lays out the links of `cluster`.
    pub fn new(cluster: &Cluster) -> Result<Self> {
        let mut topology = Self {
            links: Vec::new(),
            tiers: Vec::new(),
        };
        let levels = &cluster.system.levels;
        let mut below = 1;
        for (i, level) in levels.iter().enumerate() {
            let outermost = i + 1 == levels.len();
            let within = match level.devices {
                Some(devices) if !outermost => devices,
                Some(devices) if level.kind != LevelKind::Switch => devices,
                _ => cluster.devices.next_multiple_of(below),
            };
            let minimal = level.kind == LevelKind::Dragonfly && level.routing == Routing::Minimal;
            let mut tier = LevelLinks {
                kind: if minimal { LevelKind::Mesh } else { level.kind },
                first: u32::try_from(topology.links.len()).unwrap_or(u32::MAX),
                shares: 0,
                below,
                within: within.max(below),
                inside: cluster.system.inside_node(i),
                dims: level.dims.clone(),
                wrap: level.wrap.clone(),
                latency: level.latency,
            };
            tier.check(level)?;
            let links = tier.count(cluster.devices) + topology.links.len() as u64;
            if links > MOST_LINKS {
                let allowed = format!("at most {MOST_LINKS} links down to this level");
                return Err(Error::invalid(
                    format!("levels.{}", level.name),
                    links,
                    allowed,
                ));
            }
            tier.append_links(level, cluster.devices, &mut topology.links);
            tier.divide(level, cluster.devices, &mut topology.links);
            topology.tiers.push(tier);
            below = within.max(below);
        }
        Ok(topology)
    }

    /// The links; routes are indices into this list.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Appends the links from device `from` to device `to` to `route`; returns the latency that they
    /// do not hold themselves: one step across the level that joins both ends, unless that is a torus.
    pub fn route(&self, from: u32, to: u32, way: RouteChoice, route: &mut Vec<u32>) -> Seconds {
        if from == to {
            return Seconds::ZERO;
        }
        let joins = |tier: &LevelLinks| from / tier.within == to / tier.within;
        let top = self.tiers.iter().position(joins);
        let top = top.unwrap_or(self.tiers.len() - 1);
        let tier = &self.tiers[top];
        if tier.is_switched() {
            let latency = self.up(from, (0, top), way, route);
            self.down(to, (0, top), way, route);
            return latency;
        }
        let between = || self.between(0, top);
        route.extend(between().map(|tier| tier.port(from, way)));
        let latency = if tier.kind == LevelKind::Mesh {
            route.push(tier.pair(from, to));
            tier.latency
        } else {
            tier.walk(from, to, way, route);
            Seconds::ZERO
        };
        route.extend(between().map(|tier| tier.port(to, way) + 1).rev());
        latency
    }

    /// Appends the links from a device up to the switch of a level, from that of level `low` on; returns one
    /// step across the level.
    pub fn up(
        &self,
        from: u32,
        (low, level): (usize, usize),
        way: RouteChoice,
        route: &mut Vec<u32>,
    ) -> Seconds {
        let between = self.between(low, level);
        route.extend(between.map(|tier| tier.port(from, way)));
        let tier = &self.tiers[level];
        route.push(tier.port(from, way));
        tier.latency
    }

    /// As `up`, the other way round.
    pub fn down(
        &self,
        to: u32,
        (low, level): (usize, usize),
        way: RouteChoice,
        route: &mut Vec<u32>,
    ) -> Seconds {
        let tier = &self.tiers[level];
        route.push(tier.port(to, way) + 1);
        let between = self.between(low, level);
        route.extend(between.map(|tier| tier.port(to, way) + 1).rev());
        tier.latency
    }

    /// The switched levels from `low` to below `level`, those of a node where that lies inside it.
    fn between(&self, low: usize, level: usize) -> impl DoubleEndedIterator<Item = &LevelLinks> {
        let leaves = self.tiers.get(level).is_some_and(|tier| !tier.inside);
        let inner = self.tiers.get(low.max(1)..level).unwrap_or_default().iter();
        inner.filter(move |tier| tier.is_switched() && !(leaves && tier.inside))
    }
}

impl LevelLinks {
    fn is_switched(&self) -> bool {
        self.kind.is_switched()
    }

    /// Units of the level below inside one unit of this level.
    fn units(&self) -> u32 {
        self.within / self.below
    }

    fn check(&self, level: &Level) -> Result<()> {
        let places = self.dims.iter().map(|&d| u64::from(d)).product::<u64>();
        if self.kind.has_dims() && places != u64::from(self.units()) {
            let field = format!("levels.{}.dims", level.name);
            let allowed = format!("sizes whose product is {}", self.units());
            return Err(Error::invalid(field, format!("{:?}", self.dims), allowed));
        }
        Ok(())
    }

    /// Units of the level below that have links here.
    fn linked(&self, devices: u32) -> u64 {
        let whole = u64::from(devices.div_ceil(self.within)) * u64::from(self.units());
        match self.kind {
            LevelKind::Torus | LevelKind::WaferMesh | LevelKind::Mesh => whole,
            _ => u64::from(devices.div_ceil(self.below)),
        }
    }

    /// Links of this level.
    fn count(&self, devices: u32) -> u64 {
        let each = match self.kind {
            LevelKind::Torus | LevelKind::WaferMesh => 2 * self.dims.len() as u64,
            LevelKind::Mesh => u64::from(self.units()),
            _ => 2,
        };
        let shares = if self.is_divided() { 2 } else { 0 };
        let own = shares * u64::from(devices);
        self.linked(devices).saturating_mul(each) + own
    }

    /// Appends this level's links: `sustained rate per device * devices in the unit below`, of which few share all
    /// adapters.
    fn append_links(&self, level: &Level, devices: u32, links: &mut Vec<Link>) {
        let rate = level.sustained(self.below).value();
        for unit in (0..self.linked(devices)).map_while(|unit| u32::try_from(unit).ok()) {
            let inside = self.inside(unit, devices);
            let alone = Level::alone(level.adapters, inside, self.below);
            let whole = rate * alone * f64::from(inside);
            let (count, capacity, latency) = match self.kind {
                LevelKind::Torus | LevelKind::WaferMesh => {
                    (2 * self.dims.len(), whole, level.latency.value())
                }
                LevelKind::Mesh => {
                    let peers = f64::from(self.units() - 1).max(1.0);
                    (self.units() as usize, whole / peers, 0.0)
                }
                _ => (2, whole, 0.0),
            };
            links.extend(std::iter::repeat_n(Link { capacity, latency }, count));
        }
    }

    /// True where devices share the links of a unit.
    fn is_divided(&self) -> bool {
        self.is_switched() && self.below > 1
    }

    /// Appends the devices' shares of this level's links.
    fn divide(&mut self, level: &Level, devices: u32, links: &mut Vec<Link>) {
        self.shares = u32::try_from(links.len()).unwrap_or(u32::MAX);
        if self.is_divided() {
            let rate = level.sustained(self.below).value();
            for unit in 0..devices.div_ceil(self.below) {
                let inside = self.inside(unit, devices);
                let share = Link {
                    capacity: rate * Level::alone(level.adapters, inside, self.below),
                    latency: 0.0,
                };
                links.extend(std::iter::repeat_n(share, 2 * inside as usize));
            }
        }
    }

    /// Devices in a unit of the level below, of which the cluster's last one may have fewer.
    fn inside(&self, unit: u32, devices: u32) -> u32 {
        let before = unit.saturating_mul(self.below);
        devices.saturating_sub(before).clamp(1, self.below)
    }

    /// The uplink of the unit that holds `device`, or its own share; the downlink follows it.
    fn port(&self, device: u32, way: RouteChoice) -> u32 {
        if way == RouteChoice::OwnShare && self.is_divided() {
            self.shares + 2 * device
        } else {
            self.first + 2 * (device / self.below)
        }
    }

    /// The direct link between the units of two devices.
    fn pair(&self, from: u32, to: u32) -> u32 {
        self.first + from / self.below * self.units() + to / self.below % self.units()
    }

    /// Walks a torus one dimension after the other, the shorter way round. Of two equal ways even
    /// places take the upward one, odd places the other, so that neither direction gets more.
    fn walk(&self, from: u32, to: u32, way: RouteChoice, route: &mut Vec<u32>) {
        let even = u32::from(way == RouteChoice::Turned);
        let sides = 2 * u32::try_from(self.dims.len()).unwrap_or(0);
        let (mut here, goal) = (from / self.below, to / self.below);
        let mut stride = 1; // units between neighbours along the dimension
        for ((axis, side), &dim) in (0..).zip((0..).step_by(2)).zip(&self.dims) {
            let place = |unit: u32| unit / stride % dim;
            let ahead = (place(goal) + dim - place(here)) % dim;
            let upward = if self.wrap.closes(axis) && dim > 2 {
                2 * ahead < dim || 2 * ahead == dim && place(here) % 2 == even
            } else {
                place(goal) > place(here)
            };
            while place(here) != place(goal) {
                route.push(self.first + here * sides + side + u32::from(!upward));
                let next = (place(here) + if upward { 1 } else { dim - 1 }) % dim;
                here = here - place(here) * stride + next * stride;
            }
            stride *= dim;
        }
    }
}

//! Where can a device's bytes live, and what do they cross on the way?

use super::cluster::Cluster;
use super::path::Path;
use super::tier::{MemoryTier, TierKind};
use crate::error::{Error, Result};
use crate::units::Bytes;
use serde::Serialize;
use std::collections::BTreeMap;

/// What moves one byte at a time: the bus of a tier, or one direction of a path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lane {
    /// The tier's or path's name; of a path with its direction, as `host-link in`.
    pub name: String,
    /// True where it takes compute's own traffic too: the bus of a device's own tier.
    pub own: bool,
}

/// A lane that bytes of a tier cross, with the seconds of a byte for one of the devices that share it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Crossing {
    /// Index of the lane.
    pub lane: usize,
    /// Seconds a byte on its way to the device.
    pub read: f64,
    /// Seconds a byte on its way from the device.
    pub write: f64,
}

/// A tier and its lanes.
#[derive(Debug, Clone, Serialize)]
pub struct TierAccess {
    /// The tier.
    pub tier: MemoryTier,
    /// One device's part of it.
    pub capacity: Bytes,
    /// What its bytes cross, the device's side first.
    pub crosses: Vec<Crossing>,
}

impl TierAccess {
    /// Seconds a byte at the slowest lane, to the device and from it, each direction alone.
    pub fn seconds_per_byte(&self) -> [f64; 2] {
        self.crosses.iter().fold([0.0, 0.0], |[read, write], c| {
            [c.read.max(read), c.write.max(write)]
        })
    }
}

/// All memory that one device reaches, nearest first: its own tiers, its host's, the system's.
#[derive(Debug, Clone, Serialize)]
pub struct Memories {
    /// Everything that moves bytes.
    pub lanes: Vec<Lane>,
    /// Every tier.
    pub places: Vec<TierAccess>,
    /// How many of the places are the device's own; the last of these holds the working set.
    pub own: usize,
    /// The place that is the host's memory, where its processors can work on the data.
    pub host: Option<usize>,
}

/// The name of the host's memory as a tier, and of the link to it as a path.
pub const HOST_TIER: &str = "ddr";
/// See `HOST_TIER`.
pub const HOST_PATH: &str = "host-link";

impl Memories {
    /// What a device of the cluster reaches.
    ///
    /// Bytes of a tier behind another tier pass through that one: they are written there and read
    /// again (a bounce buffer), so they load its bus twice.
    pub fn new(cluster: &Cluster) -> Result<Self> {
        let system = &cluster.system;
        let node = cluster.devices.min(system.devices_per_node.max(1));
        let mut tiers: Vec<MemoryTier> = cluster.device.tiers.clone();
        let own = tiers.len();
        let mut paths: Vec<Path> = Vec::new();
        if let Some(host) = &system.host {
            let mut tier = host.tier.clone().unwrap_or_else(|| {
                MemoryTier::plain(HOST_TIER, TierKind::Ddr, host.memory, host.memory_bandwidth)
            });
            tier.capacity = host.memory;
            tier.bandwidth = host.memory_bandwidth;
            tier.efficiency = host.memory_efficiency;
            tier.shared_by = 0;
            tier.behind = Some(HOST_PATH.to_owned());
            tiers.push(tier);
            paths.push(Path {
                name: HOST_PATH.to_owned(),
                bandwidth: host.link_bandwidth,
                write_bandwidth: None,
                efficiency: host.link_efficiency,
                shared_by: 1,
                behind: host.behind.clone(),
            });
        }
        tiers.extend(system.tiers.iter().cloned());
        paths.extend(system.paths.iter().cloned());
        let host = system.host.as_ref().map(|_| own);
        Ok(Self {
            host,
            ..Self::of(&tiers, &paths, own, node)?
        })
    }

    /// The same for tiers and paths that are given; `node` devices stand for a `shared_by` of 0.
    pub fn of(tiers: &[MemoryTier], paths: &[Path], own: usize, node: u32) -> Result<Self> {
        let mut resolver = Resolver {
            tiers,
            paths,
            own,
            node,
            lanes: Vec::new(),
            known: BTreeMap::new(),
        };
        resolver.check()?;
        let mut places = Vec::with_capacity(tiers.len());
        for tier in tiers {
            let crosses = resolver.crossings(&tier.name)?;
            let units = f64::from(tier.units);
            places.push(TierAccess {
                capacity: tier.capacity * units / resolver.sharers(tier.shared_by),
                tier: tier.clone(),
                crosses,
            });
        }
        Ok(Self {
            lanes: resolver.lanes,
            places,
            own,
            host: None,
        })
    }

    /// Index of the tier that holds the working set.
    pub fn main(&self) -> usize {
        self.own - 1
    }

    /// The place with this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.places.iter().position(|p| p.tier.name == name)
    }
}

/// Follows `behind` from each tier to the device.
struct Resolver<'a> {
    tiers: &'a [MemoryTier],
    paths: &'a [Path],
    own: usize,
    node: u32,
    lanes: Vec<Lane>,
    known: BTreeMap<String, usize>,
}

impl Resolver<'_> {
    fn sharers(&self, shared_by: u32) -> f64 {
        // a job with fewer devices leaves the others' parts to them
        f64::from(if shared_by == 0 {
            self.node
        } else {
            shared_by.min(self.node)
        })
    }

    fn check(&self) -> Result<()> {
        let mut names: Vec<&str> = self.tiers.iter().map(|t| t.name.as_str()).collect();
        names.extend(self.paths.iter().map(|p| p.name.as_str()));
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            let allowed = "each name of a tier or path once";
            return Err(Error::invalid("tiers.name", twice[0], allowed));
        }
        for tier in self.tiers {
            tier.check(&format!("tiers.{}", tier.name))?;
        }
        for path in self.paths {
            path.check(&format!("paths.{}", path.name))?;
        }
        let tiers = self.tiers.iter().map(|t| ("tiers", &t.name));
        let paths = self.paths.iter().map(|p| ("paths", &p.name));
        tiers
            .chain(paths)
            .try_for_each(|(list, name)| self.ends(&format!("{list}.{name}.behind"), name))
    }

    /// Refuses what lies behind itself, or behind nothing that there is.
    fn ends(&self, field: &str, from: &str) -> Result<()> {
        let mut seen: Vec<&str> = Vec::new();
        let mut next = Some(from);
        while let Some(name) = next {
            if seen.contains(&name) {
                seen.push(name);
                let got = format!("a circle ({})", seen.join(" behind "));
                let allowed = "a chain that ends at the device";
                return Err(Error::invalid(field, got, allowed));
            }
            seen.push(name);
            next = self.behind(field, name)?;
        }
        Ok(())
    }

    /// What a tier or a path lies behind.
    fn behind(&self, field: &str, name: &str) -> Result<Option<&str>> {
        if let Some(tier) = self.tiers.iter().find(|t| t.name == name) {
            return Ok(tier.behind.as_deref());
        }
        if let Some(path) = self.paths.iter().find(|p| p.name == name) {
            return Ok(path.behind.as_deref());
        }
        let known = self.paths.iter().map(|p| p.name.as_str());
        let known = known.chain(self.tiers.iter().map(|t| t.name.as_str()));
        Err(Error::unknown(field, name, known))
    }

    fn lane(&mut self, name: String, own: bool) -> usize {
        if let Some(&index) = self.known.get(&name) {
            return index;
        }
        let index = self.lanes.len();
        self.known.insert(name.clone(), index);
        self.lanes.push(Lane { name, own });
        index
    }

    /// The lanes between a tier and the device, the device's side first.
    fn crossings(&mut self, tier: &str) -> Result<Vec<Crossing>> {
        let mut crosses: Vec<Crossing> = Vec::new();
        let mut next = Some(tier.to_owned());
        while let Some(name) = next {
            let passed = !crosses.is_empty();
            next = self.cross(&name, passed, &mut crosses)?;
        }
        crosses.reverse();
        Ok(crosses)
    }

    /// Adds the lanes of one tier or path and says what it lies behind.
    fn cross(
        &mut self,
        name: &str,
        passed: bool,
        crosses: &mut Vec<Crossing>,
    ) -> Result<Option<String>> {
        if let Some(at) = self.tiers.iter().position(|t| t.name == name) {
            let (tier, own) = (&self.tiers[at], at < self.own);
            let share = self.sharers(tier.shared_by) / f64::from(tier.units);
            let [read, write] = tier.rates().map(|rate| share / rate.value());
            let behind = tier.behind.clone();
            let lane = self.lane(name.to_owned(), own);
            // a bounce buffer is written and read whichever way the bytes go
            let [read, write] = if passed {
                [read + write; 2]
            } else {
                [read, write]
            };
            crosses.push(Crossing { lane, read, write });
            return Ok(behind);
        }
        let Some(path) = self.paths.iter().find(|p| p.name == name) else {
            let known = self.paths.iter().map(|p| p.name.as_str());
            let known = known.chain(self.tiers.iter().map(|t| t.name.as_str()));
            return Err(Error::unknown("tiers.behind", name, known));
        };
        let share = self.sharers(path.shared_by);
        let [read, write] = path.rates().map(|rate| share / rate.value());
        let behind = path.behind.clone();
        let (inward, outward) = (format!("{name} in"), format!("{name} out"));
        let lane = self.lane(outward, false);
        crosses.push(Crossing {
            lane,
            read: 0.0,
            write,
        });
        let lane = self.lane(inward, false);
        crosses.push(Crossing {
            lane,
            read,
            write: 0.0,
        });
        Ok(behind)
    }
}

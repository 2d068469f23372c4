//! How fast do bytes go between a device, its host's memory and its drives, and how much fits there?

use crate::error::amounts::not_negative;
use crate::error::{Error, Result};
use crate::hardware::{Memories, TierAccess, TierKind};
use serde::{Deserialize, Serialize};

/// Where bytes may live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// The memory of the device that holds its working set.
    Device,
    /// The host's memory.
    Host,
    /// Drives, or another store behind the host.
    Drive,
}

impl Tier {
    /// All of them, nearest first.
    pub const ALL: [Self; 3] = [Self::Device, Self::Host, Self::Drive];
}

/// Rates and sizes that offloading of one device works with; seconds a byte, each direction alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rates {
    /// Names of the tiers, nearest first.
    pub names: [String; 3],
    /// One device's part of each tier, bytes; 0 where there is none.
    pub capacity: [f64; 3],
    /// From the host's memory to the device.
    pub from_host: f64,
    /// From the device to the host's memory.
    pub to_host: f64,
    /// From the drives to the host's memory.
    pub from_drive: f64,
    /// From the host's memory to the drives.
    pub to_drive: f64,
    /// A byte that the host reads or writes in its own memory: what its updates are bound by.
    pub host_memory: f64,
}

impl Rates {
    /// What a device reaches, where `capacity` bytes of its own memory may be used.
    ///
    /// A copy goes at the pace of the slowest lane it crosses. Drives fill a buffer in host memory,
    /// from which the device is served (Rajbhandari et al. 2021, section 6.3), so their lanes are
    /// those up to that memory. Copies that cross one lane at the same time are not slowed by one
    /// another, but for the two halves of a bounce.
    pub fn of(memories: &Memories, capacity: f64) -> Result<Self> {
        let host = memories.places.get(memories.own).ok_or_else(no_host)?;
        let beyond = memories.places.get(memories.own + 1..).unwrap_or_default();
        let drive = beyond
            .iter()
            .find(|place| place.tier.kind == TierKind::Ssd)
            .or(beyond.first());
        let [from_host, to_host] = host.seconds_per_byte();
        let bus = host.crosses.last().map_or([0.0; 2], |c| [c.read, c.write]);
        let [from_drive, to_drive] = drive.map_or([0.0; 2], |place| drive_rates(place, host, bus));
        let own = &memories.places[memories.main()].tier.name;
        let name =
            |place: Option<&TierAccess>| place.map_or(String::new(), |p| p.tier.name.clone());
        let size = |place: Option<&TierAccess>| place.map_or(0.0, |p| p.capacity.value());
        Ok(Self {
            names: [own.clone(), name(Some(host)), name(drive)],
            capacity: [capacity, size(Some(host)), size(drive)],
            from_host,
            to_host,
            from_drive,
            to_drive,
            host_memory: bus[0].max(bus[1]),
        })
    }

    /// True where the tier exists.
    pub fn has(&self, tier: Tier) -> bool {
        self.capacity[tier as usize] > 0.0
    }

    pub(super) fn check(&self) -> Result<()> {
        for (name, rate) in [
            ("from_host", self.from_host),
            ("to_host", self.to_host),
            ("from_drive", self.from_drive),
            ("to_drive", self.to_drive),
            ("host_memory", self.host_memory),
        ] {
            not_negative(&format!("rates.{name}"), rate)?;
        }
        for size in self.capacity {
            not_negative("rates.capacity", size)?;
        }
        Ok(())
    }
}

fn no_host() -> Error {
    let allowed = "a table [host] in the system's file with memory, memory_bandwidth and \
                   link_bandwidth, where transfers go to";
    Error::invalid("system.host", "nothing", allowed)
}

/// Seconds a byte from a drive to the host's memory and back: lanes that the host's own copies cross
/// are left out, but for the host's memory, which is written (or read) once on this half of the way.
fn drive_rates(drive: &TierAccess, host: &TierAccess, [read, write]: [f64; 2]) -> [f64; 2] {
    let mut pace: [f64; 2] = [write, read];
    for crossing in &drive.crosses {
        if host.crosses.iter().all(|c| c.lane != crossing.lane) {
            pace[0] = pace[0].max(crossing.read);
            pace[1] = pace[1].max(crossing.write);
        }
    }
    pace
}

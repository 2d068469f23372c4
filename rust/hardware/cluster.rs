//! A cluster: so many devices of a system, with their fabric.

use super::device::Device;
use super::group::{Group, MAX_LEVELS};
use super::system::System;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// A number of devices of one system.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The system they belong to.
    pub system: System,
    /// The device that the system is built of.
    pub device: Device,
    /// How many devices the job gets, filled node by node.
    pub devices: u32,
}

impl Cluster {
    /// Reads a cluster from its JSON text and checks it.
    pub fn from_json(text: &str) -> Result<Self> {
        let cluster: Self = crate::error::from_json("cluster", text)?;
        cluster.check()?;
        Ok(cluster)
    }

    /// Refuses clusters that cannot be built.
    pub fn check(&self) -> Result<()> {
        self.system.check()?;
        self.device.check()?;
        if self.system.device != self.device.name {
            return Err(Error::inconsistent(format!(
                "system {}.device names '{}' but the device given is '{}'",
                self.system.name, self.system.device, self.device.name
            )));
        }
        let most = self.system.levels.last().and_then(|l| l.devices);
        if self.devices == 0 || most.is_some_and(|m| self.devices > m) {
            let allowed = most.map_or("1 or more".to_owned(), |m| {
                format!("1 to {m} (all levels of {})", self.system.name)
            });
            return Err(Error::invalid("cluster.devices", self.devices, allowed));
        }
        Ok(())
    }

    /// The group of `size` ranks that lie `stride` apart, at its worst place in the cluster.
    ///
    /// A stride that does not line up with a level's size spreads the group over more units, so it
    /// gets fewer members inside each: `gcd` keeps the part that always lines up.
    pub fn group(&self, stride: u32, size: u32) -> Group {
        let mut group = Group {
            size,
            ..Group::SINGLE
        };
        let mut left = size;
        let mut step = stride;
        let mut inside = 1_u32; // devices in one unit of the level below
        for (i, level) in self.system.levels.iter().enumerate().take(MAX_LEVELS) {
            let capacity = level
                .devices
                .unwrap_or(u32::MAX / 2)
                .min(self.devices.max(1));
            let width = if level.devices.is_none() || i + 1 == self.system.levels.len() {
                left
            } else if step >= capacity {
                1
            } else {
                gcd(left, capacity / gcd(step, capacity).min(capacity))
            };
            group.members[i] = width.max(1);
            // the groups that interleave inside one unit of the level below share its uplink
            let covered: u32 = group.members[..i].iter().product();
            group.siblings[i] = (inside.min(self.devices) / covered.max(1)).max(1);
            left /= width.max(1);
            step = step.saturating_mul(width.max(1));
            inside = level.devices.unwrap_or(inside);
        }
        group
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

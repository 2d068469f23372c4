//! A cluster: so many devices of a system, with their fabric.

use super::device::Device;
use super::group::{Group, MAX_DIMS, MAX_LEVELS};
use super::level::Level;
use super::library::Library;
use super::memories::Memories;
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
        let mut cluster: Self = crate::error::from_json("", text)?;
        cluster.check()?;
        cluster.cut();
        Ok(cluster)
    }

    /// Takes another number of devices.
    pub fn resize(&mut self, devices: u32) {
        self.devices = devices;
        self.cut();
    }

    /// Lays the job on the slice of a torus that it gets, where it gets one.
    fn cut(&mut self) {
        let mut below = 1;
        for level in &mut self.system.levels {
            level.cut(self.devices, below);
            below = level.devices.unwrap_or(below);
        }
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
            return Err(Error::invalid("devices", self.devices, allowed));
        }
        Memories::new(self).map(|_| ())
    }

    /// The cluster while nothing but groups of ranks `stride` apart is on its links, none where that
    /// changes nothing: ranks side by side have them to themselves, as in a benchmark, and those
    /// farther apart share them with groups like their own.
    pub fn undisturbed(&self, stride: u32) -> Option<Self> {
        let busy = |library: &Library| library.busy_share < 1.0;
        let shared = |level: &Level| level.library.as_ref().is_some_and(busy);
        if stride > 1 || !self.system.levels.iter().any(shared) {
            return None;
        }
        let mut alone = self.clone();
        for library in alone
            .system
            .levels
            .iter_mut()
            .filter_map(|level| level.library.as_mut())
        {
            library.busy_share = 1.0;
        }
        Some(alone)
    }

    /// Refuses a group of `ranks` that lie `stride` apart and do not all lie on the cluster.
    pub fn check_group(&self, stride: u32, ranks: u32) -> Result<()> {
        let devices = u64::from(self.devices);
        let apart = u64::from(stride);
        if stride > 0 && ranks > 0 && apart * u64::from(ranks - 1) < devices {
            return Ok(());
        }
        let allowed = format!("1 or more each, and stride * (ranks - 1) below {devices} devices");
        let got = format!("{stride}, {ranks}");
        Err(Error::invalid("stride, ranks", got, allowed))
    }

    /// The group of `size` ranks that lie `stride` apart, at its worst place in the cluster.
    ///
    /// At a level of `capacity` devices a unit holds `gcd(size, capacity / stride)` of the ranks
    /// wherever the group starts, if the stride divides the capacity; else one. So a group that does
    /// not line up with a node is spread over more nodes than its best place would need. All devices
    /// of the cluster are taken to lie in groups like this one. A size or stride of 0 counts as 1.
    pub fn group(&self, stride: u32, size: u32) -> Group {
        let mut group = Group {
            size: size.max(1),
            stride: stride.max(1),
            ..Group::SINGLE
        };
        let levels = &self.system.levels;
        let mut left = group.size;
        let mut step = stride.max(1);
        let mut below = 1; // devices in one unit of the level below
        for (i, level) in levels.iter().enumerate().take(MAX_LEVELS) {
            let capacity = level.devices.unwrap_or(u32::MAX).min(self.devices.max(1));
            let outermost = i + 1 == levels.len().min(MAX_LEVELS);
            let width = if outermost || capacity >= self.devices {
                left
            } else if capacity % step == 0 {
                gcd(left, capacity / step)
            } else {
                1
            };
            if left > 1 {
                group.siblings[i] = (below / group.covered(i)).max(1);
            }
            group.members[i] = width;
            if level.kind.has_dims() && width > 1 {
                (group.extents, group.spacing) =
                    on_torus(&level.dims, (step / below).max(1), width);
            }
            left /= width;
            step = step.saturating_mul(width);
            below = capacity;
        }
        group
    }
}

/// Members along each dimension, and the links between neighbours in the first used one.
///
/// Units are numbered along the first dimension first. In the last dimension that it uses a group may fill a part:
/// 768 of 16 x 16 x 16 are three planes. One that fills no box is laid out as one line whose neighbours lie as far
/// apart as its stride, at most a row.
fn on_torus(dims: &[u32], stride: u32, members: u32) -> ([u32; MAX_DIMS], u32) {
    let mut extents = [1; MAX_DIMS];
    let (mut step, mut left, mut spacing) = (stride, members, 1);
    for (extent, &dim) in extents.iter_mut().zip(dims) {
        if step % dim == 0 {
            step /= dim;
        } else if dim % step == 0 {
            *extent = if left <= dim / step {
                left
            } else {
                gcd(left, dim / step)
            };
            if left == members && *extent > 1 {
                spacing = step;
            }
            left /= *extent;
            if left > 1 && *extent * step < dim {
                break; // the next rank is in this row still, but not at a whole number of rows
            }
            step = 1;
        } else {
            break;
        }
        if left == 1 {
            break;
        }
    }
    if left == 1 {
        (extents, spacing)
    } else {
        let row = dims.first().copied().unwrap_or(1);
        let mut line = [1; MAX_DIMS];
        line[0] = members;
        (line, stride.clamp(1, row.max(1)))
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

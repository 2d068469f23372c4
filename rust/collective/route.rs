//! At which rate, and with which start-up and step times, does a group move bytes at each level?

use super::form::Protocol;
use crate::hardware::{Cluster, Group, Level, LevelKind, Library, Line, MAX_LEVELS};
use crate::units::Seconds;

/// A group on its fabric under one protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route<'a> {
    pub(super) group: &'a Group,
    levels: &'a [Level],
    pub(super) protocol: Protocol,
}

impl<'a> Route<'a> {
    pub(super) fn new(group: &'a Group, cluster: &'a Cluster, protocol: Protocol) -> Self {
        let count = cluster.system.levels.len().min(MAX_LEVELS);
        let levels = &cluster.system.levels[..count];
        Self {
            group,
            levels,
            protocol,
        }
    }

    pub(super) fn level(&self, i: usize) -> &'a Level {
        &self.levels[i]
    }

    /// Ranks as a number for formulas.
    pub(super) fn ranks(&self) -> f64 {
        f64::from(self.group.size)
    }

    pub(super) fn members(&self, i: usize) -> f64 {
        f64::from(self.group.members[i])
    }

    /// Units of the level below `i` that the whole group covers.
    pub(super) fn units(&self, i: usize) -> u32 {
        self.group.size / self.group.covered(i)
    }

    /// The torus level among those the group crosses.
    pub(super) fn torus(&self) -> Option<usize> {
        self.path()
            .find(|&i| self.level(i).kind == LevelKind::Torus && self.group.members[i] > 1)
    }

    /// The innermost level on which the group has neighbours.
    pub(super) fn innermost(&self) -> usize {
        (0..self.levels.len())
            .find(|&i| self.group.members[i] > 1)
            .unwrap_or(0)
    }

    /// The outermost level that the group crosses.
    pub(super) fn outermost(&self) -> usize {
        self.group.outermost().min(self.levels.len() - 1)
    }

    /// The levels whose links the group's traffic takes: level 0 where the group has neighbours
    /// there, and each network level up to the outermost, since outer traffic passes the inner ones.
    pub(super) fn path(&self) -> impl Iterator<Item = usize> {
        let first = usize::from(self.group.members[0] <= 1);
        first..=self.outermost()
    }

    fn library(&self, i: usize) -> Library {
        let level = self.level(i);
        level
            .library
            .unwrap_or_else(|| Library::of_kind(level.kind))
    }

    fn line(&self, i: usize) -> Line {
        let library = self.library(i);
        match self.protocol {
            Protocol::LowLatency => library.low_latency,
            Protocol::LowLatency128 => library.low_latency_128,
            Protocol::Simple => library.simple,
        }
    }

    /// Start-up of a collective: that of the outermost level.
    pub(super) fn base(&self) -> Seconds {
        self.line(self.outermost()).base
    }

    /// One step across level `i`.
    pub(super) fn step(&self, i: usize) -> Seconds {
        self.level(i).latency * self.line(i).step
    }

    /// Issuing one message to one peer across level `i`.
    pub(super) fn issue(&self, i: usize) -> Seconds {
        self.level(i).latency * self.library(i).issue
    }

    /// Rate of one device into level `i` in an all-to-all, in bytes/s.
    pub(super) fn pairwise_rate(&self, i: usize) -> f64 {
        self.device_rate(i) * self.library(i).pairwise_share
    }

    /// The line of the switches' own reduction at level `i`.
    pub(super) fn in_network(&self, i: usize) -> Line {
        self.library(i).in_network
    }

    /// Passing one's own part through memory, in steps of the innermost ring.
    pub(super) fn own_part(&self) -> f64 {
        self.library(self.innermost()).own_part
    }

    /// Sustained rate per device and direction into level `i`, whatever the protocol, in bytes/s.
    ///
    /// `bandwidth * efficiency / oversubscription`. In a mesh a device reaches only the links to
    /// those of its `devices - 1` peers that are in the group.
    pub(super) fn sustained(&self, i: usize) -> f64 {
        let level = self.level(i);
        let rate = level.bandwidth.value() * level.efficiency / level.oversubscription;
        match (level.kind, level.devices) {
            (LevelKind::Mesh, Some(devices)) if devices > 1 => {
                let units = f64::from(devices) / f64::from(self.units_of(i));
                rate * ((self.members(i) - 1.0).max(1.0) / (units - 1.0).max(1.0)).min(1.0)
            }
            _ => rate,
        }
    }

    /// Devices in one unit of the level below `i`.
    fn units_of(&self, i: usize) -> u32 {
        i.checked_sub(1)
            .and_then(|below| self.levels[below].devices)
            .unwrap_or(1)
            .max(1)
    }

    /// Rate per device and direction under this protocol, in bytes/s.
    pub(super) fn device_rate(&self, i: usize) -> f64 {
        self.sustained(i) * self.line(i).share
    }

    /// Rate at which the group leaves one unit of the level below `i`: each of its devices there
    /// brings its own share of the uplink, the siblings have the rest.
    pub(super) fn unit_rate(&self, i: usize) -> f64 {
        self.device_rate(i) * f64::from(self.group.covered(i)) * self.library(i).busy_share
    }
}

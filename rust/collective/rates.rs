//! Which rates has one device at a level, given the level's bandwidth?

use crate::hardware::{Level, Library};
use crate::units::BytesPerSecond;

/// Rates of one device at one level under one protocol, in bytes/s.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rates {
    /// Whatever the protocol.
    pub(super) sustained: f64,
    /// Under the protocol.
    pub(super) device: f64,
    /// Of the group's devices in one unit of the level below, under the protocol.
    pub(super) unit: f64,
    /// Of a ring across the level; no bound where it sends nothing there.
    pub(super) ring: f64,
}

/// What turns a level's bandwidth into those rates: all that is the same at every bandwidth, under any protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale<'a> {
    pub(super) level: &'a Level,
    pub(super) library: &'a Library,
    /// Devices in one unit of the level below.
    pub(super) below: u32,
    /// Share of a device's links that lead to members of the group.
    pub(super) reached: f64,
    /// What the channels drive, in bytes/s; no bound where there are enough.
    pub(super) channels: f64,
    /// Share of the links that serves traffic to one partner.
    pub(super) one_partner: f64,
    /// Devices of the group inside one unit of the level below.
    pub(super) covered: f64,
    pub(super) ring: LevelCrossing,
}

/// How a ring crosses a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LevelCrossing {
    /// Groups and units line up.
    InLine,
    /// So many rings cross the busiest unit's links, per device of the unit.
    Shared(f64),
    /// The ring sends nothing there.
    Never,
}

impl Scale<'_> {
    /// The rates at `bandwidth` per device and direction, under a protocol with a `share` of it.
    ///
    /// `sustained = B * efficiency / oversubscription * reached`, `device = min(sustained, channels) * share *
    /// one_partner`, `unit = device * covered * busy_share`. A ring has the rate of a unit where groups and
    /// units line up, else `device * busy_share / rings`.
    #[inline]
    pub(super) fn rates(&self, bandwidth: BytesPerSecond, share: f64) -> Rates {
        let links = self.level.sustained_of(bandwidth, self.below).value();
        let sustained = links * self.reached;
        let device = sustained.min(self.channels) * share * self.one_partner;
        let busy_share = self.library.busy_share;
        let unit = device * self.covered * busy_share;
        let ring = match self.ring {
            LevelCrossing::InLine => unit,
            LevelCrossing::Shared(rings) => device * busy_share / rings,
            LevelCrossing::Never => f64::INFINITY,
        };
        Rates {
            sustained,
            device,
            unit,
            ring,
        }
    }
}

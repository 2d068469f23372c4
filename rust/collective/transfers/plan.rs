//! Where do the ranks of all groups lie, and how does a message between two of them become a transfer?

use crate::error::{Error, Result};
use crate::hardware::{Cluster, Group, Topology};
use crate::solve::{Flows, Transfer};

/// Ranks of a group: how many, and how far apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// Devices from one rank to the next.
    pub stride: u32,
    /// How many.
    pub size: u32,
}

/// Transfers in the making.
pub(super) struct Plan<'a> {
    pub(super) cluster: &'a Cluster,
    /// Where the groups lie, by the closed forms' reckoning.
    pub(super) group: Group,
    pub(super) flows: Flows,
    ranks: Ranks,
    topology: Topology,
    route: Vec<u32>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(cluster: &'a Cluster, ranks: Ranks) -> Result<Self> {
        let Ranks { stride, size } = ranks;
        let block = u64::from(stride) * u64::from(size);
        if block == 0 || block > u64::from(cluster.devices) {
            let got = format!("{stride}, {size}");
            let allowed = format!(
                "1 or more each, and stride * size up to {} devices",
                cluster.devices
            );
            return Err(Error::invalid("stride, size", got, allowed));
        }
        let topology = Topology::new(cluster)?;
        Ok(Self {
            cluster,
            group: cluster.group(stride, size),
            flows: Flows::new(topology.links().to_vec())?,
            ranks,
            topology,
            route: Vec::new(),
        })
    }

    /// Groups like this one in the cluster: whole blocks of `stride * size` devices hold `stride` each.
    pub(super) fn groups(&self) -> u32 {
        let Ranks { stride, size } = self.ranks;
        self.cluster.devices / (stride * size) * stride
    }

    pub(super) fn size(&self) -> u32 {
        self.ranks.size
    }

    /// The device of a group's rank.
    pub(super) fn device(&self, group: u32, rank: u32) -> u32 {
        let Ranks { stride, size } = self.ranks;
        group / stride * stride * size + group % stride + rank * stride
    }

    /// Adds a message between two devices.
    pub(super) fn send(&mut self, ends: (u32, u32), message: Transfer) -> Result<u32> {
        self.route.clear();
        let latency = self.topology.route(ends.0, ends.1, &mut self.route);
        self.flows.push(&Transfer {
            latency: latency.value(),
            route: &self.route,
            ..message
        })
    }

    /// Adds the point at which all of `after` have arrived.
    pub(super) fn meet(&mut self, after: &[u32]) -> Result<u32> {
        self.flows.push(&Transfer {
            after,
            ..Transfer::default()
        })
    }
}

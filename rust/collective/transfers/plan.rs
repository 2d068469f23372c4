//! Where do the ranks of all groups lie, and how does a message between two of them become a transfer?

use super::mirrors::Mirrors;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::hardware::{Cluster, Group, RouteChoice, Topology};
use crate::solve::{Flows, Link, Transfer};

/// Ranks of a group: how many, and how far apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// Devices from one rank to the next.
    pub stride: u32,
    /// How many.
    pub size: u32,
}

/// Transfers between two looks at whether to go on.
const MANY: usize = 4096;

/// Transfers to which more are added until the caller stops the work.
pub(super) struct CancellableFlows<'a> {
    held: Flows,
    control: &'a Control,
}

impl<'a> CancellableFlows<'a> {
    fn new(links: Vec<Link>, control: &'a Control) -> Result<Self> {
        let held = Flows::new(links)?;
        Ok(Self { held, control })
    }

    /// The same with other links, as long as there are no transfers.
    pub(super) fn with_links(&self, links: Vec<Link>) -> Result<Self> {
        Self::new(links, self.control)
    }

    /// Adds a transfer and returns its index.
    pub(super) fn push(&mut self, transfer: &Transfer) -> Result<u32> {
        if self.held.len().is_multiple_of(MANY) && self.control.is_cancelled() {
            let what = format!("{} transfers were laid out", self.held.len());
            return Err(Error::Cancelled { what });
        }
        self.held.push(transfer)
    }

    /// The transfers, the first of which start after `delay` seconds.
    pub(super) fn after(self, delay: f64) -> Result<Flows> {
        let mut held = self.held;
        if delay > 0.0 {
            held.delay(delay)?;
        }
        Ok(held)
    }
}

/// Transfers in the making.
pub(super) struct TransferPlan<'a> {
    pub(super) cluster: &'a Cluster,
    /// Where the groups lie, by the closed forms' reckoning.
    pub(super) group: Group,
    pub(super) flows: CancellableFlows<'a>,
    pub(super) mirrors: Mirrors,
    ranks: Ranks,
    topology: Topology,
    route: Vec<u32>,
    /// Index of the first of the hosts' links, where they are laid out: each device's two, then each memory.
    hosts: u32,
    /// When the last of the steps that all groups take together has ended.
    step: Option<u32>,
}

impl<'a> TransferPlan<'a> {
    pub(super) fn new(cluster: &'a Cluster, ranks: Ranks, control: &'a Control) -> Result<Self> {
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
            flows: CancellableFlows::new(topology.links().to_vec(), control)?,
            mirrors: Mirrors::new(cluster),
            ranks,
            topology,
            route: Vec::new(),
            hosts: 0,
            step: None,
        })
    }

    /// Adds the links of the hosts: of each device to its node's memory and back, at the host's rate but at most at
    /// `reach`, and that memory, through which each byte passes twice (written and read).
    pub(super) fn with_hosts(mut self, reach: f64) -> Result<Self> {
        let Some(host) = &self.cluster.system.host else {
            let got = format!("none in {}", self.cluster.system.name);
            return Err(Error::invalid("system.host", got, "a host"));
        };
        let nodes = self.cluster.devices.div_ceil(self.in_a_node());
        let link = |capacity| Link {
            capacity,
            latency: 0.0,
        };
        let mut links = self.topology.links().to_vec();
        self.hosts = u32::try_from(links.len()).unwrap_or(u32::MAX);
        let ports = 2 * self.cluster.devices as usize;
        links.extend(std::iter::repeat_n(
            link(host.link_bandwidth.value().min(reach)),
            ports,
        ));
        let memory = link(host.memory_bandwidth.value() / 2.0);
        links.extend(std::iter::repeat_n(memory, nodes as usize));
        self.flows = self.flows.with_links(links)?;
        Ok(self)
    }

    fn in_a_node(&self) -> u32 {
        self.cluster.system.devices_per_node.max(1)
    }

    /// True where one unit of the innermost level holds both devices.
    fn share_innermost(&self, from: u32, to: u32) -> bool {
        let innermost = self.cluster.system.levels.first();
        let unit = innermost
            .and_then(|level| level.devices)
            .unwrap_or(u32::MAX);
        from / unit.max(1) == to / unit.max(1)
    }

    /// Adds a message that leaves through the memory of its node's host, and comes through that of the other.
    pub(super) fn send_staged(&mut self, (from, to): (u32, u32), message: Transfer) -> Result<u32> {
        self.mirrors.pass((from, to));
        let copies = [from, to].map(|device| self.memory(device));
        self.route.clear();
        let step = self
            .topology
            .route(from, to, RouteChoice::AllLinks, &mut self.route);
        if copies[0] == copies[1] {
            // a board's own link is that of its host; between sockets there is one more
            if self.share_innermost(from, to) {
                self.route.clear();
            }
            self.route.push(copies[0]);
        } else {
            self.route.extend(copies);
        }
        self.route
            .extend([self.hosts + 2 * from, self.hosts + 2 * to + 1]);
        self.flows.push(&Transfer {
            latency: 2.0 * step.value(),
            route: &self.route,
            ..message
        })
    }

    /// Adds a copy from a device into its host's memory, from where the processor reads it for a sum.
    pub(super) fn copy_up(
        &mut self,
        from: u32,
        size: f64,
        (after, behind): (Option<[u32; 2]>, Option<u32>),
    ) -> Result<u32> {
        self.flows.push(&Transfer {
            size,
            after: after.as_ref().map_or(&[], |both| both),
            behind,
            route: &[self.hosts + 2 * from, self.memory(from)],
            ..Transfer::default()
        })
    }

    /// Adds a copy from a host's memory to a device, in halves; `behind` holds the last ones, and so does the
    /// result. It reads the memory but does not write it.
    pub(super) fn copy_down(
        &mut self,
        to: u32,
        size: f64,
        (after, behind): (&[u32], Option<[u32; 2]>),
    ) -> Result<[u32; 2]> {
        let [memory, port] = [self.memory(to), self.hosts + 2 * to + 1];
        // a read is half of what the memory's link stands for: half of the bytes take that link
        let mut half = |route: &[u32], behind| {
            self.flows.push(&Transfer {
                size: size / 2.0,
                after,
                behind,
                route,
                ..Transfer::default()
            })
        };
        let read = half(&[memory, port], behind.map(|both| both[0]))?;
        let copied = half(&[port], behind.map(|both| both[1]))?;
        Ok([read, copied])
    }

    /// The link that stands for the memory of a device's host.
    fn memory(&self, device: u32) -> u32 {
        self.hosts + 2 * self.cluster.devices + device / self.in_a_node()
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

    /// Adds a message between two devices over all links of their units.
    pub(super) fn send(&mut self, ends: (u32, u32), message: Transfer) -> Result<u32> {
        self.send_by(RouteChoice::AllLinks, ends, message)
    }

    /// Adds a message between two devices.
    pub(super) fn send_by(
        &mut self,
        way: RouteChoice,
        (from, to): (u32, u32),
        message: Transfer,
    ) -> Result<u32> {
        self.mirrors.pass((from, to));
        self.route.clear();
        let latency = self.topology.route(from, to, way, &mut self.route);
        self.flows.push(&Transfer {
            latency: latency.value(),
            route: &self.route,
            ..message
        })
    }

    /// As `send_by` over own shares, but the latency passes before the sender's links are taken: one message
    /// after another costs its latency and its bytes (Hockney 1994).
    pub(super) fn send_after_step(&mut self, ends: (u32, u32), message: Transfer) -> Result<u32> {
        self.mirrors.pass(ends);
        self.route.clear();
        let step = self
            .topology
            .route(ends.0, ends.1, RouteChoice::OwnShare, &mut self.route);
        self.flows.push(&Transfer {
            start_up: message.start_up + step.value(),
            route: &self.route,
            ..message
        })
    }

    /// Adds a message from a device to the switch of a level (from that of a lower one on), over its own share;
    /// it has no latency but the message's own.
    pub(super) fn climb(
        &mut self,
        from: u32,
        levels: (usize, usize),
        message: Transfer,
    ) -> Result<u32> {
        self.route.clear();
        self.topology
            .up(from, levels, RouteChoice::OwnShare, &mut self.route);
        self.flows.push(&Transfer {
            route: &self.route,
            ..message
        })
    }

    /// As `climb`, from the switch to the device.
    pub(super) fn descend(
        &mut self,
        to: u32,
        levels: (usize, usize),
        message: Transfer,
    ) -> Result<u32> {
        self.route.clear();
        self.topology
            .down(to, levels, RouteChoice::OwnShare, &mut self.route);
        self.flows.push(&Transfer {
            route: &self.route,
            ..message
        })
    }

    /// One step across a level, in seconds.
    pub(super) fn latency(&self, level: usize) -> f64 {
        self.cluster.system.levels[level].latency.value()
    }

    /// True where the group lies inside one torus or mesh of lines.
    pub(super) fn on_torus(&self) -> bool {
        let levels = self.cluster.system.levels.iter().zip(self.group.members);
        levels
            .filter(|(level, _)| level.kind.has_dims())
            .any(|(_, members)| members > 1 && members == self.group.size)
    }

    /// Adds one round of all groups: `to` says by rank who gets how many bytes. It starts when the round
    /// before has ended everywhere.
    pub(super) fn round(&mut self, to: impl Fn(u32) -> Option<(u32, f64)>) -> Result<()> {
        let mut sent = Vec::new();
        for group in 0..self.groups() {
            for from in 0..self.size() {
                let Some((to, size)) = to(from) else { continue };
                let ends = (self.device(group, from), self.device(group, to));
                let after = self.step;
                let message = Transfer {
                    size,
                    after: after.as_slice(),
                    ..Transfer::default()
                };
                sent.push(self.send_by(RouteChoice::OwnShare, ends, message)?);
            }
        }
        self.end_step(&sent)
    }

    /// Makes all that follows wait for `sent`.
    pub(super) fn end_step(&mut self, sent: &[u32]) -> Result<()> {
        if !sent.is_empty() {
            self.step = Some(self.meet(sent)?);
        }
        Ok(())
    }

    /// What the ranks of a group wait for after the steps of all groups; empty before the first.
    pub(super) fn ready(&self) -> Vec<u32> {
        self.step
            .map_or_else(Vec::new, |step| vec![step; self.size() as usize])
    }

    /// Adds the point at which all of `after` have arrived.
    pub(super) fn meet(&mut self, after: &[u32]) -> Result<u32> {
        self.flows.push(&Transfer {
            after,
            ..Transfer::default()
        })
    }
}

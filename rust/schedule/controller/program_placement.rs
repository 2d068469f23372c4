//! Which hosts, islands and devices does each computation of a step need?

use super::graph::{Graph, Node};
use super::programs;
use super::setting::{DispatchSetting, Program};
use crate::error::Result;
use std::ops::Range;

/// Where a step's nodes run.
#[derive(Debug, Clone)]
pub(super) struct ProgramPlacement<'a> {
    pub(super) setting: &'a DispatchSetting,
    pub(super) graph: Graph,
}

impl<'a> ProgramPlacement<'a> {
    /// Lays the setting's program out.
    pub(super) fn new(setting: &'a DispatchSetting) -> Result<Self> {
        setting.check()?;
        let graph = match &setting.program {
            Program::Chain(chain) => programs::of_chain(setting, chain),
            Program::Pipeline(stages) => programs::of_stages(setting, stages)?,
        };
        Ok(Self { setting, graph })
    }

    /// Hosts of a group of devices.
    pub(super) fn hosts(&self, group: u32) -> Range<u32> {
        hosts(self.setting, self.graph.groups, group)
    }

    /// Islands of a group of devices.
    pub(super) fn islands(&self, group: u32) -> Range<u32> {
        let hosts = self.hosts(group);
        let each = self.setting.hosts / self.setting.islands;
        hosts.start / each..(hosts.end - 1) / each + 1
    }

    /// Launched nodes in the order of dispatch.
    pub(super) fn launched(&self) -> impl Iterator<Item = (usize, &Node)> {
        let nodes = self.graph.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.launched)
    }

    /// Seconds of the controller's CPU to tell some islands and all hosts of a group.
    pub(super) fn notify_group_time(&self, group: u32, islands: f64) -> f64 {
        let hosts = self.hosts(group).len() as f64;
        islands * self.setting.costs.message.value() + hosts * self.notify_host_time()
    }

    /// Seconds of the controller's CPU to tell one host of a group.
    pub(super) fn notify_host_time(&self) -> f64 {
        let costs = &self.setting.costs;
        costs.message.value() + self.devices_per_host() * costs.handle.value()
    }

    /// Devices of a group on each of its hosts.
    pub(super) fn devices_per_host(&self) -> f64 {
        let all = f64::from(self.setting.hosts) * f64::from(self.setting.devices_per_host);
        let group = all / f64::from(self.graph.groups);
        group / self.hosts(0).len() as f64
    }

    /// Seconds of the slowest input pipeline of the hosts that read a step's input.
    pub(super) fn input(&self) -> f64 {
        let slowest = self.hosts(0).map(|host| self.input_of(host));
        slowest.fold(0.0, f64::max)
    }

    /// Seconds of a host's input pipeline for a step.
    pub(super) fn input_of(&self, host: u32) -> f64 {
        let input = &self.setting.input;
        let place = if input.len() == 1 { 0 } else { host as usize };
        input.get(place).map_or(0.0, |seconds| seconds.value())
    }
}

fn hosts(setting: &DispatchSetting, groups: u32, group: u32) -> Range<u32> {
    if groups <= setting.hosts {
        let each = setting.hosts / groups;
        group * each..(group + 1) * each
    } else {
        let host = group / (groups / setting.hosts);
        host..host + 1
    }
}

/// Seconds from one group to the next one that gets its output.
pub(super) fn hop(setting: &DispatchSetting, groups: u32, from: u32, to: u32) -> f64 {
    if from == to {
        return 0.0;
    }
    let each = setting.hosts / setting.islands;
    let last = |group| (hosts(setting, groups, group).end - 1) / each;
    let first = |group| hosts(setting, groups, group).start / each;
    let same = first(from) == first(to) && last(from) == last(to);
    let transfers = &setting.transfers;
    let seconds = if same {
        transfers.within
    } else {
        transfers.between
    };
    seconds.value()
}

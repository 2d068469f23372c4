//! Which transfers run between the transceivers of a single-hop optical network?

use super::plan::TransferPlan;
use crate::collective::Collective;
use crate::collective::ramp::Layout;
use crate::error::{Error, Result};
use crate::hardware::SingleHop;
use crate::solve::{Link, Transfer};

/// Keeps the network's links within a few hundred megabytes.
const MOST_LINKS: u64 = 1 << 24;

/// The stages of RAMP, each among the ranks that lie alike but for one coordinate and the communication group,
/// which moves along with it: so every pair of groups has a partner of each node, and no two messages meet.
/// `k` partners ahead, rack `j` lends the block `j + k` of its transceivers, or `between_racks`. Ottino, Benjamin and Zervas 2022.
pub(super) fn add(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<()> {
    use Collective::{AllReduce, AllToAll, Barrier, Broadcast, Gather, Reduce, ReduceScatter};
    let Some(network) = plan.cluster.system.levels[plan.group.outermost()].single_hop else {
        return Ok(()); // refused before
    };
    let bytes = if collective == Barrier { 0.0 } else { bytes };
    let mut stages = Stages::new(plan, network, group)?;
    let adds = matches!(collective, AllReduce | Reduce | ReduceScatter);
    let first = match collective {
        Collective::Scatter | Broadcast => Some(Senders::FromRoot),
        AllReduce | Reduce | ReduceScatter | AllToAll | Barrier => Some(Senders::All),
        _ => None,
    };
    let second = match collective {
        AllReduce | Broadcast | Barrier | Collective::AllGather => Some(Senders::All),
        Gather | Reduce => Some(Senders::ToRoot),
        _ => None,
    };
    let mut parts = vec![bytes];
    for members in stages.members {
        let held = if collective == AllToAll {
            bytes
        } else {
            parts.last().copied().unwrap_or(bytes)
        };
        parts.push(held / f64::from(members));
    }
    if let Some(who) = first {
        for stage in 0..stages.members.len() {
            stages.run(plan, (stage, who), parts[stage + 1], adds)?;
        }
    }
    if let Some(who) = second {
        for stage in (0..stages.members.len()).rev() {
            stages.run(plan, (stage, who), parts[stage + 1], false)?;
        }
    }
    Ok(())
}

/// Lays out the transceivers that send, those that receive, and between them what carries one wavelength from
/// one communication group to another: `R / x` bytes/s each, `R` bytes/s of a node with `x` transceivers.
pub(super) fn links(plan: &TransferPlan, network: &SingleHop) -> Result<Vec<Link>> {
    let cluster = plan.cluster;
    let shape = Shape::new(plan, network);
    let [ports, subnets] = shape.counts();
    let count = 2 * ports + subnets;
    if count > MOST_LINKS {
        let allowed = format!("at most {MOST_LINKS} transceivers and wavelengths of a subnet");
        return Err(Error::invalid("devices", cluster.devices, allowed));
    }
    let level = plan.group.outermost();
    let below = (level.checked_sub(1)).and_then(|i| cluster.system.levels[i].devices);
    let rate = cluster.system.levels[level].sustained(below.unwrap_or(1).max(1));
    let link = Link {
        capacity: rate.value() / f64::from(network.transceivers),
        latency: 0.0,
    };
    Ok((0..count).map(|_| link).collect())
}

/// The part of the network that a cluster fills.
struct Shape {
    devices: u32,
    transceivers: u32,
    groups: u32,
    nodes: u32,
}

impl Shape {
    fn new(plan: &TransferPlan, network: &SingleHop) -> Self {
        let devices = plan.cluster.devices;
        let groups = devices.min(network.transceivers);
        Self {
            devices,
            transceivers: network.transceivers,
            groups,
            nodes: devices.div_ceil(groups).min(network.nodes),
        }
    }

    /// Transceivers one way, and wavelengths of all subnets.
    fn counts(&self) -> [u64; 2] {
        let [devices, ports, groups, nodes] =
            [self.devices, self.transceivers, self.groups, self.nodes].map(u64::from);
        let pairs = (groups * groups).saturating_mul(ports);
        [devices * ports, pairs.saturating_mul(nodes)]
    }

    /// The links from one device to another by one transceiver: it, the receiver's wavelength in the subnet of
    /// both groups, and the transceiver at the other end.
    fn route(&self, (from, to): (u32, u32), port: u32) -> [u32; 3] {
        let ports = self.devices * self.transceivers;
        let [source, target] = [from, to].map(|device| device % self.groups);
        let wavelength = to / self.groups % self.nodes;
        let subnet = (source * self.groups + target) * self.transceivers + port;
        [
            from * self.transceivers + port,
            2 * ports + subnet * self.nodes + wavelength,
            ports + to * self.transceivers + port,
        ]
    }
}

/// The stage whose partners lie in unlike racks.
const RACKS: usize = 2;

/// The block by which rack `rack` of `racks` sends to the one `ahead` of it: unlike for all partners of a
/// sender, for all partners of a receiver, and wherever both communication groups are the same.
///
/// Groups move along with racks, `x` of them for `x` transceivers. Where differences of racks are unlike
/// modulo `x`, or `x` is `racks`, `rack + 2 ahead` is such a block, its farther half moved on by one if
/// racks are even in number. Else each transceiver is a block, and `from + to` is one modulo `x`, its
/// upper half moved on by one if `x` is even.
fn between_racks(rack: u32, ahead: u32, racks: u32, transceivers: u32) -> u32 {
    if racks < transceivers && transceivers + 1 < 2 * racks {
        let to = (rack + ahead) % racks;
        let upper = transceivers.is_multiple_of(2) && rack >= transceivers / 2;
        return (rack + to + u32::from(upper)) % transceivers;
    }
    let farther = racks.is_multiple_of(2) && ahead >= racks / 2;
    (rack + 2 * ahead + u32::from(farther)) % racks
}

/// Who sends in a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Senders {
    /// All to all partners.
    All,
    /// Those whom the stages before have reached from the root, to the others.
    FromRoot,
    /// The others to those.
    ToRoot,
}

/// The stages of one group under way.
struct Stages {
    network: SingleHop,
    shape: Shape,
    layout: Layout,
    members: [u32; 4],
    group: u32,
    /// What each rank waits for.
    ready: Vec<Option<u32>>,
    latency: f64,
}

impl Stages {
    /// Refuses groups in which some stage would lack members.
    fn new(plan: &TransferPlan, network: SingleHop, group: u32) -> Result<Self> {
        let layout = Layout::new(&network, plan.size());
        let members = layout.stages();
        let all = members.iter().map(|&d| u64::from(d)).product::<u64>();
        if all != u64::from(plan.size()) {
            let got = plan.size();
            let allowed = format!(
                "all of {} communication groups times {} nodes times {} racks: {all} ranks",
                members[0],
                members[1] * members[3],
                members[2]
            );
            return Err(Error::invalid("ranks", got, allowed));
        }
        Ok(Self {
            network,
            shape: Shape::new(plan, &network),
            layout,
            members,
            group,
            ready: vec![None; plan.size() as usize],
            latency: plan.latency(plan.group.outermost()),
        })
    }

    /// A rank's place in each stage: its group, node among its near ones, rack, and place of these.
    fn place(&self, rank: u32) -> [u32; 4] {
        let Layout { groups, nodes, .. } = self.layout;
        let node = rank / groups % nodes;
        let near = self.members[1];
        [
            rank % groups,
            node % near,
            rank / (groups * nodes),
            node / near,
        ]
    }

    /// The partner `ahead` places on in a stage.
    fn partner(&self, rank: u32, stage: usize, ahead: u32) -> u32 {
        let Layout { groups, nodes, .. } = self.layout;
        let mut place = self.place(rank);
        let before = place[stage];
        place[stage] = (before + ahead) % self.members[stage];
        if stage > 0 {
            place[0] = (place[0] + groups + place[stage] - before) % groups;
        }
        let node = place[1] + place[3] * self.members[1];
        place[0] + groups * (node + nodes * place[2])
    }

    /// Ranks that the stages before `stage` reach from rank 0.
    fn reached(&self, stage: usize) -> Vec<bool> {
        let mut reached = vec![false; self.ready.len()];
        reached[0] = true;
        for earlier in 0..stage {
            for rank in 0..self.layout.groups * self.layout.nodes * self.layout.racks {
                if reached[rank as usize] && self.place(rank)[earlier] == self.place(0)[earlier] {
                    for ahead in 1..self.members[earlier] {
                        reached[self.partner(rank, earlier, ahead) as usize] = true;
                    }
                }
            }
        }
        reached
    }

    /// Runs one stage with `part` bytes from each rank to each partner, summed up where they arrive if `adds`.
    /// It ends for a rank when what it sends and what it gets have arrived.
    fn run(
        &mut self,
        plan: &mut TransferPlan,
        (stage, who): (usize, Senders),
        part: f64,
        adds: bool,
    ) -> Result<()> {
        let members = self.members[stage];
        if members == 1 {
            return Ok(());
        }
        let holds = self.reached(stage);
        let mut got = vec![Vec::new(); self.ready.len()];
        for rank in 0..plan.size() {
            for ahead in 1..members {
                let to = self.partner(rank, stage, ahead);
                let talks = match who {
                    Senders::All => true,
                    Senders::FromRoot => holds[rank as usize],
                    Senders::ToRoot => holds[to as usize],
                };
                if talks {
                    self.send(plan, (rank, to), (stage, ahead), part, &mut got)?;
                }
            }
        }
        let summing = f64::from(members - 1) * part / self.network.addition.value();
        for (ready, mut all) in self.ready.iter_mut().zip(got) {
            if all.is_empty() {
                continue;
            }
            all.extend(*ready);
            let sum = Transfer {
                start_up: if adds { summing } else { 0.0 },
                after: &all,
                ..Transfer::default()
            };
            *ready = Some(plan.flows.push(&sum)?);
        }
        Ok(())
    }

    /// Adds one message, cut over the transceivers that its rack lends it.
    fn send(
        &self,
        plan: &mut TransferPlan,
        (from, to): (u32, u32),
        (stage, ahead): (usize, u32),
        part: f64,
        got: &mut [Vec<u32>],
    ) -> Result<()> {
        let members = self.members[stage];
        let ends = [from, to].map(|rank| plan.device(self.group, rank));
        let lent = self.layout.transceivers_per_pair(&self.network, members);
        let blocks = self.network.transceivers / lent;
        let inside = self.network.transceivers.saturating_mul(self.network.nodes);
        let rack = ends[0] / inside;
        let block = if stage == RACKS {
            between_racks(rack % members, ahead, members, self.network.transceivers)
        } else {
            (rack + ahead) % blocks
        };
        let first = block * lent;
        for port in first..first + lent {
            let cut = plan.flows.push(&Transfer {
                size: part / f64::from(lent),
                latency: self.latency,
                route: &self.shape.route((ends[0], ends[1]), port),
                after: self.ready[from as usize].as_slice(),
                ..Transfer::default()
            })?;
            got[to as usize].push(cut);
            got[from as usize].push(cut);
        }
        Ok(())
    }
}

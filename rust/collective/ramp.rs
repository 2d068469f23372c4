//! What the collectives of RAMP cost: a single-hop optical network of transceivers and subnets.

use super::form::{Algorithm, Collective, Form};
use super::route::Route;
use crate::hardware::SingleHop;
use crate::units::Seconds;

/// The operations of RAMP-x in at most four stages.
///
/// `T = k sum_j (step + n_j / (t_j R / x)) + r sum_j (d_j - 1) n_j / A`, `n_j = n_(j-1) / d_j`
///
/// Stages `d` = groups, nodes inside a group of `x`, racks, and what is left of the nodes; the ranks fill
/// groups first, then nodes, then racks, and the last of them need not be full. Stage `j` has
/// `t_j = min(floor(x / J), floor(x / (d_j - 1)))` of the `x` transceivers to each partner, `J` racks; `R`
/// bytes/s of a node, `A` of its additions (`r` = 1 for reductions, else 0); `k` = 2 passes for
/// all-reduce, broadcast (scatter, all-gather) and reduce (reduce-scatter, gather), else 1. An all-to-all
/// keeps its volume: `n_j = n / d_j`. Bound: `k (p-1)/p n / R`. Ottino, Benjamin and Zervas 2022 (RAMP,
/// section 5), whose figures are simulated.
pub(super) fn form(collective: Collective, route: &Route, network: &SingleHop, i: usize) -> Form {
    use Collective::{
        AllGather, AllReduce, AllToAll, Barrier, Broadcast, Gather, Reduce, ReduceScatter, Scatter,
        SendReceive,
    };
    let (passes, adds) = match collective {
        AllReduce | Reduce => (2.0, 1.0),
        Barrier | Broadcast => (2.0, 0.0),
        ReduceScatter => (1.0, 1.0),
        AllGather | AllToAll | Gather | Scatter | SendReceive => (1.0, 0.0),
    };
    let layout = Layout::new(network, route.group.size);
    let (mut fixed, mut per_byte, mut part) = (Seconds::ZERO, 0.0, 1.0);
    for members in layout.stages().into_iter().filter(|&d| d > 1) {
        let link = route.sustained(i) / f64::from(network.transceivers);
        let held = if collective == AllToAll { 1.0 } else { part };
        part = held / f64::from(members);
        fixed += route.step(i) * passes;
        per_byte +=
            passes * part / (f64::from(layout.transceivers_per_pair(network, members)) * link);
        per_byte += adds * f64::from(members - 1) * part / network.addition.value();
    }
    if collective == Barrier {
        per_byte = 0.0;
    }
    Form {
        algorithm: Algorithm::Ramp,
        protocol: route.protocol,
        fixed: route.base() + fixed,
        per_byte,
    }
}

/// How many communication groups, nodes of a rack and racks of a group a job fills.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) groups: u32,
    pub(super) nodes: u32,
    pub(super) racks: u32,
}

impl Layout {
    pub(super) fn new(network: &SingleHop, ranks: u32) -> Self {
        let groups = ranks.clamp(1, network.transceivers);
        let rest = ranks.div_ceil(groups);
        let nodes = rest.clamp(1, network.nodes);
        let racks = rest.div_ceil(nodes);
        Self {
            groups,
            nodes,
            racks,
        }
    }

    /// Members of the stages: groups, nodes inside a group of them, racks, and what is left of the nodes.
    pub(super) fn stages(&self) -> [u32; 4] {
        let near = self.groups.min(self.nodes);
        [self.groups, near, self.racks, self.nodes.div_ceil(near)]
    }

    /// Transceivers between two partners of a stage with `members` members.
    pub(super) fn transceivers_per_pair(&self, network: &SingleHop, members: u32) -> u32 {
        let of_racks = network.transceivers / self.racks;
        let of_partners = network.transceivers / (members - 1).max(1);
        of_racks.min(of_partners).max(1)
    }
}

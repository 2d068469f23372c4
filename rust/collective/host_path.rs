//! What a collective costs that passes host memory: staged copies between devices, or sums in the host.

use super::form::{Algorithm, Collective, Form};
use super::pairwise;
use super::route::Route;
use super::tree;
use crate::hardware::{Host, LevelKind};

/// Host memory traffic per byte of the buffer and device: written by the device, read for the sum,
/// read for the way back. An et al. 2024 (Fire-Flyer, section 4) count 24 for eight devices.
const PASSES_OF_MEMORY: f64 = 3.0;

/// All-reduce by the hosts' processors (`HFReduce`): copies up, one sum a node over a double binary
/// tree, copies down, all pipelined.
///
/// `T = base + 2 step_in + 2 ceil(log2 N) step_out + n * max(1 / B_link, 3 g / B_memory, f / B_net)`
///
/// `B_link` bytes/s between a device and its host, each way; `g` devices of a node that do the same at
/// once; `B_memory` bytes/s of a node's memory; `f` what a tree sends between nodes (1 for two, 1.5 for
/// three, else 2); `B_net` bytes/s of a node. One copy a node crosses the network, whatever its number
/// of devices. Bound: `n / B_link`. An et al. 2024 (Fire-Flyer AI-HPC, section 4).
pub(super) fn in_processors(route: &Route, host: &Host, devices: f64) -> Form {
    let memory = PASSES_OF_MEMORY * devices / host.memory_bandwidth.value();
    let mut slowest = memory.max(1.0 / host.link_bandwidth.value());
    let mut fixed = route.base() + route.step(0) * 2.0;
    for i in 1..=route.outermost() {
        fixed += route.step(i) * (2.0 * route.members(i).log2().ceil());
        // host and adapter exchange at the level's own rate, whatever devices reach through it
        let rate = route.sustained(i) * f64::from(route.group.covered(i));
        slowest = slowest.max(tree::leaving(i, route) / rate);
    }
    Form {
        algorithm: Algorithm::HostReduce,
        protocol: route.protocol,
        fixed,
        per_byte: slowest,
    }
}

/// Ring whose every hop goes down into host memory and up again.
///
/// `T = base + 2 k sum_i hops_i step_i + n * k (p-1)/p / min(B_link, B_0, B_memory / (2 g (1 + 1/c)), B_net)`
///
/// `k` = 2 passes for all-reduce, else 1; `B_0` is what a device sustains on the innermost level; each hop is
/// two copies, each byte a write and a read of the memory that the `g` devices of a node share; between nodes a
/// ring also comes in once for each `c` members of a node (nothing is added inside one); `B_net` bytes/s of the
/// group's devices in a node into the network, and on the way between its sockets. What a library does without
/// peer-to-peer access. Bound: `k (p-1)/p n / B_link`.
pub(super) fn staged(collective: Collective, route: &Route, host: &Host, devices: f64) -> Form {
    if collective == Collective::AllToAll {
        return exchange(route, host, devices);
    }
    let passes = collective.passes();
    let network = first_network(route);
    let coming_in = if route.outermost() >= network {
        1.0 / f64::from(route.group.covered(network))
    } else {
        0.0
    };
    let memory = host.memory_bandwidth.value() / (2.0 * devices * (1.0 + coming_in));
    let mut rate = memory.min(reach(route, host));
    let mut fixed = route.base();
    for (i, hops) in (0..=route.outermost()).zip(route.hops()) {
        fixed += route.step(i) * (2.0 * passes * hops);
        if i > 0 && (route.members(i) > 1.0 || !route.inside(i)) {
            rate = rate.min(route.unit_rate(i));
        }
    }
    let sent = if matches!(collective, Collective::Broadcast | Collective::Reduce) {
        1.0
    } else {
        passes * (route.ranks() - 1.0) / route.ranks()
    };
    Form {
        algorithm: Algorithm::HostStaged,
        protocol: route.protocol,
        fixed,
        per_byte: sent / rate,
    }
}

/// The innermost level that joins nodes: the host's own levels, of its sockets, share one memory.
pub(super) fn first_network(route: &Route) -> usize {
    (1..=route.outermost())
        .find(|&i| route.level(i).kind != LevelKind::Pcie)
        .unwrap_or(route.outermost() + 1)
}

/// Bytes/s of a device into its host's memory: its link's rate, at most what the innermost level sustains.
pub(super) fn reach(route: &Route, host: &Host) -> f64 {
    host.link_bandwidth.value().min(route.sustained(0))
}

/// All-to-all in which every part goes down into host memory and up again, all at once.
///
/// `T = base + 2 step_out + sum_i peers_i * issue_i + n * max(o / B, 2 g (o + a) / B_memory, max_i s_i / B_i)`
///
/// `B` = min(`B_link`, `B_0`) as in `staged`; `o` = (p-1)/p of the buffer goes to others, `a` of it to other nodes
/// and as much comes in from there: a write and a read of a node's memory each; `s_i` crosses level `i` at `B_i`
/// bytes/s of one device, as in the pairwise algorithm (`pairwise::form`).
fn exchange(route: &Route, host: &Host, devices: f64) -> Form {
    let sent = route.ranks() - 1.0;
    let network = first_network(route);
    let away = if route.outermost() >= network {
        pairwise::peers(route, network)
    } else {
        0.0
    };
    let memory = 2.0 * devices * (sent + away) / host.memory_bandwidth.value();
    let mut slowest = memory.max(sent / reach(route, host));
    let mut fixed = route.base() + route.step(route.outermost()) * 2.0;
    for i in 0..=route.outermost() {
        fixed += pairwise::issues(route, i);
        if i > 0 {
            slowest = slowest.max(pairwise::peers(route, i) / route.pairwise_rate(i));
        }
    }
    Form {
        algorithm: Algorithm::HostStaged,
        protocol: route.protocol,
        fixed,
        per_byte: slowest / route.ranks(),
    }
}

/// Seconds per byte that none can beat inside a node where each device has its link to the host beside the fabric's.
///
/// The rates of both ways add up, `1 / (r/s + B_link/min(s, 1))`: `s` of the buffer leaves a device at the fabric's
/// rate `r`, or by its link, which it crosses no more than once where hosts add.
pub(super) fn combined_rate(sent: f64, rate: f64, host: &Host) -> f64 {
    if sent <= 0.0 {
        return 0.0;
    }
    1.0 / (rate / sent + host.link_bandwidth.value() / sent.min(1.0))
}

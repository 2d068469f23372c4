//! What does an all-to-all cost whose ranks send unequal parts, as to experts that differ in load?

use super::form::{Collective, Protocol};
use super::route::{GroupPlacement, Route};
use super::{forced_algorithms, host_path, pairwise, torus};
use crate::error::{Error, Result};
use crate::hardware::{Cluster, Group, Host, MAX_LEVELS};
use crate::units::{Bytes, Seconds};

/// Cost of an uneven all-to-all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uneven {
    /// Time until the last rank is done.
    pub time: Seconds,
    /// What no algorithm can beat: the busiest port at its sustained rate.
    pub lower_bound: Seconds,
    /// The rank whose port has most to carry for its rate.
    pub busiest_rank: u32,
    /// Bytes that this rank sends to or receives from others, whichever is more.
    pub busiest_bytes: Bytes,
}

/// Time of an all-to-all in which rank `i` sends `bytes[i * p + j]` to rank `j`.
///
/// `T = base + step_out + sum_i peers_i * issue_i + max_r (own_r / B_in + max_i load_(r,i) / B_i)`
///
/// `load_(r,i)` the larger of what rank `r` sends and receives across network level `i` and beyond, on
/// level 0 within it; `own_r` its part for itself; figures of the pairwise algorithm, with which equal
/// parts agree (where groups and units do not line up, each rank's parts cross the levels in the proportion
/// of all peers, as there). On a torus the busiest link under dimension-ordered routing. Where devices have no way
/// to one another but through host memory, what `host_staged` takes. Bound: the busiest port, inside a node with the
/// device's link to its host beside it.
pub fn uneven_all_to_all(group: &Group, cluster: &Cluster, bytes: &[Bytes]) -> Result<Uneven> {
    check(group, bytes)?;
    let free = Uneven {
        time: Seconds::ZERO,
        lower_bound: Seconds::ZERO,
        busiest_rank: 0,
        busiest_bytes: Bytes::ZERO,
    };
    if super::select::is_free(group, cluster) || bytes.iter().all(|part| part.value() <= 0.0) {
        return Ok(free);
    }
    let place = GroupPlacement::new(group, cluster);
    let simple = Route::new(&place, cluster, Protocol::Simple);
    let host = cluster
        .system
        .host
        .as_ref()
        .filter(|_| simple.through_host());
    // inside a node a device has its link to the host beside the fabric's
    let link = host.map_or(0.0, |host| host.link_bandwidth.value());
    let bound = ports(&simple, bytes, |route, i| {
        torus::port(route, i, route.most(i)) + if i == 0 { link } else { 0.0 }
    });
    let mut best = Uneven {
        time: Seconds::new(f64::INFINITY),
        lower_bound: Seconds::new(bound.0),
        busiest_rank: bound.1,
        busiest_bytes: Bytes::new(bound.2),
    };
    for protocol in Protocol::ALL {
        let route = Route::new(&place, cluster, protocol);
        let one = match host {
            Some(host) => staged(
                &route,
                bytes,
                host,
                forced_algorithms::active_devices_of_node(cluster),
            ),
            None => time(&route, bytes),
        };
        best.time = best.time.min(one);
    }
    Ok(best)
}

fn time(route: &Route, bytes: &[Bytes]) -> Seconds {
    let start = pairwise::form(route).fixed;
    let mut slowest = if route.torus().is_some() {
        0.0
    } else {
        let inner = route.pairwise_rate(route.innermost());
        let own = route.own_part() / inner;
        with_own(route, bytes, own)
    };
    if let Some(level) = route.torus() {
        slowest = ports(route, bytes, |route, i| {
            torus::port(route, i, route.pairwise_rate(i))
        })
        .0;
        slowest = slowest.max(torus::busiest_link(route, level, bytes));
    }
    start + Seconds::new(slowest)
}

/// As `host_path::staged`: the slowest rank's link, its node's memory and its ports into the network.
fn staged(route: &Route, bytes: &[Bytes], host: &Host, devices: f64) -> Seconds {
    let even = host_path::staged(Collective::AllToAll, route, host, devices);
    let ranks = route.group.size as usize;
    let nodes = host_path::first_network(route);
    let inside = if route.outermost() >= nodes {
        route.group.covered(nodes) as usize
    } else {
        ranks
    };
    let shares = shares(route);
    let network = |route: &Route, i: usize| {
        if i == 0 {
            f64::INFINITY
        } else {
            route.pairwise_rate(i)
        }
    };
    let mut slowest = 0.0_f64;
    for first in (0..ranks).step_by(inside) {
        let node = first..(first + inside).min(ranks);
        let mut carried = 0.0;
        for rank in node.clone() {
            let (time, sent) = port_time(route, (bytes, &shares), rank, &network);
            let link = sent / host_path::reach(route, host);
            slowest = slowest.max(time).max(link);
            let row = |peer: usize| bytes[rank * ranks + peer].value();
            let column = |peer: usize| bytes[peer * ranks + rank].value();
            let others = (0..ranks).filter(|&peer| peer != rank);
            carried += others.map(row).sum::<f64>();
            let away = (0..ranks).filter(|peer| !node.contains(peer));
            carried += away.map(column).sum::<f64>();
        }
        // siblings of other groups do the same in what of the node this group leaves them
        let mean = carried / node.len() as f64;
        slowest = slowest.max(2.0 * devices * mean / host.memory_bandwidth.value());
    }
    even.fixed + Seconds::new(slowest)
}

/// The slowest rank: its own part at `own` seconds per byte, and its busiest port.
fn with_own(route: &Route, bytes: &[Bytes], own: f64) -> f64 {
    let ranks = route.group.size as usize;
    let shares = shares(route);
    (0..ranks)
        .map(|rank| {
            let port = port_time(route, (bytes, &shares), rank, &|route, i| {
                route.pairwise_rate(i)
            });
            let port = port.0;
            bytes[rank * ranks + rank].value() * own + port
        })
        .fold(0.0, f64::max)
}

/// Time, rank and bytes of the busiest port at the given rates.
fn ports(route: &Route, bytes: &[Bytes], rate: impl Fn(&Route, usize) -> f64) -> (f64, u32, f64) {
    let mut busiest = (0.0, 0, 0.0);
    let shares = shares(route);
    for rank in 0..route.group.size {
        let (time, load) = port_time(route, (bytes, &shares), rank as usize, &rate);
        if time > busiest.0 {
            busiest = (time, rank, load);
        }
    }
    busiest
}

/// Share of a rank's parts that crosses each level, where groups and units do not line up there.
type Shares = [Option<f64>; MAX_LEVELS];

fn shares(route: &Route) -> Shares {
    let others = route.ranks() - 1.0;
    let last = route.outermost();
    std::array::from_fn(|i| {
        let uneven = i <= last && route.spread(i.max(1).min(last)).is_some();
        uneven.then(|| pairwise::peers(route, i) / others)
    })
}

/// Time of one rank's busiest port, and the bytes that it exchanges with others in all.
fn port_time(
    route: &Route,
    (bytes, shares): (&[Bytes], &Shares),
    rank: usize,
    rate: &impl Fn(&Route, usize) -> f64,
) -> (f64, f64) {
    let ranks = route.group.size as usize;
    let load = |crosses: &dyn Fn(usize) -> bool| {
        let (mut sent, mut received) = (0.0, 0.0);
        for peer in (0..ranks).filter(|&peer| peer != rank && crosses(peer)) {
            sent += bytes[rank * ranks + peer].value();
            received += bytes[peer * ranks + rank].value();
        }
        f64::max(sent, received)
    };
    let mut slowest = 0.0_f64;
    let whole = load(&|_| true);
    for (i, share) in (0..=route.outermost()).zip(shares) {
        let inside = route.group.covered(i) as usize;
        let within = inside * route.group.members[i] as usize;
        let crossing = match share {
            Some(share) => whole * share,
            None if i == 0 => load(&|peer| peer / within == rank / within),
            None if route.inside(i) => {
                load(&|peer| peer / inside != rank / inside && peer / within == rank / within)
            }
            None => load(&|peer| peer / inside != rank / inside),
        };
        slowest = slowest.max(crossing / rate(route, i));
    }
    (slowest, whole)
}

fn check(group: &Group, bytes: &[Bytes]) -> Result<()> {
    let ranks = group.size as usize;
    if bytes.len() != ranks.saturating_mul(ranks) {
        let allowed = format!("{ranks} x {ranks} parts, a row for each sender");
        return Err(Error::invalid("bytes", bytes.len(), allowed));
    }
    for (at, part) in bytes.iter().enumerate() {
        if !(0.0..=1e30).contains(&part.value()) {
            let field = format!("bytes[{}][{}]", at / ranks, at % ranks);
            return Err(Error::invalid(field, part.value(), "0 to 1e30 bytes"));
        }
    }
    Ok(())
}

//! What no algorithm on a fabric can beat: the bytes that must cross its links, and the steps that news needs.

use super::form::{Algorithm, Collective, Form, Protocol};
use super::route::Route;
use super::spread::Spread;
use super::{host_path, pairwise, torus};
use crate::hardware::{Host, LevelKind};
use crate::units::Seconds;

/// Bounds of `collective`: bandwidth at the sustained rates, latency at the shortest steps; the larger holds.
///
/// `T >= n * max_i f(N_i) / U_i`, `N_i` units of the level below `i` that the group covers, `U_i`
/// bytes/s that the group can send out of one of them. `f` = (N-1)/N for all-gather and
/// reduce-scatter, twice that for all-reduce (1 where switches reduce, there or further out), covered *
/// (N-1)/N for all-to-all (where a level's links carry no further traffic: of the partners that they join), (N-1)/N
/// for gather and scatter, 1 for a message, broadcast or reduce; an all-to-all on a torus also has to cross the
/// middle of each dimension. Chan et al. 2007, table 2, applied to each cut of the fabric.
///
/// `T >= max_i ceil(log_(1 + c_i P_i) N_i) * step_i`: news that is in `c_i` ranks of a unit reaches at most
/// `c_i P_i` other units in a step; `P_i` messages a rank can send in one (see `ports`). Where switches reduce
/// or multicast, one step; on a torus the hops to the furthest rank. Chan et al. 2007, section 3; Bruck et al.
/// 1997 for many ports.
///
/// `host`: the one whose memory is a way between devices of a node, beside the fabric; none between nodes.
pub(super) fn form(collective: Collective, route: &Route, host: Option<&Host>) -> Form {
    let per_byte = route
        .path()
        .map(|i| {
            let (sent, rate) = match route.spread(i) {
                Some(spread) => (
                    per_device(collective, route, i, spread),
                    device_rate(route, i),
                ),
                None => (leaving(collective, route, i), unit_rate(route, i)),
            };
            match host {
                Some(host) if i == 0 => host_path::combined_rate(sent, rate, host),
                _ => sent / rate,
            }
        })
        .fold(0.0, f64::max);
    let across = match (collective, route.only_torus()) {
        (Collective::AllToAll, Some(level)) => torus::across(route, level),
        _ => 0.0,
    };
    Form {
        algorithm: Algorithm::Ring,
        protocol: Protocol::Simple,
        fixed: latency(collective, route),
        per_byte: per_byte.max(across),
    }
}

fn latency(collective: Collective, route: &Route) -> Seconds {
    let helped = route.reduces();
    let mut longest = Seconds::ZERO;
    for i in route.innermost()..=route.outermost() {
        if route.group.members[i] <= 1 {
            continue;
        }
        let step = (i..=route.outermost())
            .filter(|&j| route.group.members[j] > 1)
            .fold(Seconds::new(f64::INFINITY), |least, j| {
                least.min(route.shortest_step(j))
            });
        let steps = if helped || collective == Collective::SendReceive {
            1.0
        } else if route.only_torus() == Some(i) {
            torus::furthest(route, i)
        } else {
            doublings(route, i)
        };
        longest = longest.max(step * steps);
    }
    longest
}

/// Steps in which news can have come to all units that the group covers below level `i`.
fn doublings(route: &Route, i: usize) -> f64 {
    let spread = route.spread(i);
    let units = spread.map_or(route.units(i), |spread| spread.units);
    let inside = spread.map_or(route.group.covered(i), |spread| spread.inside);
    let ports = (i..=route.outermost()).map(|j| ports(route, j));
    let each = f64::from(inside) * ports.fold(1.0, f64::max);
    let (mut steps, mut reached) = (0.0, 1.0);
    while reached < f64::from(units) {
        reached *= 1.0 + each;
        steps += 1.0;
    }
    steps
}

/// Messages that a rank can send across level `i` in one step: as many as it can issue one after the other,
/// and one on each link of a full mesh or a torus, or by each transceiver; to all peers at once where devices reach
/// one another's memory.
fn ports(route: &Route, i: usize) -> f64 {
    let level = route.level(i);
    if level.kind.reaches_memory() {
        return route.ranks();
    }
    if let Some(network) = &level.single_hop {
        return f64::from(network.transceivers);
    }
    let issued = (route.shortest_step(i).value() / route.issue(i).value()).ceil();
    let issued = if issued.is_finite() {
        issued.max(1.0)
    } else {
        route.ranks()
    };
    let links = match level.kind {
        LevelKind::Mesh => route.mesh_links(i),
        _ => 2.0 * level.dims.len() as f64,
    };
    issued.max(links)
}

fn leaving(collective: Collective, route: &Route, i: usize) -> f64 {
    let units = f64::from(route.units(i));
    let part = (units - 1.0) / units;
    match collective {
        Collective::AllReduce if reduces_from(route, i) => (2.0 * part).min(1.0),
        Collective::AllReduce => 2.0 * part,
        Collective::AllGather
        | Collective::ReduceScatter
        | Collective::Gather
        | Collective::Scatter => part,
        Collective::AllToAll if route.has_own_links(i) => {
            let inside = f64::from(route.group.covered(i));
            inside * inside * (route.members(i) - 1.0) / route.ranks()
        }
        Collective::AllToAll => f64::from(route.group.covered(i)) * part,
        Collective::SendReceive | Collective::Broadcast | Collective::Reduce => 1.0,
        Collective::Barrier => 0.0,
    }
}

/// True where what leaves the units below level `i` can be summed in switches further on.
fn reduces_from(route: &Route, i: usize) -> bool {
    (i..=route.outermost()).any(|j| route.level(j).in_network_reduction)
}

/// As `leaving`, per device of the busiest unit where groups and units do not line up.
fn per_device(collective: Collective, route: &Route, i: usize, spread: &Spread) -> f64 {
    let ranks = route.ranks();
    match collective {
        Collective::AllReduce if reduces_from(route, i) => spread.crossing,
        // a reduction without switches' help takes N - 1 messages between N units, and N - 1 back
        Collective::AllReduce => spread.crossing.max(2.0 * spread.joins),
        Collective::AllGather | Collective::ReduceScatter => spread.outside / ranks,
        Collective::Gather | Collective::Scatter => spread.gathered / ranks,
        Collective::AllToAll => pairwise::peers(route, i).min(spread.pairs) / ranks,
        Collective::SendReceive | Collective::Broadcast | Collective::Reduce => spread.rooted,
        Collective::Barrier => 0.0,
    }
}

/// A device sends through its links inside and through its adapters outside at once.
fn unit_rate(route: &Route, i: usize) -> f64 {
    device_rate(route, i) * f64::from(route.group.covered(i))
}

fn device_rate(route: &Route, i: usize) -> f64 {
    let beside = (i..route.outermost()).take_while(|&level| route.has_own_links(level));
    links(route, i) + beside.map(|level| links(route, level + 1)).sum::<f64>()
}

/// Bytes/s that a device sends into level `i`.
fn links(route: &Route, i: usize) -> f64 {
    let neighbours = route.group.members[i] > 1 || route.spread(i).is_some();
    if route.level(i).kind.has_dims() && neighbours {
        torus::injection(route, i)
    } else {
        route.most(i) * route.best_rate_ratio(i)
    }
}

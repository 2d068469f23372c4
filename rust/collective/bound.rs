//! What no algorithm on a fabric can beat: the bytes that must leave each unit, over its links.

use super::form::{Algorithm, Collective, Form, Protocol};
use super::route::Route;
use super::spread::Spread;
use super::torus;
use crate::units::Seconds;

/// Bandwidth bound of `collective`, at the sustained rates.
///
/// `T >= n * max_i f(N_i) / U_i`, `N_i` units of the level below `i` that the group covers, `U_i`
/// bytes/s that the group can send out of one of them. `f` = (N-1)/N for all-gather and
/// reduce-scatter, twice that for all-reduce (1 where switches reduce), covered * (N-1)/N for
/// all-to-all, (N-1)/N for gather and scatter, 1 for a message, broadcast or reduce. Chan et al. 2007, table 2, applied to each cut of the fabric; the
/// latency bound there is for one port per rank and does not hold for switches that multicast.
pub(super) fn form(collective: Collective, route: &Route) -> Form {
    let per_byte = route
        .path()
        .map(|i| match route.spread(i) {
            Some(spread) => per_device(collective, route, i, &spread) / device_rate(route, i),
            None => leaving(collective, route, i) / unit_rate(route, i),
        })
        .fold(0.0, f64::max);
    Form {
        algorithm: Algorithm::Ring,
        protocol: Protocol::Simple,
        fixed: Seconds::ZERO,
        per_byte,
    }
}

fn leaving(collective: Collective, route: &Route, i: usize) -> f64 {
    let units = f64::from(route.units(i));
    let part = (units - 1.0) / units;
    match collective {
        Collective::AllReduce if route.level(i).in_network_reduction => (2.0 * part).min(1.0),
        Collective::AllReduce => 2.0 * part,
        Collective::AllGather
        | Collective::ReduceScatter
        | Collective::Gather
        | Collective::Scatter => part,
        Collective::AllToAll if i == 0 => (route.members(0) - 1.0) / route.ranks(),
        Collective::AllToAll => f64::from(route.group.covered(i)) * part,
        Collective::SendReceive | Collective::Broadcast | Collective::Reduce => 1.0,
        Collective::Barrier => 0.0,
    }
}

/// As `leaving`, per device of the busiest unit where groups and units do not line up.
fn per_device(collective: Collective, route: &Route, i: usize, spread: &Spread) -> f64 {
    let ranks = route.ranks();
    match collective {
        Collective::AllReduce if route.level(i).in_network_reduction => spread.crossing,
        // a reduction without switches' help takes N - 1 messages between N units, and N - 1 back
        Collective::AllReduce => spread.crossing.max(2.0 * spread.joins),
        Collective::AllGather | Collective::ReduceScatter => spread.outside / ranks,
        Collective::Gather | Collective::Scatter => spread.gathered / ranks,
        Collective::AllToAll => spread.pairs / ranks,
        Collective::SendReceive | Collective::Broadcast | Collective::Reduce => spread.rooted,
        Collective::Barrier => 0.0,
    }
}

/// A device sends through its links inside and through its adapter outside at once.
fn unit_rate(route: &Route, i: usize) -> f64 {
    device_rate(route, i) * f64::from(route.group.covered(i))
}

fn device_rate(route: &Route, i: usize) -> f64 {
    let adapter = if i == 0 && route.outermost() > 0 {
        route.sustained(1)
    } else {
        0.0
    };
    let links = if route.level(i).kind.has_dims() && route.group.members[i] > 1 {
        torus::injection(route, i)
    } else {
        route.sustained(i)
    };
    links + adapter
}

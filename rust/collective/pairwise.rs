//! What an all-to-all costs in which every rank sends each other rank its part.

use super::form::{Algorithm, Form};
use super::route::Route;

/// Pairwise all-to-all on any number of levels.
///
/// `T = base + step_out + sum_i peers_i * issue_i + n * (own/p / B_in + max_i share_i / B_i)`
///
/// `peers_i` of the `p-1` peers lie across level `i`; messages run at once, so only their issue adds up.
/// `share_0` = (m_0-1)/p stays inside; `share_i` = (p-c_i)/p crosses network level `i`, `c_i` members
/// inside one unit below it (where groups and units do not line up: the pairs of all groups that cross the
/// busiest unit's links, over its devices); `B_i` bytes/s rate of one device. Thakur et al. 2005; levels
/// overlap as in NCCL's grouped sends.
pub(super) fn form(route: &Route) -> Form {
    let ranks = route.ranks();
    let mut fixed = route.base() + route.step(route.outermost());
    let mut slowest = 0.0_f64;
    for i in 0..=route.outermost() {
        let inside = f64::from(route.group.covered(i));
        let within = inside * route.members(i);
        fixed += route.issue(i) * (within - inside) + route.retarget(i, route.members(i) - 1.0);
        slowest = slowest.max(peers(route, i) / (ranks * route.pairwise_rate(i)));
    }
    let inner = route.pairwise_rate(route.innermost());
    Form {
        algorithm: Algorithm::Pairwise,
        protocol: route.protocol,
        fixed,
        per_byte: slowest + route.own_part() / (ranks * inner),
    }
}

/// Peers with which a device exchanges parts over its share of level `i`'s links: on level 0 those inside
/// a unit, on a network level those beyond one.
pub(super) fn peers(route: &Route, i: usize) -> f64 {
    match (i, route.spread(i)) {
        (0, _) => route.inner_peers(),
        (_, Some(spread)) => spread.pairs,
        (_, None) => route.ranks() - f64::from(route.group.covered(i)),
    }
}

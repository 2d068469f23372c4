//! What an all-to-all costs in which every rank sends each other rank its part.

use super::form::{Algorithm, Form};
use super::route::Route;
use crate::units::Seconds;

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
        fixed += issues(route, i);
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

/// As `form`, where each token leaves in `copies`, those for one rank reach it as one and those for ranks of
/// one unit cross to it as one, to be copied on inside.
///
/// `share_i = s_i j(u_i)`,  `share_0 = j(p) (p-1)/p`,  own part `j(p) own`,  `j(u) = u (1 - (1 - 1/u)^k) / k`
///
/// s: share of `form`; u: units of level `i` that the group covers; k: copies, for ranks at random. Source:
/// DeepSeek-V3, arXiv 2412.19437, section 3.2.2 (over InfiniBand to the GPU of the same place in each node,
/// from there over NVLink); one row a rank: `is_token_in_rank` of `DeepEP`'s `get_dispatch_layout`,
/// `sparse_to_dense_map` of `HybridEP` (`csrc/hybrid_ep`), which hold a token once for each rank.
///
/// `direct` kernels reach the rate of links and hold no part of their own back.
pub(super) fn copied(route: &Route, copies: u16, direct: bool) -> Form {
    let ranks = route.ranks();
    let copies = f64::from(copies);
    let rate = |level: usize| {
        if direct {
            route.direct_rate(level)
        } else {
            route.pairwise_rate(level)
        }
    };
    let own = if direct { 0.0 } else { route.own_part() };
    let joined = |units: f64| units * (1.0 - (1.0 - 1.0 / units).powf(copies)) / copies;
    let inner = rate(route.innermost());
    let mut slowest = joined(ranks) * (ranks - 1.0) / (ranks * inner);
    for i in (route.innermost() + 1)..=route.outermost() {
        let crossing = joined(f64::from(route.units(i))) * peers(route, i);
        slowest = slowest.max(crossing / (ranks * rate(i)));
    }
    Form {
        per_byte: slowest + joined(ranks) * own / (ranks * inner),
        ..form(route)
    }
}

/// Seconds in which a rank issues its messages to the peers across level `i`.
pub(super) fn issues(route: &Route, i: usize) -> Seconds {
    let inside = f64::from(route.group.covered(i));
    let within = inside * route.members(i);
    route.issue(i) * (within - inside) + route.switch_reconfiguration(i, route.members(i) - 1.0)
}

/// Peers with which a device exchanges parts over its share of level `i`'s links: on level 0 those inside
/// a unit, on a network level those beyond one, but those that further levels reach past its links.
pub(super) fn peers(route: &Route, i: usize) -> f64 {
    let inside = f64::from(route.group.covered(i));
    let beyond = route
        .spread(i)
        .map_or(route.ranks() - inside, |spread| spread.pairs);
    match i {
        0 => route.inner_peers(),
        _ if i < route.outermost() && route.has_own_links(i) => {
            beyond.min(inside * (route.members(i) - 1.0))
        }
        _ => beyond,
    }
}

//! What a pipelined ring over all ranks costs, one way or both ways.

use super::form::{Algorithm, Collective, Form};
use super::route::Route;
use crate::units::Seconds;

/// Ring all-reduce, reduce-scatter or all-gather; broadcast or reduce along the ring, pipelined.
///
/// `T = base + k * sum_i hops_i * step_i + n * k * ((p-1)/p / B + own/p / B_in)`
///
/// `k` = 2 passes for all-reduce, else 1; `p` ranks; `n` bytes of the full buffer; `hops_i` of the `p-1`
/// hops cross level `i`; `B` bytes/s = the slowest of the group's unit rates on its way (many parallel
/// rings use all links of a unit; where groups and units do not line up, the rings that cross the busiest
/// unit's links share them; on a full mesh a ring for each distance uses all links where `p` is prime, else
/// it is a limit). Across levels the sum is an upper bound but for one outermost hop a pass, which NCCL's
/// count leaves out: parts on slow steps and parts on narrow links travel at the same time. `own` = copying a rank's own part, once,
/// over a step of the inner rate `B_in`. Broadcast and reduce pass the whole buffer once, without the copy:
/// `n / B`. Patarasuk and Yuan 2009; hop count as in NCCL's tuner; the copy term is fitted (out-of-place
/// runs). A broadcast or reduction hands the whole buffer on in chunks, which a rank passes on once it has them:
/// across levels each hop takes a step of the outermost one, as NCCL's tuner counts unless all channels take the
/// same way (src/graph/tuning.cc of NVIDIA/nccl, latencies of `ncclFuncBroadcast` and `ncclFuncReduce`).
#[inline]
pub(super) fn form(collective: Collective, route: &Route) -> Form {
    at_rate(collective, route, slowest(route, 1.0))
}

#[inline]
fn at_rate(collective: Collective, route: &Route, rate: f64) -> Form {
    let passes = collective.passes();
    let ranks = route.ranks();
    let own = route.own_part() / (ranks * route.unit_rate(route.innermost()));
    let rooted = matches!(collective, Collective::Broadcast | Collective::Reduce);
    let per_byte = if rooted {
        1.0 / rate
    } else {
        passes * (ranks - 1.0) / (ranks * rate) + own
    };
    let mut steps = hops(route) * passes;
    if rooted && route.in_chunks() {
        steps = steps.max(route.step(route.outermost()) * (ranks - 1.0));
    }
    Form {
        algorithm: Algorithm::Ring,
        protocol: route.protocol,
        fixed: route.base() + steps,
        per_byte,
    }
}

/// The same ring both ways: each part goes half way round on either side, so the steps halve.
///
/// `T = base + k * sum_i hops_i * (step_i + issue_i) + n * k * ((p-1)/p / B + own/p / B_in)`
///
/// As `form`, with the `hops_i` across level `i` of the `floor(p/2)` hops that start at the outermost level; a
/// rank issues two messages a step. The two ways share each port, so the bytes take as long as one way (but
/// of two ranks in a node each has one neighbour inside, one outside); where each way has links of its own
/// (a torus) they take half. Optical switches with one circuit a unit turn once. Bound: `k (p-1)/p n / B` (met on one level). Austin et al. 2025 (How to Scale Your
/// Model, section 3); Jain and Sabharwal 2010.
pub(super) fn both_ways(collective: Collective, route: &Route) -> Form {
    let mut steps = Seconds::ZERO;
    let half = route.group.size / 2;
    let mut beyond = 0;
    for i in (0..=route.outermost()).rev() {
        let spread = route.spread(i);
        let inside = spread.map_or(route.group.covered(i), |_| 1);
        let units = spread.map_or(route.units(i), |spread| spread.units);
        let crossing = half.div_ceil(inside).min(units).max(beyond);
        steps += (route.step(i) + route.issue(i)) * f64::from(crossing - beyond);
        beyond = crossing;
    }
    let in_pairs = route.outermost() > 0 && route.group.members[0] == 2;
    let pairs = in_pairs && route.spread(1).is_none();
    let inner = if pairs { 2.0 } else { 1.0 };
    let turns = (0..=route.outermost()).map(|i| route.switch_reconfiguration(i, 2.0));
    Form {
        algorithm: Algorithm::BidirectionalRing,
        fixed: route.base() + steps * collective.passes() + turns.sum(),
        ..at_rate(collective, route, slowest(route, inner))
    }
}

/// Rate of the ring: that of the narrowest links on its way, those inside a node taken `inner` times.
#[inline]
fn slowest(route: &Route, inner: f64) -> f64 {
    let outer = (1..=route.outermost()).map(|i| route.ring_rate(i));
    outer.fold(route.ring_rate(0) * inner, f64::min)
}

/// Time of the `p-1` hops of one pass.
#[inline]
fn hops(route: &Route) -> Seconds {
    let mut time = Seconds::ZERO;
    for (i, hops) in route.hops().into_iter().enumerate() {
        if hops > 0.0 {
            time += route.step(i) * hops;
        }
    }
    time
}

//! What a pipelined ring over all ranks costs.

use super::form::{Algorithm, Collective, Form};
use super::route::Route;
use crate::units::Seconds;

/// Ring all-reduce, reduce-scatter or all-gather; broadcast or reduce along the ring, pipelined.
///
/// `T = base + k * sum_i hops_i * step_i + n * k * ((p-1)/p / B + own/p / B_in)`
///
/// `k` = 2 passes for all-reduce, else 1; `p` ranks; `n` bytes of the full buffer; `hops_i` of the
/// `p-1` hops cross level `i`; `B` bytes/s = the slowest of the group's unit rates on its way (many
/// parallel rings use all links of a unit; where groups and units do not line up, the rings that cross the
/// busiest unit's links share them; on a full mesh a ring for each distance uses all links where `p` is prime,
/// else it is a limit). Across levels the sum is an upper bound, since parts on slow steps
/// and parts on narrow links travel at the same time; it is met where either decides. `own` = copying a rank's own part, once, over a step of
/// the inner rate `B_in`.
/// Broadcast and reduce pass the whole buffer once, without the copy: `n / B`.
/// Patarasuk and Yuan 2009; hop count as in NCCL's tuner; the copy term is fitted (out-of-place runs).
pub(super) fn form(collective: Collective, route: &Route) -> Form {
    let passes = collective.passes();
    let ranks = route.ranks();
    let rate = slowest(route);
    let own = route.own_part() / (ranks * route.unit_rate(route.innermost()));
    let per_byte = if matches!(collective, Collective::Broadcast | Collective::Reduce) {
        1.0 / rate
    } else {
        passes * (ranks - 1.0) / (ranks * rate) + own
    };
    Form {
        algorithm: Algorithm::Ring,
        protocol: route.protocol,
        fixed: route.base() + hops(route) * passes,
        per_byte,
    }
}

/// Rate of the ring: that of the narrowest links on its way.
fn slowest(route: &Route) -> f64 {
    (0..=route.outermost()).fold(f64::INFINITY, |rate, i| rate.min(route.ring_rate(i)))
}

/// Time of the `p-1` hops of one pass.
fn hops(route: &Route) -> Seconds {
    let mut time = Seconds::ZERO;
    for (i, hops) in route.hops().into_iter().enumerate() {
        if hops > 0.0 {
            time += route.step(i) * hops;
        }
    }
    time
}

//! What an all-reduce costs through ranks that serve the sums.

use super::form::{Algorithm, Form};
use super::route::Route;

/// Parameter server: every rank pushes its buffer to `S` of the ranks, which add and send back.
///
/// `T = base + 2 step_out + 2 sum_i peers_i * issue_i + 2 n * max(1, (p-1)/S) / B`
///
/// `B` bytes/s = the slowest rate of one device on the way; each server holds `1/S` of the buffer and
/// receives it from all others; a worker that sends to servers alone sends all of it. Bound:
/// `2 (p-1)/p n / B` (met for `S = p`). Li et al. 2014; Jiang et al. 2020 (`BytePS`, section 3).
pub(super) fn form(route: &Route, servers: u32) -> Form {
    let ranks = route.ranks();
    let mut fixed = route.base() + route.step(route.outermost()) * 2.0;
    let mut rate = f64::INFINITY;
    for i in 0..=route.outermost() {
        let inside = f64::from(route.group.covered(i));
        let peers = inside * (route.members(i) - 1.0);
        fixed += route.issue(i) * (2.0 * peers) + route.retarget(i, route.members(i) - 1.0);
    }
    for i in route.path() {
        rate = rate.min(route.device_rate(i));
    }
    let own = if f64::from(servers) >= ranks {
        (ranks - 1.0) / ranks
    } else {
        1.0
    };
    let busiest = own.max((ranks - 1.0) / f64::from(servers));
    Form {
        algorithm: Algorithm::ParameterServer { servers },
        protocol: route.protocol,
        fixed,
        per_byte: 2.0 * busiest / rate,
    }
}

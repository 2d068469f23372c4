//! What an all-reduce costs through ranks that serve the sums.

use super::form::{Algorithm, Form};
use super::route::Route;

/// Parameter server: every rank pushes its buffer to `S` of the ranks, which add and send back.
///
/// `T = base + 2 step_out + 2 sum_i peers_i * issue_i + 2 n/S * max_i share_i / B_i`
///
/// Each server holds `1/S` of the buffer and receives it from all others: `share_0` = m_0-1 from inside,
/// `share_i` = p-c_i across network level `i`, `c_i` members inside one unit below it; a worker sends no more.
/// `B_i` bytes/s of one device. Bound: `2 (p-1)/p n / B` (met for `S = p`). Li et al. 2014; Jiang et al. 2020
/// (`BytePS`, section 3).
pub(super) fn form(route: &Route, servers: u32) -> Form {
    let mut fixed = route.base() + route.step(route.outermost()) * 2.0;
    let mut slowest = 0.0_f64;
    for i in 0..=route.outermost() {
        let inside = f64::from(route.group.covered(i));
        let peers = inside * (route.members(i) - 1.0);
        fixed += route.issue(i) * (2.0 * peers)
            + route.switch_reconfiguration(i, route.members(i) - 1.0);
        slowest = slowest.max(route.peers_beyond(i) / route.device_rate(i));
    }
    Form {
        algorithm: Algorithm::ParameterServer { servers },
        protocol: route.protocol,
        fixed,
        per_byte: 2.0 * slowest / f64::from(servers),
    }
}

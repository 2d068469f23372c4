//! What a gather or scatter costs in which the root exchanges one message with every other rank.

use super::form::{Algorithm, Form};
use super::route::Route;

/// Linear gather or scatter: the root's own ports carry everything.
///
/// `T = base + step_out + sum_i peers_i * issue_i + n * max_i share_i / B_i`
///
/// `peers_i` of the `p-1` peers lie across level `i`; `share_0` = (m_0-1)/p of the buffer stays
/// inside, `share_i` = (p-c_i)/p crosses network level `i`, `c_i` members inside one unit below it;
/// `B_i` bytes/s rate of one device. NCCL's grouped sends; Chan et al. 2007, section 4.
pub(super) fn form(route: &Route) -> Form {
    let ranks = route.ranks();
    let mut fixed = route.base() + route.step(route.outermost());
    let mut slowest = 0.0_f64;
    for i in 0..=route.outermost() {
        let inside = f64::from(route.group.covered(i));
        let within = inside * route.members(i);
        fixed += route.issue(i) * (within - inside)
            + route.switch_reconfiguration(i, route.members(i) - 1.0);
        slowest = slowest.max(route.peers_beyond(i) / (ranks * route.device_rate(i)));
    }
    Form {
        algorithm: Algorithm::Linear,
        protocol: route.protocol,
        fixed,
        per_byte: slowest,
    }
}

//! What sending one buffer to one other rank costs.

use super::form::{Algorithm, Form};
use super::route::Route;

/// One message along the levels between two ranks.
///
/// `T = base + step_out + n / min_i B_i`
///
/// `B_i` bytes/s rate of one device into level `i`: the ranks beside the sender send to their own
/// partners at the same time, so nobody gets more than its own share. Hockney 1994.
pub(super) fn form(route: &Route) -> Form {
    let outermost = route.outermost();
    let spacing = f64::from(route.group.spacing);
    let rate = route.path().fold(f64::INFINITY, |rate, i| {
        let shared = if route.level(i).kind.has_dims() {
            spacing
        } else {
            1.0
        };
        rate.min(route.device_rate(i) / shared)
    });
    Form {
        algorithm: Algorithm::PointToPoint,
        protocol: route.protocol,
        fixed: route.base() + route.step(outermost),
        per_byte: 1.0 / rate,
    }
}

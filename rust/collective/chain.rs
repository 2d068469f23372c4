//! What a broadcast or reduce costs that passes segments along a chain of all ranks.

use super::form::{Algorithm, Form};
use super::rounds::{Pattern, round};
use super::route::Route;
use crate::units::Seconds;

/// Segments to choose from: neighbours differ by four, so the best is missed by an eighth at most.
pub(super) const SEGMENTS: [u32; 8] = [1, 4, 16, 64, 256, 1024, 4096, 16384];

/// Pipelined chain with `k` segments; for a fixed `k` the time is a line in the bytes.
///
/// `T = base + sum_hops (step + n/k / B) + (k-1) max_hop (step + n/k / B)`
///
/// On equal hops `(p - 2 + k)(step + n / (k B))`, least at `k = sqrt((p-2) n / (step B))`, where it is
/// `(sqrt((p-2) step) + sqrt(n / B))^2`. Bound: `n / B` (met for many segments), `ceil(log2 p)` steps
/// (`p - 1` here). Chan et al. 2007; Patarasuk, Faraj and Yuan 2006.
pub(super) fn form(route: &Route, segments: u32) -> Form {
    let k = f64::from(segments);
    let (mut step_sum, mut step_most) = (Seconds::ZERO, Seconds::ZERO);
    let (mut slope_sum, mut slope_most) = (0.0, 0.0_f64);
    for (i, hops) in route.hops().into_iter().enumerate() {
        if hops <= 0.0 {
            continue;
        }
        let (step, slope) = round(route, Pattern::Exchange, route.group.covered(i));
        step_sum += step * hops;
        step_most = step_most.max(step);
        slope_sum += slope * hops;
        slope_most = slope_most.max(slope);
    }
    Form {
        algorithm: Algorithm::Chain,
        protocol: route.protocol,
        fixed: route.base() + step_sum + step_most * (k - 1.0),
        per_byte: (slope_sum + (k - 1.0) * slope_most) / k,
    }
}

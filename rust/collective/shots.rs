//! What an all-reduce costs whose ranks read one another's memory: kernels of inference engines.

use super::form::{Algorithm, Form};
use super::route::Route;

/// One shot: every rank reads the whole buffers of all others and adds them up itself.
///
/// `T = base + step_out + n * max_i peers_i / (share * B_i)`
///
/// `peers_i` of the `p-1` peers lie across level `i` or beyond; `B_i` bytes/s rate of one device;
/// `base` and `share` of the library's `one_shot` line. One exchange of flags, so the least latency;
/// bytes grow with the ranks. Custom all-reduce of TensorRT-LLM and vLLM; MSCCL++ (all-pairs).
pub(super) fn one_shot(route: &Route) -> Form {
    let line = route.shots(route.outermost()).0;
    Form {
        algorithm: Algorithm::OneShot,
        protocol: route.protocol,
        fixed: line.base + route.level(route.outermost()).latency * line.step,
        per_byte: slowest(route) / line.share,
    }
}

/// Two shots: every rank adds up its part of all buffers, then reads the parts of the others.
///
/// `T = base + 2 * step_out + n * max_i 2 peers_i / (p * share * B_i)`
///
/// The bytes of a ring in two steps. `base` and `share` of the library's `two_shot` line; else as above.
pub(super) fn two_shot(route: &Route) -> Form {
    let line = route.shots(route.outermost()).1;
    Form {
        algorithm: Algorithm::TwoShot,
        protocol: route.protocol,
        fixed: line.base + route.level(route.outermost()).latency * (2.0 * line.step),
        per_byte: 2.0 * slowest(route) / (route.ranks() * line.share),
    }
}

/// Seconds per byte that each rank reads from each other one.
fn slowest(route: &Route) -> f64 {
    let mut slowest = 0.0_f64;
    for i in route.path() {
        let inside = f64::from(route.group.covered(i));
        let crossing = if i == 0 {
            route.members(0) - 1.0
        } else {
            route.ranks() - inside
        };
        slowest = slowest.max(crossing / route.sustained(i));
    }
    slowest
}

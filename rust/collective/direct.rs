//! What a collective costs over direct links between all members.

use super::form::{Algorithm, Collective, Form};
use super::route::Route;

/// All pairs at once: one step for all-gather and reduce-scatter, two for all-reduce.
///
/// `T = base + k * step + n * k * (p-1)/p / B`
///
/// `k` = 2 passes for all-reduce, else 1; `B` bytes/s = sum over a member's links to the others.
/// Thakur et al. 2005 (pairwise exchange with all ports in use).
pub(super) fn form(collective: Collective, route: &Route, level: usize) -> Form {
    let passes = collective.passes();
    let ranks = route.ranks();
    Form {
        algorithm: Algorithm::Direct,
        protocol: route.protocol,
        fixed: route.base() + route.step(level) * passes,
        per_byte: passes * (ranks - 1.0) / (ranks * route.unit_rate(level)),
    }
}

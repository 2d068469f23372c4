//! What a collective costs that runs along one dimension of a torus, then along the other.

use super::form::{Algorithm, Collective, Form};
use super::route::Route;
use super::torus;

/// 2-D ring summation of TPU multipods: the whole buffer along one dimension, a part along the other.
///
/// `T = base + k * steps + n * k * ((Y-1)/Y / B_Y + (X-1)/X / (Y * B_X))`
///
/// `k` = 2 passes for all-reduce, else 1; `Y` the dimension that goes first: the one that gives the
/// lower time; `B` bytes/s of a dimension, both directions of a closed ring. One dimension at a time,
/// so the other's links idle: twice the time of rotated buckets on equal closed rings. Bound:
/// `k (p-1)/p n / (2 (B_X + B_Y))`. Ying et al. 2018; Kumar et al. 2020 (multipod, section 3.3).
pub(super) fn form(collective: Collective, route: &Route, level: usize) -> Form {
    let (start, per_byte) = torus::one_by_one(collective, route, level);
    Form {
        algorithm: Algorithm::TwoDimensional,
        protocol: route.protocol,
        fixed: route.base() + start,
        per_byte,
    }
}

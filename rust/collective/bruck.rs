//! What a collective costs in ceil(log2 p) rounds for any number of ranks.

use super::form::{Algorithm, Collective, Form};
use super::rounds::{Pattern, Rounds};
use super::route::Route;

/// Bruck's all-gather and all-to-all, and the dissemination barrier: the same rounds without bytes.
///
/// `T = base + sum_k (step_k + n * part_k / B_k)`, `k` = 0 .. ceil(log2 p) - 1, to the rank `2^k` on
///
/// `part_k` = min(2^k, p - 2^k) / p for all-gather; for all-to-all the share of the `p` blocks whose
/// number has bit `k`. Bound: `ceil(log2 p)` steps (met); `(p-1)/p n / B` (met by all-gather; the
/// all-to-all sends about `log2 p / 2` times as much). Bruck et al. 1997; Hensgen et al. 1988.
pub(super) fn form(collective: Collective, route: &Route) -> Form {
    let ranks = route.group.size;
    let mut rounds = Rounds::new(route);
    let mut distance = 1_u32;
    while distance < ranks {
        let blocks = match collective {
            Collective::AllGather => distance.min(ranks - distance),
            Collective::AllToAll => with_bit(ranks, distance),
            _ => 0,
        };
        rounds.add(
            Pattern::Shift,
            distance,
            f64::from(blocks) / f64::from(ranks),
        );
        distance = distance.saturating_mul(2);
    }
    rounds.form(Algorithm::Bruck)
}

/// How many of the numbers `0 .. count - 1` have the bit `bit`.
fn with_bit(count: u32, bit: u32) -> u32 {
    let period = bit.saturating_mul(2);
    count / period * bit + (count % period).saturating_sub(bit)
}

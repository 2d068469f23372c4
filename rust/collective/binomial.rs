//! What a collective with a root costs over a binomial tree.

use super::form::{Algorithm, Collective, Form};
use super::rounds::{Pattern, Rounds};
use super::route::Route;

/// Binomial broadcast, reduce, gather or scatter.
///
/// `T = base + sum_k (step_k + n * part_k / B_k)`, `k` = 0 .. ceil(log2 p) - 1, over distance `2^k`
///
/// `part_k` = 1 for broadcast and reduce, min(2^k, p - 2^k) / p for gather and scatter (the blocks of the
/// largest subtree, taken to cross the slowest level of the round: an upper bound where another does).
/// Bound: `ceil(log2 p)` steps (met); `n / B` (missed by `log2 p` for broadcast and reduce),
/// `(p-1)/p n / B` (met by gather and scatter). Thakur et al. 2005; Chan et al. 2007.
pub(super) fn form(collective: Collective, route: &Route) -> Form {
    let mut rounds = Rounds::new(route);
    let whole = matches!(collective, Collective::Broadcast | Collective::Reduce);
    add(&mut rounds, route.group.size, whole);
    rounds.form(Algorithm::Binomial)
}

/// The tree's rounds with the whole buffer, or with the blocks of the subtrees.
pub(super) fn add(rounds: &mut Rounds, ranks: u32, whole: bool) {
    let mut distance = 1_u32;
    while distance < ranks {
        let blocks = f64::from(distance.min(ranks - distance)) / f64::from(ranks);
        rounds.add(Pattern::Single, distance, if whole { 1.0 } else { blocks });
        distance = distance.saturating_mul(2);
    }
}

//! What a collective costs whose partners double their distance each round.

use super::form::{Algorithm, Collective, Form};
use super::rounds::{Pattern, Rounds};
use super::route::Route;

/// Recursive doubling: the whole sum each round (all-reduce), or what has been gathered so far.
///
/// `T = base + sum_k (step_k + n * part_k / B_k)`, `k` = 0 .. log2 p - 1, partner at distance `2^k`
///
/// `part_k` = 1 for all-reduce, `2^k / p` for all-gather, 0 for a barrier. All-reduce on other rank
/// counts folds the ranks above a power of two in and out: one round more on each side with the whole buffer.
/// Bound: `ceil(log2 p)` steps (met), `2 (p-1)/p n / B` (missed by `log2 p / 2`). Thakur et al. 2005.
pub(super) fn form(collective: Collective, route: &Route) -> Form {
    let ranks = route.group.size;
    let mut rounds = Rounds::new(route);
    if !ranks.is_power_of_two() {
        rounds.add(Pattern::Folded, 0, 1.0);
        rounds.add(Pattern::Folded, 0, 1.0);
    }
    for k in 0..ranks.ilog2() {
        let part = match collective {
            Collective::AllReduce => 1.0,
            Collective::AllGather => f64::from(1_u32 << k) / f64::from(ranks),
            _ => 0.0,
        };
        rounds.add(partner(ranks), 1 << k, part);
    }
    rounds.form(Algorithm::RecursiveDoubling)
}

/// Where ranks were folded, partners no longer lie at a bit's distance.
pub(super) fn partner(ranks: u32) -> Pattern {
    if ranks.is_power_of_two() {
        Pattern::Exchange
    } else {
        Pattern::Folded
    }
}

//! What a collective costs by recursive halving of the buffer, doubling it again on the way back.

use super::form::{Algorithm, Collective, Form};
use super::recursive_doubling::partner;
use super::rounds::{Pattern, Rounds};
use super::route::Route;

/// Rabenseifner's all-reduce: reduce-scatter by halving, all-gather by doubling; also each alone.
///
/// `T = base + k * sum_j (step_j + n / 2^(j+1) / B_j)`, `j` = 0 .. log2 p - 1, partner at distance `2^j`
///
/// `k` = 2 passes for all-reduce, else 1. The largest messages go to the nearest partner, so outer
/// levels carry little. All-reduce on other rank counts folds the ranks above a power of two in and
/// out. Bound: `2 (p-1)/p n / B` (met for powers of two), `ceil(log2 p)` steps (twice). Rabenseifner
/// 2004; Thakur et al. 2005.
pub(super) fn form(collective: Collective, route: &Route) -> Form {
    let ranks = route.group.size;
    let mut rounds = Rounds::new(route);
    if !ranks.is_power_of_two() {
        rounds.add(Pattern::Folded, 0, 1.0);
    }
    for j in 0..ranks.ilog2() {
        rounds.add(partner(ranks), 1 << j, 0.5 / f64::from(1_u32 << j));
    }
    if collective == Collective::AllReduce {
        rounds.and_back();
    }
    rounds.form(Algorithm::HalvingDoubling)
}

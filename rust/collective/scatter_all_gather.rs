//! What a broadcast costs as a scatter and an all-gather, or a reduce as their mirror image.

use super::form::{Algorithm, Collective, Form};
use super::rounds::Rounds;
use super::route::Route;
use super::{binomial, ring, torus};

/// Binomial scatter, then all-gather round a ring; for a reduce, reduce-scatter, then gather.
///
/// `T = base + (ceil(log2 p) + p - 1) step + 2 (p-1)/p n / B`, each round at its own level's figures
///
/// The all-gather runs on all rings of a torus. Bound: `n / B` (missed by at most 2), `ceil(log2 p)`
/// steps. van de Geijn 1994 (broadcast) and Rabenseifner 2004 (reduce), in Thakur et al. 2005.
pub(super) fn form(route: &Route) -> Form {
    let mut rounds = Rounds::new(route);
    binomial::add(&mut rounds, route.group.size, false);
    let gather = match route.only_torus() {
        Some(level) => torus::form(Collective::AllGather, route, level),
        None => ring::form(Collective::AllGather, route),
    };
    rounds.follow(&gather);
    rounds.form(Algorithm::ScatterAllGather)
}

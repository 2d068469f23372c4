//! What a collective costs that is cut into a product of small rings, as fine as the group divides.

use super::form::{Algorithm, Collective, Form};
use super::route::Route;
use super::torus;
use crate::hardware::LevelKind;

/// Product decomposition: each level's members are cut into prime factors `f`, a ring for each.
///
/// `T = base + sum_f k (f - 1) step_f + n * sum_f k (f - 1)/f / (c_f * B_f)`
///
/// `k` = 2 passes for all-reduce, else 1; `c_f` = product of the factors before (what each device
/// still holds is `n / c_f`); `B_f` bytes/s rate of one device to one partner. A torus level keeps its
/// own rings. The volume stays `k (p-1)/p n` (the bound on one level); the steps fall from `p - 1` to
/// `sum (f - 1)`. Powers of two give recursive halving and doubling. Cho et al. 2019 (`BlueConnect`).
pub(super) fn form(collective: Collective, route: &Route) -> Form {
    let passes = collective.passes();
    let mut fixed = route.base();
    let mut per_byte = 0.0;
    let mut held = 1.0;
    for i in 0..=route.outermost() {
        if route.group.members[i] <= 1 {
            continue;
        }
        if route.level(i).kind.has_dims() {
            let (start, slope) = torus::level(collective, route, i);
            fixed += start;
            per_byte += slope / held;
            held *= route.members(i);
            continue;
        }
        let links = match route.level(i).kind {
            LevelKind::Mesh => route.mesh_links(i),
            _ => 1.0,
        };
        let factors = prime_factors(route.group.members[i]);
        fixed += route.switch_reconfiguration(i, factors.len() as f64) * passes;
        for factor in factors {
            let factor = f64::from(factor);
            fixed += route.step(i) * (passes * (factor - 1.0));
            let slope = passes * (factor - 1.0) * links / (factor * route.message_rate(i));
            per_byte += slope / held;
            held *= factor;
        }
    }
    Form {
        algorithm: Algorithm::Product,
        protocol: route.protocol,
        fixed,
        per_byte,
    }
}

pub(super) fn prime_factors(mut number: u32) -> Vec<u32> {
    let mut factors = Vec::new();
    let mut factor = 2;
    while number > 1 {
        if number.is_multiple_of(factor) {
            factors.push(factor);
            number /= factor;
        } else if factor > number / factor {
            factor = number;
        } else {
            factor += 1;
        }
    }
    factors
}

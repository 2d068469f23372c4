//! What a collective costs that runs level by level, so that outer levels carry only a part.

use super::form::{Algorithm, Collective, Form};
use super::route::Route;
use super::torus;

/// Reduce-scatter inside, the collective between units, all-gather inside; all-to-all inside, then
/// between units.
///
/// `T = base + sum_i k (m_i - 1) step_i + n * sum_i k (m_i - 1)/m_i / (c_i * B_i)`
///
/// `k` = 2 passes for all-reduce, else 1; `m_i` members of level `i`; `c_i` = product of the members
/// below (what each device still holds; 1 for all-to-all, which keeps its volume); `B_i` bytes/s rate
/// of one device: all devices of a unit send at once, each on its own rail. A torus level has the time
/// of its rings. The levels follow one another. Cho et al. 2019 (`BlueConnect`). Broadcast and reduce
/// pass the whole buffer once on each level; gather and scatter, what the units below have together.
pub(super) fn form(collective: Collective, route: &Route) -> Form {
    let passes = collective.passes();
    let mut fixed = route.base();
    let mut per_byte = 0.0;
    for i in 0..=route.outermost() {
        if route.group.members[i] <= 1 {
            continue;
        }
        let inside = f64::from(route.group.covered(i));
        let held = match collective {
            Collective::AllToAll | Collective::Broadcast | Collective::Reduce => 1.0,
            Collective::Gather | Collective::Scatter => route.ranks() / (inside * route.members(i)),
            _ => inside,
        };
        let (start, slope) = if route.level(i).kind.has_dims() {
            torus::level(collective, route, i)
        } else {
            let members = route.members(i);
            let ways = if collective == Collective::Barrier {
                2.0
            } else {
                passes
            };
            let mut start = route.step(i) * (ways * (members - 1.0));
            if collective == Collective::AllToAll {
                start += route.switch_reconfiguration(i, members - 1.0); // a partner a step
            }
            let sent = match collective {
                Collective::Broadcast | Collective::Reduce => 1.0,
                Collective::Barrier => 0.0,
                _ => passes * (members - 1.0) / members,
            };
            (start, sent / route.message_rate(i))
        };
        fixed += start;
        per_byte += slope / held;
    }
    Form {
        algorithm: Algorithm::Hierarchical,
        protocol: route.protocol,
        fixed,
        per_byte,
    }
}

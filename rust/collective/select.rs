//! Which algorithms can run a collective on a group? The least of their forms wins at each size.

use super::form::{Collective, Forms, Protocol};
use super::route::Route;
use super::{bound, direct, hierarchical, in_network, pairwise, point_to_point, ring, torus, tree};
use crate::hardware::{Cluster, Group, LevelKind};

/// Full rate first: where protocols do not differ, that is the one to name.
const PROTOCOLS: [Protocol; 3] = [
    Protocol::Simple,
    Protocol::LowLatency128,
    Protocol::LowLatency,
];

/// All forms of `collective` on `group`.
pub(super) fn candidates(collective: Collective, group: &Group, cluster: &Cluster) -> Forms {
    let mut forms = Forms::FREE;
    if group.size <= 1 || cluster.system.levels.is_empty() {
        return forms;
    }
    for protocol in PROTOCOLS {
        let route = Route::new(group, cluster, protocol);
        if collective == Collective::SendReceive {
            forms.push(point_to_point::form(&route));
        } else if let Some(level) = route.torus() {
            on_torus(&mut forms, collective, &route, level);
        } else {
            on_switches(&mut forms, collective, &route);
        }
    }
    let route = Route::new(group, cluster, Protocol::Simple);
    forms.set_bound(bound::form(collective, &route));
    forms
}

fn on_torus(forms: &mut Forms, collective: Collective, route: &Route, level: usize) {
    forms.push(if route.group.members[level] == route.group.size {
        torus::form(collective, route, level)
    } else {
        hierarchical::form(collective, route)
    });
}

fn on_switches(forms: &mut Forms, collective: Collective, route: &Route) {
    let (innermost, outermost) = (route.innermost(), route.outermost());
    if collective == Collective::AllToAll {
        forms.push(pairwise::form(route));
    } else {
        forms.push(ring::form(collective, route));
    }
    if collective == Collective::AllReduce {
        forms.push(tree::form(route));
        let reduces = route.path().any(|i| route.level(i).in_network_reduction);
        if reduces && route.protocol == Protocol::Simple {
            forms.push(in_network::form(route));
        }
    }
    if innermost < outermost && route.level(outermost).hierarchical {
        forms.push(hierarchical::form(collective, route));
    }
    let full_mesh = innermost == outermost && route.level(innermost).kind == LevelKind::Mesh;
    if full_mesh && collective != Collective::AllToAll {
        forms.push(direct::form(collective, route, innermost));
    }
}

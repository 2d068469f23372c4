//! Which algorithms does the library of a group's levels offer? The least of their forms wins at each size.

use super::form::{Algorithm, Collective, Form, Forms, Protocol};
use super::route::Route;
use super::{
    bound, bruck, direct, hierarchical, in_network, linear, pairwise, point_to_point, ring, torus,
    tree,
};
use crate::error::{Error, Result};
use crate::hardware::{Cluster, Group};

/// Full rate first: where protocols do not differ, that is the one to name.
pub(super) const PROTOCOLS: [Protocol; 3] = [
    Protocol::Simple,
    Protocol::LowLatency128,
    Protocol::LowLatency,
];

/// All forms of `collective` on `group` that the library offers.
pub(super) fn candidates(collective: Collective, group: &Group, cluster: &Cluster) -> Forms {
    offered(&[], collective, group, cluster)
}

/// As `candidates`, less those that are forbidden.
pub(super) fn without(
    forbidden: &[Algorithm],
    collective: Collective,
    group: &Group,
    cluster: &Cluster,
) -> Result<Forms> {
    let forms = offered(forbidden, collective, group, cluster);
    if forms.all().is_empty() && !is_free(group, cluster) {
        let names: Vec<&str> = forbidden.iter().map(|a| a.name()).collect();
        let allowed = format!("to leave an algorithm for {}", collective.name());
        return Err(Error::invalid("forbidden", names.join(", "), allowed));
    }
    Ok(forms)
}

/// True where there is nobody to talk with.
pub(super) fn is_free(group: &Group, cluster: &Cluster) -> bool {
    group.size <= 1 || cluster.system.levels.is_empty()
}

/// No form yet, with what none can beat.
pub(super) fn empty(collective: Collective, group: &Group, cluster: &Cluster) -> Forms {
    let mut forms = Forms::FREE;
    let route = Route::new(group, cluster, Protocol::Simple);
    forms.set_bound(bound::form(collective, &route));
    if collective == Collective::Barrier {
        forms.set_without_bytes();
    }
    forms
}

fn offered(
    forbidden: &[Algorithm],
    collective: Collective,
    group: &Group,
    cluster: &Cluster,
) -> Forms {
    if is_free(group, cluster) {
        return Forms::FREE;
    }
    let mut forms = empty(collective, group, cluster);
    for protocol in PROTOCOLS {
        let route = Route::new(group, cluster, protocol);
        let mut offer = |form: Form| {
            if !forbidden.contains(&form.algorithm) {
                forms.push(form);
            }
        };
        if collective == Collective::SendReceive {
            offer(point_to_point::form(&route));
        } else if let Some(level) = route.torus() {
            offer(on_torus(collective, &route, level));
        } else {
            on_switches(&mut offer, collective, &route);
        }
    }
    forms
}

fn on_torus(collective: Collective, route: &Route, level: usize) -> Form {
    if route.group.members[level] == route.group.size {
        torus::form(collective, route, level)
    } else {
        hierarchical::form(collective, route)
    }
}

fn on_switches(offer: &mut impl FnMut(Form), collective: Collective, route: &Route) {
    match collective {
        Collective::AllToAll => offer(pairwise::form(route)),
        Collective::Gather | Collective::Scatter => offer(linear::form(route)),
        Collective::Barrier => {
            offer(bruck::form(collective, route));
            offer(tree::barrier(route));
            return;
        }
        _ => offer(ring::form(collective, route)),
    }
    if collective == Collective::AllReduce {
        offer(tree::form(route));
        if route.reduces() && route.protocol == Protocol::Simple {
            offer(in_network::form(route));
        }
    }
    let (innermost, outermost) = (route.innermost(), route.outermost());
    if innermost < outermost && route.level(outermost).hierarchical {
        offer(hierarchical::form(collective, route));
    }
    if route.full_mesh() && Algorithm::Direct.carries_out().contains(&collective) {
        offer(direct::form(collective, route, innermost));
    }
}

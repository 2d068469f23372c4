//! Which algorithms does the library of a group's levels offer?

use super::form::{Algorithm, Collective, Form, Protocol};
use super::route::Route;
use super::{
    bruck, direct, forced_algorithms, hierarchical, host_path, in_network, linear, pairwise,
    point_to_point, ramp, ring, torus, tree,
};
use crate::hardware::{Cluster, Group};

/// True where there is nobody to talk with.
pub(super) fn is_free(group: &Group, cluster: &Cluster) -> bool {
    group.size <= 1 || cluster.system.levels.is_empty()
}

/// The forms of `collective` under the route's protocol that the library offers.
pub(super) fn offered(
    offer: &mut impl FnMut(Form),
    collective: Collective,
    route: &Route,
    cluster: &Cluster,
) {
    if collective == Collective::SendReceive {
        offer(point_to_point::form(route));
    } else if let Some(network) = route.single_hop() {
        offer(ramp::form(collective, route, network, route.outermost()));
    } else if let Some(level) = route.torus() {
        offer(on_torus(collective, route, level));
    } else if let Some(host) = cluster
        .system
        .host
        .as_ref()
        .filter(|_| route.through_host())
        && Algorithm::HostStaged.carries_out().contains(&collective)
    {
        let devices = forced_algorithms::active_devices_of_node(cluster);
        offer(host_path::staged(collective, route, host, devices));
    } else {
        on_switches(offer, collective, route);
    }
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
    }
    if route.protocol == Protocol::Simple && switches_help(collective, route) {
        offer(in_network::form(collective, route));
    }
    let (innermost, outermost) = (route.innermost(), route.outermost());
    if innermost < outermost && route.level(outermost).hierarchical {
        offer(hierarchical::form(collective, route));
    }
    if route.offers_direct() && Algorithm::Direct.carries_out().contains(&collective) {
        offer(direct::form(collective, route, innermost));
    }
}

/// True where switches on the way do a part of the work.
fn switches_help(collective: Collective, route: &Route) -> bool {
    match collective {
        Collective::AllReduce => route.reduces(),
        Collective::ReduceScatter | Collective::AllGather => route.reduces_parts(),
        _ => false,
    }
}

//! What do the algorithms cost that the user asks for, whether or not the library offers them?

use super::form::{Algorithm, Collective, Forms, Protocol};
use super::route::Route;
use super::select::{PROTOCOLS, empty, is_free};
use super::{
    binomial, bruck, chain, direct, halving_doubling, hierarchical, host_path, in_network, linear,
    pairwise, parameter_server, point_to_point, product, recursive_doubling, ring,
    scatter_all_gather, torus, tree, two_dimensional, weight_streaming,
};
use crate::error::{Error, Result};
use crate::hardware::{Cluster, Group};

/// The least of `allowed`, each checked against what it needs.
pub(super) fn among(
    allowed: &[Algorithm],
    collective: Collective,
    group: &Group,
    cluster: &Cluster,
) -> Result<Forms> {
    if allowed.is_empty() {
        return Err(Error::invalid("algorithms", "none", "one or more"));
    }
    if is_free(group, cluster) {
        return Ok(Forms::FREE);
    }
    let mut forms = empty(collective, group, cluster);
    for &algorithm in allowed {
        let route = Route::new(group, cluster, Protocol::Simple);
        algorithm.check(collective, &route, cluster.system.host.as_ref())?;
        for protocol in PROTOCOLS {
            let route = Route::new(group, cluster, protocol);
            push(&mut forms, algorithm, collective, &route, cluster);
        }
    }
    Ok(forms)
}

/// Adds the forms of one algorithm under the route's protocol; what it needs has been checked.
fn push(
    forms: &mut Forms,
    algorithm: Algorithm,
    collective: Collective,
    route: &Route,
    cluster: &Cluster,
) {
    let level = route.only_torus().unwrap_or_else(|| route.innermost());
    let form = match algorithm {
        Algorithm::Ring => ring::form(collective, route),
        Algorithm::BidirectionalRing => ring::both_ways(collective, route),
        Algorithm::Tree if collective == Collective::Barrier => tree::barrier(route),
        Algorithm::Tree => tree::form(route),
        Algorithm::Hierarchical => hierarchical::form(collective, route),
        Algorithm::Direct => direct::form(collective, route, level),
        Algorithm::Torus => torus::form(collective, route, level),
        Algorithm::Pairwise => pairwise::form(route),
        Algorithm::PointToPoint => point_to_point::form(route),
        Algorithm::Linear => linear::form(route),
        Algorithm::RecursiveDoubling => recursive_doubling::form(collective, route),
        Algorithm::HalvingDoubling => halving_doubling::form(collective, route),
        Algorithm::Bruck => bruck::form(collective, route),
        Algorithm::Binomial => binomial::form(collective, route),
        Algorithm::ScatterAllGather => scatter_all_gather::form(route),
        Algorithm::Product => product::form(collective, route),
        Algorithm::TwoDimensional => two_dimensional::form(collective, route, level),
        Algorithm::ParameterServer { servers } => parameter_server::form(route, servers),
        Algorithm::WeightStreaming { fan_out } => {
            weight_streaming::form(collective, route, fan_out)
        }
        Algorithm::InNetwork
        | Algorithm::Chain
        | Algorithm::HostReduce
        | Algorithm::HostStaged
        | Algorithm::Ramp => {
            return push_simple(forms, algorithm, collective, route, cluster);
        }
    };
    forms.push(form);
}

/// The algorithms that know no protocol but large chunks.
fn push_simple(
    forms: &mut Forms,
    algorithm: Algorithm,
    collective: Collective,
    route: &Route,
    cluster: &Cluster,
) {
    if route.protocol != Protocol::Simple {
        return;
    }
    match (algorithm, &cluster.system.host) {
        (Algorithm::InNetwork, _) => forms.push(in_network::form(route)),
        (Algorithm::Chain, _) => {
            for segments in chain::SEGMENTS {
                forms.push(chain::form(route, segments));
            }
        }
        (Algorithm::HostReduce, Some(host)) => {
            forms.push(host_path::in_processors(route, host, in_a_node(cluster)));
        }
        (Algorithm::HostStaged, Some(host)) => {
            forms.push(host_path::staged(
                collective,
                route,
                host,
                in_a_node(cluster),
            ));
        }
        _ => {}
    }
}

/// Devices of one node that are at work and share its host.
fn in_a_node(cluster: &Cluster) -> f64 {
    f64::from(cluster.system.devices_per_node.min(cluster.devices).max(1))
}

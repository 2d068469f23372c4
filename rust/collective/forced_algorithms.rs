//! What do the algorithms cost that the user asks for, whether or not the library offers them?

use super::form::{Algorithm, Collective, Form, Protocol};
use super::route::Route;
use super::{
    binomial, bruck, chain, direct, halving_doubling, hierarchical, host_path, in_network, linear,
    pairwise, parameter_server, point_to_point, product, ramp, recursive_doubling, ring,
    scatter_all_gather, shots, torus, tree, two_dimensional, weight_streaming,
};
use crate::hardware::Cluster;

/// Adds the forms of one algorithm under the route's protocol; what it needs has been checked.
pub(super) fn forms(
    offer: &mut impl FnMut(Form),
    algorithm: Algorithm,
    collective: Collective,
    route: &Route,
    cluster: &Cluster,
) {
    let level = || route.only_torus().unwrap_or_else(|| route.innermost());
    let form = match algorithm {
        Algorithm::Ring => ring::form(collective, route),
        Algorithm::BidirectionalRing => ring::both_ways(collective, route),
        Algorithm::Tree if collective == Collective::Barrier => tree::barrier(route),
        Algorithm::Tree => tree::form(route),
        Algorithm::Hierarchical => hierarchical::form(collective, route),
        Algorithm::Direct => direct::form(collective, route, level()),
        Algorithm::Torus => torus::form(collective, route, level()),
        Algorithm::Pairwise => pairwise::form(route),
        Algorithm::PointToPoint => point_to_point::form(route),
        Algorithm::Linear => linear::form(route),
        Algorithm::RecursiveDoubling => recursive_doubling::form(collective, route),
        Algorithm::HalvingDoubling => halving_doubling::form(collective, route),
        Algorithm::Bruck => bruck::form(collective, route),
        Algorithm::Binomial => binomial::form(collective, route),
        Algorithm::ScatterAllGather => scatter_all_gather::form(route),
        Algorithm::Product => product::form(collective, route),
        Algorithm::TwoDimensional => two_dimensional::form(collective, route, level()),
        Algorithm::ParameterServer { servers } => parameter_server::form(route, servers),
        Algorithm::WeightStreaming { fan_out } => {
            weight_streaming::form(collective, route, fan_out)
        }
        Algorithm::InNetwork
        | Algorithm::OneShot
        | Algorithm::TwoShot
        | Algorithm::Chain
        | Algorithm::HostReduce
        | Algorithm::HostStaged
        | Algorithm::Ramp => {
            return simple(offer, algorithm, collective, route, cluster);
        }
    };
    offer(form);
}

/// The algorithms that know no protocol but large chunks.
fn simple(
    offer: &mut impl FnMut(Form),
    algorithm: Algorithm,
    collective: Collective,
    route: &Route,
    cluster: &Cluster,
) {
    if route.protocol != Protocol::Simple {
        return;
    }
    match (algorithm, &cluster.system.host) {
        (Algorithm::InNetwork, _) => offer(in_network::form(collective, route)),
        (Algorithm::OneShot, _) => offer(shots::one_shot(route)),
        (Algorithm::TwoShot, _) => offer(shots::two_shot(route)),
        (Algorithm::Chain, _) => {
            for segments in chain::SEGMENTS {
                offer(chain::form(route, segments));
            }
        }
        (Algorithm::Ramp, _) => {
            if let Some(network) = route.single_hop() {
                offer(ramp::form(collective, route, network, route.outermost()));
            }
        }
        (Algorithm::HostReduce, Some(host)) => {
            offer(host_path::in_processors(
                route,
                host,
                active_devices_of_node(cluster),
            ));
        }
        (Algorithm::HostStaged, Some(host)) => {
            offer(host_path::staged(
                collective,
                route,
                host,
                active_devices_of_node(cluster),
            ));
        }
        _ => {}
    }
}

/// Devices of one node that are at work and share its host.
pub(super) fn active_devices_of_node(cluster: &Cluster) -> f64 {
    f64::from(cluster.system.devices_per_node.min(cluster.devices).max(1))
}

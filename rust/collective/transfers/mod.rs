//! Which transfers does a collective run on the links of a cluster? One file per algorithm.

mod binomial;
mod bruck;
mod chain;
mod direct;
mod doubling;
mod hierarchical;
mod hierarchical_root;
mod host_reduce;
mod host_staged;
mod in_network;
mod linear;
mod mirrors;
mod pairwise;
mod parameter_server;
mod plan;
mod point_to_point;
mod product;
mod ramp;
mod ring;
mod scatter_all_gather;
mod torus;
mod torus_exchange;
mod torus_root;
mod tree;
mod two_dimensional;
mod weight_streaming;

use super::form::Protocol;
use super::route::{GroupPlacement, Route};
use crate::collective::{Algorithm, Collective};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::hardware::Cluster;
use crate::solve::Flows;
use crate::units::Bytes;
use chain::Pace;
use plan::TransferPlan;

pub use plan::Ranks;

/// Segments of a ring's broadcast for each rank: filling the ring adds little.
const STREAM: u32 = 128;

/// The transfers of `collective` by `algorithm`, of all groups of the cluster like this one at once.
///
/// Bytes as in `Forms`. Start-up times of a library's protocols are left out: a message costs the latency of the
/// level that it crosses and its bytes at the sustained rates. All turns of optical switches pass before the
/// first of them; detours of an adaptive dragonfly are left out, its links count as one.
/// Rings, trees between units and all-to-alls spread over all links of a unit; what one rank sends another
/// keeps to its device's share of them. Rounds start when the round before has ended everywhere. A `Chain` has
/// the number of segments that suits the bytes.
pub fn transfers(
    algorithm: Algorithm,
    collective: Collective,
    cluster: &Cluster,
    ranks: Ranks,
    bytes: Bytes,
) -> Result<Flows> {
    let control = Control::new();
    cancellable_transfers(algorithm, collective, cluster, (ranks, bytes), &control)
}

/// As `transfers`, until `control` is cancelled.
pub(super) fn cancellable_transfers(
    algorithm: Algorithm,
    collective: Collective,
    cluster: &Cluster,
    (ranks, bytes): (Ranks, Bytes),
    control: &Control,
) -> Result<Flows> {
    if !is_known(algorithm, collective) {
        return Err(unknown(algorithm, collective));
    }
    let mut plan = TransferPlan::new(cluster, ranks, control)?;
    if plan.size() == 1 {
        return plan.flows.after(0.0);
    }
    let place = GroupPlacement::new(&plan.group, cluster);
    let route = Route::new(&place, cluster, Protocol::Simple);
    algorithm.check(collective, &route, cluster.system.host.as_ref())?;
    match algorithm {
        Algorithm::HostStaged => plan = plan.with_hosts(route.sustained(0))?,
        Algorithm::HostReduce => plan = plan.with_hosts(f64::INFINITY)?,
        _ => {}
    }
    if let (Algorithm::Ramp, Some(network)) = (algorithm, route.single_hop()) {
        plan.flows = plan.flows.with_links(ramp::links(&plan, network)?)?;
    }
    let bytes = bytes.value();
    match algorithm {
        Algorithm::Bruck => bruck::add(&mut plan, collective, bytes)?,
        Algorithm::RecursiveDoubling => doubling::recursive(&mut plan, collective, bytes)?,
        Algorithm::HalvingDoubling => doubling::halving(&mut plan, collective, bytes)?,
        Algorithm::Binomial => binomial::add(&mut plan, collective, bytes)?,
        Algorithm::ScatterAllGather => scatter_all_gather::add(&mut plan, collective, bytes)?,
        _ => {
            for group in 0..plan.groups() {
                transfers_of_group(&mut plan, group, algorithm, collective, bytes)?;
            }
        }
    }
    let turns = plan
        .mirrors
        .turns(mirrors::pass_count(algorithm, collective));
    plan.flows.after(turns)
}

/// The transfers of one group, for algorithms whose groups do not keep step.
fn transfers_of_group(
    plan: &mut TransferPlan,
    group: u32,
    algorithm: Algorithm,
    collective: Collective,
    bytes: f64,
) -> Result<()> {
    use Collective::{AllToAll, Barrier, Broadcast, Gather, Reduce, Scatter};
    let stream = matches!(collective, Broadcast | Reduce);
    match algorithm {
        Algorithm::PointToPoint => point_to_point::add(plan, group, bytes),
        Algorithm::Pairwise => pairwise::add(plan, group, bytes),
        Algorithm::Linear => linear::add(plan, group, collective, bytes),
        Algorithm::Ramp => ramp::add(plan, group, collective, bytes),
        Algorithm::Direct => direct::add(plan, group, collective, bytes),
        Algorithm::Product => product::add(plan, group, collective, bytes),
        Algorithm::TwoDimensional => two_dimensional::add(plan, group, collective, bytes),
        Algorithm::Tree => tree::add(plan, group, bytes),
        Algorithm::InNetwork => in_network::add(plan, group, collective, bytes),
        Algorithm::ParameterServer { servers } => {
            parameter_server::add(plan, group, servers, bytes)
        }
        Algorithm::WeightStreaming { fan_out } => {
            weight_streaming::add(plan, group, (collective, fan_out), bytes)
        }
        Algorithm::Chain => {
            let pieces = chain::segments(plan, bytes);
            chain::add(plan, group, collective, (bytes, pieces), Pace::Messages)
        }
        Algorithm::Ring if stream => {
            let pieces = STREAM * plan.size();
            chain::add(plan, group, collective, (bytes, pieces), Pace::Stream)
        }
        Algorithm::Ring => ring::add(plan, group, collective, bytes).map(drop),
        Algorithm::HostReduce => host_reduce::add(plan, group, bytes),
        Algorithm::HostStaged => host_staged::add(plan, group, collective, bytes),
        Algorithm::BidirectionalRing => torus::both_ways(plan, group, collective, bytes),
        Algorithm::Hierarchical if collective == AllToAll => {
            hierarchical::exchange(plan, group, bytes)
        }
        Algorithm::Hierarchical if stream || matches!(collective, Gather | Scatter | Barrier) => {
            hierarchical_root::add(plan, group, collective, bytes)
        }
        Algorithm::Hierarchical => hierarchical::add(plan, group, collective, bytes),
        Algorithm::Torus if collective == AllToAll => torus_exchange::add(plan, group, bytes),
        Algorithm::Torus if stream || collective == Barrier => {
            torus_root::stream(plan, group, collective, bytes)
        }
        Algorithm::Torus if matches!(collective, Gather | Scatter) => {
            torus_root::collect(plan, group, collective, bytes)
        }
        Algorithm::Torus => torus::add(plan, group, collective, bytes).map(drop),
        _ => Err(unknown(algorithm, collective)),
    }
}

/// Algorithms whose messages are laid out here: all that run on a cluster's links alone.
fn is_known(algorithm: Algorithm, collective: Collective) -> bool {
    let from_a_root = matches!(collective, Collective::Broadcast | Collective::Reduce);
    let not_here = match algorithm {
        Algorithm::Tree => collective == Collective::Barrier,
        Algorithm::HostStaged => from_a_root,
        Algorithm::OneShot | Algorithm::TwoShot => true, // reads of memory, not messages
        _ => false,
    };
    !not_here && algorithm.carries_out().contains(&collective)
}

fn unknown(algorithm: Algorithm, collective: Collective) -> Error {
    let able = algorithm.carries_out().iter();
    let able: Vec<&str> = able
        .filter(|&&able| is_known(algorithm, able))
        .map(|able| able.name())
        .collect();
    let allowed = if able.is_empty() {
        "an algorithm of messages: not one_shot, two_shot".to_owned()
    } else {
        format!("{} with {}", able.join(", "), algorithm.name())
    };
    let got = format!("{} for {}", algorithm.name(), collective.name());
    Error::invalid("algorithm", got, allowed)
}

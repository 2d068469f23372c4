//! Which transfers does a collective run on the links of a cluster? One file per algorithm.

mod direct;
mod hierarchical;
mod pairwise;
mod plan;
mod point_to_point;
mod ring;
mod torus;

use crate::collective::{Algorithm, Collective};
use crate::error::{Error, Result};
use crate::hardware::Cluster;
use crate::solve::Flows;
use crate::units::Bytes;
use plan::Plan;

pub use plan::Ranks;

/// The transfers of `collective` by `algorithm`, of all groups of the cluster like this one at once.
///
/// Bytes as in `Forms`. Start-up times of a library's protocols are left out: a message costs the
/// latency of the level that it crosses and its bytes at the sustained rates.
pub fn transfers(
    algorithm: Algorithm,
    collective: Collective,
    cluster: &Cluster,
    ranks: Ranks,
    bytes: Bytes,
) -> Result<Flows> {
    let mut plan = Plan::new(cluster, ranks)?;
    let bytes = bytes.value();
    for group in 0..plan.groups() {
        match (algorithm, collective) {
            (Algorithm::PointToPoint, Collective::SendReceive) => {
                point_to_point::add(&mut plan, group, bytes)?;
            }
            (Algorithm::Pairwise, Collective::AllToAll) => pairwise::add(&mut plan, group, bytes)?,
            (Algorithm::Hierarchical, Collective::AllToAll) => {
                hierarchical::exchange(&mut plan, group, bytes)?;
            }
            (_, collective) if !reduces_or_gathers(collective) => {
                return Err(unknown(algorithm, collective));
            }
            (Algorithm::Ring, _) => ring::add(&mut plan, group, collective, bytes)?,
            (Algorithm::Direct, _) => direct::add(&mut plan, group, collective, bytes)?,
            (Algorithm::Hierarchical, _) => hierarchical::add(&mut plan, group, collective, bytes)?,
            (Algorithm::Torus, _) => torus::add(&mut plan, group, collective, bytes)?,
            _ => return Err(unknown(algorithm, collective)),
        }
    }
    Ok(plan.flows)
}

fn reduces_or_gathers(collective: Collective) -> bool {
    matches!(
        collective,
        Collective::AllReduce | Collective::ReduceScatter | Collective::AllGather
    )
}

fn unknown(algorithm: Algorithm, collective: Collective) -> Error {
    Error::invalid(
        "algorithm",
        format!("{algorithm:?} for {collective:?}"),
        "Ring, Direct, Hierarchical or Torus for AllReduce, ReduceScatter and AllGather; \
         Pairwise or Hierarchical for AllToAll; PointToPoint for SendReceive",
    )
}

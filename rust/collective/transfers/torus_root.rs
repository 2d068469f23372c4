//! Which transfers run between one rank of a torus and all others?

use super::plan::TransferPlan;
use super::torus::{self, Axes};
use crate::collective::Collective;
use crate::error::Result;
use crate::hardware::RouteChoice;
use crate::solve::Transfer;

/// Pieces of a broadcast that travel one behind the other.
const SEGMENTS: u32 = 1024;

/// Broadcast from rank 0, reduce to it, or both without bytes for a barrier: piece by piece along the first
/// dimension, from there along the next, each rank from its neighbour.
pub(super) fn stream(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<()> {
    let axes = torus::axes(plan)?;
    let next = |rank: &u32| (*rank > 0).then(|| towards_root(*rank, &axes));
    let mut ranks: Vec<u32> = (1..plan.size()).collect(); // by steps from the root
    ranks.sort_by_key(|&rank| std::iter::successors(Some(rank), next).count());
    let (pieces, size) = match collective {
        Collective::Barrier => (1, 0.0),
        _ => (SEGMENTS, bytes / f64::from(SEGMENTS)),
    };
    let nobody = vec![None; plan.size() as usize];
    let (mut up, mut down) = (nobody.clone(), nobody);
    for _ in 0..pieces {
        let mut got: Vec<Vec<u32>> = vec![Vec::new(); plan.size() as usize];
        if collective != Collective::Broadcast {
            for &rank in ranks.iter().rev() {
                let ends = (rank, towards_root(rank, &axes));
                let last = &mut up[rank as usize];
                pass(plan, group, ends, (size, last), &mut got)?;
            }
        }
        if collective != Collective::Reduce {
            for &rank in &ranks {
                got[rank as usize].clear();
                let ends = (towards_root(rank, &axes), rank);
                let last = &mut down[rank as usize];
                pass(plan, group, ends, (size, last), &mut got)?;
            }
        }
    }
    Ok(())
}

/// Sends `size` bytes once the sender has got all, behind the piece before.
fn pass(
    plan: &mut TransferPlan,
    group: u32,
    (from, to): (u32, u32),
    (size, last): (f64, &mut Option<u32>),
    got: &mut [Vec<u32>],
) -> Result<()> {
    let message = Transfer {
        size,
        after: &got[from as usize],
        behind: *last,
        ..Transfer::default()
    };
    let sent = plan.send((plan.device(group, from), plan.device(group, to)), message)?;
    *last = Some(sent);
    got[to as usize].push(sent);
    Ok(())
}

/// The neighbour one step nearer to rank 0, along the last dimension in which a rank differs from it.
fn towards_root(rank: u32, axes: &Axes) -> u32 {
    let (mut below, mut found) = (1, (1, 0, (1, false)));
    for &(extent, closed) in axes {
        let place = rank / below % extent;
        if place > 0 {
            found = (below, place, (extent, closed));
        }
        below *= extent;
    }
    let (below, place, (extent, closed)) = found;
    let next = if closed && 2 * place > extent {
        (place + 1) % extent
    } else {
        place - 1
    };
    rank - place * below + next * below
}

/// Gather to rank 0 or scatter from it: along the last dimension first, each member of a line sends what it
/// has to the one at its start (a scatter is the same backwards); a phase starts when the one before has ended.
pub(super) fn collect(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<()> {
    let axes = torus::axes(plan)?;
    let gather = collective == Collective::Gather;
    let mut ready: Option<u32> = None;
    for place in 0..axes.len() {
        let axis = if gather {
            axes.len() - 1 - place
        } else {
            place
        };
        let below: u32 = axes[..axis].iter().map(|axis| axis.0).product();
        let held = plan.size() / (below * axes[axis].0); // blocks that later dimensions bring together
        let size = bytes * f64::from(held) / f64::from(plan.size());
        let mut sent = Vec::new();
        for rank in (0..below * axes[axis].0).filter(|rank| rank / below > 0) {
            let ends = [rank % below, rank].map(|rank| plan.device(group, rank));
            let ends = if gather {
                (ends[1], ends[0])
            } else {
                (ends[0], ends[1])
            };
            for way in [RouteChoice::AllLinks, RouteChoice::Turned] {
                let half = Transfer {
                    size: size / 2.0,
                    after: ready.as_slice(),
                    ..Transfer::default()
                };
                sent.push(plan.send_by(way, ends, half)?);
            }
        }
        ready = Some(plan.meet(&sent)?);
    }
    Ok(())
}

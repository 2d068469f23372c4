//! Which transfers does a ring over all ranks run?

use super::plan::TransferPlan;
use crate::collective::Collective;
use crate::error::Result;
use crate::hardware::{LevelKind, RouteChoice};
use crate::solve::Transfer;

/// `p-1` steps a pass, two passes for all-reduce: in each, every rank sends the part of `n/p` bytes
/// that it got in the step before to the next rank, once its own earlier part has left. Returns the last
/// transfer to each rank.
pub(super) fn add(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<Vec<u32>> {
    let size = plan.size();
    let devices: Vec<u32> = (0..size).map(|rank| plan.device(group, rank)).collect();
    let passes = if collective == Collective::AllReduce {
        2
    } else {
        1
    };
    let part = bytes / f64::from(size);
    let ready = plan.ready();
    let strides = strides(plan);
    let mut last = Vec::new();
    for stride in &strides {
        let order: Vec<u32> = (0..size).map(|place| place * stride % size).collect();
        let ring: Vec<u32> = order.iter().map(|&rank| devices[rank as usize]).collect();
        let part = part / strides.len() as f64;
        let got = around(
            plan,
            &ring,
            (RouteChoice::AllLinks, passes * (size - 1)),
            part,
            &ready,
        )?;
        let places = order.iter().zip(got);
        last.extend(places.map(|(&rank, transfer)| (rank, transfer)));
    }
    if strides.len() == 1 {
        return Ok(last.into_iter().map(|(_, transfer)| transfer).collect());
    }
    by_rank(plan, &last)
}

/// Ranks from one place of a ring to the next: 1, and on a full mesh all that lead through every rank, a ring
/// for each. Those of a prime number of ranks use all links.
fn strides(plan: &TransferPlan) -> Vec<u32> {
    let size = plan.size();
    let level = plan.group.outermost();
    let inside = plan.group.members[level] == size;
    if inside && plan.cluster.system.levels[level].kind == LevelKind::Mesh {
        let through_all = |stride: &u32| (1..=size).all(|n| n == 1 || size % n + stride % n > 0);
        return (1..size).filter(through_all).collect();
    }
    vec![1]
}

/// What each rank waits for, if it is in several rings.
fn by_rank(plan: &mut TransferPlan, last: &[(u32, u32)]) -> Result<Vec<u32>> {
    let size = plan.size();
    let meet = |rank: u32| {
        let all: Vec<u32> = last
            .iter()
            .filter(|one| one.0 == rank)
            .map(|one| one.1)
            .collect();
        plan.meet(&all)
    };
    (0..size).map(meet).collect()
}

/// `steps` steps of a ring over `devices`, `part` bytes a step by `way`, none before `after` (by place, may be
/// empty); returns by place when it has got its last part and sent its own.
pub(super) fn around(
    plan: &mut TransferPlan,
    devices: &[u32],
    (way, steps): (RouteChoice, u32),
    part: f64,
    after: &[u32],
) -> Result<Vec<u32>> {
    let count = devices.len();
    let mut sent: Vec<u32> = Vec::new();
    for _ in 0..steps {
        let mut now = Vec::with_capacity(count);
        for place in 0..count {
            let ends = (devices[place], devices[(place + 1) % count]);
            let got = sent.get((place + count - 1) % count).or(after.get(place));
            let message = Transfer {
                size: part,
                after: got.map(std::slice::from_ref).unwrap_or_default(),
                behind: sent.get(place).copied(),
                ..Transfer::default()
            };
            now.push(plan.send_by(way, ends, message)?);
        }
        sent = now;
    }
    if sent.is_empty() {
        return Ok(after.to_vec());
    }
    let ends = (0..count).map(|place| [sent[(place + count - 1) % count], sent[place]]);
    ends.map(|both| plan.meet(&both)).collect()
}

//! Which transfers run level by level between one rank and all others?

use super::plan::TransferPlan;
use crate::collective::Collective;
use crate::error::Result;
use crate::hardware::{MAX_LEVELS, RouteChoice};
use crate::solve::Transfer;

/// Pieces of a broadcast that travel one behind the other.
const SEGMENTS: u32 = 1024;

/// On each level the first ranks of the units form chains: whole buffers pass them piece by piece (broadcast
/// from the outermost level inwards, reduce outwards), parts go to the first rank or come from it one after
/// the other (gather and scatter), and so does word that all have come (barrier: outwards and back).
pub(super) fn add(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<()> {
    let levels: Vec<usize> = (0..MAX_LEVELS)
        .filter(|&level| plan.group.members[level] > 1)
        .collect();
    let mut ready = None;
    if matches!(
        collective,
        Collective::Reduce | Collective::Gather | Collective::Barrier
    ) {
        for &level in &levels {
            ready = one(plan, (group, level), (collective, true), bytes, ready)?;
        }
    }
    if !matches!(collective, Collective::Reduce | Collective::Gather) {
        for &level in levels.iter().rev() {
            ready = one(plan, (group, level), (collective, false), bytes, ready)?;
        }
    }
    Ok(())
}

/// All chains of a level, after `ready`; returns when the last of them has ended.
fn one(
    plan: &mut TransferPlan,
    (group, level): (u32, usize),
    (collective, to_root): (Collective, bool),
    bytes: f64,
    ready: Option<u32>,
) -> Result<Option<u32>> {
    let (below, members) = (plan.group.covered(level), plan.group.members[level]);
    let mut ends = Vec::new();
    for first in (0..plan.size()).step_by((below * members) as usize) {
        let ranks = (0..members).map(|m| first + m * below);
        let mut devices: Vec<u32> = ranks.map(|rank| plan.device(group, rank)).collect();
        if matches!(collective, Collective::Broadcast | Collective::Reduce) {
            if to_root {
                devices.reverse();
            }
            ends.extend(stream(plan, &devices, bytes, ready)?);
        } else {
            let held = match collective {
                Collective::Barrier => 0.0,
                _ => bytes * f64::from(below) / f64::from(plan.size()),
            };
            ends.extend(one_by_one(plan, &devices, (held, to_root), ready)?);
        }
    }
    plan.meet(&ends).map(Some)
}

fn stream(
    plan: &mut TransferPlan,
    devices: &[u32],
    bytes: f64,
    ready: Option<u32>,
) -> Result<Option<u32>> {
    let mut sent = vec![None; devices.len()];
    let mut got = None;
    for _ in 0..SEGMENTS {
        got = ready;
        for (ends, sent) in devices.windows(2).zip(&mut sent) {
            let after = got;
            let message = Transfer {
                size: bytes / f64::from(SEGMENTS),
                after: after.as_slice(),
                behind: *sent,
                ..Transfer::default()
            };
            got = Some(plan.send_by(RouteChoice::OwnShare, (ends[0], ends[1]), message)?);
            *sent = got;
        }
    }
    Ok(got)
}

fn one_by_one(
    plan: &mut TransferPlan,
    devices: &[u32],
    (size, to_root): (f64, bool),
    ready: Option<u32>,
) -> Result<Option<u32>> {
    let mut last = ready;
    for &other in &devices[1..] {
        let after = last;
        let message = Transfer {
            size,
            after: after.as_slice(),
            ..Transfer::default()
        };
        let ends = if to_root {
            (other, devices[0])
        } else {
            (devices[0], other)
        };
        last = Some(plan.send_by(RouteChoice::OwnShare, ends, message)?);
    }
    Ok(last)
}

//! Which transfers does a collective run that goes level by level?

use super::plan::TransferPlan;
use super::ring;
use crate::collective::Collective;
use crate::error::Result;
use crate::hardware::{MAX_LEVELS, RouteChoice};
use crate::solve::Transfer;

/// Rings level by level: reduce-scatter from the innermost level outwards on what each device still
/// holds, all-gather back inwards (Cho et al. 2019, `BlueConnect`). A level starts when the one before has
/// ended in the whole group; each device keeps to its own share of the links, its rail.
pub(super) fn add(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<()> {
    let scatter = (0..MAX_LEVELS).filter(|_| collective != Collective::AllGather);
    let gather = (0..MAX_LEVELS).rev();
    let gather = gather.filter(|_| collective != Collective::ReduceScatter);
    let mut ready = Vec::new();
    for level in scatter.chain(gather) {
        let held = bytes / f64::from(plan.group.covered(level) * plan.group.members[level]);
        let place = (plan.group.covered(level), plan.group.members[level]);
        ready = each_ring(plan, group, place, &ready, |plan, devices, after| {
            ring::around(
                plan,
                devices,
                (RouteChoice::OwnShare, place.1 - 1),
                held,
                after,
            )
        })?;
    }
    Ok(())
}

/// All-to-all level by level: at each, every device exchanges with its peers there, one after another,
/// what must go to their units.
pub(super) fn exchange(plan: &mut TransferPlan, group: u32, bytes: f64) -> Result<()> {
    let mut ready = Vec::new();
    for level in 0..MAX_LEVELS {
        let part = bytes / f64::from(plan.group.members[level]);
        let place = (plan.group.covered(level), plan.group.members[level]);
        ready = each_ring(plan, group, place, &ready, |plan, devices, after| {
            rounds(plan, devices, part, after)
        })?;
    }
    Ok(())
}

/// In round `k` each device sends `part` bytes to the device `k` places on, once the round before has ended;
/// returns what each place waits for.
fn rounds(plan: &mut TransferPlan, devices: &[u32], part: f64, after: &[u32]) -> Result<Vec<u32>> {
    let count = devices.len();
    let mut got = after.to_vec();
    for ahead in 1..count {
        let mut now = Vec::with_capacity(count);
        for place in 0..count {
            let to = (place + ahead) % count;
            let message = Transfer {
                size: part,
                after: got.get(place).map(std::slice::from_ref).unwrap_or_default(),
                ..Transfer::default()
            };
            now.push(plan.send_by(
                RouteChoice::OwnShare,
                (devices[place], devices[to]),
                message,
            )?);
        }
        got = vec![plan.meet(&now)?; count];
    }
    Ok(got)
}

/// Runs `add` on each set of `members` of the group's devices that lie `below` ranks apart; `ready` holds, by
/// rank, what must have arrived, and so does the result: all.
pub(super) fn each_ring(
    plan: &mut TransferPlan,
    group: u32,
    (below, members): (u32, u32),
    ready: &[u32],
    mut add: impl FnMut(&mut TransferPlan, &[u32], &[u32]) -> Result<Vec<u32>>,
) -> Result<Vec<u32>> {
    if members <= 1 {
        return Ok(ready.to_vec());
    }
    let mut all = Vec::with_capacity(plan.size() as usize);
    for first in (0..plan.size()).filter(|rank| (rank / below).is_multiple_of(members)) {
        let ranks: Vec<u32> = (0..members).map(|m| first + m * below).collect();
        let devices: Vec<u32> = ranks.iter().map(|&rank| plan.device(group, rank)).collect();
        let before = ranks.iter().map(|&rank| ready.get(rank as usize));
        let before: Vec<u32> = before.flatten().copied().collect();
        let last = add(plan, &devices, &before)?;
        all.extend(last);
    }
    let end = plan.meet(&all)?;
    Ok(vec![end; plan.size() as usize])
}

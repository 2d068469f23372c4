//! Which transfers does a ring over all ranks run?

use super::plan::Plan;
use crate::collective::Collective;
use crate::error::Result;
use crate::solve::Transfer;

/// `p-1` steps a pass, two passes for all-reduce: in each, every rank sends the part of `n/p` bytes
/// that it got in the step before to the next rank, once its own earlier part has left.
pub(super) fn add(plan: &mut Plan, group: u32, collective: Collective, bytes: f64) -> Result<()> {
    let size = plan.size();
    let devices: Vec<u32> = (0..size).map(|rank| plan.device(group, rank)).collect();
    let passes = if collective == Collective::AllReduce {
        2
    } else {
        1
    };
    let part = bytes / f64::from(size);
    around(plan, &devices, passes * (size - 1), part, &[]).map(drop)
}

/// `steps` steps of a ring over `devices`, `part` bytes a step, none before `after` (by place, may be
/// empty); returns the last transfer to each place.
pub(super) fn around(
    plan: &mut Plan,
    devices: &[u32],
    steps: u32,
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
            now.push(plan.send(ends, message)?);
        }
        sent = now;
    }
    if sent.is_empty() {
        return Ok(after.to_vec());
    }
    sent.rotate_right(1); // what a place waits for is what the place before it sent
    Ok(sent)
}

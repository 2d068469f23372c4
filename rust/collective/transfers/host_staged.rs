//! Which transfers does a ring, or an all-to-all, run whose every message goes down into host memory and up again?

use super::pairwise;
use super::plan::TransferPlan;
use crate::collective::Collective;
use crate::error::Result;
use crate::solve::Transfer;

/// A ring over all ranks as without hosts, but each message is copied into the memory of its node's host and
/// out of it: two steps.
pub(super) fn add(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<()> {
    if collective == Collective::AllToAll {
        return pairwise::over(plan, group, bytes, TransferPlan::send_staged);
    }
    let size = plan.size();
    let passes = if collective == Collective::AllReduce {
        2
    } else {
        1
    };
    let mut sent: Vec<u32> = Vec::new();
    for _ in 0..passes * (size - 1) {
        let mut now = Vec::with_capacity(size as usize);
        for rank in 0..size {
            let before = sent.get(((rank + size - 1) % size) as usize);
            let message = Transfer {
                size: bytes / f64::from(size),
                after: before.map(std::slice::from_ref).unwrap_or_default(),
                behind: sent.get(rank as usize).copied(),
                ..Transfer::default()
            };
            let ends = [rank, (rank + 1) % size].map(|rank| plan.device(group, rank));
            now.push(plan.send_staged((ends[0], ends[1]), message)?);
        }
        sent = now;
    }
    Ok(())
}

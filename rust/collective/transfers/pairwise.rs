//! Which transfers does an all-to-all run in which every rank sends each other rank its part?

use super::plan::TransferPlan;
use crate::error::Result;
use crate::hardware::Library;
use crate::solve::Transfer;

/// Messages of `n/p` bytes to all `p-1` peers, issued one after the other and then sent at once (as
/// NCCL sends a group of them).
pub(super) fn add(plan: &mut TransferPlan, group: u32, bytes: f64) -> Result<()> {
    over(plan, group, bytes, TransferPlan::send)
}

/// The same over any way from device to device.
pub(super) fn over<'c>(
    plan: &mut TransferPlan<'c>,
    group: u32,
    bytes: f64,
    send: impl Fn(&mut TransferPlan<'c>, (u32, u32), Transfer) -> Result<u32>,
) -> Result<()> {
    let size = plan.size();
    let start_up = issuing(plan);
    for from in 0..size {
        for ahead in 1..size {
            let to = (from + ahead) % size;
            let ends = (plan.device(group, from), plan.device(group, to));
            let message = Transfer {
                size: bytes / f64::from(size),
                start_up,
                ..Transfer::default()
            };
            send(plan, ends, message)?;
        }
    }
    Ok(())
}

/// Seconds to issue the messages to all peers.
pub(super) fn issuing(plan: &TransferPlan) -> f64 {
    let each = (0..plan.cluster.system.levels.len()).map(|i| {
        let inside = plan.group.covered(i);
        let peers = f64::from(inside * (plan.group.members[i] - 1));
        issue(plan, i) * peers
    });
    each.sum()
}

/// Seconds to issue one message across a level.
pub(super) fn issue(plan: &TransferPlan, level: usize) -> f64 {
    let level = &plan.cluster.system.levels[level];
    let library = level.library.unwrap_or(*Library::of_kind(level.kind));
    level.latency.value() * library.issue
}

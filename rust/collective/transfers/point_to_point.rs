//! Which transfers send one buffer from each rank to the next?

use super::plan::TransferPlan;
use crate::error::Result;
use crate::solve::Transfer;

/// One message of `n` bytes from each rank but the last to the next.
pub(super) fn add(plan: &mut TransferPlan, group: u32, bytes: f64) -> Result<()> {
    for rank in 1..plan.size() {
        let ends = (plan.device(group, rank - 1), plan.device(group, rank));
        let message = Transfer {
            size: bytes,
            ..Transfer::default()
        };
        plan.send(ends, message)?;
    }
    Ok(())
}

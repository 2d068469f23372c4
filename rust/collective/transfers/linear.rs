//! Which transfers run when the root exchanges one message with every other rank?

use super::pairwise;
use super::plan::TransferPlan;
use crate::collective::Collective;
use crate::error::Result;
use crate::hardware::RouteChoice;
use crate::solve::Transfer;

/// Messages of `n/p` bytes between rank 0 and all others, issued one after the other and then sent at once,
/// over the root's own share of the links.
pub(super) fn add(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<()> {
    let size = plan.size();
    let root = plan.device(group, 0);
    let start_up = pairwise::issuing(plan);
    for rank in 1..size {
        let other = plan.device(group, rank);
        let ends = match collective {
            Collective::Gather => (other, root),
            _ => (root, other),
        };
        let message = Transfer {
            size: bytes / f64::from(size),
            start_up,
            ..Transfer::default()
        };
        plan.send_by(RouteChoice::OwnShare, ends, message)?;
    }
    Ok(())
}

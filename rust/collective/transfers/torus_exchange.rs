//! Which transfers does an all-to-all run on a torus or a mesh of lines?

use super::plan::TransferPlan;
use crate::error::Result;
use crate::hardware::RouteChoice;
use crate::solve::Transfer;

/// All parts at once, each along the first dimension, then the next, the shorter way round; half each way
/// where both are as long.
pub(super) fn add(plan: &mut TransferPlan, group: u32, bytes: f64) -> Result<()> {
    let size = plan.size();
    for from in 0..size {
        for to in (0..size).filter(|&to| to != from) {
            let ends = (plan.device(group, from), plan.device(group, to));
            for way in [RouteChoice::AllLinks, RouteChoice::Turned] {
                let half = Transfer {
                    size: bytes / f64::from(2 * size),
                    ..Transfer::default()
                };
                plan.send_by(way, ends, half)?;
            }
        }
    }
    Ok(())
}

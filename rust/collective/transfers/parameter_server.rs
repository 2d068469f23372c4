//! Which transfers run through ranks that serve the sums?

use super::pairwise;
use super::plan::TransferPlan;
use crate::error::Result;
use crate::hardware::RouteChoice;
use crate::solve::Transfer;

/// Every rank pushes `n/S` bytes to each of the first `S` ranks; when all parts are there, each sends its sum back
/// to all others. Messages over the devices' own shares of the links. Li et al. 2014.
pub(super) fn add(plan: &mut TransferPlan, group: u32, servers: u32, bytes: f64) -> Result<()> {
    let start_up = pairwise::issuing(plan);
    let size = plan.size();
    let mut ready: Option<u32> = None;
    for back in [false, true] {
        let mut got = Vec::new();
        for server in 0..servers {
            for rank in (0..size).filter(|&rank| rank != server) {
                let ends = [rank, server].map(|rank| plan.device(group, rank));
                let message = Transfer {
                    size: bytes / f64::from(servers),
                    start_up,
                    after: ready.as_slice(),
                    ..Transfer::default()
                };
                let ends = if back {
                    (ends[1], ends[0])
                } else {
                    (ends[0], ends[1])
                };
                got.push(plan.send_by(RouteChoice::OwnShare, ends, message)?);
            }
        }
        ready = Some(plan.meet(&got)?);
    }
    Ok(())
}

//! Which transfers run through ranks that serve the sums?

use super::pairwise;
use super::plan::Plan;
use crate::error::Result;
use crate::hardware::Way;
use crate::solve::Transfer;

/// Every rank pushes `n/S` bytes to each of the first `S` ranks; each sends its sum back to all others once it
/// has all parts. Messages over the devices' own shares of the links. Li et al. 2014.
pub(super) fn add(plan: &mut Plan, group: u32, servers: u32, bytes: f64) -> Result<()> {
    let part = bytes / f64::from(servers);
    let start_up = pairwise::issuing(plan);
    let size = plan.size();
    for server in 0..servers {
        let mut got = Vec::new();
        for rank in (0..size).filter(|&rank| rank != server) {
            let ends = (plan.device(group, rank), plan.device(group, server));
            let message = Transfer {
                size: part,
                start_up,
                ..Transfer::default()
            };
            got.push(plan.send_by(Way::OwnShare, ends, message)?);
        }
        let sum = [plan.meet(&got)?];
        for rank in (0..size).filter(|&rank| rank != server) {
            let ends = (plan.device(group, server), plan.device(group, rank));
            let message = Transfer {
                size: part,
                start_up,
                after: &sum,
                ..Transfer::default()
            };
            plan.send_by(Way::OwnShare, ends, message)?;
        }
    }
    Ok(())
}

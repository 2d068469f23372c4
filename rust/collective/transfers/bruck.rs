//! Which transfers run in Bruck's rounds?

use super::plan::TransferPlan;
use crate::collective::Collective;
use crate::error::Result;

/// In round `k` each rank sends to the rank `2^k` on: what it has gathered, or the blocks of an all-to-all
/// whose number has bit `k`, or word that it has come. Bruck et al. 1997; Hensgen et al. 1988.
pub(super) fn add(plan: &mut TransferPlan, collective: Collective, bytes: f64) -> Result<()> {
    let size = plan.size();
    let mut distance = 1;
    while distance < size {
        let blocks = match collective {
            Collective::AllGather => distance.min(size - distance),
            Collective::AllToAll => {
                u32::try_from((0..size).filter(|block| block & distance != 0).count()).unwrap_or(0)
            }
            _ => 0,
        };
        let part = bytes * f64::from(blocks) / f64::from(size);
        plan.round(|rank| Some(((rank + distance) % size, part)))?;
        distance *= 2;
    }
    Ok(())
}

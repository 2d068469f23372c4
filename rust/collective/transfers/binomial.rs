//! Which transfers run on a binomial tree?

use super::plan::TransferPlan;
use crate::collective::Collective;
use crate::error::Result;

/// Rounds over the distances `2^k`: in each, every second block of `2^k` ranks sends to the block before it
/// (reduce and gather, nearest first) or gets from it (broadcast and scatter, furthest first).
/// Thakur et al. 2005.
pub(super) fn add(plan: &mut TransferPlan, collective: Collective, bytes: f64) -> Result<()> {
    let size = plan.size();
    let whole = matches!(collective, Collective::Broadcast | Collective::Reduce);
    let away = matches!(collective, Collective::Broadcast | Collective::Scatter);
    let rounds = size.next_power_of_two().ilog2();
    for k in 0..rounds {
        let distance = 1 << if away { rounds - 1 - k } else { k };
        plan.round(|rank| {
            let (block, first) = (rank / distance, rank % distance == 0);
            let pair = if away { rank + distance } else { rank };
            let sends = first && block % 2 == u32::from(!away) && pair < size;
            let held = f64::from(distance.min(size - pair.min(size))) / f64::from(size);
            let part = if whole { bytes } else { bytes * held };
            let to = if away {
                rank + distance
            } else {
                rank.wrapping_sub(distance)
            };
            sends.then_some((to, part))
        })?;
    }
    Ok(())
}

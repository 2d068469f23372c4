//! Which transfers run on the small rings into which a group is cut?

use super::hierarchical::each_ring;
use super::plan::TransferPlan;
use super::ring;
use crate::collective::Collective;
use crate::error::Result;
use crate::hardware::{MAX_LEVELS, RouteChoice};

/// A ring for each prime factor of the members of each level, from the innermost outwards: reduce-scatter on
/// what each device still holds, all-gather back. Cho et al. 2019 (`BlueConnect`).
pub(super) fn add(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<()> {
    let mut rings = Vec::new(); // ranks between neighbours, and members
    for level in 0..MAX_LEVELS {
        let mut below = plan.group.covered(level);
        for factor in crate::collective::product::prime_factors(plan.group.members[level]) {
            rings.push((below, factor));
            below *= factor;
        }
    }
    let scatter = rings.iter().filter(|_| collective != Collective::AllGather);
    let gather = rings.iter().rev();
    let gather = gather.filter(|_| collective != Collective::ReduceScatter);
    let mut ready = plan.ready();
    for &(below, members) in scatter.chain(gather) {
        let held = bytes / f64::from(below * members);
        ready = each_ring(
            plan,
            group,
            (below, members),
            &ready,
            |plan, devices, after| {
                ring::around(
                    plan,
                    devices,
                    (RouteChoice::OwnShare, members - 1),
                    held,
                    after,
                )
            },
        )?;
    }
    Ok(())
}

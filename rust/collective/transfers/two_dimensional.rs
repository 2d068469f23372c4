//! Which transfers run along one dimension of a torus, then along the other?

use super::plan::TransferPlan;
use super::torus::{self, Axes, Pass};
use crate::collective::Collective;
use crate::error::{Error, Result};

/// The whole buffer is scattered along the dimension that gives the lower time, what is left along the other,
/// and gathered back; a phase starts when the one before has ended everywhere. Ying et al. 2018.
pub(super) fn add(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<()> {
    let axes = torus::axes(plan)?;
    if axes.len() != 2 {
        let got = format!("extents {:?}", plan.group.extents);
        return Err(Error::invalid("group", got, "on two dimensions of a torus"));
    }
    let first = usize::from(along(plan, &axes, 1) < along(plan, &axes, 0));
    let order = [first, 1 - first];
    let held = [0, 1].map(|j| {
        let cut = order[..=j].iter().map(|&axis| f64::from(axes[axis].0));
        bytes / cut.product::<f64>()
    });
    let scatter = [(0, true), (1, true)].into_iter();
    let scatter = scatter.filter(|_| collective != Collective::AllGather);
    let gather = [(1, false), (0, false)].into_iter();
    let gather = gather.filter(|_| collective != Collective::ReduceScatter);
    let mut ready = plan.ready();
    for (j, scatter) in scatter.chain(gather) {
        let arrived = torus::phase(
            plan,
            group,
            Pass::new(&axes, order[j], scatter),
            held[j],
            &ready,
        )?;
        ready = vec![plan.meet(&arrived)?; plan.size() as usize];
    }
    Ok(())
}

/// Time of a pass that starts with dimension `first`, over that of a buffer on one link.
fn along(plan: &TransferPlan, axes: &Axes, first: usize) -> f64 {
    let share = |axis: usize| {
        let (extent, closed) = axes[axis];
        let ways = if closed { 2.0 } else { 1.0 };
        let spacing = if axis == 0 { plan.group.spacing } else { 1 };
        f64::from(spacing) * f64::from(extent - 1) / (f64::from(extent) * ways)
    };
    share(first) + share(1 - first) / f64::from(axes[first].0)
}

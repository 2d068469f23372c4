//! Which transfers run when a broadcast is a scatter and an all-gather?

use super::plan::TransferPlan;
use super::{binomial, ring, torus};
use crate::collective::Collective;
use crate::error::Result;

/// Binomial scatter, then all-gather round a ring or on the rings of a torus; for a reduce the mirror image:
/// reduce-scatter, then binomial gather.
pub(super) fn add(plan: &mut TransferPlan, collective: Collective, bytes: f64) -> Result<()> {
    if collective == Collective::Broadcast {
        binomial::add(plan, Collective::Scatter, bytes)?;
        return around(plan, Collective::AllGather, bytes);
    }
    around(plan, Collective::ReduceScatter, bytes)?;
    binomial::add(plan, Collective::Gather, bytes)
}

fn around(plan: &mut TransferPlan, collective: Collective, bytes: f64) -> Result<()> {
    let mut sent = Vec::new();
    for group in 0..plan.groups() {
        sent.extend(if plan.on_torus() {
            torus::add(plan, group, collective, bytes)?
        } else {
            ring::add(plan, group, collective, bytes)?
        });
    }
    plan.end_step(&sent)
}

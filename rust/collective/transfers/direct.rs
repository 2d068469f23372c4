//! Which transfers run over direct links between all members?

use super::plan::TransferPlan;
use crate::collective::Collective;
use crate::error::Result;
use crate::solve::Transfer;

/// Every rank sends each other rank `n/p` bytes at once; an all-reduce does so twice.
pub(super) fn add(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<()> {
    let size = plan.size();
    let part = bytes / f64::from(size);
    let passes = if collective == Collective::AllReduce {
        2
    } else {
        1
    };
    let mut ready: Vec<u32> = Vec::new();
    for _ in 0..passes {
        let mut got = vec![Vec::new(); size as usize];
        for from in 0..size {
            for to in (0..size).filter(|&to| to != from) {
                let ends = (plan.device(group, from), plan.device(group, to));
                let message = Transfer {
                    size: part,
                    after: ready
                        .get(from as usize)
                        .map(std::slice::from_ref)
                        .unwrap_or_default(),
                    ..Transfer::default()
                };
                got[to as usize].push(plan.send(ends, message)?);
            }
        }
        ready = got
            .iter()
            .map(|all| plan.meet(all))
            .collect::<Result<_>>()?;
    }
    Ok(())
}

//! Which transfers pass segments along a chain of all ranks?

use super::plan::TransferPlan;
use crate::collective::route::{GroupPlacement, Route};
use crate::collective::{Collective, Protocol, chain};
use crate::error::Result;
use crate::hardware::RouteChoice;
use crate::solve::Transfer;
use crate::units::Bytes;

/// How a chain sends its segments.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// Each costs its sender the latency and the bytes, over its own share of the links.
    Messages,
    /// They follow one another without a gap, over all links of a unit.
    Stream,
}

/// The number of segments that suits `bytes` best, by the closed form.
pub(super) fn segments(plan: &TransferPlan, bytes: f64) -> u32 {
    let place = GroupPlacement::new(&plan.group, plan.cluster);
    let route = Route::new(&place, plan.cluster, Protocol::Simple);
    let time = |segments: u32| {
        chain::form(&route, segments)
            .time(Bytes::new(bytes))
            .value()
    };
    let all = chain::SEGMENTS.into_iter();
    all.min_by(|&a, &b| time(a).total_cmp(&time(b)))
        .unwrap_or(1)
}

/// Each rank passes segment after segment on to the next (broadcast) or the one before (reduce), as soon as
/// it has it.
pub(super) fn add(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    (bytes, segments): (f64, u32),
    pace: Pace,
) -> Result<()> {
    let mut devices: Vec<u32> = (0..plan.size())
        .map(|rank| plan.device(group, rank))
        .collect();
    if collective == Collective::Reduce {
        devices.reverse();
    }
    let size = bytes / f64::from(segments);
    let mut sent: Vec<Option<u32>> = vec![None; devices.len()];
    for _ in 0..segments {
        let mut got = None;
        for (ends, sent) in devices.windows(2).zip(&mut sent) {
            let after = got;
            let message = Transfer {
                size,
                after: after.as_slice(),
                behind: *sent,
                ..Transfer::default()
            };
            let ends = (ends[0], ends[1]);
            got = Some(match pace {
                Pace::Messages => plan.send_after_step(ends, message)?,
                Pace::Stream => plan.send_by(RouteChoice::AllLinks, ends, message)?,
            });
            *sent = got;
        }
    }
    Ok(())
}

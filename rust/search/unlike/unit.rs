//! Which fields do all stages share, and in which orders may groups stand?

use super::groups::Groups;
use crate::plan::Schedule;
use crate::search::space::{Space, divisors, listed};

/// The fields that all stages of a plan share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SharedFields {
    pub(super) schedule: Schedule,
    pub(super) data: u32,
    pub(super) micro_batch: u32,
    pub(super) micro_batches: u32,
    pub(super) zero: u8,
}

/// All units of a space, in order.
pub(super) fn units(groups: &Groups, space: &Space) -> Vec<SharedFields> {
    let training = &groups.shared().training;
    let batch = u32::try_from(training.global_batch).unwrap_or(u32::MAX);
    let most = groups.most_devices();
    let orders = [Schedule::OneForwardOneBackward, Schedule::GPipe];
    let experts = groups.shared().shape.experts;
    let mut units = Vec::new();
    for schedule in listed(space.schedule.as_ref(), &orders) {
        for data in divisors(space.data.as_ref(), batch) {
            if data > most {
                continue;
            }
            for micro_batch in divisors(space.micro_batch.as_ref(), batch / data) {
                for zero in listed(
                    space.zero.as_ref(),
                    stages(data == 1 && !experts, training.forward_only),
                ) {
                    units.push(SharedFields {
                        schedule,
                        data,
                        micro_batch,
                        micro_batches: batch / data / micro_batch,
                        zero,
                    });
                }
            }
        }
    }
    units
}

/// ZeRO stages to try; where nothing has replicas all of them are the same plan.
fn stages(alone: bool, forward_only: bool) -> &'static [u8] {
    match (alone, forward_only) {
        (true, _) => &[0],
        (_, true) => &[0, 3],
        _ => &[0, 1, 2, 3],
    }
}

/// Every order of every choice of groups, those of fewer groups first.
pub(super) fn orders(groups: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = (0..groups).map(|group| vec![group]).collect();
    let mut from = 0;
    while from < all.len() {
        let order = all[from].clone();
        let more = (0..groups).filter(|group| !order.contains(group));
        let longer = more.map(|group| [order.as_slice(), &[group]].concat());
        let longer: Vec<Vec<usize>> = longer.collect();
        all.extend(longer);
        from += 1;
    }
    all
}

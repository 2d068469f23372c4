//! Which transfers run when switches add and copy?

use super::plan::TransferPlan;
use crate::collective::Collective;
use crate::error::{Error, Result};
use crate::hardware::Level;
use crate::solve::Transfer;

/// Pieces that travel one behind the other: enough that filling the switches adds little.
const SEGMENTS: u32 = 512;

/// All-reduce, reduce-scatter or all-gather through switches on every level of the way.
///
/// Each device sends its buffer to the innermost switch, which gives each of its `m` members the sum of one
/// part; these go on over the members' own shares to the outer switches and come back; then each member sends
/// its part to the innermost switch, which copies it to all. Passing a switch takes one step of its level, on
/// outer levels one on the way up and one on the way down. A reduce-scatter takes no more than its own part
/// back and ends there; an all-gather begins with its own part on the way out.
pub(super) fn add(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<()> {
    let (inner, outermost) = levels(plan)?;
    let piece = bytes / f64::from(SEGMENTS);
    let part = piece / f64::from(plan.group.members[inner]);
    let own = piece / f64::from(plan.size());
    let step = plan.latency(inner);
    let (adds, copies) = (
        collective != Collective::AllGather,
        collective != Collective::ReduceScatter,
    );
    // level, its step, and what goes up and comes down there
    let outer = (inner + 1..=outermost).map(|i| {
        let sums = piece / f64::from(plan.group.covered(i));
        let sizes = (
            if adds { sums } else { own },
            if copies { sums } else { own },
        );
        (i, plan.latency(i), sizes)
    });
    let outer: Vec<_> = outer.collect();
    let mut streams = Streams::new(plan, group);
    for _ in 0..SEGMENTS {
        streams.begin();
        if adds {
            streams.up(plan, (0, inner), (piece, 0.0))?;
            streams.down(plan, (0, inner), (part, step))?;
        }
        for &(level, step, sizes) in &outer {
            streams.up(plan, (level, level), (sizes.0, step))?;
        }
        for &(level, step, sizes) in outer.iter().rev() {
            streams.down(plan, (level, level), (sizes.1, step))?;
        }
        if copies {
            streams.up(plan, (0, inner), (part, 0.0))?;
            streams.down(plan, (0, inner), (piece, step))?;
        }
    }
    Ok(())
}

/// The first and the last level on the way, all of whose switches add.
pub(super) fn levels(plan: &TransferPlan) -> Result<(usize, usize)> {
    let outermost = plan.group.outermost();
    let inner = (0..outermost).find(|&i| plan.group.members[i] > 1);
    let inner = inner.unwrap_or(outermost);
    let on_way = &plan.cluster.system.levels[inner.min(1)..=outermost];
    let lacks = |level: &&Level| !(level.in_network_reduction && level.kind.is_switched());
    match on_way.iter().find(lacks) {
        None => Ok((inner, outermost)),
        Some(level) => Err(Error::invalid(
            format!("levels.{}.in_network_reduction", level.name),
            level.in_network_reduction,
            "true, and switches, on every level of the group's way",
        )),
    }
}

/// The transfers of one group, stage after stage; those of one stage queue up at each device.
pub(super) struct Streams {
    devices: Vec<u32>,
    /// What each rank waits for.
    held: Vec<Vec<u32>>,
    /// The last transfer of each rank, by stage.
    last: Vec<Vec<Option<u32>>>,
    stage: usize,
}

impl Streams {
    pub(super) fn new(plan: &TransferPlan, group: u32) -> Self {
        let devices: Vec<u32> = (0..plan.size())
            .map(|rank| plan.device(group, rank))
            .collect();
        Self {
            held: vec![Vec::new(); devices.len()],
            devices,
            last: Vec::new(),
            stage: 0,
        }
    }

    /// Starts the next piece, which waits for nothing but its place in the queues.
    pub(super) fn begin(&mut self) {
        self.stage = 0;
        self.held.iter_mut().for_each(Vec::clear);
    }

    /// All send to the switch of a level, which then has what all below it sent: bytes and seconds of one.
    pub(super) fn up(
        &mut self,
        plan: &mut TransferPlan,
        levels: (usize, usize),
        figures: (f64, f64),
    ) -> Result<()> {
        self.send(plan, figures, |plan, device, message| {
            plan.climb(device, levels, message)
        })?;
        let below = plan.group.covered(levels.1) * plan.group.members[levels.1];
        for ranks in self.held.chunks_mut(below as usize) {
            let all: Vec<u32> = ranks.iter().flatten().copied().collect();
            let sum = plan.meet(&all)?;
            ranks.fill(vec![sum]);
        }
        Ok(())
    }

    /// The switch of a level sends to all.
    pub(super) fn down(
        &mut self,
        plan: &mut TransferPlan,
        levels: (usize, usize),
        figures: (f64, f64),
    ) -> Result<()> {
        self.send(plan, figures, |plan, device, message| {
            plan.descend(device, levels, message)
        })
    }

    fn send(
        &mut self,
        plan: &mut TransferPlan,
        (size, latency): (f64, f64),
        send: impl Fn(&mut TransferPlan, u32, Transfer) -> Result<u32>,
    ) -> Result<()> {
        if self.last.len() == self.stage {
            self.last.push(vec![None; self.devices.len()]);
        }
        let last = &mut self.last[self.stage];
        self.stage += 1;
        for ((&device, last), held) in self.devices.iter().zip(last).zip(&mut self.held) {
            let message = Transfer {
                size,
                latency,
                after: held,
                behind: *last,
                ..Transfer::default()
            };
            let sent = send(plan, device, message)?;
            *last = Some(sent);
            *held = vec![sent];
        }
        Ok(())
    }
}

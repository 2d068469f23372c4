//! Where does each stage of a combination stand, and what does it send?

use super::options::{StageCost, StageOption};
use super::walk::{GroupSequence, Walk};
use crate::estimate::PipelinePosition;
use std::ops::Range;

/// A stage before it has layers.
#[derive(Debug, Clone, Copy)]
pub(super) struct StagePosition {
    pub(super) group: usize,
    pub(super) choice: usize,
    pub(super) place: PipelinePosition,
    /// Stages behind it.
    pub(super) behind: u32,
    /// Seconds of its sends: with each forward pass, with each backward pass.
    pub(super) hops: [f64; 2],
}

impl StagePosition {
    /// True where both take the same with the same layers.
    pub(super) fn costs_as(&self, other: &Self) -> bool {
        let alike = self.group == other.group && self.choice == other.choice;
        let sends = self.hops.iter().eq(&other.hops);
        alike && sends && self.place == other.place
    }
}

/// Stages that share their layers as evenly as can be: an end of the pipeline, or those of a group
/// between the ends.
#[derive(Debug, Clone)]
pub(super) struct EvenRun {
    pub(super) seats: Range<usize>,
    /// What a device gains on one of the first group in any layer at most.
    pub(super) pace: f64,
    /// Layers that no stage of it can exceed.
    pub(super) most_layers: usize,
}

impl EvenRun {
    /// Layers that fit into `seconds` of a micro-batch, were all as short as the shortest.
    pub(super) fn most_layers(&self, walk: &Walk, seats: &[StagePosition], seconds: f64) -> usize {
        let layers = walk.task.groups.ranges.layers();
        let choice = walk.choice(&seats[self.seats.start]);
        let least = layers.iter().map(|&block| choice.least[block]);
        let most = seconds / least.fold(f64::INFINITY, f64::min);
        let all = layers.len();
        // one more than rounding could leave out
        (0..=all)
            .rev()
            .find(|&n| n as f64 <= most + 1e-6)
            .unwrap_or(all)
    }

    /// Seconds that its stages take beside layers: embedding, head and sends.
    pub(super) fn extra(&self, walk: &Walk, seats: &[StagePosition]) -> f64 {
        let of = |seat: &StagePosition| {
            let [embedding, head] = walk.choice(seat).ends;
            let opens = if seat.place.holds_embedding() {
                embedding
            } else {
                0.0
            };
            let closes = if seat.place.holds_head() { head } else { 0.0 };
            opens + closes + seat.hops[0] + seat.hops[1]
        };
        seats[self.seats.clone()].iter().map(of).sum()
    }
}

/// The stages of a combination along the pipeline, and the runs that share layers.
pub(super) fn stage_positions(
    walk: &Walk,
    pick: &GroupSequence,
) -> (Vec<StagePosition>, Vec<EvenRun>) {
    let count: u32 = pick.parts().iter().map(|part| part.stages).sum();
    let (mut seats, mut runs): (Vec<StagePosition>, Vec<EvenRun>) = (Vec::new(), Vec::new());
    let mut index = 0;
    for (order, part) in pick.parts().iter().enumerate() {
        for stage in 0..part.stages {
            let place = PipelinePosition::of(index, count);
            let continues = stage > 0 && place == PipelinePosition::Inner;
            match runs.last_mut() {
                Some(run)
                    if continues && seats[run.seats.start].place == PipelinePosition::Inner =>
                {
                    run.seats.end += 1;
                }
                _ => runs.push(EvenRun {
                    seats: seats.len()..seats.len() + 1,
                    pace: pick.pace(order),
                    most_layers: usize::MAX,
                }),
            }
            seats.push(StagePosition {
                group: part.group,
                choice: part.choice,
                place,
                behind: count - 1 - index,
                hops: [0.0; 2],
            });
            index += 1;
        }
    }
    for border in 1..seats.len() {
        let [front, back] = [seats[border - 1], seats[border]];
        seats[border - 1].hops[0] = hop(walk, &front, &back);
        if !walk.task.groups.shared().training.forward_only {
            seats[border].hops[1] = hop(walk, &back, &front);
        }
    }
    (seats, runs)
}

/// Seconds of a tensor from one stage to a neighbour.
fn hop(walk: &Walk, from: &StagePosition, to: &StagePosition) -> f64 {
    let receiver = walk.choice(to);
    if from.group == to.group {
        return receiver.hop;
    }
    let ranks = [from, to].map(|seat| walk.choice(seat).pricer.plan().tensor);
    let narrowest = ranks[0].min(ranks[1]);
    receiver.pricer.hop_over(&walk.task.groups.send, narrowest)
}

impl<'a> Walk<'a> {
    /// What the stage at a seat has chosen.
    pub(super) fn choice(&self, seat: &StagePosition) -> &StageOption<'a> {
        &self.choices[seat.group][seat.choice]
    }

    /// What a class of layers takes at a seat.
    pub(super) fn entry(&mut self, seat: &StagePosition, class: usize) -> StageCost {
        let choice = &mut self.choices[seat.group][seat.choice];
        choice.entry(&self.task.groups.ranges, class, seat.place)
    }
}

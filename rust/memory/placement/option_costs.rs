//! What does a tensor hold, move and wear out in a step, if it lies in one tier?

use super::problem::Problem;
use super::tensor::{Class, Tensor, Update, Use};
use crate::hardware::{Memories, TierAccess};
use std::ops::Range;

/// A way to keep a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlacementOption {
    /// Index of the tier where it lies while it is not in use.
    pub(super) place: usize,
    /// It stays in the main tier between uses that are at most so many instants apart.
    pub(super) keep: u32,
    /// The host updates it where it lies.
    pub(super) in_place: bool,
}

/// Takes what laying a tensor out comes to.
pub(super) trait LayoutSink {
    /// Bytes of a tier over instants.
    fn hold(&mut self, place: usize, instants: Range<u32>, bytes: f64);
    /// Seconds of a lane in the window of an instant.
    fn load(&mut self, at: u32, lane: usize, seconds: f64);
    /// Bytes read from and written to a tier at an instant.
    fn touch(&mut self, place: usize, at: u32, read: f64, written: f64);
}

/// Uses in a row between which a tensor stays in the main tier.
struct UseRun<'a> {
    uses: &'a [Use],
    /// True for the first and for the last run of the step.
    first: bool,
    last: bool,
    /// Instants between the runs before and behind.
    room: [u32; 2],
}

impl UseRun<'_> {
    /// Instants of the first and of the last use.
    fn span(&self) -> [u32; 2] {
        [self.uses[0].at, self.uses[self.uses.len() - 1].at]
    }
}

/// A problem on the memories of a device.
pub(super) struct PlacementContext<'a> {
    pub(super) problem: &'a Problem,
    pub(super) memories: &'a Memories,
    pub(super) instants: u32,
    /// First instant of the window of each instant, and the one behind its last.
    spans: Vec<[u32; 2]>,
    /// Of each tier, those in which its bytes bounce on their way.
    bounces: Vec<Vec<usize>>,
}

/// Most thresholds of staying that are offered for a tensor.
const MOST_KEEPS: usize = 3;

impl<'a> PlacementContext<'a> {
    pub(super) fn new(problem: &'a Problem, memories: &'a Memories) -> Self {
        let mut spans = Vec::with_capacity(problem.instants() as usize);
        for window in &problem.windows {
            let first = u32::try_from(spans.len()).unwrap_or(u32::MAX);
            spans.resize(
                spans.len() + window.instants as usize,
                [first, first + window.instants],
            );
        }
        Self {
            problem,
            memories,
            instants: problem.instants(),
            spans,
            bounces: (0..memories.places.len())
                .map(|place| crossed_tiers(memories, place))
                .collect(),
        }
    }

    /// The ways to keep a tensor that are considered: each tier; in tiers behind the main one also
    /// staying in the main tier over short gaps between uses; and an update by the host.
    pub(super) fn options_of(&self, tensor: &Tensor, options: &mut Vec<PlacementOption>) {
        options.clear();
        let main = self.memories.main();
        let mut gaps: Vec<u32> = tensor.uses.windows(2).map(|w| w[1].at - w[0].at).collect();
        gaps.sort_unstable();
        gaps.dedup();
        let longest = gaps.len().saturating_sub(1);
        let keeps = [0, longest / 2, longest].map(|at| gaps.get(at).copied().unwrap_or(0));
        for (place, of) in self.memories.places.iter().enumerate() {
            let named = |name: &String| *name == of.tier.name;
            if !tensor.tiers.is_empty() && !tensor.tiers.iter().any(named) {
                continue;
            }
            let mut push = |keep, in_place| {
                let option = PlacementOption {
                    place,
                    keep,
                    in_place,
                };
                if !options.contains(&option) {
                    options.push(option);
                }
            };
            push(0, false);
            if place <= main {
                continue;
            }
            for &keep in keeps.iter().take(MOST_KEEPS) {
                // a tensor that dies with the step and never leaves the main tier lies there
                let stays = !tensor.survives() && Some(&keep) == gaps.last();
                if keep > 0 && !stays {
                    push(keep, false);
                }
            }
            if tensor.update.is_some() && self.memories.host == Some(place) {
                push(0, true);
            }
        }
    }

    /// Tells the sink all that a tensor comes to at one site.
    pub(super) fn add_costs(
        &self,
        tensor: &Tensor,
        option: PlacementOption,
        sink: &mut impl LayoutSink,
    ) {
        let main = self.memories.main();
        let end = tensor.to.unwrap_or(self.instants);
        if option.place <= main {
            let size = tensor.bytes
                * if option.place == main {
                    self.factor(tensor)
                } else {
                    1.0
                };
            sink.hold(option.place, tensor.from..end, size);
            for used in &tensor.uses {
                self.pass(
                    option.place,
                    used.at,
                    used.read_bytes,
                    used.written_bytes,
                    sink,
                );
            }
            return;
        }
        if tensor.survives() {
            sink.hold(option.place, tensor.from..end, tensor.bytes);
        }
        let update = tensor.update.filter(|_| option.in_place);
        let mut from = 0;
        // since when it lies in its tier; from the start where no use makes it
        let made = tensor.uses.first().is_some_and(|u| u.at == tensor.from);
        let mut left: Option<u32> = (!made).then_some(tensor.from);
        let mut busy = tensor.from; // until when the run before takes room in the main tier
        while from < tensor.uses.len() {
            let mut to = from + 1;
            while to < tensor.uses.len()
                && tensor.uses[to].at - tensor.uses[to - 1].at <= option.keep
            {
                to += 1;
            }
            let run = UseRun {
                uses: &tensor.uses[from..to],
                first: from == 0,
                last: to == tensor.uses.len(),
                room: [busy, tensor.uses.get(to).map_or(end, |next| next.at)],
            };
            let [start, stop] = run.span();
            match update.filter(|u| run.uses.len() == 1 && start == u.at) {
                Some(update) => self.update(option.place, &update, sink),
                None => busy = self.run(tensor, option.place, &run, sink),
            }
            if !tensor.survives() {
                if let Some(left) = left {
                    sink.hold(option.place, left..start + 1, tensor.bytes);
                }
                left = Some(stop + 1);
            }
            from = to;
        }
        let ends = tensor.uses.last().is_some_and(|u| u.at + 1 == end);
        if let Some(left) = left.filter(|_| !tensor.survives() && !ends) {
            sink.hold(option.place, left..end, tensor.bytes);
        }
    }

    /// Lays out a run: the tensor comes before the first use that reads and goes behind the last one
    /// that writes, an instant ahead and behind. Says until when it takes room in the main tier.
    fn run(&self, tensor: &Tensor, place: usize, run: &UseRun, sink: &mut impl LayoutSink) -> u32 {
        let main = self.memories.main();
        let most = |of: fn(&Use) -> f64| run.uses.iter().map(of).fold(0.0, f64::max);
        let end = tensor.to.unwrap_or(self.instants);
        let [start, stop] = run.span();
        let born = run.first && !tensor.survives() && start == tensor.from;
        let dies = run.last && !tensor.survives() && stop + 1 == end;
        let fetched = if born { 0.0 } else { most(|u| u.read_bytes) };
        let stored = if dies { 0.0 } else { most(|u| u.written_bytes) };
        // what dies with the step lies nowhere else while it is in use
        let size = if run.uses.len() > 1 || !tensor.survives() {
            tensor.bytes
        } else {
            most(|u| u.read_bytes).max(most(|u| u.written_bytes))
        };
        // the window's transfers come and go an instant ahead and behind
        let early = start.saturating_sub(u32::from(fetched > 0.0));
        let ahead = early.max(run.room[0]).max(self.spans[start as usize][0]);
        let late = stop + 1 + u32::from(stored > 0.0);
        let behind = late.min(run.room[1]).min(self.spans[stop as usize][1]);
        let behind = behind.max(stop + 1);
        sink.hold(main, ahead.min(start)..behind, size * self.factor(tensor));
        for used in run.uses {
            self.pass(main, used.at, used.read_bytes, used.written_bytes, sink);
        }
        if fetched > 0.0 {
            self.pass(place, start, fetched, 0.0, sink);
            self.pass(main, start, 0.0, fetched, sink);
        }
        if stored > 0.0 {
            let write = run.uses.iter().rev().find(|u| u.written_bytes > 0.0);
            let at = write.map_or(stop, |u| u.at);
            self.pass(place, at, 0.0, stored, sink);
            self.pass(main, at, stored, 0.0, sink);
        }
        behind
    }

    /// Gradients go out, the host updates, weights come back.
    fn update(&self, place: usize, update: &Update, sink: &mut impl LayoutSink) {
        let main = self.memories.main();
        self.pass(place, update.out_at, 0.0, update.out_bytes, sink);
        self.pass(main, update.out_at, update.out_bytes, 0.0, sink);
        self.pass(place, update.at, update.back_bytes, 0.0, sink);
        self.pass(main, update.at, 0.0, update.back_bytes, sink);
        sink.touch(place, update.at, update.touched_bytes, 0.0);
        if let Some(bus) = self.bus(&self.memories.places[place]) {
            sink.load(update.at, bus.0, update.touched_bytes * bus.1);
        }
    }

    /// The lane of a tier's own bus and its seconds a byte.
    fn bus(&self, place: &TierAccess) -> Option<(usize, f64)> {
        let own = |lane: usize| self.memories.lanes[lane].name == place.tier.name;
        let crossing = place.crosses.iter().find(|c| own(c.lane))?;
        Some((crossing.lane, crossing.read))
    }

    /// Bytes between a tier and compute, or between a tier and the main one.
    fn pass(&self, place: usize, at: u32, read: f64, written: f64, sink: &mut impl LayoutSink) {
        if read == 0.0 && written == 0.0 {
            return;
        }
        sink.touch(place, at, read, written);
        // whichever way they go, they are written into a bounce buffer and read from it
        let passing = read + written;
        for &through in &self.bounces[place] {
            sink.touch(through, at, passing, passing);
        }
        for crossing in &self.memories.places[place].crosses {
            let seconds = read * crossing.read + written * crossing.write;
            if seconds > 0.0 {
                sink.load(at, crossing.lane, seconds);
            }
        }
    }

    fn factor(&self, tensor: &Tensor) -> f64 {
        if tensor.class == Class::Activations {
            self.problem.activation_factor
        } else {
            1.0
        }
    }
}

/// The tiers whose bus the bytes of another one cross: those that it lies behind.
fn crossed_tiers(memories: &Memories, place: usize) -> Vec<usize> {
    let crossed = memories.places[place].crosses.iter();
    crossed
        .filter_map(|crossing| memories.find(&memories.lanes[crossing.lane].name))
        .filter(|through| *through != place)
        .collect()
}

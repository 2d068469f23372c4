//! Which times can an interleaved 1F1B step not beat where hops are unlike?

use super::borders::Borders;
use super::closed::Closed;
use super::stages::Stages;
use crate::solve::Lane;

/// Longest of some paths in the schedule's precedence graph: a bound from below.
///
/// As in the form for alike hops, with `h_s` the hop behind virtual stage `s`, `F_s` and `B_s` its forward
/// and backward pass with what sends hold it, all in seconds: a way in, all that the last device still
/// runs, a way out;
///
/// `T >= W_f + (m - 1) g_last + (v - 1) (m - p) (F + B)_(p-1) + W_b`
///
/// or a way down to an inner device `j`, all that it runs, and a way up;
///
/// `T >= D_f(j) + m v (F + B)_j + D_b(j)`
///
/// or all that an end runs. A way in either goes round with a micro-batch, `v` times over all devices, or
/// waits out the warm-up at the device whose pass is slowest; a slow first chunk is repeated before.
#[inline(always)]
pub(super) fn closed_form_over<L: Lane>(
    stages: &Stages<L>,
    borders: &Borders,
    micro_batches: u32,
) -> Closed<L> {
    let count = stages.count.max(1);
    let executed = micro_batches.div_ceil(count).saturating_mul(count);
    let rounds = Rounds {
        stages,
        borders,
        count,
        devices: f64::from(count),
        chunks: f64::from(stages.chunks),
        micro_batches: f64::from(executed),
        round: borders.before(count),
        back: borders.at(count - 1),
    };
    Closed {
        time: rounds
            .over_last()
            .larger(rounds.over_inner())
            .larger(rounds.over_first()),
        exact: L::splat(0.0),
    }
}

/// An interleaved pipeline of two devices or more.
struct Rounds<'a, L> {
    stages: &'a Stages<L>,
    borders: &'a Borders,
    count: u32,
    devices: f64,
    chunks: f64,
    /// Rounds filled up.
    micro_batches: f64,
    /// All hops of a round, and the one from the last device back to the first.
    round: f64,
    back: f64,
}

/// One direction: passes of the first, a middle and the last virtual stage without hops.
struct DirectionTimes<L> {
    first: L,
    middle: L,
    last: L,
    /// Share of a hop that holds its sender.
    held: f64,
    /// Hop that holds the first virtual stage, and what holds the middle ones of devices behind the first.
    at_first: f64,
    at_others: f64,
    /// Hop that holds the last virtual stage.
    at_last: f64,
    /// The longest that holds a device.
    slowest: f64,
}

impl<L: Lane> Rounds<'_, L> {
    #[inline(always)]
    fn ways(&self) -> [DirectionTimes<L>; 2] {
        let (stages, borders) = (self.stages, self.borders);
        let [down, up] = borders.held();
        let before_last = borders.at(self.count.saturating_sub(2));
        let at_first = borders.at(0);
        [
            DirectionTimes {
                first: stages.first.forward,
                middle: stages.middle.forward,
                last: stages.last.forward,
                held: down,
                at_first,
                at_others: self.round - at_first,
                at_last: 0.0,
                slowest: borders.slowest_of(1, self.count),
            },
            DirectionTimes {
                first: stages.first.backward,
                middle: stages.middle.backward,
                last: stages.last.backward,
                held: up,
                at_first: 0.0,
                at_others: self.round - self.back,
                at_last: before_last,
                slowest: borders.slowest_of(0, self.count - 1),
            },
        ]
    }

    /// The longest of some ways from the first virtual stage to the last, both included.
    #[inline(always)]
    fn way(&self, way: &DirectionTimes<L>) -> L {
        let (devices, chunks) = (self.devices, self.chunks);
        let apart = self.borders.apart();
        let first = way.first + way.held * way.at_first;
        let ends = first + way.last + way.held * way.at_last;
        // middle stages of one round behind the first device, and of all rounds
        let others = way.middle * (devices - 1.0) + way.held * way.at_others;
        let hops = chunks * self.round - self.back;
        let inner = hops - way.at_first - way.at_last;
        let around = way.middle * (devices * chunks - 2.0) + way.held * inner + apart * hops;
        let waited = first * (devices - 1.0) - others - L::splat(apart * self.round);
        let around = around + waited.larger(L::splat(0.0));
        let slowest = way.middle + way.held * way.slowest;
        let straight = self.round - self.back;
        let held = straight - way.at_first - way.at_last;
        let through = way.middle * (devices - 2.0) + way.held * held + apart * straight;
        let waited = ((first - slowest) * (devices - 1.0)).larger(L::splat(0.0));
        let through = through + slowest * (devices * (chunks - 1.0)) + waited;
        ends + around.larger(through)
    }

    #[inline(always)]
    fn over_last(&self) -> L {
        let (stages, [down, up]) = (self.stages, self.borders.held());
        let before_last = self.borders.at(self.count.saturating_sub(2));
        let last = stages.last.work() + up * before_last;
        let middle = stages.middle.work() + (down * self.back + up * before_last);
        let rest = (self.chunks - 1.0) * (self.micro_batches - self.devices);
        let [there, back] = self.ways();
        let steady = last * (self.micro_batches - 1.0) + middle * rest;
        let over = self.way(&there) + self.way(&back) + steady;
        let all = middle * (self.chunks - 1.0) + last;
        over.larger(all * self.micro_batches)
    }

    /// All that the first device runs.
    #[inline(always)]
    fn over_first(&self) -> L {
        let (stages, [down, up]) = (self.stages, self.borders.held());
        let sent = down * self.borders.at(0);
        let middle = stages.middle.work() + (sent + up * self.back);
        let all = stages.first.work() + sent + middle * (self.chunks - 1.0);
        all * self.micro_batches
    }

    #[inline(always)]
    fn over_inner(&self) -> L {
        let mut longest = L::splat(0.0);
        let ways = self.ways();
        for device in 1..self.count.saturating_sub(1) {
            let hops = [self.borders.at(device), self.borders.at(device - 1)];
            let before = self.borders.before(device);
            let mut path = L::splat(0.0);
            for (place, way) in ways.iter().enumerate() {
                let here = way.middle + way.held * hops[place];
                let first = way.first + way.held * way.at_first;
                // hops that hold the stages between the first and this one
                let held = if place == 0 {
                    before - way.at_first
                } else {
                    before - hops[1]
                };
                let apart = self.borders.apart();
                let down = way.middle * f64::from(device - 1) + (way.held * held + apart * before);
                let waits = ((first - here) * (self.devices - 1.0)).larger(L::splat(0.0));
                // once round instead of waiting here for as long
                let round =
                    way.held * (self.round - self.devices * hops[place]) + apart * self.round;
                let rounds = L::splat(round.max(0.0) * (self.chunks - 1.0));
                let work = here * (self.micro_batches * self.chunks);
                path = path + first + down + work + waits.larger(rounds);
            }
            longest = longest.larger(path);
        }
        longest
    }
}

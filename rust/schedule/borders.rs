//! How long is a tensor under way over each border of a pipeline whose neighbours lie at unlike distances?

use super::stages::{Pass, Stages};
use crate::solve::Lane;
use crate::units::Seconds;

/// Most distances between neighbours: one for each level of a fabric.
const MOST: usize = 4;

/// Hops of a pipeline that lies over units of a fabric, as many stages in each.
///
/// Border `i` joins virtual stages `i` and `i + 1`. Its hop crosses the outermost distance `l` of which
/// `every[l]` divides `i + 1`: units of distance `l` hold `every[l]` stages. Each divides the next
/// and all of them the number of devices, so that the hop from the last device back to the first
/// crosses the outermost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Borders {
    every: [u32; MOST],
    seconds: [f64; MOST],
    len: usize,
    /// Share of a hop that holds its sender: of outputs, of gradients.
    held: [f64; 2],
    /// Share of a hop that its receiver waits while both may compute.
    apart: f64,
}

impl Borders {
    /// No border yet. Senders are held for a share of each hop (`held`: of outputs, of gradients) and
    /// receivers wait for another (`apart`).
    pub fn new(held: [f64; 2], apart: f64) -> Self {
        Self {
            every: [1; MOST],
            seconds: [0.0; MOST],
            len: 0,
            held,
            apart,
        }
    }

    /// The same with hops of `seconds` over every `every`-th border, in place of what was said of those.
    #[must_use]
    pub fn with_hop(mut self, every: u32, seconds: f64) -> Self {
        if self.len < MOST {
            (self.every[self.len], self.seconds[self.len]) = (every.max(1), seconds);
            self.len += 1;
        }
        self
    }

    /// True where not all hops take equally long.
    pub fn unlike(&self) -> bool {
        self.slowest() > self.quickest()
    }

    /// Seconds of the longest hop.
    pub fn slowest(&self) -> f64 {
        self.known().iter().copied().fold(0.0, f64::max)
    }

    /// Seconds over a border.
    pub fn at(&self, border: u32) -> f64 {
        self.slowest_of(border, border + 1)
    }

    /// Stages inside the units that hops of each kind leave, and seconds of those hops, from the nearest out.
    pub fn distances(&self) -> impl Iterator<Item = (u32, f64)> {
        let units = self.every.iter().zip(self.known());
        units.map(|(&every, &seconds)| (every, seconds))
    }

    fn known(&self) -> &[f64] {
        &self.seconds[..self.len]
    }

    fn quickest(&self) -> f64 {
        let least = self.known().iter().copied().fold(f64::INFINITY, f64::min);
        if self.len == 0 { 0.0 } else { least }
    }

    /// Borders before `border` whose hops cross just distance `level`.
    fn count(&self, level: usize, border: u32) -> u32 {
        let up_to = |level: usize| {
            if level < self.len {
                border / self.every[level]
            } else {
                0
            }
        };
        up_to(level) - up_to(level + 1)
    }

    /// Seconds over all borders before `border`.
    pub(super) fn before(&self, border: u32) -> f64 {
        let sums = self.known().iter().enumerate();
        sums.map(|(level, seconds)| f64::from(self.count(level, border)) * seconds)
            .sum()
    }

    /// Seconds of the longest hop from border `first` to before `end`; none where there is no border.
    pub(super) fn slowest_of(&self, first: u32, end: u32) -> f64 {
        let mut most = 0.0_f64;
        for (level, &seconds) in self.known().iter().enumerate() {
            if self.count(level, end) > self.count(level, first) {
                most = most.max(seconds);
            }
        }
        most
    }

    /// Share of a hop that holds the sender of outputs, and of gradients.
    pub(super) fn held(&self) -> [f64; 2] {
        self.held
    }

    /// Share of a hop that its receiver waits while both may compute.
    pub(super) fn apart(&self) -> f64 {
        self.apart
    }

    /// Longest hops of outputs and of gradients of one stage between the ends of `stages`.
    pub fn busiest(&self, stages: u32) -> [f64; 2] {
        let mut most = [0.0; 2];
        for stage in 1..stages.saturating_sub(1) {
            let hops = [self.at(stage), self.at(stage - 1)];
            if hops[0] + hops[1] > most[0] + most[1] {
                most = hops;
            }
        }
        most
    }

    /// Adds to each pass what its send holds the device, and writes out the waits of receivers.
    pub(super) fn apply(&self, passes: &mut [Pass], hops: &mut Vec<Seconds>) {
        let (count, held) = (passes.len(), self.held);
        hops.clear();
        for border in (0..).take(count.saturating_sub(1)) {
            let seconds = self.at(border);
            let stage = border as usize;
            passes[stage].forward += Seconds::new(held[0] * seconds);
            passes[stage + 1].backward += Seconds::new(held[1] * seconds);
            hops.push(Seconds::new(self.apart * seconds));
        }
    }

    /// Stages that no pipeline over these borders outruns: all hops as the quickest.
    #[inline(always)]
    pub(super) fn least<L: Lane>(&self, stages: &Stages<L>) -> Stages<L> {
        let [down, up] = self.held.map(|share| share * self.quickest());
        let add = |pass: &Pass<L>, down: f64, up: f64| Pass {
            forward: pass.forward + down,
            backward: pass.backward + up,
            ..*pass
        };
        Stages {
            first: add(&stages.first, down, 0.0),
            middle: add(&stages.middle, down, up),
            last: add(&stages.last, 0.0, up),
            hop: Seconds::new(self.apart * self.quickest()),
            ..*stages
        }
    }
}

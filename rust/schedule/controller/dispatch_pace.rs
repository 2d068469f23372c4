//! When does each step end, if dispatch hands out computations at an even pace?

use super::graph::{Graph, Paths};
use super::program_placement::ProgramPlacement;
use serde::Serialize;

/// What a step may have to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The devices.
    Computation,
    /// Data between groups of devices.
    Transfer,
    /// The slowest host's input pipeline.
    Input,
    /// A host's CPU, which launches computations.
    Host,
    /// The controller's CPU, which sends messages.
    Controller,
    /// An island's scheduler.
    Scheduler,
    /// Messages there and back, one computation after another.
    RoundTrip,
}

/// When one node may start at the earliest for the sake of dispatch: `start + step x rate`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Release {
    pub(super) node: usize,
    pub(super) start: f64,
    pub(super) rate: f64,
}

/// A program under a controller.
#[derive(Debug, Clone)]
pub(super) struct DispatchPace {
    /// Earliest starts of a step's nodes.
    pub(super) releases: Vec<Release>,
    /// Seconds of a step on each resource of the dispatch.
    pub(super) loads: Vec<(Resource, f64)>,
    /// Longest ways through a step, round trips in between included.
    pub(super) paths: Paths,
    /// From the end of a step to the start of the next.
    pub(super) gap: f64,
}

impl DispatchPace {
    /// A controller that runs ahead of the devices.
    pub(super) fn running_ahead(graph: &Graph) -> Self {
        Self {
            releases: Vec::new(),
            loads: Vec::new(),
            paths: graph.paths(),
            gap: 0.0,
        }
    }

    /// The heaviest load of the dispatch.
    pub(super) fn heaviest(&self) -> (Resource, f64) {
        let none = (Resource::Host, 0.0);
        let heavier = |a: (Resource, f64), b: &(Resource, f64)| if b.1 > a.1 { *b } else { a };
        self.loads.iter().fold(none, heavier)
    }
}

/// Steps one after another: dispatch, input pipeline and devices.
///
/// ```text
/// S(t) = max(E(t-1) + gap, r_0(t), I(t))
/// E(t) = max(S(t) + P, max_i r_i(t) + tail_i),     r_i(t) = a_i + b_i t
/// I(t) = max(I(t-1), S(t-q)) + d
/// ```
///
/// S, E: start and end of step t; P: longest way through a step; `tail_i`: from node i to the step's end;
/// I: when the slowest host's input is ready, d seconds each, in q places that are free once the
/// step that uses one has started. Without places (q = 0) input is read after each step's end.
#[derive(Debug, Clone)]
pub(super) struct Steps {
    paced: DispatchPace,
    input: f64,
    places: u32,
    gap: f64,
}

impl Steps {
    pub(super) fn new(paced: DispatchPace, placed: &ProgramPlacement<'_>) -> Self {
        let (input, places) = (placed.input(), placed.setting.prefetch);
        let gap = if places == 0 {
            paced.gap.max(input)
        } else {
            paced.gap
        };
        Self {
            paced,
            input,
            places,
            gap,
        }
    }

    /// Seconds that a step adds once all queues are full: the heaviest of its circles.
    ///
    /// `max(P + gap, d, max_i b_i)`: the circle of places, `d / q`, is never the heaviest.
    pub(super) fn period(&self) -> f64 {
        let rates = self.paced.releases.iter().map(|release| release.rate);
        let own = self.paced.paths.whole + self.gap;
        let queued = if self.places == 0 { 0.0 } else { self.input };
        rates.fold(own.max(queued), f64::max)
    }

    /// End of the last of so many steps: the longest way to it, `O(nodes)`.
    ///
    /// A way begins with the first input, or with a node that its dispatch holds up, then goes on
    /// from start to start (`advance`). Along it the time is linear in the step at which it turns
    /// from dispatch to devices, so that only the ends of each range count.
    pub(super) fn end(&self, steps: u32) -> f64 {
        if steps == 0 {
            return 0.0;
        }
        let whole = self.paced.paths.whole;
        let last = i64::from(steps) - 1;
        let queued = if self.places == 0 { 0.0 } else { self.input };
        let from_input = self.input + last as f64 * (whole + self.gap).max(queued) + whole;
        let q = i64::from(self.places);
        let held = |release: &Release| {
            let ready = |step: i64| release.start + release.rate * step as f64;
            let (until, then) = if release.node == 0 {
                (last, whole)
            } else {
                // the step ends late, and the next one starts behind it
                (
                    last - 1,
                    self.paced.paths.tails[release.node] + self.gap + whole,
                )
            };
            let turns = [0, until - q, until].into_iter();
            let turns = turns.filter(|step| (0..=until).contains(step));
            let ends = turns.map(|step| ready(step) + self.advance(until - step) + then);
            let at_last = ready(last) + self.paced.paths.tails[release.node];
            ends.fold(at_last, f64::max)
        };
        let ends = self.paced.releases.iter().map(held);
        ends.fold(from_input, f64::max)
    }

    /// Longest way from a step's start to that of the one `steps` later.
    ///
    /// `max(n (P + gap), d + (n - q) max(P + gap, d) where n >= q)`: over the devices, or once
    /// over a place that the start frees.
    fn advance(&self, steps: i64) -> f64 {
        let each = self.paced.paths.whole + self.gap;
        let over_devices = steps as f64 * each;
        let past = steps - i64::from(self.places);
        if self.places == 0 || past < 0 {
            return over_devices;
        }
        over_devices.max(self.input + past as f64 * each.max(self.input))
    }
}

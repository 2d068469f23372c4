//! Which times can bidirectional pipelines with unlike stages not beat?

use super::layout::Layout;
use crate::schedule::bound::{Shares, StageTimes};
use crate::schedule::pipeline::Pipeline;

/// Seconds; the longer of what a device runs and of the way of the backward passes.
pub(super) fn bound(layout: Layout, pipeline: &Pipeline<'_>, micro_batches: u32) -> f64 {
    let line = StageTimes::new(layout.stages, pipeline, micro_batches);
    let busiest = busiest(layout, &line, pipeline, micro_batches);
    if pipeline.alike() {
        let way = BidirectionalPaths {
            layout,
            line: &line,
        };
        busiest.max(way.through(micro_batches))
    } else {
        busiest
    }
}

/// What a device runs, with the shortest way to it and from it.
///
/// ```text
/// T >= sum_(r<s) u_r + sum over pipelines of the device of m w
/// ```
///
/// Seconds; s: earliest stage on the device, u: forward and backward pass of the shortest
/// micro-batch with their hops, w: passes of a pipeline's stage on it, m: its micro-batches.
fn busiest(layout: Layout, line: &StageTimes<'_, '_>, pipeline: &Pipeline<'_>, count: u32) -> f64 {
    let shares = Shares::new(pipeline, count, layout.copies(), layout.span);
    let reach = layout.reach();
    let work = |device: u32| {
        let copies = 0..layout.copies();
        let works = copies.map(|c| line.work_of(layout.stage(c, device), shares.of(c)));
        works.sum::<f64>()
    };
    let (mut outside, mut longest) = (0.0, 0.0_f64);
    for place in 0..layout.turns() {
        let way = outside - line.sent_back(place);
        for front in (0..layout.stages).step_by(reach as usize) {
            let most = work(front + place).max(work(front + reach - 1 - place));
            longest = longest.max(way + most);
        }
        outside += line.down(place) + line.up(place);
    }
    longest
}

/// The way of backward passes in and out, where micro-batches are alike and only receivers wait.
///
/// In each unit a path comes from the last stage in by `a` stages, takes all backward passes of the
/// device there, goes out to the first stage, and along the first device to the next unit:
///
/// ```text
/// T >= sum f + (u - 1) max_a cycle(a) + max_a unit(a)
/// unit(a) = h t sum_i B(a + i r) + (t - 1 - a) f(D - 1 - a) + sum_(s<a) (B(s) + hops)
/// cycle(a) = unit(a) + (t - 1 - a) f(a) + t sum_i F(i r) - (t - 1) F(0)
/// ```
///
/// Seconds; f, b: passes of a stage, f over all micro-batches of a forward pass; `F(s) = f(s) +
/// f(D - 1 - s)`, `B` alike; D: devices, r: from one pipeline's front to the next one's, `t = r / 2`,
/// i: below the pipelines each way, h: micro-batches of a forward pass, u: units. A unit begun adds
/// what its pipelines have at least. On alike stages with `b >= f` it is the step's time.
struct BidirectionalPaths<'p, 'a> {
    layout: Layout,
    line: &'p StageTimes<'p, 'a>,
}

impl BidirectionalPaths<'_, '_> {
    fn through(&self, micro_batches: u32) -> f64 {
        let units = micro_batches / self.layout.unit();
        if units == 0 {
            return 0.0;
        }
        let rest = micro_batches % self.layout.unit() / self.layout.span;
        let begun = rest / self.layout.copies();
        let full = self.layout.turns();
        let mut most = [0.0_f64; 4];
        let mut inside = 0.0;
        for a in 0..full {
            let unit = self.unit(a, full) + inside;
            let times = [
                unit,
                unit + self.onward(a, full),
                unit + self.onward(a, begun),
                self.unit(a, begun) + inside,
            ];
            for (most, time) in most.iter_mut().zip(times) {
                *most = most.max(time);
            }
            let hops = self.line.hop(a) + self.line.hop(self.layout.stages - 2 - a);
            inside += self.mirrored(a, |s| self.backward(s)) + hops;
        }
        let [unit, cycle, short, end] = most;
        let stages = 0..self.layout.stages;
        let down = stages.map(|s| self.forward(s) + self.line.hop(s));
        let before = down.sum::<f64>() + f64::from(units - 1) * cycle;
        if begun == 0 {
            before + unit
        } else {
            before + short + end
        }
    }

    /// Backward passes of a unit on the device that the path takes, and forward passes among them.
    fn unit(&self, a: u32, turns: u32) -> f64 {
        let backs = self
            .fronts()
            .map(|i| self.mirrored(a + i, |s| self.backward(s)));
        let among = turns.saturating_sub(1 + a);
        f64::from(self.layout.span * turns) * backs.sum::<f64>()
            + f64::from(among) * self.forward(self.layout.stages - 1 - a)
    }

    /// Forward passes of the next unit, of which each pipeline runs `turns` or more.
    fn onward(&self, a: u32, turns: u32) -> f64 {
        let both = |stage| self.mirrored(stage, |s| self.forward(s));
        let among = turns.min(self.layout.turns() - 1 - a);
        let others = self.fronts().skip(1).map(both).sum::<f64>();
        let ends = if turns == self.layout.turns() {
            both(0)
        } else {
            self.forward(self.layout.stages - 1)
        };
        f64::from(among) * self.forward(a) + f64::from(turns) * others + ends
    }

    /// Stages that the first device holds of the pipelines down.
    fn fronts(&self) -> impl Iterator<Item = u32> {
        (0..self.layout.stages).step_by(self.layout.reach() as usize)
    }

    fn mirrored(&self, stage: u32, of: impl Fn(u32) -> f64) -> f64 {
        of(stage) + of(self.layout.stages - 1 - stage)
    }

    fn forward(&self, stage: u32) -> f64 {
        self.line.pass(stage).forward.value() * f64::from(self.layout.span)
    }

    fn backward(&self, stage: u32) -> f64 {
        self.line.pass(stage).whole()
    }
}

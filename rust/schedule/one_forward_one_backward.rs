//! When does a 1F1B step end (`PipeDream-Flush`; Narayanan et al. 2021, section 2.2.1)?
//!
//! Stage `i` of `p` runs `min(p - 1 - i, m)` forwards, then one forward and one backward in turn,
//! then the backwards that are left.

use super::borders::Borders;
use super::bound;
use super::closed::Closed;
use super::operation::{Operation, Work};
use super::pipeline::Pipeline;
use super::rule::ScheduleRule;
use super::stages::{Makespan, Pass, PipelineShape, Scratch, Stages};
use crate::solve::Lane;
use crate::units::Seconds;

/// Closed form, exact for every input of this class when `hop` is zero; with hops, when neither pass
/// of an end is shorter than a middle one's.
///
/// The longest path goes down to a stage `d` before its first backward, waits out the warm-up, loops
/// `n + 1` times over one stage `j`, dips to a stage `e`, waits out the cool-down and comes up:
///
/// `T = max_j [G(0,j) + (n + 1) g_j + max_(d>=j) X_f(j,d) + max_(e>=j) X_b(j,e)]`, seconds, where
/// `g_s = f_s + b_s`, `G(a,b) = sum of g_s for a <= s < b`, `n = m - p + j >= 0` and
/// `X_f(j,d) = G(j+1,d+1) + (p - 1 - d) max_(s<=d) f_s` (`X_b` alike with `b_s`). At `n = 0` there is
/// one visit of `j` only, so one of `d`, `e` is `j`. Each step down the pipeline adds `2 hop`; with
/// hops a path may also run down and up again and again (`Paths::zigzag`).
/// Where no stage is slower than the last in either pass and hops are zero, this is
/// `G(0,p) + (m - 1) g_(p-1)`. Derivation: longest path in the schedule's precedence graph.
#[inline(always)]
pub(super) fn closed_form<L: Lane>(stages: &Stages<L>, micro_batches: u32) -> Closed<L> {
    let inner = stages.count > 2;
    let mut last_rules = stages.last.reaches(&stages.first);
    if inner {
        last_rules = last_rules.smaller(stages.last.reaches(&stages.middle));
    }
    let simple = stages.count > 1 && stages.hop == Seconds::ZERO;
    let short = stages.all_work() + stages.last.work() * f64::from(micro_batches - 1);
    if simple && last_rules.all_reach(1.0) {
        return Closed::exactly(short);
    }
    let paths = Paths::new(stages, micro_batches);
    let longest = paths.longest();
    if simple {
        return Closed::exactly(last_rules.pick(short, longest));
    }
    if stages.count == 1 {
        return Closed::exactly(longest);
    }
    let covers = |end: &Pass<L>| {
        if inner {
            end.reaches(&stages.middle)
        } else {
            L::splat(1.0)
        }
    };
    Closed {
        time: longest.larger(paths.zigzag()),
        exact: covers(&stages.first).smaller(covers(&stages.last)),
    }
}

/// The same where sends hold their stages over unlike borders, so that no two stages need be alike: the
/// formula above for every `j`, exact, in `O(p)`.
///
/// `max_(d>=j) X_f(j,d) = max_(d>=j) P_f(d) - G(0,j+1)` with `P_f(d) = G(0,d+1) + (p - 1 - d) max_(s<=d) f_s`.
#[inline(always)]
pub(super) fn closed_form_over<L: Lane>(
    stages: &Stages<L>,
    borders: &Borders,
    micro_batches: u32,
) -> Closed<L> {
    if stages.count == 1 {
        return closed_form(stages, micro_batches);
    }
    let back = stages.count - 1;
    let line = Uneven { stages, borders };
    let first = stages.count.saturating_sub(micro_batches);
    let mut longest = L::splat(0.0);
    // arrays are written out: their `map` is not always inlined
    let (mut down, mut up) = (longest, longest);
    let mut after = line.all(stages.count);
    for stage in (first..=back).rev() {
        let [forward, backward] = line.slowest(stage);
        let visits = f64::from(back - stage);
        let (wait_down, wait_up) = (forward * visits, backward * visits);
        let before = line.all(stage);
        down = down.larger(after + wait_down);
        up = up.larger(after + wait_up);
        let free = f64::from(micro_batches.saturating_sub(stages.count - stage));
        let dips = if free > 0.0 {
            down + up - after - after
        } else {
            (wait_down + up - after).larger(down - after + wait_up)
        };
        longest = longest.larger(before + (after - before) * (free + 1.0) + dips);
        after = before;
    }
    Closed::exactly(longest)
}

/// Stages whose sends hold them over unlike borders.
struct Uneven<'a, L> {
    stages: &'a Stages<L>,
    borders: &'a Borders,
}

impl<L: Lane> Uneven<'_, L> {
    /// Both passes of all stages before one, their sends among them.
    #[inline(always)]
    fn all(&self, stage: u32) -> L {
        if stage == 0 {
            return L::splat(0.0);
        }
        let (stages, back) = (self.stages, self.stages.count - 1);
        let [down, up] = self.borders.held();
        let sent = self.borders.before(stage.min(back)) * down;
        let sent = sent + self.borders.before(stage - 1) * up;
        let inner = f64::from(stage.min(back) - 1);
        let front = stages.first.work() + stages.middle.work() * inner + sent;
        if stage > back {
            front + stages.last.work()
        } else {
            front
        }
    }

    /// Slowest forward pass of the stages up to one, and slowest backward pass.
    #[inline(always)]
    fn slowest(&self, stage: u32) -> [L; 2] {
        let (stages, back) = (self.stages, self.stages.count - 1);
        let [down, up] = self.borders.held();
        let sent = |first, end, share: f64| self.borders.slowest_of(first, end) * share;
        let mut forward = stages.first.forward + sent(0, 1, down);
        let mut backward = stages.first.backward;
        let inner = stage.min(back - 1);
        if inner > 0 {
            forward = forward.larger(stages.middle.forward + sent(1, inner + 1, down));
            backward = backward.larger(stages.middle.backward + sent(0, inner, up));
        }
        if stage == back {
            forward = forward.larger(stages.last.forward);
            backward = backward.larger(stages.last.backward + sent(back - 1, back, up));
        }
        [forward, backward]
    }
}

/// The candidate longest paths of one step; stages and visits are whole numbers, times seconds.
struct Paths<L> {
    count: f64,
    micro_batches: f64,
    forward: Slowest<L>,
    backward: Slowest<L>,
    /// Forward and backward of the first, a middle and the last stage.
    work: [L; 3],
    /// There and back.
    hops: f64,
}

/// One pass of the stage that a path waits at.
#[derive(Clone, Copy)]
struct Slowest<L> {
    /// On the first stage.
    alone: L,
    /// On the stages down to an inner one.
    inner: L,
}

impl<L: Lane> Paths<L> {
    #[inline(always)]
    fn new(stages: &Stages<L>, micro_batches: u32) -> Self {
        let first = stages.first;
        // a stage that does not exist takes the first's times, so that it can rule no maximum
        let middle = if stages.count > 2 {
            stages.middle
        } else {
            first
        };
        let last = if stages.count > 1 { stages.last } else { first };
        let slowest = |of: fn(&Pass<L>) -> L| Slowest {
            alone: of(&first),
            inner: of(&first).larger(of(&middle)),
        };
        Self {
            count: f64::from(stages.count),
            micro_batches: f64::from(micro_batches),
            forward: slowest(|pass| pass.forward),
            backward: slowest(|pass| pass.backward),
            work: [first.work(), middle.work(), last.work()],
            hops: 2.0 * stages.hop.value(),
        }
    }

    /// Longest path over all stages that it can loop on.
    #[inline(always)]
    fn longest(&self) -> L {
        let back = self.count - 1.0;
        let first = (self.count - self.micro_batches).max(0.0);
        let second = (first + 1.0).min(back);
        // work is linear in a turning point between the ends, so only the corners can be longest
        let mut longest = self.through(first, first);
        if second > first {
            longest = longest.larger(self.through(second, first));
        }
        if back > second {
            longest = longest.larger(self.through(back, first));
        }
        longest
    }

    /// Longest path that loops over `stage`; `first` is the shallowest stage a path can turn at.
    #[inline(always)]
    fn through(&self, stage: f64, first: f64) -> L {
        let back = self.count - 1.0;
        let near = (first + 1.0).clamp(stage, back);
        let far = (back - 1.0).max(stage);
        let places = [stage, near, far, back];
        let forward = self.dips(places, &self.forward);
        let backward = self.dips(places, &self.backward);
        let free = self.micro_batches - self.count + stage;
        let dips = if free > 0.0 {
            forward.1 + backward.1
        } else {
            (forward.0 + backward.1).larger(forward.1 + backward.0)
        };
        self.descent(0.0, stage)
            + self.descent(stage, stage + 1.0) * (free + 1.0)
            + self.hops * stage
            + dips
    }

    /// The dip that stays at a stage, and the longest to any of some stages below it, in order.
    #[inline(always)]
    fn dips(&self, [stage, near, far, back]: [f64; 4], slowest: &Slowest<L>) -> (L, L) {
        let stay = self.dip(stage, stage, slowest);
        let mut turn = stay;
        if near > stage {
            turn = turn.larger(self.dip(stage, near, slowest));
        }
        if far > near {
            turn = turn.larger(self.dip(stage, far, slowest));
        }
        if back > far {
            turn = turn.larger(self.dip(stage, back, slowest));
        }
        (stay, turn)
    }

    /// Work of going from below `stage` down to `turn` and back, and of waiting there.
    #[inline(always)]
    fn dip(&self, stage: f64, turn: f64, slowest: &Slowest<L>) -> L {
        let slowest = if turn > 0.0 {
            slowest.inner
        } else {
            slowest.alone
        };
        self.descent(stage + 1.0, turn + 1.0)
            + slowest * (self.count - 1.0 - turn)
            + self.hops * (turn - stage)
    }

    /// Work of one micro-batch on the stages from `low` up to but without `high`.
    #[inline(always)]
    fn descent(&self, low: f64, high: f64) -> L {
        let [first, middle, last] = self.work;
        let mut inner = high - low;
        let mut ends = L::splat(0.0);
        if inner < 1.0 {
            return ends;
        }
        if low < 1.0 {
            ends = ends + first;
            inner -= 1.0;
        }
        if high >= self.count && inner >= 1.0 {
            ends = ends + last;
            inner -= 1.0;
        }
        ends + middle * inner
    }

    /// Longest of the paths that run through all stages as often as they can, for the hops' sake.
    ///
    /// Of its `V = m + p - 1` visits a path has `z = floor(V / p)` full descents and a rest of
    /// `r < p`: `r` loops on an end, or a part of a descent at an end. It takes
    /// `z G(0,p) + rest + 2 hop (V - descents)`, where each loop counts as a descent. A rest at the
    /// front must lie between two full descents.
    #[inline(always)]
    fn zigzag(&self) -> L {
        let visits = self.micro_batches + self.count - 1.0;
        let full = (visits / self.count).floor();
        let rest = visits - full * self.count;
        let part = self.hops * (rest - 1.0).max(0.0);
        let back = self.descent(self.count - rest, self.count) + part;
        let mut end = back.larger(self.work[2] * rest);
        if full > 1.0 {
            let front = self.descent(0.0, rest) + part;
            end = end.larger(front).larger(self.work[0] * rest);
        }
        (self.descent(0.0, self.count) + self.hops * (self.count - 1.0)) * full + end
    }
}

/// Exact for any stage times, in `O(p m)`.
///
/// Round `t` runs forward `t - i` on each stage `i`, then backward `t - (p - 1)` from the last stage
/// up. Each stage's operations come in their order, and each input is ready a round (forward) or a
/// stage (backward) before.
pub(super) fn recurrence(
    pipeline: &Pipeline<'_>,
    micro_batches: u32,
    scratch: &mut Scratch,
) -> f64 {
    let passes = pipeline.plain().unwrap_or_default();
    // borders are counted by the stage before them
    let hop = |stage: usize| pipeline.hop(u32::try_from(stage).unwrap_or(u32::MAX));
    let (count, total) = (passes.len(), micro_batches as usize);
    scratch.reset(count);
    let (clock, forward) = (&mut scratch.clock, &mut scratch.forward);
    for round in 0..total + count - 1 {
        // from the back, so that the stage before still shows its last round
        for stage in ((round + 1).saturating_sub(total)..count.min(round + 1)).rev() {
            let ready = match stage.checked_sub(1) {
                Some(before) => forward[before] + hop(before),
                None => 0.0,
            };
            clock[stage] = clock[stage].max(ready) + passes[stage].forward.value();
            forward[stage] = clock[stage];
        }
        if round + 1 >= count {
            let mut ready = 0.0;
            for stage in (0..count).rev() {
                clock[stage] = clock[stage].max(ready) + passes[stage].whole();
                ready = clock[stage] + stage.checked_sub(1).map_or(0.0, hop);
            }
        }
    }
    clock.first().copied().unwrap_or(0.0)
}

/// Warm-up of so many forwards, then one forward and one backward in turn, then the backwards left.
pub(super) fn with_warm_up(
    warm_up: u32,
    device: u32,
    micro_batches: u32,
    order: &mut Vec<Operation>,
) {
    let forward = |m| Operation::new(Work::Forward, device, m);
    let backward = |m| Operation::new(Work::Backward, device, m);
    let warm_up = warm_up.min(micro_batches);
    order.extend((0..warm_up).map(forward));
    for m in warm_up..micro_batches {
        order.extend([forward(m), backward(m - warm_up)]);
    }
    order.extend((micro_batches - warm_up..micro_batches).map(backward));
}

/// One forward, one backward, with a flush (`PipeDream-Flush`).
pub(super) struct OneForwardOneBackward;

impl ScheduleRule for OneForwardOneBackward {
    fn name(&self) -> &'static str {
        "1f1b"
    }

    fn source(&self) -> &'static str {
        "Narayanan et al. 2021 (Megatron-LM), section 2.2.1"
    }

    fn order(
        &self,
        shape: PipelineShape,
        micro_batches: u32,
        device: u32,
        order: &mut Vec<Operation>,
    ) {
        let warm_up = shape.stages.saturating_sub(device + 1);
        with_warm_up(warm_up, device, micro_batches, order);
    }

    /// Exact on alike stages without hops; the busiest stage's path elsewhere.
    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        let count = pipeline.shape.stages;
        Makespan {
            time: Seconds::new(bound::whole_backward_bound(count, pipeline, micro_batches)),
            exact: pipeline.uniform(count) && pipeline.alike(),
        }
    }

    /// `min(p - i, m)` micro-batches: the warm-up and the one in the steady phase.
    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        shape.stages.saturating_sub(device).min(micro_batches)
    }
}

//! When does a 1F1B step end (`PipeDream-Flush`; Narayanan et al. 2021, section 2.2.1)?
//!
//! Stage `i` of `p` runs `min(p - 1 - i, m)` forwards, then one forward and one backward in turn,
//! then the backwards that are left.

use super::stages::{Makespan, Operation, Pass, Pipeline, Scratch, Stages};
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
/// Derivation: longest path in the schedule's precedence graph.
pub(super) fn makespan(stages: &Stages, micro_batches: u32) -> Makespan {
    let paths = Paths {
        stages,
        count: i64::from(stages.count),
        micro_batches: i64::from(micro_batches),
    };
    let first = (paths.count - paths.micro_batches).max(0);
    // work is linear in a turning point between the ends, so only the corners can be longest
    let loops = [first, (first + 1).min(paths.count - 1), paths.count - 1];
    let longest = loops
        .into_iter()
        .map(|stage| paths.through(stage, first))
        .fold(0.0, f64::max);
    if stages.count == 1 || stages.hop == Seconds::ZERO {
        return Makespan {
            time: Seconds::new(longest),
            exact: true,
        };
    }
    let covers = |end: Pass| stages.count == 2 || end.covers(stages.middle);
    Makespan {
        time: Seconds::new(longest.max(paths.zigzag())),
        exact: covers(stages.first) && covers(stages.last),
    }
}

/// The candidate longest paths of one step.
struct Paths<'a> {
    stages: &'a Stages,
    count: i64,
    micro_batches: i64,
}

impl Paths<'_> {
    /// Longest path that loops over `stage`; `first` is the shallowest stage a path can turn at.
    fn through(&self, stage: i64, first: i64) -> f64 {
        let free = self.micro_batches - self.count + stage;
        let corners = [
            stage,
            (first + 1).clamp(stage, self.count - 1),
            (self.count - 2).max(stage),
            self.count - 1,
        ];
        let best = |of: fn(&Pass) -> Seconds| {
            corners
                .into_iter()
                .map(|turn| self.dip(stage, turn, of))
                .fold(0.0, f64::max)
        };
        let (forward, backward) = (best(|p| p.forward), best(|p| p.backward));
        let dips = if free > 0 {
            forward + backward
        } else {
            let stay = |of: fn(&Pass) -> Seconds| self.dip(stage, stage, of);
            (stay(|p| p.forward) + backward).max(forward + stay(|p| p.backward))
        };
        let descent = self.work(0, stage) + 2.0 * self.stages.hop.value() * stage as f64;
        descent + (free + 1) as f64 * self.work(stage, stage + 1) + dips
    }

    /// Work of going from below `stage` down to `turn` and back, and of waiting there.
    fn dip(&self, stage: i64, turn: i64, of: fn(&Pass) -> Seconds) -> f64 {
        let wait = (self.count - 1 - turn) as f64;
        let mut slowest = of(&self.stages.first);
        if turn > 0 {
            slowest = slowest.max(of(&self.stages.middle));
        }
        let hops = 2.0 * self.stages.hop.value() * (turn - stage) as f64;
        let waiting = if wait > 0.0 {
            wait * slowest.value()
        } else {
            0.0
        };
        self.work(stage + 1, turn + 1) + waiting + hops
    }

    /// Work of one micro-batch on the stages from `low` up to but without `high`.
    fn work(&self, low: i64, high: i64) -> f64 {
        let before = |stage: i64| self.stages.work_before(stage.unsigned_abs());
        if high > low {
            before(high) - before(low)
        } else {
            0.0
        }
    }

    /// Longest of the paths that run through all stages as often as they can, for the hops' sake.
    ///
    /// Of its `V = m + p - 1` visits a path has `z = floor(V / p)` full descents and a rest of
    /// `r < p`: `r` loops on an end, or a part of a descent at an end. It takes
    /// `z G(0,p) + rest + 2 hop (V - descents)`, where each loop counts as a descent. A rest at the
    /// front must lie between two full descents.
    fn zigzag(&self) -> f64 {
        let visits = self.micro_batches + self.count - 1;
        let (full, rest) = (visits / self.count, visits % self.count);
        let hop = 2.0 * self.stages.hop.value();
        let part = hop * (rest - 1).max(0) as f64;
        let back = self.work(self.count - rest, self.count) + part;
        let mut end = back.max(rest as f64 * self.work(self.count - 1, self.count));
        if full > 1 {
            let front = self.work(0, rest) + part;
            end = end.max(front).max(rest as f64 * self.work(0, 1));
        }
        full as f64 * (self.work(0, self.count) + hop * (self.count - 1) as f64) + end
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
    let passes = pipeline.passes;
    let (count, total) = (passes.len(), micro_batches as usize);
    let hop = pipeline.hop.value();
    scratch.reset(count);
    let (clock, forward) = (&mut scratch.clock, &mut scratch.forward);
    for round in 0..total + count - 1 {
        // from the back, so that the stage before still shows its last round
        for stage in ((round + 1).saturating_sub(total)..count.min(round + 1)).rev() {
            let ready = match stage.checked_sub(1) {
                Some(before) => forward[before] + hop,
                None => 0.0,
            };
            clock[stage] = clock[stage].max(ready) + passes[stage].forward.value();
            forward[stage] = clock[stage];
        }
        if round + 1 >= count {
            let mut ready = 0.0;
            for stage in (0..count).rev() {
                clock[stage] = clock[stage].max(ready) + passes[stage].backward.value();
                ready = clock[stage] + hop;
            }
        }
    }
    clock.first().copied().unwrap_or(0.0)
}

/// `min(p - i, m)` micro-batches: the warm-up and the one in the steady phase.
pub(super) fn in_flight(stage: u32, stages: u32, micro_batches: u32) -> u32 {
    stages.saturating_sub(stage).min(micro_batches)
}

/// Warm-up, steady phase, cool-down.
pub(super) fn order(stage: u32, stages: u32, micro_batches: u32) -> Vec<Operation> {
    let warm_up = stages.saturating_sub(stage + 1).min(micro_batches);
    let forward = |micro_batch| Operation::Forward {
        micro_batch,
        chunk: 0,
    };
    let backward = |micro_batch| Operation::Backward {
        micro_batch,
        chunk: 0,
    };
    let mut order: Vec<Operation> = (0..warm_up).map(forward).collect();
    for micro_batch in warm_up..micro_batches {
        order.extend([forward(micro_batch), backward(micro_batch - warm_up)]);
    }
    order.extend((micro_batches - warm_up..micro_batches).map(backward));
    order
}

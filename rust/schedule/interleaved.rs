//! When does an interleaved 1F1B step end (Narayanan et al. 2021, section 2.2.2)?
//!
//! Stage `i` of `p` holds `v` chunks; virtual stage `c p + i` is its chunk `c`. Its `q`-th forward is
//! micro-batch `floor(q / (p v)) p + q mod p` on chunk `floor((q mod p v) / p)`; backwards count the
//! chunks from the back. It runs `w = min(2 (p - 1 - i) + (v - 1) p, m v)` forwards first
//! (Megatron-LM, `megatron/core/pipeline_parallel/schedules.py`), then one forward and one
//! backward in turn, then the backwards that are left.

use super::bound;
use super::closed::Closed;
use super::one_forward_one_backward::OneForwardOneBackward;
use super::operation::{Operation, Work};
use super::pipeline::Pipeline;
use super::rule::ScheduleRule;
use super::stages::{Makespan, Pass, PipelineShape, Scratch, Stages};
use crate::error::Result;
use crate::solve::Lane;
use crate::units::Seconds;

/// Closed form, exact where `last_rules` holds.
///
/// With `g = f + b` of a middle chunk, `p` stages, `v` chunks, `m` micro-batches, all in seconds:
///
/// `T = g_first + (p v - 2) g + m g_last + (v - 1) (m - p) g + 2 (p v - 1) hop + w_f + w_b`,
/// `w_f = max(0, (p - 1) (f_first - f) - p hop)`, `w_b` alike with `b`: one micro-batch down the
/// model, loops on the last stage until its last visit, one micro-batch up. A first chunk that is
/// slow by more than the hops is repeated before the descent, as is its backward at the end.
/// Derivation: longest path in the schedule's precedence graph; elsewhere the longer of this path,
/// the one that loops on an inner stage, and the busiest stage's work bounds from below.
#[inline(always)]
pub(super) fn closed_form<L: Lane>(stages: &Stages<L>, micro_batches: u32) -> Closed<L> {
    let executed = whole_rounds(
        PipelineShape::new(stages.count, stages.chunks),
        micro_batches,
    );
    let rounds = f64::from(executed);
    let busiest = stages.busiest_work() * rounds;
    if stages.count == 1 {
        return Closed::exactly(busiest);
    }
    let (first, middle, last) = (&stages.first, &stages.middle, &stages.last);
    let (count, chunks) = (f64::from(stages.count), f64::from(stages.chunks));
    let hop = stages.hop.value();
    let again = |of: fn(&Pass<L>) -> L| {
        let slower = of(first) - of(middle);
        (slower * (count - 1.0) - L::splat(count * hop)).larger(L::splat(0.0))
    };
    let ends = first.work() + again(|pass| pass.forward) + again(|pass| pass.backward);
    let inner = (count * chunks - 2.0) + (chunks - 1.0) * (rounds - count);
    let over_last = middle.work() * inner + last.work() * rounds;
    let mut over = over_last + 2.0 * (count * chunks - 1.0) * hop;
    if stages.count > 2 {
        let over_inner = middle.work() * (rounds * chunks + count - 3.0);
        over = over.larger(over_inner + 2.0 * (count * chunks - 2.0) * hop);
    }
    Closed {
        time: (ends + over).larger(busiest),
        exact: last_rules(stages),
    }
}

/// 1 where the longest path loops on the last stage, 0 elsewhere.
///
/// No hop may be longer than a middle pass, and one of three must hold, passes compared one by one
/// and work as their sum: (1) `middle <= last` and `first <= last`; (2) `middle <= last`,
/// `middle <= first` and the first's work is at most the last's; (3) `first <= middle` and the
/// middle's work is at most the last's.
#[inline(always)]
fn last_rules<L: Lane>(stages: &Stages<L>) -> L {
    let (first, middle, last) = (&stages.first, &stages.middle, &stages.last);
    let busier = last.work().reaches(first.work());
    let slow_first = first.reaches(middle).smaller(busier);
    let slow_last = last.reaches(first).larger(slow_first);
    let busier = last.work().reaches(middle.work());
    let slow_middle = middle.reaches(first).smaller(busier);
    let ruled = last.reaches(middle).pick(slow_last, slow_middle);
    let shortest = middle.forward.smaller(middle.backward);
    ruled.smaller(shortest.reaches(L::splat(stages.hop.value())))
}

/// Exact for any stage times, in `O(p v m)`.
///
/// Round `t` runs forward `t - i` and backward `t - (p v - 1) - (p - 1 - i)` on each stage `i`. Each
/// stage's operations come in their order, and each input was made in the round before.
pub(super) fn recurrence(
    pipeline: &Pipeline<'_>,
    micro_batches: u32,
    scratch: &mut Scratch,
) -> f64 {
    let passes = pipeline.plain().unwrap_or_default();
    let shape = pipeline.shape;
    let count = shape.stages as usize;
    let virtual_count = passes.len();
    let total = whole_rounds(shape, micro_batches) as usize * shape.chunks as usize;
    scratch.reset(count);
    let ways = [Direction::Forward, Direction::Backward].map(|way| Sweep {
        passes,
        count,
        total,
        pipeline,
        way,
    });
    for round in 0..total + count + virtual_count - 2 {
        ways[0].run(round, &mut scratch.clock, &mut scratch.forward);
        if let Some(round) = round.checked_sub(virtual_count - 1) {
            ways[1].run(round, &mut scratch.clock, &mut scratch.backward);
        }
    }
    scratch.clock.first().copied().unwrap_or(0.0)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// One direction through the model; places and positions are counted from where it enters.
struct Sweep<'a> {
    passes: &'a [Pass],
    count: usize,
    total: usize,
    pipeline: &'a Pipeline<'a>,
    way: Direction,
}

impl Sweep<'_> {
    /// Seconds on the way to a position behind the first; one device hands nothing over.
    fn hop(&self, position: usize) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let border = match self.way {
            Direction::Forward => position - 1,
            Direction::Backward => self.passes.len() - 1 - position,
        };
        self.pipeline.hop(u32::try_from(border).unwrap_or(u32::MAX))
    }

    /// Runs operation `round - place` on every place that has one.
    fn run(&self, round: usize, clock: &mut [f64], done: &mut [f64]) {
        let last_of_round_before = done[self.count - 1];
        let chunks = self.passes.len() / self.count;
        let low = (round + 1).saturating_sub(self.total);
        for place in (low..self.count.min(round + 1)).rev() {
            let chunk = (round - place) / self.count % chunks;
            let position = chunk * self.count + place;
            let ready = match (place, chunk) {
                (0, 0) => 0.0,
                (0, _) => last_of_round_before + self.hop(position),
                _ => done[place - 1] + self.hop(position),
            };
            let (stage, time) = match self.way {
                Direction::Forward => (place, self.passes[position].forward.value()),
                Direction::Backward => (
                    self.count - 1 - place,
                    self.passes[self.passes.len() - 1 - position].whole(),
                ),
            };
            clock[stage] = clock[stage].max(ready) + time;
            done[place] = clock[stage];
        }
    }
}

/// Micro-batches in whole rounds of as many as there are stages.
fn whole_rounds(shape: PipelineShape, micro_batches: u32) -> u32 {
    let stages = shape.stages.max(1);
    micro_batches.div_ceil(stages).saturating_mul(stages)
}

/// Forwards (and as many backwards) of one stage in a step.
fn operations(shape: PipelineShape, micro_batches: u32) -> u32 {
    whole_rounds(shape, micro_batches).saturating_mul(shape.chunks)
}

fn warm_up(stage: u32, shape: PipelineShape, total: u32) -> u32 {
    let after = shape.stages.saturating_sub(stage + 1);
    let chunks = (shape.chunks - 1).saturating_mul(shape.stages);
    chunks.saturating_add(after.saturating_mul(2)).min(total)
}

/// 1F1B over several chunks per device.
pub(super) struct Interleaved;

impl ScheduleRule for Interleaved {
    fn name(&self) -> &'static str {
        "interleaved"
    }

    fn source(&self) -> &'static str {
        "Narayanan et al. 2021 (Megatron-LM), section 2.2.2"
    }

    fn chunks(&self) -> u32 {
        2
    }

    fn check(&self, _shape: PipelineShape, _micro_batches: u32) -> Result<()> {
        Ok(())
    }

    fn executed(&self, shape: PipelineShape, micro_batches: u32) -> u32 {
        if shape.chunks > 1 {
            whole_rounds(shape, micro_batches)
        } else {
            micro_batches
        }
    }

    fn period(&self, shape: PipelineShape) -> u32 {
        shape.stages
    }

    /// Warm-up, steady phase, cool-down.
    fn order(
        &self,
        shape: PipelineShape,
        micro_batches: u32,
        device: u32,
        order: &mut Vec<Operation>,
    ) {
        let (count, chunks) = (shape.stages, shape.chunks);
        if chunks == 1 {
            return OneForwardOneBackward.order(shape, micro_batches, device, order);
        }
        let slot = |q: u32| {
            let round = count * chunks;
            (q / round * count + q % count, q % round / count)
        };
        let forward = |q| {
            let (micro_batch, chunk) = slot(q);
            Operation::new(Work::Forward, chunk * count + device, micro_batch)
        };
        let backward = |q| {
            let (micro_batch, chunk) = slot(q);
            let stage = (chunks - 1 - chunk) * count + device;
            Operation::new(Work::Backward, stage, micro_batch)
        };
        let total = operations(shape, micro_batches);
        let warm_up = warm_up(device, shape, total);
        order.extend((0..warm_up).map(forward));
        for q in warm_up..total {
            order.extend([forward(q), backward(q - warm_up)]);
        }
        order.extend((total - warm_up..total).map(backward));
    }

    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        let count = pipeline.shape.parts();
        let executed = self.executed(pipeline.shape, micro_batches);
        Makespan {
            time: Seconds::new(bound::whole_backward_bound(count, pipeline, executed)),
            exact: pipeline.uniform(count) && pipeline.alike(),
        }
    }

    /// `min(w + 1, m v)` chunk-micro-batches, `w` the warm-up; on the first stage this is
    /// `1 + (p - 1) / (p v)` times what 1F1B holds (Korthikanti et al. 2022, section 4.2.3).
    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        if shape.chunks == 1 {
            return OneForwardOneBackward.in_flight(shape, micro_batches, device);
        }
        let total = operations(shape, micro_batches);
        warm_up(device, shape, total).saturating_add(1).min(total)
    }

    /// Chunks change after as many micro-batches as there are stages.
    fn backs_by_chunk(&self, shape: PipelineShape, micro_batches: u32) -> bool {
        shape.chunks == 1 || micro_batches <= shape.stages
    }
}

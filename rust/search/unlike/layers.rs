//! How are the layers dealt to the stages of a combination so that its step is shortest?

use super::answer::UnlikePlan;
use super::balance::TailBound;
use super::plan_report::plan_report;
use super::positions::{EvenRun, StagePosition};
use super::walk::{GroupSequence, SLACK, Walk};
use crate::collective::Forms;
use crate::estimate::{Pricer, StageSeconds};
use crate::schedule::{Pass, Passes, Pipeline, PipelineShape, Scratch, step_time_extrapolated};
use crate::units::Seconds;

/// The stages of a combination before they have layers.
pub(super) struct StagePositions {
    pub(super) seats: Vec<StagePosition>,
    pub(super) runs: Vec<EvenRun>,
    /// What comes behind each run, and nothing at last.
    tails: Vec<TailBound>,
    /// Seconds on the first group of the layers from each on.
    work: Vec<f64>,
    /// Seconds in which both ends add up their gradients of a tied table.
    tied: f64,
}

impl StagePositions {
    /// Seats the stages of a combination.
    pub(super) fn new(walk: &Walk, pick: &GroupSequence) -> Self {
        let (seats, runs) = super::positions::stage_positions(walk, pick);
        let mut tail = TailBound::END;
        let mut tails = vec![tail];
        for run in runs.iter().rev() {
            let extra = run.extra(walk, &seats);
            tail = tail.behind(run.pace, walk.decay(run.seats.len()), extra);
            tails.push(tail);
        }
        tails.reverse();
        let layers = walk.task.groups.ranges.layers();
        let least = seats.first().map(|seat| &walk.choice(seat).least);
        let mut sum = 0.0;
        let mut work = vec![sum];
        for &block in layers.iter().rev() {
            sum += least.map_or(0.0, |least| least[block]);
            work.push(sum);
        }
        work.reverse();
        Self {
            tied: tied(walk, &seats),
            seats,
            runs,
            tails,
            work,
        }
    }

    /// Stages in all.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.seats.len()).unwrap_or(u32::MAX)
    }
}

/// Seconds in which the first and the last stage add up their gradients of a tied table.
fn tied(walk: &Walk, seats: &[StagePosition]) -> f64 {
    let (Some(first), Some(last)) = (seats.first(), seats.last()) else {
        return 0.0;
    };
    if seats.len() < 2 {
        return 0.0;
    }
    let groups = walk.task.groups;
    let [front, back] = [first, last].map(|seat| &walk.choice(seat).pricer);
    let ends: Forms = if first.group == last.group {
        let count = u32::try_from(seats.len()).unwrap_or(u32::MAX);
        front.ends(count, &mut Pricer::new(&groups.jobs[first.group].cluster))
    } else {
        groups.sum
    };
    let own = front.tied_sum(&groups.ranges, &ends);
    own.max(back.tied_sum(&groups.ranges, &ends))
}

/// Seconds of a step beside its pipeline.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PipelineEpilogue {
    /// Expert all-to-alls without an opposite pass.
    pub(super) unpaired: f64,
    pub(super) gradient: f64,
    pub(super) gather: f64,
    pub(super) optimizer: f64,
    pub(super) tied: f64,
}

impl PipelineEpilogue {
    pub(super) fn sum(&self) -> f64 {
        self.unpaired + self.gradient + self.gather + self.tied + self.optimizer
    }
}

/// A search over the dealings of one combination; its buffers are kept for the next.
pub(super) struct LayerDealer {
    /// Dealings of the last combination that were priced exactly.
    pub(super) priced: u64,
    /// True where a bound or the time to beat excluded some of its dealings.
    pub(super) cut: bool,
    limit: f64,
    passes: Vec<Pass>,
    sizes: Vec<usize>,
    best: Vec<usize>,
    times: (f64, PipelineEpilogue),
    scratch: Scratch,
}

/// Layers that are dealt so far.
#[derive(Clone, Copy)]
struct PartialDeal {
    /// The next run.
    run: usize,
    /// The next layer.
    layer: usize,
    /// Seconds of one micro-batch on the stages so far.
    before: f64,
    /// What no step with these stages can beat.
    longest: f64,
}

impl LayerDealer {
    pub(super) fn new() -> Self {
        Self {
            priced: 0,
            cut: false,
            limit: f64::INFINITY,
            passes: Vec::new(),
            sizes: Vec::new(),
            best: Vec::new(),
            times: (0.0, PipelineEpilogue::default()),
            scratch: Scratch::new(),
        }
    }

    /// The plan of the dealing whose step is shortest and below `limit`, if there is one.
    ///
    /// A stage at an end of the pipeline may hold any number of layers. Those of a group between them
    /// share theirs as evenly as can be, those with one layer less in front, where more micro-batches
    /// are in flight.
    pub(super) fn best(
        &mut self,
        walk: &mut Walk,
        mut seating: StagePositions,
        limit: f64,
    ) -> Option<UnlikePlan> {
        (self.priced, self.cut, self.limit) = (0, false, limit);
        self.best.clear();
        self.sizes.clear();
        self.sizes.resize(seating.seats.len(), 0);
        self.passes.clear();
        self.passes.resize(seating.seats.len(), Pass::default());
        let rounds = f64::from(walk.unit.micro_batches);
        for run in &mut seating.runs {
            run.most_layers = run.most_layers(walk, &seating.seats, limit / rounds);
        }
        self.deal(
            walk,
            &seating,
            PartialDeal {
                run: 0,
                layer: 0,
                before: 0.0,
                longest: 0.0,
            },
        );
        (!self.best.is_empty()).then(|| plan_report(walk, &seating, &self.best, self.times))
    }

    fn cannot_improve(&mut self, bound: f64) -> bool {
        let hopeless = bound * (1.0 - SLACK) >= self.limit;
        self.cut |= hopeless;
        hopeless
    }

    /// Tries every number of layers of a run, from the most balanced outward.
    fn deal(&mut self, walk: &mut Walk, seating: &StagePositions, dealt: PartialDeal) {
        let Some(run) = seating.runs.get(dealt.run) else {
            self.price(walk, seating, dealt.longest);
            return;
        };
        if walk.task.control.is_cancelled() {
            return;
        }
        let left = seating.work.len() - 1 - dealt.layer;
        let behind = &seating.runs[dealt.run + 1..];
        let least: usize = behind.iter().map(|run| run.seats.len()).sum();
        let most = behind.iter().fold(0_usize, |sum, run| {
            sum.saturating_add(run.most_layers.saturating_mul(run.seats.len()))
        });
        let natural = left.saturating_sub(least);
        let high = natural.min(run.most_layers.saturating_mul(run.seats.len()));
        let low = run.seats.len().max(left.saturating_sub(most));
        self.cut |= high < natural || !behind.is_empty() && low > run.seats.len();
        let share = |run: &EvenRun| run.pace * run.seats.len() as f64;
        let all: f64 = seating.runs[dealt.run..].iter().map(share).sum();
        let even = left as f64 * share(run) / all;
        let target = (low..high)
            .find(|&n| n as f64 + 0.5 >= even)
            .unwrap_or(high);
        for total in outward(target, low, high) {
            let Some(next) = self.fill(walk, seating, dealt, total) else {
                continue;
            };
            let rest = seating.tails[next.run].bound(seating.work[next.layer]);
            if !self.cannot_improve(next.longest.max(next.before + rest)) {
                self.deal(walk, seating, next);
            }
        }
    }

    /// Deals so many layers to a run, or nothing where a stage does not fit or takes too long.
    fn fill(
        &mut self,
        walk: &mut Walk,
        seating: &StagePositions,
        mut dealt: PartialDeal,
        total: usize,
    ) -> Option<PartialDeal> {
        let run = &seating.runs[dealt.run];
        let rounds = f64::from(walk.unit.micro_batches);
        let count = run.seats.len();
        let (each, more) = (total / count, total % count);
        for (place, index) in run.seats.clone().enumerate() {
            let size = each + usize::from(place >= count - more);
            let seat = &seating.seats[index];
            let class = walk.task.groups.ranges.class(dealt.layer, size);
            let entry = walk.entry(seat, class);
            if entry.most_behind.is_none_or(|most| seat.behind > most) {
                return None;
            }
            let forward = entry.forward + seat.hops[0];
            let backward = entry.backward + seat.hops[1];
            let both = forward + backward;
            dealt.longest = dealt.longest.max(dealt.before + rounds * both);
            dealt.before += both;
            dealt.layer += size;
            self.sizes[index] = size;
            self.passes[index] = Pass::new(Seconds::new(forward), Seconds::new(backward));
        }
        dealt.run += 1;
        (!self.cannot_improve(dealt.longest)).then_some(dealt)
    }

    /// The exact step of a dealing.
    fn price(&mut self, walk: &Walk, seating: &StagePositions, longest: f64) {
        let after = self.after(walk, seating);
        if self.cannot_improve(longest + after.sum()) {
            return;
        }
        self.priced += 1;
        let shape = PipelineShape::new(seating.count(), 1);
        let pipeline = Pipeline::new(shape, Passes::Each(&self.passes), Seconds::ZERO);
        let (kind, count) = (walk.unit.schedule, walk.unit.micro_batches);
        let time = step_time_extrapolated(kind, &pipeline, count, &mut self.scratch).value();
        let step = time + after.sum();
        if step < self.limit {
            self.limit = step;
            self.times = (time, after);
            self.best.clone_from(&self.sizes);
        }
    }

    /// What follows the last backward pass, as the composer has it: the worst of the stages, of which
    /// those behind end their last backward pass earlier by what is still to come.
    fn after(&self, walk: &Walk, seating: &StagePositions) -> PipelineEpilogue {
        let mut after = PipelineEpilogue {
            tied: seating.tied,
            ..PipelineEpilogue::default()
        };
        let ranges = &walk.task.groups.ranges;
        let (mut layer, mut ripple) = (0, 0.0);
        let mut last: Option<(&StagePosition, usize, StageSeconds)> = None;
        for (seat, &size) in seating.seats.iter().zip(&self.sizes) {
            let class = ranges.class(layer, size);
            let same = last.filter(|(other, held, _)| *held == class && other.costs_as(seat));
            let stage = same.map_or_else(
                || {
                    walk.choice(seat)
                        .pricer
                        .seconds(ranges, (class, seat.place), seat.hops)
                },
                |(_, _, stage)| stage,
            );
            after.unpaired += stage.unpaired;
            after.gradient = after.gradient.max(stage.gradient_exposed - ripple);
            after.gather = after.gather.max(stage.gather_exposed);
            after.optimizer = after.optimizer.max(stage.optimizer);
            ripple += stage.backward;
            layer += size;
            last = Some((seat, class, stage));
        }
        after
    }
}

/// `target` and the numbers around it from `low` to `high`, the nearest first.
fn outward(target: usize, low: usize, high: usize) -> impl Iterator<Item = usize> {
    let target = target.clamp(low, high.max(low));
    let reach = if low > high {
        0
    } else {
        1 + 2 * (target - low).max(high - target)
    };
    (0..reach).filter_map(move |step| {
        let away = step.div_ceil(2);
        let number = if step % 2 == 0 {
            target.checked_add(away)
        } else {
            target.checked_sub(away)
        };
        number.filter(|n| (low..=high).contains(n))
    })
}

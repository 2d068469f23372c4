//! Which combinations of one unit could be among the best?

use super::answer::UnlikePlan;
use super::balance::{TailBound, decays};
use super::groups::{Groups, MOST_GROUPS};
use super::layers::{LayerDealer, StagePositions};
use super::options::{Blocks, StageOption, choices};
use super::unit::{SharedFields, orders};
use crate::control::Control;
use crate::plan::{BrokenRule, Schedule};
use crate::search::space::Space;
use crate::search::walk::UNIT_BITS;
use crate::solve::{Best, Entry};
use std::collections::BTreeMap;

/// Room for rounding: bounds add in another order than prices.
pub(super) const SLACK: f64 = 1e-12;
/// Combinations that wait for their turn at most: memory is bounded, order is not lost.
const WAITING: usize = 1 << 17;
/// Plans of a unit that are tried for a first time to beat.
const SEEDS: usize = 16;

/// The stages of one group in a combination.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GroupStages {
    pub(super) group: usize,
    pub(super) choice: usize,
    pub(super) stages: u32,
}

/// Groups in their order along the pipeline, each with its choice and its stages.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupSequence {
    used: usize,
    parts: [GroupStages; MOST_GROUPS],
    /// What a device of each gains on one of the first in any layer at most.
    paces: [f64; MOST_GROUPS],
    /// Seconds of embedding and head, where they are.
    extras: [f64; MOST_GROUPS],
    /// Seconds of all layers on the first.
    work: f64,
}

impl GroupSequence {
    pub(super) fn parts(&self) -> &[GroupStages] {
        &self.parts[..self.used]
    }

    /// What a device of a part gains on one of the first in any layer at most.
    pub(super) fn pace(&self, place: usize) -> f64 {
        self.paces[place]
    }

    /// What no dealing of layers to the stages can beat.
    fn bound(&self, decays: &[f64]) -> f64 {
        let mut tail = TailBound::END;
        for place in (0..self.used).rev() {
            let decay = decays[self.parts[place].stages as usize];
            tail = tail.behind(self.paces[place], decay, self.extras[place]);
        }
        tail.bound(self.work)
    }
}

/// A pick whose bound may be of use.
#[derive(Debug, Clone, Copy)]
struct Combination {
    pick: GroupSequence,
    bound: f64,
    ordinal: u64,
}

/// What a unit found.
#[derive(Debug)]
pub(super) struct UnitOutcome {
    pub(super) best: Best<UnlikePlan>,
    pub(super) combinations: u64,
    pub(super) priced: u64,
    pub(super) unfit: u64,
    pub(super) dealings: u64,
    pub(super) illegal: [u64; BrokenRule::FAMILIES.len()],
}

/// What all units read.
#[derive(Clone, Copy)]
pub(super) struct WalkInputs<'a> {
    pub(super) groups: &'a Groups,
    pub(super) blocks: &'a Blocks,
    pub(super) space: &'a Space,
    pub(super) control: &'a Control,
    pub(super) top: usize,
}

/// A walk through one unit.
pub(super) struct Walk<'a> {
    pub(super) task: WalkInputs<'a>,
    pub(super) unit: SharedFields,
    pub(super) choices: Vec<Vec<StageOption<'a>>>,
    /// Seconds of a step that a plan must beat to be of use, found in units before.
    threshold: f64,
    index: u64,
    ordinal: u64,
    decays: Vec<f64>,
    /// Combinations of stages by the most that each part may have.
    ways: BTreeMap<[u32; MOST_GROUPS], u64>,
    found: Vec<Combination>,
    outcome: UnitOutcome,
}

impl<'a> Walk<'a> {
    /// The walk of the unit at `index`; only plans below `threshold` seconds are looked for.
    pub(super) fn new(
        task: WalkInputs<'a>,
        unit: SharedFields,
        index: usize,
        threshold: f64,
    ) -> Self {
        let mut illegal = [0; BrokenRule::FAMILIES.len()];
        let parts = (task.groups, task.blocks);
        let all = 0..task.groups.jobs.len();
        let choices = all
            .map(|group| choices(parts, group, &unit, task.space, &mut illegal))
            .collect();
        let layers = task.groups.ranges.layers().len();
        Self {
            task,
            unit,
            choices,
            threshold,
            index: (index as u64) << UNIT_BITS,
            ordinal: 0,
            decays: decays(unit.micro_batches, layers),
            ways: BTreeMap::new(),
            found: Vec::new(),
            outcome: UnitOutcome {
                best: Best::new(task.top),
                combinations: 0,
                priced: 0,
                unfit: 0,
                dealings: 0,
                illegal,
            },
        }
    }

    /// A time that no plan of the unit beats.
    pub(super) fn bound(&self) -> f64 {
        let mut least = f64::INFINITY;
        self.each_pick(|pick| least = least.min(pick.bound(&self.decays)));
        least
    }

    /// Offers times of a few plans on as many stages as there may be, those of the least bounds.
    pub(super) fn seed(mut self, best: &mut Best<()>) {
        let mut picks = Best::new(SEEDS);
        let mut index = 0;
        self.each_pick(|pick| {
            index += 1;
            if let Some(pick) = self.fitted(pick) {
                let key = pick.bound(&self.decays);
                picks.push(Entry {
                    key,
                    index,
                    item: pick,
                });
            }
        });
        let mut dealing = LayerDealer::new();
        for Entry { key, index, item } in picks.entries() {
            let limit = best.threshold().unwrap_or(f64::INFINITY);
            if self.task.control.is_cancelled() || *key >= limit {
                break;
            }
            let seating = StagePositions::new(&self, item);
            if let Some(plan) = dealing.best(&mut self, seating, limit) {
                best.push(Entry {
                    key: plan.step_time_s,
                    index: *index,
                    item: (),
                });
            }
        }
    }

    /// Prices every combination of the unit that its bound does not exclude.
    pub(super) fn run(mut self) -> UnitOutcome {
        let mut dealing = LayerDealer::new();
        for order in orders(self.choices.len()) {
            for index in 0..self.picks(&order) {
                if self.task.control.is_cancelled() {
                    return self.outcome;
                }
                if let Some(mut pick) = self.pick(&order, index) {
                    self.outcome.combinations += self.ways(&pick);
                    if !self.excludes(pick.bound(&self.decays)) {
                        self.descend(&mut pick, 0, &mut dealing);
                    }
                }
            }
        }
        self.price_found(&mut dealing);
        self.outcome
    }

    /// Prices the combinations that wait, the most promising first.
    fn price_found(&mut self, dealing: &mut LayerDealer) {
        let mut found = std::mem::take(&mut self.found);
        found.sort_by(|a, b| a.bound.total_cmp(&b.bound).then(a.ordinal.cmp(&b.ordinal)));
        for combination in &found {
            if self.task.control.is_cancelled() || self.excludes(combination.bound) {
                break;
            }
            self.price(combination, dealing);
        }
        found.clear();
        self.found = found;
    }

    /// True where a bound shows that no plan behind it is of use.
    fn excludes(&self, bound: f64) -> bool {
        bound * (1.0 - SLACK) >= self.limit()
    }

    /// Seconds that a plan must stay below.
    fn limit(&self) -> f64 {
        let own = self.outcome.best.threshold().unwrap_or(f64::INFINITY);
        own.min(self.threshold)
    }

    /// How many choices of each group an order has.
    fn picks(&self, order: &[usize]) -> usize {
        let counts = order.iter().map(|&group| self.choices[group].len());
        counts.product()
    }

    /// Calls `each` with every choice of each group in every order.
    fn each_pick(&self, mut each: impl FnMut(GroupSequence)) {
        for order in orders(self.choices.len()) {
            for index in 0..self.picks(&order) {
                if self.task.control.is_cancelled() {
                    return;
                }
                if let Some(pick) = self.pick(&order, index) {
                    each(pick);
                }
            }
        }
    }

    /// One choice of each group of an order, on as many stages as there may be; nothing where it
    /// repeats another plan.
    fn pick(&self, order: &[usize], index: usize) -> Option<GroupSequence> {
        let (mut parts, mut rest) = ([GroupStages::default(); MOST_GROUPS], index);
        for (part, &group) in parts.iter_mut().zip(order) {
            let count = self.choices[group].len();
            (part.group, part.choice) = (group, rest % count);
            part.stages = self.most(part);
            rest /= count;
        }
        let used = order.len();
        if self.repeats(&parts[..used]) {
            return None;
        }
        let choice = |place: usize| &self.choices[parts[place].group][parts[place].choice];
        let reference = choice(0);
        let (mut paces, mut extras) = ([1.0; MOST_GROUPS], [0.0; MOST_GROUPS]);
        for (place, pace) in paces.iter_mut().enumerate().take(used).skip(1) {
            *pace = choice(place).pace(reference, &self.task.groups.ranges);
        }
        extras[0] += reference.ends[0];
        extras[used - 1] += choice(used - 1).ends[1];
        Some(GroupSequence {
            used,
            parts,
            paces,
            extras,
            work: reference.work,
        })
    }

    /// True where no stage has replicas, so that plans of ZeRO stage 0 are the same.
    fn repeats(&self, parts: &[GroupStages]) -> bool {
        let alone = |part: &GroupStages| self.choices[part.group][part.choice].alone;
        let free = self.task.space.zero.is_none() && self.unit.zero > 0;
        free && parts.iter().all(alone)
    }

    /// `(1 - 1/m)` to the power of so many stages.
    pub(super) fn decay(&self, stages: usize) -> f64 {
        self.decays[stages]
    }

    fn layers(&self) -> u32 {
        u32::try_from(self.task.groups.ranges.layers().len()).unwrap_or(u32::MAX)
    }

    /// Most stages that a part may have.
    fn most(&self, part: &GroupStages) -> u32 {
        let choice = &self.choices[part.group][part.choice];
        choice.most_stages.min(self.layers())
    }

    /// True where so many stages may make a pipeline.
    fn runs(&self, stages: u32) -> bool {
        let listed = self.task.space.pipeline.as_ref();
        // on one stage both schedules are the same
        let free = self.task.space.schedule.is_none();
        let repeats = free && stages == 1 && self.unit.schedule == Schedule::GPipe;
        let within = stages <= self.layers() && !repeats;
        within && listed.is_none_or(|list| list.contains(&stages))
    }

    /// The same on fewer stages, as many as may make a pipeline, the longest parts cut; nothing where
    /// none may.
    fn fitted(&self, mut pick: GroupSequence) -> Option<GroupSequence> {
        let mut stages: u32 = pick.parts().iter().map(|part| part.stages).sum();
        let least = u32::try_from(pick.used).unwrap_or(u32::MAX);
        while !self.runs(stages) && stages > least {
            let parts = &mut pick.parts[..pick.used];
            if let Some(part) = parts.iter_mut().max_by_key(|part| part.stages) {
                part.stages -= 1;
            }
            stages -= 1;
        }
        self.runs(stages).then_some(pick)
    }

    /// Combinations of stages that a pick may have.
    fn ways(&mut self, pick: &GroupSequence) -> u64 {
        let most = pick.parts.map(|part| part.stages);
        if let Some(&known) = self.ways.get(&most) {
            return known;
        }
        let layers = self.layers() as usize;
        let mut ways = vec![0_u64; layers + 1];
        ways[0] = 1;
        for part in pick.parts() {
            let mut more = vec![0_u64; layers + 1];
            for (stages, way) in ways.iter().enumerate() {
                let end = layers.min(stages + part.stages as usize);
                for sum in more.iter_mut().take(end + 1).skip(stages + 1) {
                    *sum += way;
                }
            }
            ways = more;
        }
        let counted = (0..).zip(&ways).filter(|(stages, _)| self.runs(*stages));
        let sum = counted.map(|(_, ways)| ways).sum();
        self.ways.insert(most, sum);
        sum
    }

    /// Keeps the combinations whose bound is of use, from the most stages down: with fewer stages the
    /// bound rises.
    fn descend(&mut self, pick: &mut GroupSequence, place: usize, dealing: &mut LayerDealer) {
        let most = pick.parts[place].stages;
        for stages in (1..=most).rev() {
            pick.parts[place].stages = stages;
            let bound = pick.bound(&self.decays);
            if self.excludes(bound) {
                break;
            }
            if place + 1 < pick.used {
                self.descend(pick, place + 1, dealing);
            } else if self.runs(pick.parts().iter().map(|part| part.stages).sum()) {
                self.found.push(Combination {
                    pick: *pick,
                    bound,
                    ordinal: self.ordinal,
                });
                self.ordinal += 1;
                if self.found.len() >= WAITING {
                    self.price_found(dealing);
                }
            }
        }
        pick.parts[place].stages = most;
    }

    /// Deals the layers of a combination as well as can be.
    fn price(&mut self, combination: &Combination, dealing: &mut LayerDealer) {
        let limit = self.limit();
        let seating = StagePositions::new(self, &combination.pick);
        let dealt = dealing.best(self, seating, limit);
        self.outcome.dealings += dealing.priced;
        if dealing.priced > 0 {
            self.outcome.priced += 1;
        } else if !dealing.cut {
            self.outcome.unfit += 1;
        }
        if let Some(plan) = dealt {
            self.outcome.best.push(Entry {
                key: plan.step_time_s,
                index: self.index + combination.ordinal,
                item: plan,
            });
        }
    }
}

//! How is the best plan of every variant of a grid found without searching each from nothing?

use super::codesign::{CodesignRequest, MEASURES, Measure};
use super::driver::Search;
use super::grid::{GridClusters, GridPoint};
use super::limits::{Limits, Method, Objective};
use super::lists::Lists;
use super::priced_plan::{Best, PricedPlan};
use super::search_part::SearchPart;
use super::space::Space;
use super::unit::{Combinations, Unit};
use crate::control::Control;
use crate::economics;
use crate::error::{Error, Result};
use crate::estimate::{Job, PlanPricer, PriceRow as Price, Pricer, Verdict, estimate, price};
use crate::plan::Plan;
use crate::solve::Entry;
use crate::units::{Dollars, Seconds, SquareMillimetres};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Lines of the first wave where bounds exclude variants; each later one is twice as long, up to the last.
const WAVES: [usize; 2] = [4, 64];
/// What an index of no plan is.
const NO_PLAN: u64 = u64::MAX;
/// Far more than rounding: what is this much worse than a known plan is not looked for.
const SLACK: f64 = 1.0 + 1e-9;
/// The constant that bears on what fits alone, never on what a plan costs.
const ROOM: &str = "device.memory.capacity";

/// What became of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariantOutcome {
    /// A plan fits; the best one is known.
    Planned,
    /// No plan fits in device memory.
    Unfit,
    /// Beyond the budget; not searched.
    OverBudget,
    /// No plan is among the best that were asked for; not searched to the end.
    ByBound,
}

/// A variant: what it measures and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct VariantRow {
    /// What became of it.
    pub fate: VariantOutcome,
    /// By `Measure`: infinite where not known, or where nothing runs.
    pub measures: [f64; MEASURES],
    /// Tokens a second; 0 where nothing runs.
    pub tokens_per_s: f64,
    /// The best plan.
    pub plan: Option<Box<Plan>>,
    /// Legal plans, where it was searched.
    pub legal: u64,
    /// Legal plans that fit and whose exact time was computed.
    pub priced: u64,
    /// Legal plans that were weighed and do not fit.
    pub unfit: u64,
}

impl VariantRow {
    /// Legal plans that a bound excludes.
    pub(super) fn excluded(&self) -> u64 {
        self.legal.saturating_sub(self.priced + self.unfit)
    }
}

/// What stays the same for all variants.
pub(super) struct VariantSearch<'a> {
    pub(super) job: &'a Job,
    pub(super) space: &'a Space,
    pub(super) request: &'a CodesignRequest,
    pub(super) limits: Limits,
    pub(super) machines: &'a GridClusters<'a>,
    pub(super) control: &'a Control,
}

/// The fields of a unit, its only pipeline where it has one, and a time that no plan of it beats.
type Bounded = ((Plan, Option<u32>), f64);

/// Variants of one system and device count: they have the same legal plans and units.
struct VariantGroup {
    /// Legal plans.
    legal: u64,
    /// Plans to try first: those of the variant with the most room, down to the leanest.
    seeds: Vec<Plan>,
    /// Every unit with a time that none of its plans beats on any variant of the group.
    units: Vec<Bounded>,
}

/// Variants that are searched one after another, each from what was found on the one before.
struct VariantChain {
    group: usize,
    /// What the first plan takes on the best of them, where bounds exclude; else 0.
    expected: f64,
    members: Vec<usize>,
    /// True where they differ in room alone, which falls.
    room_alone: bool,
}

/// Searches every variant within the budget and writes down what was found.
pub(super) fn rows(searched: &VariantSearch, rows: &mut [VariantRow]) -> Result<()> {
    let (lines, groups) = searched.chains(rows)?;
    let within = lines.iter().map(|line| line.members.len() as u64).sum();
    searched.control.set_total(within);
    let mut best = Best::new(searched.request.top);
    let bounds = searched.request.method == Method::Bounds;
    let [mut size, most] = if bounds {
        WAVES
    } else {
        [lines.len().max(1); 2]
    };
    let mut left = &lines[..];
    while !left.is_empty() {
        let (wave, rest) = left.split_at(size.min(left.len()));
        let found: Result<Vec<Vec<(usize, VariantAnswer)>>> = wave
            .par_iter()
            .map(|line| searched.search_chain(line, &groups[line.group], &best))
            .collect();
        for (at, answer) in found?.into_iter().flatten() {
            let devices = rows[at].measures[Objective::Devices as usize];
            let entry = answer.entry(at, searched.ranked_by(devices));
            if let (true, Some(entry)) = (bounds, entry) {
                best.push(entry);
            }
            answer.write(&mut rows[at]);
        }
        left = rest;
        size = (size * 2).min(most);
    }
    Ok(())
}

/// What the search of a variant found.
struct VariantAnswer {
    fate: VariantOutcome,
    found: Option<(f64, PricedPlan)>,
    /// Time, memory, energy, dollars.
    measures: [f64; 4],
    tokens_per_s: f64,
    counts: [u64; 3],
}

impl VariantAnswer {
    fn unplanned(fate: VariantOutcome, counts: [u64; 3]) -> Self {
        Self {
            fate,
            found: None,
            measures: [f64::INFINITY; 4],
            tokens_per_s: 0.0,
            counts,
        }
    }

    /// What was found, to be ranked by devices where the objective is those.
    fn entry(&self, at: usize, devices: Option<f64>) -> Option<Entry<PricedPlan>> {
        let (key, item) = self.found.clone()?;
        let key = devices.unwrap_or(key);
        let index = at as u64;
        Some(Entry { key, index, item })
    }

    fn write(self, row: &mut VariantRow) {
        row.fate = self.fate;
        row.measures[..4].copy_from_slice(&self.measures);
        row.tokens_per_s = self.tokens_per_s;
        row.plan = self.found.map(|(_, found)| Box::new(found.plan));
        [row.legal, row.priced, row.unfit] = self.counts;
    }
}

impl VariantSearch<'_> {
    /// Every variant with what its machines cost; those beyond the budget are marked.
    pub(super) fn priced_variants(&self) -> Result<Vec<VariantRow>> {
        let one = |at: usize| -> Result<VariantRow> {
            self.check_cancelled()?;
            let cluster = self.machines.priced(&self.machines.point(at))?;
            let unknown = f64::INFINITY;
            let mut measures = [unknown; MEASURES];
            let capital = economics::capital(&cluster);
            let silicon = economics::silicon(&cluster);
            measures[Measure::Devices as usize] = f64::from(cluster.devices);
            measures[Measure::Watts as usize] = economics::peak_power(&cluster).value();
            measures[Measure::Capital as usize] = capital.map_or(unknown, Dollars::value);
            measures[Measure::Mm2 as usize] = silicon.map_or(unknown, SquareMillimetres::value);
            let mut limits = self.request.budget.limits();
            let over = limits.any(|(_, measure, limit)| measures[measure as usize] > limit);
            Ok(VariantRow {
                fate: if over {
                    VariantOutcome::OverBudget
                } else {
                    VariantOutcome::Unfit
                },
                measures,
                tokens_per_s: 0.0,
                plan: None,
                legal: 0,
                priced: 0,
                unfit: 0,
            })
        };
        (0..self.machines.variants())
            .into_par_iter()
            .map(one)
            .collect()
    }

    /// Refuses to go on where the caller wants to stop.
    fn check_cancelled(&self) -> Result<()> {
        if !self.control.is_cancelled() {
            return Ok(());
        }
        let (done, total) = self.control.progress();
        let what = format!("codesign after {done} of {total} variants");
        Err(Error::Cancelled { what })
    }

    /// The variants within the budget in chains, and what the chains of a group share.
    fn chains(&self, rows: &[VariantRow]) -> Result<(Vec<VariantChain>, Vec<VariantGroup>)> {
        let size = self.machines.group();
        let starts: Vec<usize> = (0..rows.len()).step_by(size).collect();
        let within = |range: Range<usize>| -> Vec<usize> {
            range
                .filter(|&at| rows[at].fate != VariantOutcome::OverBudget)
                .collect()
        };
        let mut lines = Vec::new();
        let mut groups = Vec::new();
        for start in starts {
            let members = within(start..start + size);
            if members.is_empty() {
                continue;
            }
            let rooms: Result<Vec<f64>> = members.iter().map(|&at| self.room(at)).collect();
            let group = self.group(&members, &rooms?)?;
            let times = self.reference_times(&members, &group)?;
            let mut order: Vec<(f64, usize)> = times.into_iter().zip(members).collect();
            order.sort_by(|a, b| a.0.total_cmp(&b.0)); // stable
            let (parts, room_alone) = self.machines.split(&order, ROOM);
            lines.extend(parts.into_iter().map(|(expected, members)| VariantChain {
                group: groups.len(),
                expected,
                members,
                room_alone,
            }));
            groups.push(group);
        }
        lines.sort_by(|a, b| a.expected.total_cmp(&b.expected)); // stable
        Ok((lines, groups))
    }

    /// Step times of one plan on the variants of a group, where the best ones are to come first:
    /// they let more of the others be excluded.
    fn reference_times(&self, members: &[usize], group: &VariantGroup) -> Result<Vec<f64>> {
        let plan = group.seeds.first();
        let Some(plan) = plan.filter(|_| self.request.method == Method::Bounds) else {
            return Ok(vec![0.0; members.len()]);
        };
        let time = |&at: &usize| {
            self.check_cancelled()?;
            let job = self.job_at(&self.machines.point(at))?;
            let priced = PlanPricer::new(&job).price(plan);
            Ok(match priced {
                Price::Priced { time, .. } => time,
                Price::Illegal => f64::INFINITY,
            })
        };
        members.par_iter().map(time).collect()
    }

    fn room(&self, at: usize) -> Result<f64> {
        let varied = self.machines.varied(&self.machines.point(at));
        let own = varied.iter().find(|varied| varied.name == ROOM);
        self.check_cancelled()?;
        Ok(own.map_or(1.0, |room| room.factor))
    }

    fn job_at(&self, point: &GridPoint) -> Result<Arc<Job>> {
        self.job.on(self.machines.cluster(point)?).map(Arc::new)
    }

    /// Searches the first of the members with the most room, and bounds the units of all.
    fn group(&self, members: &[usize], rooms: &[f64]) -> Result<VariantGroup> {
        let most = rooms.iter().copied().fold(0.0, f64::max);
        let at = rooms.iter().position(|room| *room >= most).unwrap_or(0);
        let point = self.machines.point(members[at]);
        let job = self.job_at(&point)?;
        let limits = Limits {
            front: vec![Objective::Time, Objective::Memory],
            ..self.limits.clone()
        };
        let search = Search::new(job, self.space.clone(), limits, self.control)?;
        let part = search.whole(&self.control.part())?;
        self.check_cancelled()?;
        let best = part.best.entries().iter().map(|entry| &entry.item);
        let front = part.front.corners().iter().map(|corner| &corner.item);
        let seeds = best.chain(front).map(|found| found.plan.clone()).collect();
        Ok(VariantGroup {
            legal: part.counts().legal(),
            seeds,
            units: self.units(&point)?,
        })
    }

    /// Bounds every unit on machines whose constants are each the best that the grid has.
    ///
    /// No constant makes a block take longer where it gets better, so a unit's bound there holds on
    /// every variant of the group (`tests/engine/constants.rs` draws jobs and checks the law for steps).
    fn units(&self, point: &GridPoint) -> Result<Vec<Bounded>> {
        let job = self.job.on(self.machines.best_of_all(point)?)?;
        let lists = Lists::new(self.space, &job);
        let combinations = Combinations::new(&job, self.space)?.kept;
        let pricer = || Pricer::new(&job.cluster);
        let bound = |pricer: &mut Pricer, combination: (Plan, Option<u32>)| {
            let unit = Unit::new(&job, self.space, &lists, combination.clone(), pricer);
            (combination, unit.bound)
        };
        let bounded = combinations.into_par_iter().map_init(pricer, bound);
        Ok(bounded.collect())
    }

    /// Searches the variants of a chain.
    fn search_chain(
        &self,
        line: &VariantChain,
        group: &VariantGroup,
        best: &Best,
    ) -> Result<Vec<(usize, VariantAnswer)>> {
        let mut best = best.clone();
        let mut answers: Vec<(usize, VariantAnswer)> = Vec::with_capacity(line.members.len());
        for &at in &line.members {
            self.check_cancelled()?;
            let job = self.job_at(&self.machines.point(at))?;
            let before = answers.last().map(|(_, answer)| answer);
            let kept = before.filter(|_| line.room_alone);
            let kept = kept.and_then(|before| self.reused_answer(before, group, &job));
            let answer = match kept {
                Some(answer) => answer,
                None => self.search(&job, group, before, &best)?,
            };
            let devices = self.ranked_by(f64::from(job.cluster.devices));
            let entry = answer.entry(at, devices);
            if let (Method::Bounds, Some(entry)) = (self.request.method, entry) {
                best.push(entry);
            }
            self.control.advance(1);
            answers.push((at, answer));
        }
        Ok(answers)
    }

    /// What is best with less room: what was best with more, where it still fits, and nothing where
    /// nothing fitted. Room bears on neither the time nor the memory of a plan.
    fn reused_answer(
        &self,
        before: &VariantAnswer,
        group: &VariantGroup,
        job: &Job,
    ) -> Option<VariantAnswer> {
        if !matches!(self.limits.objective, Objective::Time | Objective::Memory) {
            return None;
        }
        let legal = group.legal;
        match (before.fate, &before.found) {
            (VariantOutcome::Unfit, _) => Some(VariantAnswer::unplanned(
                VariantOutcome::Unfit,
                [legal, 0, legal],
            )),
            // what was not good enough with more room is not with less
            (VariantOutcome::ByBound, _) => {
                Some(VariantAnswer::unplanned(VariantOutcome::ByBound, [0; 3]))
            }
            (VariantOutcome::Planned, Some((key, found))) => {
                let composed = price(job, &found.plan).ok()?;
                let found = PricedPlan::new(&found.plan, composed);
                let fits = found.composed.fits(job);
                fits.then(|| answer_of(job, (*key, found), [legal, 1, 0]))
            }
            _ => None,
        }
    }

    /// Searches one variant: the best of others or a known plan comes first, and what cannot be as good
    /// is left out.
    fn search(
        &self,
        job: &Arc<Job>,
        group: &VariantGroup,
        before: Option<&VariantAnswer>,
        best: &Best,
    ) -> Result<VariantAnswer> {
        let devices = self.ranked_by(f64::from(job.cluster.devices));
        if devices.is_some_and(|devices| best.threshold().is_some_and(|most| devices > most)) {
            let fate = VariantOutcome::ByBound;
            return Ok(VariantAnswer::unplanned(fate, [0; 3]));
        }
        let cap = best.entries().last().filter(|_| best.threshold().is_some());
        let cap = cap.filter(|_| devices.is_none()); // keys are times, of others devices
        let cap = cap.map(|entry| (entry.key, entry.item.clone()));
        let capped = cap.is_some();
        let start = cap.or_else(|| self.seed(job, group, before));
        let part = self.walk(job, group, start.clone())?;
        let counts = part.counts();
        let counts = [group.legal, counts.priced, counts.not_fitting()];
        let entry = part.best.entries().first();
        let entry = entry.filter(|entry| entry.index != NO_PLAN);
        let found = entry.map(|entry| (entry.key, entry.item.clone()));
        Ok(match found.or(start.filter(|_| !capped)) {
            Some(found) => answer_of(job, found, counts),
            None if capped => VariantAnswer::unplanned(VariantOutcome::ByBound, [0; 3]),
            None => VariantAnswer::unplanned(VariantOutcome::Unfit, [group.legal, 0, group.legal]),
        })
    }

    /// The best of the known plans on a variant.
    fn seed(
        &self,
        job: &Job,
        group: &VariantGroup,
        before: Option<&VariantAnswer>,
    ) -> Option<(f64, PricedPlan)> {
        let mut desk = PlanPricer::new(job);
        let last = before.and_then(|before| before.found.as_ref());
        let plans = group.seeds.iter().chain(last.map(|(_, found)| &found.plan));
        let objective = self.limits.objective;
        let priced = plans.filter_map(|plan| match desk.price(plan) {
            Price::Priced {
                fits: true,
                time,
                memory,
            } => Some((
                if objective == Objective::Memory {
                    memory
                } else {
                    time
                },
                plan,
            )),
            _ => None,
        });
        let (_, plan) = priced.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let found = PricedPlan::new(plan, price(job, plan).ok()?);
        let key = measures_of(job, &found).get(objective as usize).copied()?;
        Some((key, found))
    }

    /// Devices, where variants are ranked by them and not by what their best plan has least of.
    fn ranked_by(&self, devices: f64) -> Option<f64> {
        (self.request.objective == Objective::Devices).then_some(devices)
    }

    /// Walks the units that may hold a plan as good as the one to start from.
    fn walk(
        &self,
        job: &Arc<Job>,
        group: &VariantGroup,
        start: Option<(f64, PricedPlan)>,
    ) -> Result<SearchPart> {
        let mut whole = SearchPart::new(1);
        let mut most = f64::INFINITY;
        if let Some((key, item)) = start {
            most = key * SLACK;
            // any plan of the variant that is as good comes before this entry, which stands for none
            let index = NO_PLAN;
            let key = most;
            whole.best.push(Entry { key, index, item });
        }
        let lists = Lists::new(self.space, job);
        let hopeful = group.units.par_iter();
        let hopeful = hopeful.filter(|(_, bound)| self.objective_floor(job, *bound) <= most);
        let mut units: Vec<Unit> = hopeful
            .map_init(
                || Pricer::new(&job.cluster),
                |pricer, (unit, _)| Unit::new(job, self.space, &lists, unit.clone(), pricer),
            )
            .collect();
        units.sort_by(|a, b| a.bound.total_cmp(&b.bound)); // stable, as in every search
        let search = Search {
            jobs: vec![Arc::clone(job)],
            space: self.space.clone(),
            limits: self.limits.clone(),
            lists,
            units,
            illegal: Default::default(), // nobody asks for them
        };
        let control = self.control.part();
        for wave in search.waves().windows(2) {
            let least = search.bound(wave[0]);
            if whole.best.threshold().is_some_and(|key| least > key) {
                break;
            }
            let part = search.run([wave[0], wave[1]], Some(&whole), &control);
            self.check_cancelled()?;
            whole.merge(&part?, None)?;
        }
        Ok(whole)
    }

    /// What no plan is better than whose step takes no less than a time.
    fn objective_floor(&self, job: &Job, time: f64) -> f64 {
        let cluster = &job.cluster;
        let step = Seconds::new(time);
        match self.limits.objective {
            Objective::Time | Objective::Devices => time,
            Objective::Memory => 0.0,
            // infinite where a unit has no legal plan, which no energy is
            Objective::Energy | Objective::Dollars if time.is_infinite() => time,
            Objective::Energy => economics::energy(cluster, step, Seconds::ZERO).value(),
            Objective::Dollars => {
                let energy = economics::energy(cluster, step, Seconds::ZERO);
                economics::cost(cluster, step, energy).map_or(0.0, Dollars::value)
            }
        }
    }
}

/// Time, memory, energy and dollars of a plan, by `Objective` and by `Measure`.
fn measures_of(job: &Job, found: &PricedPlan) -> [f64; 4] {
    let (time, memory) = (found.composed.time, found.composed.memory);
    let Verdict::Priced(estimate) = estimate(job, &found.plan) else {
        return [time, memory, f64::INFINITY, f64::INFINITY];
    };
    let dollars = estimate.cost_usd_per_step.unwrap_or(f64::INFINITY);
    [time, memory, estimate.energy_j_per_step, dollars]
}

fn answer_of(job: &Job, found: (f64, PricedPlan), counts: [u64; 3]) -> VariantAnswer {
    let measures = measures_of(job, &found.1);
    VariantAnswer {
        fate: VariantOutcome::Planned,
        tokens_per_s: job.tokens() / measures[0],
        measures,
        found: Some(found),
        counts,
    }
}

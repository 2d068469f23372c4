//! One search: its units in the order of their bounds, walked in waves that any machine can repeat.

use super::limits::{Limits, Objective};
use super::lists::Lists;
use super::offload::{OffloadCounts, SpillCriteria, SpillQueue, WAVE};
use super::report::SearchOutcome;
use super::rows::PlanRows;
use super::search_part::SearchPart;
use super::space::{Space, listed};
use super::unit::{Combinations, Unit, check_count};
use super::walk::{SearchContext, Walk, WalkOutcome, WalkPurpose};
use crate::control::Control;
use crate::economics;
use crate::error::{Error, Result};
use crate::estimate::{Job, Pricer};
use crate::plan::{BrokenRule, Plan};
use crate::units::{Dollars, Seconds};
use crate::workload::{Precision, Training};
use rayon::prelude::*;
use std::sync::Arc;

/// Units of the first wave; each later one is twice as long, up to the last number.
const WAVES: [usize; 2] = [8, 256];

/// A search that can be run in parts, here or elsewhere, and put together again.
#[derive(Debug)]
pub struct Search {
    /// The job in each precision recipe that the space lists; it alone where that lists none.
    pub(super) jobs: Vec<Arc<Job>>,
    pub(super) space: Space,
    pub(super) limits: Limits,
    pub(super) lists: Lists,
    pub(super) units: Vec<Unit>,
    /// Combinations of which no unit is listed, by the rule that they break.
    pub(super) illegal: [u64; BrokenRule::FAMILIES.len()],
}

impl Search {
    /// Lists the units of a space, prices their blocks and puts them in the order of their bounds.
    pub fn new(job: Arc<Job>, space: Space, limits: Limits, control: &Control) -> Result<Self> {
        limits.check(&job)?;
        let objective = limits.objective.within_a_job();
        let limits = Limits {
            objective,
            ..limits
        };
        let lists = Lists::new(&space, &job); // no list depends on a recipe
        let jobs = recipes(job, &space)?;
        let mut all: Vec<(usize, (Plan, Option<u32>))> = Vec::new();
        let mut illegal = [0; BrokenRule::FAMILIES.len()];
        for (recipe, job) in jobs.iter().enumerate() {
            let found = Combinations::new(job, &space)?;
            all.extend(found.kept.into_iter().map(|fields| (recipe, fields)));
            for (sum, count) in illegal.iter_mut().zip(found.illegal) {
                *sum += count;
            }
        }
        check_count(all.len())?;
        let listed: Option<Vec<Unit>> = all
            .into_par_iter()
            .map_init(
                || pricer(&jobs),
                |pricer, (recipe, fields)| {
                    (!control.is_cancelled()).then(|| Unit {
                        recipe,
                        ..Unit::new(&jobs[recipe], &space, &lists, fields, pricer)
                    })
                },
            )
            .collect();
        let mut units = listed.ok_or_else(|| {
            let what = "search before its units were listed".to_owned();
            Error::Cancelled { what }
        })?;
        units.sort_by(|a, b| a.bound.total_cmp(&b.bound)); // stable: equal bounds keep their order
        Ok(Self {
            jobs,
            space,
            limits,
            lists,
            units,
            illegal,
        })
    }

    /// Units, numbered from the one whose quickest plan may be quickest of all.
    pub fn units(&self) -> u32 {
        u32::try_from(self.units.len()).unwrap_or(u32::MAX)
    }

    /// Where waves of units begin, and where the last one ends.
    pub fn waves(&self) -> Vec<u32> {
        let [mut size, most] = WAVES;
        let mut ends = vec![0];
        let mut at = 0;
        while at < self.units.len() {
            at = (at + size).min(self.units.len());
            size = (size * 2).min(most);
            ends.push(u32::try_from(at).unwrap_or(u32::MAX));
        }
        ends
    }

    /// What no plan of the units from `first` on is better than, in the objective's unit.
    pub fn bound(&self, first: u32) -> f64 {
        let Some(unit) = self.units.get(first as usize) else {
            return f64::INFINITY;
        };
        let time = Seconds::new(unit.bound);
        let cluster = &self.job().cluster;
        let energy = economics::energy(cluster, time, Seconds::ZERO);
        match self.limits.objective {
            Objective::Time | Objective::Devices => unit.bound,
            Objective::Memory => 0.0,
            Objective::Energy => energy.value(),
            Objective::Dollars => {
                economics::cost(cluster, time, energy).map_or(0.0, Dollars::value)
            }
        }
    }

    /// Walks units; `before` lets more be excluded and is not part of the answer.
    pub fn run(
        &self,
        units: [u32; 2],
        before: Option<&SearchPart>,
        control: &Control,
    ) -> Result<SearchPart> {
        let [first, last] = units;
        if first > last || last > self.units() {
            let allowed = format!("first <= last <= {}", self.units());
            return Err(Error::invalid(
                "units",
                format!("{first} to {last}"),
                allowed,
            ));
        }
        let nothing = SearchPart::new(self.limits.top);
        let before = before.unwrap_or(&nothing);
        let walked: Vec<WalkOutcome> = (first..last)
            .into_par_iter()
            .map_init(
                || pricer(&self.jobs),
                |pricer, unit| self.walk(unit, &WalkPurpose::Best(before), control, pricer),
            )
            .collect();
        let mut part = nothing.clone();
        for walked in walked {
            part.merge(&walked.part, self.limits.column())?;
        }
        self.stop_if_cancelled(control)?;
        Ok(part)
    }

    /// Puts parts of other units together.
    pub fn merge(&self, parts: &[SearchPart]) -> Result<SearchPart> {
        let mut whole = SearchPart::new(self.limits.top);
        for part in parts {
            whole.merge(part, self.limits.column())?;
        }
        Ok(whole)
    }

    /// Every plan of a unit that fits, with its price.
    pub fn rows(&self, unit: u32, control: &Control) -> Result<PlanRows> {
        if unit >= self.units() {
            let allowed = format!("below {}", self.units());
            return Err(Error::invalid("unit", unit, allowed));
        }
        let walked = self.walk(unit, &WalkPurpose::Rows, control, &mut pricer(&self.jobs));
        self.stop_if_cancelled(control)?;
        Ok(walked.rows)
    }

    /// Walks everything, wave by wave. The answer does not depend on the thread count.
    pub fn whole(&self, control: &Control) -> Result<SearchPart> {
        control.set_total(u64::from(self.units()));
        let mut whole = SearchPart::new(self.limits.top);
        for wave in self.waves().windows(2) {
            let part = self.run([wave[0], wave[1]], Some(&whole), control)?;
            whole.merge(&part, self.limits.column())?;
        }
        Ok(whole)
    }

    /// The answer that a part stands for; where tensors in other tiers may help, with those plans.
    pub fn outcome(&self, part: &SearchPart, control: &Control) -> Result<SearchOutcome> {
        let mut outcome = SearchOutcome {
            best: part.best.entries().iter().map(|e| e.item.clone()).collect(),
            front: part
                .front
                .corners()
                .iter()
                .map(|c| c.item.clone())
                .collect(),
            counts: part.counts,
            nearest: part.nearest.clone(),
            unwalked: self.bound_of_unwalked(part),
            offload: OffloadCounts::default(),
        };
        for (sum, count) in outcome.counts.illegal.iter_mut().zip(self.illegal) {
            *sum += count;
        }
        let helps = match self.limits.offload {
            super::OffloadWhen::Never => false,
            // the best plan may itself keep state on the host, where others could lie as well
            super::OffloadWhen::Auto => outcome
                .best
                .first()
                .is_none_or(|best| best.plan.uses_host()),
            super::OffloadWhen::Always => true,
        };
        let whole = outcome.unwalked.is_none();
        if helps && whole && self.limits.objective == Objective::Time {
            super::offload::add(self, control, &mut outcome)?;
        }
        Ok(outcome)
    }

    /// What no plan of the units that a part has not walked is better than; none where it has all.
    fn bound_of_unwalked(&self, part: &SearchPart) -> Option<f64> {
        let first = match part.walked().first() {
            Some(&(0, end)) => end,
            _ => 0,
        };
        (first < self.units()).then(|| self.bound(first))
    }

    /// Walks every unit for plans that do not fit: those that wait to be placed, and `WalkOutcome::skipped`.
    pub(super) fn spilled(&self, criteria: SpillCriteria, control: &Control) -> (SpillQueue, f64) {
        // joined along the way: every list has room for a wave, and units are many
        let nothing = || (SpillQueue::new(WAVE), f64::INFINITY);
        (0..self.units())
            .into_par_iter()
            .map_init(
                || pricer(&self.jobs),
                |pricer, unit| self.walk(unit, &WalkPurpose::Spilled(criteria), control, pricer),
            )
            .fold(nothing, |(mut waiting, skipped), walked| {
                waiting.merge(&walked.waiting);
                (waiting, skipped.min(walked.skipped))
            })
            .reduce(nothing, |(mut waiting, skipped), (other, least)| {
                waiting.merge(&other);
                (waiting, skipped.min(least))
            })
    }

    /// The job, in the first of its recipes.
    pub fn job(&self) -> &Job {
        &self.jobs[0]
    }

    /// The job in the recipe of a plan that was found.
    pub fn job_in(&self, dtype: Option<Precision>) -> &Job {
        let in_it = |job: &&Arc<Job>| dtype == Some(job.training.precision);
        self.jobs.iter().find(in_it).unwrap_or(&self.jobs[0])
    }

    /// What is looked for.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    fn walk<'a>(
        &'a self,
        unit: u32,
        purpose: &WalkPurpose,
        control: &Control,
        pricer: &mut Pricer<'a>,
    ) -> WalkOutcome {
        let context = SearchContext {
            job: &self.jobs[self.units[unit as usize].recipe],
            space: &self.space,
            limits: &self.limits,
            lists: &self.lists,
            distinct: self.limits.column(),
        };
        let walk = Walk::new(context, unit, purpose, pricer);
        let walked = walk.run(&self.units[unit as usize], control);
        if !control.is_cancelled() && matches!(purpose, WalkPurpose::Best(_)) {
            control.advance(1);
        }
        walked
    }

    fn stop_if_cancelled(&self, control: &Control) -> Result<()> {
        if !control.is_cancelled() {
            return Ok(());
        }
        let (done, _) = control.progress();
        let what = format!("search after {done} of {} units", self.units());
        Err(Error::Cancelled { what })
    }
}

/// Prices blocks and links of many units, in any recipe: all are on one cluster.
///
/// Each thread has its own, since units meet the same few groups of ranks over and over.
fn pricer(jobs: &[Arc<Job>]) -> Pricer<'_> {
    Pricer::new(&jobs[0].cluster)
}

/// The job in each precision recipe that a space lists, each once.
fn recipes(job: Arc<Job>, space: &Space) -> Result<Vec<Arc<Job>>> {
    if space.dtype.as_ref().is_none_or(Vec::is_empty) {
        return Ok(vec![job]);
    }
    let all = listed(space.dtype.as_ref(), &[]);
    let of = |precision: Precision| {
        let training = Training {
            precision,
            ..job.training.clone()
        };
        Job::new(&job.model, &job.cluster, &training, job.memory_margin).map(Arc::new)
    };
    all.into_iter().map(of).collect()
}

/// Walks all legal plans of `space` for `job`. The answer does not depend on the thread count.
pub fn search(
    job: &Job,
    space: &Space,
    limits: &Limits,
    control: &Control,
) -> Result<SearchOutcome> {
    let search = Search::new(
        Arc::new(job.clone()),
        space.clone(),
        limits.clone(),
        control,
    )?;
    let part = search.whole(control)?;
    search.outcome(&part, control)
}

//! How are the plans of a unit walked: in order, group by group, most of them excluded unpriced?

use super::limits::{Limits, MEASURES, Measures, Method, Objective};
use super::lists::Lists;
use super::offload::{SpillCriteria, SpillQueue, WAVE};
use super::priced_plan::{PricedPlan, offer};
use super::rows::PlanRows;
use super::search_part::SearchPart;
use super::space::{Space, divisors, listed};
use super::split_stages::{SplitStages, SplitSums};
use super::unit::{SAFE, Unit};
use crate::control::Control;
use crate::economics;
use crate::estimate::{
    Composer, Factors, Job, Links, ModelStates, PlanCost, PlanInputs, Pricer, ScheduleFacts,
};
use crate::plan::{BrokenRule, Plan, ReplicaReduction, Schedule, Split, check};
use crate::schedule::Scratch;
use crate::solve::{Corner, Entry};
use crate::units::{Bytes, Dollars, Joules, Seconds};
use crate::workload::Precision;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bits of a plan's index that count within its unit: 2^40 plans are beyond any walk.
pub(super) const UNIT_BITS: u32 = 40;

/// What stays the same for all walks of a search.
#[derive(Clone, Copy)]
pub(super) struct SearchContext<'a> {
    pub(super) job: &'a Job,
    pub(super) space: &'a Space,
    pub(super) limits: &'a Limits,
    pub(super) lists: &'a Lists,
    /// The column by which the best plans differ.
    pub(super) distinct: Option<usize>,
}

impl SearchContext<'_> {
    /// The precision recipe of the job, where the space lists some.
    pub(super) fn dtype(&self) -> Option<Precision> {
        let listed = self.space.dtype.as_ref();
        listed.map(|_| self.job.training.precision)
    }

    pub(super) fn found(&self, plan: &Plan, composed: PlanCost) -> PricedPlan {
        PricedPlan {
            dtype: self.dtype(),
            ..PricedPlan::new(plan, composed)
        }
    }
}

/// What a walk is for.
pub(super) enum WalkPurpose<'a> {
    /// The best plans and the front; what others found lets more be excluded.
    Best(&'a SearchPart),
    /// Plans that do not fit, to be tried with other tiers.
    Spilled(SpillCriteria),
    /// Every plan that fits, with its price.
    Rows,
}

/// What a walk found.
pub(super) struct WalkOutcome {
    pub(super) part: SearchPart,
    pub(super) waiting: SpillQueue,
    /// Where plans that do not fit recompute some layers only and are not tried: the transfer-free
    /// time that none of them is faster than.
    pub(super) skipped: f64,
    pub(super) rows: PlanRows,
}

/// Links of a mesh under one ZeRO group and one algorithm.
struct MeshLinks {
    zero_group: u32,
    collectives: ReplicaReduction,
    /// Priced when first asked for: most meshes of large clusters are counted only.
    links: OnceCell<Links>,
}

/// A walk through one unit.
pub(super) struct Walk<'p, 'a> {
    pub(super) context: SearchContext<'a>,
    pub(super) job: &'a Job,
    /// First index of the unit's plans; indices rise along the walk and break ties.
    pub(super) index: u64,
    /// Knows the forms of the groups that units before this one have met.
    pricer: &'p mut Pricer<'a>,
    pub(super) scratch: Scratch,
    cuts: BTreeMap<(u64, u64, u64, bool), Rc<SplitStages>>,
    pub(super) found: WalkOutcome,
    /// Where only plans that do not fit are looked for.
    pub(super) criteria: Option<SpillCriteria>,
    /// True where every plan is to be priced, whatever the others cost.
    pub(super) all: bool,
    pub(super) bounds: bool,
    pub(super) energies: bool,
    /// The point of the front that covered the last plan.
    near: usize,
    /// Memory of a device that plans may fill, bytes.
    pub(super) capacity: f64,
    /// Host memory of a node that plans may fill, bytes.
    pub(super) host: f64,
    /// True where the unit as a whole is excluded and its plans are only counted.
    excluded: bool,
}

impl<'p, 'a> Walk<'p, 'a> {
    pub(super) fn new(
        context: SearchContext<'a>,
        unit: u32,
        purpose: &WalkPurpose,
        pricer: &'p mut Pricer<'a>,
    ) -> Self {
        let limits = context.limits;
        let mut part = SearchPart::new(limits.top);
        if let WalkPurpose::Best(before) = purpose {
            part.best = before.best.clone();
            part.front = before.front.clone();
        }
        part.walked = vec![(unit, unit + 1)];
        let criteria = match purpose {
            WalkPurpose::Spilled(criteria) => Some(*criteria),
            _ => None,
        };
        let all = matches!(purpose, WalkPurpose::Rows);
        Self {
            context,
            job: context.job,
            index: u64::from(unit) << UNIT_BITS,
            pricer,
            scratch: Scratch::new(),
            cuts: BTreeMap::new(),
            found: WalkOutcome {
                part,
                waiting: SpillQueue::new(criteria.map_or(0, |_| WAVE)),
                skipped: f64::INFINITY,
                rows: PlanRows::default(),
            },
            criteria,
            all,
            bounds: criteria.is_none() && !all && limits.method == Method::Bounds,
            energies: limits.wants_energy(),
            near: 0,
            capacity: context.job.capacity().value(),
            host: context
                .job
                .host_capacity()
                .map_or(f64::INFINITY, Bytes::value),
            excluded: false,
        }
    }

    /// Walks every plan of the unit; stops early where the caller wants it.
    pub(super) fn run(mut self, unit: &Unit, control: &Control) -> WalkOutcome {
        let least = self.floor(unit.bound, 0.0);
        self.excluded = self.bounds && self.cannot_improve(&least, self.index);
        for blocks in &unit.blocks {
            if let Err(rule) = &blocks.factors {
                self.reject(rule);
            }
        }
        let rest = self.job.cluster.devices / (unit.plan.tensor * unit.plan.context);
        for pipeline in divisors(self.context.space.pipeline.as_ref(), rest) {
            let data = rest / pipeline;
            if unit.pipeline.is_some_and(|only| only != pipeline) {
                continue;
            }
            let listed = self.context.space.data.as_ref();
            if listed.is_none_or(|values| values.contains(&data)) && !control.is_cancelled() {
                self.mesh(unit, [pipeline, data], control);
            }
        }
        self.found
    }

    /// Walks the plans of one mesh: schedules, chunks, ZeRO groups, blocks.
    fn mesh(&mut self, unit: &Unit, [pipeline, data]: [u32; 2], control: &Control) {
        let batch = self.job.training.global_batch;
        if !batch.is_multiple_of(u64::from(data)) {
            self.reject(&BrokenRule::Batch {
                global_batch: batch,
                step: u64::from(data),
            });
            return;
        }
        if !(batch / u64::from(data)).is_multiple_of(u64::from(unit.plan.micro_batch)) {
            return; // no micro-batch of this mesh
        }
        let plan = Plan {
            pipeline,
            data,
            ..unit.plan.clone()
        };
        if self.context.lists.has_twin(&plan) {
            return; // walked in another order of the axes
        }
        let links = self.linked();
        for &schedule in self.context.lists.schedules(pipeline) {
            for interleave in self.interleaves(schedule, &plan) {
                if control.is_cancelled() {
                    return;
                }
                for &(first_layers, last_layers, bare_last) in &self.context.lists.ends {
                    let chosen = Plan {
                        schedule,
                        interleave,
                        first_layers,
                        last_layers,
                        bare_last,
                        overlap_pipeline: schedule.overlaps_sends(),
                        ..plan.clone()
                    };
                    self.scheduled(&chosen, unit, &links);
                }
            }
        }
    }

    /// Places for the links of a mesh under every ZeRO group and every algorithm.
    fn linked(&self) -> Vec<MeshLinks> {
        let mut all = Vec::new();
        for zero_group in listed(self.context.space.zero_group.as_ref(), &[0]) {
            for &collectives in &self.context.lists.collectives {
                all.push(MeshLinks {
                    zero_group,
                    collectives,
                    links: OnceCell::new(),
                });
            }
        }
        all
    }

    /// Walks the plans of one mesh under one schedule.
    fn scheduled(&mut self, chosen: &Plan, unit: &Unit, links: &[MeshLinks]) {
        let job = self.job;
        let mut facts = None;
        for (at, blocks) in unit.blocks.iter().enumerate() {
            let Ok(factors) = &blocks.factors else {
                continue;
            };
            for linked in links {
                let mut plan = chosen.clone();
                plan.zero_group = linked.zero_group;
                plan.sequence_parallel = blocks.plan.sequence_parallel;
                plan.overlap_tensor = blocks.plan.overlap_tensor;
                plan.tensor_chunks = blocks.plan.tensor_chunks;
                plan.overlap_expert = blocks.plan.overlap_expert;
                plan.token_slices.clone_from(&blocks.plan.token_slices);
                if self.context.lists.is_alike(&plan) {
                    continue;
                }
                let split = match check(&plan, &job.shape, &job.training, job.cluster.devices) {
                    Ok(split) => split,
                    Err(rule) => {
                        self.reject(&rule);
                        continue;
                    }
                };
                for rule in &self.context.lists.broken {
                    self.reject(rule);
                }
                plan.collectives = linked.collectives;
                let zeros = self.zeros(&plan);
                if self.excluded {
                    let plans = self.context.lists.plans(&plan, split) * zeros.len() as u64;
                    self.found.part.counts.by_work += plans;
                    self.index += plans;
                    continue;
                }
                let cut = self.cut(&plan, split, unit.blocks.len());
                let price = || Links::new(&plan, job.dealt_tensors(&plan), &mut *self.pricer);
                let links = linked.links.get_or_init(price);
                let facts =
                    facts.get_or_insert_with(|| ScheduleFacts::new(job, &plan, &cut.chunks));
                let sums = cut.sums((job, self.context.lists), (at, factors));
                self.group((&mut plan, &zeros), (factors, links, facts), (&cut, sums));
            }
        }
    }

    /// ZeRO stages to try: those with which the plan's algorithm can run.
    fn zeros(&mut self, plan: &Plan) -> Vec<u8> {
        let job = self.job;
        let mut zeros = self.context.lists.zeros(plan).to_vec();
        if plan.collectives != ReplicaReduction::Auto {
            zeros.retain(|&zero| {
                let plan = Plan {
                    zero,
                    ..plan.clone()
                };
                let legal = check(&plan, &job.shape, &job.training, job.cluster.devices);
                legal.inspect_err(|rule| self.reject(rule)).is_ok()
            });
        }
        zeros
    }

    /// The virtual stages of a plan; kept for the other plans of the unit.
    fn cut(&mut self, plan: &Plan, split: Split, blocks: usize) -> Rc<SplitStages> {
        let count = u64::from(plan.virtual_stages());
        let key = (count, split.first, split.last, plan.copies_table());
        let context = (self.job, self.context.lists);
        let shape = (blocks, plan.copies_table());
        let made = || Rc::new(SplitStages::new(context, split, count, shape));
        Rc::clone(self.cuts.entry(key).or_insert_with(made))
    }

    /// Chunks per stage to try.
    fn interleaves(&self, schedule: Schedule, plan: &Plan) -> Vec<u32> {
        let pipeline = plan.pipeline;
        // each end may have one layer less than the virtual stages between
        let per_stage = (self.job.shape.layers + 2) / u64::from(pipeline);
        let most = u32::try_from(per_stage).unwrap_or(u32::MAX);
        let values = self.context.space.interleave.as_ref();
        match schedule {
            Schedule::Interleaved if pipeline == 1 => Vec::new(),
            Schedule::Interleaved => {
                let all = || (2..=most).collect();
                let mut some = values.map_or_else(all, |values| listed(Some(values), &[]));
                some.retain(|v| *v > 1);
                some
            }
            Schedule::GPipe | Schedule::OneForwardOneBackward => {
                let mut some = listed(values, &[1]);
                some.retain(|v| *v == 1);
                some
            }
            other => {
                values.map_or_else(|| self.chunks(other, plan, most), |v| listed(Some(v), &[]))
            }
        }
    }

    /// Chunks per stage with which a schedule can run; its own where none can.
    fn chunks(&self, schedule: Schedule, plan: &Plan, most: u32) -> Vec<u32> {
        let rule = schedule.rule();
        let step = u64::from(plan.data) * u64::from(plan.micro_batch);
        let count = u32::try_from(self.job.training.global_batch / step).unwrap_or(u32::MAX);
        let runs = |chunks: &u32| {
            let plan = Plan {
                schedule,
                interleave: *chunks,
                ..plan.clone()
            };
            rule.check(plan.pipeline_shape(), count).is_ok()
        };
        let mut some: Vec<u32> = (1..=most).filter(runs).collect();
        if some.is_empty() {
            some.push(rule.chunks());
        }
        some
    }

    /// Walks what neither schedule nor priced blocks depend on: ZeRO, recomputation, offload, overlaps.
    fn group(
        &mut self,
        (plan, zeros): (&mut Plan, &[u8]),
        (factors, links, facts): (&Factors, &Links, &ScheduleFacts),
        (cut, sums): (&SplitStages, &SplitSums),
    ) {
        let lists = self.context.lists;
        let Some(ideal) = &sums.ideal else {
            return; // no recomputation to try
        };
        let mut state: Option<ModelStates> = None;
        for &zero in zeros {
            for &host_optimizer in &lists.host_optimizers {
                plan.zero = zero;
                plan.offload_optimizer = host_optimizer;
                for &send in lists.sends(plan.schedule) {
                    plan.overlap_pipeline = send;
                    let inputs = PlanInputs {
                        job: self.job,
                        plan,
                        factors,
                        links,
                        chunks: &cut.chunks,
                        sums: &sums.sums,
                        recomputed: ideal,
                        facts,
                    };
                    match &mut state {
                        Some(state) => state.refill(&inputs),
                        None => state = Some(ModelStates::new(&inputs)),
                    }
                    if let Some(state) = &mut state {
                        self.family(inputs, state, (cut, sums));
                    }
                }
            }
        }
    }

    /// Walks the plans that differ in recomputation, kept activations on the host and overlaps of the
    /// traffic between replicas, unless the quickest and leanest that they could be is not wanted.
    fn family(
        &mut self,
        inputs: PlanInputs,
        state: &ModelStates,
        (cut, sums): (&SplitStages, &SplitSums),
    ) {
        let leaves = self.context.lists.leaves(cut.split);
        if self.bounds && self.family_excluded(inputs, state, leaves) {
            self.index += leaves;
            return;
        }
        self.leaves(inputs, state, (cut, sums));
    }

    /// True where a bound excludes all plans of a family, which are then counted.
    fn family_excluded(&mut self, inputs: PlanInputs, state: &ModelStates, leaves: u64) -> bool {
        let lists = self.context.lists;
        let plan = Plan {
            offload_activations: lists.most_on_host,
            overlap_grad_reduce: lists.overlaps.iter().any(|o| o.0),
            overlap_param_gather: lists.overlaps.iter().any(|o| o.1),
            ..inputs.plan.clone()
        };
        let kept = Plan {
            offload_activations: 0,
            ..plan.clone()
        };
        let inputs = |plan| PlanInputs { plan, ..inputs };
        let memory = Composer {
            inputs: inputs(&plan),
            state,
        }
        .memory();
        let leanest = memory.0.value() * SAFE;
        let over = leanest - self.job.capacity().value();
        let part = &self.found.part;
        // where nothing fits so far, the plan that lacks least is looked for
        let named = part.nearest.as_ref().map(|nearest| nearest.lacks_bytes);
        let sought = part.best.entries().is_empty() && named.is_none_or(|least| over <= least);
        if over > 0.0 {
            if !sought {
                self.found.part.counts.unfit_by_group += leaves;
            }
            return !sought;
        }
        let inputs = inputs(&kept);
        let draft = Composer { inputs, state }.draft(memory);
        let time = draft.least().time;
        let least = self.floor(time * SAFE, leanest);
        let excluded = self.cannot_improve(&least, self.index);
        if excluded {
            self.found.part.counts.by_group += leaves;
        }
        excluded
    }

    /// Offers a priced plan to the best and to the front.
    pub(super) fn keep(&mut self, composed: PlanCost, composer: &Composer, index: u64) {
        let measures = self.measures(composer, &composed);
        let limits = self.context.limits;
        let part = &mut self.found.part;
        if limits.ahead_of_s.is_some_and(|time| composed.time < time) {
            part.counts.ahead += 1;
        }
        let at = limits.coordinates(&measures);
        let key = measures[limits.objective as usize];
        if !limits.front.is_empty() && !part.front.covers(&at, index) {
            part.front.insert(Corner {
                at,
                index,
                item: self.context.found(composer.plan, composed),
            });
        }
        if part.best.admits(key, index) {
            let entry = Entry {
                key,
                index,
                item: self.context.found(composer.plan, composed),
            };
            offer(&mut part.best, entry, self.context.distinct);
        }
    }

    /// What a plan measures, by `Objective`.
    pub(super) fn measures(&self, composer: &Composer, composed: &PlanCost) -> Measures {
        let energy = self.energies.then(|| composer.energy(composed));
        self.measured(composed.time, composed.memory, energy)
    }

    /// The least that plans measure of which time and memory have a lower bound.
    fn floor(&self, time: f64, memory: f64) -> Measures {
        let cluster = &self.job.cluster;
        let idle = || economics::energy(cluster, Seconds::new(time), Seconds::ZERO);
        let energy = self.energies.then(idle);
        self.measured(time, memory, energy)
    }

    pub(super) fn measured(&self, time: f64, memory: f64, energy: Option<Joules>) -> Measures {
        let cluster = &self.job.cluster;
        let cost = energy.and_then(|energy| economics::cost(cluster, Seconds::new(time), energy));
        let mut measures = [0.0; MEASURES];
        measures[Objective::Time as usize] = time;
        measures[Objective::Memory as usize] = memory;
        measures[Objective::Energy as usize] = energy.map_or(0.0, Joules::value);
        measures[Objective::Dollars as usize] = cost.map_or(0.0, Dollars::value);
        measures[Objective::Devices as usize] = f64::from(cluster.devices);
        measures
    }

    /// True where no plan that measures this much or more, with this index or a higher one, is asked
    /// for.
    #[inline]
    pub(super) fn cannot_improve(&mut self, least: &Measures, first: u64) -> bool {
        let limits = self.context.limits;
        let part = &self.found.part;
        let counted = limits
            .ahead_of_s
            .is_some_and(|time| least[Objective::Time as usize] < time);
        !counted
            && !part.best.admits(least[limits.objective as usize], first)
            && (limits.front.is_empty()
                || part
                    .front
                    .covers_near(&limits.coordinates(least), first, &mut self.near))
    }

    fn reject(&mut self, rule: &BrokenRule) {
        self.found.part.counts.illegal[rule.family()] += 1;
    }
}

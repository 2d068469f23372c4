//! One unit of a search: all plans that share tensor, context and expert ranks, walked in order.

use super::keep::{Best, Found, Front};
use super::offload::{WAVE, Waiting, Wanted};
use super::runner::Rejections;
use super::space::{Limits, Objective, Space, divisors, listed, retain_first};
use crate::control::Control;
use crate::estimate::{Chunks, Composed, Composer, Factors, Job, Links, Pricer, Sums};
use crate::plan::{Mesh, Plan, RecomputePolicy, Rule, Schedule, Split, check};
use crate::schedule::Scratch;
use crate::solve::{Entry, Point};
use crate::units::Bytes;
use std::collections::BTreeMap;

/// Bits of a plan's index that count within its unit: 2^40 plans are beyond any walk.
const UNIT_BITS: u32 = 40;

/// The ranks that all plans of a unit share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) tensor: u32,
    pub(super) context: u32,
    pub(super) expert: u32,
    pub(super) expert_tensor: u32,
}

/// All units of a space, in order.
pub(super) fn units(job: &Job, space: &Space) -> Vec<Unit> {
    let devices = job.cluster.devices;
    let mut units = Vec::new();
    for tensor in divisors(space.tensor.as_ref(), devices) {
        for context in divisors(space.context.as_ref(), devices / tensor) {
            // expert ranks are taken from the context ranks too: one stage may hold all devices
            let experts = if job.shape.experts {
                divisors(space.expert.as_ref(), devices)
            } else {
                listed(space.expert.as_ref(), &[1])
            };
            for expert in experts {
                let widths: &[u32] = if job.shape.experts && tensor > 1 {
                    &[0, 1]
                } else {
                    &[0]
                };
                let resolved = |width: u32| if width == 0 { tensor } else { width };
                let mut widths = listed(space.expert_tensor.as_ref(), widths);
                retain_first(&mut widths, |a, b| resolved(*a) == resolved(*b));
                units.extend(widths.into_iter().map(|expert_tensor| Unit {
                    tensor,
                    context,
                    expert,
                    expert_tensor,
                }));
            }
        }
    }
    units
}

/// What a unit found.
#[derive(Debug)]
pub(super) struct UnitOutcome {
    pub(super) best: Best,
    pub(super) front: Front,
    pub(super) rejections: Rejections,
    pub(super) nearest: Option<Plan>,
    pub(super) priced: u64,
    pub(super) bounded: u64,
    pub(super) feasible: u64,
    pub(super) waiting: Waiting,
}

/// A walk through one unit.
pub(super) struct Walk<'a> {
    job: &'a Job,
    space: &'a Space,
    limits: Limits,
    /// First index of the unit's plans; indices rise along the walk and break ties.
    index: u64,
    ordinal: u64,
    pricer: Pricer<'a>,
    scratch: Scratch,
    chunks: BTreeMap<u64, Chunks>,
    factors: BTreeMap<(u32, bool, bool), Factors>,
    best: Best,
    front: Front,
    rejections: Rejections,
    nearest: Option<Plan>,
    priced: u64,
    bounded: u64,
    feasible: u64,
    /// Where only plans that do not fit are looked for.
    wanted: Option<Wanted>,
    waiting: Waiting,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        job: &'a Job,
        space: &'a Space,
        limits: Limits,
        unit: usize,
        wanted: Option<Wanted>,
    ) -> Self {
        Self {
            job,
            space,
            limits,
            index: (unit as u64) << UNIT_BITS,
            ordinal: 0,
            pricer: Pricer::new(&job.cluster),
            scratch: Scratch::new(),
            chunks: BTreeMap::new(),
            factors: BTreeMap::new(),
            best: Best::new(limits.top),
            front: Front::default(),
            rejections: Rejections::default(),
            nearest: None,
            priced: 0,
            bounded: 0,
            feasible: 0,
            wanted,
            waiting: Waiting::new(wanted.map_or(0, |_| WAVE)),
        }
    }

    /// Walks every plan of the unit.
    pub(super) fn run(mut self, unit: Unit, control: &Control) -> UnitOutcome {
        let rest = self.job.cluster.devices / (unit.tensor * unit.context);
        for pipeline in divisors(self.space.pipeline.as_ref(), rest) {
            let data = rest / pipeline;
            if self.space.data.as_ref().is_some_and(|d| !d.contains(&data)) {
                continue;
            }
            let mesh = Plan {
                tensor: unit.tensor,
                context: unit.context,
                expert: unit.expert,
                expert_tensor: unit.expert_tensor,
                pipeline,
                data,
                ..Plan::default()
            };
            if control.is_cancelled() {
                break;
            }
            self.mesh(&mesh, control);
        }
        UnitOutcome {
            best: self.best,
            front: self.front,
            rejections: self.rejections,
            nearest: self.nearest,
            priced: self.priced,
            bounded: self.bounded,
            feasible: self.feasible,
            waiting: self.waiting,
        }
    }

    /// Walks the plans of one mesh: ZeRO groups, micro-batches, sequence parallelism, overlaps.
    fn mesh(&mut self, mesh: &Plan, control: &Control) {
        let per_replica = self.job.training.global_batch / u64::from(mesh.data);
        let per_replica = u32::try_from(per_replica).unwrap_or(u32::MAX);
        if per_replica == 0
            || !self
                .job
                .training
                .global_batch
                .is_multiple_of(u64::from(mesh.data))
        {
            self.reject(&Rule::Batch {
                global_batch: self.job.training.global_batch,
                step: u64::from(mesh.data),
            });
            return;
        }
        let parallel: &[bool] = if mesh.tensor > 1 {
            &[false, true]
        } else {
            &[false]
        };
        for zero_group in listed(self.space.zero_group.as_ref(), &[0]) {
            let grouped = Plan {
                zero_group,
                ..mesh.clone()
            };
            let links = Links::new(&grouped, &mut self.pricer);
            for micro_batch in divisors(self.space.micro_batch.as_ref(), per_replica) {
                for sequence_parallel in listed(self.space.sequence_parallel.as_ref(), parallel) {
                    for overlap_tensor in listed(self.space.overlap_tensor.as_ref(), &[true]) {
                        if control.is_cancelled() {
                            return;
                        }
                        let block = Plan {
                            micro_batch,
                            sequence_parallel,
                            overlap_tensor,
                            ..grouped.clone()
                        };
                        self.block(&block, &links);
                    }
                }
            }
        }
    }

    /// Walks the plans that share priced blocks: schedules, chunks, ZeRO, recomputation.
    fn block(&mut self, block: &Plan, links: &Links) {
        let key = (
            block.micro_batch,
            block.sequence_parallel,
            block.overlap_tensor,
        );
        let mut factors = self.factors.remove(&key);
        for schedule in self.schedules(block.pipeline) {
            for interleave in self.interleaves(schedule, block.pipeline) {
                let plan = Plan {
                    schedule,
                    interleave,
                    overlap_pipeline: sends_overlap(schedule),
                    ..block.clone()
                };
                let split = match check(
                    &plan,
                    &self.job.shape,
                    &self.job.training,
                    self.job.cluster.devices,
                ) {
                    Ok(split) => split,
                    Err(rule) => {
                        self.reject(&rule);
                        continue;
                    }
                };
                let factors =
                    factors.get_or_insert_with(|| Factors::new(self.job, &plan, &mut self.pricer));
                self.memory_choices(&plan, split, factors, links);
            }
        }
        if let Some(factors) = factors {
            self.factors.insert(key, factors);
        }
    }

    /// Schedules to try; on one stage all of them are the same plan.
    fn schedules(&self, pipeline: u32) -> Vec<Schedule> {
        let all: &[Schedule] = if pipeline == 1 {
            &[Schedule::OneForwardOneBackward]
        } else {
            &[
                Schedule::OneForwardOneBackward,
                Schedule::Interleaved,
                Schedule::GPipe,
            ]
        };
        listed(self.space.schedule.as_ref(), all)
    }

    /// ZeRO stages to try; without replicas all of them are the same plan.
    fn zero_stages(&self, plan: &Plan) -> Vec<u8> {
        let mesh = Mesh::new(plan);
        let replicas = mesh.replicas.size.max(mesh.expert_replicas.size);
        let all: &[u8] = if replicas == 1 {
            &[0]
        } else if self.job.training.forward_only {
            &[0, 3]
        } else {
            &[0, 1, 2, 3]
        };
        listed(self.space.zero.as_ref(), all)
    }

    fn interleaves(&self, schedule: Schedule, pipeline: u32) -> Vec<u32> {
        // each end may have one layer less than the virtual stages between
        let per_stage = (self.job.shape.layers + 2) / u64::from(pipeline);
        let most = u32::try_from(per_stage).unwrap_or(u32::MAX);
        match schedule {
            Schedule::Interleaved if pipeline == 1 => Vec::new(),
            Schedule::Interleaved => {
                let mut values = match &self.space.interleave {
                    Some(values) => listed(Some(values), &[]),
                    None => (2..=most).collect(),
                };
                values.retain(|v| *v > 1);
                values
            }
            Schedule::GPipe | Schedule::OneForwardOneBackward => {
                let mut values = listed(self.space.interleave.as_ref(), &[1]);
                values.retain(|v| *v == 1);
                values
            }
            other => listed(self.space.interleave.as_ref(), &[other.rule().chunks()]),
        }
    }

    /// Walks what neither schedule nor priced blocks depend on: ZeRO, recomputation, overlaps.
    fn memory_choices(&mut self, plan: &Plan, split: Split, factors: &Factors, links: &Links) {
        let count = u64::from(plan.virtual_stages());
        let chunks = self
            .chunks
            .remove(&count)
            .unwrap_or_else(|| Chunks::new(self.job, split, count));
        let policies = self.policies();
        let sum = |&policy| Sums::new(self.job, factors, &chunks, policy, plan.pipeline > 1);
        let sums: Vec<Sums> = policies.iter().map(sum).collect();
        let overlaps = self.overlaps(plan);
        let mut plan = plan.clone();
        for zero in self.zero_stages(&plan) {
            for (&recompute, sums) in policies.iter().zip(&sums) {
                for &(reduce, gather, send) in &overlaps {
                    plan.zero = zero;
                    plan.recompute = recompute;
                    plan.overlap_grad_reduce = reduce;
                    plan.overlap_param_gather = gather;
                    plan.overlap_pipeline = send;
                    self.price(&Composer {
                        job: self.job,
                        plan: &plan,
                        factors,
                        links,
                        chunks: &chunks,
                        sums,
                    });
                }
            }
        }
        self.chunks.insert(count, chunks);
    }

    /// Recomputation policies to try.
    fn policies(&self) -> Vec<RecomputePolicy> {
        let all: &[RecomputePolicy] = if self.job.training.forward_only {
            &[RecomputePolicy::None]
        } else {
            &[
                RecomputePolicy::None,
                RecomputePolicy::Selective,
                RecomputePolicy::Full,
            ]
        };
        listed(self.space.recompute.as_ref(), all)
    }

    /// Overlaps to try: gradient reduction, weight gathers, sends (not with `gpipe` and `1f1b`).
    fn overlaps(&self, plan: &Plan) -> Vec<(bool, bool, bool)> {
        let sends = if sends_overlap(plan.schedule) {
            listed(self.space.overlap_pipeline.as_ref(), &[true])
        } else {
            vec![false]
        };
        let mut all = Vec::new();
        for reduce in listed(self.space.overlap_grad_reduce.as_ref(), &[true]) {
            for gather in listed(self.space.overlap_param_gather.as_ref(), &[true]) {
                for &send in &sends {
                    all.push((reduce, gather, send));
                }
            }
        }
        all
    }

    /// Prices one plan: memory first, then a bound on time, then the time itself.
    fn price(&mut self, composer: &Composer) {
        self.ordinal += 1;
        let memory = composer.memory();
        let over = memory.0.value() - self.job.capacity().value();
        if let Some(wanted) = self.wanted {
            if over > 0.0 {
                self.wait(composer, memory, wanted);
            }
            return;
        }
        if over > 0.0 {
            if self.rejections.does_not_fit(over) {
                self.nearest = Some(composer.plan.clone());
            }
            return;
        }
        self.feasible += 1;
        let draft = composer.draft(memory);
        let bound = draft.lower_bound();
        let by_time = self.limits.objective == Objective::Time;
        let hopeless =
            by_time && !self.best.admits(bound) && self.front.covers(bound, memory.0.value());
        if hopeless && !draft.exact() {
            self.bounded += 1;
            return;
        }
        self.priced += 1;
        if hopeless {
            return;
        }
        let composed = draft.finish(&mut self.scratch);
        self.keep(composed, composer);
    }

    /// Lets a plan that does not fit wait for its tensors to be placed, if it may be of use.
    fn wait(&mut self, composer: &Composer, memory: (Bytes, u32), wanted: Wanted) {
        let places = &self.job.memories.places[self.job.memories.main()..];
        let everywhere: f64 = places.iter().map(|place| place.capacity.value()).sum();
        if memory.0.value() > everywhere {
            return;
        }
        let draft = composer.draft(memory);
        let index = self.index + self.ordinal;
        if draft.lower_bound() >= wanted.below || !self.waiting.admits(draft.lower_bound()) {
            return;
        }
        let composed = draft.finish(&mut self.scratch);
        if wanted.takes(composed.time, index) {
            self.waiting.push(Entry {
                key: composed.time,
                index,
                item: Found {
                    plan: composer.plan.clone(),
                    composed,
                    offloaded: None,
                },
            });
        }
    }

    fn keep(&mut self, composed: Composed, composer: &Composer) {
        let key = match self.limits.objective {
            Objective::Time => composed.time,
            Objective::Memory => composed.memory,
            Objective::Energy => composer.energy(&composed).value(),
        };
        let best = self.best.admits(key);
        let front = !self.front.covers(composed.time, composed.memory);
        if !best && !front {
            return;
        }
        let found = Found {
            plan: composer.plan.clone(),
            composed,
            offloaded: None,
        };
        let index = self.index + self.ordinal;
        if front {
            self.front.insert(Point {
                x: composed.time,
                y: composed.memory,
                index,
                item: found.clone(),
            });
        }
        if best {
            self.best.push(Entry {
                key,
                index,
                item: found,
            });
        }
    }

    fn reject(&mut self, rule: &Rule) {
        self.rejections.illegal(rule);
    }
}

/// True where sends may run under compute.
fn sends_overlap(schedule: Schedule) -> bool {
    !matches!(schedule, Schedule::GPipe | Schedule::OneForwardOneBackward)
}

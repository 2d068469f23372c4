//! What may a group's stages choose, and what does a stage then take and hold?

use super::groups::Groups;
use super::unit::SharedFields;
use crate::estimate::{FactorKey, Factors, LayerRanges, PipelinePosition, Pricer, StagePricer};
use crate::plan::{BrokenRule, Mesh, Plan, RecomputePolicy, check};
use crate::search::space::{Space, divisors, listed, retain_first};
use std::collections::BTreeMap;

/// Priced blocks by group and what they depend on.
pub(super) type Blocks = Vec<BTreeMap<FactorKey, Factors>>;

/// Passes of a stage without its sends, and how far from the end it may stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct StageCost {
    pub(super) forward: f64,
    pub(super) backward: f64,
    /// The most stages that may stand behind it so that it fits.
    pub(super) most_behind: Option<u32>,
}

/// One way for the stages of a group to run.
pub(super) struct StageOption<'a> {
    pub(super) pricer: StagePricer<'a>,
    /// Least seconds of both passes by distinct block.
    pub(super) least: Vec<f64>,
    /// Least seconds of all layers.
    pub(super) work: f64,
    /// Least seconds of embedding and head.
    pub(super) ends: [f64; 2],
    /// Seconds of a tensor between two stages.
    pub(super) hop: f64,
    /// True where neither weights nor experts have replicas.
    pub(super) alone: bool,
    /// Stages that the devices of the group suffice for.
    pub(super) most_stages: u32,
    /// Entries by place and class of layers, found when they are first asked for.
    table: Vec<Option<StageCost>>,
}

impl<'a> StageOption<'a> {
    fn new(pricer: StagePricer<'a>, ranges: &LayerRanges, most_stages: u32) -> Self {
        let blocks = 0..ranges.ends()[0].len();
        let least: Vec<f64> = blocks.map(|block| pricer.least_seconds(block)).collect();
        let ends = ranges.ends().map(|counts| {
            let seconds = counts.iter().zip(&least);
            seconds.map(|(count, seconds)| count * seconds).sum()
        });
        let mesh = Mesh::new(pricer.plan());
        let work = ranges.layers().iter().map(|&block| least[block]).sum();
        Self {
            hop: pricer.hop(),
            alone: mesh.replicas.size == 1 && mesh.expert_replicas.size == 1,
            pricer,
            least,
            work,
            ends,
            most_stages,
            table: Vec::new(),
        }
    }

    /// The entry of a class of layers at a place.
    pub(super) fn entry(
        &mut self,
        ranges: &LayerRanges,
        class: usize,
        place: PipelinePosition,
    ) -> StageCost {
        if self.table.is_empty() {
            self.table
                .resize(PipelinePosition::COUNT * ranges.classes(), None);
        }
        let at = class * PipelinePosition::COUNT + place as usize;
        if let Some(entry) = self.table[at] {
            return entry;
        }
        let [forward, backward] = self.pricer.passes(ranges, class, place);
        let most = u32::try_from(ranges.layers().len()).unwrap_or(u32::MAX);
        let entry = StageCost {
            forward,
            backward,
            most_behind: self.pricer.most_behind(ranges, (class, place), most),
        };
        self.table[at] = Some(entry);
        entry
    }

    /// How much faster the slowest of the model's layers is here than the same on `other`, at most over
    /// all layers: `max_b other_b / own_b`.
    pub(super) fn pace(&self, other: &Self, ranges: &LayerRanges) -> f64 {
        let blocks = ranges.distinct().iter();
        let paces = blocks.map(|&block| other.least[block] / self.least[block]);
        paces.fold(0.0, f64::max)
    }
}

/// Plans of a group's stages in a unit, each once, legal or not.
fn plans(groups: &Groups, group: usize, unit: &SharedFields, space: &Space) -> Vec<Plan> {
    let job = &groups.jobs[group];
    let on = |values: &Option<Vec<bool>>| values.as_ref().and_then(|v| v.first()) != Some(&false);
    let mut plans = Vec::new();
    for tensor in ranks(space, job.cluster.devices / unit.data) {
        let shared = Plan {
            tensor,
            data: unit.data,
            micro_batch: unit.micro_batch,
            schedule: unit.schedule,
            zero: unit.zero,
            overlap_grad_reduce: on(&space.overlap_grad_reduce),
            overlap_param_gather: on(&space.overlap_param_gather),
            overlap_tensor: on(&space.overlap_tensor),
            ..Plan::default()
        };
        for (expert, expert_tensor) in experts(space, job.shape.experts, (tensor, unit.data)) {
            let plan = Plan {
                expert,
                expert_tensor,
                ..shared.clone()
            };
            plans.extend(kept(&plan, space, job.training.forward_only));
        }
    }
    plans
}

/// A plan with each sequence parallelism and recomputation.
fn kept(plan: &Plan, space: &Space, forward_only: bool) -> Vec<Plan> {
    let all: &[RecomputePolicy] = if forward_only {
        &[RecomputePolicy::None]
    } else {
        &[
            RecomputePolicy::None,
            RecomputePolicy::Selective,
            RecomputePolicy::Full,
        ]
    };
    let parallel: &[bool] = if plan.tensor > 1 {
        &[false, true]
    } else {
        &[false]
    };
    let mut plans = Vec::new();
    for sequence_parallel in listed(space.sequence_parallel.as_ref(), parallel) {
        for recompute in listed(space.recompute.as_ref(), all) {
            plans.push(Plan {
                recompute,
                sequence_parallel,
                ..plan.clone()
            });
        }
    }
    plans
}

/// Expert ranks to try, and ranks that split one expert: taken from the ranks of a stage.
fn experts(space: &Space, experts: bool, (tensor, data): (u32, u32)) -> Vec<(u32, u32)> {
    let (ranks, widths): (Vec<u32>, &[u32]) = if experts {
        let widths: &[u32] = if tensor > 1 { &[0, 1] } else { &[0] };
        (divisors(space.expert.as_ref(), tensor * data), widths)
    } else {
        (listed(space.expert.as_ref(), &[1]), &[0])
    };
    let resolved = |width: u32| if width == 0 { tensor } else { width };
    let mut widths = listed(space.expert_tensor.as_ref(), widths);
    retain_first(&mut widths, |width| resolved(*width));
    let each = |expert: u32| widths.clone().into_iter().map(move |width| (expert, width));
    ranks.into_iter().flat_map(each).collect()
}

/// Tensor ranks to try with so many devices to a replica: those listed, or the powers of two and the
/// divisors of the devices.
fn ranks(space: &Space, devices: u32) -> Vec<u32> {
    if let Some(values) = &space.tensor {
        let mut some: Vec<u32> = values.iter().copied().filter(|t| *t <= devices).collect();
        some.sort_unstable();
        some.dedup();
        return some;
    }
    let powers = (0..31).map(|power| 1_u32 << power);
    let mut all: Vec<u32> = powers.take_while(|t| *t <= devices).collect();
    all.extend(divisors(None, devices));
    all.sort_unstable();
    all.dedup();
    all
}

/// Legal choices of a group in a unit; what is not legal is counted by family of rules.
pub(super) fn choices<'a>(
    (groups, blocks): (&'a Groups, &'a Blocks),
    group: usize,
    unit: &SharedFields,
    space: &Space,
    illegal: &mut [u64; BrokenRule::FAMILIES.len()],
) -> Vec<StageOption<'a>> {
    let job = &groups.jobs[group];
    let mut pricer = Pricer::new(&job.cluster);
    let mut legal = Vec::new();
    for plan in plans(groups, group, unit, space) {
        if let Err(rule) = check(&plan, &job.shape, &job.training, plan.tensor * plan.data) {
            illegal[rule.family()] += 1;
            continue;
        }
        let Some(factors) = blocks[group].get(&Factors::key(&plan)) else {
            continue;
        };
        let stages = job.cluster.devices / (plan.tensor * plan.data);
        let pricer = StagePricer::new(job, &plan, factors, &mut pricer);
        legal.push(StageOption::new(pricer, &groups.ranges, stages));
    }
    legal
}

/// Prices the blocks that the choices of all units need.
pub(super) fn blocks(groups: &Groups, units: &[SharedFields], space: &Space) -> Blocks {
    let price = |group: usize| {
        let job = &groups.jobs[group];
        let mut pricer = Pricer::new(&job.cluster);
        let mut known = BTreeMap::new();
        for unit in units {
            for plan in plans(groups, group, unit, space) {
                if check(&plan, &job.shape, &job.training, plan.tensor * plan.data).is_ok() {
                    let priced = || Factors::new(job, &plan, &mut pricer);
                    known.entry(Factors::key(&plan)).or_insert_with(priced);
                }
            }
        }
        known
    };
    (0..groups.jobs.len()).map(price).collect()
}

//! Which values does a search try of the fields that neither axes nor blocks depend on?

use super::legal_values::LegalValues;
use super::space::{Space, listed, retain_first};
use crate::estimate::Job;
use crate::plan::{
    AxisOrder, BrokenRule, ExpertRecompute, Mesh, Plan, Recomputation, RecomputePolicy,
    ReplicaReduction, Schedule, Split, TokenSlices,
};

/// What may run under something else: gradient reduction, weight gathers.
pub(super) type Overlap = (bool, bool);

/// Values to try, each once, made before the walk so that groups of plans only point at them.
#[derive(Debug)]
pub(super) struct Lists {
    /// Where weights have replicas.
    zeros: Vec<u8>,
    /// Where they have none: all ZeRO stages are the same plan.
    zeros_alone: Vec<u8>,
    /// Recomputation of leading layers.
    policies: Vec<RecomputePolicy>,
    /// How many those are; none listed: all, and with full recomputation every smaller number.
    recompute_layers: Option<Vec<u32>>,
    rests: Vec<RecomputePolicy>,
    experts: Vec<ExpertRecompute>,
    /// How many choices of recomputation there are, by layers of the longest virtual stage.
    choices: Vec<u64>,
    /// Overlaps of the traffic between replicas.
    pub(super) overlaps: Vec<Overlap>,
    /// Sends under compute, for the schedules that can.
    sends: Vec<bool>,
    /// Optimizer on the host.
    pub(super) host_optimizers: Vec<bool>,
    /// Percent of kept activations on the host.
    pub(super) host_activations: Vec<u32>,
    /// Layers of the first and the last virtual stage, and whether that one holds none.
    pub(super) ends: Vec<(u32, u32, bool)>,
    /// Algorithms of all-reduces between replicas.
    pub(super) collectives: Vec<ReplicaReduction>,
    orders: Vec<AxisOrder>,
    /// True where some schedule runs passes in pairs.
    pub(super) pairs: bool,
    /// The most of those.
    pub(super) most_on_host: u32,
    schedules: Vec<Schedule>,
    /// On one stage.
    schedules_alone: Vec<Schedule>,
    /// True where those are one plan each time, but for sequences that are cut.
    alone_alike: bool,
    /// What listed values break whatever the plan is; those are not tried.
    pub(super) broken: Vec<BrokenRule>,
}

impl Lists {
    pub(super) fn new(space: &Space, job: &Job) -> Self {
        use RecomputePolicy::{Full, None, Selective};
        use Schedule::{GPipe, Interleaved, OneForwardOneBackward};
        let forward_only = job.training.forward_only;
        let zeros: &[u8] = if forward_only { &[0, 3] } else { &[0, 1, 2, 3] };
        let policies: &[RecomputePolicy] = if forward_only {
            &[None]
        } else {
            &[None, Selective, Full]
        };
        let mut overlaps = Vec::new();
        for reduce in listed(space.overlap_grad_reduce.as_ref(), &[true]) {
            for gather in listed(space.overlap_param_gather.as_ref(), &[true]) {
                overlaps.push((reduce, gather));
            }
        }
        let schedules = listed(
            space.schedule.as_ref(),
            &[OneForwardOneBackward, Interleaved, GPipe],
        );
        let legal = LegalValues::new(space, job);
        let cut = space.token_slices.iter().flatten().any(TokenSlices::cuts);
        let alone_alike = space.schedule.is_none() && cut;
        let alone: &[Schedule] = if alone_alike {
            // where sequences are cut, all slices go forward first
            &[OneForwardOneBackward, GPipe]
        } else {
            &[OneForwardOneBackward]
        };
        let mut lists = Self {
            zeros: listed(space.zero.as_ref(), zeros),
            zeros_alone: listed(space.zero.as_ref(), &[0]),
            policies: listed(space.recompute.as_ref(), policies),
            recompute_layers: space.recompute_layers.clone(),
            rests: legal.rests,
            experts: legal.experts,
            choices: Vec::new(),
            overlaps,
            sends: listed(space.overlap_pipeline.as_ref(), &[true]),
            host_optimizers: legal.host_optimizers,
            most_on_host: legal.host_activations.iter().copied().max().unwrap_or(0),
            host_activations: legal.host_activations,
            ends: ends(space),
            collectives: listed(space.collectives.as_ref(), &[ReplicaReduction::Auto]),
            orders: listed(space.axis_order.as_ref(), &[AxisOrder::default()]),
            pairs: schedules
                .iter()
                .any(|schedule| schedule.rule().runs_pairs()),
            schedules,
            schedules_alone: listed(space.schedule.as_ref(), alone),
            alone_alike,
            broken: legal.broken,
        };
        let layers = 0..=u32::try_from(job.shape.layers).unwrap_or(u32::MAX);
        lists.choices = layers
            .map(|most| lists.choices(most).len() as u64)
            .collect();
        lists
    }

    /// Recomputations to try where the longest virtual stage has `most` layers, each once.
    pub(super) fn choices(&self, most: u32) -> Vec<Recomputation> {
        let mut all = Vec::new();
        for &policy in &self.policies {
            for &experts in &self.experts {
                let whole = Recomputation {
                    experts,
                    ..Recomputation::all(policy)
                };
                let layers: Vec<u32> = match &self.recompute_layers {
                    Some(listed) => listed.clone(),
                    None if policy == RecomputePolicy::Full => (0..most).collect(),
                    None => vec![0],
                };
                for layers in layers {
                    if layers == 0 || layers >= most {
                        all.push(whole);
                        continue;
                    }
                    for &rest in &self.rests {
                        let some = Recomputation {
                            layers,
                            rest,
                            ..whole
                        };
                        // the layers behind may do the same, but that their experts follow no list of their own
                        let same = rest == policy && experts == ExpertRecompute::Same;
                        all.push(if same { whole } else { some });
                    }
                }
            }
        }
        retain_first(&mut all, |choice| *choice);
        all
    }

    /// True where a plan of another order, which is listed too, lays the same ranks out.
    pub(super) fn has_twin(&self, plan: &Plan) -> bool {
        let canonical = |&order: &AxisOrder| {
            let plan = Plan {
                axis_order: order,
                ..plan.clone()
            };
            plan.canonical_axis_order()
        };
        let same = |order: &&AxisOrder| canonical(order) == canonical(&plan.axis_order);
        self.orders.len() > 1 && self.orders.iter().find(same) != Some(&plan.axis_order)
    }

    /// Policies that some layer may follow.
    pub(super) fn policies(&self) -> impl Iterator<Item = RecomputePolicy> {
        let expert = |policy| {
            self.experts.iter().any(|&experts| {
                let choice = Recomputation {
                    experts,
                    ..Recomputation::all(RecomputePolicy::None)
                };
                experts != ExpertRecompute::Same && choice.of(0, true) == policy
            })
        };
        let met = move |policy: &RecomputePolicy| {
            self.policies.contains(policy) || self.rests.contains(policy) || expert(*policy)
        };
        RecomputePolicy::ALL.into_iter().filter(met)
    }

    /// Plans that differ in recomputation, activations on the host and overlaps, where the layers are
    /// split so.
    pub(super) fn leaves(&self, split: Split) -> u64 {
        let choices = self.choices.get(longest(split) as usize).copied();
        (self.host_activations.len() * self.overlaps.len()) as u64 * choices.unwrap_or(0)
    }

    /// Plans of one ZeRO stage and schedule on one mesh and one choice of blocks.
    pub(super) fn plans(&self, plan: &Plan, split: Split) -> u64 {
        let families = self.host_optimizers.len() * self.sends(plan.schedule).len();
        families as u64 * self.leaves(split)
    }

    /// ZeRO stages to try; without replicas all of them are the same plan.
    pub(super) fn zeros(&self, plan: &Plan) -> &[u8] {
        let mesh = Mesh::new(plan);
        if mesh.replicas.size.max(mesh.expert_replicas.size) == 1 {
            &self.zeros_alone
        } else {
            &self.zeros
        }
    }

    /// True where a plan on one stage is listed under another schedule, too.
    pub(super) fn is_alike(&self, plan: &Plan) -> bool {
        let first = plan.schedule == Schedule::OneForwardOneBackward;
        self.alone_alike && plan.pipeline == 1 && first == plan.token_slices.cuts()
    }

    /// Schedules to try; on one stage all of them are the same plan.
    pub(super) fn schedules(&self, pipeline: u32) -> &[Schedule] {
        if pipeline == 1 {
            &self.schedules_alone
        } else {
            &self.schedules
        }
    }

    /// Sends under compute to try.
    pub(super) fn sends(&self, schedule: Schedule) -> &[bool] {
        if schedule.overlaps_sends() {
            &self.sends
        } else {
            &[false]
        }
    }
}

fn ends(space: &Space) -> Vec<(u32, u32, bool)> {
    let mut all = Vec::new();
    for first in listed(space.first_layers.as_ref(), &[0]) {
        for last in listed(space.last_layers.as_ref(), &[0]) {
            for bare in listed(space.bare_last.as_ref(), &[false]) {
                all.push((first, last, bare));
            }
        }
    }
    all
}

/// Layers of the longest virtual stage.
pub(super) fn longest(split: Split) -> u32 {
    let most = split.first.max(split.middle).max(split.last);
    u32::try_from(most).unwrap_or(u32::MAX)
}

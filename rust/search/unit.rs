//! Which plans belong together in one unit of a search, and how quick can the quickest of them be?

use super::lists::Lists;
use super::space::{Space, divisors, divisors_of, listed, retain_first};
use crate::estimate::{Factors, Job, Pricer};
use crate::plan::{AxisOrder, BrokenRule, Plan, RecomputePolicy, TokenSlices, check_blocks};

/// Rounding that a bound may be off by: far more than sums of a few hundred numbers lose.
pub(super) const SAFE: f64 = 1.0 - 1e-9;

/// Tensor ranks from which on grids of them are tried where nothing is said.
const FEWEST_IN_GRIDS: u32 = 16;

/// All plans that share tensor, context and expert ranks and the micro-batch, so that they share
/// priced blocks.
#[derive(Debug)]
pub(super) struct Unit {
    /// Which of the search's jobs it is of.
    pub(super) recipe: usize,
    /// Those fields.
    pub(super) plan: Plan,
    /// The only pipeline of the unit's plans, where ranks of a layer lie apart by its stages.
    pub(super) pipeline: Option<u32>,
    /// What else blocks depend on, and the blocks' price or the rule that they break.
    pub(super) blocks: Vec<Blocks>,
    /// No plan of the unit has a shorter step, seconds; infinite where none is legal.
    pub(super) bound: f64,
}

/// Blocks under one choice of the fields that they depend on.
#[derive(Debug)]
pub(super) struct Blocks {
    /// The unit's fields and those.
    pub(super) plan: Plan,
    /// Their price.
    pub(super) factors: Result<Factors, BrokenRule>,
}

/// All combinations of a unit's own fields, in order, with the pipeline where that is one.
pub(super) fn combinations(job: &Job, space: &Space) -> Vec<(Plan, Option<u32>)> {
    let mut all = Vec::new();
    for axis_order in listed(space.axis_order.as_ref(), &[AxisOrder::default()]) {
        for plan in of_order(job, space) {
            let plan = Plan { axis_order, ..plan };
            if axis_order == AxisOrder::default() {
                all.push((plan, None));
                continue;
            }
            let rest = job.cluster.devices / (plan.tensor * plan.context);
            let pipelines = divisors(space.pipeline.as_ref(), rest);
            all.extend(pipelines.into_iter().map(|p| (plan.clone(), Some(p))));
        }
    }
    all
}

/// The same for one order of the axes.
fn of_order(job: &Job, space: &Space) -> Vec<Plan> {
    let devices = job.cluster.devices;
    let micro_batches = divisors_of(space.micro_batch.as_ref(), job.training.global_batch);
    let mut all = Vec::new();
    for (tensor, tensor_rows) in grids(job, space) {
        for context in divisors(space.context.as_ref(), devices / tensor) {
            // expert ranks are taken from the context ranks too: one stage may hold all devices
            let experts = if job.shape.experts {
                divisors(space.expert.as_ref(), devices)
            } else {
                listed(space.expert.as_ref(), &[1])
            };
            for expert in experts {
                for expert_tensor in widths(job, space, tensor) {
                    all.extend(micro_batches.iter().map(|&micro_batch| Plan {
                        tensor,
                        tensor_rows,
                        context,
                        expert,
                        expert_tensor,
                        micro_batch,
                        ..Plan::default()
                    }));
                }
            }
        }
    }
    all
}

/// Tensor ranks, each with the rows of the grids that they may form.
fn grids(job: &Job, space: &Space) -> Vec<(u32, u32)> {
    let mut all = Vec::new();
    for tensor in divisors(space.tensor.as_ref(), job.cluster.devices) {
        let rows = if space.tensor_rows.is_some() {
            divisors(space.tensor_rows.as_ref(), tensor)
        } else if job.shape.experts {
            vec![1]
        } else {
            rows(tensor)
        };
        all.extend(rows.into_iter().map(|rows| (tensor, rows)));
    }
    all
}

/// Rows that are tried where nothing is said: 1, and those that send least.
///
/// A layer of width `h` with `x` rows of `t` ranks moves `4 h / x (1 - x/t)` columns of a token over
/// its columns, two gathers and two scatters of the stream, and `12 h x / t (1 - 1/x)` over its rows:
/// three widths and one around attention, four and four around a feed-forward part of `4 h`. The sum is least at
/// `x = (t/3)^(1/2)`: below 8 ranks one row, at 8 a seventh less than with one, which more and shorter messages take
/// back, at 16 a third less.
fn rows(tensor: u32) -> Vec<u32> {
    if tensor < FEWEST_IN_GRIDS {
        return vec![1];
    }
    let sent = |rows: &u32| {
        let (t, x) = (f64::from(tensor), f64::from(*rows));
        4.0 / x * (1.0 - x / t) + 12.0 * x / t * (1.0 - 1.0 / x)
    };
    let all = divisors(None, tensor);
    let least = all.into_iter().min_by(|a, b| sent(a).total_cmp(&sent(b)));
    let mut some = vec![1];
    some.extend(least.filter(|rows| *rows > 1));
    some
}

/// Ranks that split an expert, each meaning once.
fn widths(job: &Job, space: &Space, tensor: u32) -> Vec<u32> {
    let widths: &[u32] = if job.shape.experts && tensor > 1 {
        &[0, 1]
    } else {
        &[0]
    };
    let resolved = |width: u32| if width == 0 { tensor } else { width };
    let mut widths = listed(space.expert_tensor.as_ref(), widths);
    retain_first(&mut widths, |width| resolved(*width));
    widths
}

/// A plan with each value of the fields that its blocks depend on, the last of them changing fastest.
fn of_blocks(space: &Space, plan: Plan) -> Vec<Plan> {
    let parallel: &[bool] = if plan.tensor > 1 {
        &[false, true]
    } else {
        &[false]
    };
    let whole = [TokenSlices::default()];
    let mut plans = vec![plan];
    let values = listed(space.sequence_parallel.as_ref(), parallel);
    vary(&mut plans, &values, |plan, on| plan.sequence_parallel = on);
    let values = listed(space.overlap_tensor.as_ref(), &[true]);
    vary(&mut plans, &values, |plan, on| plan.overlap_tensor = on);
    let values = listed(space.tensor_chunks.as_ref(), &[1]);
    vary(&mut plans, &values, |plan, n| plan.tensor_chunks = n);
    let values = listed(space.overlap_expert.as_ref(), &[false]);
    vary(&mut plans, &values, |plan, on| plan.overlap_expert = on);
    let values = listed(space.token_slices.as_ref(), &whole);
    vary(&mut plans, &values, |plan, slices| {
        plan.token_slices = slices;
    });
    plans
}

/// Sets a field of each plan to each value.
fn vary<T: Clone>(plans: &mut Vec<Plan>, values: &[T], set: impl Fn(&mut Plan, T)) {
    let each = |plan: &Plan| {
        let with = |value: &T| {
            let mut plan = plan.clone();
            set(&mut plan, value.clone());
            plan
        };
        values.iter().map(with).collect::<Vec<Plan>>()
    };
    *plans = plans.iter().flat_map(each).collect();
}

impl Unit {
    /// Prices the blocks of a unit and bounds its plans; `pricer` is one of the job's cluster.
    pub(super) fn new(
        job: &Job,
        space: &Space,
        lists: &Lists,
        (plan, pipeline): (Plan, Option<u32>),
        pricer: &mut Pricer,
    ) -> Self {
        // where ranks lie also depends on how many replicas there are
        let laid = pipeline.map_or_else(
            || plan.clone(),
            |pipeline| {
                let data = job.cluster.devices / (plan.tensor * plan.context * pipeline);
                Plan {
                    pipeline,
                    data,
                    ..plan.clone()
                }
            },
        );
        let price = |plan: Plan| {
            let legal = check_blocks(&plan, &job.shape, &job.training);
            let factors = legal.map(|()| Factors::new(job, &plan, pricer));
            Blocks { plan, factors }
        };
        let blocks: Vec<Blocks> = of_blocks(space, laid).into_iter().map(price).collect();
        let bound = blocks
            .iter()
            .filter_map(|blocks| blocks.factors.as_ref().ok())
            .map(|factors| balanced(job, lists, &plan, factors))
            .fold(f64::INFINITY, f64::min);
        Self {
            recipe: 0,
            plan,
            pipeline,
            blocks,
            bound: bound * SAFE,
        }
    }
}

/// Seconds of a step's passes, spread evenly over all devices.
///
/// `T >= W B / (b r)`: every one of the `B / (b d)` micro-batches of a replica runs all blocks, `W`
/// seconds of them, on the `p` devices of its pipeline, of which the busiest runs no less than
/// the mean; `p d = r` devices are left by tensor and context ranks, whatever the pipeline is. A
/// device that runs passes in pairs saves what the pairs hide.
fn balanced(job: &Job, lists: &Lists, plan: &Plan, factors: &Factors) -> f64 {
    let least = |policy: RecomputePolicy| -> f64 {
        let order = job.graph.order.iter();
        order
            .map(|&block| {
                let factor = &factors.blocks[block];
                if job.training.forward_only {
                    return factor.forward_time();
                }
                let hidden = if lists.pairs {
                    factor.paired_time()
                } else {
                    0.0
                };
                factor.forward_time() + factor.backward_time() + factor.recompute_time(policy)
                    - hidden
            })
            .sum()
    };
    // layers may follow different policies: the quickest stands for all
    let work = lists.policies().map(least).fold(f64::INFINITY, f64::min);
    let rest = f64::from(job.cluster.devices) / f64::from(plan.tensor * plan.context);
    work * job.training.global_batch as f64 / (f64::from(plan.micro_batch) * rest)
}

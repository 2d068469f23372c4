//! Which plans belong together in one unit of a search, and how quick can the quickest of them be?

use super::lists::Lists;
use super::space::{Space, divisors, divisors_of, listed, retain_first};
use crate::error::{Error, Result};
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
    pub(super) factors: std::result::Result<Factors, BrokenRule>,
}

/// Units that an index has room for.
const MOST: usize = 1 << 22;

/// Refuses more combinations than an index has room for.
pub(super) fn check_count(count: usize) -> Result<()> {
    if count <= MOST {
        return Ok(());
    }
    let got = format!("{count} combinations of tensor, context, expert and micro_batch");
    let allowed = format!("up to {MOST}; list fewer values of these fields");
    Err(Error::invalid("space", got, allowed))
}

/// All combinations of a unit's own fields, in order, with the pipeline where that is one.
#[derive(Debug, Default)]
pub(super) struct Combinations {
    /// Those that may be legal; all of them where none may be, so that the rule that they break is known.
    pub(super) kept: Vec<(Plan, Option<u32>)>,
    /// The others by the rule that they break: their ranks do not divide what they cut.
    pub(super) illegal: [u64; BrokenRule::FAMILIES.len()],
    /// As many as `kept` would hold if it had room for all.
    count: usize,
}

impl Combinations {
    /// Lists the combinations of a space; refuses more than an index has room for.
    pub(super) fn new(job: &Job, space: &Space) -> Result<Self> {
        let mut found = Self::default();
        found.fill(job, space, true);
        if found.count == 0 {
            found = Self::default();
            found.fill(job, space, false);
        }
        check_count(found.count)?;
        Ok(found)
    }

    fn fill(&mut self, job: &Job, space: &Space, drops: bool) {
        let micro_batches = divisors_of(space.micro_batch.as_ref(), job.training.global_batch);
        for axis_order in listed(space.axis_order.as_ref(), &[AxisOrder::default()]) {
            for_each_layout(job, space, |plan| {
                let plan = Plan { axis_order, ..plan };
                let rest = job.cluster.devices / (plan.tensor * plan.context);
                let pipelines: Vec<Option<u32>> = if axis_order == AxisOrder::default() {
                    vec![None]
                } else {
                    let each = divisors(space.pipeline.as_ref(), rest);
                    each.into_iter().map(Some).collect()
                };
                let count = micro_batches.len() * pipelines.len();
                if !(drops && self.drop_uncut(job, space, &plan, count as u64)) {
                    self.count += count;
                    self.keep(&plan, &micro_batches, &pipelines);
                }
            });
        }
    }

    fn keep(&mut self, plan: &Plan, micro_batches: &[u32], pipelines: &[Option<u32>]) {
        if self.count > MOST {
            return; // refused anyway
        }
        for &micro_batch in micro_batches {
            let plan = Plan {
                micro_batch,
                ..plan.clone()
            };
            self.kept
                .extend(pipelines.iter().map(|&pipeline| (plan.clone(), pipeline)));
        }
    }

    /// Counts combinations whose ranks divide no part of the model, whatever else they are; true where these are
    /// such.
    fn drop_uncut(&mut self, job: &Job, space: &Space, plan: &Plan, count: u64) -> bool {
        let broken = |plan: Plan| match check_blocks(&plan, &job.shape, &job.training) {
            Err(rule @ BrokenRule::Cut { .. }) => Some(rule.family()),
            _ => None, // other rules may depend on the micro-batch
        };
        let plans = of_blocks(space, plan.clone());
        let Some(families) = plans.into_iter().map(broken).collect::<Option<Vec<_>>>() else {
            return false;
        };
        for family in families {
            self.illegal[family] += count;
        }
        true
    }
}

/// Visits the tensor, context and expert ranks of a space.
fn for_each_layout(job: &Job, space: &Space, mut visit: impl FnMut(Plan)) {
    let devices = job.cluster.devices;
    // expert ranks are taken from the context ranks too: one stage may hold all devices
    let experts = if job.shape.experts {
        divisors(space.expert.as_ref(), devices)
    } else {
        listed(space.expert.as_ref(), &[1])
    };
    for (tensor, tensor_rows) in grids(job, space) {
        for context in divisors(space.context.as_ref(), devices / tensor) {
            for &expert in &experts {
                for expert_tensor in widths(job, space, tensor) {
                    visit(Plan {
                        tensor,
                        tensor_rows,
                        context,
                        expert,
                        expert_tensor,
                        ..Plan::default()
                    });
                }
            }
        }
    }
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

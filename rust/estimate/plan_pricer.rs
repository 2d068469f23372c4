//! Prices many plans at once, plan fields given as columns of integers.

use super::block::{FactorKey, Factors};
use super::chunk::Chunks;
use super::compose::{Composer, PlanCost, PlanInputs};
use super::job::Job;
use super::links::Links;
use super::model_states::ModelStates;
use super::price::Pricer;
use super::recomputation_costs::RecomputationCosts;
use super::schedule_facts::ScheduleFacts;
use super::sums::Sums;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::plan::{AxisOrder, ExpertRecompute, Mesh, Plan, RecomputePolicy, ReplicaReduction};
use crate::plan::{Schedule, Span, Split, TokenSlices, check};
use crate::schedule::Scratch;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Plans between two looks at the caller's wish to stop; a piece shares its priced blocks.
const PIECE: usize = 4096;

/// The price of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PriceRow {
    /// Legal; time in seconds and bytes on the fullest rank.
    Priced {
        /// Step time in seconds.
        time: f64,
        /// Bytes on the fullest rank.
        memory: f64,
        /// True where it fits.
        fits: bool,
    },
    /// Breaks a rule.
    Illegal,
}

/// Names of the plan fields that a column can hold, in the plan's order. Flags are 0 or 1;
/// schedules count gpipe, 1f1b, interleaved; recomputation counts none, selective, full; orders of axes
/// count as `AxisOrder::ALL` does, algorithms of all-reduces as `ReplicaReduction::named` does; slices are
/// equal.
pub const COLUMNS: [&str; 31] = [
    "tensor",
    "tensor_rows",
    "context",
    "pipeline",
    "data",
    "expert",
    "expert_tensor",
    "micro_batch",
    "interleave",
    "schedule",
    "token_slices",
    "zero",
    "zero_group",
    "recompute",
    "recompute_layers",
    "recompute_rest",
    "recompute_experts",
    "sequence_parallel",
    "overlap_grad_reduce",
    "overlap_param_gather",
    "overlap_tensor",
    "overlap_pipeline",
    "tensor_chunks",
    "overlap_expert",
    "offload_optimizer",
    "offload_activations",
    "axis_order",
    "first_layers",
    "last_layers",
    "bare_last",
    "collectives",
];

/// Prices `rows` of integers, each row a plan whose fields are named by `columns`; fields without
/// a column have their default, `overlap_pipeline` wherever the schedule can.
pub fn estimate_many(
    job: &Job,
    columns: &[String],
    rows: &[i64],
    control: &Control,
) -> Result<Vec<PriceRow>> {
    let fields = columns
        .iter()
        .map(|name| {
            COLUMNS
                .iter()
                .position(|known| known == name)
                .ok_or_else(|| Error::unknown("plan column", name, COLUMNS))
        })
        .collect::<Result<Vec<usize>>>()?;
    if fields.is_empty() {
        return Ok(Vec::new());
    }
    control.set_total((rows.len() / fields.len()) as u64);
    let pieces: Vec<Result<Vec<PriceRow>>> = rows
        .par_chunks(PIECE * fields.len())
        .enumerate()
        .map(|(index, piece)| price_piece(job, &fields, piece, index * PIECE, control))
        .collect();
    let mut all = Vec::with_capacity(rows.len() / fields.len());
    for piece in pieces {
        all.extend(piece?);
    }
    Ok(all)
}

fn price_piece(
    job: &Job,
    fields: &[usize],
    rows: &[i64],
    first: usize,
    control: &Control,
) -> Result<Vec<PriceRow>> {
    if control.is_cancelled() {
        let (done, total) = control.progress();
        return Err(Error::Cancelled {
            what: format!("{done} of {total} plans"),
        });
    }
    let mut desk = PlanPricer::new(job);
    let sends = fields
        .iter()
        .any(|&field| COLUMNS[field] == "overlap_pipeline");
    let priced = rows
        .chunks_exact(fields.len())
        .enumerate()
        .map(|(offset, row)| {
            let mut plan = Plan::default();
            for (&field, &value) in fields.iter().zip(row) {
                set(&mut plan, field, value, first + offset)?;
            }
            if !sends {
                plan.overlap_pipeline = plan.schedule.overlaps_sends();
            }
            Ok(desk.price(&plan))
        })
        .collect();
    control.advance((rows.len() / fields.len()) as u64);
    priced
}

fn set(plan: &mut Plan, field: usize, value: i64, row: usize) -> Result<()> {
    let refuse =
        |allowed: &str| Error::invalid(format!("row {row}, {}", COLUMNS[field]), value, allowed);
    let count = || u32::try_from(value).map_err(|_| refuse("a count from 0 to 2^32 - 1"));
    let flag = || match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(refuse("0 or 1")),
    };
    let policy = || match value {
        0 => Ok(RecomputePolicy::None),
        1 => Ok(RecomputePolicy::Selective),
        2 => Ok(RecomputePolicy::Full),
        _ => Err(refuse("0 (none), 1 (selective) or 2 (full)")),
    };
    match COLUMNS[field] {
        "tensor" => plan.tensor = count()?,
        "tensor_rows" => plan.tensor_rows = count()?,
        "context" => plan.context = count()?,
        "pipeline" => plan.pipeline = count()?,
        "data" => plan.data = count()?,
        "expert" => plan.expert = count()?,
        "expert_tensor" => plan.expert_tensor = count()?,
        "micro_batch" => plan.micro_batch = count()?,
        "interleave" => plan.interleave = count()?,
        "schedule" => {
            let index = usize::try_from(value).unwrap_or(usize::MAX);
            let schedule = Schedule::ALL.get(index).copied();
            plan.schedule = schedule.ok_or_else(|| refuse(&schedules()))?;
        }
        "token_slices" => plan.token_slices = TokenSlices::Even(count()?),
        "zero" => plan.zero = u8::try_from(value).map_err(|_| refuse("0 to 3"))?,
        "zero_group" => plan.zero_group = count()?,
        "recompute" => plan.recompute = policy()?,
        "recompute_layers" => plan.recompute_layers = count()?,
        "recompute_rest" => plan.recompute_rest = policy()?,
        "recompute_experts" => {
            plan.recompute_experts = match value {
                0 => ExpertRecompute::Same,
                1 => ExpertRecompute::None,
                2 => ExpertRecompute::Selective,
                3 => ExpertRecompute::Full,
                _ => return Err(refuse("0 (same), 1 (none), 2 (selective) or 3 (full)")),
            }
        }
        "sequence_parallel" => plan.sequence_parallel = flag()?,
        "overlap_grad_reduce" => plan.overlap_grad_reduce = flag()?,
        "overlap_param_gather" => plan.overlap_param_gather = flag()?,
        "overlap_tensor" => plan.overlap_tensor = flag()?,
        "overlap_pipeline" => plan.overlap_pipeline = flag()?,
        "tensor_chunks" => plan.tensor_chunks = count()?,
        "overlap_expert" => plan.overlap_expert = flag()?,
        "offload_optimizer" => plan.offload_optimizer = flag()?,
        "offload_activations" => plan.offload_activations = count()?,
        "first_layers" => plan.first_layers = count()?,
        "last_layers" => plan.last_layers = count()?,
        "bare_last" => plan.bare_last = flag()?,
        name => return set_placement_field(plan, name, value).map_err(|allowed| refuse(&allowed)),
    }
    Ok(())
}

/// Sets a field that says where ranks lie and how they sum; else says which numbers are allowed.
fn set_placement_field(plan: &mut Plan, name: &str, value: i64) -> std::result::Result<(), String> {
    let index = usize::try_from(value).unwrap_or(usize::MAX);
    if name == "axis_order" {
        let order = AxisOrder::ALL.get(index).copied();
        let names = || numbered_names(AxisOrder::ALL.map(AxisOrder::name).into_iter());
        plan.axis_order = order.ok_or_else(names)?;
    } else {
        let choice = ReplicaReduction::named().nth(index);
        plan.collectives = choice.ok_or_else(|| numbered_names(ReplicaReduction::named()))?;
    }
    Ok(())
}

/// The place of a value among those that can be named; `u32::MAX` where it is none of them.
fn numbers<T: PartialEq>(mut all: impl Iterator<Item = T>, value: &T) -> u32 {
    let place = all.position(|one| one == *value);
    place
        .and_then(|place| u32::try_from(place).ok())
        .unwrap_or(u32::MAX)
}

/// The value of a plan in a column of `COLUMNS`, as `estimate_many` takes it.
pub fn column(plan: &Plan, field: usize) -> u32 {
    match COLUMNS[field] {
        "tensor" => plan.tensor,
        "tensor_rows" => plan.tensor_rows,
        "context" => plan.context,
        "pipeline" => plan.pipeline,
        "data" => plan.data,
        "expert" => plan.expert,
        "expert_tensor" => plan.expert_tensor,
        "micro_batch" => plan.micro_batch,
        "interleave" => plan.interleave,
        "schedule" => plan.schedule.number(),
        "token_slices" => match plan.token_slices {
            TokenSlices::Even(count) => count,
            TokenSlices::Lengths(_) => u32::MAX,
        },
        "zero" => plan.zero.into(),
        "zero_group" => plan.zero_group,
        "recompute" => plan.recompute as u32,
        "recompute_layers" => plan.recompute_layers,
        "recompute_rest" => plan.recompute_rest as u32,
        "recompute_experts" => plan.recompute_experts as u32,
        "sequence_parallel" => plan.sequence_parallel.into(),
        "overlap_grad_reduce" => plan.overlap_grad_reduce.into(),
        "overlap_param_gather" => plan.overlap_param_gather.into(),
        "overlap_tensor" => plan.overlap_tensor.into(),
        "overlap_pipeline" => plan.overlap_pipeline.into(),
        "tensor_chunks" => plan.tensor_chunks,
        "overlap_expert" => plan.overlap_expert.into(),
        "offload_optimizer" => plan.offload_optimizer.into(),
        "offload_activations" => plan.offload_activations,
        "axis_order" => numbers(AxisOrder::ALL.into_iter(), &plan.axis_order),
        "first_layers" => plan.first_layers,
        "last_layers" => plan.last_layers,
        "bare_last" => plan.bare_last.into(),
        _ => numbers(ReplicaReduction::named(), &plan.collectives),
    }
}

/// Prices plans one after another and remembers what they share.
pub struct PlanPricer<'a> {
    job: &'a Job,
    pricer: Pricer<'a>,
    scratch: Scratch,
    factors: BTreeMap<(FactorKey, [Span; 3]), Factors>,
    chunks: BTreeMap<(Split, u64), Chunks>,
}

impl<'a> PlanPricer<'a> {
    /// Nothing priced yet.
    pub fn new(job: &'a Job) -> Self {
        Self {
            job,
            pricer: Pricer::new(&job.cluster),
            scratch: Scratch::new(),
            factors: BTreeMap::new(),
            chunks: BTreeMap::new(),
        }
    }

    /// Prices one plan.
    pub fn price(&mut self, plan: &Plan) -> PriceRow {
        match self.composed(plan) {
            Some(composed) => PriceRow::Priced {
                time: composed.time,
                memory: composed.memory,
                fits: composed.fits(self.job),
            },
            None => PriceRow::Illegal,
        }
    }

    fn composed(&mut self, plan: &Plan) -> Option<PlanCost> {
        let job = self.job;
        let split = check(plan, &job.shape, &job.training, job.cluster.devices).ok()?;
        let mesh = Mesh::new(plan);
        // other axes inside these move their ranks apart
        let spans = [mesh.tensor, mesh.context, mesh.expert];
        let pricer = &mut self.pricer;
        let factors = self
            .factors
            .entry((Factors::key(plan), spans))
            .or_insert_with(|| Factors::new(job, plan, pricer));
        let count = u64::from(plan.virtual_stages());
        let chunks = self
            .chunks
            .entry((split, count))
            .or_insert_with(|| Chunks::new(job, split, count));
        let links = Links::new(plan, job.dealt_tensors(plan), &mut self.pricer);
        let sums = Sums::new(job, factors, chunks, plan.copies_table());
        let again = RecomputationCosts::new(job, factors, (chunks, &sums), plan.recomputation());
        let facts = ScheduleFacts::new(job, plan, chunks);
        let inputs = PlanInputs {
            job,
            plan,
            factors,
            links: &links,
            chunks,
            sums: &sums,
            recomputed: &again,
            facts: &facts,
        };
        let state = &ModelStates::new(&inputs);
        Some(Composer { inputs, state }.compose(&mut self.scratch))
    }
}

/// The numbers that stand for schedules.
fn schedules() -> String {
    numbered_names(Schedule::ALL.into_iter().map(|kind| kind.rule().name()))
}

/// The numbers that stand for names.
fn numbered_names<T: std::fmt::Display>(names: impl Iterator<Item = T>) -> String {
    let named: Vec<String> = names
        .enumerate()
        .map(|(index, name)| format!("{index} ({name})"))
        .collect();
    named.join(", ")
}

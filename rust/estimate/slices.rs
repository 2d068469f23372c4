//! How long does a stage take for a slice of each sequence, behind a context of earlier slices?

use super::block::Factors;
use super::chunk::Chunks;
use super::job::Job;
use super::price::Pricer;
use super::recomputation_costs::RecomputationCosts;
use super::sums::Sums;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::plan::{BlockProgram, Plan, check, lower, lower_slice};
use crate::workload::{Graph, Training};
use rayon::prelude::*;

/// Seconds of slices on the first, an inner and the last virtual stage, sends left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SliceTimes {
    /// Forward passes, by slice.
    pub forward: Vec<[f64; 3]>,
    /// Backward passes with the plan's recomputation, by slice.
    pub backward: Vec<[f64; 3]>,
}

/// A slice of each sequence as a job of its own.
pub(super) struct Slice {
    pub(super) graph: Graph,
    pub(super) training: Training,
    /// Tokens of the sequence in front and behind.
    pub(super) beside: [u64; 2],
}

impl Slice {
    /// A slice of so many tokens behind others.
    fn new(job: &Job, [tokens, before]: [u64; 2]) -> Self {
        let training = Training {
            sequence: tokens,
            ..job.training.clone()
        };
        let behind = job.training.sequence.saturating_sub(tokens + before);
        Self {
            graph: job.model.graph(&training),
            training,
            beside: [before, behind],
        }
    }
}

/// The slices into which a plan cuts each sequence.
pub(super) fn slices<'a>(job: &'a Job, plan: &'a Plan) -> impl Iterator<Item = Slice> + 'a {
    let slices = plan.token_slices.of(job.training.sequence);
    slices.map(|slice| Slice::new(job, slice))
}

/// What a block becomes on a rank, slice by slice; one where sequences are not cut.
pub(super) fn programs(job: &Job, plan: &Plan, block: usize) -> Vec<BlockProgram> {
    if !plan.token_slices.cuts() {
        return vec![lower(&job.graph, block, &job.training, plan)];
    }
    let program = |s: Slice| lower_slice(&s.graph, block, &s.training, plan, s.beside);
    slices(job, plan).map(program).collect()
}

/// Prices slices of a micro-batch's sequences as a plan runs them, each a pair of its own tokens
/// and the tokens in front: `t(l, c)` of Li et al. 2021 (`TeraPipe`), section 3.3.
///
/// Products, norms and collectives work on the slice's tokens; attention reads the keys of both
/// parts, and its backward pass adds to the gradients of those in front. A slice that is the whole
/// sequence takes what the stage takes in `estimate`.
pub fn slice_times(
    job: &Job,
    plan: &Plan,
    asked: &[[u64; 2]],
    control: &Control,
) -> Result<SliceTimes> {
    let split = check(plan, &job.shape, &job.training, job.cluster.devices)
        .map_err(|rule| Error::inconsistent(format!("plan: {rule}")))?;
    if plan.token_slices.cuts() {
        let allowed = "1: the slices to be priced are given";
        return Err(Error::invalid(
            "plan.token_slices",
            &plan.token_slices,
            allowed,
        ));
    }
    if plan.context > 1 {
        let allowed = "1: slices are cut along the sequence already";
        return Err(Error::invalid("plan.context", plan.context, allowed));
    }
    let chunks = Chunks::new(job, split, u64::from(plan.virtual_stages()));
    let sequence = job.training.sequence;
    for &[tokens, before] in asked {
        if tokens == 0 || tokens.saturating_add(before) > sequence {
            let got = format!("{tokens} tokens behind {before}");
            let allowed = format!("1 or more, up to {sequence} together: a sequence's tokens");
            return Err(Error::invalid("slices", got, allowed));
        }
    }
    let priced: Result<Vec<_>> = asked
        .par_iter()
        .map_init(
            || Pricer::new(&job.cluster),
            |pricer, &pair| {
                if control.is_cancelled() {
                    let what = "the slices were not all priced".to_owned();
                    return Err(Error::Cancelled { what });
                }
                let slice = Slice::new(job, pair);
                let (graph, training) = (&slice.graph, &slice.training);
                let factors = Factors::of_slice(graph, training, plan, slice.beside, pricer);
                let sums = Sums::new(job, &factors, &chunks, plan.copies_table());
                let costs = (&chunks, &sums);
                let again = RecomputationCosts::new(job, &factors, costs, plan.recomputation());
                Ok(again.passes(&sums))
            },
        )
        .collect();
    let (forward, backward) = priced?.into_iter().map(|[f, b]| (f, b)).unzip();
    Ok(SliceTimes { forward, backward })
}

//! How long does a stage take for a slice of each sequence, behind a context of earlier slices?

use super::block::Factors;
use super::chunk::Chunks;
use super::job::Job;
use super::price::Pricer;
use super::recomputed::Recomputed;
use super::sums::Sums;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::plan::{Plan, check};
use crate::workload::Training;

/// Seconds of slices on the first, an inner and the last virtual stage, sends left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SliceTimes {
    /// Forward passes, by slice.
    pub forward: Vec<[f64; 3]>,
    /// Backward passes with the plan's recomputation, by slice.
    pub backward: Vec<[f64; 3]>,
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
    slices: &[[u64; 2]],
    control: &Control,
) -> Result<SliceTimes> {
    let split = check(plan, &job.shape, &job.training, job.cluster.devices)
        .map_err(|rule| Error::inconsistent(format!("plan: {rule}")))?;
    if plan.context > 1 {
        let allowed = "1: slices are cut along the sequence already";
        return Err(Error::invalid("plan.context", plan.context, allowed));
    }
    let chunks = Chunks::new(job, split, u64::from(plan.virtual_stages()));
    let mut pricer = Pricer::new(&job.cluster);
    let mut times = SliceTimes::default();
    for &[tokens, before] in slices {
        if control.is_cancelled() {
            let what = "the slices were not all priced".to_owned();
            return Err(Error::Cancelled { what });
        }
        let sequence = job.training.sequence;
        if tokens == 0 || tokens.saturating_add(before) > sequence {
            let got = format!("{tokens} tokens behind {before}");
            let allowed = format!("1 or more, up to {sequence} together: a sequence's tokens");
            return Err(Error::invalid("slices", got, allowed));
        }
        let training = Training {
            sequence: tokens,
            ..job.training.clone()
        };
        let graph = job.model.graph(&training);
        let factors = Factors::of_slice(&graph, &training, plan, before, &mut pricer);
        let sums = Sums::new(job, &factors, &chunks, plan.pipeline > 1);
        let again = Recomputed::new(job, &factors, (&chunks, &sums), plan.recomputation());
        let [forward, backward] = again.passes(&sums);
        times.forward.push(forward);
        times.backward.push(backward);
    }
    Ok(times)
}

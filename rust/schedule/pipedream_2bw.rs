//! How does 1F1B run that never flushes and keeps two versions of the weights (Narayanan et al. 2021)?

use super::one_forward_one_backward::{OneForwardOneBackward, with_warm_up};
use super::operation::Operation;
use super::pipedream;
use super::pipeline::Pipeline;
use super::rule::ScheduleRule;
use super::stages::{Makespan, PipelineShape};
use crate::error::{Error, Result};

/// An update after every `m` micro-batches; those in flight keep the version that they began with.
///
/// With `m >= p` none of them is older than the version before, so two are enough.
pub(super) struct PipeDream2Bw;

impl ScheduleRule for PipeDream2Bw {
    fn name(&self) -> &'static str {
        "pipedream-2bw"
    }

    fn source(&self) -> &'static str {
        "Narayanan et al. 2021 (Memory-Efficient Pipeline-Parallel DNN Training), section 3.1"
    }

    fn check(&self, shape: PipelineShape, micro_batches: u32) -> Result<()> {
        super::rule::one_chunk(self.name(), shape)?;
        if micro_batches >= shape.stages {
            return Ok(());
        }
        let allowed = format!(
            "{} or more: two versions of the weights are enough only where a batch has as many \
             micro-batches as there are stages",
            shape.stages
        );
        Err(Error::invalid("micro_batches", micro_batches, allowed))
    }

    fn order(
        &self,
        shape: PipelineShape,
        micro_batches: u32,
        device: u32,
        order: &mut Vec<Operation>,
    ) {
        let warm_up = shape.stages.saturating_sub(device + 1);
        with_warm_up(warm_up, device, micro_batches, order);
    }

    fn flushes(&self) -> bool {
        false
    }

    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        pipedream::bound(pipeline, micro_batches)
    }

    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        OneForwardOneBackward.in_flight(shape, micro_batches, device)
    }

    /// Two, on every stage; a pipeline of one stage has nothing in flight across an update.
    fn versions(&self, shape: PipelineShape, _micro_batches: u32, _device: u32) -> u32 {
        shape.stages.min(2)
    }

    /// One update, that is one batch, on every stage.
    fn staleness(&self, shape: PipelineShape, _micro_batches: u32, _device: u32) -> u32 {
        shape.stages.saturating_sub(1).min(1)
    }
}

//! How does 1F1B run that never flushes (`PipeDream`; Narayanan et al. 2019)?

use super::one_forward_one_backward::{OneForwardOneBackward, with_warm_up};
use super::operation::Operation;
use super::pipeline::Pipeline;
use super::rule::ScheduleRule;
use super::stages::{Makespan, PipelineShape};
use super::turns::{self, PassOffsets};
use crate::units::Seconds;

/// An update after every micro-batch; a micro-batch goes back through the weights that it went
/// forward through.
///
/// A step here is a piece of an endless run: the time between micro-batches is that of the busiest
/// stage, `F + B`, without a bubble.
pub(super) struct PipeDream;

/// The bound of 1F1B, which stays the same whether or not the weights do.
pub(super) fn bound(pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
    let count = pipeline.shape.stages;
    let turns = |stage| PassOffsets {
        warm_up: count - 1 - stage,
        lag: 0,
    };
    Makespan {
        time: Seconds::new(turns::bound(pipeline, micro_batches, false, turns)),
        exact: pipeline.uniform(count) && pipeline.alike(),
    }
}

impl ScheduleRule for PipeDream {
    fn name(&self) -> &'static str {
        "pipedream"
    }

    fn source(&self) -> &'static str {
        "Narayanan et al. 2019 (PipeDream), sections 3.2 and 3.3"
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
        bound(pipeline, micro_batches)
    }

    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        OneForwardOneBackward.in_flight(shape, micro_batches, device)
    }

    /// `p - i`: one for each micro-batch that the endless run has in flight.
    fn versions(&self, shape: PipelineShape, _micro_batches: u32, device: u32) -> u32 {
        shape.stages.saturating_sub(device)
    }

    /// `p - 1 - i` updates (Narayanan et al. 2019, section 3.3, weight stashing).
    fn staleness(&self, shape: PipelineShape, _micro_batches: u32, device: u32) -> u32 {
        shape.stages.saturating_sub(device + 1)
    }
}

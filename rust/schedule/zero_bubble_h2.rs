//! When does a ZB-H2 step end: forwards enough to fill the wait for the first gradient (Qi et al. 2023)?

use super::operation::Operation;
use super::pipeline::Pipeline;
use super::rule::ScheduleRule;
use super::stages::{Makespan, PipelineShape};
use super::turns::{self, PassOffsets};
use crate::units::Seconds;

/// A device's operations without a gap, at almost twice the activations of 1F1B.
///
/// With passes of F, B (inputs) and W (weights) seconds and p stages, a device idles
/// `(p - 1) (F + B - 2 W)` at most between its first and last operation: nothing where the three
/// are alike (Qi et al. 2023, table 2). Devices still start one after another.
pub(super) struct ZeroBubbleH2;

fn turns(shape: PipelineShape, device: u32) -> PassOffsets {
    PassOffsets {
        warm_up: shape.stages.saturating_sub(device + 1).saturating_mul(2),
        lag: device.saturating_mul(2),
    }
}

impl ScheduleRule for ZeroBubbleH2 {
    fn name(&self) -> &'static str {
        "zb-h2"
    }

    fn source(&self) -> &'static str {
        "Qi et al. 2023 (Zero Bubble Pipeline Parallelism), section 2.2"
    }

    fn splits(&self) -> bool {
        true
    }

    fn bypasses(&self) -> bool {
        true
    }

    /// Device `i` of `p` runs `2 (p - 1 - i)` forwards first, and the weight gradients `2 i` turns
    /// late (Qi et al. 2023, figure 3, bottom).
    fn order(
        &self,
        shape: PipelineShape,
        micro_batches: u32,
        device: u32,
        order: &mut Vec<Operation>,
    ) {
        turns(shape, device).order(device, micro_batches, order);
    }

    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        let shape = pipeline.shape;
        let time = turns::bound(pipeline, micro_batches, true, |s| turns(shape, s));
        let alike = pipeline.uniform(shape.stages) && pipeline.alike();
        Makespan {
            time: Seconds::new(time),
            // with unlike passes a path may go down and up more than once
            exact: alike && pipeline.pass(0, shape.stages).balanced(),
        }
    }

    /// `min(2 p - 1, m)` micro-batches on every device (Qi et al. 2023, table 2).
    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        turns(shape, device).in_flight(micro_batches)
    }
}

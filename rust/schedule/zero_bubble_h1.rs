//! When does a ZB-H1 step end: 1F1B with weight gradients put off (Qi et al. 2023)?

use super::operation::Operation;
use super::pipeline::Pipeline;
use super::rule::ScheduleRule;
use super::stages::{Makespan, PipelineShape};
use super::turns::{self, PassOffsets};
use crate::units::Seconds;

/// 1F1B whose weight gradients come later the farther back a device stands.
///
/// With passes of F, B (inputs) and W (weights) seconds and p stages, a device idles
/// `(p - 1) (F + B - W)` at most between its first and last operation (Qi et al. 2023, table 2).
pub(super) struct ZeroBubbleH1;

fn turns(shape: PipelineShape, device: u32) -> PassOffsets {
    PassOffsets {
        warm_up: shape.stages.saturating_sub(device + 1),
        lag: device,
    }
}

impl ScheduleRule for ZeroBubbleH1 {
    fn name(&self) -> &'static str {
        "zb-h1"
    }

    fn source(&self) -> &'static str {
        "Qi et al. 2023 (Zero Bubble Pipeline Parallelism), section 2.1"
    }

    fn splits(&self) -> bool {
        true
    }

    /// Device `i` of `p` runs `p - 1 - i` forwards first, and the weight gradients `i` turns late
    /// (Qi et al. 2023, figure 3, top).
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
        Makespan {
            time: Seconds::new(time),
            exact: pipeline.uniform(shape.stages) && pipeline.alike(),
        }
    }

    /// `min(p, m)` micro-batches on every device: what the first holds in 1F1B.
    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        turns(shape, device).in_flight(micro_batches)
    }
}

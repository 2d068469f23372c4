//! When does a `TeraPipe` step end: micro-batches cut along the sequence (Li et al. 2021)?

use super::bound;
use super::gpipe;
use super::operation::{Operation, Work};
use super::pipeline::{Pipeline, Sends, Size};
use super::rule::{ScheduleRule, one_chunk};
use super::stages::{Makespan, PipelineShape};
use crate::error::{Error, Result};

/// All forwards, slice after slice of each sequence; then all backwards, its last slice first.
///
/// A slice attends to the slices before it, so forward passes go along the sequence and backward
/// passes against it. What other schedules call a micro-batch is a slice here: slice `j` of
/// micro-batch `i` is number `i s + j` of `m s`, and its length stands in `Pipeline::sizes`.
pub(super) struct TeraPipe;

impl ScheduleRule for TeraPipe {
    fn name(&self) -> &'static str {
        "terapipe"
    }

    fn source(&self) -> &'static str {
        "Li et al. 2021 (TeraPipe), section 3.2"
    }

    fn check(&self, shape: PipelineShape, _micro_batches: u32) -> Result<()> {
        if shape.slices == 0 {
            return Err(Error::invalid(
                "slices",
                0,
                "1 or more: parts of a sequence",
            ));
        }
        one_chunk(self.name(), shape)
    }

    /// Slices of all micro-batches.
    fn executed(&self, shape: PipelineShape, micro_batches: u32) -> u32 {
        micro_batches.saturating_mul(shape.slices)
    }

    /// The gradient of a slice needs those of the later slices, whose attention read it; they come
    /// before it on the same device.
    fn order(
        &self,
        shape: PipelineShape,
        micro_batches: u32,
        device: u32,
        order: &mut Vec<Operation>,
    ) {
        let units = self.executed(shape, micro_batches);
        order.extend((0..units).map(|unit| Operation::new(Work::Forward, device, unit)));
        for micro_batch in 0..micro_batches {
            let first = micro_batch * shape.slices;
            let slices = (first..first + shape.slices).rev();
            order.extend(slices.map(|unit| Operation::new(Work::Backward, device, unit)));
        }
    }

    /// Exact where slices are alike, as for `gpipe`, and where stages are alike and sends take no
    /// time:
    ///
    /// `T = f (sum_u a_u + (p - 1) max_u a_u) + b (sum_u c_u + (p - 1) max_u c_u)`, seconds; f, b:
    /// passes of a slice of length 1; a, c: lengths of the slices forward and backward; p: stages
    /// (Li et al. 2021, section 3.3). Each half is a flow shop whose machines are alike.
    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        let count = pipeline.shape.stages;
        let units = self.executed(pipeline.shape, micro_batches);
        if pipeline.alike() {
            return Makespan::exactly(gpipe::over_any(pipeline, units));
        }
        let alike = Pipeline {
            sizes: &[],
            ..*pipeline
        };
        if pipeline.sends == Sends::Asynchronous && alike.uniform(count) {
            return Makespan::exactly(of_alike_stages(pipeline, units));
        }
        Makespan::at_least(bound::whole_backward_bound(count, pipeline, units))
    }

    /// Every slice of every micro-batch, counted in slices.
    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, _device: u32) -> u32 {
        self.executed(shape, micro_batches)
    }
}

/// Slices of unlike length on alike stages.
fn of_alike_stages(pipeline: &Pipeline<'_>, units: u32) -> f64 {
    let pass = pipeline.pass(0, pipeline.shape.stages);
    let (total, _) = pipeline.lengths(units);
    let longest = |of: fn(Size) -> f64| {
        let lengths = (0..units).map(|unit| of(pipeline.size(unit)));
        lengths.fold(0.0, f64::max)
    };
    let again = f64::from(pipeline.shape.stages - 1);
    let forward = total.forward + again * longest(|size| size.forward);
    let backward = total.backward + again * longest(|size| size.backward);
    pass.forward.value() * forward + pass.whole() * backward
}

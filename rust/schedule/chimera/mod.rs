//! When does a step of bidirectional pipelines end (Chimera; Li & Hoefler 2021)?
//!
//! Of `2 f` pipelines over `D` devices the even ones run down and the odd ones up. Stage `s` of down
//! pipeline `j` lies on device `(s + j r) mod D`, `r = D / f`; up pipeline `j` has its stage
//! `D - 1 - s` there (section 3.6). A unit of `D` forward passes, `D / (2 f)` on each pipeline, is
//! merged as if all passes took one slot; the next unit follows without a gap (section 3.5).

mod layout;
mod paths;

use super::operation::Operation;
use super::pipeline::Pipeline;
use super::rule::ScheduleRule;
use super::stages::{Makespan, PipelineShape};
use crate::error::{Error, Result};
use layout::Layout;

/// Bidirectional pipelines, more micro-batches than devices run in one of three ways.
pub(super) struct Chimera(pub(super) Scale);

/// How units follow one another where there are more micro-batches than devices (section 3.5).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// One backward pass for each forward pass; gaps where they take unlike time.
    DirectConcatenation,
    /// Forward passes of two micro-batches at once, whose results travel together.
    ForwardDoubling,
    /// Backward passes of half a micro-batch each. A micro-batch here is such a half, a forward pass
    /// runs over two; in these units it is forward doubling.
    BackwardHalving,
}

/// Seconds of a step of alike stages without hops.
///
/// ```text
/// T = max(u (D + r - 2) F + (u (h D - r + 2) + r - 2) B,
///         (u (D - r + 2) + r - 2) F + u (h D + r - 2) B)
/// ```
///
/// D: devices; r: devices per pipeline of a way; u: units; h: micro-batches of a forward pass; F, B:
/// seconds of a forward pass over all of them and of one backward pass. Where the last unit, after n
/// whole ones, has only `r / 2 - g` forward passes on the first pipeline (`h = 1`):
///
/// ```text
/// T = max((n + 1) (D + r - 2) F - 2 g F + (D + n (D - r + 2)) B,
///         (D + n (D - r + 2) + g) F + ((n + 1) (D + r - 2) - 3 g) B   where n > 0,
///         (D + n (D - r + 2) - [n g > 0]) F + ((n + 1) (D + r - 2) - 2 g) B)
/// ```
///
/// With `F = B` the bubble is `(D / f - 2) / (2 N + D / f - 2)` of the step, N: micro-batches, a
/// multiple of D (tables 2 and 3). Derivation: longest paths of the order.
fn of_alike(layout: Layout, micro_batches: u32, forward: f64, backward: f64) -> f64 {
    let span = f64::from(layout.span);
    let (runs, all) = (micro_batches / layout.span, layout.stages.max(1));
    let [d, r] = [layout.stages, layout.reach()].map(f64::from);
    let before = (runs.saturating_sub(1)) / all;
    let on_first = (runs - before * all).div_ceil(2 * layout.groups.max(1));
    let (n, gap) = (f64::from(before), r / 2.0 - f64::from(on_first));
    let most = (n + 1.0) * (d + r - 2.0);
    let least = d + n * (d - r + 2.0);
    let again = (n + 1.0) * (span - 1.0) * d;
    let time = |f: f64, b: f64| f * span * forward + (b + again) * backward;
    let first = time(most - 2.0 * gap, least);
    if gap > 0.0 && n > 0.0 {
        let between = time(least + gap, most - 3.0 * gap);
        let last = time(least - 1.0, most - 2.0 * gap);
        return first.max(between).max(last);
    }
    first.max(time(least, most - 2.0 * gap))
}

impl ScheduleRule for Chimera {
    fn name(&self) -> &'static str {
        match self.0 {
            Scale::DirectConcatenation => "chimera",
            Scale::ForwardDoubling => "chimera-forward-doubling",
            Scale::BackwardHalving => "chimera-backward-halving",
        }
    }

    fn source(&self) -> &'static str {
        "Li & Hoefler 2021 (Chimera), sections 3.1, 3.5 and 3.6"
    }

    fn chunks(&self) -> u32 {
        2
    }

    fn check(&self, shape: PipelineShape, micro_batches: u32) -> Result<()> {
        let PipelineShape { stages, chunks, .. } = shape;
        let name = self.name();
        if stages == 0 || !stages.is_multiple_of(2) {
            let allowed = format!("an even number: {name} runs pipelines both ways");
            return Err(Error::invalid("stages", stages, allowed));
        }
        if chunks == 0 || !chunks.is_multiple_of(2) || !stages.is_multiple_of(chunks) {
            let allowed = format!(
                "an even number that divides the {stages} stages: {name} runs as many pipelines down \
                 as up, each over an even number of stages"
            );
            return Err(Error::invalid("chunks", chunks, allowed));
        }
        let unit = self.layout(shape).unit();
        if self.0 != Scale::DirectConcatenation && !micro_batches.is_multiple_of(unit) {
            let allowed = format!("a multiple of {unit}: {name} runs whole units of 2 x stages");
            return Err(Error::invalid("micro_batches", micro_batches, allowed));
        }
        Ok(())
    }

    fn count(&self, shape: PipelineShape) -> u32 {
        shape.stages
    }

    fn device(&self, shape: PipelineShape, stage: u32, micro_batch: u32) -> u32 {
        let layout = self.layout(shape);
        layout.device(layout.copy(micro_batch), stage)
    }

    fn order(
        &self,
        shape: PipelineShape,
        micro_batches: u32,
        device: u32,
        order: &mut Vec<Operation>,
    ) {
        order.extend(self.layout(shape).operations(micro_batches, device));
    }

    fn period(&self, shape: PipelineShape) -> u32 {
        self.layout(shape).unit()
    }

    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        let layout = self.layout(pipeline.shape);
        let count = layout.stages;
        if pipeline.uniform(count) && pipeline.alike() {
            let pass = pipeline.pass(0, count);
            let (forward, backward) = (pass.forward.value(), pass.whole());
            return Makespan::exactly(of_alike(layout, micro_batches, forward, backward));
        }
        Makespan::at_least(paths::bound(layout, pipeline, micro_batches))
    }

    /// `h D - (|r - 1 - 2 (i mod r)| - 1) / 2` on device `i` once a unit is full, `h` micro-batches
    /// to a forward pass: from `D - D / (2 f) + 1` to `D` for `h = 1` (tables 2 and 3).
    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        let layout = self.layout(shape);
        if micro_batches >= layout.unit() {
            return layout.unit() - layout.lag(device);
        }
        let (mut held, mut most) = (0_u32, 0);
        for operation in layout.operations(micro_batches, device) {
            if operation.work == super::Work::Forward {
                held += operation.span;
                most = most.max(held);
            } else {
                held -= 1;
            }
        }
        most
    }

    fn copies(&self, shape: PipelineShape) -> u32 {
        shape.chunks
    }
}

impl Chimera {
    fn layout(&self, shape: PipelineShape) -> Layout {
        Layout {
            stages: shape.stages,
            groups: shape.chunks / 2,
            span: if self.0 == Scale::DirectConcatenation {
                1
            } else {
                2
            },
        }
    }
}

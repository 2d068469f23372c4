//! When does a step end whose stages all learn from the last one's error at once (Nøkland 2016)?

use super::bound::StageTimes;
use super::one_forward_one_backward::{OneForwardOneBackward, with_warm_up};
use super::operation::{Gradient, Operation};
use super::pipeline::Pipeline;
use super::rule::ScheduleRule;
use super::stages::{Makespan, PipelineShape};
use crate::units::Seconds;

/// Direct feedback alignment: a random projection of the error takes the place of the gradient
/// from the stage after, so that no backward pass waits for another stage's.
///
/// On alike stages a step takes `m (F + B) + (p - 1) F` seconds and not `(m + p - 1) (F + B)`. The
/// projection takes the pipeline's `feedback` seconds (Launay et al. 2020: an optical co-processor).
pub(super) struct DirectFeedback;

impl ScheduleRule for DirectFeedback {
    fn name(&self) -> &'static str {
        "direct-feedback"
    }

    fn source(&self) -> &'static str {
        "Nøkland 2016 (Direct Feedback Alignment); Launay et al. 2020, arXiv 2006.12878 and 2012.06373"
    }

    fn gradient(&self, _shape: PipelineShape) -> Gradient {
        Gradient::Direct
    }

    /// As many forwards as there are stages after, then one forward and one backward in turn: the
    /// last stage's forward of a micro-batch runs in the turn of every stage's backward.
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

    /// ```text
    /// A_s = max( sum_(r<s) d_r + (w_s + 1) F_s,  sum_r d_r + e )
    /// E_s = max( E_(s-1) + d_(s-1),  A_s + (m - w_s - 1) B_s + (m - w_s - 2) F_s )
    /// T >= max over s of  A_s + m B_s + (m - w_s - 1) F_s,  E_(p-1) + F_(p-1) + e + B_s
    /// ```
    ///
    /// Seconds. A: start of the first backward; E: start of the last forward; d: a forward with the
    /// hop behind it; e: hop and feedback, nothing on the last stage; w: warm-up, less than m.
    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        if micro_batches == 0 {
            return Makespan::NOTHING;
        }
        let count = pipeline.shape.stages;
        let line = StageTimes::new(count, pipeline, micro_batches);
        let (total, least) = pipeline.lengths(micro_batches);
        let most = pipeline.longest(micro_batches);
        let down: f64 = (0..count).map(|stage| line.down(stage)).sum();
        let error = match count.checked_sub(2) {
            Some(border) => line.hop(border) + pipeline.feedback.value(),
            None => 0.0,
        };
        let (mut fill, mut last, mut longest) = (0.0, 0.0_f64, 0.0_f64);
        let mut slowest = 0.0_f64;
        for stage in 0..count {
            let (pass, sent) = (line.pass(stage), line.sent(stage));
            let (forward, backward) = (pass.forward.value(), pass.whole());
            let away = if stage + 1 < count { error } else { 0.0 };
            let ahead = (count - stage).min(micro_batches);
            let forwards = |done: u32| {
                let left = f64::from(micro_batches.saturating_sub(done));
                forward * (total.forward - f64::from(done) * most.forward).max(0.0) + sent * left
            };
            let started = fill + f64::from(ahead) * (forward * least.forward + sent);
            let first = started.max(down + away);
            let all = forward * total.forward + sent * f64::from(micro_batches);
            let behind = backward * (total.backward - f64::from(ahead) * most.backward).max(0.0);
            last = last.max(fill + forwards(1));
            if ahead < micro_batches {
                last = last.max(first + behind + forwards(ahead + 1));
            }
            longest = longest
                .max(first + backward * total.backward + forwards(ahead))
                .max(fill + all + backward * total.backward);
            slowest = slowest.max(away + backward * least.backward);
            fill += line.down(stage);
            last += line.down(stage);
        }
        Makespan {
            time: Seconds::new(longest.max(last + slowest)),
            exact: pipeline.uniform(count)
                && pipeline.alike()
                && pipeline.feedback == Seconds::ZERO,
        }
    }

    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        OneForwardOneBackward.in_flight(shape, micro_batches, device)
    }
}

//! What stays exposed of expert all-to-alls that run under the opposite pass of another micro-batch?

use crate::plan::{Purpose, Task};
use crate::workload::OperatorClass;

/// A pass of a layer with routed experts, seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExpertPass {
    /// Kernels before the first all-to-all.
    before: f64,
    /// Kernels between the first and the last, gradients of weights left out.
    inside: f64,
    /// Those that yield gradients of weights.
    weights: f64,
    /// Kernels behind the last.
    after: f64,
    /// All-to-alls before the experts: forward the dispatch, backward that of the combine.
    to: f64,
    /// All-to-alls behind the experts.
    from: f64,
}

impl ExpertPass {
    /// The halves of a pass whose tasks take `spans` seconds alone.
    pub(super) fn new(tasks: &[Task], spans: &[f64]) -> Self {
        let last = tasks.iter().rposition(is_all_to_all);
        let (mut halves, mut travelled, mut computed) = (Self::default(), false, false);
        for (index, (task, span)) in tasks.iter().zip(spans).enumerate() {
            computed |= matches!(
                task,
                Task::Compute {
                    class: OperatorClass::Experts,
                    ..
                }
            );
            let part = match (is_all_to_all(task), travelled) {
                (true, _) if computed => &mut halves.from,
                (true, _) => &mut halves.to,
                (false, false) => &mut halves.before,
                (false, true) if last.is_some_and(|last| index >= last) => &mut halves.after,
                (false, true) if task.yields_weights() => &mut halves.weights,
                (false, true) => &mut halves.inside,
            };
            *part += span;
            travelled |= is_all_to_all(task);
        }
        halves
    }

    /// Seconds of all-to-alls.
    pub(super) fn all_to_all_time(&self) -> f64 {
        self.to + self.from
    }
}

/// Scales the seconds of a pass's expert all-to-alls.
pub(super) fn scale_all_to_alls(tasks: &[Task], spans: &mut [f64], share: f64) {
    for (_, span) in tasks
        .iter()
        .zip(spans)
        .filter(|(task, _)| is_all_to_all(task))
    {
        *span *= share;
    }
}

/// True for an expert all-to-all.
fn is_all_to_all(task: &Task) -> bool {
    matches!(
        task,
        Task::Communicate {
            purpose: Purpose::Expert,
            ..
        }
    )
}

/// All-to-alls that stay exposed, forward and backward, where passes run in pairs.
///
/// Megatron-Core lays them side by side in turn: the backward combine and attention and router of the
/// forward pass; the forward dispatch and the experts' backward pass; the backward dispatch and the
/// gradients of their weights with the experts' forward pass; the forward combine and the backward
/// pass of attention (NVIDIA/Megatron-LM, pull request 2719; `combined_1f1b.py`).
/// `beside(time, under)` is what stays exposed of the former.
pub(super) fn exposed(
    [forward, backward]: [ExpertPass; 2],
    beside: impl Fn(f64, f64) -> f64,
) -> [f64; 2] {
    let dispatch = beside(forward.to, backward.inside);
    let combine = beside(forward.from, backward.after);
    let dispatch_back = beside(backward.from, backward.weights + forward.inside);
    let combine_back = beside(backward.to, forward.before);
    [dispatch + combine, dispatch_back + combine_back]
}

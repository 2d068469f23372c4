//! Which kernels of shared experts run while the tokens of routed ones travel?
//!
//! Shared experts read what the dispatch sends and are added to what the combine brings back, so
//! nothing between the two waits for them. Megatron-LM (`moe-shared_experts-expert-overlap`) runs their input
//! projection and activation under the dispatch and their output projection under the combine; the
//! backward pass mirrors it (Rajbhandari et al. 2022, DeepSpeed-MoE, section 4; DeepSeek-V3, arXiv
//! 2412.19437, section 3.2.1). They share the tensor ranks' links with nothing else meanwhile: only
//! the kernels up to their next tensor-parallel collective count.

use super::lower::Lowering;
use super::program::{Purpose, Task};
use crate::workload::{Block, OperatorKind, Region};
use std::ops::Range;

/// The operators of a block that take part.
#[derive(Debug, Clone)]
pub(super) struct SharedExperts {
    dispatch: usize,
    combine: usize,
    /// Input projection and activation.
    front: Range<usize>,
    /// Output projection.
    back: Range<usize>,
}

impl SharedExperts {
    /// The shared experts of a block with routed ones: its dense feed-forward behind the combine.
    pub(super) fn find(block: &Block) -> Option<Self> {
        let route = |wanted: bool| {
            let is = |kind: &OperatorKind| matches!(kind, OperatorKind::Route { back, .. } if *back == wanted);
            block.operators.iter().position(|o| is(&o.kind))
        };
        let (dispatch, combine) = (route(false)?, route(true)?);
        let dense = |index: &usize| block.operators[*index].region == Region::Mlp;
        let first = (combine + 1..block.operators.len()).find(dense)?;
        let end = (first..block.operators.len()).take_while(dense).last()? + 1;
        // behind the activation; adapters stand behind the product that they adapt
        let elementwise = |i: &usize| {
            let kind = &block.operators[*i].kind;
            matches!(kind, OperatorKind::Elementwise { .. })
        };
        let back = (first..end).find(elementwise)? + 1;
        Some(Self {
            dispatch,
            combine,
            front: first..back,
            back: back..end,
        })
    }

    /// The operators that run beside the route at `index`.
    pub(super) fn beside(&self, index: usize) -> Option<Range<usize>> {
        if index == self.dispatch {
            Some(self.front.clone())
        } else if index == self.combine {
            Some(self.back.clone())
        } else {
            None
        }
    }

    /// True for an operator that is laid down with a route.
    pub(super) fn holds(&self, index: usize) -> bool {
        (self.front.start..self.back.end).contains(&index)
    }
}

impl Lowering<'_> {
    /// Lays down a route with the shared experts' kernels beside its all-to-all.
    pub(super) fn route_beside(&mut self, route: usize, shared: Range<usize>, forward: bool) {
        let tasks = self.tasks_apart(route..route + 1, forward);
        let mut rest = self.tasks_apart(shared, forward);
        let compute = |task: &&Task| task.kernel().is_some();
        let ahead = rest.iter().take_while(|task| !compute(task)).count();
        let behind = rest.split_off(ahead);
        let cover = behind.iter().take_while(compute).count();
        let lane = self.tasks_of_pass(forward);
        lane.extend(rest);
        lane.extend(tasks);
        if let Some(Task::Communicate {
            purpose: Purpose::Expert,
            under,
            ..
        }) = lane.last_mut()
        {
            *under = u32::try_from(cover).unwrap_or(u32::MAX);
        }
        lane.extend(behind);
    }

    /// The tasks of some operators, in the order of a pass, not added to it yet.
    fn tasks_apart(&mut self, operators: Range<usize>, forward: bool) -> Vec<Task> {
        let before = std::mem::take(self.tasks_of_pass(forward));
        if forward {
            operators.for_each(|index| self.forward(index));
        } else {
            operators.rev().for_each(|index| self.backward(index));
        }
        std::mem::replace(self.tasks_of_pass(forward), before)
    }
}

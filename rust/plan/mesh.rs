//! Where do the ranks of each parallel axis lie?

use super::axis_order::Axis;
use super::choice::Plan;

/// Ranks that communicate: `size` of them, `stride` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Distance between neighbours in rank numbers.
    pub stride: u32,
    /// Number of ranks.
    pub size: u32,
}

impl Span {
    /// One rank alone.
    pub const SINGLE: Self = Self { stride: 1, size: 1 };

    /// Distance from a rank to the first one behind the span.
    const fn end(self) -> u32 {
        self.stride.saturating_mul(self.size)
    }

    /// Every rank of this span with as many of those behind it as the other has, where that is one
    /// span too; the inner one comes first.
    fn joined(self, outer: Self) -> Option<Self> {
        if self.size == 1 {
            Some(outer)
        } else if outer.size == 1 {
            Some(self)
        } else {
            let size = self.size.saturating_mul(outer.size);
            (self.end() == outer.stride).then_some(Self { size, ..self })
        }
    }

    /// The first `count` ranks, and the ranks that lie `count` of them apart.
    fn cut(self, count: u32) -> (Self, Self) {
        let first = Self {
            size: count,
            ..self
        };
        let apart = Self {
            stride: first.end(),
            size: self.size / count.max(1),
        };
        (first, apart)
    }
}

/// The rank groups of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mesh {
    /// Ranks that split a layer's matrices.
    pub tensor: Span,
    /// Of those, ranks that hold the same part of the residual stream's width: neighbours.
    pub columns: Span,
    /// Of those, ranks that hold the same heads and the same part of a feed-forward layer's width.
    pub rows: Span,
    /// Ranks that split a sequence.
    pub context: Span,
    /// Ranks that hold different experts of a layer.
    pub expert: Span,
    /// Ranks that hold the same dense weights (they reduce gradients).
    pub replicas: Span,
    /// Ranks that hold the same experts.
    pub expert_replicas: Span,
    /// The stages of a pipeline, each of which sends to the next.
    pub stages: Span,
    /// First and last stage, which share tied embeddings.
    pub ends: Span,
}

impl Mesh {
    /// Lays a plan's axes out: `stride(axis) = product of the ranks of the axes inside it`, in the
    /// order that the plan gives. Replicas are context and data ranks together.
    ///
    /// A plan whose experts lie unevenly, which `check` refuses, has them as if their matrices were
    /// cut over the tensor ranks.
    pub fn new(plan: &Plan) -> Self {
        let mut strides = [1_u32; 4];
        let mut inside = 1_u32;
        for axis in plan.axis_order.axes() {
            strides[axis as usize] = inside;
            inside = inside.saturating_mul(plan.ranks(axis));
        }
        let span = |axis: Axis| Span {
            stride: strides[axis as usize],
            size: plan.ranks(axis),
        };
        let (tensor, context, stages) = (
            span(Axis::Tensor),
            span(Axis::Context),
            span(Axis::Pipeline),
        );
        let replicas = Span {
            stride: context.stride.min(span(Axis::Data).stride),
            size: plan.context.saturating_mul(plan.data),
        };
        let cut = || replicas.cut(plan.expert);
        let (columns, rows) = tensor.cut(plan.tensor_columns());
        let (expert, expert_replicas) = experts(plan, tensor, replicas).unwrap_or_else(cut);
        Self {
            tensor,
            columns,
            rows,
            context,
            expert,
            replicas,
            expert_replicas,
            stages,
            ends: Span {
                stride: stages
                    .stride
                    .saturating_mul(stages.size.saturating_sub(1).max(1)),
                size: stages.size.min(2),
            },
        }
    }

    /// True where the ranks that hold the experts of a layer lie evenly apart, as do those that hold
    /// the same experts.
    pub(super) fn has_experts(plan: &Plan) -> bool {
        let mesh = Self::new(plan);
        experts(plan, mesh.tensor, mesh.replicas).is_some()
    }
}

/// The ranks that hold different experts and those that hold the same ones, taken from the ranks of
/// one stage; nothing where those are no spans.
///
/// With `expert_tensor = tensor` they are replicas. With `expert_tensor = 1` the ranks of a stage
/// count from the inside: they are one span where no other axis lies between the tensor ranks and the
/// replicas; else the experts must be spread over just the inner ones.
fn experts(plan: &Plan, tensor: Span, replicas: Span) -> Option<(Span, Span)> {
    if plan.expert_tensor_ranks() == plan.tensor {
        return Some(replicas.cut(plan.expert));
    }
    let (inner, outer) = if tensor.stride <= replicas.stride {
        (tensor, replicas)
    } else {
        (replicas, tensor)
    };
    match inner.joined(outer) {
        Some(stage) => Some(stage.cut(plan.expert)),
        None => (plan.expert == inner.size).then_some((inner, outer)),
    }
}

/// Replicas of an expert inside the ranks over which ZeRO shards; 0: all of them.
///
/// `zero_group` counts replicas of dense weights. Its ranks hold `zero_group * tensor` of a stage,
/// and `expert_tensor * expert` of those hold every expert once.
pub fn expert_zero_group(plan: &Plan) -> u32 {
    if plan.zero_group == 0 {
        return 0;
    }
    let ranks = plan.zero_group.saturating_mul(plan.tensor);
    let once = plan
        .expert_tensor_ranks()
        .saturating_mul(plan.expert)
        .max(1);
    if ranks.is_multiple_of(once) {
        (ranks / once).max(1)
    } else {
        1
    }
}

/// Splits a replica group into the ranks that shard ZeRO state and the replicas of those shards.
pub fn zero_spans(replicas: Span, zero_group: u32) -> (Span, Span) {
    let size = if zero_group == 0 {
        replicas.size
    } else {
        zero_group.min(replicas.size)
    };
    let shard = Span {
        stride: replicas.stride,
        size,
    };
    let outer = Span {
        stride: replicas.stride.saturating_mul(size),
        size: replicas.size / size.max(1),
    };
    (shard, outer)
}

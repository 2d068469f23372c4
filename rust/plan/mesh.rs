//! Where do the ranks of each parallel axis lie?
//!
//! Contiguous ranks first, in the order tensor, context, data, pipeline (Narayanan et al. 2021, section 3.2).

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
}

/// The rank groups of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mesh {
    /// Ranks that split a layer's matrices.
    pub tensor: Span,
    /// Ranks that split a sequence.
    pub context: Span,
    /// Ranks that hold different experts of a layer.
    pub expert: Span,
    /// Ranks that hold the same dense weights (they reduce gradients).
    pub replicas: Span,
    /// Ranks that hold the same experts.
    pub expert_replicas: Span,
    /// A stage and the next one.
    pub stages: Span,
    /// First and last stage, which share tied embeddings.
    pub ends: Span,
}

impl Mesh {
    /// Lays a plan's axes out.
    ///
    /// Expert ranks are taken from the ranks of one stage: with `expert_tensor = tensor` they lie
    /// `tensor` apart, with `expert_tensor = 1` they are contiguous (expert tensor parallelism
    /// unlike attention's).
    pub fn new(plan: &Plan) -> Self {
        let replicas = plan.context.saturating_mul(plan.data);
        let stage = plan.tensor.saturating_mul(replicas);
        let expert_tensor = plan.expert_tensor_ranks();
        Self {
            tensor: Span {
                stride: 1,
                size: plan.tensor,
            },
            context: Span {
                stride: plan.tensor,
                size: plan.context,
            },
            expert: Span {
                stride: expert_tensor,
                size: plan.expert,
            },
            replicas: Span {
                stride: plan.tensor,
                size: replicas,
            },
            expert_replicas: Span {
                stride: expert_tensor.saturating_mul(plan.expert),
                size: stage / expert_tensor.saturating_mul(plan.expert).max(1),
            },
            stages: Span {
                stride: stage,
                size: plan.pipeline.min(2),
            },
            ends: Span {
                stride: stage.saturating_mul(plan.pipeline.saturating_sub(1).max(1)),
                size: plan.pipeline.min(2),
            },
        }
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

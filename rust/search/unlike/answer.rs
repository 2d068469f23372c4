//! What does a search over unlike groups answer?

use crate::plan::{RecomputePolicy, Schedule};
use crate::search::report::RejectionCount;
use serde::Serialize;

/// A stage of a plan on unlike groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnlikeStage {
    /// Index of its group.
    pub group: usize,
    /// Its first layer and the one behind its last.
    pub layers: [u32; 2],
    /// Seconds of a micro-batch's forward pass, the send behind it included.
    pub forward_s: f64,
    /// Seconds of a micro-batch's backward pass, the send behind it included.
    pub backward_s: f64,
    /// Bytes on each of its ranks.
    pub peak_memory_bytes: f64,
    /// Bytes that a rank may hold.
    pub memory_capacity_bytes: f64,
}

/// How a plan uses a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupUse {
    /// Index of the group.
    pub group: usize,
    /// Name of its system.
    pub system: String,
    /// Stages on it; 0 where it is left out.
    pub stages: u32,
    /// Tensor-parallel ranks of each of them; 0 where it is left out.
    pub tensor: u32,
    /// Ranks of a stage that hold different experts; 0 where it is left out.
    pub expert: u32,
    /// Ranks that split each expert; 0 where it is left out.
    pub expert_tensor: u32,
    /// What they compute again.
    pub recompute: RecomputePolicy,
    /// Whether they split norms and dropouts along the sequence.
    pub sequence_parallel: bool,
    /// Devices that work.
    pub devices_used: u32,
    /// Devices that do not.
    pub devices_unused: u32,
}

/// A plan on unlike groups and what it takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnlikePlan {
    /// Seconds of a step: the sum of those below.
    pub step_time_s: f64,
    /// First forward to last backward.
    pub pipeline_s: f64,
    /// Expert all-to-alls of the first forward and the last backward pass, which have no opposite pass.
    pub expert_unpaired_s: f64,
    /// Gradient reduction that no backward pass hides.
    pub gradient_exposed_s: f64,
    /// Gather of updated weights that no forward pass hides.
    pub gather_exposed_s: f64,
    /// Sum of the gradients of tied tables on both ends.
    pub embedding_sync_s: f64,
    /// Optimizer of the slowest stage.
    pub optimizer_s: f64,
    /// Tokens of a step over its seconds.
    pub tokens_per_s: f64,
    /// Replicas.
    pub data: u32,
    /// Sequences per micro-batch and replica.
    pub micro_batch: u32,
    /// Micro-batches of a step.
    pub micro_batches: u32,
    /// Order of the micro-batches.
    pub schedule: Schedule,
    /// ZeRO stage.
    pub zero: u8,
    /// How each group is used, as the groups were given.
    pub groups: Vec<GroupUse>,
    /// The stages, along the pipeline.
    pub stages: Vec<UnlikeStage>,
}

/// What a search over unlike groups found, and how it is proven.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnlikeReport {
    /// Legal combinations of all choices but the layers of each stage: those of the three counts below.
    pub combinations: u64,
    /// Combinations of which at least one dealing of layers was priced exactly.
    pub combinations_priced: u64,
    /// Combinations that a bound on their time excludes from the best plans.
    pub combinations_excluded_by_bound: u64,
    /// Combinations of which no dealing fits in memory.
    pub combinations_that_do_not_fit: u64,
    /// Dealings of layers to stages that were priced exactly.
    pub dealings_priced: u64,
    /// True: every combination was priced, excluded by a bound, or does not fit.
    pub proven: bool,
    /// Why choices of single groups were turned down.
    pub rejected: Vec<RejectionCount>,
    /// The best plans, best first, each of another combination.
    pub best: Vec<UnlikePlan>,
}

//! The fields of a plan.

use serde::{Deserialize, Serialize};

/// Every choice that turns a model and a cluster into a running job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Ranks that split each layer's matrices.
    #[serde(default = "one")]
    pub tensor: u32,
    /// Ranks that split each sequence.
    #[serde(default = "one")]
    pub context: u32,
    /// Pipeline stages.
    #[serde(default = "one")]
    pub pipeline: u32,
    /// Replicas that split the batch.
    #[serde(default = "one")]
    pub data: u32,
    /// Ranks that split the experts; they are taken from the data and context ranks.
    #[serde(default = "one")]
    pub expert: u32,
    /// Sequences per micro-batch and replica.
    #[serde(default = "one")]
    pub micro_batch: u32,
    /// Model chunks per stage (virtual stages).
    #[serde(default = "one")]
    pub interleave: u32,
    /// Order of micro-batches on a stage.
    #[serde(default)]
    pub schedule: Schedule,
    /// ZeRO stage: 0 replicates, 1 shards optimizer state, 2 gradients too, 3 weights too (FSDP).
    #[serde(default)]
    pub zero: u8,
    /// Ranks over which ZeRO shards (hybrid sharding); 0: all data ranks.
    #[serde(default)]
    pub zero_group: u32,
    /// What is computed again in the backward pass.
    #[serde(default)]
    pub recompute: RecomputePolicy,
    /// Norms and dropouts split along the sequence over the tensor ranks.
    #[serde(default)]
    pub sequence_parallel: bool,
    /// Gradient reduction runs under the last micro-batch's backward pass.
    #[serde(default = "yes")]
    pub overlap_grad_reduce: bool,
    /// ZeRO weight gathers run under compute.
    #[serde(default = "yes")]
    pub overlap_param_gather: bool,
}

/// Pipeline schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Schedule {
    /// All forwards, then all backwards (Huang et al. 2019).
    #[serde(rename = "gpipe")]
    GPipe,
    /// One forward, one backward, with a flush (Narayanan et al. 2019 and 2021).
    #[default]
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// 1F1B over several model chunks per stage (Narayanan et al. 2021, section 2.2.2).
    #[serde(rename = "interleaved")]
    Interleaved,
}

/// What is computed again in the backward pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecomputePolicy {
    /// Nothing: everything needed is kept.
    #[default]
    None,
    /// The attention core (Korthikanti et al. 2022, section 5).
    Selective,
    /// Each layer from its input.
    Full,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

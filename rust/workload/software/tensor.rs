//! How do tensor ranks add up and share what they exchange?

use serde::{Deserialize, Serialize};

/// `[software.tensor]` of a profile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TensorRanks {
    /// Tensor ranks add up what they exchange in fp32, cast before and behind: the library of collectives
    /// adds no bf16.
    pub sums_wide: bool,
    /// Reductions among tensor ranks in the backward pass run alone, and the device waits.
    pub reductions_wait: bool,
    /// Inputs of products that tensor ranks gather stay whole for the backward pass (`DTensor` of `PyTorch`,
    /// whose products save what they read); else each rank keeps its part, which is gathered again
    /// (Korthikanti et al. 2022, section 4.2.2).
    pub keeps_gathered_inputs: bool,
    /// Inputs of layers that are kept for full recomputation are cut over the tensor ranks and gathered before
    /// a layer is computed again (`distribute-checkpointed-activations` of Megatron-LM).
    pub shared_checkpoints: bool,
}

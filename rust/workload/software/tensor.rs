//! How do tensor ranks add up and share what they exchange?

use super::limits;
use crate::error::Result;
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
    /// Tensors of whole sequences that gathers and reductions along them leave in the allocator's cache while
    /// the loss asks for larger blocks; none where products are cut into chunks.
    pub whole_copies: f64,
    /// Inputs of layers that are kept for full recomputation are cut over the tensor ranks and gathered before
    /// a layer is computed again (`distribute-checkpointed-activations` of Megatron-LM).
    pub shared_checkpoints: bool,
}

impl TensorRanks {
    /// Refuses a figure that no program has.
    pub(super) fn check(&self) -> Result<()> {
        limits::count("tensor.whole_copies", self.whole_copies)
    }
}

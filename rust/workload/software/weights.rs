//! When are weights cast, and where do their gradients go?

use super::limits;
use crate::error::Result;
use serde::{Deserialize, Serialize};

/// `[software.weights]` of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WeightHandling {
    /// Scales of whole tensors in fp8 come from earlier steps; else a tensor is read once more to find its
    /// own before it is cast.
    pub delayed_scaling: bool,
    /// Weights are cast to a narrow format once a step, behind the update; else for every micro-batch.
    pub casts_weights_once: bool,
    /// Weights become narrow again where a pass needs them, and no narrow copy of them stays.
    pub recasts_weights: bool,
    /// Bytes of a gradient's element by which adding it to its sum exceeds one pass that reads both and
    /// writes the sum.
    pub accumulation: f64,
    /// Gradients of weights leave their product once, in the format of activations, and are added to no sum
    /// on the rank: their owner adds them up (FSDP), or there is one micro-batch.
    pub plain_gradients: bool,
    /// Passes over gradients by which they are divided by the number of replicas before those add them up, below
    /// stage 2 of ZeRO, whose `reduce_copy` has them: read and written (Megatron-LM, `gradient_scaling_factor`;
    /// `DDP` of `PyTorch`). None where the sum is made as a mean (`average_in_collective`), or a compiler divides elsewhere.
    pub divided_gradients: f64,
    /// A product that adds its weight's gradient to the sum itself gives the framework a tensor of that shape in
    /// the gradient's place, in the format of activations, which stays and serves all weights of one shape
    /// (`get_dummy_wgrad` of Transformer Engine since its pull request 1651 of April 2025, which Megatron-Core's
    /// head takes, too). Holds where gradients are fused (`Training::fused_gradients`).
    pub gradient_stand_ins: bool,
}

impl Default for WeightHandling {
    fn default() -> Self {
        Self {
            delayed_scaling: false,
            casts_weights_once: false,
            recasts_weights: false,
            accumulation: 0.0,
            plain_gradients: false,
            divided_gradients: 2.0,
            gradient_stand_ins: true,
        }
    }
}

impl WeightHandling {
    /// Refuses figures that no program has.
    pub(super) fn check(&self) -> Result<()> {
        limits::count("weights.accumulation", self.accumulation)?;
        limits::count("weights.divided_gradients", self.divided_gradients)
    }
}

//! What does training software do beside a model's products: passes over memory, launches, gathers?

mod context;
mod experts;
mod host;
mod layer;
mod limits;
mod optimizer;
mod pipeline;
mod recompute;
mod tensor;
mod vocabulary;
mod weights;
mod zero;

pub use context::ContextRanks;
pub use experts::Experts;
pub use host::HostWork;
pub use layer::LayerKernels;
pub use optimizer::Update;
pub use pipeline::Handover;
pub use recompute::Recomputation;
pub use tensor::TensorRanks;
pub use vocabulary::Vocabulary;
pub use weights::WeightHandling;
pub use zero::Sharding;

use crate::error::Result;
use serde::{Deserialize, Serialize};

/// A software profile: facts of a training program that are no choice of a plan, a table for each of
/// its concerns.
///
/// Passes are counted in tensors of the width that they go over, in the activation format, forward
/// and backward. The default is fused kernels, launched ahead of the device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Software {
    /// Name of the profile.
    pub name: String,
    /// Kernels of a layer beside its products.
    pub layer: LayerKernels,
    /// Embedding, head and loss.
    pub vocabulary: Vocabulary,
    /// Casts of weights, and sums of their gradients.
    pub weights: WeightHandling,
    /// What layers keep, and what recomputation repeats.
    pub recompute: Recomputation,
    /// What tensor ranks exchange.
    pub tensor: TensorRanks,
    /// Attention over context ranks.
    pub context: ContextRanks,
    /// What stages of a pipeline hand over.
    pub pipeline: Handover,
    /// Gathers and reductions of ZeRO and FSDP.
    pub zero: Sharding,
    /// Mixtures of experts.
    pub experts: Experts,
    /// The host that issues kernels.
    pub host: HostWork,
    /// Clipping and update of weights.
    pub optimizer: Update,
}

impl Software {
    /// Refuses figures that no program has.
    ///
    /// # Errors
    ///
    /// `Invalid` names the first field that is out of its range.
    pub fn check(&self) -> Result<()> {
        self.layer.check()?;
        self.vocabulary.check()?;
        self.weights.check()?;
        self.recompute.check()?;
        self.tensor.check()?;
        self.context.check()?;
        self.pipeline.check()?;
        self.zero.check()?;
        self.experts.check()?;
        self.host.check()?;
        self.optimizer.check()
    }
}

//! The training job: batch, sequence, number formats, optimizer.

use super::software::Software;
use crate::error::{Error, Result};
use crate::units::Dtype;
use serde::{Deserialize, Serialize};

/// How a model is trained (or run forward only).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Sequences per optimizer step.
    pub global_batch: u64,
    /// Tokens per sequence (target tokens of an encoder-decoder).
    pub sequence: u64,
    /// Number formats.
    #[serde(default = "default_precision")]
    pub precision: Precision,
    /// Format in which gradients are summed and reduced; absent: fp32.
    #[serde(default = "default_gradient")]
    pub gradient: Dtype,
    /// Format of the optimizer's moments and of the weights that it updates: fp32, or that of activations,
    /// where it updates the weights of the passes themselves and no wider copy of them exists.
    #[serde(default = "default_gradient")]
    pub state: Dtype,
    /// Weight gradients are added to their sum inside the product's own kernel.
    #[serde(default = "yes")]
    pub fused_gradients: bool,
    /// Optimizer.
    #[serde(default = "default_optimizer")]
    pub optimizer: Optimizer,
    /// Fused attention kernels; without them the scores go through memory.
    #[serde(default = "yes")]
    pub flash_attention: bool,
    /// Dropout on scores and residuals (older GPT recipes).
    #[serde(default)]
    pub dropout: bool,
    /// Only the forward pass: no gradients, no optimizer.
    #[serde(default)]
    pub forward_only: bool,
    /// What the software does beside the products.
    #[serde(default, skip_serializing_if = "is_default")]
    pub software: Software,
    /// Length of the whole run in tokens, for run energy and price.
    #[serde(default)]
    pub run_tokens: Option<f64>,
    /// Share of a run's time in which its steps count: the rest goes to failures, what is trained again after them,
    /// and checkpoints.
    #[serde(default = "whole")]
    pub goodput: f64,
}

/// A precision recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Everything in fp32.
    Fp32,
    /// Everything in fp32, products of operands rounded to 19 bits where the device has an engine for them
    /// (`torch.backends.cuda.matmul.allow_tf32`), attention's, too.
    Tf32,
    /// fp16 compute, fp32 master weights, loss scaling.
    Fp16,
    /// bf16 compute, fp32 master weights.
    Bf16,
    /// Linear layers in fp8 with a scale per tensor, the rest in bf16.
    Fp8,
    /// Linear layers in mxfp8, the rest in bf16.
    Mxfp8,
    /// Linear layers in nvfp4, forward and backward, the rest in bf16 (NVIDIA 2025, arXiv 2509.25149,
    /// which keeps a few layers in bf16 as well: those are priced as the others).
    Nvfp4,
}

/// An optimizer, by the state it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// Two fp32 moments per parameter.
    Adam,
    /// One fp32 momentum per parameter.
    Sgd,
    /// Factored second moment: one fp32 number per row and column.
    Adafactor,
    /// One fp32 momentum per element of a matrix, which is orthogonalised at each step (Jordan 2024); Adam
    /// for embedding, head and vectors.
    Muon,
}

impl Precision {
    /// Every recipe, the widest first.
    pub const ALL: [Self; 7] = [
        Self::Fp32,
        Self::Tf32,
        Self::Fp16,
        Self::Bf16,
        Self::Fp8,
        Self::Mxfp8,
        Self::Nvfp4,
    ];

    /// Format of activations and of the weights used in compute.
    pub const fn activation(self) -> Dtype {
        match self {
            Self::Fp32 | Self::Tf32 => Dtype::Fp32,
            Self::Fp16 => Dtype::Fp16,
            Self::Bf16 | Self::Fp8 | Self::Mxfp8 | Self::Nvfp4 => Dtype::Bf16,
        }
    }

    /// Format of the operands of products that a narrow recipe leaves wide: attention's, the head's, routing.
    pub const fn wide(self) -> Dtype {
        match self {
            Self::Tf32 => Dtype::Tf32,
            _ => self.activation(),
        }
    }

    /// Format of the operands of linear layers.
    pub const fn matmul(self) -> Dtype {
        match self {
            Self::Fp32 => Dtype::Fp32,
            Self::Tf32 => Dtype::Tf32,
            Self::Fp16 => Dtype::Fp16,
            Self::Bf16 => Dtype::Bf16,
            Self::Fp8 => Dtype::Fp8,
            Self::Mxfp8 => Dtype::Mxfp8,
            Self::Nvfp4 => Dtype::Nvfp4,
        }
    }
}

impl Training {
    /// True where products add gradients to their sums themselves: a program that is known to take more passes for
    /// that (`software.weights.accumulation`) adds them by kernels of their own.
    pub fn fuses_gradients(&self) -> bool {
        self.fused_gradients && self.software.weights.accumulation <= 0.0
    }

    /// Refuses jobs that cannot exist.
    pub fn check(&self) -> Result<()> {
        let limit = 1_u64 << 32;
        for (field, value) in [
            ("global_batch", self.global_batch),
            ("sequence", self.sequence),
        ] {
            if value == 0 || value > limit {
                let field = format!("training.{field}");
                return Err(Error::invalid(field, value, format!("1 to {limit}")));
            }
        }
        let element = self.precision.activation();
        if self.state != Dtype::Fp32 && self.state != element {
            let allowed = format!("fp32, or that of activations ({})", element.name());
            return Err(Error::invalid("training.state", self.state.name(), allowed));
        }
        self.software.check()?;
        if !(self.goodput > 0.0 && self.goodput <= 1.0) {
            let allowed = "a share above 0, up to 1";
            return Err(Error::invalid("training.goodput", self.goodput, allowed));
        }
        match self.run_tokens {
            Some(tokens) if !(tokens.is_finite() && tokens > 0.0) => Err(Error::invalid(
                "training.run_tokens",
                tokens,
                "a finite number above 0",
            )),
            _ => Ok(()),
        }
    }
}

fn is_default(software: &Software) -> bool {
    *software == Software::default()
}

const fn whole() -> f64 {
    1.0
}

fn default_precision() -> Precision {
    Precision::Bf16
}

fn default_gradient() -> Dtype {
    Dtype::Fp32
}

fn default_optimizer() -> Optimizer {
    Optimizer::Adam
}

fn yes() -> bool {
    true
}

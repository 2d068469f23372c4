//! Which passes over memory do the kernels of a layer make beside its products?

use super::limits;
use crate::error::{Error, Result};
use crate::units::Dtype;
use serde::{Deserialize, Serialize};

/// `[software.layer]` of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LayerKernels {
    /// Passes of a norm. Fused: reads input, writes output; backward reads output gradient and input
    /// and writes the input gradient, and reads both again for the gains' gradient, which sums over
    /// tokens and not over columns (a kernel of its own).
    pub norm: [f64; 2],
    /// Passes of a rotation of queries and keys. Fused: reads and writes each way.
    pub rotary: [f64; 2],
    /// Kernels of those, forward and backward, that take elements one by one; their passes are not counted above.
    pub rotary_strided: [f64; 2],
    /// Passes of a plain activation. Fused: reads, writes; reads gradient and input, writes gradient.
    pub activation: [f64; 2],
    /// Passes of a gated activation over its output width. Fused: reads two halves, writes one; reads
    /// gradient and two halves, writes two gradients.
    pub gated_activation: [f64; 2],
    /// Kernels of those, forward and backward, that take elements one by one; their passes are not counted above.
    pub gated_activation_strided: [f64; 2],
    /// Passes over the scores of unfused attention between its products, dropout left out. Fused scale,
    /// mask and softmax: reads and writes; backward reads output and gradient and writes.
    pub scores: [f64; 2],
    /// Those that a causal mask spares: a kernel that knows it reads the lower triangle only.
    pub scores_spared: [f64; 2],
    /// Passes over queries, keys and values around unfused attention beyond those that give the context its
    /// order back and join the gradients of all three: copies that bring heads side by side, scaling.
    pub heads: [f64; 2],
    /// Passes by which an addition to the residual stream exceeds one fused kernel.
    pub addition: [f64; 2],
    /// Kernels of those, forward and backward, that take elements one by one; their passes are not counted above.
    pub addition_strided: [f64; 2],
    /// Passes over a product's output by which its bias is added outside of the product.
    pub bias: [f64; 2],
    /// Backward passes over queries, keys and values by which their gradients become one tensor, where
    /// one product made all three and another program's fused attention takes them apart.
    pub joined: f64,
    /// Queries, keys and values come from products of their own, and so do both inputs of a gated
    /// activation.
    pub products_apart: bool,
    /// Format of the products of fused attention, where it is not that in which activations are kept
    /// (Megatron-Core, `fp8_dot_product_attention`): 16 bits, fp8 or mxfp8.
    pub attention_format: Option<Dtype>,
}

impl Default for LayerKernels {
    fn default() -> Self {
        Self {
            norm: [2.0, 5.0],
            rotary: [2.0, 2.0],
            rotary_strided: [0.0, 0.0],
            activation: [2.0, 3.0],
            gated_activation: [3.0, 5.0],
            gated_activation_strided: [0.0, 0.0],
            scores: [2.0, 3.0],
            scores_spared: [0.5, 1.0],
            heads: [0.0, 0.0],
            addition: [0.0, 0.0],
            addition_strided: [0.0, 0.0],
            bias: [0.0, 0.0],
            joined: 0.0,
            products_apart: false,
            attention_format: None,
        }
    }
}

impl LayerKernels {
    /// Refuses figures that no program has.
    pub(super) fn check(&self) -> Result<()> {
        limits::pair("layer.norm", self.norm)?;
        limits::pair("layer.rotary", self.rotary)?;
        limits::pair("layer.rotary_strided", self.rotary_strided)?;
        limits::pair("layer.activation", self.activation)?;
        limits::pair("layer.gated_activation", self.gated_activation)?;
        limits::pair(
            "layer.gated_activation_strided",
            self.gated_activation_strided,
        )?;
        limits::pair("layer.scores", self.scores)?;
        limits::pair("layer.scores_spared", self.scores_spared)?;
        limits::pair("layer.heads", self.heads)?;
        limits::pair("layer.addition", self.addition)?;
        limits::pair("layer.addition_strided", self.addition_strided)?;
        limits::pair("layer.bias", self.bias)?;
        limits::count("layer.joined", self.joined)?;
        let Some(format) = self.attention_format else {
            return Ok(());
        };
        if matches!(
            format,
            Dtype::Bf16 | Dtype::Fp16 | Dtype::Fp8 | Dtype::Mxfp8
        ) {
            return Ok(());
        }
        let field = "training.software.layer.attention_format";
        let allowed = "bf16, fp16, fp8 or mxfp8";
        Err(Error::invalid(field, format.name(), allowed))
    }
}

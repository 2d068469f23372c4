//! What does a layer keep for its backward pass, and what does it compute again?

use super::limits;
use crate::error::Result;
use serde::{Deserialize, Serialize};

/// `[software.recompute]` of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recomputation {
    /// Widths that a norm keeps, in the activation format: its input, or what kernels of their own made of it.
    pub norm_kept: f64,
    /// Widths that GELU keeps: its input, or what kernels of their own made of it.
    pub activation_kept: f64,
    /// Widths that a gated activation keeps: its two inputs, and where the gate and the product are kernels of
    /// their own, what the gate made.
    pub gated_kept: f64,
    /// Recomputation repeats products whose output no gradient reads, too: those at the end of a layer, and
    /// keeps what they make where it keeps outputs. A compiler drops them, and so does, of what is repeated,
    /// a checkpoint that stops once it has what it needs.
    pub repeat_unread: bool,
    /// Selective recomputation repeats the feed-forward half besides the attention core, so that the
    /// narrow products alone stay.
    pub selective_feed_forward: bool,
    /// Selective recomputation keeps what fused attention and every second dense product of a layer
    /// make, from the first product on, and its input; it repeats all else (torchtitan,
    /// `selective_ac_option = op`).
    pub selective_alternate: bool,
    /// Selective recomputation keeps a layer's input and what products make, alone, and repeats all that
    /// lies between: norms, rotations, activations (policies of `jax.checkpoint` by names of products).
    pub keeps_products: bool,
    /// Selective recomputation keeps what the attention core makes, too, and does not repeat it (policy
    /// `minimal_flash` of `MaxText`).
    pub keeps_core: bool,
    /// Selective recomputation that keeps products makes the output projection of attention again, and the
    /// stream behind it (policies `save_qkv_proj` and `qkv_proj_offloaded` of `MaxText`).
    pub repeats_output: bool,
    /// The up-projections of latent attention run again in the backward pass (Megatron-Core,
    /// `recompute_modules` with `mla_up_proj`).
    pub repeats_latent: bool,
    /// Full recomputation of a layer ends with the last tensor that its backward pass reads, so what
    /// follows is not run again: the last product of a feed-forward part and the addition behind it
    /// (PyTorch 2.1 on, `torch/utils/checkpoint.py`, early stop of the non-reentrant kind).
    pub stops_early: bool,
}

impl Default for Recomputation {
    fn default() -> Self {
        Self {
            norm_kept: 1.0,
            activation_kept: 1.0,
            gated_kept: 2.0,
            repeat_unread: true,
            selective_feed_forward: false,
            selective_alternate: false,
            keeps_products: false,
            keeps_core: false,
            repeats_output: false,
            repeats_latent: false,
            stops_early: false,
        }
    }
}

impl Recomputation {
    /// Refuses figures that no program has.
    pub(super) fn check(&self) -> Result<()> {
        limits::count("recompute.norm_kept", self.norm_kept)?;
        limits::count("recompute.activation_kept", self.activation_kept)?;
        limits::count("recompute.gated_kept", self.gated_kept)
    }
}

//! Which constants say how fused attention kernels use a device?

use super::device::{not_negative, positive, share};
use crate::defaults::{attention, timed_attention, wide_heads};
use crate::error::Result;
use crate::units::Seconds;
use serde::{Deserialize, Serialize};

/// Constants of the fused-attention model (see `operator_cost`), forward and backward alike where not said.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AttentionModel {
    /// Share of the dense peak that the products of the forward kernel sustain.
    pub forward_efficiency: f64,
    /// The same for the backward kernel.
    pub backward_efficiency: f64,
    /// Cost of the exponential of one score, as the head width whose products take as long in bf16.
    pub score_overhead: f64,
    /// Keys that starting and finishing a block of 128 queries costs.
    pub key_overhead: f64,
    /// Share of the longest block that the last units wait for.
    pub tail: f64,
    /// What products of heads wider than 192 take, over what their flops say.
    pub wide: f64,
    /// Multiple to which head widths are padded: the side of a systolic array, elements.
    pub width_step: f64,
}

/// Constants of one pass of a training kernel that was timed by itself.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AttentionPass {
    /// Share of the dense peak that its products sustain.
    pub efficiency: f64,
    /// As in `AttentionModel`.
    pub score_overhead: f64,
    /// As in `AttentionModel`.
    pub key_overhead: f64,
    /// As in `AttentionModel`.
    pub tail: f64,
    /// What products of heads wider than `wide_beyond` take, over what their flops say.
    pub wide: f64,
    /// Widest heads that are not wide.
    pub wide_beyond: f64,
    /// What a block of 128 queries takes more under a sliding window, which masks tiles at both of its ends.
    pub window: Seconds,
    /// False where the kernel also computes, and then masks, what a window hides.
    pub skips_hidden: bool,
    /// As in `AttentionModel`.
    pub width_step: f64,
}

/// The attention kernels of training in one format; a pass that is absent was not timed.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingAttention {
    /// The forward kernel.
    pub forward: Option<AttentionPass>,
    /// The backward kernel.
    pub backward: Option<AttentionPass>,
}

impl Default for AttentionModel {
    fn default() -> Self {
        Self {
            forward_efficiency: attention::FORWARD_EFFICIENCY,
            backward_efficiency: attention::BACKWARD_EFFICIENCY,
            score_overhead: attention::SCORE_OVERHEAD,
            key_overhead: attention::KEY_OVERHEAD,
            tail: attention::TAIL,
            wide: 1.0,
            width_step: 1.0,
        }
    }
}

impl Default for AttentionPass {
    fn default() -> Self {
        Self {
            wide_beyond: timed_attention::WIDE_BEYOND,
            ..AttentionModel::default().pass(false)
        }
    }
}

impl AttentionModel {
    /// The constants of one pass.
    pub const fn pass(&self, backward: bool) -> AttentionPass {
        AttentionPass {
            efficiency: if backward {
                self.backward_efficiency
            } else {
                self.forward_efficiency
            },
            score_overhead: self.score_overhead,
            key_overhead: self.key_overhead,
            tail: self.tail,
            wide: self.wide,
            wide_beyond: wide_heads::BEYOND,
            window: Seconds::ZERO,
            skips_hidden: true,
            width_step: self.width_step,
        }
    }

    pub(super) fn check(&self, path: &str) -> Result<()> {
        let at = |field: &str| format!("{path}.{field}");
        share(&at("forward_efficiency"), self.forward_efficiency)?;
        share(&at("backward_efficiency"), self.backward_efficiency)?;
        self.pass(false).check_overheads(path)
    }
}

impl AttentionPass {
    fn check(&self, path: &str) -> Result<()> {
        share(&format!("{path}.efficiency"), self.efficiency)?;
        not_negative(&format!("{path}.wide_beyond"), self.wide_beyond)?;
        not_negative(&format!("{path}.window"), self.window.value())?;
        self.check_overheads(path)
    }

    fn check_overheads(&self, path: &str) -> Result<()> {
        let at = |field: &str| format!("{path}.{field}");
        not_negative(&at("score_overhead"), self.score_overhead)?;
        not_negative(&at("key_overhead"), self.key_overhead)?;
        not_negative(&at("tail"), self.tail)?;
        positive(&at("wide"), self.wide)?;
        positive(&at("width_step"), self.width_step)
    }
}

impl TrainingAttention {
    /// The constants of one pass.
    pub const fn pass(&self, backward: bool) -> Option<AttentionPass> {
        if backward {
            self.backward
        } else {
            self.forward
        }
    }

    pub(super) fn check(&self, path: &str) -> Result<()> {
        for (name, pass) in [("forward", &self.forward), ("backward", &self.backward)] {
            if let Some(pass) = pass {
                pass.check(&format!("{path}.{name}"))?;
            }
        }
        Ok(())
    }
}

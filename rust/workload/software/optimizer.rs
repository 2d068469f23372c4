//! What does the update of weights move and hold?

use super::limits;
use crate::error::Result;
use crate::units::Seconds;
use serde::{Deserialize, Serialize};

/// `[software.optimizer]` of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Update {
    /// Bytes that clipping and update of Adam move per trained element with fp32 state, of which narrower
    /// state takes its share; absent: those of the separate kernels of Megatron-LM (`memory::optimizer_traffic`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<f64>,
    /// The same with state of 16 bits; absent: its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_narrow: Option<f64>,
    /// Copies of all elements that an update trains which lie beside state and gradients while it goes on, in
    /// the format of the state: what an optimizer that takes lists of tensors at once makes between its kernels.
    pub update_held: f64,
    /// Gradients are let go of after an update and come back one after another as the next backward pass makes
    /// them (`zero_grad(set_to_none=True)` of `PyTorch`), so that in a step of one micro-batch none are there
    /// when most activations are.
    pub frees_gradients: bool,
    /// Time that the host takes in a step for the tensors of one layer, whose gradients it checks and measures
    /// one by one while the device waits; without shards of the state (ZeRO stage 0).
    pub layer_update_time: Seconds,
}

impl Default for Update {
    fn default() -> Self {
        Self {
            update: None,
            update_narrow: None,
            update_held: 0.0,
            frees_gradients: false,
            layer_update_time: Seconds::ZERO,
        }
    }
}

impl Update {
    /// Refuses figures that no program has.
    pub(super) fn check(&self) -> Result<()> {
        limits::count("optimizer.update", self.update.unwrap_or_default())?;
        limits::count(
            "optimizer.update_narrow",
            self.update_narrow.unwrap_or_default(),
        )?;
        limits::count("optimizer.update_held", self.update_held)?;
        limits::time("optimizer.layer_update_time", self.layer_update_time)
    }
}

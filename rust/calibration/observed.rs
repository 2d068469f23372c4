//! What of a priced plan a published figure can be made of, read from the text of an estimate.

use crate::error::{Error, Result, from_json};
use crate::plan::Plan;
use crate::units::{Bytes, Flops, Seconds};
use serde::Deserialize;

/// The part of an estimate that published metrics speak of.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Priced {
    /// The plan.
    pub plan: Plan,
    /// Time of an optimizer step.
    pub step_time_s: Seconds,
    /// Bytes on the fullest rank.
    pub peak_memory_bytes: Bytes,
    /// Matrix arithmetic of the model per step.
    pub model_flops_per_step: Flops,
    /// The same with what is recomputed.
    pub hardware_flops_per_step: Flops,
    /// Memory by stage.
    pub memory: Vec<Stage>,
}

/// Memory of one stage's ranks by class.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[allow(clippy::struct_field_names)] // the names are the estimate's own
pub struct Stage {
    /// Weights in the compute format.
    pub weights_bytes: Bytes,
    /// Gradients.
    pub gradients_bytes: Bytes,
    /// Master weights and optimizer state.
    pub optimizer_bytes: Bytes,
    /// Kept activations of all micro-batches in flight.
    pub activations_bytes: Bytes,
    /// Allocator loss.
    pub fragmentation_bytes: Bytes,
    /// Driver context and communicator buffers.
    pub reserve_bytes: Bytes,
    /// All together.
    pub total_bytes: Bytes,
}

impl Priced {
    /// Reads an estimate's JSON text; fields that no metric needs are passed over.
    pub fn from_json(text: &str) -> Result<Self> {
        let priced: Self = from_json("estimate", text)?;
        if priced.step_time_s.value() > 0.0 {
            return Ok(priced);
        }
        Err(Error::invalid(
            "estimate.step_time_s",
            priced.step_time_s.value(),
            "a time above 0",
        ))
    }

    /// The largest of the stages' values of `amount`.
    pub(super) fn most(&self, amount: impl Fn(&Stage) -> Bytes) -> Bytes {
        self.memory
            .iter()
            .map(amount)
            .fold(
                Bytes::new(0.0),
                |a, b| {
                    if b.value() > a.value() { b } else { a }
                },
            )
    }
}

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
    /// Micro-batches per replica and step.
    pub micro_batches: u64,
    /// Where the time goes on the busiest stage.
    pub time: Vec<Term>,
    /// Memory by stage.
    pub memory: Vec<Stage>,
}

/// One line of the time breakdown, as `matmul.forward`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Term {
    /// What takes the time.
    pub term: String,
    /// Seconds on the critical path.
    pub time_s: Seconds,
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
    /// Of these, what embedding, head and loss keep.
    pub end_activations_bytes: Bytes,
    /// Gradients that come after the fullest moment.
    pub later_gradients_bytes: Bytes,
    /// Activations that layers keep and that are gone at the fullest moment.
    pub earlier_activations_bytes: Bytes,
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

    /// Time that one layer takes for one micro-batch in the phases that `counts` accepts.
    ///
    /// The terms of embedding, head and loss stand apart; the rest of a stage's time is its layers'.
    pub(super) fn layer_time(&self, layers: u64, counts: fn(&str) -> bool) -> Result<Seconds> {
        if self.plan.pipeline > 1 {
            let allowed = "1: the time of a layer is read where one stage runs all of them";
            return Err(Error::invalid("plan.pipeline", self.plan.pipeline, allowed));
        }
        let of_layers = self.time.iter().filter(|line| {
            let (class, phase) = line.term.split_once('.').unwrap_or((&line.term, ""));
            !matches!(class, "embedding" | "head" | "loss") && counts(phase)
        });
        let stage: Seconds = of_layers.map(|line| line.time_s).sum();
        Ok(stage / (layers as f64 * self.micro_batches as f64))
    }

    /// The largest of the stages' values of `amount`.
    pub(super) fn most(&self, amount: impl Fn(&Stage) -> Bytes) -> Bytes {
        largest(&self.memory, amount)
    }

    /// The same of stages between the ends, where there are such.
    pub(super) fn inner_most(&self, amount: impl Fn(&Stage) -> Bytes) -> Bytes {
        match &self.memory[..] {
            [_, inner @ .., _] if !inner.is_empty() => largest(inner, amount),
            all => largest(all, amount),
        }
    }
}

fn largest(stages: &[Stage], amount: impl Fn(&Stage) -> Bytes) -> Bytes {
    stages.iter().map(amount).fold(
        Bytes::new(0.0),
        |a, b| {
            if b.value() > a.value() { b } else { a }
        },
    )
}

//! How do stages of a pipeline hand over, and what stays of it?

use super::limits;
use crate::error::Result;
use crate::units::Seconds;
use serde::{Deserialize, Serialize};

/// `[software.pipeline]` of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Handover {
    /// Gathers by which tensor ranks rejoin what a stage hands over, mean of forward and backward pass.
    pub handover_gathers: f64,
    /// Passes over the rejoined tensor beside them, mean of forward and backward pass.
    pub handover_copies: f64,
    /// Time that the host takes a hand-over, which it first waits for, while the device has nothing to do.
    pub handover_time: Seconds,
    /// A stage of a pipeline sends and receives in turn, as one blocking message follows another; else what goes
    /// one way and what comes the other way travel together.
    pub sends_apart: bool,
    /// Replicas whose devices share the adapters of a unit send to the next stage at unlike times, each
    /// with all adapters to itself; else those that lie side by side send at once.
    pub staggers_sends: bool,
    /// What stages hand over stays until the step ends: for each of its micro-batches a buffer of the input
    /// and one of the output's gradient, the output and the input's gradient (`torch.distributed.pipelining`).
    pub keeps_handed: bool,
    /// The last stage puts the outputs of all micro-batches together at the end of a step
    /// (`torch.distributed.pipelining`).
    pub merges_outputs: bool,
}

impl Default for Handover {
    fn default() -> Self {
        Self {
            handover_gathers: 1.0,
            handover_copies: 0.0,
            handover_time: Seconds::ZERO,
            sends_apart: false,
            staggers_sends: false,
            keeps_handed: false,
            merges_outputs: false,
        }
    }
}

impl Handover {
    /// Refuses figures that no program has.
    pub(super) fn check(&self) -> Result<()> {
        limits::count("pipeline.handover_gathers", self.handover_gathers)?;
        limits::count("pipeline.handover_copies", self.handover_copies)?;
        limits::time("pipeline.handover_time", self.handover_time)
    }
}

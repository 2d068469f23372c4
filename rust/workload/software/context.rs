//! How does attention over context ranks pass keys and values round?

use super::limits;
use crate::error::Result;
use serde::{Deserialize, Serialize};

/// `[software.context]` of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContextRanks {
    /// Keys and values of all context ranks are gathered before attention starts, which then waits for
    /// them; else each rank attends to what it has while the next part arrives.
    pub gathers_keys_first: bool,
    /// Passes over the width of queries for each part of keys and values that comes round a ring of context
    /// ranks, forward and backward, by which the part's results are made and merged. The default is Transformer
    /// Engine's `AttnFuncWithCPAndKVP2P` of balanced ranks, which let half of the parts see half of their queries:
    /// a kernel merges outputs (3 passes, or 1.5), half of the queries are copied (1 of them); backward the same of
    /// gradients of queries, and copies of outputs and their gradients, too.
    pub ring: [f64; 2],
    /// The same over the widths of keys and values: copies of half of them; backward sums of their gradients.
    pub ring_keys: [f64; 2],
    /// Widths of queries, and of keys and values, that a pass of attention holds until it ends for each context
    /// rank. The default is Transformer Engine's, whose forward pass keeps the outputs of all steps until they
    /// are merged (`out_per_step`) and all parts that came (`p2p_comm_buffers`).
    pub ring_held: [f64; 2],
}

impl Default for ContextRanks {
    fn default() -> Self {
        Self {
            gathers_keys_first: false,
            ring: [2.75, 3.75],
            ring_keys: [0.5, 2.75],
            ring_held: [1.0, 1.0],
        }
    }
}

impl ContextRanks {
    /// Refuses figures that no program has.
    pub(super) fn check(&self) -> Result<()> {
        limits::pair("context.ring", self.ring)?;
        limits::pair("context.ring_keys", self.ring_keys)?;
        limits::pair("context.ring_held", self.ring_held)
    }
}

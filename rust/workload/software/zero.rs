//! How are sharded weights gathered and gradients reduced (ZeRO, FSDP)?

use super::limits;
use crate::error::Result;
use crate::units::Seconds;
use serde::{Deserialize, Serialize};

/// `[software.zero]` of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sharding {
    /// Collectives into which ZeRO-3 cuts the gather of one layer's weights: 1 where they are flat.
    pub gathers_per_layer: f64,
    /// True where weights are gathered once more for what the backward pass computes again.
    pub gathers_again: bool,
    /// Weights that the forward pass gathered (ZeRO stage 3) stay whole until the backward pass has used them
    /// (`reshard_after_forward = False` of FSDP).
    pub keeps_gathered: bool,
    /// Gathers of weights fill buffers of their own, out of which weights are copied; embedding and head are
    /// gathered together and stay whole (FSDP2 of `PyTorch`).
    pub gathers_apart: bool,
    /// Owners cast weights of products before a gather, so that narrow ones travel and stay (FSDP2 of
    /// `PyTorch` with `torchao`, `enable_fsdp_float8_all_gather`), where replicas share them: see `narrows`.
    pub gathers_narrow: bool,
    /// Shards of weights are the fp32 ones that the optimizer updates (ZeRO stage 3): what a gather sends is
    /// cast for it, and no narrower shard stays (FSDP of `PyTorch` with mixed precision).
    pub wide_shards: bool,
    /// Time that the host takes for each rank of such a gather while the device waits: a list of as
    /// many views, into which as many copies go.
    pub gather_rank_time: Seconds,
    /// Time that the host takes for such a gather, and for each rank of it, before it issues the next
    /// kernels: it may run ahead of the device with both.
    pub gather_host_time: [Seconds; 2],
    /// Bytes that a device moves per gathered weight beside a ZeRO-3 gather, which delivers one flat
    /// piece of each rank: 0 where weights are views of what the collective writes.
    pub gather_copy: f64,
    /// Bytes that a device moves per gradient before ZeRO stages 2 and 3 reduce it: gradients are put
    /// side by side, cast and divided.
    pub reduce_copy: f64,
    /// Gradients of a virtual stage are summed whole and reduced once its last micro-batch has gone back;
    /// then their shards alone stay, which are tensors of their own (FSDP in a pipeline). Those of one block
    /// lie beside the sum before they are added to it, and the last buffer of a reduction stays until the
    /// next one (`_root_post_backward_final_callback` of `_fsdp_state.py` frees it after a last backward
    /// pass, which a pipeline never declares).
    pub reduces_by_stage: bool,
    /// Stage 1 of ZeRO sums whole gradients on every rank (an all-reduce), though each updates a part of them;
    /// else a rank gets the sums of its own part (reduce-scatter).
    pub reduces_whole: bool,
    /// Stages 1 and 2 of ZeRO deal whole tensors, so many of each layer, to ranks, each of which broadcasts its
    /// own after the update, one broadcast after another; 0 where ranks hold even shards and one all-gather
    /// brings them.
    pub dealt_tensors: u32,
}

impl Default for Sharding {
    fn default() -> Self {
        Self {
            gathers_per_layer: 1.0,
            gathers_again: false,
            keeps_gathered: false,
            gathers_apart: false,
            gathers_narrow: false,
            wide_shards: false,
            gather_rank_time: Seconds::ZERO,
            gather_host_time: [Seconds::ZERO; 2],
            gather_copy: 0.0,
            reduce_copy: 0.0,
            reduces_by_stage: false,
            reduces_whole: false,
            dealt_tensors: 0,
        }
    }
}

impl Sharding {
    /// True where weights of products are cast before so many replicas gather them: context ranks that hold
    /// shards of an only replica gather wide ones (`enable_fsdp_float8_all_gather` counts where
    /// `parallel_dims.dp_shard_enabled`: torchtitan/float8.py).
    pub const fn narrows(&self, replicas: u32) -> bool {
        self.gathers_narrow && replicas > 1
    }

    /// Refuses figures that no program has.
    pub(super) fn check(&self) -> Result<()> {
        limits::within(
            "zero.gathers_per_layer",
            self.gathers_per_layer,
            1.0,
            limits::MOST,
        )?;
        limits::time("zero.gather_rank_time", self.gather_rank_time)?;
        limits::times("zero.gather_host_time", self.gather_host_time)?;
        limits::count("zero.gather_copy", self.gather_copy)?;
        limits::count("zero.reduce_copy", self.reduce_copy)?;
        limits::count("zero.dealt_tensors", f64::from(self.dealt_tensors))
    }
}

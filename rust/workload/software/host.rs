//! How long does the host take to issue kernels, and when does the device wait for it?

use super::limits;
use crate::error::Result;
use crate::units::Seconds;
use serde::{Deserialize, Serialize};

/// `[software.host]` of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostWork {
    /// True where the host waits for each kernel before it issues the next one.
    pub blocking: bool,
    /// Time that the host takes to issue what one kernel of a lowered block stands for.
    pub host_time: Seconds,
    /// Time that the host takes beside `host_time` for each expert of a grouped product, forward and
    /// backward: views, allocations and launches in loops over experts.
    pub expert_host_time: [Seconds; 2],
    /// Time that the host takes beside `host_time` for the routing of a mixture layer, forward and
    /// backward: counts of tokens, the loss that balances them, copies to the host.
    pub routing_host_time: [Seconds; 2],
    /// Time that the host takes beside `host_time` for a product of a block whose tensor ranks exchange what it
    /// multiplies, forward and for each gradient: operations on tensors that know how they are shared out.
    pub tensor_host_time: [Seconds; 2],
    /// Dispatch takes token counts that the host reads back first: what follows is issued once the device
    /// has come that far.
    pub routing_waits: bool,
    /// Attention and router are replayed from captured graphs: in a layer with routed experts the host
    /// issues what lies between dispatch and combine alone.
    pub replays_attention: bool,
    /// Layers that are a state-space mixer or attention and nothing else are replayed from captured graphs.
    pub replays_mixers: bool,
}

impl Default for HostWork {
    fn default() -> Self {
        Self {
            blocking: false,
            host_time: Seconds::ZERO,
            expert_host_time: [Seconds::ZERO; 2],
            routing_host_time: [Seconds::ZERO; 2],
            tensor_host_time: [Seconds::ZERO; 2],
            routing_waits: false,
            replays_attention: false,
            replays_mixers: false,
        }
    }
}

impl HostWork {
    /// Refuses figures that no program has.
    pub(super) fn check(&self) -> Result<()> {
        limits::time("host.host_time", self.host_time)?;
        limits::times("host.expert_host_time", self.expert_host_time)?;
        limits::times("host.routing_host_time", self.routing_host_time)?;
        limits::times("host.tensor_host_time", self.tensor_host_time)
    }
}

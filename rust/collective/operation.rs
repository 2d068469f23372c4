//! Which collectives are there, and how do nccl-tests count their bytes and bandwidths?

use crate::error::{Error, Result};

/// A collective operation. Bytes follow nccl-tests: the full buffer of one rank (input of
/// reduce-scatter, output of all-gather, send buffer of all-to-all, the root's side of gather and
/// scatter).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Collective {
    /// Every rank ends with the sum.
    AllReduce,
    /// Every rank ends with its part of the sum.
    ReduceScatter,
    /// Every rank ends with all parts.
    AllGather,
    /// Every rank sends a part to every other.
    AllToAll,
    /// One rank sends to the next in a chain (pipeline stages); the group's size is 2.
    SendReceive,
    /// Every rank ends with the root's buffer.
    Broadcast,
    /// The root ends with the sum.
    Reduce,
    /// The root ends with the parts of all ranks.
    Gather,
    /// Every rank ends with its part of the root's buffer.
    Scatter,
    /// No rank leaves before all have come; it has no bytes.
    Barrier,
}

impl std::fmt::Display for Collective {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_str(match self {
            Self::AllReduce => "all-reduce",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllGather => "all-gather",
            Self::AllToAll => "all-to-all",
            Self::SendReceive => "send and receive",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Barrier => "barrier",
        })
    }
}

impl Collective {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::AllReduce,
        Self::ReduceScatter,
        Self::AllGather,
        Self::AllToAll,
        Self::SendReceive,
        Self::Broadcast,
        Self::Reduce,
        Self::Gather,
        Self::Scatter,
        Self::Barrier,
    ];

    /// Name in text, as `all_reduce`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllGather => "all_gather",
            Self::AllToAll => "all_to_all",
            Self::SendReceive => "send_receive",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Barrier => "barrier",
        }
    }

    /// The collective of this name, or of nccl-tests' (`alltoall`, `sendrecv`).
    pub fn named(name: &str) -> Result<Self> {
        let plain = match name {
            "alltoall" => "all_to_all",
            "sendrecv" => "send_receive",
            other => other,
        };
        Self::ALL
            .into_iter()
            .find(|known| known.name() == plain)
            .ok_or_else(|| Error::unknown("collective", name, Self::ALL.map(Self::name)))
    }

    /// Passes of the (p-1)/p pattern: all-reduce is a reduce-scatter and an all-gather.
    pub(super) fn passes(self) -> f64 {
        if self == Self::AllReduce { 2.0 } else { 1.0 }
    }

    /// Bus bandwidth over algorithm bandwidth on `ranks` ranks.
    ///
    /// `2 (p-1)/p` for all-reduce; `(p-1)/p` for reduce-scatter, all-gather, all-to-all, gather and
    /// scatter; 1 for broadcast, reduce and messages; 0 for a barrier. nccl-tests,
    /// doc/PERFORMANCE.md and the `GetBw` functions of src/*.cu.
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let others = f64::from(ranks.saturating_sub(1)) / f64::from(ranks.max(1));
        match self {
            Self::AllReduce => 2.0 * others,
            Self::ReduceScatter
            | Self::AllGather
            | Self::AllToAll
            | Self::Gather
            | Self::Scatter => others,
            Self::Broadcast | Self::Reduce | Self::SendReceive => 1.0,
            Self::Barrier => 0.0,
        }
    }
}

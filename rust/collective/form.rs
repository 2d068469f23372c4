//! Hoisted closed forms: once group and algorithm are fixed, a collective's time is a line in its bytes.

use crate::hardware::{Cluster, Group};
use crate::units::{Bytes, Seconds};

/// A collective operation. Bytes follow nccl-tests: the full buffer of one rank
/// (input of reduce-scatter, output of all-gather, send buffer of all-to-all).
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
}

/// How a collective is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Pipelined ring.
    Ring,
}

/// One algorithm's time on one group: `fixed + bytes * per_byte`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Form {
    /// How it is carried out.
    pub algorithm: Algorithm,
    /// Latency part.
    pub fixed: Seconds,
    /// Seconds per byte.
    pub per_byte: f64,
}

/// The forms that compete on one group; the least wins at each size.
#[derive(Debug, Clone, PartialEq)]
pub struct Forms {
    forms: Vec<Form>,
}

impl Forms {
    /// All legal algorithms for `collective` on `group`.
    pub fn new(collective: Collective, group: &Group, cluster: &Cluster) -> Self {
        let _ = (collective, group, cluster);
        Self { forms: Vec::new() }
    }

    /// Time of the best form. Zero for a group of one or for no bytes.
    pub fn time(&self, bytes: Bytes) -> Seconds {
        self.forms
            .iter()
            .map(|f| f.fixed + Seconds::new(bytes.value() * f.per_byte))
            .fold(None, |best: Option<Seconds>, t| {
                Some(best.map_or(t, |b| b.min(t)))
            })
            .unwrap_or(Seconds::ZERO)
    }
}

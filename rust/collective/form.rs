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

impl std::fmt::Display for Collective {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_str(match self {
            Self::AllReduce => "all-reduce",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllGather => "all-gather",
            Self::AllToAll => "all-to-all",
            Self::SendReceive => "send and receive",
        })
    }
}

impl Collective {
    /// Passes of the (p-1)/p pattern: all-reduce is a reduce-scatter and an all-gather.
    pub(super) fn passes(self) -> f64 {
        if self == Self::AllReduce { 2.0 } else { 1.0 }
    }
}

/// How a collective is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Pipelined ring over all ranks.
    Ring,
    /// Two complementary binary trees between nodes, chains inside.
    Tree,
    /// Reduce-scatter inside, the collective between units, all-gather inside.
    Hierarchical,
    /// Every rank to every other at once over a full mesh.
    Direct,
    /// Reduction and multicast in the switches.
    InNetwork,
    /// Rings along the dimensions of a torus.
    Torus,
    /// Every rank sends each other rank its part.
    Pairwise,
    /// One message.
    PointToPoint,
}

/// Which of the library's protocols carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Flags inside 8-byte stores (NCCL's LL).
    LowLatency,
    /// Flags inside 128-byte stores (NCCL's LL128).
    LowLatency128,
    /// Large chunks with separate flags.
    Simple,
}

/// One algorithm's time on one group: `fixed + bytes * per_byte`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Form {
    /// How it is carried out.
    pub algorithm: Algorithm,
    /// What carries the bytes.
    pub protocol: Protocol,
    /// Latency part.
    pub fixed: Seconds,
    /// Seconds per byte.
    pub per_byte: f64,
}

impl Form {
    /// Time of this form for `bytes`.
    pub fn time(&self, bytes: Bytes) -> Seconds {
        Seconds::new(self.fixed.value() + bytes.value() * self.per_byte)
    }

    const NONE: Self = Self {
        algorithm: Algorithm::Ring,
        protocol: Protocol::Simple,
        fixed: Seconds::ZERO,
        per_byte: 0.0,
    };
}

/// Most forms that can compete: three protocols of each algorithm that a fabric allows.
const MAX_FORMS: usize = 12;

/// The forms that compete on one group; the least wins at each size. Held inline, no heap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forms {
    held: [Form; MAX_FORMS],
    count: usize,
    bound: Form,
}

impl Forms {
    /// All algorithms that the fabric allows for `collective` on `group`. A group of one is free.
    pub fn new(collective: Collective, group: &Group, cluster: &Cluster) -> Self {
        super::select::candidates(collective, group, cluster)
    }

    /// No form: everything is free.
    pub(super) const FREE: Self = Self {
        held: [Form::NONE; MAX_FORMS],
        count: 0,
        bound: Form::NONE,
    };

    /// Adds a form unless another is at least as good at every size; drops those it beats.
    pub(super) fn push(&mut self, form: Form) {
        let beats = |a: &Form, b: &Form| a.fixed <= b.fixed && a.per_byte <= b.per_byte;
        if self.all().iter().any(|other| beats(other, &form)) {
            return;
        }
        let mut kept = 0;
        for i in 0..self.count {
            if !beats(&form, &self.held[i]) {
                self.held[kept] = self.held[i];
                kept += 1;
            }
        }
        debug_assert!(kept < MAX_FORMS, "one slot per protocol and algorithm");
        self.held[kept] = form;
        self.count = kept + 1;
    }

    pub(super) fn set_bound(&mut self, bound: Form) {
        self.bound = bound;
    }

    /// The forms that are best at some size, in no particular order.
    pub fn all(&self) -> &[Form] {
        &self.held[..self.count]
    }

    /// Time of the best form. Zero for a group of one or for no bytes.
    #[inline]
    pub fn time(&self, bytes: Bytes) -> Seconds {
        if self.count == 0 || bytes.value() <= 0.0 {
            return Seconds::ZERO;
        }
        let mut least = f64::INFINITY;
        for form in self.all() {
            least = least.min(form.fixed.value() + bytes.value() * form.per_byte);
        }
        Seconds::new(least)
    }

    /// The best form for `bytes` and its time; `None` where the collective is free.
    pub fn best(&self, bytes: Bytes) -> Option<(Form, Seconds)> {
        if bytes.value() <= 0.0 {
            return None;
        }
        self.all()
            .iter()
            .map(|form| (*form, form.time(bytes)))
            .min_by(|a, b| a.1.value().total_cmp(&b.1.value()))
    }

    /// What no algorithm on this fabric can beat (see `bound`).
    pub fn lower_bound(&self, bytes: Bytes) -> Seconds {
        if bytes.value() <= 0.0 {
            return Seconds::ZERO;
        }
        self.bound.time(bytes)
    }
}

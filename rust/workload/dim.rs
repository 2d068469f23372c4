//! Named dimensions of tensors, and products of them.

/// A named dimension. Plans shard dims; operators never mention devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Dim {
    /// Sequences of a micro-batch.
    Batch,
    /// Token positions of a sequence.
    Sequence,
    /// Width of the residual stream.
    Hidden,
    /// Query heads.
    Heads,
    /// Key and value heads.
    KvHeads,
    /// Groups of state-space heads that share the vectors into and out of the state.
    Groups,
    /// Width of one head.
    HeadDim,
    /// Inner width of a dense feed-forward layer.
    Ffn,
    /// Inner width of one expert.
    ExpertFfn,
    /// Experts of a mixture.
    Expert,
    /// Compressed width (multi-head latent attention, low-rank adapters).
    Rank,
    /// Vocabulary entries.
    Vocab,
    /// Learned position table entries.
    Position,
}

/// How long a dim is: `size` entries that a plan may shard, each standing for `times` columns.
///
/// Query heads of width 128 are `Heads` with `size = heads`, `times = 128`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    /// The named dim.
    pub dim: Dim,
    /// Entries that sharding divides.
    pub size: u64,
    /// Columns per entry.
    pub times: f64,
}

impl Extent {
    /// A dim with one column per entry.
    pub const fn new(dim: Dim, size: u64) -> Self {
        Self {
            dim,
            size,
            times: 1.0,
        }
    }

    /// A dim whose entries stand for `times` columns each.
    pub const fn wide(dim: Dim, size: u64, times: f64) -> Self {
        Self { dim, size, times }
    }

    /// So many of these side by side.
    #[must_use]
    pub const fn times_wide(self, times: f64) -> Self {
        Self {
            times: self.times * times,
            ..self
        }
    }

    /// Columns in all.
    pub fn columns(&self) -> f64 {
        self.size as f64 * self.times
    }
}

/// A product of extents: the shape of a tensor.
pub type Product = Vec<Extent>;

//! Operators with named dims: what is multiplied, read, kept and trained.

use super::dim::{Dim, Extent, Product};
use super::transformer::StateRule;
use std::sync::Arc;

/// What an operator is counted as in a breakdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum OperatorClass {
    /// Dense matrix products with weights.
    Matmul,
    /// Score, softmax and context kernels.
    Attention,
    /// Matrix products of routed experts.
    Experts,
    /// Norms.
    Normalization,
    /// Activations, biases, dropout, residual additions, rotary embedding.
    Elementwise,
    /// Embedding look-ups.
    Embedding,
    /// Vocabulary projection.
    Head,
    /// Softmax cross-entropy.
    Loss,
    /// Routing, permutation and un-permutation of tokens.
    Routing,
    /// Convolution, scan and gated norm of state-space mixers.
    StateSpace,
}

impl OperatorClass {
    /// True for products that low-precision recipes leave in the activation format: output head and
    /// router (DeepSeek-V3, arXiv 2412.19437, section 3.3.1).
    pub fn stays_wide(self) -> bool {
        matches!(self, Self::Head | Self::Routing)
    }
}

/// A part of the model with a sharding of its own: the same dim may be split unlike elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Region {
    /// The residual stream with its norms, dropouts and additions.
    Residual,
    /// Inside attention or a state-space mixer.
    Attention,
    /// Inside a dense feed-forward block.
    Mlp,
    /// Inside routed experts: tokens lie with their expert.
    Experts,
    /// Embedding and vocabulary projection.
    Vocabulary,
}

/// A trainable tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Weight {
    /// Shape.
    pub shape: Product,
    /// False for frozen weights: no gradient, no optimizer state.
    pub trained: bool,
}

impl Weight {
    /// Elements of the full tensor.
    pub fn elements(&self) -> f64 {
        self.shape.iter().map(Extent::columns).product()
    }
}

/// Which recomputation policies run an operator's forward a second time, and which keep its tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recompute {
    /// Only full recomputation of the block.
    Full,
    /// Selective recomputation too, which keeps none of its tensors: the attention core of
    /// Korthikanti et al. 2022, section 5.
    Selective,
    /// Only full recomputation; selective recomputation keeps what it makes, and none of its tensors.
    Output,
    /// Selective recomputation too, which keeps its tensors: what products made and it reads.
    Repeated,
    /// No policy: no gradient reads its output, and the program knows it.
    Unread,
    /// No policy, for the same reason; what it reads comes back in selective recomputation.
    UnreadSelective,
    /// No policy, for the same reason; selective recomputation keeps what it makes nevertheless.
    UnreadOutput,
}

impl Recompute {
    /// True where full recomputation runs the operator again.
    pub const fn by_full(self) -> bool {
        matches!(
            self,
            Self::Full | Self::Selective | Self::Output | Self::Repeated
        )
    }

    /// True where selective recomputation runs it again.
    pub const fn by_selective(self) -> bool {
        matches!(self, Self::Selective | Self::Repeated)
    }

    /// The same where nobody runs the operator again, because nothing reads what it makes.
    #[must_use]
    pub const fn unread(self) -> Self {
        match self {
            Self::Full | Self::Repeated | Self::Unread => Self::Unread,
            Self::Selective | Self::UnreadSelective => Self::UnreadSelective,
            Self::Output | Self::UnreadOutput => Self::UnreadOutput,
        }
    }

    /// The same where selective recomputation runs the operator again.
    #[must_use]
    pub const fn selective(self) -> Self {
        if self.by_full() {
            Self::Selective
        } else {
            Self::UnreadSelective
        }
    }

    /// The same where selective recomputation keeps what the operator makes.
    #[must_use]
    pub const fn output(self) -> Self {
        if self.by_full() {
            Self::Output
        } else {
            Self::UnreadOutput
        }
    }

    /// True where its tensors stay under selective recomputation.
    pub const fn kept_by_selective(self) -> bool {
        matches!(self, Self::Full | Self::Repeated | Self::Unread)
    }

    /// True where what it makes stays under selective recomputation.
    pub const fn output_kept_by_selective(self) -> bool {
        matches!(self, Self::Output | Self::UnreadOutput)
    }
}

/// In which number format a kept tensor is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavedAs {
    /// The activation format.
    Activation,
    /// The format in which a matrix product reads it: the cast tensor is kept for the weight gradient.
    Operand,
    /// One byte per element (dropout masks), or bytes that the shape counts (logits).
    Byte,
    /// Four bytes per element (statistics, log-sum-exp).
    Fp32,
}

/// A tensor kept from the forward to the backward pass, once per micro-batch in flight.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// Shape; `Batch` and `Sequence` are implied and not listed.
    pub shape: Product,
    /// Region whose sharding it has.
    pub region: Region,
    /// Storage format.
    pub stored: SavedAs,
    /// True where selective recomputation makes it again, though not the operator that keeps it.
    pub repeated: bool,
}

/// A scaled-dot-product attention core.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of queries and keys per head.
    pub query_dim: u64,
    /// Width of values per head.
    pub value_dim: u64,
    /// True where a position sees only earlier ones.
    pub causal: bool,
    /// Positions seen back from each one; `None` sees all.
    pub window: Option<u64>,
    /// True for a fused kernel that never stores the scores.
    pub flash: bool,
    /// Key positions where they are not those of the queries (cross-attention).
    pub memory_sequence: Option<u64>,
    /// Masked softmax with dropout on the scores (plain attention only).
    pub dropout: bool,
}

/// A scan `h_t = a_t h_(t-1) + B_t x_t`, `y_t = C_t h_t`, in chunks of matrix products (Dao and Gu 2024, arXiv
/// 2405.21060, section 6), or the gated delta rule `h_t = a_t (1 - b_t B_t B_t^T) h_(t-1) + b_t B_t x_t` (Yang et
/// al. 2024, arXiv 2412.06464, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scan {
    /// What it does with its state.
    pub rule: StateRule,
    /// Heads.
    pub heads: u64,
    /// Width of one head.
    pub head_dim: u64,
    /// Width of the state.
    pub state: u64,
    /// Groups of heads that share B and C.
    pub groups: u64,
    /// Positions of a chunk.
    pub chunk: u64,
}

impl Scan {
    /// Multiply-adds per position where `seen` positions of its chunk lie behind it, itself among them:
    /// scores `C B^T` of each group, their product with `x`, and state in and out of each head:
    /// `G Q N + H Q P + 2 H P N`, G groups, H heads, Q seen positions, P head width, N state.
    ///
    /// With a delta rule keys meet keys of each head, what they replace is made for keys and values, and state is
    /// read once more: `H Q (3 N + 2 P) + 3 H P N`.
    pub fn multiplications(&self, seen: f64) -> f64 {
        let [heads, width, state, groups] =
            [self.heads, self.head_dim, self.state, self.groups].map(|count| count as f64);
        match self.rule {
            StateRule::Decay => {
                groups * seen * state + heads * seen * width + 2.0 * heads * width * state
            }
            StateRule::GatedDelta => {
                heads * seen * (3.0 * state + 2.0 * width) + 3.0 * heads * width * state
            }
        }
    }
}

/// What an operator computes.
#[derive(Debug, Clone, PartialEq)]
pub enum OperatorKind {
    /// Tokens x `contract` times `contract` x `columns`, with a weight (and a bias per column).
    ///
    /// `columns` is a sum: a fused projection lists its parts side by side.
    Matmul {
        /// Dim that is summed over.
        contract: Extent,
        /// Output parts, side by side.
        columns: Vec<Extent>,
        /// Set for routed experts: the weight exists once per expert and each token meets `top_k`.
        experts: Option<Routed>,
        /// True when a bias vector is added.
        bias: bool,
    },
    /// The attention core.
    Attention(Attention),
    /// The scan of a state-space mixer.
    Scan(Scan),
    /// A memory-bound pass over tokens x `width`.
    Elementwise {
        /// Columns per token.
        width: Vec<Extent>,
        /// Bytes-per-element factors: activation-format reads and writes of the forward pass.
        forward_passes: f64,
        /// The same for the backward pass.
        backward_passes: f64,
        /// Kernels over all elements, forward and backward, that take them one by one; their passes come on top.
        strided: [f64; 2],
        /// Trained vectors of this operator (norm gains and biases).
        vectors: Vec<Weight>,
    },
    /// Gathers a row of a table per token.
    Lookup {
        /// The table's row dim.
        rows: Extent,
        /// The table's width.
        width: Extent,
        /// False where the table is another operator's weight (tied embeddings).
        owns_table: bool,
    },
    /// Cross-entropy over the vocabulary, which may stay sharded.
    Loss {
        /// Vocabulary.
        vocab: Extent,
    },
    /// Sends every token to its `top_k` experts, or brings results back.
    Route {
        /// Width of what is sent.
        width: Extent,
        /// Routing.
        routed: Routed,
        /// True on the way back.
        back: bool,
    },
}

/// How tokens meet experts.
#[derive(Debug, Clone, PartialEq)]
pub struct Routed {
    /// Experts in the layer.
    pub experts: u64,
    /// Experts per token.
    pub top_k: u64,
    /// Tokens of the most loaded expert over the mean (1 = balanced), after any capacity limit.
    pub imbalance: f64,
    /// Tokens of each expert over the mean before dropping, after any capacity limit.
    pub loads: Arc<[f64]>,
}

impl Routed {
    /// Tokens of the most loaded rank over the mean, experts lying contiguously on `ranks` ranks.
    ///
    /// `max over r of mean of loads[r*E/R .. (r+1)*E/R]`, E experts, R ranks; ranks beyond the
    /// experts count as one expert each. Without dropped tokens it is 1 for one rank.
    pub fn most_loaded(&self, ranks: u64) -> f64 {
        let experts = self.loads.len();
        let ranks = usize::try_from(ranks)
            .unwrap_or(experts)
            .clamp(1, experts.max(1));
        (0..ranks)
            .map(|r| &self.loads[r * experts / ranks..(r + 1) * experts / ranks])
            .filter(|held| !held.is_empty())
            .map(|held| held.iter().sum::<f64>() / held.len() as f64)
            .fold(0.0, f64::max)
    }
}

/// One operator of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Operator {
    /// Short name, as `qkv`.
    pub name: &'static str,
    /// Line of the breakdown.
    pub class: OperatorClass,
    /// Region whose sharding its input and inner dims have.
    pub region: Region,
    /// What it computes.
    pub kind: OperatorKind,
    /// Index in the block of the operator whose output it reads; `None`: the block's input.
    pub input: Option<usize>,
    /// Positions per sequence where they are not the job's: encoder layers of an encoder-decoder,
    /// and the keys and values of cross-attention.
    pub positions: Option<u64>,
    /// Which recomputation policies repeat it.
    pub recompute: Recompute,
    /// What it keeps for its backward pass.
    pub saved: Vec<Saved>,
    /// False when its weight is frozen: no weight-gradient product.
    pub trained: bool,
}

impl Operator {
    /// The dims of its output beside tokens.
    pub fn output(&self) -> Vec<Extent> {
        match &self.kind {
            OperatorKind::Matmul { columns, .. } => columns.clone(),
            OperatorKind::Attention(a) => {
                vec![Extent::wide(Dim::Heads, a.heads, a.value_dim as f64)]
            }
            OperatorKind::Scan(s) => vec![Extent::wide(Dim::Heads, s.heads, s.head_dim as f64)],
            OperatorKind::Elementwise { width, .. } => width.clone(),
            OperatorKind::Lookup { width, .. } | OperatorKind::Route { width, .. } => vec![*width],
            OperatorKind::Loss { .. } => Vec::new(),
        }
    }

    /// Its weights, biases and tables, one entry per fused part.
    pub fn weights(&self) -> Vec<Weight> {
        match &self.kind {
            OperatorKind::Matmul {
                contract,
                columns,
                experts,
                bias,
            } => {
                let copies = experts
                    .as_ref()
                    .map(|r| Extent::new(Dim::Expert, r.experts));
                let matrices = columns.iter().map(|&c| vec![*contract, c]);
                let biases = columns.iter().filter(|_| *bias).map(|&c| vec![c]);
                matrices
                    .chain(biases)
                    .map(|part| Weight {
                        shape: copies.into_iter().chain(part).collect(),
                        trained: self.trained,
                    })
                    .collect()
            }
            OperatorKind::Elementwise { vectors, .. } => vectors.clone(),
            OperatorKind::Lookup {
                rows,
                width,
                owns_table: true,
            } => vec![Weight {
                shape: vec![*rows, *width],
                trained: self.trained,
            }],
            _ => Vec::new(),
        }
    }
}

impl Attention {
    /// Key positions that a query sees on average, of `keys` in memory.
    ///
    /// Causal: query `i` sees `min(i, w)` of them, so the mean is `(keys + 1) / 2` without a
    /// window and `w - w (w - 1) / (2 keys)` with one.
    pub fn visible(&self, keys: f64) -> f64 {
        let window = self.window.map_or(keys, |w| (w as f64).min(keys));
        self.seen(keys, window)
    }

    /// The same if no window hid any.
    pub fn unhidden(&self, keys: f64) -> f64 {
        self.seen(keys, keys)
    }

    fn seen(&self, keys: f64, window: f64) -> f64 {
        if self.causal {
            window - window * (window - 1.0) / (2.0 * keys)
        } else {
            window
        }
    }
}

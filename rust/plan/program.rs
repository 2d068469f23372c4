//! What one rank runs for one block: kernels and collectives with local shapes, and the bytes it holds.

use super::matrices::Matrices;
use super::mesh::Span;
use crate::collective::{Collective, Crossing};
use crate::operator_cost::Kernel;
use crate::units::{Bytes, Seconds};
use crate::workload::{OperatorClass, Recompute};

/// Why ranks communicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// Partial sums and gathers of tensor and sequence parallelism.
    Tensor,
    /// Keys and values of context parallelism.
    Context,
    /// Tokens of expert parallelism.
    Expert,
}

/// Which half of a chunk comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A chunk of the input is gathered, then multiplied.
    GatherFirst,
    /// A chunk is multiplied, then its sums are reduced.
    ReduceLast,
}

/// One thing that a rank does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Task {
    /// A kernel.
    Compute {
        /// Line of the breakdown.
        class: OperatorClass,
        /// What runs.
        kernel: Kernel,
        /// Which recomputation policies run it again (forward tasks).
        recompute: Recompute,
        /// True where it yields gradients of weights, which nothing before the optimizer reads.
        weight: bool,
    },
    /// A collective.
    Communicate {
        /// Line of the breakdown.
        purpose: Purpose,
        /// Operation.
        collective: Collective,
        /// Who takes part.
        span: Span,
        /// Buffer size as `Collective` defines it.
        bytes: Bytes,
        /// So many of the kernels that follow run meanwhile; what comes behind them waits for both.
        under: u32,
        /// How copies of a token cross the fabric.
        crossing: Crossing,
        /// What a library's kernels take beside the bytes, row by row.
        handling: Seconds,
        /// Which recomputation policies run it again (forward tasks).
        recompute: Recompute,
    },
    /// A matrix product and the collective of its input or output over the tensor ranks, both cut
    /// along the tokens: one's chunks run under the other's.
    Chunked {
        /// Line of the breakdown of the product.
        class: OperatorClass,
        /// The product of one chunk.
        kernel: Kernel,
        /// Operation.
        collective: Collective,
        /// Who takes part.
        span: Span,
        /// Buffer size of one chunk.
        bytes: Bytes,
        /// Chunks.
        chunks: u32,
        /// Which half of a chunk comes first.
        order: Order,
        /// Which recomputation policies run it again.
        recompute: Recompute,
    },
}

impl Task {
    /// Which recomputation policies run it again.
    pub const fn recompute(&self) -> Recompute {
        match self {
            Self::Compute { recompute, .. }
            | Self::Communicate { recompute, .. }
            | Self::Chunked { recompute, .. } => *recompute,
        }
    }

    /// True for a kernel that yields gradients of weights.
    pub const fn yields_weights(&self) -> bool {
        matches!(self, Self::Compute { weight: true, .. })
    }

    /// The kernel of a task that is nothing else.
    pub const fn kernel(&self) -> Option<Kernel> {
        match self {
            Self::Compute { kernel, .. } => Some(*kernel),
            _ => None,
        }
    }
}

/// The kernels that run while the collective at `index` does; none where another task is there.
pub fn cover(tasks: &[Task], index: usize) -> impl Iterator<Item = &Task> {
    let under = match tasks.get(index) {
        Some(Task::Communicate { under, .. }) => *under as usize,
        _ => 0,
    };
    let behind = tasks.get(index + 1..).unwrap_or_default().iter();
    behind.filter(|task| task.kernel().is_some()).take(under)
}

/// Weight elements of a block on one rank.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Weights {
    /// Trained, replicated over context and data ranks.
    pub dense: f64,
    /// Of these, what no recipe multiplies in a narrow format: tables, the head, norms.
    pub wide: f64,
    /// Trained, inside routed experts.
    pub expert: f64,
    /// Not trained.
    pub frozen: f64,
    /// Not trained, inside routed experts.
    pub frozen_expert: f64,
    /// Trained elements of a table that belongs to another block: a stage that holds this block
    /// without that one keeps a copy (tied embeddings in a pipeline).
    pub borrowed: f64,
    /// Elements of the unsharded block.
    pub full: f64,
    /// What the tensor and expert ranks hold together beyond `full`: replicas and padding.
    pub excess: f64,
    /// Elements of the tensors that stand in for gradients (`software.weights.gradient_stand_ins`).
    pub stand_ins: f64,
}

impl Weights {
    /// Elements on the rank.
    pub fn local(&self) -> f64 {
        self.dense + self.expert + self.frozen + self.frozen_expert
    }
}

/// Activation bytes of a block, per micro-batch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Activations {
    /// Kept for the backward pass without recomputation.
    pub kept: Bytes,
    /// Kept with selective recomputation.
    pub kept_selective: Bytes,
    /// The block's input, which full recomputation keeps.
    pub input: Bytes,
    /// What a head makes for the loss; nothing of other blocks.
    pub output: Bytes,
    /// Largest tensor that lives only inside an operator, with its gradient.
    pub transient: Bytes,
    /// Keys and values that later slices of the sequence read, kept even where all else is computed again.
    pub keys: Bytes,
    /// Gradients of the keys and values in front of a slice, which wait for the slices there.
    pub keys_gradient: Bytes,
}

impl Activations {
    /// Adds what another slice of the same sequences keeps.
    pub fn join(&mut self, other: &Self) {
        self.kept += other.kept;
        self.kept_selective += other.kept_selective;
        self.input += other.input;
        self.output += other.output;
        self.keys += other.keys;
        self.transient = self.transient.max(other.transient);
        self.keys_gradient = self.keys_gradient.max(other.keys_gradient);
    }
}

/// What one rank runs for one block.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockProgram {
    /// Forward pass.
    pub forward: Vec<Task>,
    /// Backward pass without recomputation.
    pub backward: Vec<Task>,
    /// What brings the block's input back before all of it is computed again.
    pub restored: Vec<Task>,
    /// Weights held.
    pub weights: Weights,
    /// Activations held.
    pub activations: Activations,
    /// True for a layer that mixes positions and does nothing else.
    pub mixes_alone: bool,
    /// Matrices that the optimizer orthogonalises.
    pub matrices: Vec<Matrices>,
}

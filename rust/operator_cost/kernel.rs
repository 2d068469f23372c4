//! Kernels with local shapes, as one rank runs them, and their price.

use super::pace::Pace;
use super::{attention, matmul, memory, scan};
use crate::hardware::Device;
use crate::units::{Bytes, Dtype, Flops, Seconds};

/// A kernel with the shapes that one rank runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kernel {
    /// `batch` independent products of (`m` x `k`) by (`k` x `n`), operands in `dtype`,
    /// `output_bytes` moved per result element. The right operand comes from main memory.
    Matmul {
        /// Independent products of one launch (1 for a linear layer; experts, heads).
        batch: f64,
        /// Rows.
        m: f64,
        /// Columns.
        n: f64,
        /// Depth.
        k: f64,
        /// Operand format.
        dtype: Dtype,
        /// Bytes moved per result element: written once, or read and written where the product is
        /// added to a sum.
        output_bytes: f64,
        /// True where the left operand lies column by column, as in gradients of weights: its rows,
        /// not the depth, are contiguous.
        transposed: bool,
        /// True where the result is added to a sum: `output_bytes` are those of reading and writing it.
        added: bool,
        /// True where the products are kernels of their own, of which one follows another.
        in_turn: bool,
    },
    /// A fused attention pass.
    Attention {
        /// Sequences times local query heads.
        batch_heads: f64,
        /// Sequences times local key and value heads.
        batch_kv_heads: f64,
        /// Query positions.
        queries: f64,
        /// Key positions that a query sees on average (half of them under a causal mask).
        visible: f64,
        /// Key positions that the last queries see, with which a unit is busy longest.
        longest: f64,
        /// Key positions that a window hides from it, on average, and that it would see without.
        hidden: f64,
        /// Key positions in memory.
        keys: f64,
        /// Width of queries and keys.
        query_dim: f64,
        /// Width of values.
        value_dim: f64,
        /// Format of queries, keys and values.
        dtype: Dtype,
        /// True for the backward pass (five products and a recomputation of the scores).
        backward: bool,
    },
    /// A kernel of a state-space scan.
    Scan {
        /// Arithmetic on the matrix engine.
        flops: Flops,
        /// Bytes read and written.
        bytes: Bytes,
    },
    /// A kernel of a gated delta rule.
    DeltaRule {
        /// Arithmetic on the matrix engine.
        flops: Flops,
        /// Bytes read and written.
        bytes: Bytes,
        /// Chunks that it takes one after another, as state passes through them.
        chain: f64,
        /// Time of one of these over that of one which hands states on.
        hop: f64,
    },
    /// A kernel of a causal convolution along positions, channel by channel.
    Convolution {
        /// Bytes read and written.
        bytes: Bytes,
    },
    /// A selection of a few of each row's scores (`torch.topk`).
    Selection {
        /// Scores of all rows.
        scores: f64,
    },
    /// A pass whose time is its memory traffic.
    Memory {
        /// Bytes read and written.
        bytes: Bytes,
        /// Kernel launches.
        launches: f64,
    },
    /// Passes of which some run as kernels that take their elements one by one: an operand of theirs is part of a
    /// wider tensor or is repeated along a dim.
    Strided {
        /// Bytes read and written by the other kernels.
        bytes: Bytes,
        /// Kernel launches.
        launches: f64,
        /// Elements that those kernels write.
        elements: f64,
        /// Bytes that they read and write.
        strided: Bytes,
    },
    /// A cast that writes a tensor along its rows and along its columns (`Device::cast_share`).
    Cast {
        /// Bytes read and written.
        bytes: Bytes,
        /// Kernel launches.
        launches: f64,
    },
}

/// The price of a kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KernelCost {
    /// Time on the device, launch included.
    pub time: Seconds,
    /// Arithmetic on the matrix engine.
    pub flops: Flops,
    /// Traffic to main memory.
    pub traffic: Bytes,
}

impl KernelCost {
    /// The price of as many such kernels in a row.
    fn times(self, turns: f64) -> Self {
        Self {
            time: self.time * turns,
            flops: self.flops * turns,
            traffic: self.traffic * turns,
        }
    }
}

impl Kernel {
    /// Prices the kernel on `device`, timed alone.
    pub fn cost(&self, device: &Device) -> KernelCost {
        self.cost_at(Pace::ALONE, device)
    }

    /// Prices the kernel on `device` while its matrix engines run at `pace`.
    pub fn cost_at(&self, pace: Pace, device: &Device) -> KernelCost {
        match *self {
            Self::Matmul {
                batch,
                m,
                n,
                k,
                dtype,
                output_bytes,
                transposed,
                added,
                in_turn,
            } => {
                let (turns, together) = if in_turn { (batch, 1.0) } else { (1.0, batch) };
                let product = matmul::Product {
                    batch: together,
                    m,
                    n,
                    k,
                    dtype,
                    weights: dtype,
                    output_bytes,
                    transposed,
                    added,
                    copies: matmul::ALL_LAYERS,
                    beside: Bytes::ZERO,
                };
                matmul::cost(product, device, pace).times(turns)
            }
            Self::Attention {
                batch_heads,
                batch_kv_heads,
                queries,
                visible,
                longest,
                hidden,
                keys,
                query_dim,
                value_dim,
                dtype,
                backward,
            } => {
                let pass = attention::Pass {
                    batch_heads,
                    batch_kv_heads,
                    queries,
                    visible,
                    hidden,
                    keys,
                    block: attention::QUERY_BLOCK,
                    longest,
                    query_dim,
                    value_dim,
                    dtype: device.attention_format(dtype),
                    backward,
                };
                attention::cost(&pass, device, pace)
            }
            _ => self.without_engine(pace, device),
        }
    }

    /// Prices a kernel that traffic or multiprocessors bound.
    fn without_engine(&self, pace: Pace, device: &Device) -> KernelCost {
        match *self {
            Self::Matmul { .. } | Self::Attention { .. } => KernelCost::default(),
            Self::Scan { flops, bytes } => scan::cost((flops, bytes), device, pace),
            Self::DeltaRule {
                flops,
                bytes,
                chain,
                hop,
            } => scan::delta_rule((flops, bytes), chain * hop, device, pace),
            Self::Convolution { bytes } => scan::convolution(bytes, device, pace),
            Self::Selection { scores } => scan::selection(scores, device, pace),
            Self::Memory { bytes, launches } => memory::cost(bytes, launches, device),
            Self::Strided {
                bytes,
                launches,
                elements,
                strided,
            } => {
                let passes = memory::cost(bytes, launches, device);
                let one_by_one = scan::strided((elements, strided), device, pace);
                KernelCost {
                    time: passes.time + one_by_one.time,
                    traffic: passes.traffic + one_by_one.traffic,
                    ..passes
                }
            }
            Self::Cast { bytes, launches } => memory::cast_cost(bytes, launches, device),
        }
    }
}

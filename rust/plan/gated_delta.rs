//! The kernels of a gated delta rule on one rank.
//!
//! Kernels, their order and their traffic are those of flash-linear-attention 0.5 (`chunk_gated_delta_rule`, files
//! `chunk.py`, `wy_fast.py`, `chunk_delta_h.py` and `chunk_o.py`), which Megatron-Core's `GatedDeltaNet` and
//! Hugging Face's models call: the chunks of Yang et al. 2024, arXiv 2412.06464, section 3.3.

use super::kernels::memory;
use super::lower::Lowering;
use super::scan::LocalScan;
use crate::defaults::delta_rule::BACK;
use crate::operator_cost::Kernel;
use crate::units::{Bytes, Dtype, Flops};
use crate::workload::{Operator, Scan};

/// Part of the scores among keys of a chunk that are multiplied: blocks of 16 positions on and below the diagonal of
/// four by four.
const TRIANGLE: f64 = 10.0 / 16.0;
/// Multiply-adds for each of those scores when the triangle is inverted, by blocks of 16.
const INVERSE: f64 = 16.0;
/// Passes over numbers of heads in fp32 that make decay and strength, forward and backward.
const GATES: [f64; 2] = [10.0, 14.0];

/// What one rank moves for a position.
struct LocalDelta {
    /// Queries or keys of all heads, each with its own copy.
    keys: f64,
    /// Values.
    values: f64,
    /// One number a head.
    heads: f64,
    /// Positions of a chunk for each head.
    chunk: f64,
    /// States of a chunk over its positions.
    passed: f64,
    /// Multiply-adds of a position's chunk with keys, with values and with itself, and of a state.
    with: [f64; 4],
    /// Chunks of a sequence.
    chain: f64,
}

/// What one kernel moves for a position, in numbers.
#[derive(Clone, Copy, Default)]
struct KernelTraffic {
    /// In the activation format.
    narrow: f64,
    /// In fp32.
    wide: f64,
    /// Multiply-adds.
    products: f64,
    /// Chunks in turn.
    chain: f64,
    /// Time of one of these over that of one which hands states on.
    hop: f64,
}

impl KernelTraffic {
    fn kernel(&self, local: &LocalScan) -> Kernel {
        let bytes = self.narrow * local.format.bytes() + self.wide * Dtype::Fp32.bytes();
        Kernel::DeltaRule {
            flops: Flops::new(2.0 * local.tokens * self.products),
            bytes: Bytes::new(local.tokens * bytes),
            chain: self.chain,
            hop: self.hop,
        }
    }
}

impl LocalDelta {
    fn new(scan: &Scan, local: &LocalScan, positions: f64) -> Self {
        let [state, width] = [scan.state, scan.head_dim].map(|size| size as f64);
        let chunk = (scan.chunk as f64).min(positions);
        let heads = local.heads;
        Self {
            keys: heads * state,
            values: heads * width,
            heads,
            chunk: heads * chunk,
            passed: local.passed,
            with: [state, width, chunk, state * width / chunk].map(|size| heads * chunk * size),
            chain: (positions / chunk).ceil(),
        }
    }

    /// What replaces keys and values: reads both and the triangle, writes both.
    fn replaced(&self) -> KernelTraffic {
        KernelTraffic {
            narrow: 2.0 * self.keys + 2.0 * self.values + self.chunk,
            wide: 2.0 * self.heads,
            products: self.with[0] + self.with[1],
            ..KernelTraffic::default()
        }
    }

    /// States from chunk to chunk, and values less what the state had under their keys.
    fn states(&self) -> KernelTraffic {
        KernelTraffic {
            narrow: 2.0 * self.keys + 2.0 * self.values + self.passed,
            wide: self.heads,
            products: 2.0 * self.with[3],
            chain: self.chain,
            hop: 1.0,
        }
    }

    /// Decays summed along each chunk; scores among keys and the inverse of their triangle; what replaces keys and
    /// values; states; output.
    fn forward(&self) -> [KernelTraffic; 5] {
        let [with_keys, with_values, _, with_state] = self.with;
        [
            KernelTraffic {
                wide: 2.0 * self.heads,
                ..KernelTraffic::default()
            },
            KernelTraffic {
                narrow: self.keys + self.chunk,
                wide: 2.0 * self.heads,
                products: TRIANGLE * with_keys + INVERSE * self.chunk,
                ..KernelTraffic::default()
            },
            self.replaced(),
            self.states(),
            KernelTraffic {
                narrow: 2.0 * self.keys + 2.0 * self.values + self.passed,
                wide: self.heads,
                products: with_state + with_values + with_keys,
                ..KernelTraffic::default()
            },
        ]
    }

    /// What replaces keys and values, and states, again; gradients of values within chunks; of states, handed back;
    /// of queries, keys and what replaces them; of what went into that; sums of the two of keys; of decays.
    fn backward(&self) -> [KernelTraffic; 8] {
        let [with_keys, with_values, with_chunk, with_state] = self.with;
        let plain = |narrow: f64, wide: f64, products: f64| KernelTraffic {
            narrow,
            wide: wide * self.heads,
            products,
            ..KernelTraffic::default()
        };
        let (keys, values) = (self.keys, self.values);
        let handed = plain(
            3.0 * keys + 3.0 * values + self.passed,
            1.0,
            3.0 * with_state,
        );
        [
            self.replaced(),
            self.states(),
            plain(2.0 * keys + 2.0 * values, 1.0, with_keys + with_values),
            KernelTraffic {
                chain: self.chain,
                hop: BACK,
                ..handed
            },
            plain(
                5.0 * keys + 3.0 * values + 2.0 * self.passed,
                2.0,
                3.0 * with_state + 3.0 * with_keys + with_values,
            ),
            plain(
                3.0 * keys + 3.0 * values + self.chunk,
                4.0,
                5.0 * with_keys + 2.0 * with_values + 2.0 * with_chunk,
            ),
            plain(3.0 * keys, 3.0, 0.0),
            plain(0.0, 2.0, 0.0),
        ]
    }
}

impl Lowering<'_> {
    /// Adds the kernels of a gated delta rule, with what brings queries and keys to length one and to every head.
    pub(super) fn delta_rule(
        &mut self,
        operator: &Operator,
        scan: &Scan,
        local: &LocalScan,
        forward: bool,
    ) {
        let positions = operator.positions.unwrap_or(self.training.sequence) as f64;
        let delta = LocalDelta::new(scan, local, positions);
        let moved: &[KernelTraffic] = if forward {
            &delta.forward()
        } else {
            &delta.backward()
        };
        let mut kernels: Vec<Kernel> = moved.iter().map(|each| each.kernel(local)).collect();
        // reads and writes of norms, and of copies or of their sums; element-wise work counts as one kernel here as elsewhere
        let passes = if forward { 2.0 } else { 3.0 };
        let mut columns = passes * 2.0 * local.state;
        if delta.keys > local.state {
            columns += 2.0 * (local.state + delta.keys);
        }
        kernels.push(memory(local.tokens * columns * local.format.bytes(), 1.0));
        let gates = GATES[usize::from(!forward)] * local.heads * Dtype::Fp32.bytes();
        kernels.push(memory(local.tokens * gates, 1.0));
        for kernel in kernels {
            self.compute(forward, operator, kernel);
        }
    }
}

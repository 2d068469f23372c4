//! The kernels of a state-space scan on one rank, and what context ranks exchange around it.
//!
//! Kernels and their traffic are those of mamba-ssm, which Megatron-Core's `MambaMixer` calls
//! (`mamba_split_conv1d_scan_combined` of `mamba_ssm/ops/triton/ssd_combined.py`): the algorithm of Dao and Gu
//! 2024, arXiv 2405.21060, section 6, a kernel a step.

use super::kernels::memory;
use super::lower::Lowering;
use super::program::Purpose;
use crate::collective::Collective;
use crate::operator_cost::Kernel;
use crate::units::{Bytes, Dtype, Flops};
use crate::workload::transformer::StateRule;
use crate::workload::{Dim, Extent, Operator, Scan};

/// Passes over what enters a scan, and over what leaves it, that context ranks make around their exchange:
/// cut and put side by side before it, joined after it, and put in or out of the order in which attention
/// balances causal masks (Megatron-Core, `MambaContextParallel`).
const AROUND: [f64; 2] = [6.0, 4.0];
/// Passes over the numbers of heads, fp32, that the gradients of steps and decays take beside the kernels.
const STEPS: f64 = 10.0;
/// Kernels of those.
const STEP_KERNELS: f64 = 5.0;

/// Numbers that one rank moves for a position, by tensor, and products over its columns.
pub(super) struct LocalScan {
    /// Positions times sequences.
    pub(super) tokens: f64,
    /// Input, gate or output.
    inner: f64,
    /// One of B and C.
    pub(super) state: f64,
    /// One number a head.
    pub(super) heads: f64,
    /// Numbers of all heads that are projected.
    numbers: f64,
    /// States of a chunk over its positions.
    pub(super) passed: f64,
    /// Scores of a position: its chunk in every group.
    scores: f64,
    /// Multiply-adds of scores, of their product with the input, and of states with input or output.
    products: [f64; 3],
    /// The activation format.
    pub(super) format: Dtype,
}

/// What one kernel moves per position, in numbers.
#[derive(Clone, Copy, Default)]
struct KernelTraffic {
    /// In the activation format.
    narrow: f64,
    /// In fp32.
    wide: f64,
    /// Multiply-adds.
    products: f64,
}

impl LocalScan {
    /// Columns that a mixer's projection makes.
    fn entering(&self) -> f64 {
        2.0 * self.inner + 2.0 * self.state + self.numbers
    }

    fn kernel(&self, moved: KernelTraffic) -> Kernel {
        let bytes = moved.narrow * self.format.bytes() + moved.wide * Dtype::Fp32.bytes();
        Kernel::Scan {
            flops: Flops::new(2.0 * self.tokens * moved.products),
            bytes: Bytes::new(self.tokens * bytes),
        }
    }

    /// Steps summed along each chunk; states of chunks; states passed on in `passed` numbers of which those
    /// written are narrow or wide; scores.
    fn states(&self, narrow: bool) -> [KernelTraffic; 4] {
        let written = self.passed;
        let (out_narrow, out_wide) = if narrow {
            (written, 0.0)
        } else {
            (0.0, written)
        };
        [
            KernelTraffic {
                narrow: self.heads,
                wide: 2.0 * self.heads,
                products: 0.0,
            },
            KernelTraffic {
                narrow: self.inner + self.state,
                wide: 2.0 * self.heads + self.passed,
                products: self.products[2],
            },
            KernelTraffic {
                narrow: out_narrow,
                wide: self.passed + out_wide,
                products: 0.0,
            },
            KernelTraffic {
                narrow: 2.0 * self.state,
                wide: self.scores,
                products: self.products[0],
            },
        ]
    }

    /// Output of each position: reads input, gate, C, scores and states, writes it with and without its gate.
    fn output(&self) -> KernelTraffic {
        KernelTraffic {
            narrow: 4.0 * self.inner + self.state + self.passed,
            wide: 2.0 * self.heads + self.scores,
            products: self.products[1] + self.products[2],
        }
    }

    /// Gradients: of the gate and of the output without it; of states, and passed back; of the input; of B and C
    /// out of states; of scores; of B and C out of those; of decays.
    fn gradients(&self) -> [KernelTraffic; 9] {
        let (inner, state, heads) = (self.inner, self.state, self.heads);
        let [of_scores, through_scores, through_states] = self.products;
        let from_states = KernelTraffic {
            narrow: inner + state + self.passed,
            wide: 3.0 * heads + state,
            products: through_states,
        };
        let from_scores = KernelTraffic {
            narrow: 2.0 * state,
            wide: self.scores + state,
            products: of_scores,
        };
        [
            KernelTraffic {
                narrow: 6.0 * inner,
                ..KernelTraffic::default()
            },
            KernelTraffic {
                narrow: inner + state,
                wide: heads + self.passed,
                products: through_states,
            },
            KernelTraffic {
                narrow: 2.0 * self.passed,
                wide: 2.0 * self.passed,
                products: 0.0,
            },
            KernelTraffic {
                narrow: 3.0 * inner + state + self.passed,
                wide: 3.0 * heads + self.scores,
                products: through_scores + through_states,
            },
            from_states,
            from_states,
            KernelTraffic {
                narrow: 2.0 * inner,
                wide: 2.0 * heads + self.scores,
                products: through_scores,
            },
            KernelTraffic {
                narrow: 2.0 * from_scores.narrow,
                wide: 2.0 * from_scores.wide,
                products: 2.0 * from_scores.products,
            },
            KernelTraffic {
                narrow: 2.0 * inner,
                wide: 3.0 * heads + self.scores,
                products: through_scores,
            },
        ]
    }
}

impl Lowering<'_> {
    /// Adds the kernels of a scan.
    ///
    /// The backward pass keeps no state: it sums steps, makes states and scores again.
    pub(super) fn scan(&mut self, operator: &Operator, scan: &Scan, forward: bool) {
        let local = self.local_scan(operator, scan);
        self.exchange_heads(operator, &local, forward, forward);
        self.in_order(operator, &local, forward);
        if scan.rule == StateRule::GatedDelta {
            self.delta_rule(operator, scan, &local, forward);
            self.exchange_heads(operator, &local, forward, !forward);
            return;
        }
        let kernel = |moved: &KernelTraffic| local.kernel(*moved);
        let mut kernels: Vec<Kernel> = local.states(forward).iter().map(kernel).collect();
        if forward {
            kernels.push(kernel(&local.output()));
        } else {
            kernels.extend(local.gradients().iter().map(kernel));
            let bytes = local.tokens * STEPS * local.heads * Dtype::Fp32.bytes();
            kernels.push(memory(bytes, STEP_KERNELS));
        }
        for kernel in kernels {
            self.compute(forward, operator, kernel);
        }
        self.exchange_heads(operator, &local, forward, !forward);
    }

    /// What one rank works on. Context ranks exchange positions for heads, which leaves the work of a rank as it
    /// is, unless they are more than the groups: then each takes one.
    fn local_scan(&self, operator: &Operator, scan: &Scan) -> LocalScan {
        let cut = |dim, size| {
            self.sharding
                .local(operator.region, &Extent::new(dim, size))
        };
        let heads = cut(Dim::Heads, scan.heads);
        let groups = cut(Dim::Groups, scan.groups).max(f64::from(self.mesh.context.size));
        let [width, state] = [scan.head_dim, scan.state].map(|size| size as f64);
        let positions = operator.positions.unwrap_or(self.training.sequence);
        let chunk = scan.chunk.min(positions) as f64;
        let states = heads * width * state;
        LocalScan {
            tokens: self.tokens_of(operator),
            inner: heads * width,
            state: groups * state,
            heads,
            numbers: heads * scan.rule.numbers() as f64,
            passed: states / chunk,
            scores: groups * chunk,
            products: [groups * chunk * state, heads * chunk * width, states],
            format: self.activation,
        }
    }

    /// Puts what enters and leaves a scan in order of sequences, where there are several: projections have them
    /// side by side at each position (Megatron-Core, `MambaMixer`).
    fn in_order(&mut self, operator: &Operator, local: &LocalScan, forward: bool) {
        if self.batch < 2.0 {
            return;
        }
        let entering = local.entering();
        let leaving = if forward { local.inner } else { 0.0 };
        let launches = if forward { 2.0 } else { 1.0 };
        let bytes = 2.0 * local.tokens * (entering + leaving) * local.format.bytes();
        self.compute(forward, operator, memory(bytes, launches));
    }

    /// Context ranks exchange positions for heads before the convolution and back behind the scan (Megatron-Core,
    /// `MambaContextParallel`); the backward pass mirrors it.
    fn exchange_heads(
        &mut self,
        operator: &Operator,
        local: &LocalScan,
        forward: bool,
        enters: bool,
    ) {
        if self.mesh.context.size < 2 {
            return;
        }
        let (columns, passes) = if enters {
            (local.entering(), AROUND[0])
        } else {
            (local.inner, AROUND[1])
        };
        let bytes = local.tokens * columns * local.format.bytes();
        let wire = self.wire(Purpose::Context, Collective::AllToAll, bytes, 0);
        self.communicate(forward, operator, wire);
        self.compute(forward, operator, memory(passes * bytes, passes / 2.0));
    }
}

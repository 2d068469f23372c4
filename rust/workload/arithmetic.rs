//! How much matrix arithmetic one sequence takes in the forward pass, whatever the plan.

use super::graph::{BlockRole, Graph};
use super::operator::{Operator, OperatorKind};
use crate::units::Flops;

/// Forward matrix arithmetic of one sequence.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Arithmetic {
    /// Weight products of the layers.
    pub layers: Flops,
    /// Scores and context of the layers, and their scans.
    pub attention: Flops,
    /// The part of both that selective recomputation repeats.
    pub selective: Flops,
    /// The part of both that full recomputation repeats.
    pub full: Flops,
    /// Vocabulary projection.
    pub head: Flops,
    /// What a backward pass of twice the forward pass counts and frozen weights do not need: their gradients, and
    /// all of blocks below the first trained weight.
    pub frozen: Flops,
}

impl Arithmetic {
    /// All of it.
    pub fn total(&self) -> Flops {
        self.layers + self.attention + self.head
    }
}

impl Graph {
    /// Sums `2 x rows x columns x depth` over all products; a causal mask does not halve the
    /// scores (the convention of Korthikanti et al. 2022, appendix A), a window cuts them.
    pub fn arithmetic(&self, sequence: u64) -> Arithmetic {
        self.arithmetic_of(self.order.iter().copied(), sequence)
    }

    /// The same of some blocks.
    pub fn arithmetic_of(
        &self,
        blocks: impl IntoIterator<Item = usize>,
        sequence: u64,
    ) -> Arithmetic {
        let mut sum = Arithmetic::default();
        for index in blocks {
            let block = &self.blocks[index];
            for operator in &block.operators {
                let (flops, attention) = forward(operator, sequence);
                let slot = match (block.role, attention) {
                    (BlockRole::Layer, true) => &mut sum.attention,
                    (BlockRole::Layer, false) => &mut sum.layers,
                    _ => &mut sum.head,
                };
                *slot += flops;
                if !block.backward {
                    sum.frozen += flops * 2.0;
                    continue; // nothing to compute again for
                }
                if !operator.trained && !attention {
                    sum.frozen += flops;
                }
                if operator.recompute.by_selective() {
                    sum.selective += flops;
                }
                if block.role == BlockRole::Layer && operator.recompute.by_full() {
                    sum.full += flops;
                }
            }
        }
        sum
    }
}

/// Arithmetic of one operator, and whether it mixes positions.
fn forward(operator: &Operator, sequence: u64) -> (Flops, bool) {
    let positions = operator.positions.unwrap_or(sequence) as f64;
    match &operator.kind {
        OperatorKind::Matmul {
            contract,
            columns,
            experts,
            ..
        } => {
            let columns: f64 = columns.iter().map(super::dim::Extent::columns).sum();
            let copies = experts.as_ref().map_or(1.0, |r| r.top_k as f64);
            (
                Flops::new(2.0 * positions * copies * columns * contract.columns()),
                false,
            )
        }
        OperatorKind::Attention(core) => {
            let keys = core.memory_sequence.map_or(positions, |s| s as f64);
            let seen = core.window.map_or(keys, |w| (w as f64).min(keys));
            let width = (core.query_dim + core.value_dim) as f64;
            (
                Flops::new(2.0 * positions * seen * core.heads as f64 * width),
                true,
            )
        }
        OperatorKind::Scan(scan) => {
            let seen = (scan.chunk as f64).min(positions);
            (
                Flops::new(2.0 * positions * scan.multiplications(seen)),
                true,
            )
        }
        _ => (Flops::ZERO, false),
    }
}

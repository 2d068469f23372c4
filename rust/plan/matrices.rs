//! Which matrices of a block does Muon orthogonalise, and by which products?

use super::lower::Lowering;
use crate::operator_cost::Kernel;
use crate::units::Dtype;
use crate::workload::{BlockRole, Dim, Extent, Operator, OperatorKind, Optimizer, Region};

/// Iterations of Newton and Schulz (Jordan 2024; default of Megatron-Core, `muon_num_ns_steps`).
pub const ITERATIONS: f64 = 5.0;

/// Matrices of one shape on a rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Matrices {
    /// The shorter side.
    pub rows: f64,
    /// The longer one.
    pub columns: f64,
    /// How many of them.
    pub count: f64,
    /// True inside routed experts.
    pub expert: bool,
}

impl Matrices {
    /// Elements of one.
    pub fn elements(&self) -> f64 {
        self.rows * self.columns
    }

    /// The products of one iteration on one matrix `X` of m rows and n columns, m <= n, in bf16:
    ///
    /// ```text
    /// A = X X'          2 m m n
    /// B = b A + c A A   2 m m m
    /// X = a X + B X     2 m m n
    /// ```
    ///
    /// Jordan 2024, "Muon: an optimizer for hidden layers in neural networks"; the sums are read and
    /// written by the products' kernels (`newton_schulz_step` of NVIDIA's Emerging-Optimizers).
    pub fn iteration(&self) -> [Kernel; 3] {
        let element = Dtype::Bf16.bytes();
        let product = |n: f64, k: f64, added: bool| Kernel::Matmul {
            batch: 1.0,
            m: self.rows,
            n,
            k,
            dtype: Dtype::Bf16,
            output_bytes: if added { 2.0 * element } else { element },
            transposed: false,
            added,
            in_turn: false,
        };
        [
            product(self.rows, self.columns, false),
            product(self.rows, self.rows, true),
            product(self.columns, self.rows, true),
        ]
    }
}

impl Lowering<'_> {
    /// The matrices that the rank holds between embedding and head, where the optimizer is Muon: as a rank
    /// holds them, so that tensor ranks orthogonalise blocks of them (`muon_tp_mode = blockwise`, the default
    /// of Megatron-Core). Queries, keys and values are matrices of their own (`muon_split_qkv`).
    pub(super) fn matrices(&self) -> Vec<Matrices> {
        let mut found = Vec::new();
        if self.training.optimizer == Optimizer::Muon && self.block.role == BlockRole::Layer {
            for operator in self.block.operators.iter().filter(|o| o.trained) {
                self.add_matrices(operator, &mut found);
            }
        }
        found
    }

    fn add_matrices(&self, operator: &Operator, found: &mut Vec<Matrices>) {
        let OperatorKind::Matmul {
            contract,
            columns,
            experts,
            ..
        } = &operator.kind
        else {
            return;
        };
        let count = experts
            .as_ref()
            .map_or(1.0, |routed| self.local_experts(operator, routed));
        let depth = self.sharding.local_of(operator, contract);
        let heads = |part: &Extent| matches!(part.dim, Dim::Heads | Dim::KvHeads);
        let parts: Vec<&[Extent]> = if columns.iter().all(heads) {
            columns.chunks(1).collect()
        } else {
            vec![columns]
        };
        for part in parts {
            let width = self.sharding.local_sum(operator, part);
            if width.min(depth) > 0.0 {
                found.push(Matrices {
                    rows: width.min(depth),
                    columns: width.max(depth),
                    count,
                    expert: operator.region == Region::Experts,
                });
            }
        }
    }
}

//! Which weights a rank holds, and how many replicas and padding entries the split makes.

use super::lower::Lowering;
use super::program::Weights;
use crate::workload::{Extent, Operator, OperatorClass, OperatorKind, Region, Weight};

impl Lowering<'_> {
    /// Adds the weights of one operator.
    pub(super) fn add_weights(&self, operator: &Operator, sum: &mut Weights) {
        let region = operator.region;
        match &operator.kind {
            OperatorKind::Matmul {
                contract,
                columns,
                experts,
                bias,
            } => {
                let copies = experts.as_ref().map_or((1.0, 1.0), |r| {
                    (self.local_experts(operator, r), r.experts as f64)
                });
                let full_columns: f64 = columns.iter().map(Extent::columns).sum();
                let local_columns = self.sharding.local_sum(operator, columns);
                let bias = f64::from(u8::from(*bias));
                let local =
                    copies.0 * local_columns * (self.sharding.local_of(operator, contract) + bias);
                let full = copies.1 * full_columns * (contract.columns() + bias);
                self.add(operator, operator.trained, (local, full), sum);
            }
            OperatorKind::Elementwise { vectors, .. } => {
                for vector in vectors {
                    let local = self.sharding.local_product(region, &vector.shape);
                    self.add(
                        operator,
                        vector.trained,
                        (local, Weight::elements(vector)),
                        sum,
                    );
                }
            }
            OperatorKind::Lookup {
                rows,
                width,
                owns_table,
            } => {
                let local = self.sharding.local_product(region, &[*rows, *width]);
                if *owns_table {
                    let full = rows.columns() * width.columns();
                    self.add(operator, operator.trained, (local, full), sum);
                } else if operator.trained && !self.owns_table_of(rows) {
                    sum.borrowed = sum.borrowed.max(local);
                }
            }
            _ => {}
        }
    }

    /// Elements of the tensors that stand in for gradients which products add up themselves: one for each shape
    /// of a weight, the router's left out, whose product adds nothing up.
    pub(super) fn gradient_placeholders(&self) -> f64 {
        let training = self.training;
        let software = &training.software;
        let fused = training.fuses_gradients() && !software.weights.plain_gradients;
        if !(fused && software.weights.gradient_stand_ins) || training.forward_only {
            return 0.0;
        }
        let mut shapes: Vec<[f64; 2]> = Vec::new();
        for operator in self.block.operators.iter().filter(|o| o.trained) {
            if let OperatorKind::Matmul {
                contract, columns, ..
            } = &operator.kind
                && operator.class != OperatorClass::Routing
            {
                let rows = self.sharding.local_sum(operator, columns);
                let shape = [rows, self.sharding.local_of(operator, contract)];
                if !shapes.contains(&shape) {
                    shapes.push(shape);
                }
            }
        }
        shapes.iter().map(|[rows, columns]| rows * columns).sum()
    }

    /// True where another look-up of the block holds the table.
    fn owns_table_of(&self, table: &Extent) -> bool {
        self.block.operators.iter().any(|o| {
            matches!(&o.kind, OperatorKind::Lookup { rows, owns_table: true, .. } if rows == table)
        })
    }

    fn add(&self, operator: &Operator, trained: bool, elements: (f64, f64), sum: &mut Weights) {
        let (local, full) = elements;
        let expert = operator.region == Region::Experts;
        match (trained, expert) {
            (false, true) => sum.frozen_expert += local,
            (false, false) => sum.frozen += local,
            (true, true) => sum.expert += local,
            (true, false) => {
                sum.dense += local;
                let product = matches!(operator.kind, OperatorKind::Matmul { .. });
                if !product || operator.class.stays_wide() {
                    sum.wide += local;
                }
            }
        }
        let ranks = if expert {
            self.expert_ranks_held()
        } else {
            f64::from(self.mesh.tensor.size)
        };
        sum.full += full;
        sum.excess += local * ranks - full;
    }
}

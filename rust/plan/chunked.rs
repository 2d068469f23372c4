//! Which forward products and tensor-parallel collectives are cut into chunks that run side by side?
//!
//! A gather before a product and a reduction behind one depend on it chunk by chunk of the tokens:
//! the product of one chunk runs while the next chunk is gathered, or the last one reduced (Wang et
//! al. 2023, ASPLOS, section 4; Chang et al. 2024, FLUX, section 3). As in Transformer Engine, whose
//! user buffers serve the four products `qkv`, `proj`, `fc1` and `fc2`, only dense products of
//! attention and feed-forward are cut; routed experts and the vocabulary are not.

use super::lower::{Lowering, PendingCollective};
use super::program::{Order, Task};
use crate::operator_cost::Kernel;
use crate::units::Bytes;
use crate::workload::{Operator, OperatorKind, Region};

impl Lowering<'_> {
    /// Adds a product together with the gather of its input; false where they are not cut.
    pub(super) fn gather_by_chunks(
        &mut self,
        operator: &Operator,
        wire: &PendingCollective,
    ) -> bool {
        if !self.is_cut(operator) {
            return false;
        }
        let Some(kernel) = self.forward_product(operator) else {
            return false;
        };
        self.cast_operands(operator);
        let task = self.chunked(operator, kernel, wire, Order::GatherFirst);
        self.forward.push(task);
        true
    }

    /// Joins the last kernel, where it is the `producer`'s product, with the reduction of its
    /// output; false where they are not cut.
    pub(super) fn reduce_by_chunks(
        &mut self,
        producer: &Operator,
        wire: &PendingCollective,
    ) -> bool {
        let product = self.forward_product(producer);
        let last = self.forward.last().and_then(Task::kernel);
        let (true, Some(kernel)) = (self.is_cut(producer), product) else {
            return false;
        };
        if last != Some(kernel) {
            return false;
        }
        self.forward.pop();
        let task = self.chunked(producer, kernel, wire, Order::ReduceLast);
        self.forward.push(task);
        true
    }

    fn is_cut(&self, operator: &Operator) -> bool {
        let dense = matches!(&operator.kind, OperatorKind::Matmul { experts: None, .. });
        let region = matches!(operator.region, Region::Attention | Region::Mlp);
        let cut = self.tensor_chunks > 1 && self.mesh.tensor.size > 1;
        cut && dense && region && !self.hides_route(operator)
    }

    fn chunked(
        &self,
        operator: &Operator,
        kernel: Kernel,
        wire: &PendingCollective,
        order: Order,
    ) -> Task {
        let count = f64::from(self.tensor_chunks);
        let mut kernel = kernel;
        if let Kernel::Matmul { m, .. } = &mut kernel {
            *m /= count;
        }
        Task::Chunked {
            class: operator.class,
            kernel,
            collective: wire.collective,
            span: self.mesh.tensor,
            bytes: Bytes::new(wire.bytes / count),
            chunks: self.tensor_chunks,
            order,
            recompute: operator.recompute,
        }
    }
}

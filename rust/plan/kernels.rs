//! The kernels that an operator becomes on one rank, forward and backward.

use super::lower::{Lowering, PendingCollective};
use super::program::Purpose;
use super::sharding::Layout;
use crate::collective::{Collective, Crossing};
use crate::operator_cost::Kernel;
use crate::units::{Bytes, Dtype, Seconds};
use crate::workload::{Extent, Operator, OperatorClass, OperatorKind, Recompute, Region, Routed};

/// Row statistics that tensor ranks add up in fp32: maximum, target logit, sum of exponentials.
const LOSS_STATISTICS: f64 = 3.0;

/// Local shape of a matrix product with a weight.
#[derive(Clone, Copy)]
struct LocalProduct {
    batch: f64,
    rows: f64,
    /// Rows of tiles that are computed beside its own.
    masked: f64,
    depth: f64,
    columns: f64,
    bias: bool,
    in_turn: bool,
}

impl Lowering<'_> {
    /// Adds the forward kernels of an operator and the collectives inside it.
    pub(super) fn forward_kernels(&mut self, operator: &Operator) {
        match &operator.kind {
            OperatorKind::Matmul { .. } => self.forward_matmul(operator),
            OperatorKind::Attention(core) => self.attention(operator, core, true),
            OperatorKind::Scan(scan) => self.scan(operator, scan, true),
            OperatorKind::Elementwise {
                width,
                forward_passes,
                strided,
                ..
            } => {
                let kernel = self.passes(operator, width, (*forward_passes, strided[0]));
                self.compute(true, operator, kernel);
                self.sum_statistics(operator, true);
            }
            OperatorKind::Lookup { rows, width, .. } if self.picked_by_product(operator) => {
                let [tokens, rows, width] = self.picking(operator, [rows, width]);
                let kernel = self.matrix(self.wide, [1.0, tokens, width, rows]);
                self.compute(true, operator, kernel);
            }
            OperatorKind::Lookup { width, .. } => {
                let bytes = 2.0 * self.pass_bytes(operator, std::slice::from_ref(width));
                self.compute(true, operator, memory(bytes, 1.0));
            }
            OperatorKind::Loss { vocab } => {
                let logits = self.tokens(operator) * self.sharding.local(operator.region, vocab);
                self.compute(
                    true,
                    operator,
                    memory(logits * self.training.software.vocabulary.loss[0], 6.0),
                );
                let bytes = self.tokens(operator) * LOSS_STATISTICS * Dtype::Fp32.bytes();
                let wire = self.wire(Purpose::Tensor, Collective::AllReduce, bytes, 0);
                self.communicate(true, operator, wire);
            }
            OperatorKind::Route { width, routed, .. } => self.route(operator, width, routed, true),
        }
    }

    /// Adds the backward kernels of the operators that hold no matrix.
    pub(super) fn backward_kernels(&mut self, operator: &Operator) {
        match &operator.kind {
            OperatorKind::Matmul { .. } => self.accumulate(operator),
            OperatorKind::Attention(core) => self.attention(operator, core, false),
            OperatorKind::Scan(scan) => self.scan(operator, scan, false),
            OperatorKind::Elementwise {
                width,
                backward_passes,
                strided,
                ..
            } => {
                let kernel = self.passes(operator, width, (*backward_passes, strided[1]));
                self.compute(false, operator, kernel);
                self.sum_statistics(operator, false);
            }
            OperatorKind::Lookup { rows, width, .. } if self.picked_by_product(operator) => {
                let [tokens, rows, width] = self.picking(operator, [rows, width]);
                let kernel = self.matrix(self.wide, [1.0, rows, width, tokens]);
                self.compute(false, operator, kernel);
            }
            OperatorKind::Lookup { width, .. } => {
                // read the gradient, read and write the rows that it is added to
                let width = std::slice::from_ref(width);
                let gradient = self.training.gradient.bytes() / self.activation.bytes();
                let bytes = self.pass_bytes(operator, width) * (1.0 + 2.0 * gradient);
                self.compute(false, operator, memory(bytes, 1.0));
            }
            OperatorKind::Loss { vocab } => {
                let logits = self.tokens(operator) * self.sharding.local(operator.region, vocab);
                self.compute(
                    false,
                    operator,
                    memory(logits * self.training.software.vocabulary.loss[1], 2.0),
                );
            }
            OperatorKind::Route { width, routed, .. } => self.route(operator, width, routed, false),
        }
    }

    /// True for a table of tokens from which the program picks rows by a product with one-hot rows.
    fn picked_by_product(&self, operator: &Operator) -> bool {
        self.training.software.vocabulary.embedding_product && operator.region == Region::Vocabulary
    }

    /// Tokens, rows of the local table and their width.
    fn picking(&self, operator: &Operator, [rows, width]: [&Extent; 2]) -> [f64; 3] {
        [
            self.tokens(operator),
            self.sharding.local(operator.region, rows),
            self.sharding.local(operator.region, width),
        ]
    }

    /// Input-gradient and weight-gradient products of a matrix operator.
    pub(super) fn gradient_kernels(&self, operator: &Operator) -> (Option<Kernel>, Option<Kernel>) {
        let Some(p) = self.product(operator) else {
            return (None, None);
        };
        let dtype = self.format(operator);
        let rows = p.rows + p.masked;
        let input = self.of_product(&p, dtype, [rows, p.depth, p.columns]);
        let training = self.training;
        let added = training.fuses_gradients() && !training.software.weights.plain_gradients;
        let weight = Kernel::Matmul {
            batch: p.batch,
            m: p.depth,
            n: p.columns,
            k: rows,
            dtype,
            output_bytes: if added {
                2.0 * training.gradient.bytes() // the product reads and writes the sum
            } else {
                self.activation.bytes()
            },
            transposed: true,
            added,
            in_turn: p.in_turn,
        };
        (Some(input), operator.trained.then_some(weight))
    }

    pub(super) fn matrix(&self, dtype: Dtype, [batch, m, n, k]: [f64; 4]) -> Kernel {
        Kernel::Matmul {
            batch,
            m,
            n,
            k,
            dtype,
            output_bytes: self.activation.bytes(),
            transposed: false,
            added: false,
            in_turn: false,
        }
    }

    /// A product of such sides for each of those of an operator.
    fn of_product(&self, product: &LocalProduct, format: Dtype, [m, n, k]: [f64; 3]) -> Kernel {
        Kernel::Matmul {
            batch: product.batch,
            m,
            n,
            k,
            dtype: format,
            output_bytes: self.activation.bytes(),
            transposed: false,
            added: false,
            in_turn: product.in_turn,
        }
    }

    fn product(&self, operator: &Operator) -> Option<LocalProduct> {
        let OperatorKind::Matmul {
            contract,
            columns,
            experts,
            bias,
        } = &operator.kind
        else {
            return None;
        };
        let depth = self.sharding.local_of(operator, contract);
        let columns = self.sharding.local_sum(operator, columns);
        Some(match experts {
            Some(routed) => {
                let batch = self.local_experts(operator, routed);
                let rows = self.routed_tokens(operator, routed) / batch;
                let tile = self.training.software.experts.shared_tile_rows;
                LocalProduct {
                    batch,
                    rows,
                    // of experts in a row each but the first begins in another's tile
                    masked: tile.min(batch * rows) * (batch - 1.0) / batch,
                    depth,
                    columns,
                    bias: *bias,
                    in_turn: self.training.software.experts.experts_in_turn,
                }
            }
            None => LocalProduct {
                batch: 1.0,
                rows: self.tokens_of(operator),
                masked: 0.0,
                depth,
                columns,
                bias: *bias,
                in_turn: false,
            },
        })
    }

    pub(super) fn local_experts(&self, operator: &Operator, routed: &Routed) -> f64 {
        let extent = Extent::new(crate::workload::Dim::Expert, routed.experts);
        self.sharding.local(operator.region, &extent)
    }

    fn forward_matmul(&mut self, operator: &Operator) {
        self.cast_operands(operator);
        if let Some(kernel) = self.forward_product(operator) {
            self.compute(true, operator, kernel);
        }
        self.bias_pass(operator, true);
    }

    /// Adds the pass over a product's output in which its bias is added, where the product does not.
    fn bias_pass(&mut self, operator: &Operator, forward: bool) {
        let passes = self.training.software.layer.bias[usize::from(!forward)];
        let biased = self.product(operator).filter(|p| p.bias && passes > 0.0);
        if let Some(p) = biased {
            let rows = self.biased_rows(operator, p.rows);
            let bytes = p.batch * rows * p.columns * self.activation.bytes();
            self.compute(forward, operator, memory(bytes * passes, 1.0));
        }
    }

    /// Of so many rows of a product, those to which a rank adds its bias: behind a sum over tensor ranks the part
    /// that is left to it.
    fn biased_rows(&self, operator: &Operator, rows: f64) -> f64 {
        let (_, output) = self.layouts(operator);
        if output[0] == Layout::Partial {
            rows / self.parts([self.residual()[0], Layout::Replicated])
        } else {
            rows
        }
    }

    /// The forward product of a matrix operator.
    pub(super) fn forward_product(&self, operator: &Operator) -> Option<Kernel> {
        let p = self.product(operator)?;
        let rows = p.rows + p.masked;
        Some(self.of_product(&p, self.format(operator), [rows, p.columns, p.depth]))
    }

    /// Casts what a forward product reads.
    pub(super) fn cast_operands(&mut self, operator: &Operator) {
        if let Some(p) = self.product(operator) {
            let (tokens, weights) = (p.batch * p.rows * p.depth, p.batch * p.depth * p.columns);
            self.quantize(true, operator, tokens, weights);
        }
    }

    /// Casts operands that are kept in a wider format than the product reads.
    ///
    /// Activations and gradients are read wide and written narrow, twice where a weight gradient sums over
    /// tokens: the engine wants its operands, or their block scales, along the dim that is summed. A scale
    /// of a whole tensor (fp8; nvfp4 has one beside those of blocks) takes a reading of its own, unless it is
    /// that of an earlier step (`delayed_scaling`). Sources:
    /// Transformer Engine, `current_scaling`, `mxfp8` and `nvfp4` quantizers; NVIDIA 2026 (Megatron-Core for
    /// mixtures, arXiv 2603.07685), section 7. Weights are read wide and written narrow.
    fn quantize(&mut self, forward: bool, operator: &Operator, tokens: f64, weights: f64) {
        let format = self.format(operator);
        let (wide, narrow) = (self.activation.bytes(), format.bytes());
        if narrow >= wide {
            return;
        }
        let trains = operator.trained && !self.training.forward_only;
        let scaled = self.reads_for_scale(format);
        let cast = tokens * self.cast_bytes(format, trains);
        let kernels = self.cast_kernels(operator, scaled);
        let software = &self.training.software;
        // weights that are not trained are held narrow (`memory::frozen_bytes`)
        let held = software.weights.casts_weights_once
            || !(operator.trained || software.weights.recasts_weights);
        let (weights, launches) = if held {
            (0.0, kernels)
        } else {
            (weights * (wide + narrow), kernels + 1.0)
        };
        let bytes = Bytes::new(cast + weights);
        let kernel = if trains {
            Kernel::Cast { bytes, launches }
        } else {
            Kernel::Memory { bytes, launches }
        };
        self.compute(forward, operator, kernel);
    }

    /// True where a tensor is read once more to find the scale of a cast.
    pub(super) fn reads_for_scale(&self, format: Dtype) -> bool {
        matches!(format, Dtype::Fp8 | Dtype::Nvfp4)
            && !self.training.software.weights.delayed_scaling
    }

    /// Bytes that casting an element to `format` moves; twice written where it is read along two dims.
    pub(super) fn cast_bytes(&self, format: Dtype, twice: bool) -> f64 {
        let readings = if self.reads_for_scale(format) {
            2.0
        } else {
            1.0
        };
        let layouts = if twice { 2.0 } else { 1.0 };
        readings * self.activation.bytes() + layouts * format.bytes()
    }

    /// Kernels that cast an operand: one that reads a tensor for its scale, if so, and one that casts; for
    /// each expert where the software loops over them (Transformer Engine, `multi_tensor_quantize_impl` of
    /// `csrc/extensions/cast.cpp`: delayed scaling alone has a fused kernel), which then counts the kernel
    /// that makes the scale of the maximum, too.
    fn cast_kernels(&self, operator: &Operator, scaled: bool) -> f64 {
        let one = if scaled { 2.0 } else { 1.0 };
        let experts = self.product(operator).map_or(1.0, |p| p.batch);
        if experts > 1.0 && self.training.software.experts.casts_each_expert {
            return experts * if scaled { one + 1.0 } else { one };
        }
        one
    }

    /// Adds a micro-batch's weight gradient to the sum where the product does not do so itself:
    /// a pass reads the gradient and reads and writes the sum.
    fn accumulate(&mut self, operator: &Operator) {
        let Some(p) = self.product(operator) else {
            return;
        };
        self.quantize(false, operator, p.batch * p.rows * p.columns, 0.0);
        self.bias_pass(operator, false);
        if operator.trained && p.bias {
            // a bias gradient sums the output gradient over tokens
            let rows = self.biased_rows(operator, p.rows);
            let bytes = p.batch * rows * p.columns * self.activation.bytes();
            self.compute_weight(operator, memory(bytes, 1.0));
        }
        if operator.trained && !self.training.fuses_gradients() {
            let element = self.activation.bytes()
                + 2.0 * self.training.gradient.bytes()
                + self.training.software.weights.accumulation;
            let bytes = p.batch * p.depth * p.columns * element;
            self.compute_weight(operator, memory(bytes, 1.0));
        }
    }

    /// Bytes of one pass over an operator's width in the activation format.
    fn pass_bytes(&self, operator: &Operator, width: &[Extent]) -> f64 {
        let columns = self.sharding.local_sum(operator, width);
        let tokens = self.tokens_of(operator) * self.load_factor(operator.region);
        tokens * columns * self.activation.bytes()
    }

    /// What so many passes over columns and kernels that take elements one by one become: passes of a
    /// state-space mixer are its convolution.
    fn passes(&self, operator: &Operator, width: &[Extent], (some, alone): (f64, f64)) -> Kernel {
        let pass = self.pass_bytes(operator, width);
        if operator.class == OperatorClass::StateSpace {
            let bytes = Bytes::new(pass * some);
            return Kernel::Convolution { bytes };
        }
        let launches = if pass * (some + alone) > 0.0 {
            1.0
        } else {
            0.0
        };
        if alone <= 0.0 {
            return memory(pass * some, launches);
        }
        Kernel::Strided {
            bytes: Bytes::new(pass * some),
            launches,
            elements: pass / self.activation.bytes() * alone,
            strided: Bytes::new(pass * alone * 2.0), // read and written
        }
    }

    /// A collective of all ranks of a purpose.
    pub(super) fn wire(
        &self,
        purpose: Purpose,
        collective: Collective,
        bytes: f64,
        under: u32,
    ) -> PendingCollective {
        let span = match purpose {
            Purpose::Tensor => self.mesh.tensor,
            Purpose::Context => self.mesh.context,
            Purpose::Expert => self.mesh.expert,
        };
        PendingCollective {
            purpose,
            collective,
            span,
            bytes,
            under,
            crossing: Crossing::Each,
            handling: Seconds::ZERO,
        }
    }

    /// Runs an up-projection of latent attention once more, for the backward pass of the attention core.
    pub(super) fn repeat_latent(&mut self, operator: &Operator) {
        if !self.training.software.recompute.repeats_latent
            || !matches!(operator.name, "query_up" | "kv_up")
        {
            return;
        }
        if let Some(p) = self.product(operator) {
            self.quantize(false, operator, p.batch * p.rows * p.depth, 0.0);
        }
        if let Some(kernel) = self.forward_product(operator) {
            self.compute(false, operator, kernel);
        }
    }
}

pub(super) fn memory(bytes: f64, launches: f64) -> Kernel {
    Kernel::Memory {
        bytes: Bytes::new(bytes),
        launches,
    }
}

/// The core's recomputation tag, used by the pricing of selective recomputation.
pub fn repeats(policy: super::choice::RecomputePolicy, tag: Recompute) -> bool {
    use super::choice::RecomputePolicy::{Full, None, Selective};
    match policy {
        None => false,
        Selective => tag.by_selective(),
        Full => tag.by_full(),
    }
}

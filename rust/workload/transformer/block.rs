//! How operators of one block are laid down in order, with what each keeps for its backward pass.

use super::config::{Lora, Norm, Transformer};
use crate::workload::{
    Block, BlockRole, Dim, Extent, Operator, OperatorClass, OperatorKind, Recompute, Region,
    Routed, Saved, SavedAs, Training, Weight,
};

/// A part of a fused projection: its columns, and the name by which adapters target it.
pub(super) type Part = (Extent, &'static str);

/// A matrix product to be laid down.
pub(super) struct Projection {
    /// Operator name.
    pub(super) name: &'static str,
    /// Line of the breakdown.
    pub(super) class: OperatorClass,
    /// Where its inner dims are sharded.
    pub(super) region: Region,
    /// What it reads.
    pub(super) input: Option<usize>,
    /// Dim that is summed over.
    pub(super) contract: Extent,
    /// Output parts.
    pub(super) parts: Vec<Part>,
    /// Set for routed experts.
    pub(super) experts: Option<Routed>,
    /// True with a bias.
    pub(super) bias: bool,
}

/// Lays down the operators of one block.
pub(super) struct BlockBuilder<'a> {
    pub(super) model: &'a Transformer,
    pub(super) training: &'a Training,
    /// Positions per sequence of the next operators where they are not the job's.
    pub(super) positions: Option<u64>,
    /// True where the block's own weights are trained.
    pub(super) trained: bool,
    backward: bool,
    operators: Vec<Operator>,
    kept_inputs: Vec<Option<usize>>,
}

impl<'a> BlockBuilder<'a> {
    /// An empty block. `frozen` blocks lie below all trained weights.
    pub(super) fn new(model: &'a Transformer, training: &'a Training, frozen: bool) -> Self {
        let backward = !training.forward_only && !frozen;
        Self {
            model,
            training,
            positions: None,
            trained: backward && model.lora.is_none(),
            backward,
            operators: Vec::new(),
            kept_inputs: Vec::new(),
        }
    }

    /// The finished block.
    pub(super) fn finish(mut self, name: impl Into<String>, role: BlockRole) -> Block {
        if self.training.software.recompute.stops_early && role == BlockRole::Layer {
            self.spare_the_end();
        }
        if self.training.software.recompute.selective_alternate && role == BlockRole::Layer {
            self.keep_every_second();
        }
        Block {
            name: name.into(),
            role,
            operators: self.operators,
            backward: self.backward,
        }
    }

    /// Leaves out of recomputation what comes after the last kept tensor. An operator that keeps its
    /// input has done so before its kernel runs, so it is spared too; one that keeps what it makes
    /// (masks, statistics) is not.
    fn spare_the_end(&mut self) {
        let makes = |saved: &Saved| matches!(saved.stored, SavedAs::Byte | SavedAs::Fp32);
        let keeps = |operator: &Operator| !operator.saved.is_empty();
        let Some(last) = self.operators.iter().rposition(keeps) else {
            return;
        };
        let runs = self.operators[last].saved.iter().any(makes);
        for operator in &mut self.operators[last + usize::from(runs)..] {
            operator.recompute = operator.recompute.unread();
        }
    }

    /// Selective recomputation keeps the outputs of fused attention and of every second dense product,
    /// from the first on.
    fn keep_every_second(&mut self) {
        let mut products = 0;
        for operator in &mut self.operators {
            let kept = match &operator.kind {
                OperatorKind::Matmul { experts: None, .. } => {
                    products += 1;
                    products % 2 == 1
                }
                OperatorKind::Attention(core) => core.flash,
                _ => false,
            };
            operator.recompute = if kept {
                operator.recompute.output()
            } else {
                operator.recompute.selective()
            };
        }
    }

    /// Operators so far.
    pub(super) fn operator_count(&self) -> usize {
        self.operators.len()
    }

    /// The residual stream's width.
    pub(super) fn hidden(&self) -> Extent {
        Extent::new(Dim::Hidden, self.model.hidden)
    }

    /// Adds an operator; what it saves is dropped where no gradient passes.
    pub(super) fn push(
        &mut self,
        name: &'static str,
        class: OperatorClass,
        region: Region,
        input: Option<usize>,
        kind: OperatorKind,
    ) -> usize {
        self.operators.push(Operator {
            name,
            class,
            region,
            kind,
            input,
            positions: self.positions,
            recompute: Recompute::Full,
            saved: Vec::new(),
            trained: self.trained,
        });
        self.operators.len() - 1
    }

    /// Notes a tensor that operator `index` keeps.
    pub(super) fn save(&mut self, index: usize, extent: Extent, region: Region, stored: SavedAs) {
        if self.backward {
            self.operators[index].saved.push(Saved {
                shape: vec![extent],
                region,
                stored,
                repeated: false,
            });
        }
    }

    /// Marks operator `index` as the core that selective recomputation repeats.
    pub(super) fn recompute_selectively(&mut self, index: usize) {
        self.operators[index].recompute = Recompute::Selective;
    }

    /// Marks operator `index`, which lies between products, as one that selective recomputation repeats
    /// from what they made, where the program keeps that alone.
    pub(super) fn repeat_between_products(&mut self, index: usize) {
        if self.training.software.recompute.keeps_products {
            self.operators[index].recompute = Recompute::Repeated;
        }
    }

    /// True where selective recomputation makes what operator `input` makes again.
    fn recomputed_input(&self, input: Option<usize>) -> bool {
        let software = &self.training.software;
        software.recompute.keeps_products
            && input.is_some_and(|input| {
                let operator = &self.operators[input];
                // a plain activation that kept nothing stands for the product before it
                operator.recompute.by_selective() && !operator.saved.is_empty()
            })
    }

    /// Marks operator `index`, whose output only sums read, as one that no recomputation needs, where
    /// the program sees that; after it a norm would read the sum.
    pub(super) fn unread(&mut self, index: usize) {
        if self.training.software.recompute.repeat_unread || self.model.post_norms {
            return;
        }
        let operator = &mut self.operators[index];
        operator.recompute = operator.recompute.unread();
    }

    /// A trained vector per entry of `extent`.
    pub(super) fn vector(&self, extent: Extent) -> Weight {
        Weight {
            shape: vec![extent],
            trained: self.trained,
        }
    }

    /// A matrix product with its adapters. Keeps its input once per tensor, and only where a
    /// weight gradient needs it. Parts become products of their own where the program does so.
    pub(super) fn matmul(&mut self, projection: &Projection) -> usize {
        if self.training.software.layer.products_apart && projection.parts.len() > 1 {
            let alone = |&part: &Part| Projection {
                parts: vec![part],
                experts: projection.experts.clone(),
                ..*projection
            };
            let products: Vec<Projection> = projection.parts.iter().map(alone).collect();
            return products.iter().fold(0, |_, product| self.matmul(product));
        }
        self.fused(projection)
    }

    /// The same where all programs fuse the parts.
    pub(super) fn fused(&mut self, projection: &Projection) -> usize {
        let columns = merged(projection.parts.iter().map(|p| p.0));
        let index = self.product(projection, projection.contract, columns, projection.input);
        if self.trained {
            self.keep_input(index, projection);
        }
        let model = self.model;
        if let Some(lora) = &model.lora {
            self.adapters(lora, projection);
        }
        index
    }

    fn product(
        &mut self,
        projection: &Projection,
        contract: Extent,
        columns: Vec<Extent>,
        input: Option<usize>,
    ) -> usize {
        self.push(
            projection.name,
            projection.class,
            projection.region,
            input,
            OperatorKind::Matmul {
                contract,
                columns,
                experts: projection.experts.clone(),
                bias: projection.bias,
            },
        )
    }

    /// Low-rank adapters of the targeted parts (Hu et al. 2021, eq. 3): `x A B` beside `x W`.
    fn adapters(&mut self, lora: &Lora, projection: &Projection) {
        let targeted: Vec<Extent> = projection
            .parts
            .iter()
            .filter(|(_, target)| lora.targets.iter().any(|t| t == target))
            .map(|p| p.0)
            .collect();
        if targeted.is_empty() {
            return;
        }
        let base_trained = std::mem::replace(&mut self.trained, self.backward);
        let width = Extent::wide(Dim::Rank, lora.rank, targeted.len() as f64);
        let adapter = |name| Projection {
            name,
            class: projection.class,
            region: projection.region,
            input: projection.input,
            contract: projection.contract,
            parts: Vec::new(),
            experts: projection.experts.clone(),
            bias: false,
        };
        let down = adapter("lora_down");
        let a = self.product(&down, down.contract, vec![width], down.input);
        self.keep_input(a, &down);
        let up = adapter("lora_up");
        let rank = Extent::new(Dim::Rank, lora.rank);
        let b = self.product(&up, rank, merged(targeted.into_iter()), Some(a));
        let copies = projection.experts.as_ref().map_or(1.0, |r| r.top_k as f64);
        let kept = Extent::wide(Dim::Rank, lora.rank, width.times * copies);
        self.save(b, kept, projection.region, SavedAs::Activation);
        self.trained = base_trained;
    }

    /// Keeps the input of a product, unless another operator keeps the same tensor.
    fn keep_input(&mut self, index: usize, projection: &Projection) {
        let routed = projection.experts.as_ref();
        if self.kept_inputs.contains(&projection.input) {
            return;
        }
        self.kept_inputs.push(projection.input);
        let c = projection.contract;
        let copies = routed.map_or(1.0, |r| r.top_k as f64);
        let from_stream = routed.is_none() && matches!(c.dim, Dim::Hidden | Dim::Rank);
        let region = if from_stream {
            Region::Residual
        } else {
            projection.region
        };
        let kept = Extent::wide(c.dim, c.size, c.times * copies);
        self.save(index, kept, region, SavedAs::Operand);
        let repeated = self.recomputed_input(projection.input);
        if let Some(saved) = self.operators[index].saved.last_mut() {
            saved.repeated = repeated;
        }
    }

    /// Leaves the block's input to be kept elsewhere: all decoder layers read one encoder output.
    pub(super) fn share_block_input(&mut self) {
        self.kept_inputs.push(None);
    }

    /// A norm over `width` that keeps its input, or as much as the software's profile says (`norm_kept`).
    /// Its statistics (two numbers per token) are left out, as in Korthikanti et al. 2022, section 4.1.
    pub(super) fn norm(
        &mut self,
        name: &'static str,
        region: Region,
        input: Option<usize>,
        width: Extent,
    ) -> usize {
        // only the residual stream's norm may have a bias; norms of ranks and heads are RMSNorms
        let count = match (self.model.norm, width.dim) {
            (Norm::Layernorm, Dim::Hidden) => 2,
            _ => 1,
        };
        let [forward_passes, backward_passes] = self.training.software.layer.norm;
        let kind = OperatorKind::Elementwise {
            width: vec![width],
            forward_passes,
            backward_passes,
            strided: [0.0; 2],
            vectors: vec![self.vector(width); count],
        };
        let index = self.push(name, OperatorClass::Normalization, region, input, kind);
        let kept = width.times_wide(self.training.software.recompute.norm_kept);
        self.save(index, kept, region, SavedAs::Activation);
        self.repeat_between_products(index);
        index
    }

    /// Adds the outputs of `branches` parts to the residual stream, after bias and dropout; they
    /// are summed before they are reduced, so `input` is the last of them.
    pub(super) fn add(&mut self, input: usize, branches: f64) -> usize {
        let hidden = self.hidden();
        let mask = if self.training.dropout { 0.5 } else { 0.0 };
        let [more_forward, more_backward] = self.training.software.layer.addition;
        // dropout backward reads gradient and mask and writes: 2.5
        let dropped = if self.training.dropout { 2.5 } else { 0.0 };
        let kind = OperatorKind::Elementwise {
            width: vec![hidden],
            // reads each branch and the stream, writes the stream, and the one-byte mask
            forward_passes: branches + 2.0 + mask + more_forward,
            // the stream's gradient and the branch's meet: two reads, one write
            backward_passes: 3.0 + dropped + more_backward,
            strided: self.training.software.layer.addition_strided,
            vectors: Vec::new(),
        };
        let class = OperatorClass::Elementwise;
        let index = self.push("add", class, Region::Residual, Some(input), kind);
        if self.training.dropout {
            self.save(index, hidden, Region::Residual, SavedAs::Byte);
        }
        index
    }
}

/// Parts on one dim lie side by side as one extent.
fn merged(parts: impl Iterator<Item = Extent>) -> Vec<Extent> {
    let mut columns: Vec<Extent> = Vec::new();
    for part in parts {
        match columns.last_mut() {
            Some(last) if last.dim == part.dim && last.size == part.size => {
                last.times += part.times;
            }
            _ => columns.push(part),
        }
    }
    columns
}

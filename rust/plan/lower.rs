//! Lowers a block under a plan: named dims become local shapes, layout changes become collectives.

use super::choice::Plan;
use super::edges::{LayoutChange, Layouts};
use super::mesh::{Mesh, Span};
use super::program::{Activations, BlockProgram, Purpose, Task, Weights};
use super::sharding::{Layout, Sharding, Side, gradients, transition};
use super::shared_experts::SharedExperts;
use crate::collective::{Collective, Crossing};
use crate::operator_cost::Kernel;
use crate::units::{Bytes, Dtype, Seconds};
use crate::workload::{
    Block, BlockRole, Graph, Operator, OperatorClass, OperatorKind, Region, Routed, SavedAs,
    Training,
};

/// Lowers every operator of a graph's block to what the fullest rank runs for one micro-batch.
pub fn lower(graph: &Graph, block: usize, training: &Training, plan: &Plan) -> BlockProgram {
    Lowering::new(&graph.blocks[block], training, plan).run(graph)
}

/// Lowers a block for a slice of each sequence of a micro-batch: `training.sequence` tokens, whose
/// attention also reads the keys of the tokens of the slices in front (Li et al. 2021, section 3.2) and
/// whose keys the tokens of those behind read; `beside`: tokens in front and behind.
pub fn lower_slice(
    graph: &Graph,
    block: usize,
    training: &Training,
    plan: &Plan,
    beside: [u64; 2],
) -> BlockProgram {
    let mut lowering = Lowering::new(&graph.blocks[block], training, plan);
    lowering.before = beside[0] as f64;
    lowering.read_later = beside[1] > 0;
    lowering.run(graph)
}

/// State of one lowering. The per-kind parts are in the sibling files `kernels` and `held_weights`.
pub(super) struct Lowering<'a> {
    pub(super) block: &'a Block,
    pub(super) training: &'a Training,
    pub(super) sharding: Sharding,
    pub(super) mesh: Mesh,
    /// Sequences of a micro-batch.
    pub(super) batch: f64,
    /// Tokens of the same sequences in front, whose keys are at hand.
    pub(super) before: f64,
    /// True where slices behind read this one's keys.
    pub(super) read_later: bool,
    /// Columns of the block's input.
    input_width: f64,
    pub(super) activation: Dtype,
    /// See `Precision::wide`.
    pub(super) wide: Dtype,
    pub(super) matmul: Dtype,
    overlap_tensor: bool,
    pub(super) tensor_chunks: u32,
    expert_ranks: u32,
    expert_tensor: u32,
    /// Tokens that reach the rank whose experts have most, over the mean.
    crowding: f64,
    /// Shared experts whose kernels hide the routes of the others.
    shared: Option<SharedExperts>,
    pub(super) forward: Vec<Task>,
    backward: Vec<Task>,
    gathered: Vec<(Option<usize>, Layouts)>,
}

impl<'a> Lowering<'a> {
    fn new(block: &'a Block, training: &'a Training, plan: &Plan) -> Self {
        let batch = f64::from(plan.micro_batch);
        Self {
            block,
            training,
            sharding: Sharding::new(plan),
            mesh: Mesh::new(plan),
            batch,
            before: 0.0,
            read_later: false,
            input_width: 0.0,
            activation: training.precision.activation(),
            wide: training.precision.wide(),
            matmul: training.precision.matmul(),
            overlap_tensor: plan.overlap_tensor,
            tensor_chunks: plan.tensor_chunks,
            expert_ranks: plan.expert,
            crowding: crowding(block, plan.expert),
            expert_tensor: plan.expert_tensor_ranks(),
            shared: SharedExperts::find(block).filter(|_| plan.overlap_expert && plan.expert > 1),
            forward: Vec::new(),
            backward: Vec::new(),
            gathered: Vec::new(),
        }
    }

    fn run(mut self, graph: &Graph) -> BlockProgram {
        if self.block.role != BlockRole::Embedding {
            self.input_width = graph.hidden as f64;
        }
        for index in 0..self.block.operators.len() {
            self.operator(index, true);
        }
        if self.block.backward {
            for index in (0..self.block.operators.len()).rev() {
                self.operator(index, false);
            }
        }
        let (weights, activations) = (self.weights(), self.activations());
        let matrices = self.matrices();
        let restored = self.restored();
        BlockProgram {
            forward: self.forward,
            backward: self.backward,
            restored,
            weights,
            activations,
            mixes_alone: self.block.mixes_alone(),
            matrices,
        }
    }

    /// Positions of an operator's sequences on one context rank.
    pub(super) fn positions(&self, operator: &Operator) -> f64 {
        let sequence = operator.positions.unwrap_or(self.training.sequence);
        sequence.div_ceil(u64::from(self.mesh.context.size)) as f64
    }

    /// Format in which an operator's product reads its operands.
    pub(super) fn format(&self, operator: &Operator) -> Dtype {
        if operator.class.stays_wide() {
            self.wide
        } else {
            self.matmul
        }
    }

    /// Tokens of a micro-batch on one context rank.
    pub(super) fn tokens(&self, operator: &Operator) -> f64 {
        self.batch * self.positions(operator)
    }

    /// Tokens that an operator works on, routed copies not counted.
    pub(super) fn tokens_of(&self, operator: &Operator) -> f64 {
        self.tokens(operator) / f64::from(self.sharding.token_degree(operator))
    }

    /// How many times the mean of its tokens an operator works on, on the most loaded rank: one of routed experts
    /// has those that reach them.
    pub(super) fn load_factor(&self, region: Region) -> f64 {
        if region == Region::Experts {
            self.crowding
        } else {
            1.0
        }
    }

    /// Tokens over all local experts, on the most loaded rank.
    pub(super) fn routed_tokens(&self, operator: &Operator, routed: &Routed) -> f64 {
        self.tokens_of(operator)
            * routed.top_k as f64
            * routed.most_loaded(u64::from(self.expert_ranks))
    }

    pub(super) fn compute(&mut self, forward: bool, operator: &Operator, kernel: Kernel) {
        let task = Task::Compute {
            class: operator.class,
            kernel,
            recompute: operator.recompute,
            weight: false,
        };
        self.tasks_of_pass(forward).push(task);
    }

    /// Adds a kernel that yields gradients of weights.
    pub(super) fn compute_weight(&mut self, operator: &Operator, kernel: Kernel) {
        self.backward.push(Task::Compute {
            class: operator.class,
            kernel,
            recompute: operator.recompute,
            weight: true,
        });
    }

    pub(super) fn communicate(
        &mut self,
        forward: bool,
        operator: &Operator,
        wire: PendingCollective,
    ) {
        if wire.span.size < 2 || wire.bytes <= 0.0 {
            return;
        }
        let task = Task::Communicate {
            purpose: wire.purpose,
            collective: wire.collective,
            span: wire.span,
            bytes: Bytes::new(wire.bytes),
            under: wire.under,
            crossing: wire.crossing,
            handling: wire.handling,
            recompute: operator.recompute,
        };
        self.tasks_of_pass(forward).push(task);
    }

    /// The tasks of a pass.
    pub(super) fn tasks_of_pass(&mut self, forward: bool) -> &mut Vec<Task> {
        if forward {
            &mut self.forward
        } else {
            &mut self.backward
        }
    }

    /// Lays down an operator, unless it was laid down beside another.
    fn operator(&mut self, index: usize, forward: bool) {
        let shared = self.shared.as_ref();
        if shared.is_some_and(|shared| shared.holds(index)) {
            return;
        }
        match shared.and_then(|shared| shared.beside(index)) {
            Some(beside) => self.route_beside(index, beside, forward),
            None if forward => self.forward(index),
            None => self.backward(index),
        }
    }

    /// True where an operator's kernels hide a route, and so none of its own collectives.
    pub(super) fn hides_route(&self, operator: &Operator) -> bool {
        let shared = self.shared.as_ref();
        let index = self
            .block
            .operators
            .iter()
            .position(|o| std::ptr::eq(o, operator));
        shared
            .zip(index)
            .is_some_and(|(shared, index)| shared.holds(index))
    }

    pub(super) fn forward(&mut self, index: usize) {
        let block = self.block;
        let operator = &block.operators[index];
        let (wanted, _) = self.layouts(operator);
        let wires = self.convert_layout(operator, (self.producer_layouts(operator), wanted), 0);
        let wires = self.gathered_narrow(operator, wires);
        if !wires.is_empty() && !self.gathered.contains(&(operator.input, wanted)) {
            self.gathered.push((operator.input, wanted));
            for wire in wires {
                let gathers = wire.collective == Collective::AllGather;
                if gathers && self.gather_by_chunks(operator, &wire) {
                    return;
                }
                let producer = operator.input.map(|input| &block.operators[input]);
                if !producer.is_some_and(|producer| self.reduce_by_chunks(producer, &wire)) {
                    self.exchange(true, operator, wire);
                }
            }
        }
        self.forward_kernels(operator);
    }

    pub(super) fn backward(&mut self, index: usize) {
        let block = self.block;
        let operator = &block.operators[index];
        let (wanted, output) = self.layouts(operator);
        let produced = self.producer_layouts(operator);
        self.repeat_latent(operator);
        let (input_gradient, weight_gradient) = self.gradient_kernels(operator);
        if weight_gradient.is_some() {
            let under = u32::from(self.overlap_tensor && input_gradient.is_some());
            // what experts are given is gathered by the dispatch, and kept so
            // (`MoEAlltoAllTokenDispatcher` of Megatron-Core)
            let whole = operator.region == Region::Experts;
            let again = if whole || self.training.software.tensor.keeps_gathered_inputs {
                (wanted, wanted)
            } else {
                gathered_again(produced, wanted)
            };
            let wires = self.convert_layout(operator, again, under);
            for wire in self.gathered_narrow(operator, wires) {
                self.communicate(false, operator, wire);
            }
        }
        if let Some(kernel) = input_gradient {
            self.compute(false, operator, kernel);
        }
        if self.first_consumer(index, wanted)
            && !matches!(operator.kind, OperatorKind::Lookup { .. })
        {
            let under = u32::from(self.overlap_tensor && weight_gradient.is_some());
            let sides = [0, 1].map(|at| gradients(produced[at], wanted[at], output[at]));
            let way = (sides.map(|side| side.0), sides.map(|side| side.1));
            let waits = self.training.software.tensor.reductions_wait;
            for mut wire in self.convert_layout(operator, way, under) {
                if waits && wire.collective != Collective::AllGather {
                    wire.under = 0;
                }
                self.exchange(false, operator, wire);
            }
        }
        if let Some(kernel) = weight_gradient {
            self.compute_weight(operator, kernel);
        }
        self.backward_kernels(operator);
    }

    /// How the input of `operator` lies when its producer leaves it.
    fn producer_layouts(&self, operator: &Operator) -> Layouts {
        operator.input.map_or(self.residual(), |p| {
            self.layouts(&self.block.operators[p]).1
        })
    }

    /// Gradients of several consumers of one tensor are added before they travel: the first
    /// consumer, which the backward pass reaches last, sends the sum.
    fn first_consumer(&self, index: usize, wanted: Layouts) -> bool {
        let operators = &self.block.operators;
        !operators[..index]
            .iter()
            .any(|o| o.input == operators[index].input && self.layouts(o).0 == wanted)
    }

    /// Ranks that together hold every expert of a layer once.
    pub(super) fn expert_ranks_held(&self) -> f64 {
        f64::from(self.expert_ranks) * f64::from(self.expert_tensor)
    }

    pub(super) fn copies(&self, routed: &Routed) -> f64 {
        routed.top_k as f64 * routed.most_loaded(u64::from(self.expert_ranks))
    }

    fn weights(&self) -> Weights {
        let mut sum = Weights::default();
        for operator in &self.block.operators {
            self.add_weights(operator, &mut sum);
        }
        sum.stand_ins = self.gradient_placeholders();
        sum
    }

    fn activations(&self) -> Activations {
        let mut sum = Activations::default();
        let parts = if self.shares_checkpoint() {
            f64::from(self.mesh.tensor.size)
        } else {
            self.parts(self.residual())
        };
        sum.input = Bytes::new(self.input_bytes() / parts);
        for operator in &self.block.operators {
            for saved in &operator.saved {
                let bytes = Bytes::new(self.saved_bytes(operator, saved));
                sum.kept += bytes;
                if operator.recompute.kept_by_selective() && !saved.repeated {
                    sum.kept_selective += bytes;
                }
            }
            if self.keeps_output(operator) {
                sum.kept_selective += self.output_bytes(operator);
            }
            sum.transient = sum.transient.max(self.transient(operator));
            if let OperatorKind::Attention(core) = &operator.kind {
                let [own, in_front] = self.keys_bytes(operator, core);
                sum.keys_gradient += Bytes::new(in_front);
                if self.read_later {
                    sum.keys += Bytes::new(own);
                }
            }
            if operator.class == OperatorClass::Head {
                let columns = self.sharding.local_sum(operator, &operator.output());
                sum.output +=
                    Bytes::new(self.tokens_of(operator) * columns * self.activation.bytes());
            }
        }
        // a layer of which selective recomputation keeps outputs starts anew from its input
        let outputs = |o: &Operator| self.keeps_output(o);
        if self.block.operators.iter().any(outputs) {
            sum.kept_selective += sum.input;
        }
        sum
    }

    /// True where selective recomputation keeps what an operator makes. A compiler keeps nothing that no
    /// gradient reads.
    fn keeps_output(&self, operator: &Operator) -> bool {
        operator.recompute.output_kept_by_selective()
            && (self.training.software.recompute.repeat_unread || operator.recompute.by_full())
    }

    /// What selective recomputation keeps of an operator that it does not repeat: its output, and the
    /// statistics of a fused attention.
    fn output_bytes(&self, operator: &Operator) -> Bytes {
        let columns = self.sharding.local_sum(operator, &operator.output());
        let tokens = self.tokens_of(operator) * self.load_factor(operator.region);
        let output = tokens * columns * self.activation.bytes();
        let statistics = operator.saved.iter().filter(|s| s.stored == SavedAs::Fp32);
        let statistics: f64 = statistics.map(|s| self.saved_bytes(operator, s)).sum();
        Bytes::new(output + statistics)
    }

    /// Bytes of the block's input that its tensor ranks hold together.
    fn input_bytes(&self) -> f64 {
        let tokens = self.block.operators.first().map_or(0.0, |o| self.tokens(o));
        tokens * self.input_width * self.activation.bytes()
    }

    /// True where tensor ranks that all hold the input of a layer keep a part of it each.
    fn shares_checkpoint(&self) -> bool {
        self.training.software.tensor.shared_checkpoints
            && self.block.role == BlockRole::Layer
            && self.mesh.tensor.size > 1
            && self.parts(self.residual()) <= 1.0
    }

    /// Gathers what tensor ranks kept in parts: `PyTorch` gathers into a buffer of its own and copies the parts
    /// out of it (`ProcessGroupNCCL::allgather`), a reading and a writing.
    fn restored(&self) -> Vec<Task> {
        let first = self.block.operators.first();
        let Some(operator) = first.filter(|_| self.shares_checkpoint()) else {
            return Vec::new();
        };
        let bytes = Bytes::new(self.input_bytes());
        let recompute = operator.recompute;
        let gather = Task::Communicate {
            purpose: Purpose::Tensor,
            collective: Collective::AllGather,
            span: self.mesh.tensor,
            bytes,
            under: 0,
            crossing: Crossing::Each,
            handling: Seconds::ZERO,
            recompute,
        };
        let copy = Task::Compute {
            class: operator.class,
            kernel: Kernel::Memory {
                bytes: bytes * 2.0,
                launches: 1.0,
            },
            recompute,
            weight: false,
        };
        vec![gather, copy]
    }

    fn saved_bytes(&self, operator: &Operator, saved: &crate::workload::Saved) -> f64 {
        let gathered = self.training.software.tensor.keeps_gathered_inputs
            && saved.stored == SavedAs::Operand
            && operator.region != Region::Residual;
        let cut = match (saved.region, self.sharding.residual(Side::Columns)) {
            (Region::Residual, Layout::Sharded(_)) if !gathered => {
                f64::from(self.mesh.columns.size)
            }
            // ranks that cut no expert keep the tokens that they sent
            (Region::Experts, _) => f64::from(self.sharding.token_degree(operator)),
            _ => 1.0,
        };
        let element = match saved.stored {
            SavedAs::Activation => self.activation.bytes(),
            SavedAs::Operand => self.format(operator).bytes(),
            SavedAs::Byte => 1.0,
            SavedAs::Fp32 => 4.0,
        };
        let copies = self.sharding.local_product(saved.region, &saved.shape);
        let tokens = self.tokens(operator) / cut * self.load_factor(saved.region);
        tokens * copies * element * self.wider_scores(operator)
    }

    /// An operator's output and its gradient, which live beside what is kept, and what comes round a ring;
    /// of logits, what the program says.
    fn transient(&self, operator: &Operator) -> Bytes {
        if let Some([_, beside]) = self.training.software.vocabulary.logits {
            match &operator.kind {
                OperatorKind::Loss { vocab } => {
                    let logits =
                        self.tokens(operator) * self.sharding.local(operator.region, vocab);
                    let shared = self.training.software.vocabulary.logits_shared;
                    let shared = shared.filter(|_| self.mesh.tensor.size > 1);
                    let beside = Bytes::new(logits * shared.unwrap_or(beside));
                    return beside + self.left_whole(operator);
                }
                _ if operator.class == OperatorClass::Head => return Bytes::ZERO,
                _ => {}
            }
        }
        let columns = self.sharding.local_sum(operator, &operator.output());
        let columns = 2.0 * columns + self.ring_columns(operator);
        let tokens = self.tokens_of(operator) * self.load_factor(operator.region);
        Bytes::new(tokens * columns * self.activation.bytes())
    }

    /// What exchanges of the layers' streams left in the allocator's cache, whose blocks are too short for the
    /// loss (`software.tensor.whole_copies`).
    fn left_whole(&self, operator: &Operator) -> Bytes {
        let copies = self.training.software.tensor.whole_copies;
        let along = matches!(self.sharding.residual(Side::Columns), Layout::Sharded(_));
        if !along || self.tensor_chunks > 1 {
            return Bytes::ZERO;
        }
        Bytes::new(copies * self.tokens(operator) * self.input_width * self.activation.bytes())
    }

    /// Columns that attention holds for the parts of all context ranks: `P (q Q + k K)`, P: context ranks;
    /// Q, K: columns of a rank's outputs and of its keys and values; q, k: `software.context.ring_held`.
    fn ring_columns(&self, operator: &Operator) -> f64 {
        match &operator.kind {
            OperatorKind::Attention(core) if core.flash && self.mesh.context.size > 1 => {
                let [queries, keys] = self.training.software.context.ring_held;
                let outputs = self.local_heads(operator, core.heads) * core.value_dim as f64;
                let width = (core.query_dim + core.value_dim) as f64;
                let pairs = self.local_heads(operator, core.kv_heads) * width;
                f64::from(self.mesh.context.size) * (queries * outputs + keys * pairs)
            }
            _ => 0.0,
        }
    }
}

/// Tokens that reach the rank whose experts of a block have most, over the mean; 1 without experts.
fn crowding(block: &Block, ranks: u32) -> f64 {
    let routed = block.operators.iter().find_map(|o| match &o.kind {
        OperatorKind::Matmul { experts, .. } => experts.as_ref(),
        _ => None,
    });
    routed.map_or(1.0, |routed| routed.most_loaded(u64::from(ranks)))
}

/// A collective to be added to a program.
#[derive(Clone, Copy)]
pub(super) struct PendingCollective {
    pub(super) purpose: Purpose,
    pub(super) collective: Collective,
    /// Who takes part.
    pub(super) span: Span,
    pub(super) bytes: f64,
    /// Kernels behind it that run meanwhile.
    pub(super) under: u32,
    /// How copies of a token cross the fabric.
    pub(super) crossing: Crossing,
    /// What rows take beside their bytes.
    pub(super) handling: Seconds,
}

/// The way of a kept input to the gradient of a weight: what was gathered is kept in parts, so it is
/// gathered again.
fn gathered_again(produced: Layouts, wanted: Layouts) -> LayoutChange {
    let from = [0, 1].map(|at| match transition(produced[at], wanted[at]) {
        Some(Collective::AllGather) => produced[at],
        _ => wanted[at],
    });
    (from, wanted)
}

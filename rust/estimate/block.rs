//! What does each distinct block cost, tabulated once per combination of the plan fields it depends on?

use super::expert_overlap::{self, ExpertPass};
use super::issue::{HostIssue, InterveningLayers, Pass};
use super::job::Job;
use super::newton_schulz::NewtonSchulz;
use super::price::Pricer;
use super::slices::slices;
use crate::plan::{
    Activations, BlockProgram, Plan, Purpose, RecomputePolicy, Task, TokenSlices, Weights, cover,
    lower, lower_slice, repeats,
};
use crate::workload::{BlockRole, Graph, OperatorClass, Software, Training};

/// Operator classes of a breakdown, and last what the device waits for launches.
pub const CLASSES: usize = 11;
/// The line of those waits.
const LAUNCHES: usize = CLASSES - 1;
/// Purposes of communication inside a block.
pub(super) const PURPOSES: usize = 3;

/// Seconds of one phase, line by line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lines {
    /// Compute by operator class.
    pub compute: [f64; CLASSES],
    /// Collectives that nothing hides, by purpose.
    pub exposed: [f64; PURPOSES],
    /// Collectives that run under kernels, by purpose.
    pub hidden: [f64; PURPOSES],
}

impl Lines {
    /// Seconds on the critical path.
    pub fn total(&self) -> f64 {
        self.compute.iter().sum::<f64>() + self.exposed.iter().sum::<f64>()
    }

    /// Seconds that the device waits for launches.
    pub fn launches(&self) -> f64 {
        self.compute[LAUNCHES]
    }

    /// Adds `times` of another phase.
    pub fn add(&mut self, other: &Self, times: f64) {
        let add = |mine: &mut [f64], theirs: &[f64]| {
            for (a, b) in mine.iter_mut().zip(theirs) {
                *a += b * times;
            }
        };
        add(&mut self.compute, &other.compute);
        add(&mut self.exposed, &other.exposed);
        add(&mut self.hidden, &other.hidden);
    }
}

/// A priced block.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BlockFactor {
    /// Forward pass.
    pub forward: Lines,
    /// Backward pass.
    pub backward: Lines,
    /// What selective recomputation adds to the backward pass.
    pub selective: Lines,
    /// What full recomputation adds.
    pub full: Lines,
    /// Totals of the four, summed once: forward, backward, selective, full.
    totals: [f64; 4],
    /// Seconds for which the host issues kernels of the forward and of the backward pass.
    pub(super) issued: [f64; 2],
    /// Seconds of the backward pass that yield gradients of weights.
    pub weight: f64,
    /// Collectives that run under those and no longer do when they run apart, by purpose, seconds.
    pub under_weight: [f64; PURPOSES],
    /// Expert all-to-alls of a forward and of a backward pass that run under the opposite pass of another
    /// micro-batch, seconds.
    pub paired: [f64; 2],
    /// Matrix arithmetic of forward and backward, and of the two recomputations.
    pub flops: [f64; 4],
    /// Weights held.
    pub weights: Weights,
    /// Activations held.
    pub activations: Activations,
    /// What the optimizer orthogonalises.
    pub(super) newton: NewtonSchulz,
}

impl BlockFactor {
    /// Prices what one block became, and says how many seconds each of its forward tasks takes where somebody
    /// asks for that.
    fn new(
        program: &BlockProgram,
        layer: bool,
        software: &Software,
        pricer: &mut Pricer,
    ) -> (Self, Vec<f64>) {
        let mut factor = Self {
            weights: program.weights,
            activations: program.activations,
            newton: NewtonSchulz::new(&program.matrices, pricer),
            ..Self::default()
        };
        let timed = software.host.routing_waits || software.experts.pairs_passes;
        let mut spans = [Vec::new(), Vec::new()];
        for (index, task) in program.forward.iter().enumerate() {
            let again = task.recompute();
            let before = factor.forward.total();
            let flops = price(&program.forward, index, pricer, &mut factor.forward);
            if timed {
                spans[0].push(factor.forward.total() - before);
            }
            factor.flops[0] += flops;
            if !layer {
                continue; // embedding and head are never repeated
            }
            for (policy, slot) in [(RecomputePolicy::Selective, 2), (RecomputePolicy::Full, 3)] {
                if repeats(policy, again) {
                    factor.flops[slot] += flops;
                }
            }
            if again.by_selective() {
                price(&program.forward, index, pricer, &mut factor.selective);
            }
            if again.by_full() {
                price(&program.forward, index, pricer, &mut factor.full);
            }
        }
        for (index, task) in program.backward.iter().enumerate() {
            let (hidden, compute) = (factor.backward.hidden, factor.backward.compute);
            let before = factor.backward.total();
            factor.flops[1] += price(&program.backward, index, pricer, &mut factor.backward);
            if timed {
                spans[1].push(factor.backward.total() - before);
            }
            if task.yields_weights() {
                factor.weight += added(&compute, &factor.backward.compute);
            } else if let Task::Communicate { purpose, .. } = task {
                let under = added(&hidden, &factor.backward.hidden);
                let more = exposed_by_weight_gradients(&program.backward, index, pricer, under);
                factor.under_weight[*purpose as usize] += more;
            }
        }
        if software.experts.pairs_passes {
            let share = software.experts.paired_share.unwrap_or(pricer.contention());
            factor.overlap_all_to_alls(program, &mut spans, share);
        }
        for index in 0..program.restored.len() {
            price(&program.restored, index, pricer, &mut factor.full);
        }
        let [forward, _] = spans;
        (factor, forward)
    }

    /// Lets the kernels of each pass hide the expert all-to-alls of the other, that of another micro-batch.
    fn overlap_all_to_alls(
        &mut self,
        program: &BlockProgram,
        spans: &mut [Vec<f64>; 2],
        contention: f64,
    ) {
        let expert = Purpose::Expert as usize;
        let tasks = [&program.forward, &program.backward];
        let halves = [0, 1].map(|way| ExpertPass::new(tasks[way], &spans[way]));
        let left = expert_overlap::exposed(halves, |time, under| beside(time, under, contention));
        let lines = [&mut self.forward, &mut self.backward];
        for (way, lines) in lines.into_iter().enumerate() {
            let time = halves[way].all_to_all_time();
            if time > 0.0 {
                let hidden = (time - left[way]).min(lines.exposed[expert]);
                lines.exposed[expert] -= hidden;
                lines.hidden[expert] += hidden;
                self.paired[way] += hidden;
                expert_overlap::scale_all_to_alls(tasks[way], &mut spans[way], left[way] / time);
            }
        }
    }

    /// Adds what each pass waits for its host, and sums up. `spans` are seconds of the forward tasks alone;
    /// `between` lies between this block and the next of its kind, forward and backward; none for a block
    /// whose host runs ahead with that of others.
    ///
    /// A pass takes at least as long as the host needs to launch its kernels.
    fn wait(&mut self, host: &HostIssue, spans: &[f64], between: Option<[InterveningLayers; 2]>) {
        let [forward, backward] = between.unwrap_or_default();
        let again = InterveningLayers::default();
        for (lines, pass, beside) in [
            (&mut self.forward, Pass::Forward, forward),
            (&mut self.backward, Pass::Backward, backward),
            (
                &mut self.selective,
                Pass::Recompute(RecomputePolicy::Selective),
                again,
            ),
            (
                &mut self.full,
                Pass::Recompute(RecomputePolicy::Full),
                again,
            ),
        ] {
            let device = lines.total();
            let own = between.is_some() || matches!(pass, Pass::Recompute(_));
            if device > 0.0 && own {
                lines.compute[LAUNCHES] += host.wait(pass, device, spans, beside);
            }
        }
        self.issued = [Pass::Forward, Pass::Backward].map(|pass| host.issued(pass));
        self.totals =
            [&self.forward, &self.backward, &self.selective, &self.full].map(Lines::total);
    }

    /// Adds what another slice of the sequence takes and keeps. Weights are the same; of what lives for a
    /// moment the most counts.
    fn join(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.forward, &other.forward),
            (&mut self.backward, &other.backward),
            (&mut self.selective, &other.selective),
            (&mut self.full, &other.full),
        ] {
            mine.add(theirs, 1.0);
        }
        let add = |mine: &mut [f64], theirs: &[f64]| {
            for (sum, more) in mine.iter_mut().zip(theirs) {
                *sum += more;
            }
        };
        add(&mut self.totals, &other.totals);
        add(&mut self.issued, &other.issued);
        add(&mut self.under_weight, &other.under_weight);
        add(&mut self.paired, &other.paired);
        add(&mut self.flops, &other.flops);
        self.weight += other.weight;
        self.activations.join(&other.activations);
    }

    /// Trained dense elements; borrowed tables count where the stage holds copies of them.
    pub fn dense(&self, copied: bool) -> f64 {
        self.weights.dense + if copied { self.weights.borrowed } else { 0.0 }
    }

    /// Of those, elements that no recipe multiplies in a narrow format.
    pub fn wide(&self, copied: bool) -> f64 {
        self.dense(copied) - self.weights.dense + self.weights.wide
    }

    /// Seconds of the forward pass.
    pub fn forward_time(&self) -> f64 {
        self.totals[0]
    }

    /// Seconds of the backward pass, recomputation left out.
    pub fn backward_time(&self) -> f64 {
        self.totals[1]
    }

    /// Seconds of expert all-to-alls that the kernels of an opposite pass can hide.
    pub fn paired_time(&self) -> f64 {
        let expert = Purpose::Expert as usize;
        let compute = |lines: &Lines| lines.compute.iter().sum::<f64>();
        let forward = self.forward.exposed[expert].min(compute(&self.backward));
        forward + self.backward.exposed[expert].min(compute(&self.forward))
    }

    /// Seconds of recomputation.
    pub fn recompute_time(&self, policy: RecomputePolicy) -> f64 {
        match policy {
            RecomputePolicy::None => 0.0,
            RecomputePolicy::Selective => self.totals[2],
            RecomputePolicy::Full => self.totals[3],
        }
    }

    /// Lines of recomputation.
    pub fn recompute_lines(&self, policy: RecomputePolicy) -> Option<&Lines> {
        match policy {
            RecomputePolicy::None => None,
            RecomputePolicy::Selective => Some(&self.selective),
            RecomputePolicy::Full => Some(&self.full),
        }
    }
}

/// By how much longer the collective at `index`, of which `hidden` seconds hide, stays exposed where
/// gradients of weights run apart.
fn exposed_by_weight_gradients(
    tasks: &[Task],
    index: usize,
    pricer: &mut Pricer,
    hidden: f64,
) -> f64 {
    if !cover(tasks, index).any(Task::yields_weights) {
        0.0
    } else if cover(tasks, index).all(Task::yields_weights) {
        hidden
    } else {
        let together = exposed(tasks, index, pricer, |_| true);
        exposed(tasks, index, pricer, |task| !task.yields_weights()) - together
    }
}

/// What stays exposed of the collective at `index` beside those kernels of its cover that are
/// there.
fn exposed(tasks: &[Task], index: usize, pricer: &mut Pricer, there: fn(&Task) -> bool) -> f64 {
    let Task::Communicate {
        purpose,
        collective,
        span,
        bytes,
        crossing,
        handling,
        ..
    } = &tasks[index]
    else {
        return 0.0;
    };
    let forms = pricer.forms_crossing(*collective, *span, *crossing);
    let time = (forms.time(*bytes) + *handling).value();
    let kernels = cover(tasks, index).filter(|task| there(task));
    let under = kernels
        .filter_map(Task::kernel)
        .map(|kernel| pricer.kernel(&kernel).time.value())
        .reduce(|sum, more| sum + more);
    let contention = if *purpose == Purpose::Context {
        pricer.ring_contention(*span)
    } else {
        pricer.contention()
    };
    under.map_or(time, |under| beside(time, under, contention))
}

/// What was added to lines.
fn added(before: &[f64], after: &[f64]) -> f64 {
    after.iter().zip(before).map(|(a, b)| a - b).sum()
}

/// Adds the seconds of the task at `index` to `lines` and returns its matrix arithmetic.
fn price(tasks: &[Task], index: usize, pricer: &mut Pricer, lines: &mut Lines) -> f64 {
    match &tasks[index] {
        Task::Compute { class, kernel, .. } => {
            let cost = pricer.kernel(kernel);
            lines.compute[*class as usize] += cost.time.value();
            cost.flops.value()
        }
        Task::Communicate {
            purpose,
            collective,
            span,
            bytes,
            crossing,
            handling,
            ..
        } => {
            let forms = pricer.forms_crossing(*collective, *span, *crossing);
            let time = (forms.time(*bytes) + *handling).value();
            let exposed = exposed(tasks, index, pricer, |_| true);
            lines.exposed[*purpose as usize] += exposed;
            lines.hidden[*purpose as usize] += time - exposed;
            0.0
        }
        Task::Chunked {
            class,
            kernel,
            collective,
            span,
            bytes,
            chunks,
            ..
        } => {
            let (cost, count) = (pricer.kernel(kernel), f64::from(*chunks));
            let one = pricer.forms(*collective, *span).time(*bytes).value();
            let product = cost.time.value();
            let exposed = by_chunks(one, product, count, pricer.chunk_contention());
            lines.compute[*class as usize] += count * product;
            lines.exposed[Purpose::Tensor as usize] += exposed;
            lines.hidden[Purpose::Tensor as usize] += count * one - exposed;
            count * cost.flops.value()
        }
    }
}

/// What stays exposed of a collective of `time` seconds beside kernels of `under` seconds.
///
/// `elapsed = max(under + c time, time)`: beside a collective, compute loses the share `c`.
fn beside(time: f64, under: f64, contention: f64) -> f64 {
    (time - under).max(time * contention)
}

/// What stays exposed of `k` chunks of traffic, `t` seconds each, that alternate with `k` chunks of a
/// product, `p` seconds each: two machines in a row, of which the second waits for each chunk.
///
/// `exposed = max(t + c (k-1) t, k t - (k-1) p)`. One chunk of traffic has no product to run under.
/// While the `k-1` others do, compute loses the share `c`; where they are longer than that, all but
/// one product hides (Wang et al. 2023, ASPLOS, section 4; two-machine flow shop: Johnson 1954). The
/// same holds whichever half comes first.
fn by_chunks(t: f64, p: f64, k: f64, contention: f64) -> f64 {
    let (traffic, others) = (k * t, k - 1.0);
    (t + contention * others * t).max(traffic - others * p)
}

/// A block that is priced but for what it waits for its host.
struct PricedBlock {
    factor: BlockFactor,
    program: BlockProgram,
    /// Seconds of its forward tasks.
    spans: Vec<f64>,
}

/// What lies between two layers with a feed-forward part, forward and backward, where others mix positions
/// alone: their mean, since the host runs ahead from layer to layer. None where layers are alike in that, or
/// where a host that waits for each kernel runs ahead of none.
fn between(
    graph: &Graph,
    priced: &[PricedBlock],
    software: &Software,
) -> Option<[InterveningLayers; 2]> {
    let layers = graph
        .order
        .iter()
        .filter(|&&block| graph.blocks[block].role == BlockRole::Layer);
    let layers: Vec<&PricedBlock> = layers.map(|&block| &priced[block]).collect();
    let mixers = layers.iter().filter(|one| one.program.mixes_alone);
    let others = layers.len() - mixers.clone().count();
    if others == 0 || others == layers.len() || software.host.blocking {
        return None;
    }
    let mut sums = [InterveningLayers::default(); 2];
    for one in mixers {
        let host = HostIssue::new(&one.program, software);
        for (sum, pass, lines) in [
            (0, Pass::Forward, &one.factor.forward),
            (1, Pass::Backward, &one.factor.backward),
        ] {
            sums[sum].device += lines.total() / others as f64;
            sums[sum].host += host.issued(pass) / others as f64;
        }
    }
    Some(sums)
}

/// The priced blocks of a model under the fields that a block depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    /// One per distinct block of the graph.
    pub blocks: Vec<BlockFactor>,
    /// Tokens of a sequence that stages hand on: those that the blocks are priced for, and an encoder's, which the
    /// decoder's stages hand on beside their own (`pretrain_t5.py` of Megatron-LM). Stages of the encoder, which hand
    /// on those alone, are taken to hand on as much.
    pub tokens: u64,
    /// The slices of which those are the sums; none where sequences are not cut.
    pub slices: Vec<Self>,
}

/// The plan fields that a block's factor depends on.
pub type FactorKey = ((u32, u32, u32, u32, u32, u32, u32), [bool; 3], TokenSlices);

impl Factors {
    /// Prices all blocks.
    pub fn new(job: &Job, plan: &Plan, pricer: &mut Pricer) -> Self {
        if plan.token_slices.cuts() {
            return Self::of_slices(job, plan, pricer);
        }
        let graph = &job.graph;
        let program = |block| lower(graph, block, &job.training, plan);
        Self::of(graph, program, &job.training, pricer)
    }

    /// Prices all blocks of each slice of the plan, and adds them up.
    fn of_slices(job: &Job, plan: &Plan, pricer: &mut Pricer) -> Self {
        let slices: Vec<Self> = slices(job, plan)
            .map(|slice| {
                let (graph, training) = (&slice.graph, &slice.training);
                Self::of_slice(graph, training, plan, slice.beside, pricer)
            })
            .collect();
        let mut blocks = slices.first().map(|s| s.blocks.clone()).unwrap_or_default();
        for slice in slices.iter().skip(1) {
            for (sum, block) in blocks.iter_mut().zip(&slice.blocks) {
                sum.join(block);
            }
        }
        Self {
            blocks,
            tokens: job.training.sequence + job.graph.encoder_tokens,
            slices,
        }
    }

    /// Prices all blocks for a slice of each sequence; `beside`: tokens of the sequence in front and behind.
    pub fn of_slice(
        graph: &Graph,
        training: &Training,
        plan: &Plan,
        beside: [u64; 2],
        pricer: &mut Pricer,
    ) -> Self {
        let program = |block| lower_slice(graph, block, training, plan, beside);
        Self::of(graph, program, training, pricer)
    }

    fn of(
        graph: &Graph,
        program: impl Fn(usize) -> BlockProgram,
        training: &Training,
        pricer: &mut Pricer,
    ) -> Self {
        let software = &training.software;
        let priced = graph.blocks.iter().enumerate().map(|(index, block)| {
            let (layer, program) = (block.role == BlockRole::Layer, program(index));
            let (factor, spans) = BlockFactor::new(&program, layer, software, pricer);
            PricedBlock {
                factor,
                program,
                spans,
            }
        });
        let mut priced: Vec<PricedBlock> = priced.collect();
        let between = between(graph, &priced, software);
        for (one, block) in priced.iter_mut().zip(&graph.blocks) {
            let beside = match between {
                Some(_) if one.program.mixes_alone => None,
                Some(mixers) if block.role == BlockRole::Layer => Some(mixers),
                _ => Some(<[InterveningLayers; 2]>::default()),
            };
            let host = HostIssue::new(&one.program, software);
            one.factor.wait(&host, &one.spans, beside);
        }
        Self {
            blocks: priced.into_iter().map(|one| one.factor).collect(),
            tokens: training.sequence + graph.encoder_tokens,
            slices: Vec::new(),
        }
    }

    /// Two plans with equal keys share factors.
    pub fn key(plan: &Plan) -> FactorKey {
        (
            (
                plan.tensor,
                plan.tensor_rows,
                plan.context,
                plan.expert,
                plan.expert_tensor_ranks(),
                plan.micro_batch,
                plan.tensor_chunks,
            ),
            [
                plan.sequence_parallel,
                plan.overlap_tensor,
                plan.overlap_expert,
            ],
            plan.token_slices.clone(),
        )
    }
}

/// Index of a purpose's line.
pub(super) const fn purpose_name(index: usize) -> &'static str {
    match index {
        i if i == Purpose::Tensor as usize => "tensor",
        i if i == Purpose::Context as usize => "context",
        _ => "expert",
    }
}

/// Name of an operator class.
pub(super) const fn class_name(index: usize) -> &'static str {
    match index {
        i if i == OperatorClass::Matmul as usize => "matmul",
        i if i == OperatorClass::Attention as usize => "attention",
        i if i == OperatorClass::Experts as usize => "experts",
        i if i == OperatorClass::Normalization as usize => "normalization",
        i if i == OperatorClass::Elementwise as usize => "elementwise",
        i if i == OperatorClass::Embedding as usize => "embedding",
        i if i == OperatorClass::Head as usize => "head",
        i if i == OperatorClass::Loss as usize => "loss",
        LAUNCHES => "launches",
        i if i == OperatorClass::StateSpace as usize => "state_space",
        _ => "routing",
    }
}

//! Which plans can run at all, and which rule an illegal one breaks.

use super::choice::Plan;
use crate::schedule::Kind as Schedule;
use crate::schedule::{Gradient, Shape as PipelineShape};
use crate::workload::{Dim, Extent, Graph, OperatorKind, Region, Training};
use std::fmt;

/// What legality needs to know of a model: the dims that plans cut, and its layers.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    cuts: Vec<(Region, Dim, u64)>,
    /// Layer positions.
    pub layers: u64,
    /// True where some layer has routed experts.
    pub experts: bool,
    /// True where the devices have a host whose link and memory are known.
    pub host: bool,
}

impl Shape {
    /// Collects the dims of a graph; `host` where the devices have one.
    pub fn new(graph: &Graph, host: bool) -> Self {
        let mut cuts = Vec::new();
        let mut add = |region: Region, extent: &Extent| {
            let cut = (region, extent.dim, extent.size);
            if !cuts.contains(&cut) {
                cuts.push(cut);
            }
        };
        for operator in graph.blocks.iter().flat_map(|b| &b.operators) {
            match &operator.kind {
                OperatorKind::Matmul {
                    contract,
                    columns,
                    experts,
                    ..
                } => {
                    add(operator.region, contract);
                    for extent in columns {
                        add(operator.region, extent);
                    }
                    if let Some(routed) = experts {
                        add(operator.region, &Extent::new(Dim::Expert, routed.experts));
                    }
                }
                OperatorKind::Attention(core) => {
                    add(operator.region, &Extent::new(Dim::Heads, core.heads));
                    add(operator.region, &Extent::new(Dim::KvHeads, core.kv_heads));
                }
                _ => {}
            }
        }
        let experts = cuts.iter().any(|(_, dim, _)| *dim == Dim::Expert);
        Self {
            cuts,
            layers: graph.layers() as u64,
            experts,
            host,
        }
    }
}

/// How layers are dealt to virtual stages: all get `middle`, but the first and last may get fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Layers of the first virtual stage.
    pub first: u64,
    /// Layers of every virtual stage between.
    pub middle: u64,
    /// Layers of the last virtual stage.
    pub last: u64,
}

impl Split {
    /// Deals layers to `pipeline` stages of `chunks` virtual stages each, or says that it cannot.
    ///
    /// All virtual stages get `ceil(layers / stages)` layers and the two ends share what is then too
    /// much, the last one first: embedding and head fill their time (Llama 3 Herd, section 3.3.2).
    /// With several chunks a rank each end gives up one layer at most.
    pub fn new(layers: u64, pipeline: u64, chunks: u64) -> Option<Self> {
        let stages = pipeline * chunks;
        if stages == 1 {
            return Some(Self {
                first: layers,
                middle: layers,
                last: layers,
            });
        }
        let middle = layers.div_ceil(stages);
        let less = middle * stages - layers;
        let most = if chunks > 1 {
            1
        } else {
            middle.saturating_sub(1)
        };
        let (first, last) = (less / 2, less.div_ceil(2));
        (middle > 0 && last <= most).then(|| Self {
            first: middle - first,
            middle,
            last: middle - last,
        })
    }
}

/// A rule that a plan breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A field is zero or out of range.
    Range(&'static str),
    /// The axes do not multiply to the device count.
    Devices {
        /// Their product.
        product: u64,
        /// Devices of the job.
        devices: u32,
    },
    /// A dim is not cut evenly.
    Cut {
        /// The plan field.
        field: &'static str,
        /// Its value.
        degree: u32,
        /// The dim.
        dim: Dim,
        /// Its size.
        size: u64,
    },
    /// The layers do not deal out to the stages.
    Layers {
        /// Layers of the model.
        layers: u64,
        /// Virtual stages asked for.
        stages: u64,
    },
    /// The batch does not deal out to replicas and micro-batches.
    Batch {
        /// Sequences a step.
        global_batch: u64,
        /// data x micro-batch.
        step: u64,
    },
    /// A sequence does not split evenly.
    Sequence {
        /// Tokens.
        sequence: u64,
        /// Ranks.
        parts: u64,
    },
    /// The interleaved schedule and its chunks contradict each other or the micro-batches.
    Interleave,
    /// A schedule cannot run these stages, chunks or micro-batches.
    Schedule {
        /// The schedule.
        schedule: Schedule,
        /// Stages.
        stages: u32,
        /// Chunks per stage.
        chunks: u32,
        /// Micro-batches of a replica.
        micro_batches: u32,
    },
    /// Experts are not spread evenly, or there are none.
    Experts,
    /// Sequence parallelism without tensor ranks, or experts under tensor ranks without it.
    SequenceParallel,
    /// The ZeRO group does not divide the replicas.
    ZeroGroup,
    /// The chunks of tensor-parallel products are too many or do not divide a micro-batch.
    Chunks {
        /// `tensor_chunks`.
        chunks: u32,
        /// Tokens of a micro-batch on a context rank.
        tokens: u64,
    },
    /// Something is to lie in the memory of a host that is not known.
    Host(&'static str),
    /// The fields of recomputation contradict one another or the layers.
    Recompute(&'static str),
}

/// Most chunks of a product beside its collective: Transformer Engine's own splits stay below 16,
/// and a chunk of a thousandth of the tokens fills no device.
pub const MOST_CHUNKS: u32 = 64;

impl Rule {
    /// Families by which rejected plans are counted.
    pub const FAMILIES: [&'static str; 13] = [
        "field out of range",
        "axes do not multiply to the devices",
        "a dim does not divide",
        "layers do not divide over stages",
        "batch does not divide over replicas and micro-batches",
        "sequence does not divide",
        "the schedule needs other stages, chunks or micro-batches",
        "experts do not divide over ranks",
        "sequence parallelism does not fit the tensor ranks",
        "ZeRO group does not divide the replicas",
        "chunks do not divide a micro-batch's tokens",
        "no host is known to offload to",
        "the fields of recomputation contradict one another or the layers",
    ];

    /// Index into `FAMILIES`.
    pub const fn family(&self) -> usize {
        match self {
            Self::Range(_) => 0,
            Self::Devices { .. } => 1,
            Self::Cut { .. } => 2,
            Self::Layers { .. } => 3,
            Self::Batch { .. } => 4,
            Self::Sequence { .. } => 5,
            Self::Interleave | Self::Schedule { .. } => 6,
            Self::Experts => 7,
            Self::SequenceParallel => 8,
            Self::ZeroGroup => 9,
            Self::Chunks { .. } => 10,
            Self::Host(_) => 11,
            Self::Recompute(_) => 12,
        }
    }
}

const INTERLEAVE: &str = "interleave above 1 needs schedule = interleaved, pipeline above 1 and \
    micro-batches in multiples of pipeline; gpipe and 1f1b need interleave = 1 and no overlap_pipeline";

const EXPERTS: &str = "expert must divide the experts and the ranks of a stage; expert_tensor must \
    be 1 or tensor; both need a model with experts";

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Range(field) => write!(out, "{field} is out of range"),
            Self::Devices { product, devices } => {
                let axes = "tensor x context x pipeline x data";
                write!(out, "{axes} = {product} is not the {devices} devices")
            }
            Self::Cut {
                field,
                degree,
                dim,
                size,
            } => undivided(out, field, u64::from(*degree), (dim_name(*dim), *size)),
            Self::Layers { layers, stages } => {
                undivided(out, "pipeline x interleave", *stages, ("layers", *layers))
            }
            Self::Batch { global_batch, step } => {
                let batch = ("global_batch", *global_batch);
                undivided(out, "data x micro_batch", *step, batch)
            }
            Self::Sequence { sequence, parts } => {
                undivided(out, "context (x tensor)", *parts, ("sequence", *sequence))
            }
            Self::Interleave => out.write_str(INTERLEAVE),
            Self::Schedule {
                schedule,
                stages,
                chunks,
                micro_batches,
            } => {
                let shape = PipelineShape::new(*stages, *chunks);
                cannot_run(out, *schedule, shape, *micro_batches)
            }
            Self::Experts => out.write_str(EXPERTS),
            Self::SequenceParallel => {
                let need = "experts with tensor above 1 need it";
                write!(out, "sequence_parallel needs tensor above 1, and {need}")
            }
            Self::Recompute(why) => out.write_str(why),
            Self::ZeroGroup => {
                out.write_str("zero_group must divide context x data, and zero must be 0 to 3")
            }
            Self::Host(field) => write!(
                out,
                "{field} needs a host: the system has no [host] with memory, memory_bandwidth and \
                 link_bandwidth"
            ),
            Self::Chunks { chunks, tokens } => write!(
                out,
                "tensor_chunks = {chunks} must be 1 to {MOST_CHUNKS} and divide micro_batch x \
                 sequence / context = {tokens}"
            ),
        }
    }
}

/// Says which rule of a schedule is broken.
fn cannot_run(
    out: &mut fmt::Formatter,
    schedule: Schedule,
    shape: PipelineShape,
    micro_batches: u32,
) -> fmt::Result {
    let rule = schedule.rule();
    write!(out, "schedule = {}", rule.name())?;
    match rule.check(shape, micro_batches) {
        Err(why) => write!(out, ": {why}"),
        Ok(()) => write!(
            out,
            ": its gradients are not those of backpropagation, which a plan stands for"
        ),
    }
}

/// Says that a value does not divide a size, and which ones near it do.
fn undivided(
    out: &mut fmt::Formatter,
    field: &str,
    value: u64,
    (name, size): (&str, u64),
) -> fmt::Result {
    write!(out, "{field} = {value} does not divide {name} = {size}")?;
    nearest(out, value, size)
}

/// Adds the nearest divisors below and above.
fn nearest(out: &mut fmt::Formatter, value: u64, size: u64) -> fmt::Result {
    // divisors come in pairs, so a walk up to the root finds them all
    let small = (1..=size.isqrt()).filter(|d| size.is_multiple_of(*d));
    let (mut below, mut above) = (None, None);
    for divisor in small.flat_map(|d| [d, size / d]) {
        if divisor < value {
            below = below.max(Some(divisor));
        } else if divisor > value {
            above = Some(above.map_or(divisor, |a: u64| a.min(divisor)));
        }
    }
    match (below, above) {
        (Some(b), Some(a)) => write!(out, "; nearest {b}, {a}"),
        (Some(one), None) | (None, Some(one)) => write!(out, "; nearest {one}"),
        (None, None) => Ok(()),
    }
}

fn dim_name(dim: Dim) -> &'static str {
    match dim {
        Dim::Heads => "heads",
        Dim::KvHeads => "kv_heads",
        Dim::Ffn => "ffn",
        Dim::ExpertFfn => "expert_ffn",
        Dim::Expert => "experts",
        Dim::Hidden => "hidden",
        Dim::Vocab => "vocab",
        _ => "dim",
    }
}

/// Says whether the fields that a plan's blocks depend on fit the model, or the first rule that
/// they break: all of `check` that needs neither replicas nor stages.
pub fn check_blocks(plan: &Plan, shape: &Shape, training: &Training) -> Result<(), Rule> {
    ranges(plan)?;
    cuts(plan, shape)?;
    expert_widths(plan, shape)?;
    sequence(plan, shape, training)?;
    chunks(plan, training)
}

/// Says whether a plan can run a job on `devices`, or the first rule that it breaks.
pub fn check(plan: &Plan, shape: &Shape, training: &Training, devices: u32) -> Result<Split, Rule> {
    ranges(plan)?;
    // before the product of the axes, which the user may not have chosen himself
    cuts(plan, shape)?;
    if plan.devices() != u64::from(devices) {
        return Err(Rule::Devices {
            product: plan.devices(),
            devices,
        });
    }
    experts(plan, shape)?;
    sequence(plan, shape, training)?;
    let step = u64::from(plan.data) * u64::from(plan.micro_batch);
    if !training.global_batch.is_multiple_of(step) {
        return Err(Rule::Batch {
            global_batch: training.global_batch,
            step,
        });
    }
    chunks(plan, training)?;
    host(plan, shape)?;
    schedule(plan, training.global_batch / step)?;
    let replicas = plan.context * plan.data;
    if plan.zero > 3 || plan.zero_group != 0 && !replicas.is_multiple_of(plan.zero_group) {
        return Err(Rule::ZeroGroup);
    }
    let (pipeline, count) = (plan.pipeline, plan.virtual_stages());
    let stages = u64::from(count);
    let split = Split::new(
        shape.layers,
        u64::from(pipeline),
        stages / u64::from(pipeline),
    )
    .ok_or(Rule::Layers {
        layers: shape.layers,
        stages,
    })?;
    recompute(plan, shape, split)?;
    Ok(split)
}

/// Whether the fields of recomputation say something, and only what they can mean.
fn recompute(plan: &Plan, shape: &Shape, split: Split) -> Result<(), Rule> {
    use super::choice::{ExpertRecompute, RecomputePolicy};
    let (layers, rest) = (u64::from(plan.recompute_layers), plan.recompute_rest);
    if layers > split.first.max(split.middle).max(split.last) {
        let why = "recompute_layers is more than the layers of a virtual stage";
        return Err(Rule::Recompute(why));
    }
    if rest == RecomputePolicy::Full || layers == 0 && rest != RecomputePolicy::None {
        let why = "recompute_rest must be none, or selective with recompute_layers above 0";
        return Err(Rule::Recompute(why));
    }
    if plan.recompute_experts != ExpertRecompute::Same && !shape.experts {
        let why = "recompute_experts needs a model with routed experts";
        return Err(Rule::Recompute(why));
    }
    Ok(())
}

/// Whether sequences can be cut over the context ranks, and the tensor ranks with sequence
/// parallelism.
fn sequence(plan: &Plan, shape: &Shape, training: &Training) -> Result<(), Rule> {
    let parts = if plan.sequence_parallel {
        plan.context * plan.tensor
    } else {
        plan.context
    };
    if !training.sequence.is_multiple_of(u64::from(parts)) {
        return Err(Rule::Sequence {
            sequence: training.sequence,
            parts: u64::from(parts),
        });
    }
    if plan.sequence_parallel && plan.tensor == 1
        || shape.experts && plan.tensor > 1 && !plan.sequence_parallel
    {
        return Err(Rule::SequenceParallel);
    }
    Ok(())
}

/// Whether the tokens of a micro-batch can be cut into the plan's chunks.
fn chunks(plan: &Plan, training: &Training) -> Result<(), Rule> {
    let chunks = plan.tensor_chunks;
    let sequences = u64::from(plan.micro_batch);
    let tokens = sequences.saturating_mul(training.sequence / u64::from(plan.context));
    if (1..=MOST_CHUNKS).contains(&chunks) && tokens.is_multiple_of(u64::from(chunks)) {
        return Ok(());
    }
    Err(Rule::Chunks { chunks, tokens })
}

/// Whether what is to lie in host memory has a host.
fn host(plan: &Plan, shape: &Shape) -> Result<(), Rule> {
    if plan.offload_activations > 100 {
        return Err(Rule::Range("offload_activations (0 to 100)"));
    }
    let wanted = [
        ("offload_optimizer", plan.offload_optimizer),
        ("offload_activations", plan.offload_activations > 0),
    ];
    let missing = wanted.iter().find(|(_, on)| *on && !shape.host);
    missing.map_or(Ok(()), |(field, _)| Err(Rule::Host(field)))
}

/// Whether the schedule runs the plan's stages, chunks and micro-batches.
fn schedule(plan: &Plan, micro_batches: u64) -> Result<(), Rule> {
    let (pipeline, chunks) = (u64::from(plan.pipeline), plan.interleave);
    let sends = plan.overlap_pipeline;
    match plan.schedule {
        Schedule::GPipe | Schedule::OneForwardOneBackward if chunks > 1 || sends => {
            Err(Rule::Interleave)
        }
        Schedule::GPipe | Schedule::OneForwardOneBackward => Ok(()),
        Schedule::Interleaved => {
            let aligned = chunks > 1 && pipeline > 1 && micro_batches.is_multiple_of(pipeline);
            if aligned {
                Ok(())
            } else {
                Err(Rule::Interleave)
            }
        }
        schedule => {
            let micro_batches = u32::try_from(micro_batches).unwrap_or(u32::MAX);
            let (rule, shape) = (schedule.rule(), plan.pipeline_shape());
            let learns = rule.gradient(shape) == Gradient::Chain;
            let runs = learns && rule.check(shape, micro_batches).is_ok();
            let refused = Rule::Schedule {
                schedule,
                stages: plan.pipeline,
                chunks,
                micro_batches,
            };
            if runs { Ok(()) } else { Err(refused) }
        }
    }
}

fn ranges(plan: &Plan) -> Result<(), Rule> {
    let fields = [
        ("tensor", plan.tensor),
        ("context", plan.context),
        ("pipeline", plan.pipeline),
        ("data", plan.data),
        ("expert", plan.expert),
        ("micro_batch", plan.micro_batch),
        ("interleave", plan.interleave),
    ];
    let limit = 1 << 24;
    match fields.iter().find(|(_, v)| *v == 0 || *v > limit) {
        Some((field, _)) => Err(Rule::Range(field)),
        None => Ok(()),
    }
}

fn experts(plan: &Plan, shape: &Shape) -> Result<(), Rule> {
    let ranks = u64::from(plan.tensor) * u64::from(plan.context) * u64::from(plan.data);
    let spread = u64::from(plan.expert_tensor_ranks()) * u64::from(plan.expert);
    if !ranks.is_multiple_of(spread) {
        return Err(Rule::Experts);
    }
    expert_widths(plan, shape)
}

fn expert_widths(plan: &Plan, shape: &Shape) -> Result<(), Rule> {
    let width = plan.expert_tensor_ranks();
    let legal_width = width == 1 || width == plan.tensor;
    let used = plan.expert > 1 || plan.expert_tensor > 1;
    if !legal_width || used && !shape.experts {
        return Err(Rule::Experts);
    }
    Ok(())
}

fn cuts(plan: &Plan, shape: &Shape) -> Result<(), Rule> {
    let sharding = super::sharding::Sharding::new(plan);
    for &(region, dim, size) in &shape.cuts {
        let degree = sharding.degree(region, dim);
        let replicated =
            dim == Dim::KvHeads && degree > 1 && u64::from(degree).is_multiple_of(size);
        // a padded vocabulary need not divide
        if degree > 1 && dim != Dim::Vocab && !replicated && !size.is_multiple_of(u64::from(degree))
        {
            let field = match dim {
                Dim::Expert => "expert",
                Dim::ExpertFfn => "expert_tensor",
                _ => "tensor",
            };
            return Err(Rule::Cut {
                field,
                degree,
                dim,
                size,
            });
        }
    }
    Ok(())
}

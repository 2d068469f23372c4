//! Which rules can a plan break, and what is said then?

use super::axis_order::AxisOrder;
use super::replica_reduction::ReplicaReduction;
use crate::collective::Algorithm;
use crate::schedule::PipelineShape;
use crate::schedule::Schedule;
use crate::workload::Dim;
use std::fmt;

/// A rule that a plan breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenRule {
    /// A field is zero or out of range: its name, its value, and what it may be.
    Range(&'static str, u32, &'static str),
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
    /// The layers that the plan gives to the ends leave some that do not deal out to the others.
    Ends {
        /// Layers of the model.
        layers: u64,
        /// Virtual stages, the ends included.
        stages: u64,
        /// `first_layers` and `last_layers`.
        ends: [u32; 2],
        /// `bare_last`.
        bare: bool,
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
    /// Chunks under a schedule that has one a stage: the schedule and `interleave`.
    Interleave(Schedule, u32),
    /// Sends under compute, which the schedule has no place for.
    Sends(Schedule),
    /// The interleaved schedule does not run these stages, chunks or micro-batches.
    Interleaved {
        /// Stages.
        stages: u32,
        /// Chunks per stage.
        chunks: u32,
        /// Micro-batches of a replica.
        micro_batches: u64,
    },
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
    /// Experts are not spread evenly: `expert`, the ranks of each, and those of a stage.
    Experts(u32, u32, u64),
    /// Experts are cut over neither one rank nor the tensor ranks: `expert_tensor` and `tensor`.
    ExpertWidth(u32, u32),
    /// A field speaks of experts that the model does not have: its name and value.
    NoExperts(&'static str, u32),
    /// Sequence parallelism without tensor ranks (of which so many), or experts under several without it.
    SequenceParallel(u32),
    /// The ZeRO group does not divide the replicas: `zero_group` and context x data.
    ZeroGroup(u32, u64),
    /// The rows of a grid of the tensor ranks do not divide them: rows and ranks.
    Rows(u32, u32),
    /// Something that a grid of tensor ranks cannot do.
    Grid(&'static str),
    /// The chunks of tensor-parallel products are too many or do not divide a micro-batch.
    Chunks {
        /// `tensor_chunks`.
        chunks: u32,
        /// Tokens of a micro-batch on a context rank.
        tokens: u64,
    },
    /// Something that plans with sliced sequences cannot do.
    Slices(&'static str),
    /// A sequence does not cut into so many equal slices.
    SliceCount {
        /// Slices.
        count: u64,
        /// Tokens of a sequence.
        sequence: u64,
    },
    /// The lengths of slices do not add up to a sequence.
    SliceSum {
        /// Their sum.
        sum: u64,
        /// Tokens of a sequence.
        sequence: u64,
    },
    /// Something is to lie in the memory of a host that is not known.
    Host(&'static str),
    /// The optimizer's state is to lie in host memory, and no rate of its products there is known.
    HostProducts,
    /// Stages lie between the ranks over which whole experts are spread, so that those do not lie
    /// evenly apart: the order, `expert`, and the tensor ranks or replicas inside the stages.
    AxisOrder(AxisOrder, u32, u32),
    /// The fields of recomputation contradict one another or the layers.
    Recompute(&'static str),
    /// The forced algorithm cannot sum over so many replicas, for want of what is said.
    Collectives(Algorithm, u32, &'static str),
}

/// Most chunks of a product beside its collective: Transformer Engine's own splits stay below 16,
/// and a chunk of a thousandth of the tokens fills no device.
pub const MOST_CHUNKS: u32 = 64;

impl BrokenRule {
    /// Families by which rejected plans are counted.
    pub const FAMILIES: [&'static str; 18] = [
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
        "stages lie between the ranks of experts",
        "the algorithm cannot run on the replicas",
        "the fields of recomputation contradict one another or the layers",
        "no grid of tensor ranks with these rows",
        "the optimizer cannot run on the host",
        "sequences cannot be cut into these slices of tokens",
    ];

    /// Index into `FAMILIES`.
    pub const fn family(&self) -> usize {
        match self {
            Self::Range(..) => 0,
            Self::Devices { .. } => 1,
            Self::Cut { .. } => 2,
            Self::Layers { .. } | Self::Ends { .. } => 3,
            Self::Batch { .. } => 4,
            Self::Sequence { .. } => 5,
            Self::Interleave(..)
            | Self::Sends(_)
            | Self::Interleaved { .. }
            | Self::Schedule { .. } => 6,
            Self::Experts(..) | Self::ExpertWidth(..) | Self::NoExperts(..) => 7,
            Self::SequenceParallel(_) => 8,
            Self::ZeroGroup(..) => 9,
            Self::Chunks { .. } => 10,
            Self::Host(_) => 11,
            Self::AxisOrder(..) => 12,
            Self::Collectives(..) => 13,
            Self::Recompute(_) => 14,
            Self::Rows(..) | Self::Grid(_) => 15,
            Self::HostProducts => 16,
            Self::Slices(_) | Self::SliceCount { .. } | Self::SliceSum { .. } => 17,
        }
    }
}

impl fmt::Display for BrokenRule {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Range(field, got, allowed) => {
                write!(out, "{field}: got {got}; allowed: {allowed}")
            }
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
            Self::Ends {
                layers,
                stages,
                ends,
                bare,
            } => say_ends_left(out, (*layers, *stages), *ends, *bare),
            Self::Batch { global_batch, step } => {
                let batch = ("global_batch", *global_batch);
                undivided(out, "data x micro_batch", *step, batch)
            }
            Self::Sequence { sequence, parts } => {
                undivided(out, "context (x tensor)", *parts, ("sequence", *sequence))
            }
            Self::Interleave(..)
            | Self::Sends(_)
            | Self::Interleaved { .. }
            | Self::Schedule { .. } => self.of_schedule(out),
            Self::Experts(..)
            | Self::ExpertWidth(..)
            | Self::NoExperts(..)
            | Self::SequenceParallel(_) => self.of_experts(out),
            Self::Recompute(why) | Self::Grid(why) | Self::Slices(why) => out.write_str(why),
            Self::SliceCount { count, sequence } => {
                undivided(out, "token_slices", *count, ("sequence", *sequence))
            }
            Self::SliceSum { sum, sequence } => wrong_sum(out, *sum, *sequence),
            Self::Rows(rows, tensor) => uneven_rows(out, *rows, *tensor),
            Self::ZeroGroup(group, replicas) => {
                let all = ("context x data", *replicas);
                undivided(out, "zero_group", u64::from(*group), all)
            }
            Self::Host(field) => no_host(out, field),
            Self::HostProducts => out.write_str(HOST_PRODUCTS),
            Self::AxisOrder(order, expert, inner) => uneven_experts(out, *order, *expert, *inner),
            Self::Collectives(algorithm, ranks, need) => cannot_sum(out, *algorithm, *ranks, need),
            Self::Chunks { chunks, tokens } => uneven_chunks(out, *chunks, *tokens),
        }
    }
}

impl BrokenRule {
    /// Says which value a schedule does not run with.
    fn of_schedule(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Interleave(schedule, chunks) => {
                let (got, name) = (format!("got {chunks}"), schedule.rule().name());
                write!(
                    out,
                    "interleave: {got} with schedule = {name}; allowed: 1, or schedule = interleaved"
                )
            }
            Self::Sends(schedule) => {
                let name = schedule.rule().name();
                write!(
                    out,
                    "overlap_pipeline: got true with schedule = {name}; allowed: false"
                )
            }
            Self::Interleaved {
                stages,
                chunks,
                micro_batches,
            } => say_no_turns(out, *stages, *chunks, *micro_batches),
            Self::Schedule {
                schedule,
                stages,
                chunks,
                micro_batches,
            } => {
                let shape = PipelineShape::new(*stages, *chunks);
                cannot_run(out, *schedule, shape, *micro_batches)
            }
            _ => Ok(()),
        }
    }

    /// Says how experts or sequences do not fit the tensor ranks.
    fn of_experts(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Experts(expert, each, ranks) => {
                let degree = u64::from(*expert) * u64::from(*each);
                undivided(out, "expert x expert_tensor", degree, (STAGE, *ranks))
            }
            Self::ExpertWidth(width, tensor) => write!(
                out,
                "expert_tensor: got {width}; allowed: 1 or tensor = {tensor}"
            ),
            Self::NoExperts(field, got) => write!(
                out,
                "{field}: got {got}; allowed: 1, since the model has no routed experts"
            ),
            Self::SequenceParallel(1) => {
                out.write_str("sequence_parallel: got true with tensor = 1; allowed: false")
            }
            Self::SequenceParallel(tensor) => write!(
                out,
                "sequence_parallel: got false with tensor = {tensor} and routed experts; allowed: true"
            ),
            _ => Ok(()),
        }
    }
}

/// The ranks of a pipeline's stage.
const STAGE: &str = "tensor x context x data";

/// Says what keeps chunks from taking turns.
fn say_no_turns(
    out: &mut fmt::Formatter,
    stages: u32,
    chunks: u32,
    micro_batches: u64,
) -> fmt::Result {
    let with = "with schedule = interleaved; allowed";
    if stages < 2 {
        return write!(out, "pipeline: got {stages} {with}: 2 or more");
    }
    if chunks < 2 {
        return write!(out, "interleave: got {chunks} {with}: 2 or more");
    }
    write!(
        out,
        "micro-batches of a replica: got {micro_batches} {with}: multiples of pipeline = {stages}"
    )
}

/// Says that chunks do not divide the tokens of a micro-batch.
fn uneven_chunks(out: &mut fmt::Formatter, chunks: u32, tokens: u64) -> fmt::Result {
    write!(
        out,
        "tensor_chunks = {chunks} must be 1 to {MOST_CHUNKS} and divide micro_batch x \
         sequence / context = {tokens}"
    )
}

/// Says that slices are no sequence.
fn wrong_sum(out: &mut fmt::Formatter, sum: u64, sequence: u64) -> fmt::Result {
    let allowed = format!("sequence = {sequence}");
    write!(
        out,
        "token_slices add up to {sum} tokens; allowed: {allowed}"
    )
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

/// What is said where Muon's state is to lie in host memory.
const HOST_PRODUCTS: &str = "offload_optimizer = true with optimizer = muon: allowed: false, since \
                             matrices are orthogonalised on the device";

/// Says that a field needs a host that is known.
fn no_host(out: &mut fmt::Formatter, field: &str) -> fmt::Result {
    write!(
        out,
        "{field} needs a host: the system has no [host] with memory, memory_bandwidth and \
         link_bandwidth"
    )
}

/// Says why layers given to the ends leave what the other virtual stages cannot share.
fn say_ends_left(
    out: &mut fmt::Formatter,
    (layers, stages): (u64, u64),
    ends: [u32; 2],
    bare: bool,
) -> fmt::Result {
    let given = u64::from(ends[0]) + u64::from(ends[1]);
    let asked = if bare {
        format!("first_layers = {}, bare_last = true", ends[0])
    } else {
        format!("first_layers = {}, last_layers = {}", ends[0], ends[1])
    };
    if bare && ends[1] > 0 {
        return write!(
            out,
            "bare_last = true needs last_layers = 0, got {}",
            ends[1]
        );
    }
    let taking = ends.iter().filter(|end| **end > 0).count() as u64;
    let held = taking + u64::from(bare);
    let others = stages.saturating_sub(held);
    if stages < 2 {
        return write!(out, "{asked} need pipeline x interleave above 1");
    }
    if others == 0 {
        return write!(out, "{asked} must add up to layers = {layers}");
    }
    let left = layers.saturating_sub(given);
    write!(
        out,
        "{asked} leave {left} of layers = {layers} to {others} other virtual stages, which must \
         share them evenly, one or more each"
    )?;
    let near = [left.div_ceil(others), (left / others).max(1)].map(|each| each * others);
    let possible = |left: &u64| (others..=layers.saturating_sub(taking)).contains(left);
    let mut near: Vec<u64> = near.into_iter().filter(possible).collect();
    near.dedup();
    let sums: Vec<String> = near
        .iter()
        .map(|left| (layers - left).to_string())
        .collect();
    if sums.is_empty() {
        return Ok(());
    }
    write!(out, "; nearest sums of the ends {}", sums.join(", "))
}

/// Says that rows do not divide the tensor ranks.
fn uneven_rows(out: &mut fmt::Formatter, rows: u32, tensor: u32) -> fmt::Result {
    let ranks = ("tensor", u64::from(tensor));
    undivided(out, "tensor_rows", u64::from(rows), ranks)
}

/// Says why the ranks of whole experts lie unevenly, and what would help.
fn uneven_experts(
    out: &mut fmt::Formatter,
    order: AxisOrder,
    expert: u32,
    inner: u32,
) -> fmt::Result {
    write!(
        out,
        "axis_order = {}: expert = {expert} with expert_tensor = 1 lies unevenly round the stages; \
         allowed: expert = {inner} (the ranks inside the stages), expert_tensor = tensor, or an \
         order with tensor next to context and data",
        order.name()
    )
}

/// Says what an algorithm lacks on the replicas.
fn cannot_sum(
    out: &mut fmt::Formatter,
    algorithm: Algorithm,
    ranks: u32,
    need: &str,
) -> fmt::Result {
    let choice = ReplicaReduction::Forced(algorithm);
    write!(
        out,
        "collectives = {choice} on {ranks} replicas needs {need}; allowed: auto, or an algorithm \
         that runs there"
    )
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
        Dim::Groups => "groups",
        Dim::Ffn => "ffn",
        Dim::ExpertFfn => "expert_ffn",
        Dim::Expert => "experts",
        Dim::Hidden => "hidden",
        Dim::Vocab => "vocab",
        _ => "dim",
    }
}

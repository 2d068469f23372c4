//! Which plans can run at all, and which rule an illegal one breaks.

use super::broken_rule::{BrokenRule, MOST_CHUNKS};
use super::choice::{ExpertRecompute, Plan, RecomputePolicy};
use super::mesh::{Mesh, expert_zero_group, zero_spans};
use super::split::Split;
use super::token_slices::{MOST_SLICES, TokenSlices};
use crate::hardware::Cluster;
use crate::schedule::Gradient;
use crate::schedule::Schedule;
use crate::workload::transformer::StateRule;
use crate::workload::{Dim, Extent, Graph, OperatorKind, Optimizer, Region, Scan, Training};

/// What legality needs to know of a job: the dims that plans cut, the model's layers, and the fabric.
#[derive(Debug, Clone)]
pub struct JobShape {
    cuts: Vec<(Region, Dim, u64)>,
    scans: Vec<Scan>,
    /// Layer positions.
    pub layers: u64,
    /// True where some layer has routed experts.
    pub experts: bool,
    /// True where the devices have a host whose link and memory are known.
    pub host: bool,
    /// Why sequences cannot be cut along their tokens; nothing where they can.
    uncut: Option<&'static str>,
    /// The fabric on which groups of ranks lie.
    cluster: Cluster,
}

impl JobShape {
    /// Collects the dims of a graph that is to run on a cluster.
    pub fn new(graph: &Graph, cluster: &Cluster) -> Self {
        let (mut cuts, mut scans) = (Vec::new(), Vec::new());
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
                OperatorKind::Scan(scan) => {
                    add(operator.region, &Extent::new(Dim::Heads, scan.heads));
                    add(operator.region, &Extent::new(Dim::Groups, scan.groups));
                    scans.push(*scan);
                }
                _ => {}
            }
        }
        scans.dedup();
        let experts = cuts.iter().any(|(_, dim, _)| *dim == Dim::Expert);
        Self {
            cuts,
            scans,
            layers: graph.layers() as u64,
            experts,
            host: cluster.system.host.is_some(),
            uncut: why_uncuttable(graph),
            cluster: cluster.clone(),
        }
    }
}

/// Why a model's sequences cannot be cut along their tokens.
fn why_uncuttable(graph: &Graph) -> Option<&'static str> {
    let mut operators = graph.blocks.iter().flat_map(|block| &block.operators);
    operators.find_map(|operator| match &operator.kind {
        OperatorKind::Scan(_) => Some(
            "token_slices above 1 needs layers without state-space scans and delta rules, whose state would \
             have to pass from slice to slice",
        ),
        OperatorKind::Attention(core) if !core.causal => Some(
            "token_slices above 1 needs causal attention: a slice reads the keys of the slices in front",
        ),
        _ if operator.positions.is_some() => Some(
            "token_slices above 1 needs a model of one sequence: another part of this one has positions \
             of its own",
        ),
        _ => None,
    })
}

/// Says whether the fields that a plan's blocks depend on fit the model, or the first rule that
/// they break: all of `check` that needs neither replicas nor stages.
pub fn check_blocks(plan: &Plan, shape: &JobShape, training: &Training) -> Result<(), BrokenRule> {
    ranges(plan)?;
    grid(plan, shape)?;
    cuts(plan, shape)?;
    expert_widths(plan, shape)?;
    sequence(plan, shape, training)?;
    slices(plan, shape, training)?;
    chunks(plan, training)
}

/// Says whether a plan can run a job on `devices`, or the first rule that it breaks.
pub fn check(
    plan: &Plan,
    shape: &JobShape,
    training: &Training,
    devices: u32,
) -> Result<Split, BrokenRule> {
    ranges(plan)?;
    grid(plan, shape)?;
    // before the product of the axes, which the user may not have chosen himself
    cuts(plan, shape)?;
    if plan.devices() != u64::from(devices) {
        return Err(BrokenRule::Devices {
            product: plan.devices(),
            devices,
        });
    }
    experts(plan, shape)?;
    sequence(plan, shape, training)?;
    let step = u64::from(plan.data) * u64::from(plan.micro_batch);
    if !training.global_batch.is_multiple_of(step) {
        return Err(BrokenRule::Batch {
            global_batch: training.global_batch,
            step,
        });
    }
    slices(plan, shape, training)?;
    chunks(plan, training)?;
    check_host(plan, shape, training)?;
    schedule(plan, training.global_batch / step)?;
    let replicas = plan.context * plan.data;
    if plan.zero_group != 0 && !replicas.is_multiple_of(plan.zero_group) {
        return Err(BrokenRule::ZeroGroup(plan.zero_group, u64::from(replicas)));
    }
    order(plan, shape)?;
    sums(plan, shape)?;
    let split = Split::of(plan, shape.layers)?;
    recompute(plan, shape, split)?;
    Ok(split)
}

/// Whether the fields of recomputation say something, and only what they can mean.
fn recompute(plan: &Plan, shape: &JobShape, split: Split) -> Result<(), BrokenRule> {
    if u64::from(plan.recompute_layers) > split.first.max(split.middle).max(split.last) {
        let why = "recompute_layers is more than the layers of a virtual stage";
        return Err(BrokenRule::Recompute(why));
    }
    check_recompute(plan, shape)
}

/// Says whether the fields of recomputation mean something, whatever layers its stages have.
pub fn check_recompute(plan: &Plan, shape: &JobShape) -> Result<(), BrokenRule> {
    let (layers, rest) = (plan.recompute_layers, plan.recompute_rest);
    if rest == RecomputePolicy::Full || layers == 0 && rest != RecomputePolicy::None {
        let why = "recompute_rest must be none, or selective with recompute_layers above 0";
        return Err(BrokenRule::Recompute(why));
    }
    if plan.recompute_experts != ExpertRecompute::Same && !shape.experts {
        let why = "recompute_experts needs a model with routed experts";
        return Err(BrokenRule::Recompute(why));
    }
    Ok(())
}

/// Whether sequences can be cut over the context ranks, and the tensor ranks with sequence
/// parallelism.
fn sequence(plan: &Plan, shape: &JobShape, training: &Training) -> Result<(), BrokenRule> {
    let parts = if plan.sequence_parallel {
        plan.context * plan.tensor_columns()
    } else {
        plan.context
    };
    if !training.sequence.is_multiple_of(u64::from(parts)) {
        return Err(BrokenRule::Sequence {
            sequence: training.sequence,
            parts: u64::from(parts),
        });
    }
    if plan.sequence_parallel && plan.tensor == 1
        || shape.experts && plan.tensor > 1 && !plan.sequence_parallel
    {
        return Err(BrokenRule::SequenceParallel(plan.tensor));
    }
    Ok(())
}

/// Whether sequences can be cut into the plan's slices of tokens.
fn slices(plan: &Plan, shape: &JobShape, training: &Training) -> Result<(), BrokenRule> {
    let (slices, sequence) = (&plan.token_slices, training.sequence);
    let count = slices.count();
    let listed = match slices {
        TokenSlices::Even(_) => &[][..],
        TokenSlices::Lengths(lengths) => lengths,
    };
    if count == 0 || count > MOST_SLICES || listed.contains(&0) {
        let got = u32::try_from(count).unwrap_or(u32::MAX);
        let allowed = "1 to 4096 slices of 1 or more tokens";
        return Err(BrokenRule::Range("token_slices", got, allowed));
    }
    let sum = listed.iter().map(|length| u64::from(*length)).sum();
    if !listed.is_empty() && sum != sequence {
        return Err(BrokenRule::SliceSum { sum, sequence });
    }
    if listed.is_empty() && !sequence.is_multiple_of(count as u64) {
        let count = count as u64;
        return Err(BrokenRule::SliceCount { count, sequence });
    }
    if !slices.cuts() {
        return Ok(());
    }
    let parts = if plan.sequence_parallel {
        u64::from(plan.tensor_columns())
    } else {
        1
    };
    let chunks = u64::from(plan.tensor_chunks.max(1));
    let sequences = u64::from(plan.micro_batch);
    let uneven = |[tokens, _]: [u64; 2]| {
        !tokens.is_multiple_of(parts) || !(sequences * tokens).is_multiple_of(chunks)
    };
    let why = if let Some(why) = shape.uncut {
        why
    } else if training.forward_only {
        "token_slices above 1 needs training: what keys and values of a pipeline of forward passes hold \
         is not weighed"
    } else if plan.context > 1 {
        "token_slices above 1 needs context = 1: context ranks cut sequences along their tokens already"
    } else if slices.of(sequence).any(uneven) {
        "token_slices: the tokens of each slice must divide by tensor with sequence_parallel, and times \
         micro_batch by tensor_chunks"
    } else {
        return Ok(());
    };
    Err(BrokenRule::Slices(why))
}

/// Whether the ranks of experts lie evenly in the plan's order of axes.
fn order(plan: &Plan, shape: &JobShape) -> Result<(), BrokenRule> {
    if !shape.experts || Mesh::has_experts(plan) {
        return Ok(());
    }
    let mesh = Mesh::new(plan);
    let inner = if mesh.tensor.stride < mesh.replicas.stride {
        mesh.tensor
    } else {
        mesh.replicas
    };
    Err(BrokenRule::AxisOrder(
        plan.axis_order,
        plan.expert,
        inner.size,
    ))
}

/// Whether a forced algorithm runs on the replicas that all-reduce: all of a weight, or those of a
/// shard where ZeRO shards over fewer.
fn sums(plan: &Plan, shape: &JobShape) -> Result<(), BrokenRule> {
    let Some(algorithm) = plan.collectives.forced() else {
        return Ok(());
    };
    let mesh = Mesh::new(plan);
    let groups = [
        (mesh.replicas, plan.zero_group),
        (mesh.expert_replicas, expert_zero_group(plan)),
    ];
    for (replicas, zero_group) in groups.into_iter().take(1 + usize::from(shape.experts)) {
        let span = if plan.zero == 0 {
            replicas
        } else {
            zero_spans(replicas, zero_group).1
        };
        let group = shape.cluster.group(span.stride, span.size);
        if let Some(need) = algorithm.lacks(&group, &shape.cluster) {
            return Err(BrokenRule::Collectives(algorithm, span.size, need));
        }
    }
    Ok(())
}

/// Whether the tokens of a micro-batch can be cut into the plan's chunks.
fn chunks(plan: &Plan, training: &Training) -> Result<(), BrokenRule> {
    let chunks = plan.tensor_chunks;
    let sequences = u64::from(plan.micro_batch);
    let tokens = sequences.saturating_mul(training.sequence / u64::from(plan.context));
    if (1..=MOST_CHUNKS).contains(&chunks) && tokens.is_multiple_of(u64::from(chunks)) {
        return Ok(());
    }
    Err(BrokenRule::Chunks { chunks, tokens })
}

/// Says whether what is to lie in host memory has a host, and can be computed there.
pub fn check_host(plan: &Plan, shape: &JobShape, training: &Training) -> Result<(), BrokenRule> {
    if plan.offload_activations > 100 {
        let got = plan.offload_activations;
        return Err(BrokenRule::Range("offload_activations", got, "0 to 100"));
    }
    let wanted = [
        ("offload_optimizer", plan.offload_optimizer),
        ("offload_activations", plan.offload_activations > 0),
    ];
    if let Some((field, _)) = wanted.iter().find(|(_, on)| *on && !shape.host) {
        return Err(BrokenRule::Host(field));
    }
    if plan.offload_optimizer && training.optimizer == Optimizer::Muon {
        return Err(BrokenRule::HostProducts);
    }
    Ok(())
}

/// Whether the schedule runs the plan's stages, chunks and micro-batches.
fn schedule(plan: &Plan, micro_batches: u64) -> Result<(), BrokenRule> {
    let slices = plan.token_slices.cuts();
    if slices && !matches!(plan.schedule, Schedule::GPipe | Schedule::TeraPipe) {
        return Err(BrokenRule::Slices(
            "token_slices above 1 needs schedule = gpipe or terapipe: all slices go forward, then back in \
             the opposite order",
        ));
    }
    let (pipeline, chunks) = (u64::from(plan.pipeline), plan.interleave);
    let sends = plan.overlap_pipeline;
    match plan.schedule {
        Schedule::GPipe | Schedule::OneForwardOneBackward if chunks > 1 => {
            Err(BrokenRule::Interleave(plan.schedule, chunks))
        }
        Schedule::GPipe | Schedule::OneForwardOneBackward if sends => {
            Err(BrokenRule::Sends(plan.schedule))
        }
        Schedule::GPipe | Schedule::OneForwardOneBackward => Ok(()),
        Schedule::Interleaved => {
            let aligned = chunks > 1 && pipeline > 1 && micro_batches.is_multiple_of(pipeline);
            if aligned {
                Ok(())
            } else {
                Err(BrokenRule::Interleaved {
                    stages: plan.pipeline,
                    chunks,
                    micro_batches,
                })
            }
        }
        schedule => {
            let micro_batches = u32::try_from(micro_batches).unwrap_or(u32::MAX);
            let (rule, shape) = (schedule.rule(), plan.pipeline_shape());
            let learns = rule.gradient(shape) == Gradient::Chain;
            let runs = learns && rule.check(shape, micro_batches).is_ok();
            let refused = BrokenRule::Schedule {
                schedule,
                stages: plan.pipeline,
                chunks,
                micro_batches,
            };
            if runs { Ok(()) } else { Err(refused) }
        }
    }
}

fn ranges(plan: &Plan) -> Result<(), BrokenRule> {
    let fields = [
        ("tensor", plan.tensor),
        ("tensor_rows", plan.tensor_rows),
        ("context", plan.context),
        ("pipeline", plan.pipeline),
        ("data", plan.data),
        ("expert", plan.expert),
        ("micro_batch", plan.micro_batch),
        ("interleave", plan.interleave),
    ];
    let limit = 1 << 24;
    match fields.iter().find(|(_, v)| *v == 0 || *v > limit) {
        Some(&(field, got)) => Err(BrokenRule::Range(field, got, "1 to 2^24")),
        None if plan.zero > 3 => Err(BrokenRule::Range("zero", u32::from(plan.zero), "0 to 3")),
        None => Ok(()),
    }
}

fn experts(plan: &Plan, shape: &JobShape) -> Result<(), BrokenRule> {
    expert_widths(plan, shape)?;
    let ranks = u64::from(plan.tensor) * u64::from(plan.context) * u64::from(plan.data);
    let each = plan.expert_tensor_ranks();
    let spread = u64::from(each) * u64::from(plan.expert);
    if ranks.is_multiple_of(spread) {
        Ok(())
    } else {
        Err(BrokenRule::Experts(plan.expert, each, ranks))
    }
}

fn expert_widths(plan: &Plan, shape: &JobShape) -> Result<(), BrokenRule> {
    let width = plan.expert_tensor_ranks();
    let fields = [
        ("expert", plan.expert),
        ("expert_tensor", plan.expert_tensor),
    ];
    match fields.iter().find(|(_, ranks)| *ranks > 1) {
        Some(&(field, ranks)) if !shape.experts => Err(BrokenRule::NoExperts(field, ranks)),
        _ if width == 1 || width == plan.tensor => Ok(()),
        _ => Err(BrokenRule::ExpertWidth(width, plan.tensor)),
    }
}

/// Whether the tensor ranks form a grid, and whether the plan runs on one.
fn grid(plan: &Plan, shape: &JobShape) -> Result<(), BrokenRule> {
    let rows = plan.tensor_rows;
    if rows == 1 {
        return Ok(());
    }
    if !plan.tensor.is_multiple_of(rows) {
        return Err(BrokenRule::Rows(rows, plan.tensor));
    }
    let columns = u64::from(plan.tensor_columns());
    let keys = shape.cuts.iter().filter(|cut| cut.1 == Dim::KvHeads);
    let uneven = |size: u64| !size.is_multiple_of(columns) && !columns.is_multiple_of(size);
    let why = if shape.experts {
        "tensor_rows above 1 needs a model without routed experts: tokens travel to them whole in width"
    } else if plan.tensor_chunks > 1 {
        "tensor_rows above 1 needs tensor_chunks = 1: only products that are cut one way run in chunks"
    } else if plan.sequence_parallel && columns == 1 {
        "sequence_parallel needs tensor above tensor_rows: it splits sequences over the columns"
    } else if keys.clone().any(|cut| uneven(cut.2)) {
        "tensor / tensor_rows must divide kv_heads or be a multiple of them"
    } else {
        return Ok(());
    };
    Err(BrokenRule::Grid(why))
}

fn cuts(plan: &Plan, shape: &JobShape) -> Result<(), BrokenRule> {
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
                Dim::Hidden => "tensor_rows",
                _ => "tensor",
            };
            return Err(BrokenRule::Cut {
                field,
                degree,
                dim,
                size,
            });
        }
    }
    shape.scans.iter().try_for_each(|scan| scanned(plan, scan))
}

/// Whether context ranks can exchange positions for the heads of a scan, each with its group, of which several may have
/// the same (Megatron-Core, `MambaContextParallel`), or for those of a delta rule, whose keys they share out
/// (`GatedDeltaNet`).
fn scanned(plan: &Plan, scan: &Scan) -> Result<(), BrokenRule> {
    let (context, tensor) = (u64::from(plan.context), u64::from(plan.tensor));
    let (heads, groups) = (scan.heads / tensor, (scan.groups / tensor).max(1));
    let copied = scan.rule == StateRule::Decay && context.is_multiple_of(groups);
    let whole = groups.is_multiple_of(context) || copied;
    if heads.is_multiple_of(context) && whole {
        return Ok(());
    }
    let (dim, size) = if whole {
        (Dim::Heads, heads)
    } else {
        (Dim::Groups, groups)
    };
    Err(BrokenRule::Cut {
        field: "context",
        degree: plan.context,
        dim,
        size,
    })
}

//! What should one stage of a plan keep, compute again or move to its host, block by block?

use super::block::{BlockFactor, Factors};
use super::chunk::ranges;
use super::job::Job;
use super::price::Pricer;
use super::verdict::with_composer;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::memory::rematerialise::{
    Block, Link, RematerialiseReport, Request, SelectiveRecompute, rematerialise,
};
use crate::plan::{ExpertRecompute, Plan, RecomputePolicy, Split, check};
use crate::units::Bytes;
use crate::workload::BlockRole;
use serde::{Deserialize, Serialize};

/// Which stage is asked about, and with what it may do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageRequest {
    /// Pipeline stage, from 0.
    #[serde(default)]
    pub stage: u32,
    /// Memory for the activations of one micro-batch; what the plan leaves, where left out.
    #[serde(default)]
    pub budget_bytes: Option<Bytes>,
    /// True where tensors may move to host memory.
    pub offload: bool,
    /// Slots of the budget, as in `Request`.
    pub slots: usize,
    /// Choices followed side by side, as in `Request`.
    pub width: usize,
}

/// The chain of a stage and its answers.
#[derive(Debug, Clone, Serialize)]
pub struct StageChain {
    /// Names of the blocks, in order.
    pub names: Vec<String>,
    /// The chain: one micro-batch of the stage.
    pub chain: Request,
    /// Micro-batches in flight, which share the memory that the plan leaves.
    pub in_flight: u32,
    /// What to keep.
    pub answer: RematerialiseReport,
}

/// Finds what a stage of a plan should keep, compute again or move to its host.
///
/// The chain is one micro-batch through the blocks of the stage, at the prices of `estimate`: passes
/// with their collectives inside blocks, without sends and without the traffic of sharded weights.
/// Layers may be computed again, whole or by the plan's selective policy; embedding and head never.
/// What the plan itself says of recomputation and of activations on the host is left aside. Where no
/// budget is given, each micro-batch in flight has an equal share of what weights, gradients and
/// optimizer leave. Copies run at the host link's sustained rate.
pub fn stage_chain(
    job: &Job,
    plan: &Plan,
    asked: &StageRequest,
    control: &Control,
) -> Result<StageChain> {
    // what the plan says of kept tensors is what is asked here
    let plan = Plan {
        recompute: RecomputePolicy::None,
        recompute_layers: 0,
        recompute_rest: RecomputePolicy::None,
        recompute_experts: ExpertRecompute::Same,
        offload_activations: 0,
        ..plan.clone()
    };
    let split = check(&plan, &job.shape, &job.training, job.cluster.devices)
        .map_err(|rule| Error::inconsistent(format!("plan: {rule}")))?;
    whole_stage(job, &plan, asked)?;
    let (room, in_flight) =
        with_composer(job, &plan, |composer| composer.activation_room(asked.stage))
            .map_err(|rule| Error::inconsistent(format!("plan: {rule}")))?;
    let factors = Factors::new(job, &plan, &mut Pricer::new(&job.cluster));
    let kinds = blocks(job, &plan, split, asked.stage);
    let last = asked.stage + 1 == plan.pipeline;
    let blocks: Vec<Block> = kinds
        .iter()
        .map(|&kind| block(&factors.blocks[kind], job.graph.blocks[kind].role))
        .collect();
    let output = blocks.last().map_or(0.0, |block| block.input_bytes);
    let rate = 1.0 / job.host_pace; // endless where there is no host
    let link = rate.is_finite().then_some(rate).filter(|_| asked.offload);
    if asked.offload && link.is_none() {
        let allowed = "false: the system has no host memory";
        return Err(Error::invalid("offload", true, allowed));
    }
    let chain = Request {
        blocks,
        budget_bytes: asked
            .budget_bytes
            .unwrap_or(room / f64::from(in_flight.max(1)))
            .value(),
        output_bytes: if last { 0.0 } else { output },
        link: link.map(|rate| Link {
            write_bytes_per_s: rate,
            read_bytes_per_s: rate,
        }),
        slots: asked.slots,
        width: asked.width,
    };
    let name = |&kind: &usize| job.graph.blocks[kind].name.clone();
    Ok(StageChain {
        names: kinds.iter().map(name).collect(),
        answer: rematerialise(&chain, control)?,
        chain,
        in_flight,
    })
}

/// Refuses what has no chain: jobs without a backward pass, stages of several chunks.
fn whole_stage(job: &Job, plan: &Plan, asked: &StageRequest) -> Result<()> {
    if job.training.forward_only {
        let allowed = "false: only a backward pass reads what is kept";
        return Err(Error::invalid("training.forward_only", true, allowed));
    }
    if plan.virtual_stages() != plan.pipeline {
        let allowed = "1: a chain is a whole stage";
        return Err(Error::invalid("plan.interleave", plan.interleave, allowed));
    }
    if plan.token_slices.cuts() {
        let allowed = "1: a chain runs whole sequences";
        return Err(Error::invalid(
            "plan.token_slices",
            &plan.token_slices,
            allowed,
        ));
    }
    if asked.stage >= plan.pipeline {
        let allowed = format!("below {}: the pipeline's stages, from 0", plan.pipeline);
        return Err(Error::invalid("stage", asked.stage, allowed));
    }
    Ok(())
}

/// Which kind of block stands at each place of a stage.
fn blocks(job: &Job, plan: &Plan, split: Split, stage: u32) -> Vec<usize> {
    let graph = &job.graph;
    let of = |role: BlockRole| {
        let order = graph.order.iter().copied();
        order.filter(move |&kind| graph.blocks[kind].role == role)
    };
    let layers: Vec<usize> = of(BlockRole::Layer).collect();
    let mut stages = ranges(split, u64::from(plan.pipeline), layers.len());
    let range = stages.nth(stage as usize).unwrap_or_default();
    let mut kinds: Vec<usize> = Vec::new();
    if stage == 0 {
        kinds.extend(of(BlockRole::Embedding));
    }
    kinds.extend(&layers[range]);
    if stage + 1 == plan.pipeline {
        kinds.extend(of(BlockRole::Head));
    }
    kinds
}

/// A priced block as a link of the chain. The operator that holds most, with its gradient, stands
/// for the working set of both passes.
fn block(factor: &BlockFactor, role: BlockRole) -> Block {
    let held = &factor.activations;
    let (kept, selective) = (held.kept.value(), held.kept_selective.value());
    let layer = role == BlockRole::Layer;
    // the embedding's input are the tokens' numbers
    let input = match role {
        BlockRole::Embedding => held.input.value().min(kept),
        _ => held.input.value(),
    };
    let partial = SelectiveRecompute {
        kept_bytes: selective.max(input),
        again_s: factor.recompute_time(RecomputePolicy::Selective),
    };
    Block {
        forward_s: factor.forward_time(),
        backward_s: factor.backward_time(),
        input_bytes: input,
        kept_bytes: kept.max(input),
        forward_working_bytes: held.transient.value(),
        backward_working_bytes: held.transient.value(),
        partial: (layer && selective < kept).then_some(partial),
        repeats: layer,
    }
}

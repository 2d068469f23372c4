//! What does a step of a real model come to whose weights or state live beyond the device?

use super::compose::Composer;
use super::job::Job;
use super::recomputation_costs::kept_and_transient;
use super::report::arithmetic;
use super::verdict::with_composer;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::memory::offload::{
    Layer, OffloadReport, Rates, Scheme, StepWork, Tensor, Tier, TierBytes,
};
use crate::memory::{
    frozen_bytes, host_optimizer_traffic, optimizer_bytes, optimizer_traffic, weight_bytes,
};
use crate::plan::{Mesh, Plan, zero_spans};
use crate::workload::{BlockRole, Dim, MOST_LAYERS, Operator, Optimizer, Transformer};
use serde::{Deserialize, Serialize};

/// Most heads of a layer that a model is grown to.
const MOST_HEADS: u64 = 1 << 14;

/// A step that offloads, and what it means for the job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OffloadEstimate {
    /// The step of one device.
    #[serde(flatten)]
    pub step: OffloadReport,
    /// Trained and other parameters of the model.
    pub parameters: u64,
    /// Tokens per second of the whole job.
    pub tokens_per_s: f64,
    /// Model arithmetic per second and device.
    pub model_flops_per_s_per_device: f64,
    /// The same with what is recomputed.
    pub hardware_flops_per_s_per_device: f64,
}

/// How a model grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Growth {
    /// More layers of the same width.
    Layers,
    /// More heads in as many layers; widths of the stream and of feed-forward layers in step.
    Hidden,
}

/// The largest model of a family that fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LargestModel {
    /// Its parameters.
    pub parameters: u64,
    /// Its layers.
    pub layers: u64,
    /// Its width.
    pub hidden: u64,
    /// Bytes in each tier, of one device and its part of the rest.
    pub bytes: [f64; 3],
    /// One device's part of each tier.
    pub capacity_bytes: [f64; 3],
    /// Tiers that the next larger model overfills; none where 2^14 layers (or heads) still fit.
    pub binding: Vec<Tier>,
}

/// Runs a step of a plan with a scheme; the plan's pipeline is 1 and it offloads nothing itself.
///
/// Blocks are priced as `estimate` prices them. Ranks that hold the same weights share the state
/// (all of them, or those of the plan's ZeRO group).
pub fn offload(job: &Job, plan: &Plan, scheme: &Scheme) -> Result<OffloadEstimate> {
    let plan = offloading(job, plan, scheme)?;
    let rates = scheme.usable(Rates::of(&job.memories, job.capacity().value())?);
    let (work, [model, hardware]) = with_composer(job, &plan, |composer| {
        let (model, hardware) = arithmetic(composer);
        (work(composer), [model, hardware])
    })
    .map_err(|rule| Error::inconsistent(format!("plan: {rule}")))?;
    let step = scheme.run(&work, &rates)?;
    let each = step.step_time_s * f64::from(job.cluster.devices);
    Ok(OffloadEstimate {
        parameters: job.model.parameters().total,
        tokens_per_s: job.tokens() / step.step_time_s,
        model_flops_per_s_per_device: model / each,
        hardware_flops_per_s_per_device: hardware / each,
        step,
    })
}

impl Growth {
    /// The most layers, or heads, that a model is grown to.
    const fn most(self) -> u64 {
        match self {
            Self::Layers => MOST_LAYERS,
            Self::Hidden => MOST_HEADS,
        }
    }
}

/// The largest model that a scheme fits into the tiers, grown from the job's own model.
///
/// Doubles until one does not fit, then halves the interval: more layers (or width) never take
/// fewer bytes. Where as many layers as a model may have, or 16,384 heads, still fit nothing binds.
pub fn largest(
    job: &Job,
    plan: &Plan,
    scheme: &Scheme,
    growth: Growth,
    control: &Control,
) -> Result<LargestModel> {
    let plan = offloading(job, plan, scheme)?;
    let rates = scheme.usable(Rates::of(&job.memories, job.capacity().value())?);
    let unit = match growth {
        Growth::Layers => 1,
        Growth::Hidden => u64::from(plan.tensor.max(1)),
    };
    let most = growth.most().div_ceil(unit);
    let held = |size: u64| -> Result<(Transformer, TierBytes)> {
        if control.is_cancelled() {
            let what = "the largest model was not found yet".to_owned();
            return Err(Error::Cancelled { what });
        }
        let model = grow_model(&job.model, growth, size * unit)?;
        let grown = Job::new(&model, &job.cluster, &job.training, job.memory_margin)?;
        let work = with_composer(&grown, &plan, work);
        let work = work.map_err(|rule| Error::inconsistent(format!("plan: {rule}")))?;
        Ok((model, scheme.memory_use(&work, &rates)?))
    };
    let (mut low, mut best) = (0, None);
    let mut high = 1;
    let mut over = None;
    while over.is_none() && low < most {
        let found = held(high)?;
        if found.1.fits(&rates) {
            (low, best) = (high, Some(found));
            high = (high * 2).min(most);
        } else {
            over = Some(found.1);
        }
    }
    // where all fits there is nothing between that fits and that does not
    while over.is_some() && high - low > 1 {
        let middle = low.midpoint(high);
        let found = held(middle)?;
        if found.1.fits(&rates) {
            (low, best) = (middle, Some(found));
        } else {
            (high, over) = (middle, Some(found.1));
        }
    }
    let Some((model, fits)) = best else {
        let got = "a model of one layer (or head) that does not fit";
        return Err(Error::invalid(
            "model",
            got,
            "one that fits when it is small",
        ));
    };
    let over = over.unwrap_or(fits);
    Ok(LargestModel {
        parameters: model.parameters().total,
        layers: model.layers,
        hidden: model.hidden,
        bytes: Tier::ALL.map(|tier| fits.total(tier)),
        capacity_bytes: rates.capacity,
        binding: Tier::ALL
            .into_iter()
            .filter(|&tier| over.missing_bytes(&rates, tier) > 0.0)
            .collect(),
    })
}

/// The plan with the ZeRO stage of the scheme; refuses what no scheme runs.
fn offloading(job: &Job, plan: &Plan, scheme: &Scheme) -> Result<Plan> {
    if job.training.forward_only {
        let allowed = "false: offloading is for training";
        return Err(Error::invalid("training.forward_only", true, allowed));
    }
    if job.training.optimizer == Optimizer::Muon {
        let allowed = "adam, sgd, adafactor: no scheme runs matrix products on the host";
        return Err(Error::invalid("training.optimizer", "muon", allowed));
    }
    if plan.pipeline != 1 {
        let allowed = "1: every device runs all layers";
        return Err(Error::invalid("plan.pipeline", plan.pipeline, allowed));
    }
    if plan.token_slices.cuts() {
        let allowed = "1: no scheme moves what single slices keep";
        return Err(Error::invalid(
            "plan.token_slices",
            &plan.token_slices,
            allowed,
        ));
    }
    let homes = "none: the scheme has homes of its own";
    if plan.offload_optimizer {
        return Err(Error::invalid("plan.offload_optimizer", true, homes));
    }
    if plan.offload_activations > 0 {
        let share = plan.offload_activations;
        return Err(Error::invalid("plan.offload_activations", share, homes));
    }
    if !plan.recomputation().uniform() {
        let got = "recomputation of some layers only";
        return Err(Error::invalid(
            "plan.recompute",
            got,
            "one policy for all layers",
        ));
    }
    Ok(Plan {
        zero: scheme.zero_stage(),
        ..plan.clone()
    })
}

/// What one device does and holds, priced.
fn work(composer: &Composer) -> StepWork {
    let (job, plan) = (composer.job, composer.plan);
    let training = &job.training;
    let links = composer.links;
    let hidden = job.graph.hidden as f64;
    // what the device holds of a weight beyond the one that a scheme homes
    let element = training.precision.activation().bytes();
    let copies = weight_bytes(training, 0, false, false).map(|bytes| bytes - element);
    let mut working = 0.0_f64;
    let mut layers = Vec::with_capacity(job.graph.order.len());
    for &index in &job.graph.order {
        let (factor, block) = (&composer.factors.blocks[index], &job.graph.blocks[index]);
        let (dense, expert) = (factor.dense(false), factor.weights.expert);
        let still = [factor.weights.frozen, factor.weights.frozen_expert];
        let layer = block.role == BlockRole::Layer;
        // frozen weights are gathered with the others, where passes gather
        let gathered = if plan.stage() >= 3 { still } else { [0.0; 2] };
        let used = [dense + gathered[0], expert + gathered[1]];
        let ends = if layer { 0.0 } else { used[0] };
        let [copies, frozen] = [copies, frozen_bytes(training)].map(|of| of[usize::from(!layer)]);
        let (kept, again) = kept_and_transient(job, plan.recompute, factor, block.role);
        working = working.max(factor.activations.transient.value() + again);
        layers.push(Layer {
            forward_s: factor.forward_time(),
            backward_s: factor.backward_time() + factor.recompute_time(plan.recompute),
            gather_s: composer.gather_time(composer.narrowed(used, ends)),
            reduce_s: composer.reduce_time(dense, expert),
            elements: dense / links.dense.shards + expert / links.expert.shards,
            whole: dense + expert,
            frozen: still[0] / links.dense.shards + still[1] / links.expert.shards,
            frozen_whole: still[0] + still[1],
            frozen_element_bytes: frozen,
            copy_bytes: copies,
            kept_bytes: kept,
            repeats: layer,
        });
    }
    let rate = job.cluster.device.main_memory().sustained().value();
    StepWork {
        tensors: tensors(job, plan),
        shards: zero_spans(Mesh::new(plan).replicas, plan.zero_group).0.size,
        layers,
        micro_batches: plan.micro_batches(training.global_batch),
        working_bytes: working,
        reserve_bytes: job.cluster.device.reserved_memory.value(),
        weight_bytes: element,
        gradient_bytes: training.gradient.bytes(),
        state_bytes: optimizer_bytes(training, hidden),
        host_traffic: host_optimizer_traffic(training, hidden),
        device_update_s: optimizer_traffic(training, hidden) / rate,
    }
}

/// Trained tensors of one tensor rank along the model, each expert's its own.
fn tensors(job: &Job, plan: &Plan) -> Vec<Tensor> {
    let ranks = f64::from(plan.tensor);
    let mut found = Vec::new();
    for (layer, &index) in job.graph.order.iter().enumerate() {
        let operators = &job.graph.blocks[index].operators;
        let weights = operators.iter().flat_map(Operator::weights);
        for weight in weights.filter(|weight| weight.trained) {
            let first = weight.shape.first().filter(|e| e.dim == Dim::Expert);
            let copies = first.map_or(1, |experts| experts.size);
            let elements = (weight.elements() / copies as f64 / ranks).ceil();
            found.extend((0..copies).map(|_| Tensor { layer, elements }));
        }
    }
    found
}

/// The model with `size` layers, frozen ones in step, or with `size` heads a layer and its widths in step.
fn grow_model(model: &Transformer, growth: Growth, size: u64) -> Result<Transformer> {
    if growth == Growth::Layers {
        return Ok(Transformer {
            layers: size,
            // the same share of them stays as it is
            frozen_layers: model.frozen_layers * size / model.layers.max(1),
            ..model.clone()
        });
    }
    if model.kv_heads.is_some_and(|heads| heads != model.heads) {
        let allowed = "as many as heads, where a model grows in width";
        return Err(Error::invalid(
            "model.kv_heads",
            model.kv_heads.unwrap_or(0),
            allowed,
        ));
    }
    let width = model.head_dim.unwrap_or(model.hidden / model.heads.max(1));
    let hidden = width * size;
    Ok(Transformer {
        heads: size,
        kv_heads: None,
        hidden,
        ffn: model.ffn * hidden / model.hidden.max(1),
        ..model.clone()
    })
}

//! A priced plan as a person or a program reads it: totals, terms of the time, memory by stage.

use super::block::{class_name, purpose_name};
use super::compose::{Composer, PlanCost};
use super::job::Job;
use super::spill::SpilledPlan;
use super::verdict::Shortfall;
use crate::memory::Footprint;
use crate::plan::{Plan, Purpose, RecomputePolicy};
use crate::units::{Bytes, Dtype, Seconds};
use crate::workload::{Arithmetic, FlopConvention};
use serde::Serialize;

/// One line of the time breakdown. The lines add up to the step time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Term {
    /// What takes the time, as `matmul.forward` or `tensor.exposed`.
    pub term: String,
    /// `compute`, `communication`, `bubble` or `optimizer`.
    pub group: &'static str,
    /// Seconds on the critical path.
    pub time_s: f64,
    /// Seconds that run under other terms.
    pub hidden_s: f64,
}

/// Memory of one stage's ranks by class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageMemory {
    /// Stage.
    pub stage: u32,
    /// Weights in the compute format.
    pub weights_bytes: f64,
    /// Gradients.
    pub gradients_bytes: f64,
    /// Master weights and optimizer state.
    pub optimizer_bytes: f64,
    /// Kept activations of all micro-batches in flight.
    pub activations_bytes: f64,
    /// Of these, what embedding, head and loss keep.
    pub end_activations_bytes: f64,
    /// Gradients that come after the fullest moment; in no other class and not in the total.
    pub later_gradients_bytes: f64,
    /// Activations that layers keep and that are gone at the fullest moment, the update's; likewise.
    pub earlier_activations_bytes: f64,
    /// Working set of running operators.
    pub workspace_bytes: f64,
    /// Allocator loss.
    pub fragmentation_bytes: f64,
    /// Driver context and communicator buffers.
    pub reserve_bytes: f64,
    /// All of those together.
    pub total_bytes: f64,
    /// In host memory: offloaded activations and optimizer state.
    pub host_bytes: f64,
}

/// A priced plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The plan.
    pub plan: Plan,
    /// Time of an optimizer step.
    pub step_time_s: f64,
    /// Bytes of the fullest rank, those that `offload_estimate` lays into other tiers among them.
    pub peak_memory_bytes: f64,
    /// Bytes that a plan may use on a device.
    pub memory_capacity_bytes: f64,
    /// Bytes in the host memory of the fullest node.
    pub host_memory_bytes: f64,
    /// Host memory of a node, where it is known.
    pub host_capacity_bytes: Option<f64>,
    /// True where the plan fits.
    pub fits: bool,
    /// What is missing where it does not.
    pub shortfall: Option<Shortfall>,
    /// What lies in tiers behind device memory, where the plan fits in no other way; times are with
    /// the transfers.
    pub offloaded: Option<SpilledPlan>,
    /// Tokens per second of the whole job.
    pub tokens_per_s: f64,
    /// Tokens per second and device.
    pub tokens_per_s_per_device: f64,
    /// Matrix arithmetic of the model per step: three forward passes' worth, full attention.
    pub model_flops_per_step: f64,
    /// The same with what is recomputed.
    pub hardware_flops_per_step: f64,
    /// Model arithmetic per second and device.
    pub model_flops_per_s_per_device: f64,
    /// Dense peak that utilisation refers to.
    pub peak_flops_per_s_per_device: f64,
    /// Format in which the matrix engine multiplies: that of the job, or the one that stands in for what the device
    /// lacks, as fp16 for bf16 before Ampere.
    pub engine_format: Option<Dtype>,
    /// Model FLOPs utilisation. Frozen weights count as if they were trained and dropped tokens as if an expert had
    /// taken them, so that it may exceed 1 where most of either are.
    pub mfu: f64,
    /// Hardware FLOPs utilisation.
    pub hfu: f64,
    /// Energy of a step.
    pub energy_j_per_step: f64,
    /// Price of a step, where prices are known.
    pub cost_usd_per_step: Option<f64>,
    /// Steps of the run, where its length is given.
    pub run_steps: Option<f64>,
    /// Time of the run.
    pub run_time_s: Option<f64>,
    /// Energy of the run.
    pub run_energy_j: Option<f64>,
    /// Price of the run.
    pub run_cost_usd: Option<f64>,
    /// Micro-batches per replica and step.
    pub micro_batches: u64,
    /// Where the time goes on the busiest stage.
    pub time: Vec<Term>,
    /// Memory of each stage.
    pub memory: Vec<StageMemory>,
    /// True where the device's constants were fitted to measurements of it.
    pub calibrated: bool,
    /// What the device's constants rest on.
    pub calibration_basis: String,
}

impl Estimate {
    /// Views a composed plan.
    pub(super) fn new(composer: &Composer, composed: &PlanCost) -> Self {
        let job = composer.job;
        let devices = f64::from(job.cluster.devices);
        let step = composed.time;
        let (model, hardware) = arithmetic(composer);
        let asked = job.training.precision.matmul();
        let peak = job
            .cluster
            .device
            .matrix_peak(asked)
            .map_or(f64::NAN, crate::units::FlopsPerSecond::value);
        let energy = composer.energy(composed);
        let cost = crate::economics::cost(&job.cluster, Seconds::new(step), energy);
        let run_steps = job.training.run_tokens.map(|tokens| tokens / job.tokens());
        // time in which no step counts is priced as if one ran
        let run = run_steps.map(|steps| steps / job.training.goodput);
        let rate = model / step / devices;
        Self {
            plan: composer.plan.clone(),
            step_time_s: step,
            peak_memory_bytes: composed.memory,
            memory_capacity_bytes: job.capacity().value(),
            host_memory_bytes: composed.host,
            host_capacity_bytes: job.host_capacity().map(Bytes::value),
            fits: composed.fits(job),
            shortfall: None,
            offloaded: None,
            tokens_per_s: job.tokens() / step,
            tokens_per_s_per_device: job.tokens() / step / devices,
            model_flops_per_step: model,
            hardware_flops_per_step: hardware,
            model_flops_per_s_per_device: rate,
            peak_flops_per_s_per_device: peak,
            engine_format: job.cluster.device.engine_format(asked),
            mfu: rate / peak,
            hfu: hardware / step / devices / peak,
            energy_j_per_step: energy.value(),
            cost_usd_per_step: cost.map(crate::units::Dollars::value),
            run_steps,
            run_time_s: run.map(|n| n * step),
            run_energy_j: run.map(|n| n * energy.value()),
            run_cost_usd: run.zip(cost).map(|(n, c)| n * c.value()),
            micro_batches: composer.plan.micro_batches(job.training.global_batch),
            time: terms(composer, composed),
            memory: memory(composer),
            calibrated: job.cluster.device.calibration.measured,
            calibration_basis: job.cluster.device.calibration.basis.clone(),
        }
    }
}

impl Estimate {
    /// The same plan with tensors in other tiers: the step is longer by its transfers, and it fits.
    pub fn with_offload(mut self, job: &Job, offloaded: SpilledPlan) -> Self {
        let slower = offloaded.step_time_s / self.step_time_s;
        self.step_time_s = offloaded.step_time_s;
        for rate in [
            &mut self.tokens_per_s,
            &mut self.tokens_per_s_per_device,
            &mut self.model_flops_per_s_per_device,
            &mut self.mfu,
            &mut self.hfu,
        ] {
            *rate /= slower;
        }
        // devices wait while transfers run
        let waiting = Seconds::new(offloaded.transfers_s);
        let energy = crate::economics::energy(&job.cluster, waiting, Seconds::ZERO);
        self.energy_j_per_step += energy.value();
        let joules = crate::units::Joules::new(self.energy_j_per_step);
        let cost = crate::economics::cost(&job.cluster, Seconds::new(self.step_time_s), joules);
        self.cost_usd_per_step = cost.map(crate::units::Dollars::value);
        let run = self.run_steps.map(|steps| steps / job.training.goodput);
        self.run_time_s = run.map(|steps| steps * self.step_time_s);
        self.run_energy_j = run.map(|steps| steps * self.energy_j_per_step);
        self.run_cost_usd = run.zip(self.cost_usd_per_step).map(|(n, c)| n * c);
        self.time.push(Term {
            term: "tier_transfers".to_owned(),
            group: "communication",
            time_s: offloaded.transfers_s,
            hidden_s: 0.0,
        });
        self.fits = true;
        self.shortfall = None;
        self.offloaded = Some(offloaded);
        self
    }
}

/// Forward arithmetic of layers that a policy repeats.
fn repeated(forward: &Arithmetic, policy: RecomputePolicy) -> f64 {
    match policy {
        RecomputePolicy::None => 0.0,
        RecomputePolicy::Selective => forward.selective.value(),
        RecomputePolicy::Full => forward.full.value(),
    }
}

/// Model and hardware arithmetic of a step: backward is twice forward, recomputation once more; hardware leaves out what
/// frozen weights do not need.
pub(super) fn arithmetic(composer: &Composer) -> (f64, f64) {
    let job = composer.job;
    let forward = job.graph.arithmetic(job.training.sequence);
    let batch = job.training.global_batch as f64;
    if job.training.forward_only {
        let model = forward.total().value() * batch;
        return (model, model);
    }
    let counted = job
        .model
        .flops_per_token(job.training.sequence, FlopConvention::Model);
    let model = counted.value() * job.tokens();
    let choice = composer.plan.recomputation();
    let again = if choice.uniform() {
        repeated(&forward, choice.policy)
    } else {
        let blocks = &job.graph.blocks;
        let orders = composer.chunks.layer_orders();
        let layers = orders.flat_map(|order| order.blocks().enumerate());
        layers
            .map(|(place, block)| {
                let one = job.graph.arithmetic_of([block], job.training.sequence);
                repeated(&one, choice.of(place, blocks[block].has_experts()))
            })
            .sum()
    };
    (model, model + (again - forward.frozen.value()) * batch)
}

fn terms(composer: &Composer, composed: &PlanCost) -> Vec<Term> {
    let rounds = composer.micro_batches();
    let mut lines = composer.rank_lines(composed);
    let expert = Purpose::Expert as usize;
    for (line, unpaired) in lines.iter_mut().zip(composer.sums.unpaired) {
        let hidden = line.hidden[expert];
        line.exposed[expert] += unpaired / rounds;
        line.hidden[expert] -= (unpaired / rounds).min(hidden);
    }
    let mut terms = Vec::new();
    let mut push = |term: String, group, time_s: f64, hidden_s: f64| {
        if time_s > 0.0 || hidden_s > 0.0 {
            terms.push(Term {
                term,
                group,
                time_s,
                hidden_s,
            });
        }
    };
    for (phase, lines) in ["forward", "backward", "recompute"].iter().zip(&lines) {
        for (index, seconds) in lines.compute.iter().enumerate() {
            push(
                format!("{}.{phase}", class_name(index)),
                "compute",
                seconds * rounds,
                0.0,
            );
        }
        for (index, (exposed, hidden)) in lines.exposed.iter().zip(&lines.hidden).enumerate() {
            let name = format!("{}_parallel.{phase}", purpose_name(index));
            push(name, "communication", exposed * rounds, hidden * rounds);
        }
    }
    for (term, group, exposed, hidden) in outside_blocks(composer, composed) {
        push(term.to_owned(), group, exposed, hidden);
    }
    terms
}

/// Traffic of shards in a step that its passes hide; none where slices of sequences share their gathers.
pub(super) fn shards_hidden(composer: &Composer, composed: &PlanCost) -> f64 {
    if composer.is_sliced() {
        return 0.0;
    }
    let lanes = composer.lanes();
    let all = [0, 1, 2].map(|position| lanes.shard_seconds(position));
    let shares = &composer.facts.shares;
    let all: f64 = shares.passes(&all, composed.busiest, |seconds| *seconds);
    (all * composer.micro_batches() - composed.parts.shard_exposed).max(0.0)
}

/// The terms that lie outside blocks: name, group, seconds exposed and hidden.
fn outside_blocks(
    composer: &Composer,
    composed: &PlanCost,
) -> [(&'static str, &'static str, f64, f64); 10] {
    let parts = &composed.parts;
    let shards = if composer.plan.stage() == 2 {
        "sharded_gradients" // weights are whole
    } else {
        "sharded_weights"
    };
    let optimizer = if composer.plan.offload_optimizer {
        "host_optimizer"
    } else {
        "optimizer"
    };
    let traffic = |term, exposed, hidden| (term, "communication", exposed, hidden);
    let reduced = (parts.gradient_exposed, parts.gradient_hidden);
    let gathered = (parts.gather_exposed, parts.gather_hidden);
    let kept = (parts.offload_exposed, parts.offload_hidden);
    let away = (parts.to_host_exposed, parts.to_host_hidden);
    let back = (parts.from_host_exposed, parts.from_host_hidden);
    [
        traffic("stage_to_stage", parts.send, 0.0),
        traffic(
            shards,
            parts.shard_exposed,
            shards_hidden(composer, composed),
        ),
        traffic("activation_offload", kept.0, kept.1),
        ("bubble", "bubble", parts.bubble, 0.0),
        traffic("gradient_reduction", reduced.0, reduced.1),
        traffic("weight_gather", gathered.0, gathered.1),
        traffic("tied_embedding_sum", parts.embedding_sync, 0.0),
        traffic("gradients_to_host", away.0, away.1),
        (optimizer, "optimizer", parts.optimizer, 0.0),
        traffic("weights_from_host", back.0, back.1),
    ]
}

fn memory(composer: &Composer) -> Vec<StageMemory> {
    (0..composer.plan.pipeline)
        .map(|stage| view(stage, &composer.footprint(stage)))
        .collect()
}

fn view(stage: u32, footprint: &Footprint) -> StageMemory {
    StageMemory {
        stage,
        weights_bytes: footprint.weights.value(),
        gradients_bytes: footprint.gradients.value(),
        optimizer_bytes: footprint.optimizer.value(),
        activations_bytes: footprint.activations.value(),
        end_activations_bytes: footprint.ends.value(),
        later_gradients_bytes: footprint.late.value(),
        earlier_activations_bytes: footprint.gone.value(),
        workspace_bytes: footprint.workspace.value(),
        fragmentation_bytes: footprint.fragmentation.value(),
        reserve_bytes: footprint.reserve.value(),
        total_bytes: footprint.total().value(),
        host_bytes: footprint.host.value(),
    }
}

//! Why each term of an estimate is what it is: formula, inputs, source.

use super::block::{class_name, purpose_name};
use super::chunk::BlockCounts;
use super::compose::{Composer, PlanCost};
use super::layer_order::LayerOrder;
use super::price::Pricer;
use super::recomputation_costs::deal_to_policies;
use super::report::shards_hidden;
use super::slices::programs;
use super::task_labels::{count, duration, kernel_line, size, traffic_line};
use crate::plan::{Purpose, RecomputePolicy, Task, repeats};
use crate::units::{Bytes, Seconds};
use crate::workload::BlockRole;
use serde::Serialize;
use std::collections::BTreeMap;

/// One term's formula with the numbers that went into it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The term, as in the time breakdown.
    pub term: String,
    /// What is computed.
    pub formula: &'static str,
    /// Where the formula comes from.
    pub source: &'static str,
    /// The numbers, in words: one line per distinct kernel or collective.
    pub inputs: Vec<String>,
}

const FORMULAS: [(&str, &str, &str); 18] = [
    (
        "matmul",
        "launch + sqrt(engine^2 + memory^2); engine: least over tile shapes and splits of waves x time of a tile at the sustained rate; memory: bytes over the sustained bandwidth",
        "roofline: Williams et al. 2009; wave quantisation: NVIDIA matrix multiplication guide; constants: device catalog",
    ),
    (
        "attention",
        "fused: launch + sqrt(engine^2 + memory^2), engine: blocks of queries x visible keys at the sustained rate; plain: batched products + passes over the scores",
        "Dao 2023 (FlashAttention-2), section 3; Korthikanti et al. 2022, figure 2",
    ),
    (
        "elementwise",
        "bytes read and written over the sustained memory bandwidth + launches",
        "roofline: Williams et al. 2009; passes per operator stand beside each operator in the engine",
    ),
    (
        "state_space",
        "kernel by kernel: launch + max(bytes over the sustained memory bandwidth, bytes and products at a pace that goes with the peak of the vector engine, as timed on H100; of a gated delta rule no less than its chunks in turn)",
        "Dao and Gu 2024 (arXiv 2405.21060), sections 6 and 7; pace: kernels of mamba-ssm timed on H100, vllm-project/vllm pull request 27299; gated delta rule: Yang et al. 2024 (arXiv 2412.06464), section 3; kernels of flash-linear-attention timed on H200, QwenLM/FlashQLA",
    ),
    (
        "tensor_parallel",
        "collectives where layouts differ: least over algorithms of fixed + bytes x per byte, less what weight gradients hide; in k chunks of t beside products of p: max(t + contention (k-1) t, k t - (k-1) p)",
        "Shoeybi et al. 2019, section 3; Korthikanti et al. 2022, section 4.2.2; Thakur et al. 2005; chunks: Wang et al. 2023 (ASPLOS), section 4; grids: Pope et al. 2022, section 3.2.2",
    ),
    (
        "context_parallel",
        "all-gather of keys and values (and reduce-scatter of their gradients), less what attention hides; all-to-all of positions for heads around a state-space scan or delta rule",
        "Liu et al. 2023 (ring attention); Llama 3 Herd 2024, section 3.3.2; scans: Megatron-Core, MambaContextParallel",
    ),
    (
        "expert_parallel",
        "all-to-all of tokens x top-k x width to the experts and back, at the most loaded rank, less what shared experts and opposite passes hide; the first forward and the last backward pass have no opposite one",
        "Lepikhin et al. 2020 (GShard), section 3.2; shared experts: Rajbhandari et al. 2022 (DeepSpeed-MoE); opposite passes: combined_1f1b.py of NVIDIA/Megatron-LM",
    ),
    (
        "stage_to_stage",
        "micro-batches x (message of tokens x width / tensor + all-gather that rejoins the parts)",
        "Narayanan et al. 2021, section 4.1",
    ),
    (
        "sharded_weights",
        "per micro-batch: max(one layer's share, traffic - compute that hides it)",
        "Rajbhandari et al. 2020, section 7; Zhao et al. 2023 (PyTorch FSDP), section 4",
    ),
    (
        "bubble",
        "makespan of the schedule less the work of the busiest stage",
        "Narayanan et al. 2021, section 2.2; exact recurrence of the schedule",
    ),
    (
        "gradient_reduction",
        "reduction of a rank's gradients over its replicas; exposed: max(one layer's share, traffic - last backward pass), and the sum over copies of a stage inside the pipeline, behind all passes",
        "Li et al. 2020 (PyTorch DDP), section 3.2.3; Rajbhandari et al. 2020, section 7",
    ),
    (
        "weight_gather",
        "all-gather of updated weights over the shards; exposed: max(one layer's share, traffic - first forward pass)",
        "Rajbhandari et al. 2020, section 7.2",
    ),
    (
        "launches",
        "of a block's pass: max(0, what the host takes to issue its kernels - their time on the device); all of it where the host waits for each kernel",
        "docs/software.md, what the fields do to a step",
    ),
    (
        "optimizer",
        "trained elements per rank x bytes moved per element / sustained memory bandwidth; whole gradients cleared and divided by the replicas; casts of weights to a narrow format, where the software does them once a step",
        "bytes per element: five passes over gradients (seven in fp16), state and master weights read and written, weights written",
    ),
    (
        "activation_offload",
        "per micro-batch and direction: max(one layer's share, copy - pass that hides it); copy: offloaded share of kept activations over the host link's sustained rate",
        "Rhu et al. 2016 (vDNN), section 3; Ren et al. 2021 (ZeRO-Offload); link: 80% of its rate, nvbandwidth on A100",
    ),
    (
        "gradients_to_host",
        "gradients of the elements that a rank updates over the host link; exposed: max(one layer's share, copy - last backward pass)",
        "Ren et al. 2021 (ZeRO-Offload), section 4",
    ),
    (
        "host_optimizer",
        "trained elements per rank x bytes moved per element / the device's part of the host memory's sustained rate",
        "Ren et al. 2021 (ZeRO-Offload), section 5.1: gradient written and read, state read and written, weights written and read",
    ),
    (
        "weights_from_host",
        "updated weights of a rank over the host link; exposed: max(one layer's share, copy - update on the host)",
        "Ren et al. 2021 (ZeRO-Offload), section 5.1",
    ),
];

/// Explains every term of a composed plan.
pub(super) fn explain(
    composer: &Composer,
    composed: &PlanCost,
    terms: &[String],
) -> Vec<Explanation> {
    let inputs = inputs(composer, composed);
    terms
        .iter()
        .map(|term| {
            let (formula, source) = formula(term);
            Explanation {
                term: term.clone(),
                formula,
                source,
                inputs: inputs
                    .get(term)
                    .cloned()
                    .unwrap_or_else(|| totals(composer, composed, term)),
            }
        })
        .collect()
}

fn formula(term: &str) -> (&'static str, &'static str) {
    let kind = term.split('.').next().unwrap_or(term);
    let family = match kind {
        "experts" | "head" => "matmul",
        "normalization" | "embedding" | "loss" | "routing" => "elementwise",
        "tied_embedding_sum" => "gradient_reduction",
        "sharded_gradients" => "sharded_weights",
        other => other,
    };
    FORMULAS
        .iter()
        .find(|(name, ..)| *name == family)
        .map_or(("", ""), |(_, formula, source)| (formula, source))
}

/// What went into terms that come from blocks, by term.
fn inputs(composer: &Composer, composed: &PlanCost) -> BTreeMap<String, Vec<String>> {
    let mut lines: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    let mut pricer = Pricer::new(&composer.job.cluster);
    for (counts, layers, times) in composer.rank_counts(composed) {
        add(composer, (counts, layers), times, &mut pricer, &mut lines);
    }
    let listed = |counts: BTreeMap<String, f64>| {
        counts
            .into_iter()
            .map(|(line, times)| format!("{} x {line}", count(times)))
            .collect()
    };
    lines
        .into_iter()
        .map(|(term, counts)| (term, listed(counts)))
        .collect()
}

fn add(
    composer: &Composer,
    (counts, layers): (&BlockCounts, &LayerOrder),
    chunks: f64,
    pricer: &mut Pricer,
    lines: &mut BTreeMap<String, BTreeMap<String, f64>>,
) {
    let job = composer.job;
    let rounds = composer.micro_batches() * chunks;
    let dealt = deal_to_policies(job, counts, layers, composer.plan.recomputation());
    for (at, block) in job.graph.blocks.iter().enumerate() {
        let times = counts[at] * rounds;
        if times == 0.0 {
            continue;
        }
        let mut note = |tasks: &[Task], index: usize, phase: &str, times: f64| {
            for (term, line) in term_lines(tasks, index, pricer) {
                let entry = lines.entry(format!("{term}.{phase}")).or_default();
                *entry.entry(line).or_default() += times;
            }
        };
        let layer = block.role == BlockRole::Layer;
        for program in programs(job, composer.plan, at) {
            for (index, task) in program.forward.iter().enumerate() {
                note(&program.forward, index, "forward", times);
                let again = |policy: &RecomputePolicy| layer && repeats(*policy, task.recompute());
                for policy in RecomputePolicy::ALL.into_iter().filter(again) {
                    let times = dealt[policy as usize][at] * rounds;
                    if times > 0.0 {
                        note(&program.forward, index, "recompute", times);
                    }
                }
            }
            for index in 0..program.backward.len() {
                note(&program.backward, index, "backward", times);
            }
        }
    }
}

/// The terms that the task at `index` belongs to, without its phase, with a line for each.
fn term_lines(tasks: &[Task], index: usize, pricer: &mut Pricer) -> Vec<(String, String)> {
    let parallel = |purpose: Purpose| format!("{}_parallel", purpose_name(purpose as usize));
    let (kernel, traffic) = match &tasks[index] {
        Task::Compute { class, .. } => (Some(*class), None),
        Task::Communicate { purpose, .. } => (None, Some(*purpose)),
        Task::Chunked { class, .. } => (Some(*class), Some(Purpose::Tensor)),
    };
    let kernel = kernel.map(|class| class_name(class as usize).to_owned());
    let kernel = kernel.zip(kernel_line(&tasks[index], pricer));
    let traffic = traffic.map(parallel);
    let traffic = traffic.zip(traffic_line(tasks, index, pricer));
    kernel.into_iter().chain(traffic).collect()
}

/// Inputs of the terms that lie outside blocks.
fn totals(composer: &Composer, composed: &PlanCost, term: &str) -> Vec<String> {
    let plan = composer.plan;
    let parts = &composed.parts;
    match term {
        "bubble" => vec![
            format!(
                "pipeline = {}, interleave = {}",
                plan.pipeline, plan.interleave
            ),
            format!("micro-batches = {}", count(composer.micro_batches())),
            format!("makespan: {}", duration(Seconds::new(parts.pipeline))),
        ],
        "stage_to_stage" => messages(composer),
        "gradient_reduction" => sharing(composer, parts.gradient_exposed, parts.gradient_hidden),
        "weight_gather" => sharing(composer, parts.gather_exposed, parts.gather_hidden),
        "optimizer" => sharing(composer, parts.optimizer, 0.0),
        "sharded_weights" | "sharded_gradients" => {
            let hidden = shards_hidden(composer, composed);
            sharing(composer, parts.shard_exposed, hidden)
        }
        "activation_offload" => host(composer, parts.offload_exposed, parts.offload_hidden),
        "gradients_to_host" => host(composer, parts.to_host_exposed, parts.to_host_hidden),
        "weights_from_host" => host(composer, parts.from_host_exposed, parts.from_host_hidden),
        "host_optimizer" => host(composer, parts.optimizer, 0.0),
        "tied_embedding_sum" => vec![format!(
            "all-reduce between first and last stage: {}",
            duration(Seconds::new(parts.embedding_sync))
        )],
        _ => Vec::new(),
    }
}

/// What one message between stages takes, by how far they lie apart.
fn messages(composer: &Composer) -> Vec<String> {
    let slices = composer.state.slices.iter();
    let slices = slices.zip(
        composer
            .plan
            .token_slices
            .of(composer.job.training.sequence),
    );
    let sliced = slices.map(|(state, [tokens, _])| {
        let time = duration(Seconds::new(state.borders.slowest()));
        format!("message of a slice of {tokens} tokens: {time}")
    });
    let mut lines: Vec<String> = sliced.collect();
    if !lines.is_empty() {
        lines.dedup();
        lines.push(format!(
            "micro-batches = {}",
            count(composer.micro_batches())
        ));
        return lines;
    }
    let borders = &composer.state.borders;
    let micro_batches = format!("micro-batches = {}", count(composer.micro_batches()));
    if !borders.unlike() {
        let message = format!("one message: {}", duration(Seconds::new(borders.slowest())));
        return vec![message, micro_batches];
    }
    let far = borders.distances().map(|(every, seconds)| {
        let time = duration(Seconds::new(seconds));
        match every {
            1 => format!("one message between nearest stages: {time}"),
            every => format!("one message behind every {every} stages: {time}"),
        }
    });
    far.chain([micro_batches]).collect()
}

/// What travels between device and host, and what that costs a step.
fn host(composer: &Composer, exposed: f64, hidden: f64) -> Vec<String> {
    let rate = 1.0 / composer.host_copy(1.0);
    let devices = count(composer.node_devices());
    let mut lines = vec![
        format!("host link: {} a second each way", size(Bytes::new(rate))),
        format!("devices that share a host's memory: {devices}"),
    ];
    if composer.plan.offload_activations > 0 {
        let percent = composer.plan.offload_activations;
        lines.push(format!("offload_activations = {percent}%"));
    }
    lines.push(a_step(exposed, hidden));
    lines
}

/// What a step pays, and what runs under compute.
fn a_step(exposed: f64, hidden: f64) -> String {
    let [exposed, under] = [exposed, hidden].map(|time| duration(Seconds::new(time)));
    if hidden > 0.0 {
        format!("a step: {exposed} exposed, {under} under compute")
    } else {
        format!("a step: {exposed}")
    }
}

/// How weights and gradients are shared, and what that costs a step.
fn sharing(composer: &Composer, exposed: f64, hidden: f64) -> Vec<String> {
    let mut lines = vec![format!("zero = {}", composer.plan.zero)];
    if composer.plan.collectives.forced().is_some() {
        lines.push(format!("collectives = {}", composer.plan.collectives));
    }
    let experts = composer.plan.expert > 1;
    for (name, group) in [
        ("weights", &composer.links.dense),
        ("experts", &composer.links.expert),
    ] {
        if name == "weights" || experts {
            let (replicas, shards) = (count(f64::from(group.size)), count(group.shards));
            lines.push(format!(
                "{name}: {replicas} replicas, {shards} shards of a copy"
            ));
        }
    }
    lines.push(a_step(exposed, hidden));
    lines
}

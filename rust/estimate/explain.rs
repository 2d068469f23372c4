//! Why each term of an estimate is what it is: formula, inputs, source.

use super::block::{class_name, purpose_name};
use super::chunk::Counts;
use super::compose::{Composed, Composer};
use super::price::Pricer;
use crate::plan::{Task, lower, repeats};
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

const FORMULAS: [(&str, &str, &str); 12] = [
    (
        "matmul",
        "least over tile shapes of max(waves of tiles at the sustained rate, bytes over bandwidth) + launch",
        "roofline: Williams et al. 2009; wave quantisation: NVIDIA matrix multiplication guide; constants: device catalog",
    ),
    (
        "attention",
        "fused: FLOPs of visible scores at the kernel's sustained rate; plain: batched products + passes over the scores",
        "Dao 2023 (FlashAttention-2), section 3; Korthikanti et al. 2022, figure 2",
    ),
    (
        "elementwise",
        "bytes read and written over the sustained memory bandwidth + launches",
        "roofline: Williams et al. 2009; passes per operator stand beside each operator in the engine",
    ),
    (
        "tensor_parallel",
        "collectives where layouts differ: least over algorithms of fixed + bytes x per byte, less what weight gradients hide",
        "Shoeybi et al. 2019, section 3; Korthikanti et al. 2022, section 4.2.2; Thakur et al. 2005",
    ),
    (
        "context_parallel",
        "all-gather of keys and values (and reduce-scatter of their gradients), less what attention hides",
        "Liu et al. 2023 (ring attention); Llama 3 Herd 2024, section 3.3.2",
    ),
    (
        "expert_parallel",
        "all-to-all of tokens x top-k x width to the experts and back, at the most loaded rank",
        "Lepikhin et al. 2020 (GShard), section 3.2",
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
        "reduction of a rank's gradients over its replicas; exposed: max(one layer's share, traffic - last backward pass)",
        "Li et al. 2020 (PyTorch DDP), section 3.2.3; Rajbhandari et al. 2020, section 7",
    ),
    (
        "weight_gather",
        "all-gather of updated weights over the shards; exposed: max(one layer's share, traffic - first forward pass)",
        "Rajbhandari et al. 2020, section 7.2",
    ),
    (
        "optimizer",
        "trained elements per rank x bytes moved per element / sustained memory bandwidth",
        "bytes per element: gradients three times, state read and written, weights written",
    ),
];

/// Explains every term of a composed plan.
pub(super) fn explain(
    composer: &Composer,
    composed: &Composed,
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
        other => other,
    };
    FORMULAS
        .iter()
        .find(|(name, ..)| *name == family)
        .map_or(("", ""), |(_, formula, source)| (formula, source))
}

/// What went into terms that come from blocks, by term.
fn inputs(composer: &Composer, composed: &Composed) -> BTreeMap<String, Vec<String>> {
    let mut lines: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    let mut pricer = Pricer::new(&composer.job.cluster);
    let chunks = composer.chunks;
    let own = match composed.busiest {
        0 => &chunks.first,
        2 => &chunks.last,
        _ => chunks
            .middle
            .get(composer.sums.slowest_middle)
            .unwrap_or(&chunks.first),
    };
    add(composer, own, 1.0, &mut pricer, &mut lines);
    if let Some(middle) = chunks.middle.get(composer.sums.slowest_middle) {
        let times = f64::from(composer.plan.interleave) - 1.0;
        add(composer, middle, times, &mut pricer, &mut lines);
    }
    let describe = |counts: BTreeMap<String, f64>| {
        counts
            .into_iter()
            .map(|(line, count)| format!("{count} x {line}"))
            .collect()
    };
    lines
        .into_iter()
        .map(|(term, counts)| (term, describe(counts)))
        .collect()
}

fn add(
    composer: &Composer,
    counts: &Counts,
    times: f64,
    pricer: &mut Pricer,
    lines: &mut BTreeMap<String, BTreeMap<String, f64>>,
) {
    let job = composer.job;
    let rounds = composer.micro_batches() * times;
    for (index, block) in job.graph.blocks.iter().enumerate() {
        let count = counts[index] * rounds;
        if count == 0.0 {
            continue;
        }
        let program = lower(&job.graph, index, &job.training, composer.plan);
        let mut note = |task: &Task, phase: &str| {
            let (name, line) = describe(task, pricer);
            let entry = lines.entry(format!("{name}.{phase}")).or_default();
            *entry.entry(line).or_default() += count;
        };
        for task in &program.forward {
            note(task, "forward");
            let again = match task {
                Task::Compute { recompute, .. } | Task::Communicate { recompute, .. } => *recompute,
            };
            if block.role == BlockRole::Layer && repeats(composer.plan.recompute, again) {
                note(task, "recompute");
            }
        }
        for task in &program.backward {
            note(task, "backward");
        }
    }
}

/// The term that a task belongs to (without its phase) and the task in words.
fn describe(task: &Task, pricer: &mut Pricer) -> (String, String) {
    match task {
        Task::Compute { class, kernel, .. } => {
            let cost = pricer.kernel(kernel);
            let line = format!(
                "{kernel}: {:.1} us, {:.3} GFLOP, {:.3} MB",
                cost.time.value() * 1e6,
                cost.flops.value() / 1e9,
                cost.traffic.value() / 1e6
            );
            (class_name(*class as usize).to_owned(), line)
        }
        Task::Communicate {
            purpose,
            collective,
            span,
            bytes,
            under,
            ..
        } => {
            let time = pricer.forms(*collective, *span).time(*bytes);
            let cover = if under.is_some() {
                ", under a kernel"
            } else {
                ""
            };
            let line = format!(
                "{collective} of {:.3} MB over {} ranks {} apart: {:.1} us{cover}",
                bytes.value() / 1e6,
                span.size,
                span.stride,
                time.value() * 1e6
            );
            (
                format!("{}_parallel", purpose_name(*purpose as usize)),
                line,
            )
        }
    }
}

/// Inputs of the terms that lie outside blocks.
fn totals(composer: &Composer, composed: &Composed, term: &str) -> Vec<String> {
    let plan = composer.plan;
    let parts = &composed.parts;
    match term {
        "bubble" => vec![
            format!(
                "pipeline = {}, interleave = {}",
                plan.pipeline, plan.interleave
            ),
            format!("micro-batches = {}", composer.micro_batches()),
            format!("makespan = {:.6} s", parts.pipeline),
        ],
        "stage_to_stage" => vec![format!("one message: {:.1} us", composer.hop() * 1e6)],
        "gradient_reduction" | "weight_gather" | "optimizer" | "sharded_weights" => vec![
            format!(
                "replicas = {}, shards = {}",
                composer.links.dense.size, composer.links.dense.shards
            ),
            format!("zero = {}", plan.zero),
        ],
        _ => Vec::new(),
    }
}

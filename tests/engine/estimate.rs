//! Does an estimate obey physics: no faster than the machine, faster on a better one, its parts whole?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

use crate::worlds;

use proptest::prelude::*;
use scalewright::control::Control;
use scalewright::estimate::{Estimate, Job, StageMemory, price};
use scalewright::hardware::{Cluster, Library, Line};
use scalewright::plan::{Plan, RecomputePolicy, Schedule, Task, check, lower};
use scalewright::search::{Limits, Space, search};
use scalewright::units::Seconds;
use worlds::jobs::{self, priced};

/// Seconds that rounding may shift.
const SLACK: f64 = 1e-9;

fn rises(values: &[f64]) -> bool {
    values.windows(2).all(|w| w[0] <= w[1] + w[1].abs() * SLACK)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= SLACK * a.abs().max(b.abs())
}

/// Arithmetic and main-memory traffic of a micro-batch on one rank of each stage together.
fn compulsory(job: &Job, plan: &Plan) -> (f64, f64) {
    let mut sum = (0.0, 0.0);
    for &block in &job.graph.order {
        let program = lower(&job.graph, block, &job.training, plan);
        for task in program.forward.iter().chain(&program.backward) {
            if let Task::Compute { kernel, .. } = task {
                let cost = kernel.cost(&job.cluster.device);
                sum.0 += cost.flops.value();
                sum.1 += cost.traffic.value();
            }
            if let Task::Chunked { kernel, chunks, .. } = task {
                let cost = kernel.cost(&job.cluster.device);
                sum.0 += f64::from(*chunks) * cost.flops.value();
                sum.1 += f64::from(*chunks) * cost.traffic.value();
            }
        }
    }
    sum
}

/// The same job on another cluster.
fn moved(job: &Job, change: impl FnOnce(&mut Cluster)) -> Job {
    let mut cluster = job.cluster.clone();
    change(&mut cluster);
    cluster.check().unwrap();
    Job::new(&job.model, &cluster, &job.training, job.memory_margin).unwrap()
}

/// The job on a cluster of which one rate, or the memory, is `factor` times as large.
fn better(job: &Job, which: usize, factor: f64) -> Job {
    moved(job, |cluster| {
        let tier = cluster.device.tiers.last_mut().unwrap();
        match which {
            0 => tier.bandwidth = tier.bandwidth * factor,
            1 => tier.capacity = tier.capacity * factor,
            2 => cluster
                .device
                .matrix
                .values_mut()
                .for_each(|peak| *peak = *peak * factor),
            level => {
                let levels = &mut cluster.system.levels;
                let level = (level - 3) % levels.len();
                levels[level].bandwidth = levels[level].bandwidth * factor;
            }
        }
    })
}

/// The job on a cluster where everything is `factor` times as fast.
fn sped_up(job: &Job, factor: f64) -> Job {
    moved(job, |cluster| {
        for tier in &mut cluster.device.tiers {
            tier.bandwidth = tier.bandwidth * factor;
        }
        for peak in cluster.device.matrix.values_mut() {
            *peak = *peak * factor;
        }
        if let Some(host) = &mut cluster.system.host {
            host.link_bandwidth = host.link_bandwidth * factor;
            host.memory_bandwidth = host.memory_bandwidth * factor;
        }
        let faster = |time: Seconds| Seconds::new(time.value() / factor);
        cluster.device.vector = cluster.device.vector * factor;
        cluster.device.launch_overhead = faster(cluster.device.launch_overhead);
        cluster.device.stream_overhead = cluster.device.stream_overhead.map(faster);
        for level in &mut cluster.system.levels {
            level.bandwidth = level.bandwidth * factor;
            level.latency = faster(level.latency);
            let quick = |line: Line| Line {
                base: faster(line.base),
                ..line
            };
            let plain = level.library.unwrap_or(*Library::of_kind(level.kind));
            level.library = Some(Library {
                low_latency: quick(plain.low_latency),
                low_latency_128: quick(plain.low_latency_128),
                simple: quick(plain.simple),
                in_network: quick(plain.in_network),
                ..plain
            });
        }
    })
}

fn stage_sum(stage: &StageMemory) -> f64 {
    stage.weights_bytes
        + stage.gradients_bytes
        + stage.optimizer_bytes
        + stage.activations_bytes
        + stage.workspace_bytes
        + stage.fragmentation_bytes
        + stage.reserve_bytes
}

fn finite(estimate: &Estimate) -> bool {
    let numbers = [
        estimate.step_time_s,
        estimate.peak_memory_bytes,
        estimate.tokens_per_s,
        estimate.mfu,
        estimate.hfu,
        estimate.energy_j_per_step,
    ];
    let terms = estimate.time.iter().flat_map(|t| [t.time_s, t.hidden_s]);
    let stages = estimate.memory.iter().map(stage_sum);
    numbers
        .into_iter()
        .chain(terms)
        .chain(stages)
        .all(|n| n.is_finite() && n >= 0.0)
}

/// Kept activations of all stages of a plan.
fn kept(job: &Job, plan: &Plan) -> Vec<f64> {
    let memory = priced(job, plan).memory;
    memory.iter().map(|m| m.activations_bytes).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_step_beats_the_machine((job, plan) in jobs::planned()) {
        let estimate = priced(&job, &plan);
        prop_assert!(finite(&estimate), "{estimate:?}");
        let (flops, bytes) = compulsory(&job, &plan);
        let rounds = plan.micro_batches(job.training.global_batch) as f64;
        let each = rounds / f64::from(plan.pipeline);
        let peak = estimate.peak_flops_per_s_per_device;
        let bandwidth = job.cluster.device.main_memory().bandwidth.value();
        prop_assert!(estimate.step_time_s >= flops * each / peak);
        prop_assert!(estimate.step_time_s >= bytes * each / bandwidth);
        prop_assert!(estimate.mfu <= 2.0, "{}", estimate.mfu);
        prop_assert!(estimate.mfu <= estimate.hfu * (1.0 + SLACK));
    }

    #[test]
    fn terms_add_up_to_the_step((job, plan) in jobs::planned()) {
        let estimate = priced(&job, &plan);
        let sum: f64 = estimate.time.iter().map(|t| t.time_s).sum();
        prop_assert!(near(sum, estimate.step_time_s), "{sum} is not {}: {:#?}",
            estimate.step_time_s, estimate.time);
    }

    #[test]
    fn memory_adds_up_and_peaks_at_the_fullest_stage((job, plan) in jobs::planned()) {
        let estimate = priced(&job, &plan);
        prop_assert_eq!(estimate.memory.len(), plan.pipeline as usize);
        for stage in &estimate.memory {
            prop_assert!(near(stage_sum(stage), stage.total_bytes));
        }
        let peak = estimate.memory.iter().map(|m| m.total_bytes).fold(0.0, f64::max);
        prop_assert_eq!(peak, estimate.peak_memory_bytes);
        prop_assert_eq!(estimate.fits, peak <= estimate.memory_capacity_bytes);
        prop_assert_eq!(estimate.fits, estimate.shortfall.is_none());
    }

    #[test]
    fn a_better_machine_is_never_slower((job, plan) in jobs::planned(), which in 0..5_usize, factor in 1.0..20.0_f64) {
        let slow = price(&job, &plan).unwrap();
        let fast = price(&better(&job, which, factor), &plan).unwrap();
        prop_assert!(fast.time <= slow.time * (1.0 + SLACK), "{} after {}", fast.time, slow.time);
        prop_assert_eq!(fast.memory, slow.memory);
    }

    #[test]
    fn all_rates_scale_the_step((job, plan) in jobs::planned(), factor in 0.1..10.0_f64) {
        let one = price(&job, &plan).unwrap();
        let other = price(&sped_up(&job, factor), &plan).unwrap();
        prop_assert!(near(one.time, other.time * factor), "{} {}", one.time, other.time * factor);
    }

    #[test]
    fn higher_zero_stages_hold_less((job, plan) in jobs::planned()) {
        let stages: Vec<Estimate> = (0..4)
            .map(|zero| priced(&job, &Plan { zero, ..plan.clone() }))
            .collect();
        let state = |e: &Estimate| {
            let held = e.memory.iter().map(|m| m.weights_bytes + m.gradients_bytes + m.optimizer_bytes);
            -held.fold(0.0, f64::max)
        };
        prop_assert!(rises(&stages.iter().map(state).collect::<Vec<_>>()));
        let all = |e: &Estimate| -e.peak_memory_bytes;
        // stage 2 holds a block's gradients before they are cut, stage 3 gathered weights as well
        prop_assert!(rises(&stages[..2].iter().map(all).collect::<Vec<_>>()));
        if plan.context * plan.data == 1 && !job.shape.experts {
            // nothing is sharded, so nothing is gathered
            prop_assert_eq!(stages[3].peak_memory_bytes, stages[0].peak_memory_bytes);
        }
    }

    #[test]
    fn recomputation_keeps_less_and_takes_longer((job, plan) in jobs::planned()) {
        // what is not kept need not travel to the host either, which can save more than it costs
        let of = |recompute| Plan { recompute, offload_activations: 0, ..plan.clone() };
        let policies = [RecomputePolicy::Full, RecomputePolicy::Selective, RecomputePolicy::None];
        let kept: Vec<Vec<f64>> = policies.iter().map(|&p| kept(&job, &of(p))).collect();
        for stage in 0..plan.pipeline as usize {
            prop_assert!(rises(&kept.iter().map(|k| k[stage]).collect::<Vec<_>>()));
        }
        let times = policies.map(|p| -price(&job, &of(p)).unwrap().time);
        prop_assert!(rises(&times), "{times:?}");
    }

    #[test]
    fn inference_is_cheaper_than_training((job, plan) in jobs::planned()) {
        let mut training = job.training.clone();
        training.forward_only = true;
        let forward = Job::new(&job.model, &job.cluster, &training, 0.0).unwrap();
        let (less, more) = (price(&forward, &plan).unwrap(), price(&job, &plan).unwrap());
        prop_assert!(less.memory <= more.memory);
        prop_assert!(less.time < more.time);
    }

    #[test]
    fn optimizers_hold_in_order((job, plan) in jobs::planned()) {
        let held = ["adafactor", "sgd", "adam"].map(|name| {
            let mut training = job.training.clone();
            training.optimizer = serde_json::from_value(name.into()).unwrap();
            let job = Job::new(&job.model, &job.cluster, &training, 0.0).unwrap();
            price(&job, &plan).unwrap()
        });
        prop_assert!(rises(&held.map(|c| c.memory)));
        prop_assert!(rises(&held.map(|c| c.time)));
    }

    #[test]
    fn more_micro_batches_fill_no_more_than_the_pipeline((job, plan) in jobs::planned()) {
        let twice = {
            let mut training = job.training.clone();
            training.global_batch *= 2;
            Job::new(&job.model, &job.cluster, &training, 0.0).unwrap()
        };
        prop_assume!(check(&plan, &twice.shape, &twice.training, twice.cluster.devices).is_ok());
        let (one, two) = (priced(&job, &plan), priced(&twice, &plan));
        prop_assert!(two.step_time_s > one.step_time_s);
        for (one, two) in one.memory.iter().zip(&two.memory) {
            // a stage that holds the embedding alone keeps nothing
            let rise = two.activations_bytes.max(1.0) / one.activations_bytes.max(1.0);
            prop_assert!((1.0..=2.0 + SLACK).contains(&rise));
            let full = plan.schedule == Schedule::OneForwardOneBackward
                && plan.micro_batches(job.training.global_batch) >= u64::from(plan.pipeline);
            prop_assert!(!full || near(rise, 1.0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_best_plan_is_never_slower_on_a_better_machine(job in jobs::jobs(), which in 0..5_usize, factor in 1.0..20.0_f64) {
        let space = r#"{"context": [1], "expert": [1, 2], "micro_batch": [1, 2], "interleave": [1, 2], "zero": [0, 1, 3],
            "schedule": ["1f1b", "interleaved"]}"#;
        let space = Space::from_json(space).unwrap();
        let limits = Limits { top: 1, ..Limits::default() };
        let best = |job: &Job| {
            let found = search(job, &space, &limits, &Control::new()).unwrap().best;
            found.first().map_or(f64::INFINITY, |f| f.composed.time)
        };
        let (slow, fast) = (best(&job), best(&better(&job, which, factor)));
        prop_assert!(fast <= slow * (1.0 + SLACK), "{fast} after {slow}");
    }
}

#[test]
fn every_middle_stage_is_weighed() {
    // three wide dense layers are the slowest stages, five layers of experts the fullest
    let text = jobs::mixture(8, 4096)
        .replace(r#""ffn": 8192"#, r#""ffn": 24576"#)
        .replace(r#""first_dense_layers": 1"#, r#""first_dense_layers": 3"#);
    let cluster = worlds::nodes_of_eight(8);
    let job = jobs::job(&text, &cluster, &jobs::training(32, 512, ""));
    let plan = Plan {
        pipeline: 8,
        ..Plan::default()
    };
    let estimate = priced(&job, &plan);
    for (stage, &block) in estimate
        .memory
        .iter()
        .zip(&job.graph.order[1..])
        .skip(1)
        .take(6)
    {
        let weights = lower(&job.graph, block, &job.training, &plan).weights;
        assert!(
            near(stage.weights_bytes, 2.0 * weights.local()),
            "{stage:?}"
        );
    }
    let most = estimate.memory.iter().map(|m| m.total_bytes);
    assert_eq!(estimate.peak_memory_bytes, most.fold(0.0, f64::max));
}

#[test]
fn kept_activations_follow_korthikanti() {
    // Korthikanti et al. 2022, equations 1 to 4 and table 2, 16-bit, with dropout, one layer a stage
    let (s, h, a) = (2048.0, 4096.0, 16.0);
    let training = jobs::training(8, 2048, r#", "flash_attention": false, "dropout": true"#);
    let job = jobs::job(&jobs::gpt(4, 4096), &worlds::nodes_of_eight(32), &training);
    let t = 8.0;
    let scores = 5.0 * a * s / h;
    let rows = [
        (false, RecomputePolicy::None, 10.0 + 24.0 / t + scores / t),
        (true, RecomputePolicy::None, (34.0 + scores) / t),
        (false, RecomputePolicy::Selective, 10.0 + 24.0 / t),
        (true, RecomputePolicy::Selective, 34.0 / t),
        (false, RecomputePolicy::Full, 2.0),
        (true, RecomputePolicy::Full, 2.0 / t),
    ];
    for (sequence_parallel, recompute, per_layer) in rows {
        let plan = Plan {
            tensor: 8,
            pipeline: 4,
            sequence_parallel,
            recompute,
            ..Plan::default()
        };
        // the second of four stages holds three micro-batches
        let kept = kept(&job, &plan)[1];
        assert!(near(kept, 3.0 * s * h * per_layer), "{kept} {plan:?}");
    }
}

/// Exposed traffic of sharded weights without overlap, on eight devices of a slow switch.
fn shard_traffic(text: &str, latency: &str) -> f64 {
    let levels = format!(
        r#"[{{"name": "ring", "kind": "torus", "devices": 8, "bandwidth": "10 GB/s", "efficiency": 1,
        "latency": "{latency}", "dims": [8], "wrap": true}}]"#
    );
    let cluster = worlds::cluster(&levels, 8);
    let job = jobs::job(text, &cluster, &jobs::training(8, 512, ""));
    let plan = Plan {
        data: 8,
        zero: 3,
        overlap_grad_reduce: false,
        overlap_param_gather: false,
        ..Plan::default()
    };
    let terms = priced(&job, &plan).time;
    let found = terms.iter().find(|t| t.term == "sharded_weights");
    found.unwrap().time_s
}

#[test]
fn every_layer_pays_the_start_of_its_own_gathers() {
    // two gathers and a scatter a layer, each half way round a ring of eight
    for layers in [4, 12] {
        let text = jobs::llama(layers, 256, 4);
        let slow = shard_traffic(&text, "1 ms");
        let fast = shard_traffic(&text, "0 s");
        let steps = 3.0 * 4.0 * layers as f64 * 1e-3;
        assert!(near(slow - fast, steps), "{layers}: {slow} {fast}");
    }
}

#[test]
fn frozen_weights_are_gathered_too() {
    let whole = jobs::llama(8, 1024, 4);
    let adapters = whole.replacen(
        '{',
        r#"{"lora": {"rank": 8, "targets": ["query", "value"]}, "#,
        1,
    );
    // bf16 gathers before each pass: both directions of a ring of 10 GB/s, 7 of 8 parts
    let model = jobs::model(&whole);
    let weights = model.parameters().total as f64;
    let gathers = 2.0 * weights * 2.0 * (7.0 / 8.0) / 20e9;
    let found = shard_traffic(&adapters, "0 s");
    assert!(
        found >= gathers && found < 1.1 * gathers,
        "{found} {gathers}"
    );
    assert!(shard_traffic(&whole, "0 s") > 1.9 * gathers);
}

#[test]
fn hardware_flops_leave_out_what_frozen_weights_do_not_need() {
    let whole = jobs::llama(12, 2048, 16);
    let cluster = worlds::nodes_of_eight(8);
    let found = |extra: &str| {
        let text = whole.replacen('{', &format!("{{{extra}"), 1);
        let job = jobs::job(&text, &cluster, &jobs::training(8, 512, ""));
        let plan = Plan {
            data: 8,
            ..Plan::default()
        };
        let estimate = priced(&job, &plan);
        estimate.hfu / estimate.mfu
    };
    assert!(near(found(""), 1.0));
    // of three passes the gradients of weights are one; scores and adapters have both
    let adapted = found(r#""lora": {"rank": 8, "targets": ["query", "value"]}, "#);
    assert!(adapted > 2.0 / 3.0 && adapted < 0.72, "{adapted}");
    // nothing runs backwards below the last layer
    let last = found(r#""frozen_layers": 11, "#);
    assert!(last > 1.0 / 3.0 && last < 0.55, "{last}");
}

#[test]
fn what_leaves_the_device_lies_in_its_host() {
    let training = jobs::training(32, 2048, "");
    let mut cluster = worlds::nodes_of_eight(16);
    let plan = Plan {
        tensor: 2,
        pipeline: 2,
        data: 4,
        zero: 1,
        ..Plan::default()
    };
    let away = Plan {
        offload_optimizer: true,
        offload_activations: 50,
        ..plan.clone()
    };
    let text = jobs::llama(16, 4096, 16);
    let refused = price(&jobs::job(&text, &cluster, &training), &away).unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("offload_optimizer needs a host")
    );
    cluster.system.host = Some(jobs::host());
    let job = jobs::job(&text, &cluster, &training);
    let [home, away] = [&plan, &away].map(|plan| priced(&job, plan));
    for (here, there) in home.memory.iter().zip(&away.memory) {
        assert_eq!((here.host_bytes, there.optimizer_bytes), (0.0, 0.0));
        let layers = here.activations_bytes - there.activations_bytes;
        // the gradients that the update reads lie there as well
        let left = here.optimizer_bytes + here.gradients_bytes / 4.0 + layers;
        // two layers of a stage's eight pass through the device
        assert!(there.host_bytes > left && there.host_bytes < left + layers);
    }
    let most = away.memory.iter().map(|m| m.host_bytes).fold(0.0, f64::max);
    assert!(near(away.host_memory_bytes, most * 8.0) && away.fits);
    assert!(away.step_time_s > home.step_time_s);
    if let Some(host) = &mut cluster.system.host {
        host.memory = host.memory * 1e-3;
    }
    let full = priced(&jobs::job(&text, &cluster, &training), &away.plan);
    assert!(!full.fits && full.shortfall.unwrap().tier == "host memory of a node");
}

//! Does software only ever add to what the machine needs, and by what its profile says?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

mod worlds;

use proptest::prelude::*;
use scalewright::collective::Collective;
use scalewright::estimate::{Job, price};
use scalewright::hardware::Cluster;
use scalewright::plan::{Plan, RecomputePolicy, Task, lower};
use scalewright::units::{Dtype, FlopsPerSecond};
use scalewright::workload::BlockRole;
use worlds::fabrics;
use worlds::jobs;

fn plan() -> Plan {
    Plan {
        micro_batch: 2,
        ..Plan::default()
    }
}

fn cluster(devices: u32) -> Cluster {
    fabrics::one_switch(devices)
}

fn job(software: &str, devices: u32) -> Job {
    let more = format!(r#", "flash_attention": false, "software": {software}"#);
    let training = jobs::training(8 * u64::from(devices), 2048, &more);
    jobs::job(&jobs::llama(4, 1024, 4), &cluster(devices), &training)
}

fn seconds(job: &Job, plan: &Plan) -> f64 {
    jobs::priced(job, plan).step_time_s
}

#[test]
fn the_default_profile_is_not_written_and_changes_nothing() {
    let training = jobs::training(8, 2048, "");
    let text = serde_json::to_string(&training).unwrap();
    assert!(!text.contains("software"));
    let plain = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &training);
    let named = jobs::training(
        8,
        2048,
        r#", "software": {"name": "own", "host_time": 0.0}"#,
    );
    let named = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &named);
    assert_eq!(seconds(&plain, &plan()), seconds(&named, &plan()));
}

#[test]
fn every_pass_that_is_added_makes_the_step_longer() {
    let fused = seconds(&job("{}", 1), &plan());
    for field in [
        "norm",
        "rotary",
        "gated_activation",
        "addition",
        "scores",
        "loss",
    ] {
        let more = seconds(&job(&format!(r#"{{"{field}": [60.0, 60.0]}}"#), 1), &plan());
        assert!(more > fused, "{field}: {more} after {fused}");
    }
}

#[test]
fn passes_for_biases_lengthen_products_that_have_one() {
    let step = |model: &str, software: &str| {
        let training = jobs::training(8, 2048, &format!(r#", "software": {software}"#));
        seconds(&jobs::job(model, &cluster(1), &training), &plan())
    };
    let apart = r#"{"bias": [2.0, 0.0]}"#;
    let plain = jobs::llama(4, 1024, 4);
    let biased = plain.replace(
        r#""norm": "rmsnorm""#,
        r#""norm": "rmsnorm", "qkv_bias": true"#,
    );
    assert_eq!(step(&plain, "{}"), step(&plain, apart));
    assert!(step(&biased, apart) > step(&biased, "{}"));
}

#[test]
fn a_slow_host_sets_the_pace_of_every_pass() {
    let host = 1e-3;
    let slow = job(&format!(r#"{{"host_time": {host}}}"#), 1);
    let estimate = jobs::priced(&slow, &plan());
    let kernels: f64 = slow
        .graph
        .order
        .iter()
        .map(|&block| lower(&slow.graph, block, &slow.training, &plan()))
        .flat_map(|program| [program.forward, program.backward].concat())
        .map(|task| match task {
            Task::Compute { kernel, .. } => match kernel {
                scalewright::operator_cost::Kernel::Memory { launches, .. } => launches,
                _ => 1.0,
            },
            _ => 0.0,
        })
        .sum();
    let passes: f64 = estimate
        .time
        .iter()
        .filter(|line| line.group == "compute")
        .map(|line| line.time_s)
        .sum();
    let issued = kernels * host * 4.0;
    assert!((passes / issued - 1.0).abs() < 1e-9, "{passes} of {issued}");
}

#[test]
fn a_host_that_keeps_up_costs_nothing() {
    let quick = seconds(&job(r#"{"host_time": 1e-9}"#, 1), &plan());
    assert_eq!(quick, seconds(&job("{}", 1), &plan()));
}

/// Bytes of the passes over memory in a layer's two passes of a mixture, of which experts take biases.
fn moved(software: &str, precision: &str, plan: &Plan) -> f64 {
    let mut model: serde_json::Value = serde_json::from_str(&jobs::mixture(4, 1024)).unwrap();
    model["ffn_bias"] = true.into();
    let more = format!(r#", "precision": "{precision}", "software": {software}"#);
    let training = jobs::training(64, 2048, &more);
    let graph = jobs::model(&model.to_string()).graph(&training);
    let bytes = |task: &Task| match task.kernel() {
        Some(scalewright::operator_cost::Kernel::Memory { bytes, .. }) => bytes.value(),
        _ => 0.0,
    };
    let block = graph.blocks.len() - 2;
    let program = lower(&graph, block, &training, plan);
    let tasks = [program.forward, program.backward].concat();
    tasks.iter().map(bytes).sum()
}

#[test]
fn experts_whose_tokens_are_biased_and_sorted_apart_move_more() {
    let spread = Plan {
        data: 2,
        expert: 2,
        ..plan()
    };
    let fused = moved("{}", "bf16", &spread);
    let biased = moved(r#"{"expert_bias": [6.0, 6.0]}"#, "bf16", &spread);
    let sorted = moved(r#"{"sorts_received": true}"#, "bf16", &spread);
    assert!(
        biased > fused && sorted > fused,
        "{biased} {sorted} {fused}"
    );
    // alone, a rank has nobody to receive from
    let alone = moved(r#"{"sorts_received": true}"#, "bf16", &plan());
    assert_eq!(alone, moved("{}", "bf16", &plan()));
}

/// Bytes that passes over memory move in a layer of latent attention with keys and values of such widths.
fn latent_moved(rope: u64, value: u64) -> [f64; 2] {
    let mut model: serde_json::Value = serde_json::from_str(&jobs::latent(4, 1024)).unwrap();
    model["latent"]["rope_dim"] = rope.into();
    model["latent"]["value_dim"] = value.into();
    let training = jobs::training(64, 2048, r#", "precision": "bf16""#);
    let graph = jobs::model(&model.to_string()).graph(&training);
    let program = lower(&graph, graph.blocks.len() - 2, &training, &plan());
    [program.forward, program.backward].map(|tasks| {
        let kernels = tasks.iter().filter_map(Task::kernel);
        let bytes = kernels.map(|kernel| match kernel {
            scalewright::operator_cost::Kernel::Memory { bytes, .. } => bytes.value(),
            _ => 0.0,
        });
        bytes.sum()
    })
}

#[test]
fn keys_and_values_of_latent_attention_are_written_out_of_one_product() {
    let [forward, backward] = latent_moved(32, 64);
    let [wider, wider_back] = latent_moved(32, 80);
    // 4,096 tokens, 16 heads, 16 columns more, read and written, 2 bytes
    let pass = 4096.0 * 16.0 * 16.0 * 2.0;
    assert_eq!(wider - forward, 2.0 * pass);
    assert_eq!(wider_back - backward, 2.0 * pass);
    let [rotated, _] = latent_moved(48, 64);
    // a wider rotary part is copied to every head's key beside what its rotation moves
    assert!(rotated - forward > 2.0 * pass, "{rotated} {forward}");
}

/// Bytes of gathers and of all other collectives that a layer's forward pass makes over tensor ranks.
fn exchanged(precision: &str) -> [f64; 2] {
    let plan = Plan {
        tensor: 4,
        sequence_parallel: true,
        ..plan()
    };
    let training = jobs::training(64, 2048, &format!(r#", "precision": "{precision}""#));
    let graph = jobs::model(&jobs::llama(4, 1024, 4)).graph(&training);
    let program = lower(&graph, graph.blocks.len() - 2, &training, &plan);
    let mut sums = [0.0, 0.0];
    for task in &program.forward {
        if let Task::Communicate {
            collective, bytes, ..
        } = task
        {
            sums[usize::from(*collective != Collective::AllGather)] += bytes.value();
        }
    }
    sums
}

#[test]
fn gathers_carry_what_products_read() {
    let [gathered, reduced] = exchanged("bf16");
    assert!(gathered > 0.0 && reduced > 0.0);
    for (precision, dtype) in [("fp8", Dtype::Fp8), ("nvfp4", Dtype::Nvfp4)] {
        let [narrow, others] = exchanged(precision);
        assert_eq!(narrow, gathered * dtype.bytes() / 2.0, "{precision}");
        assert_eq!(others, reduced, "{precision}");
    }
}

#[test]
fn weights_cast_once_a_step_spare_every_micro_batch_their_passes() {
    let once = r#"{"casts_weights_once": true}"#;
    for precision in ["fp8", "mxfp8", "nvfp4"] {
        let (spared, each) = (
            moved(once, precision, &plan()),
            moved("{}", precision, &plan()),
        );
        assert!(spared < each, "{precision}: {spared} of {each}");
        // activations are cast for every product all the same
        assert!(spared > moved("{}", "bf16", &plan()), "{precision}");
    }
    assert_eq!(moved(once, "bf16", &plan()), moved("{}", "bf16", &plan()));
}

#[test]
fn gathers_by_tensor_are_never_shorter_than_flat_ones() {
    let sharded = Plan {
        data: 8,
        zero: 3,
        overlap_param_gather: false,
        recompute: RecomputePolicy::None,
        ..plan()
    };
    let flat = seconds(&job("{}", 8), &sharded);
    let cut = seconds(&job(r#"{"gathers_per_layer": 12.0}"#, 8), &sharded);
    assert!(cut > flat, "{cut} after {flat}");
}

/// Seconds of a plan beyond those of the same plan under the default profile.
fn beyond(software: &str, devices: u32, plan: &Plan) -> f64 {
    seconds(&job(software, devices), plan) - seconds(&job("{}", devices), plan)
}

#[test]
fn copies_count_once_for_each_gather_and_reduction_of_a_sharded_layer() {
    let sharded = |zero| Plan {
        data: 8,
        zero,
        overlap_param_gather: false,
        ..plan()
    };
    let (gathers, reductions) = (r#"{"gather_copy": 4.0}"#, r#"{"reduce_copy": 4.0}"#);
    let twice = beyond(gathers, 8, &sharded(3));
    let once = beyond(reductions, 8, &sharded(3));
    assert!(once > 0.0);
    assert!((twice / once - 2.0).abs() < 1e-6, "{twice} and {once}");
    let again = beyond(reductions, 8, &sharded(2));
    assert!((again / once - 1.0).abs() < 1e-6, "{again} and {once}");
    assert_eq!(beyond(gathers, 8, &sharded(2)), 0.0);
    for zero in [0, 1] {
        assert_eq!(beyond(reductions, 8, &sharded(zero)), 0.0, "stage {zero}");
    }
}

#[test]
fn an_update_takes_as_long_as_the_bytes_that_it_moves() {
    let optimizer = |bytes: f64| {
        let job = job(&format!(r#"{{"update": {bytes}}}"#), 1);
        let estimate = jobs::priced(&job, &plan());
        let lines = estimate.time.iter().filter(|line| line.term == "optimizer");
        lines.map(|line| line.time_s).sum::<f64>()
    };
    let (half, whole) = (optimizer(40.0), optimizer(80.0));
    assert!(half > 0.0);
    assert!((whole / half - 2.0).abs() < 1e-9, "{whole} after {half}");
}

/// Names of the operators of a layer that full recomputation leaves out.
fn spared(more: &str) -> Vec<&'static str> {
    let more = format!(r#", "software": {{"stops_early": true}}{more}"#);
    let training = jobs::training(8, 2048, &more);
    let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &training);
    let layers = job.graph.blocks.iter();
    let layer = layers.max_by_key(|block| block.operators.len()).unwrap();
    let left = layer.operators.iter();
    let left = left.filter(|operator| !operator.recompute.by_full());
    left.map(|operator| operator.name).collect()
}

#[test]
fn recomputation_that_stops_early_leaves_out_what_follows_the_last_kept_tensor() {
    assert_eq!(spared(""), ["down", "add"]);
    // the mask of a dropout is made after the product
    assert!(spared(r#", "dropout": true"#).is_empty());
}

#[test]
fn stopping_early_shortens_full_recomputation_alone() {
    let early = r#"{"stops_early": true}"#;
    let again = |recompute| Plan {
        recompute,
        ..plan()
    };
    assert!(beyond(early, 1, &again(RecomputePolicy::Full)) < 0.0);
    for policy in [RecomputePolicy::None, RecomputePolicy::Selective] {
        assert_eq!(beyond(early, 1, &again(policy)), 0.0);
    }
}

#[test]
fn joined_gradients_of_fused_attention_lengthen_the_backward_pass() {
    let flash = |software: &str| {
        let more = format!(r#", "flash_attention": true, "software": {software}"#);
        let training = jobs::training(8, 2048, &more);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &training);
        seconds(&job, &plan())
    };
    let (apart, two, four) = (
        flash("{}"),
        flash(r#"{"joined": 20.0}"#),
        flash(r#"{"joined": 40.0}"#),
    );
    assert!(apart < two && two < four, "{apart}, {two}, {four}");
}

/// Seconds of a step of eight ranks that share weights, without overlap.
fn gathered(software: &str, data: u32, recompute: RecomputePolicy) -> f64 {
    let sharded = Plan {
        data,
        zero: 3,
        overlap_param_gather: false,
        recompute,
        ..plan()
    };
    let training = jobs::training(
        16,
        2048,
        &format!(r#", "flash_attention": false, "software": {software}"#),
    );
    let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster(data), &training);
    seconds(&job, &sharded)
}

#[test]
fn what_a_host_does_for_each_rank_of_a_gather_grows_with_the_ranks() {
    let waits = |data| {
        let with = r#"{"gathers_per_layer": 4.0, "gather_rank_time": 1e-4}"#;
        let without = r#"{"gathers_per_layer": 4.0}"#;
        let none = RecomputePolicy::None;
        gathered(with, data, none) - gathered(without, data, none)
    };
    // 16 sequences: 16 / (2 data) micro-batches, each with two passes over 4 layers of 4 gathers
    let of = |data: u32| f64::from(16 / (2 * data)) * 2.0 * 4.0 * 4.0 * f64::from(data) * 1e-4;
    for data in [4, 8] {
        let (waited, meant) = (waits(data), of(data));
        assert!((waited / meant - 1.0).abs() < 1e-6, "{waited} of {meant}");
    }
}

#[test]
fn weights_are_gathered_again_only_for_what_is_computed_again() {
    let (once, twice) = (r#"{"gathers_again": false}"#, r#"{"gathers_again": true}"#);
    let none = RecomputePolicy::None;
    assert_eq!(gathered(once, 8, none), gathered(twice, 8, none));
    let full = RecomputePolicy::Full;
    assert!(gathered(twice, 8, full) > gathered(once, 8, full));
}

#[test]
fn a_host_that_waits_for_each_kernel_hides_none_of_its_work() {
    let launches = |software: &str| {
        let estimate = jobs::priced(&job(software, 1), &plan());
        let lines = estimate.time.iter();
        lines
            .filter(|line| line.term.starts_with("launches"))
            .map(|line| line.time_s)
            .sum::<f64>()
    };
    let host = 1e-6;
    let ahead = launches(&format!(r#"{{"host_time": {host}}}"#));
    let blocking = launches(&format!(r#"{{"host_time": {host}, "blocking": true}}"#));
    let twice = launches(&format!(
        r#"{{"host_time": {}, "blocking": true}}"#,
        2.0 * host
    ));
    assert!(blocking > ahead && blocking > 0.0);
    assert!(
        (twice / blocking - 2.0).abs() < 1e-9,
        "{twice} and {blocking}"
    );
}

#[test]
fn a_copy_of_gradients_lengthens_only_sums_of_their_own() {
    let step = |software: &str, fused: bool| {
        let more = format!(r#", "fused_gradients": {fused}, "software": {software}"#);
        let training = jobs::training(8, 2048, &more);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &training);
        seconds(&job, &plan())
    };
    let (plain, copied) = ("{}", r#"{"accumulation": 8.0}"#);
    assert_eq!(step(plain, true), step(copied, true));
    assert!(step(copied, false) > step(plain, false));
}

/// Hardware FLOPs and peak memory of a job under a policy.
fn repeated(text: &str, software: &str, recompute: RecomputePolicy) -> [f64; 2] {
    let training = jobs::training(8, 2048, &format!(r#", "software": {software}"#));
    let job = jobs::job(text, &cluster(1), &training);
    let plan = Plan {
        recompute,
        ..plan()
    };
    let estimate = jobs::priced(&job, &plan);
    [estimate.hardware_flops_per_step, estimate.peak_memory_bytes]
}

#[test]
fn a_program_that_drops_what_no_gradient_reads_repeats_all_but_the_last_product() {
    let llama = jobs::llama(4, 1024, 4);
    let compiled = r#"{"repeat_unread": false}"#;
    let down = 4.0 * 2.0 * (8.0 * 2048.0) * 1024.0 * 3072.0;
    let whole = repeated(&llama, "{}", RecomputePolicy::Full);
    let part = repeated(&llama, compiled, RecomputePolicy::Full);
    assert!(((whole[0] - part[0]) / down - 1.0).abs() < 1e-9);
    assert_eq!(whole[1], part[1]);
    for other in [RecomputePolicy::None, RecomputePolicy::Selective] {
        let whole = repeated(&llama, "{}", other);
        assert_eq!(whole, repeated(&llama, compiled, other));
    }
}

#[test]
fn keeping_narrow_products_alone_repeats_the_wide_ones_and_keeps_less() {
    let llama = jobs::llama(4, 1024, 4);
    let narrow = r#"{"repeat_unread": false, "selective_feed_forward": true}"#;
    let wide = 4.0 * 2.0 * (8.0 * 2048.0) * 1024.0 * 2.0 * 3072.0;
    let core = repeated(&llama, "{}", RecomputePolicy::Selective);
    let more = repeated(&llama, narrow, RecomputePolicy::Selective);
    assert!(((more[0] - core[0]) / wide - 1.0).abs() < 1e-9);
    assert!(more[1] < core[1]);
    let full = repeated(&llama, narrow, RecomputePolicy::Full);
    assert!(full[0] > more[0] && full[1] < more[1]);
    let none = RecomputePolicy::None;
    assert_eq!(repeated(&llama, narrow, none), repeated(&llama, "{}", none));
}

/// Activation bytes of a layer, per micro-batch, without recomputation and with the selective one.
fn layer_bytes(text: &str, software: &str) -> [f64; 2] {
    let training = jobs::training(8, 2048, &format!(r#", "software": {software}"#));
    let job = jobs::job(text, &cluster(1), &training);
    let layer = job
        .graph
        .blocks
        .iter()
        .position(|b| b.role == BlockRole::Layer);
    let program = lower(&job.graph, layer.expect("a layer"), &job.training, &plan());
    let held = program.activations;
    [held.kept.value(), held.kept_selective.value()]
}

#[test]
fn keeping_every_second_product_repeats_the_others_and_keeps_their_outputs() {
    let llama = jobs::llama(4, 1024, 4);
    let alternate = r#"{"selective_alternate": true, "products_apart": true}"#;
    let (tokens, hidden, keys, inner) = (8.0 * 2048.0, 1024.0, 256.0, 3072.0);
    // keys, attention output and the second input of the activation, in four layers
    let products = 4.0 * 2.0 * tokens * hidden * (keys + hidden + inner);
    let none = repeated(&llama, alternate, RecomputePolicy::None);
    let selective = repeated(&llama, alternate, RecomputePolicy::Selective);
    assert!(((selective[0] - none[0]) / products - 1.0).abs() < 1e-9);
    // the layer's input, queries, values, attention with a statistic a head, one input of the
    // activation, the layer's last product
    let columns = hidden + hidden + keys + hidden + inner + hidden;
    let micro_batch = tokens / 8.0 * f64::from(plan().micro_batch);
    let [kept, outputs] = layer_bytes(&llama, alternate);
    let expected = micro_batch * (2.0 * columns + 4.0 * 16.0);
    assert!((outputs / expected - 1.0).abs() < 1e-9);
    assert!(outputs < kept);
    let full = repeated(&llama, alternate, RecomputePolicy::Full);
    assert!(full[0] > selective[0] && full[1] < selective[1]);
}

#[test]
fn products_of_their_own_change_neither_work_nor_what_is_kept() {
    let llama = jobs::llama(4, 1024, 4);
    let apart = r#"{"products_apart": true}"#;
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    assert!(near(run(&llama, "{}"), run(&llama, apart)));
    for (one, other) in layer_bytes(&llama, "{}")
        .iter()
        .zip(layer_bytes(&llama, apart))
    {
        assert!(near(*one, other));
    }
    let policy = RecomputePolicy::Full;
    assert!(near(
        repeated(&llama, "{}", policy)[0],
        repeated(&llama, apart, policy)[0]
    ));
}

#[test]
fn bytes_of_a_logit_count_once_where_the_loss_lies() {
    let llama = jobs::llama(4, 1024, 4);
    let policy = RecomputePolicy::Full;
    let peak = |logits: &str| repeated(&llama, &format!(r#"{{"logits": {logits}}}"#), policy)[1];
    let known = repeated(&llama, "{}", policy)[1];
    // an fp32 softmax beside logits and gradient in bf16 is what absence means
    assert!((peak("[4.0, 4.0]") / known - 1.0).abs() < 1e-9);
    let logits = f64::from(plan().micro_batch) * 2048.0 * 32000.0;
    let fragments = known - peak("[2.0, 4.0]");
    assert!(fragments >= 2.0 * logits && fragments < 2.0 * logits * 1.1);
    assert!(peak("[4.0, 8.0]") - known >= 4.0 * logits);
}

#[test]
fn keeping_products_alone_keeps_less_repeats_no_product_and_takes_longer() {
    let llama = jobs::llama(4, 1024, 4);
    let products = r#"{"keeps_products": true}"#;
    let time = |software: &str, recompute| {
        let training = jobs::training(8, 2048, &format!(r#", "software": {software}"#));
        let job = jobs::job(&llama, &cluster(1), &training);
        let plan = Plan {
            recompute,
            ..plan()
        };
        seconds(&job, &plan)
    };
    let selective = RecomputePolicy::Selective;
    let core = repeated(&llama, "{}", selective);
    let less = repeated(&llama, products, selective);
    assert_eq!(less[0], core[0]);
    assert!(less[1] < core[1]);
    assert!(time(products, selective) > time("{}", selective));
    for other in [RecomputePolicy::None, RecomputePolicy::Full] {
        assert_eq!(
            repeated(&llama, products, other),
            repeated(&llama, "{}", other)
        );
        assert_eq!(time(products, other), time("{}", other));
    }
}

#[test]
fn keeping_the_core_repeats_nothing_of_it_and_keeps_more() {
    let llama = jobs::llama(4, 1024, 4);
    let products = r#"{"keeps_products": true}"#;
    let core = r#"{"keeps_products": true, "keeps_core": true}"#;
    let selective = RecomputePolicy::Selective;
    let [again, less] = repeated(&llama, products, selective);
    let [once, more] = repeated(&llama, core, selective);
    assert_eq!(once, repeated(&llama, core, RecomputePolicy::None)[0]);
    assert!(once < again && more > less);
}

#[test]
fn rows_picked_by_products_cost_two_products_of_the_head() {
    let llama = jobs::llama(4, 1024, 4);
    let time = |software: &str| {
        let training = jobs::training(8, 2048, &format!(r#", "software": {software}"#));
        seconds(&jobs::job(&llama, &cluster(1), &training), &plan())
    };
    let head = 2.0 * (2.0 * 2048.0) * 1024.0 * 32000.0;
    let more = run(&llama, r#"{"embedding_product": true}"#) - run(&llama, "{}");
    assert!((more / (2.0 * head) - 1.0).abs() < 1e-9);
    assert!(time(r#"{"embedding_product": true}"#) > time("{}"));
}

#[test]
fn reductions_that_wait_lengthen_only_steps_that_hid_them() {
    let step = |software: &str, tensor: u32, overlap_tensor: bool| {
        let plan = Plan {
            tensor,
            overlap_tensor,
            sequence_parallel: tensor > 1,
            ..plan()
        };
        seconds(&job(software, tensor), &plan)
    };
    let (hidden, waits) = ("{}", r#"{"reductions_wait": true}"#);
    assert_eq!(step(hidden, 1, true), step(waits, 1, true));
    assert_eq!(step(hidden, 4, false), step(waits, 4, false));
    // gathers are still hidden
    assert!(step(hidden, 4, true) < step(waits, 4, true));
    assert!(step(waits, 4, true) < step(waits, 4, false));
}

/// FLOPs of the products that a rank runs in the forward and backward passes of all blocks.
fn run(text: &str, software: &str) -> f64 {
    let training = jobs::training(8, 2048, &format!(r#", "software": {software}"#));
    let job = jobs::job(text, &cluster(1), &training);
    let programs = job.graph.order.iter();
    let programs = programs.map(|&block| lower(&job.graph, block, &job.training, &plan()));
    let tasks = programs.flat_map(|program| [program.forward, program.backward].concat());
    tasks
        .filter_map(|task| task.kernel())
        .map(|kernel| kernel.cost(&job.cluster.device).flops.value())
        .sum()
}

#[test]
fn tokens_moved_by_products_cost_two_products_forward_and_three_backward() {
    let capacity = r#""top_k": 2, "capacity_factor": 1.0"#;
    let mixture = jobs::mixture(3, 1024).replace(r#""top_k": 2"#, capacity);
    // two sparse layers, two sequences, as many slots as copies of their tokens
    let one = 2.0 * 2.0 * 2.0 * 2048.0 * (2.0 * 2048.0) * 1024.0;
    let sorted = run(&mixture, "{}");
    let moved = run(&mixture, r#"{"dispatch_products": true}"#);
    assert!(((moved - sorted) / one - 5.0).abs() < 1e-9);
}

#[test]
fn scales_of_earlier_steps_shorten_steps_in_fp8_alone() {
    let cluster = Cluster {
        device: worlds::h100(),
        ..cluster(1)
    };
    let step = |precision: &str, delayed: bool| {
        let more = format!(
            r#", "precision": "{precision}", "software": {{"delayed_scaling": {delayed}}}"#
        );
        let training = jobs::training(8, 2048, &more);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster, &training);
        seconds(&job, &plan())
    };
    assert!(step("fp8", true) < step("fp8", false));
    assert_eq!(step("bf16", true), step("bf16", false));
}

#[test]
fn keys_gathered_before_attention_wait_in_the_open() {
    let step = |first: bool, context: u32| {
        let cluster = cluster(4);
        let more = format!(r#", "software": {{"gathers_keys_first": {first}}}"#);
        let training = jobs::training(8, 8192, &more);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster, &training);
        let plan = Plan {
            context,
            data: 4 / context,
            ..plan()
        };
        seconds(&job, &plan)
    };
    assert!(step(true, 4) > step(false, 4));
    assert_eq!(step(true, 1), step(false, 1));
}

#[test]
fn staggered_sends_shorten_a_pipeline_over_shared_adapters_alone() {
    let step = |adapters: u32, staggers: bool| {
        let levels = format!(
            r#"[{{"name": "switch", "kind": "switch", "devices": 4, "bandwidth": "300 GB/s",
                 "latency": "3 us"}},
                {{"name": "network", "kind": "fat-tree", "bandwidth": "1 GB/s", "latency": "10 us",
                 "adapters": {adapters}}}]"#
        );
        let more = format!(r#", "software": {{"staggers_sends": {staggers}}}"#);
        let training = jobs::training(64, 2048, &more);
        let cluster = worlds::cluster(&levels, 8);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster, &training);
        let plan = Plan {
            pipeline: 2,
            data: 4,
            ..plan()
        };
        seconds(&job, &plan)
    };
    assert!(step(1, true) < step(1, false));
    assert_eq!(step(4, true), step(4, false));
}

#[test]
fn figures_that_no_program_has_are_refused_by_name() {
    for (field, value) in [
        ("norm", "[-1.0, 5.0]"),
        ("loss", "[38.0, 1e9]"),
        ("host_time", "2.0"),
        ("bias", "[-1.0, 0.0]"),
        ("routing_kernels", "[-1.0, 0.0]"),
        ("expert_host_time", "[2.0, 0.0]"),
        ("routing_host_time", "[0.0, 2.0]"),
        ("accumulation", "1e9"),
        ("gather_rank_time", "2.0"),
        ("gathers_per_layer", "0.5"),
        ("joined", "-1.0"),
        ("gather_copy", "1e9"),
        ("reduce_copy", "-2.0"),
        ("update", "1e9"),
        ("logits", "[-1.0, 0.0]"),
    ] {
        let more = format!(r#", "software": {{"{field}": {value}}}"#);
        let training = jobs::training(8, 2048, &more);
        let error = training.check().unwrap_err().to_string();
        assert!(error.contains(&format!("software.{field}")), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_lower_rate_that_lasts_never_shortens_a_step(share in 0.05_f64..2.0) {
        let base = job("{}", 1);
        let mut hot = base.cluster.clone();
        // a device that says what lasts is not throttled by the length of its kernels as well
        let peak = hot.device.engine_peak(Dtype::Bf16).value();
        hot.device.sustained.insert(Dtype::Bf16, FlopsPerSecond::new(share * peak));
        let slowed = base.on(hot.clone()).unwrap();
        let (cold, warm) = (seconds(&base, &plan()), seconds(&slowed, &plan()));
        prop_assert!(hot.device.matmul.throttle > 0.0 || warm >= cold);
        hot.device.sustained.insert(Dtype::Bf16, FlopsPerSecond::new(0.5 * share * peak));
        let hotter = base.on(hot).unwrap();
        prop_assert!(seconds(&hotter, &plan()) >= warm);
        prop_assert!(price(&slowed, &plan()).is_ok());
    }
}

/// Seconds of a plan on four ranks beyond those under the default profile.
fn staged(software: &str, tensor: u32, pipeline: u32) -> f64 {
    let plan = Plan {
        tensor,
        pipeline,
        recompute: RecomputePolicy::Full,
        ..plan()
    };
    beyond(software, tensor * pipeline, &plan)
}

#[test]
fn stages_that_send_and_receive_in_turn_take_longer_only_where_there_are_several() {
    let apart = r#"{"sends_apart": true}"#;
    assert!(staged(apart, 1, 4) > 0.0);
    assert_eq!(staged(apart, 4, 1), 0.0);
}

#[test]
fn gathers_and_copies_of_a_hand_over_are_those_of_tensor_ranks() {
    for software in [
        r#"{"handover_gathers": 3.0}"#,
        r#"{"handover_copies": 8.0}"#,
    ] {
        assert!(staged(software, 2, 2) > 0.0, "{software}");
        assert_eq!(staged(software, 1, 4), 0.0, "{software}");
        assert_eq!(staged(software, 4, 1), 0.0, "{software}");
    }
}

#[test]
fn each_hand_over_waits_as_long_for_the_host() {
    let waits = |time: f64| staged(&format!(r#"{{"handover_time": {time}}}"#), 1, 4);
    let (once, twice) = (waits(1e-3), waits(2e-3));
    assert!(once > 0.0);
    assert!((twice / once - 2.0).abs() < 1e-6, "{twice} after {once}");
}

#[test]
fn whole_sums_lengthen_the_first_stage_of_zero_alone() {
    let whole = r#"{"reduces_whole": true}"#;
    let shared = |zero| Plan {
        data: 8,
        zero,
        overlap_grad_reduce: false,
        ..plan()
    };
    assert!(beyond(whole, 8, &shared(1)) > 0.0);
    for zero in [0, 2, 3] {
        assert_eq!(beyond(whole, 8, &shared(zero)), 0.0, "stage {zero}");
    }
}

#[test]
fn tensors_seen_one_by_one_cost_their_layers_a_step_unless_state_is_flat() {
    let slow = r#"{"layer_update_time": 1e-3}"#;
    let waited = beyond(slow, 1, &plan());
    assert!((waited / 4e-3 - 1.0).abs() < 1e-6, "{waited}");
    let flat = Plan {
        data: 8,
        zero: 1,
        ..plan()
    };
    assert_eq!(beyond(slow, 8, &flat), 0.0);
}

#[test]
fn copies_of_heads_lengthen_unfused_attention_alone() {
    let copied = r#"{"heads": [2.0, 2.0]}"#;
    assert!(beyond(copied, 1, &plan()) > 0.0);
    let fused = |software: &str| {
        let more = format!(r#", "flash_attention": true, "software": {software}"#);
        let training = jobs::training(8, 2048, &more);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &training);
        seconds(&job, &plan())
    };
    assert_eq!(fused(copied), fused("{}"));
}

#[test]
fn shared_checkpoints_trade_memory_for_a_gather_where_layers_are_computed_again() {
    let shared = r#"{"shared_checkpoints": true}"#;
    let parts = |recompute, sequence_parallel| Plan {
        tensor: 4,
        recompute,
        sequence_parallel,
        ..plan()
    };
    let held =
        |software: &str, plan: &Plan| jobs::priced(&job(software, 4), plan).peak_memory_bytes;
    let full = parts(RecomputePolicy::Full, false);
    assert!(beyond(shared, 4, &full) > 0.0);
    assert!(held(shared, &full) < held("{}", &full));
    // one rank, parts of a sequence, or nothing to compute again: as without
    let others = [
        (4, parts(RecomputePolicy::None, false)),
        (4, parts(RecomputePolicy::Full, true)),
        (1, plan()),
    ];
    for (ranks, other) in others {
        assert_eq!(beyond(shared, ranks, &other), 0.0, "{other:?}");
    }
}

#[test]
fn weights_that_stay_gathered_trade_memory_for_the_gather_of_the_backward_pass() {
    let stays = r#"{"keeps_gathered": true}"#;
    let sharded = |zero| Plan {
        data: 8,
        zero,
        overlap_param_gather: false,
        ..plan()
    };
    let held =
        |software: &str, plan: &Plan| jobs::priced(&job(software, 8), plan).peak_memory_bytes;
    assert!(beyond(stays, 8, &sharded(3)) < 0.0);
    assert!(held(stays, &sharded(3)) > held("{}", &sharded(3)));
    assert_eq!(beyond(stays, 8, &sharded(2)), 0.0);
}

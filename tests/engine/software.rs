//! Does software only ever add to what the machine needs, and by what its profile says?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

use crate::worlds;

use proptest::prelude::*;
use scalewright::estimate::price;
use scalewright::hardware::Cluster;
use scalewright::operator_cost::Kernel;
use scalewright::plan::{Plan, Task, lower};
use scalewright::units::{Dtype, FlopsPerSecond};
use worlds::jobs;
use worlds::programs::{beyond, cluster, job, plan, seconds};

#[test]
fn the_default_profile_is_not_written_and_changes_nothing() {
    let training = jobs::training(8, 2048, "");
    let text = serde_json::to_string(&training).unwrap();
    assert!(!text.contains("software"));
    let plain = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &training);
    let named = jobs::training(
        8,
        2048,
        r#", "software": {"name": "own", "host": {"host_time": 0.0}}"#,
    );
    let named = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &named);
    assert_eq!(seconds(&plain, &plan()), seconds(&named, &plan()));
}

#[test]
fn every_pass_that_is_added_makes_the_step_longer() {
    let fused = seconds(&job("{}", 1), &plan());
    for (table, field) in [
        ("layer", "norm"),
        ("layer", "rotary"),
        ("layer", "gated_activation"),
        ("layer", "addition"),
        ("layer", "scores"),
        ("vocabulary", "loss"),
    ] {
        let software = format!(r#"{{"{table}": {{"{field}": [60.0, 60.0]}}}}"#);
        let more = seconds(&job(&software, 1), &plan());
        assert!(more > fused, "{field}: {more} after {fused}");
    }
}

#[test]
fn passes_for_biases_lengthen_products_that_have_one() {
    let step = |model: &str, software: &str| {
        let training = jobs::training(8, 2048, &format!(r#", "software": {software}"#));
        seconds(&jobs::job(model, &cluster(1), &training), &plan())
    };
    let apart = r#"{"layer": {"bias": [2.0, 0.0]}}"#;
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
    let slow = job(&format!(r#"{{"host": {{"host_time": {host}}}}}"#), 1);
    let estimate = jobs::priced(&slow, &plan());
    let kernels: f64 = slow
        .graph
        .order
        .iter()
        .map(|&block| lower(&slow.graph, block, &slow.training, &plan()))
        .flat_map(|program| [program.forward, program.backward].concat())
        .map(|task| match task {
            Task::Compute { kernel, .. } => match kernel {
                Kernel::Memory { launches, .. } | Kernel::Cast { launches, .. } => launches,
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
fn tensors_that_know_how_they_are_shared_out_keep_the_host_of_tensor_ranks_alone() {
    let step = |software: &str, tensor: u32| {
        let plan = Plan { tensor, ..plan() };
        seconds(&job(software, tensor), &plan)
    };
    let base = r#"{"host": {"host_time": 1e-3}}"#;
    let each = |way: [f64; 2]| {
        format!(r#"{{"host": {{"host_time": 1e-3, "tensor_host_time": {way:?}}}}}"#)
    };
    assert_eq!(step(&each([1e-2, 1e-2]), 1), step(base, 1));
    let (plain, forward) = (step(base, 2), step(&each([1e-2, 0.0]), 2));
    // a forward pass has a product for each two gradients
    let backward = step(&each([0.0, 1e-2]), 2);
    assert!(
        plain < forward && forward < backward,
        "{plain} {forward} {backward}"
    );
    let ratio = (backward - plain) / (forward - plain);
    assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
}

#[test]
fn a_host_that_keeps_up_costs_nothing() {
    let quick = seconds(&job(r#"{"host": {"host_time": 1e-9}}"#, 1), &plan());
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
        Some(Kernel::Memory { bytes, .. } | Kernel::Cast { bytes, .. }) => bytes.value(),
        Some(Kernel::Strided { bytes, strided, .. }) => bytes.value() + strided.value(),
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
    let biased = moved(
        r#"{"experts": {"expert_bias": [6.0, 6.0]}}"#,
        "bf16",
        &spread,
    );
    let sorted = moved(r#"{"experts": {"sorts_received": true}}"#, "bf16", &spread);
    assert!(
        biased > fused && sorted > fused,
        "{biased} {sorted} {fused}"
    );
    // alone, a rank has nobody to receive from
    let alone = moved(r#"{"experts": {"sorts_received": true}}"#, "bf16", &plan());
    assert_eq!(alone, moved("{}", "bf16", &plan()));
}

#[test]
fn rows_of_experts_are_read_and_written_as_often_as_a_program_does() {
    // 4,096 tokens of two copies of 1,024 columns, and 2,048 columns of the first product
    let rows = 4096.0 * 2.0 * 2.0;
    let plain = moved("{}", "bf16", &plan());
    let more = |software: &str| moved(software, "bf16", &plan()) - plain;
    for field in ["dispatch_passes", "combine_passes"] {
        let software = format!(r#"{{"experts": {{"{field}": [5.0, 9.0]}}}}"#);
        let share = more(&software) / (rows * 1024.0 * (3.0 + 7.0));
        assert!((share - 1.0).abs() < 1e-9, "{field}: {share}");
    }
    let share = more(r#"{"experts": {"expert_passes": [4.0, 6.0]}}"#) / (rows * 2048.0 * 10.0);
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    // kernels that take rows one element at a time read and write them
    for field in ["dispatch_strided", "combine_strided"] {
        let software = format!(r#"{{"experts": {{"{field}": [1.0, 2.0]}}}}"#);
        let share = more(&software) / (rows * 1024.0 * 3.0 * 2.0);
        assert!((share - 1.0).abs() < 1e-9, "{field}: {share}");
    }
}

#[test]
fn a_loop_over_experts_moves_the_stream_for_each_expert_of_the_rank() {
    let software = r#"{"experts": {"stream_passes": [1.0, 4.0]}}"#;
    let more = |plan: &Plan| moved(software, "bf16", plan) - moved("{}", "bf16", plan);
    // 4,096 tokens of 1,024 columns in two bytes, and eight experts, which two ranks share
    let stream = 4096.0 * 1024.0 * 2.0;
    let spread = Plan {
        data: 2,
        expert: 2,
        ..plan()
    };
    for (plan, experts) in [(plan(), 8.0), (spread, 4.0)] {
        let share = more(&plan) / (stream * experts * 5.0);
        assert!((share - 1.0).abs() < 1e-9, "{experts}: {share}");
    }
}

#[test]
fn a_stash_of_what_experts_keep_is_read_and_written_on_each_way() {
    // 4,096 tokens of two copies; 1,024 columns of the stream and of each half of the activation's input
    let rows = 4096.0 * 2.0;
    for (precision, operand) in [("bf16", 2.0), ("mxfp8", 1.03125)] {
        let kept = rows * 1024.0 * (operand + 2.0 * 2.0 + operand);
        let stashed = moved(
            r#"{"experts": {"stashes_experts": true}}"#,
            precision,
            &plan(),
        );
        let copied = stashed - moved("{}", precision, &plan());
        let share = copied / (4.0 * kept);
        assert!((share - 1.0).abs() < 1e-9, "{precision}: {share}");
    }
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
            Kernel::Memory { bytes, .. } | Kernel::Cast { bytes, .. } => bytes.value(),
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

#[test]
fn weights_cast_once_a_step_spare_every_micro_batch_their_passes() {
    let once = r#"{"weights": {"casts_weights_once": true}}"#;
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

/// Bytes per weight of layers: a tensor's own scale is sought and cast on the owner, blocks on every rank in both
/// layouts; shards that passes gather have no such cast.
#[test]
fn weights_cast_once_a_step_take_their_bytes_behind_the_update() {
    let layers = 4.0 * (4.0 * 1024.0 * 1024.0 + 3.0 * 1024.0 * 4096.0);
    let optimizer = |once: bool, precision: &str, data: u32, zero: u8| {
        let more = format!(
            r#", "precision": "{precision}", "software": {{"weights": {{"casts_weights_once": {once}}}}}"#
        );
        let training = jobs::training(8 * u64::from(data), 2048, &more);
        let mut model: serde_json::Value = serde_json::from_str(&jobs::llama(4, 1024, 4)).unwrap();
        for (field, value) in [("heads", 8), ("kv_heads", 8), ("ffn", 4096)] {
            model[field] = value.into();
        }
        let mut machines = cluster(data);
        for format in [Dtype::Fp8, Dtype::Mxfp8, Dtype::Nvfp4] {
            let rate = machines.device.matrix[&Dtype::Bf16] * 2.0;
            machines.device.matrix.insert(format, rate);
        }
        let job = jobs::job(&model.to_string(), &machines, &training);
        let sharing = Plan {
            data,
            zero,
            ..plan()
        };
        let estimate = jobs::priced(&job, &sharing);
        let lines = estimate.time.iter().filter(|line| line.term == "optimizer");
        let device = &job.cluster.device;
        let rate = device.main_memory().sustained().value() * device.cast_share;
        lines.map(|line| line.time_s).sum::<f64>() * rate
    };
    let cases = [
        ("bf16", 0.0, 1.0),
        ("fp8", 5.0, 4.0),
        ("mxfp8", 2.0 + 2.0 * 1.03125, 1.0),
        ("nvfp4", 4.0 + 2.0 * 0.5625, 1.0),
    ];
    for (precision, bytes, owners) in cases {
        let moved = |data, zero| {
            optimizer(true, precision, data, zero) - optimizer(false, precision, data, zero)
        };
        let wanted = layers * bytes / owners;
        let got = moved(4, 1);
        // norms are cast with the weights beside them
        assert!(
            (got - wanted).abs() <= 1e-3 * wanted,
            "{precision}: {got} for {wanted}"
        );
        assert_eq!(moved(4, 3), 0.0, "{precision}");
    }
}

#[test]
fn an_update_takes_as_long_as_the_bytes_that_it_moves() {
    let optimizer = |bytes: f64| {
        let job = job(&format!(r#"{{"optimizer": {{"update": {bytes}}}}}"#), 1);
        let estimate = jobs::priced(&job, &plan());
        let lines = estimate.time.iter().filter(|line| line.term == "optimizer");
        lines.map(|line| line.time_s).sum::<f64>()
    };
    let (half, whole) = (optimizer(40.0), optimizer(80.0));
    assert!(half > 0.0);
    assert!((whole / half - 2.0).abs() < 1e-9, "{whole} after {half}");
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
        flash(r#"{"layer": {"joined": 20.0}}"#),
        flash(r#"{"layer": {"joined": 40.0}}"#),
    );
    assert!(apart < two && two < four, "{apart}, {two}, {four}");
}

#[test]
fn gradients_that_no_sum_awaits_spare_its_traffic_where_products_would_add_them() {
    let step = |more: &str| {
        let training = jobs::training(8, 2048, more);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &training);
        seconds(&job, &plan())
    };
    let plain = r#", "software": {"weights": {"plain_gradients": true}}"#;
    assert!(step(plain) < step(""));
    // a pass of its own adds what products do not
    let apart = r#", "fused_gradients": false"#;
    assert_eq!(step(&format!("{apart}{plain}")), step(apart));
    assert!(step(plain) < step(apart));
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
    let ahead = launches(&format!(r#"{{"host": {{"host_time": {host}}}}}"#));
    let blocking = launches(&format!(
        r#"{{"host": {{"host_time": {host}, "blocking": true}}}}"#
    ));
    let twice = launches(&format!(
        r#"{{"host": {{"host_time": {}, "blocking": true}}}}"#,
        2.0 * host
    ));
    assert!(blocking > ahead && blocking > 0.0);
    assert!(
        (twice / blocking - 2.0).abs() < 1e-9,
        "{twice} and {blocking}"
    );
}

#[test]
fn scales_of_earlier_steps_shorten_steps_in_fp8_alone() {
    let cluster = Cluster {
        device: worlds::h100(),
        ..cluster(1)
    };
    let step = |precision: &str, delayed: bool| {
        let more = format!(
            r#", "precision": "{precision}", "software": {{"weights": {{"delayed_scaling": {delayed}}}}}"#
        );
        let training = jobs::training(8, 2048, &more);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster, &training);
        seconds(&job, &plan())
    };
    assert!(step("fp8", true) < step("fp8", false));
    assert_eq!(step("bf16", true), step("bf16", false));
}

#[test]
fn figures_that_no_program_has_are_refused_by_name() {
    for (table, field, value) in [
        ("layer", "norm", "[-1.0, 5.0]"),
        ("vocabulary", "loss", "[38.0, 1e9]"),
        ("host", "host_time", "2.0"),
        ("layer", "bias", "[-1.0, 0.0]"),
        ("experts", "routing_kernels", "[-1.0, 0.0]"),
        ("host", "expert_host_time", "[2.0, 0.0]"),
        ("host", "routing_host_time", "[0.0, 2.0]"),
        ("host", "tensor_host_time", "[0.0, 2.0]"),
        ("tensor", "whole_copies", "-1.0"),
        ("weights", "accumulation", "1e9"),
        ("zero", "gather_rank_time", "2.0"),
        ("zero", "gather_host_time", "[0.0, 2.0]"),
        ("zero", "gathers_per_layer", "0.5"),
        ("layer", "joined", "-1.0"),
        ("zero", "gather_copy", "1e9"),
        ("zero", "reduce_copy", "-2.0"),
        ("optimizer", "update", "1e9"),
        ("vocabulary", "logits", "[-1.0, 0.0]"),
        ("vocabulary", "vocabulary_multiple", "0"),
    ] {
        let more = format!(r#", "software": {{"{table}": {{"{field}": {value}}}}}"#);
        let training = jobs::training(8, 2048, &more);
        let error = training.check().unwrap_err().to_string();
        assert!(
            error.contains(&format!("software.{table}.{field}")),
            "{error}"
        );
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

#[test]
fn tensors_seen_one_by_one_cost_their_layers_a_step_unless_state_is_flat() {
    let slow = r#"{"optimizer": {"layer_update_time": 1e-3}}"#;
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
    let copied = r#"{"layer": {"heads": [2.0, 2.0]}}"#;
    assert!(beyond(copied, 1, &plan()) > 0.0);
    let fused = |software: &str| {
        let more = format!(r#", "flash_attention": true, "software": {software}"#);
        let training = jobs::training(8, 2048, &more);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &training);
        seconds(&job, &plan())
    };
    assert_eq!(fused(copied), fused("{}"));
}

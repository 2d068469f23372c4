//! What does a program keep for its backward pass, and what does it make again?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

use crate::worlds;

use scalewright::plan::{Plan, RecomputePolicy, lower};
use scalewright::workload::BlockRole;
use worlds::jobs;
use worlds::programs::{beyond, cluster, job, plan, seconds};

/// Names of the operators of a layer that full recomputation leaves out.
fn spared(more: &str) -> Vec<&'static str> {
    let more = format!(r#", "software": {{"recompute": {{"stops_early": true}}}}{more}"#);
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
    let early = r#"{"recompute": {"stops_early": true}}"#;
    let again = |recompute| Plan {
        recompute,
        ..plan()
    };
    assert!(beyond(early, 1, &again(RecomputePolicy::Full)) < 0.0);
    for policy in [RecomputePolicy::None, RecomputePolicy::Selective] {
        assert_eq!(beyond(early, 1, &again(policy)), 0.0);
    }
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
    let compiled = r#"{"recompute": {"repeat_unread": false}}"#;
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
    let narrow = r#"{"recompute": {"repeat_unread": false, "selective_feed_forward": true}}"#;
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
    let alternate =
        r#"{"recompute": {"selective_alternate": true}, "layer": {"products_apart": true}}"#;
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
fn narrow_products_alone_stay_whether_wide_ones_are_apart_or_not() {
    let llama = jobs::llama(4, 1024, 4);
    let policy = RecomputePolicy::Selective;
    // weights apart have other shapes, for which other tensors stand in
    let joined = r#"{"recompute": {"selective_feed_forward": true},
        "weights": {"gradient_stand_ins": false}}"#;
    let joined = repeated(&llama, joined, policy);
    let apart = r#"{"recompute": {"selective_feed_forward": true},
        "layer": {"products_apart": true}, "weights": {"gradient_stand_ins": false}}"#;
    let apart = repeated(&llama, apart, policy);
    assert!((apart[0] / joined[0] - 1.0).abs() < 1e-9);
    assert!((apart[1] / joined[1] - 1.0).abs() < 1e-9);
}

#[test]
fn products_of_their_own_change_neither_work_nor_what_is_kept() {
    let llama = jobs::llama(4, 1024, 4);
    let apart = r#"{"layer": {"products_apart": true}}"#;
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
    let peak = |logits: &str| {
        repeated(
            &llama,
            &format!(r#"{{"vocabulary": {{"logits": {logits}}}}}"#),
            policy,
        )[1]
    };
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
    let products = r#"{"recompute": {"keeps_products": true}}"#;
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
    let products = r#"{"recompute": {"keeps_products": true}}"#;
    let core = r#"{"recompute": {"keeps_products": true, "keeps_core": true}}"#;
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
    let more = run(&llama, r#"{"vocabulary": {"embedding_product": true}}"#) - run(&llama, "{}");
    assert!((more / (2.0 * head) - 1.0).abs() < 1e-9);
    assert!(time(r#"{"vocabulary": {"embedding_product": true}}"#) > time("{}"));
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
    let moved = run(&mixture, r#"{"experts": {"dispatch_products": true}}"#);
    assert!(((moved - sorted) / one - 5.0).abs() < 1e-9);
}

#[test]
fn shared_checkpoints_trade_memory_for_a_gather_where_layers_are_computed_again() {
    let shared = r#"{"tensor": {"shared_checkpoints": true}}"#;
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

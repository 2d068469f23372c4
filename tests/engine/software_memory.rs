//! What does a program hold that others do not: buffers between stages, whole gradients, gathered inputs?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

use crate::worlds;

use scalewright::estimate::{Job, StageMemory};
use scalewright::plan::{Plan, Purpose, RecomputePolicy, Schedule, Task, lower};
use scalewright::units::{Dtype, FlopsPerSecond};
use worlds::jobs;
use worlds::programs::cluster;

const LAYERS: u64 = 8;
const HIDDEN: u64 = 1024;
const SEQUENCE: u64 = 2048;

/// Sixteen sequences of a small model under a profile.
fn job(software: &str, precision: &str, devices: u32) -> Job {
    let more = format!(r#", "precision": "{precision}", "software": {software}"#);
    let training = jobs::training(16, SEQUENCE, &more);
    let mut cluster = cluster(devices);
    let rate = cluster.device.engine_peak(Dtype::Bf16);
    let twice = FlopsPerSecond::new(2.0 * rate.value());
    cluster.device.matrix.insert(Dtype::Fp8, twice);
    jobs::job(&jobs::llama(LAYERS, HIDDEN, 4), &cluster, &training)
}

fn held(software: &str, precision: &str, plan: &Plan) -> Vec<StageMemory> {
    let devices = u32::try_from(plan.devices()).unwrap();
    jobs::priced(&job(software, precision, devices), plan).memory
}

/// Four stages of one or two chunks.
fn stages(interleave: u32, data: u32) -> Plan {
    Plan {
        pipeline: 4,
        interleave,
        data,
        schedule: if interleave > 1 {
            Schedule::Interleaved
        } else {
            Schedule::OneForwardOneBackward
        },
        zero: 1,
        ..Plan::default()
    }
}

#[test]
fn narrow_copies_of_weights_take_a_byte_an_element_unless_they_are_made_again() {
    let plan = Plan::default();
    let recast = r#"{"weights": {"recasts_weights": true}}"#;
    let (layer, _) = blocks(&job("{}", "fp8", 1), &plan);
    for (precision, narrow) in [("fp8", 1.0), ("bf16", 0.0)] {
        let [all, without] = ["{}", recast].map(|s| held(s, precision, &plan)[0].weights_bytes);
        assert_eq!(all - without, LAYERS as f64 * layer * narrow, "{precision}");
    }
}

#[test]
fn a_loss_over_a_shared_vocabulary_may_hold_more_beside_what_it_keeps() {
    let shared = |tensor: u32, more: &str| {
        let software = format!(r#"{{"vocabulary": {{"logits": [4.0, 8.0]{more}}}}}"#);
        let job = job(&software, "bf16", tensor);
        let plan = Plan {
            tensor,
            ..Plan::default()
        };
        let head = lower(&job.graph, job.graph.blocks.len() - 1, &job.training, &plan);
        head.activations.transient.value()
    };
    let logits = (SEQUENCE * 32_000) as f64;
    for (tensor, beside) in [(1, 8.0), (4, 12.0)] {
        let parallel = shared(tensor, r#", "logits_shared": 12.0"#);
        assert_eq!(parallel, logits / f64::from(tensor) * beside);
        assert_eq!(shared(tensor, ""), logits / f64::from(tensor) * 8.0);
    }
}

#[test]
fn stages_keep_buffers_outputs_and_gradients_of_each_micro_batch() {
    let keeps = r#"{"pipeline": {"keeps_handed": true}}"#;
    let plan = stages(1, 1);
    let [with, without] = [keeps, "{}"].map(|software| held(software, "bf16", &plan));
    let handed = (SEQUENCE * HIDDEN * 2) as f64;
    let more = |stage: usize| with[stage].workspace_bytes - without[stage].workspace_bytes;
    // 16 micro-batches: outputs and their gradients, then inputs that wait and gradients of inputs
    assert_eq!(more(0), 2.0 * 16.0 * handed);
    for (stage, flying) in [(1, 3.0), (2, 2.0)] {
        let expected = 2.0 * (16.0 + 16.0 - flying) * handed;
        assert_eq!(more(stage), expected, "stage {stage}");
    }
    let logits = (SEQUENCE * 32_000 * 2) as f64;
    assert_eq!(more(3), 2.0 * 15.0 * handed + 16.0 * logits);
    let alone = Plan::default();
    assert_eq!(held(keeps, "bf16", &alone), held("{}", "bf16", &alone));
}

#[test]
fn gradients_are_whole_for_the_virtual_stages_that_run_back_meanwhile() {
    let apart = r#"{"zero": {"reduces_by_stage": true}}"#;
    let gradients = |software: &str, plan: &Plan| held(software, "bf16", plan)[1].gradients_bytes;
    let whole = gradients("{}", &stages(1, 2));
    assert_eq!(gradients(apart, &stages(1, 2)), whole * 1.5);
    // 2 replicas of 8 micro-batches, 4 stages: chunks alternate; of 4 micro-batches they do not
    assert_eq!(gradients(apart, &stages(2, 2)), whole * 1.5);
    assert_eq!(gradients(apart, &stages(2, 4)), whole * 0.75);
    let alone = stages(1, 1);
    assert_eq!(gradients(apart, &alone), gradients("{}", &alone));
}

#[test]
fn inputs_that_stay_gathered_are_kept_whole_and_gathered_no_more() {
    let plan = Plan {
        tensor: 4,
        sequence_parallel: true,
        ..Plan::default()
    };
    let lowered = |software: &str| {
        let job = job(software, "bf16", 4);
        lower(&job.graph, job.graph.blocks.len() - 2, &job.training, &plan)
    };
    let gathers = |tasks: &[Task]| {
        let tensor = |task: &&Task| {
            matches!(task, Task::Communicate { purpose: Purpose::Tensor, collective, .. }
                if *collective == scalewright::collective::Collective::AllGather)
        };
        tasks.iter().filter(tensor).count()
    };
    let (parts, whole) = (
        lowered("{}"),
        lowered(r#"{"tensor": {"keeps_gathered_inputs": true}}"#),
    );
    assert_eq!(gathers(&parts.forward), gathers(&whole.forward));
    // gradients of both outputs are gathered either way, inputs of two products no more
    assert_eq!(gathers(&parts.backward), gathers(&whole.backward) + 2);
    // the inputs of the first products of attention and feed-forward part, three quarters of each
    let input = (SEQUENCE * HIDDEN * 2) as f64;
    let more = whole.activations.kept.value() - parts.activations.kept.value();
    assert_eq!(more, 2.0 * input * 0.75);
}

#[test]
fn copies_of_whole_sequences_lie_beside_the_loss_of_ranks_that_exchange_them_at_once() {
    let plan = |sequence_parallel: bool, tensor_chunks: u32| Plan {
        tensor: 4,
        sequence_parallel,
        tensor_chunks,
        ..Plan::default()
    };
    let beside = |copies: f64, plan: &Plan| {
        let vocabulary = r#""vocabulary": {"logits": [4.0, 10.0]}"#;
        let software = format!(r#"{{{vocabulary}, "tensor": {{"whole_copies": {copies:?}}}}}"#);
        let job = job(&software, "bf16", 4);
        let head = job.graph.blocks.len() - 1;
        let lowered = lower(&job.graph, head, &job.training, plan);
        lowered.activations.transient.value()
    };
    let more = |plan: &Plan| beside(2.0, plan) - beside(0.0, plan);
    assert_eq!(more(&plan(true, 1)), 2.0 * (SEQUENCE * HIDDEN * 2) as f64);
    // nobody exchanges parts of sequences, or parts of them travel under products
    assert_eq!(more(&plan(false, 1)), 0.0);
    assert_eq!(more(&plan(true, 4)), 0.0);
}

/// Elements of a layer, of embedding and of head on a rank.
fn blocks(job: &Job, plan: &Plan) -> (f64, [f64; 2]) {
    let of = |block: usize| {
        lower(&job.graph, block, &job.training, plan)
            .weights
            .local()
    };
    let last = job.graph.blocks.len() - 1;
    (of(last - 1), [of(0), of(last)])
}

#[test]
fn outputs_that_are_put_together_take_their_length_once_more() {
    let plan = stages(1, 1);
    let logits = (SEQUENCE * 32_000 * 2) as f64;
    let of = |software: &str| held(software, "bf16", &plan);
    let [apart, merged] = ["", r#", "merges_outputs": true"#].map(|more| {
        of(&format!(
            r#"{{"pipeline": {{"keeps_handed": true{more}}}}}"#
        ))
    });
    let more = |stage: usize| merged[stage].workspace_bytes - apart[stage].workspace_bytes;
    assert_eq!([0, 1, 2, 3].map(more), [0.0, 0.0, 0.0, 16.0 * logits]);
    // the one at work lies beside its loss already
    let loss = r#"{"vocabulary": {"logits": [4.0, 10.0]}}"#;
    let both = r#"{"vocabulary": {"logits": [4.0, 10.0]}, "pipeline": {"keeps_handed": true}}"#;
    let others = of(both)[3].workspace_bytes - of(loss)[3].workspace_bytes;
    let handed = 2.0 * 15.0 * (SEQUENCE * HIDDEN * 2) as f64;
    assert_eq!(others, handed + 15.0 * logits);
}

#[test]
fn gathers_into_buffers_of_their_own_hold_weights_twice() {
    let plan = Plan {
        data: 4,
        zero: 3,
        ..Plan::default()
    };
    let (layer, [embedding, head]) = blocks(&job("{}", "bf16", 4), &plan);
    let ends = embedding + head;
    let held = |software: &str| held(software, "bf16", &plan)[0].workspace_bytes;
    let apart = held(r#"{"zero": {"gathers_apart": true}}"#) - held("{}");
    let pieces = layer + layer.max(embedding).max(head);
    let both = (layer + ends) + (layer + layer.max(ends));
    let rest = f64::EPSILON * 8.0 * held("{}");
    assert!((apart - 2.0 * (both - pieces)).abs() <= rest, "{apart}");
}

#[test]
fn shards_that_the_optimizer_updates_need_no_narrow_ones_beside_them() {
    let wide = r#"{"zero": {"wide_shards": true}}"#;
    let plan = |data: u32, zero: u8| Plan {
        data,
        zero,
        ..Plan::default()
    };
    let weights = |software: &str, plan: &Plan| held(software, "bf16", plan)[0].weights_bytes;
    assert_eq!(weights(wide, &plan(4, 3)), 0.0);
    // nothing is cut, or weights stay whole
    for same in [plan(1, 3), plan(4, 2)] {
        assert_eq!(weights(wide, &same), weights("{}", &same));
    }
    // without a master copy the shards are all there is
    let alone = |software: &str| held(software, "fp32", &plan(4, 3))[0].weights_bytes;
    assert_eq!(alone(wide), alone("{}"));
}

#[test]
fn weights_that_are_gathered_narrow_stay_so_but_for_embedding_and_head() {
    let narrow = r#"{"weights": {"recasts_weights": true}, "zero": {"gathers_narrow": true}}"#;
    let plan = Plan {
        data: 2,
        zero: 1,
        ..Plan::default()
    };
    let (layer, [embedding, head]) = blocks(&job("{}", "fp8", 2), &plan);
    let ends = embedding + head;
    let of = |precision: &str| held(narrow, precision, &plan)[0].weights_bytes;
    let layers = LAYERS as f64 * layer;
    assert_eq!(of("fp8"), layers + 2.0 * ends);
    assert_eq!(of("bf16"), 2.0 * (layers + ends));
    // ranks of a context that share an only replica gather them wide
    let shared = |software: &str, plan: &Plan| held(software, "fp8", plan)[0].total_bytes;
    let rings = Plan {
        data: 1,
        context: 2,
        ..plan.clone()
    };
    let wide = r#"{"weights": {"recasts_weights": true}}"#;
    assert_eq!(shared(narrow, &rings), shared(wide, &rings));
    assert!(shared(narrow, &plan) < shared(wide, &plan));
    // and travel so
    let plan = Plan {
        data: 8,
        zero: 3,
        ..Plan::default()
    };
    let step = |software: &str, precision: &str| {
        jobs::priced(&job(software, precision, 8), &plan).step_time_s
    };
    assert!(step(narrow, "fp8") < step(wide, "fp8"));
    assert_eq!(step(narrow, "bf16"), step(wide, "bf16"));
}

#[test]
fn a_compiler_keeps_no_product_that_no_gradient_reads() {
    let kept = |more: &str| {
        let software = format!(
            r#"{{"recompute": {{"selective_alternate": true, "stops_early": true{more}}},
                "layer": {{"products_apart": true}}}}"#
        );
        let job = job(&software, "bf16", 1);
        let layer = job.graph.blocks.len() - 2;
        let lowered = lower(&job.graph, layer, &job.training, &Plan::default());
        lowered.activations.kept_selective.value()
    };
    // of the seven products the last is kept by the policy and read by the sum behind it alone
    let output = (SEQUENCE * HIDDEN * 2) as f64;
    assert_eq!(kept("") - kept(r#", "repeat_unread": false"#), output);
}

#[test]
fn a_block_of_gradients_lies_beside_the_sums_and_a_reduction_keeps_its_buffer() {
    let apart = r#"{"zero": {"reduces_by_stage": true}}"#;
    for interleave in [1, 2] {
        let plan = stages(2, 2);
        let plan = Plan {
            interleave,
            schedule: if interleave > 1 {
                plan.schedule
            } else {
                Schedule::OneForwardOneBackward
            },
            ..plan
        };
        let job = job("{}", "bf16", 8);
        let (layer, _) = blocks(&job, &plan);
        let wide = job.training.gradient.bytes();
        let [with, without] = [apart, "{}"].map(|software| held(software, "bf16", &plan));
        let more = with[1].workspace_bytes - without[1].workspace_bytes;
        assert_eq!(more, layer * (2.0 + f64::from(interleave) * wide));
    }
}

#[test]
fn a_policy_without_the_output_projection_keeps_no_stream_behind_it() {
    let lowered = |more: &str| {
        let software = format!(
            r#"{{"recompute": {{"keeps_products": true, "repeat_unread": false,
                "selective_feed_forward": true{more}}}}}"#
        );
        let job = job(&software, "bf16", 1);
        let layer = job.graph.blocks.len() - 2;
        lower(&job.graph, layer, &job.training, &Plan::default())
    };
    let [kept, again] = [lowered(""), lowered(r#", "repeats_output": true"#)];
    let stream = (SEQUENCE * HIDDEN * 2) as f64;
    let less = kept.activations.kept_selective - again.activations.kept_selective;
    assert_eq!(less.value(), stream);
    assert_eq!(kept.activations.kept, again.activations.kept);
    let repeated = |tasks: &[Task]| {
        let of = |task: &&Task| matches!(task, Task::Compute { recompute, .. } if recompute.by_selective());
        tasks.iter().filter(of).count()
    };
    // the product and the sum behind it; the norm was made again before
    assert_eq!(repeated(&again.forward), repeated(&kept.forward) + 2);
}

/// `P (q Q + k K)` bytes, in bf16: outputs of 16 heads, keys and values of 4.
#[test]
fn a_ring_holds_outputs_and_keys_of_all_its_parts() {
    let held = |queries: f64, keys: f64, context| {
        let software = format!(r#"{{"context": {{"ring_held": [{queries:?}, {keys:?}]}}}}"#);
        let plan = Plan {
            context,
            ..Plan::default()
        };
        held(&software, "bf16", &plan)[0].workspace_bytes
    };
    for context in [2, 4] {
        // each of P ranks has a P-th of the tokens and holds P parts of them
        let outputs = held(1000.0, 0.0, context) - held(500.0, 0.0, context);
        assert_eq!(outputs, 500.0 * 2.0 * (SEQUENCE * HIDDEN) as f64);
        let keys = held(1000.0, 0.0, context) - held(0.0, 1000.0, context);
        assert_eq!(keys, outputs, "keys and values are half as wide as outputs");
    }
    assert_eq!(
        held(1000.0, 1000.0, 1),
        held(0.0, 0.0, 1),
        "one rank has no ring"
    );
}

/// One tensor of each shape in bf16, whatever the number of layers: queries, keys and values, attention's output,
/// both inputs of the activation, the layer's last product, the head.
#[test]
fn tensors_stand_in_for_gradients_once_for_each_shape() {
    let more = |plain: bool, apart: bool, plan: &Plan| -> Vec<f64> {
        let [with, without] = [true, false].map(|stand_ins| {
            let software = format!(
                r#"{{"layer": {{"products_apart": {apart}}},
                "weights": {{"plain_gradients": {plain}, "gradient_stand_ins": {stand_ins}}}}}"#
            );
            held(&software, "bf16", plan)
        });
        let pairs = with.iter().zip(&without);
        pairs
            .map(|(w, o)| w.workspace_bytes - o.workspace_bytes)
            .collect()
    };
    let (hidden, keys, inner, vocab) = (1024.0, 256.0, 3072.0, 32000.0);
    let layer = (hidden + 2.0 * keys + hidden + 3.0 * inner) * hidden;
    let all = 2.0 * (layer + vocab * hidden);
    assert_eq!(more(false, false, &Plan::default()), [all]);
    // queries and attention's output are of one shape, so are keys and values, and both inputs
    let apart = 2.0 * (hidden + keys + 2.0 * inner + vocab) * hidden;
    assert_eq!(more(false, true, &Plan::default()), [apart]);
    assert_eq!(more(true, false, &Plan::default()), [0.0]);
    let tensor = Plan {
        tensor: 2,
        ..Plan::default()
    };
    assert_eq!(more(false, false, &tensor), [all / 2.0]);
    assert_eq!(
        more(false, false, &stages(1, 1)),
        [2.0 * layer, 2.0 * layer, 2.0 * layer, all]
    );
    assert_eq!(
        more(false, false, &stages(2, 1)),
        [2.0 * layer, 2.0 * layer, 2.0 * layer, all]
    );
}

/// Tensor ranks that cut no expert have half of the copies each, of twice the width inside an expert: what experts
/// keep inside is as large, and their inputs half.
#[test]
fn experts_keep_as_much_inside_whether_tensor_ranks_cut_them_or_not() {
    let more = r#", "software": {}"#;
    let training = jobs::training(16, SEQUENCE, more);
    let job = jobs::job(&jobs::mixture(2, HIDDEN), &cluster(8), &training);
    let kept = |expert_tensor: u32| {
        let plan = Plan {
            tensor: 2,
            data: 4,
            expert: 4,
            expert_tensor,
            sequence_parallel: true,
            ..Plan::default()
        };
        jobs::priced(&job, &plan).memory[0].activations_bytes
    };
    // two copies of each token enter one layer with experts
    let inputs = 2.0 * (SEQUENCE * HIDDEN) as f64 * 2.0;
    assert_eq!(kept(2) - kept(1), inputs / 2.0);
}

/// A gate with a kernel of its own keeps its output, too: a width of the feed-forward part in each layer.
#[test]
fn a_gate_of_its_own_keeps_what_it_made() {
    let kept = |software: &str| held(software, "bf16", &Plan::default())[0].activations_bytes;
    let more = kept(r#"{"recompute": {"gated_kept": 3.0}}"#) - kept("{}");
    let width = 3 * HIDDEN;
    assert_eq!(more, 2.0 * (LAYERS * SEQUENCE * width) as f64);
}

/// A plan of one device and one micro-batch.
fn once() -> Plan {
    Plan {
        micro_batch: 16,
        ..Plan::default()
    }
}

fn of_state(more: &str, plan: &Plan) -> StageMemory {
    let training = jobs::training(16, SEQUENCE, more);
    let job = jobs::job(&jobs::llama(LAYERS, HIDDEN, 4), &cluster(1), &training);
    jobs::priced(&job, plan).memory[0].clone()
}

#[test]
fn weights_that_are_updated_themselves_have_no_wider_copy_and_narrow_moments() {
    let plan = Plan::default();
    let mixed = of_state("", &plan);
    let pure = of_state(r#", "state": "bf16", "gradient": "bf16""#, &plan);
    assert_eq!(pure.weights_bytes, mixed.weights_bytes);
    assert_eq!(pure.gradients_bytes / mixed.gradients_bytes, 0.5);
    assert_eq!(pure.optimizer_bytes / mixed.optimizer_bytes, 4.0 / 12.0);
    let [kept, master] = ["bf16", "fp32"].map(|state| {
        let text = format!(r#", "state": "{state}", "optimizer": "sgd""#);
        of_state(&text, &plan).optimizer_bytes
    });
    assert_eq!(kept / master, 2.0 / 8.0);
}

#[test]
fn state_is_wide_or_has_the_format_of_activations() {
    for (more, fits) in [
        (r#", "state": "bf16""#, true),
        (r#", "precision": "fp8", "state": "bf16""#, true),
        (r#", "precision": "fp16", "state": "fp16""#, true),
        (r#", "precision": "fp16", "state": "bf16""#, false),
        (r#", "precision": "fp32", "state": "bf16""#, false),
        (r#", "state": "fp8""#, false),
    ] {
        assert_eq!(
            jobs::training(16, SEQUENCE, more).check().is_ok(),
            fits,
            "{more}"
        );
    }
}

#[test]
fn an_update_by_lists_holds_a_copy_more_when_activations_are_gone() {
    let again = Plan {
        recompute: RecomputePolicy::Full,
        ..Plan::default()
    };
    let with = |held: f64| {
        let more = format!(r#", "software": {{"optimizer": {{"update_held": {held}}}}}"#);
        let training = jobs::training(16, 128, &more);
        let job = jobs::job(&jobs::llama(LAYERS, HIDDEN, 4), &cluster(1), &training);
        jobs::priced(&job, &again).memory[0].clone()
    };
    let [without, one, ten] = [0.0, 1.0, 10.0].map(with);
    let elements = without.optimizer_bytes / 12.0;
    // what passes need is more than nothing and less than ten copies of all weights
    assert!(one.total_bytes >= without.total_bytes);
    assert_eq!(ten.activations_bytes, 0.0);
    let layers = without.activations_bytes - without.end_activations_bytes;
    assert_eq!(ten.earlier_activations_bytes, layers);
    assert_eq!(ten.workspace_bytes, 40.0 * elements);
}

#[test]
fn gradients_that_come_late_leave_room_for_activations_of_the_only_micro_batch() {
    let late = r#"{"optimizer": {"frees_gradients": true}}"#;
    let [usual, freed] = ["{}", late].map(|software| held(software, "bf16", &once())[0].clone());
    assert_eq!(freed.gradients_bytes, 0.0);
    assert_eq!(freed.later_gradients_bytes, usual.gradients_bytes);
    let spared = usual.total_bytes - freed.total_bytes;
    assert!(
        (spared / usual.gradients_bytes - 1.0).abs() < 1e-12,
        "{spared}"
    );
    let [usual, freed] = ["{}", late].map(|s| held(s, "bf16", &Plan::default())[0].clone());
    assert_eq!(usual, freed);
}

#[test]
fn norms_and_gelu_keep_what_their_kernels_made() {
    let [one, three] = ["1.0", "3.0"].map(|widths| {
        let software = format!(r#"{{"recompute": {{"norm_kept": {widths}}}}}"#);
        held(&software, "bf16", &once())[0].activations_bytes
    });
    // two norms a layer and the last one, each two widths of 2 bytes more
    let more = (2 * LAYERS + 1) * 16 * SEQUENCE * HIDDEN * 4;
    assert_eq!(three - one, more as f64);
    let [one, four] = ["1.0", "4.0"].map(|widths| {
        let more = format!(r#", "software": {{"recompute": {{"activation_kept": {widths}}}}}"#);
        let training = jobs::training(16, SEQUENCE, &more);
        let job = jobs::job(&jobs::gpt(LAYERS, HIDDEN), &cluster(1), &training);
        jobs::priced(&job, &once()).memory[0].activations_bytes
    });
    assert_eq!(four - one, (LAYERS * 16 * SEQUENCE * 4 * HIDDEN * 6) as f64);
}

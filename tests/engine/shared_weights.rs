//! Which weights, gradients and inputs do ranks hold twice, gather again or pass over whole?

#![allow(clippy::unwrap_used, clippy::float_cmp)] // the lint's own exemption ends at test functions; exact laws

use crate::worlds;

use scalewright::collective::Collective;
use scalewright::estimate::{Estimate, Job};
use scalewright::operator_cost::Kernel;
use scalewright::plan::{Plan, Schedule, Task, lower};
use worlds::jobs;

fn priced(text: &str, more: &str, plan: &Plan) -> Estimate {
    let devices = u32::try_from(plan.devices()).unwrap();
    let mut cluster = worlds::nodes_of_eight(devices);
    if more.contains("fp8") {
        cluster.device = worlds::h100();
        cluster.system.device.clone_from(&cluster.device.name);
    }
    let training = jobs::training(64, 512, more);
    jobs::priced(&jobs::job(text, &cluster, &training), plan)
}

fn term(estimate: &Estimate, name: &str) -> f64 {
    let lines = estimate.time.iter().filter(|line| line.term == name);
    lines.map(|line| line.time_s).sum()
}

fn tied(layers: u64) -> String {
    let vocabulary = r#""vocab": 32000, "tied_embeddings": true"#;
    jobs::llama(layers, 1024, 4).replace(r#""vocab": 32000"#, vocabulary)
}

/// The dispatch gathers tokens for tensor ranks that cut experts and they stay so: backward passes gather the
/// gradient of what experts return, once, and nothing else.
#[test]
fn what_experts_were_given_is_not_gathered_again() {
    let gathers = |expert_tensor: u32| {
        let plan = Plan {
            tensor: 2,
            data: 4,
            expert: 4,
            expert_tensor,
            sequence_parallel: true,
            ..Plan::default()
        };
        let training = jobs::training(64, 512, "");
        let job: Job = jobs::job(
            &jobs::mixture(2, 1024),
            &worlds::nodes_of_eight(8),
            &training,
        );
        let block = job.graph.blocks.len() - 2;
        let program = lower(&job.graph, block, &job.training, &plan);
        let gathered = |tasks: &[Task]| {
            let all = tasks.iter().filter(|task| {
                matches!(task, Task::Communicate { collective, .. } if *collective == Collective::AllGather)
            });
            all.count()
        };
        [gathered(&program.forward), gathered(&program.backward)]
    };
    let [cut, whole] = [gathers(2), gathers(1)];
    // the input of cut experts, and the gradient of their output
    assert_eq!([cut[0] - whole[0], cut[1] - whole[1]], [1, 1]);
}

/// A pipeline that comes back to its first device keeps a tied table there once, and nobody adds its gradients up.
#[test]
fn a_pipeline_whose_ends_meet_shares_a_tied_table() {
    let plan = |schedule: Schedule, interleave: u32| Plan {
        pipeline: 4,
        data: 2,
        schedule,
        interleave,
        overlap_pipeline: schedule.overlaps_sends(),
        ..Plan::default()
    };
    let line = priced(&tied(8), "", &plan(Schedule::OneForwardOneBackward, 1));
    assert!(term(&line, "tied_embedding_sum") > 0.0);
    let table = 32_000.0 * 1024.0 * 2.0;
    for schedule in [Schedule::ZeroBubbleV, Schedule::DualPipe, Schedule::Chimera] {
        let chunks = schedule.rule().chunks();
        let [one, two] = [tied(8), jobs::llama(8, 1024, 4)]
            .map(|model| priced(&model, "", &plan(schedule, chunks)));
        assert_eq!(term(&one, "tied_embedding_sum"), 0.0, "{schedule:?}");
        // untied, embedding and head are tables of their own
        let more = two.memory[0].weights_bytes - one.memory[0].weights_bytes;
        assert!((more / table - 1.0).abs() < 1e-9, "{schedule:?}: {more}");
    }
}

/// Modules that predict further tokens embed them on the last stage, whose gradients of the table join the first's.
#[test]
fn gradients_of_an_embedding_that_further_tokens_use_are_added_up() {
    let with = |modules: u32| {
        let vocabulary = format!(r#""vocab": 32000, "prediction_layers": {modules}"#);
        jobs::llama(8, 1024, 4).replace(r#""vocab": 32000"#, &vocabulary)
    };
    let plan = Plan {
        pipeline: 4,
        ..Plan::default()
    };
    let [plain, further] = [0, 1].map(|modules| priced(&with(modules), "", &plan));
    assert_eq!(term(&plain, "tied_embedding_sum"), 0.0);
    let same = term(&priced(&tied(8), "", &plan), "tied_embedding_sum");
    assert!((term(&further, "tied_embedding_sum") / same - 1.0).abs() < 1e-9);
}

/// Embedding and head are multiplied in 16 bits whatever the recipe, so no narrow copy of them stays.
#[test]
fn a_narrow_recipe_keeps_narrow_copies_of_layers_alone() {
    let held = |layers: u64, precision: &str| {
        let more = format!(r#", "precision": "{precision}""#);
        priced(&jobs::llama(layers, 1024, 4), &more, &Plan::default()).memory[0].weights_bytes
    };
    let ends = |precision: &str| 2.0 * held(4, precision) - held(8, precision);
    assert_eq!(ends("fp8"), ends("bf16"));
    assert!(held(8, "fp8") > held(8, "bf16"));
    // a module that predicts a further token is a layer, whose products are narrow, and a projection
    let narrow = |modules: u32| {
        let vocabulary = format!(r#""vocab": 32000, "prediction_layers": {modules}"#);
        let text = jobs::llama(4, 1024, 4).replace(r#""vocab": 32000"#, &vocabulary);
        let [fp8, bf16] = ["fp8", "bf16"].map(|precision| {
            let more = format!(r#", "precision": "{precision}""#);
            priced(&text, &more, &Plan::default()).memory[0].weights_bytes
        });
        fp8 - bf16
    };
    let layer = (held(8, "fp8") - held(4, "fp8") - held(8, "bf16") + held(4, "bf16")) / 4.0;
    let projection = 2.0 * 1024.0 * 1024.0;
    let module = narrow(1) - narrow(0);
    assert!(
        (module / (layer + projection) - 1.0).abs() < 1e-2,
        "{module} and {layer}"
    );
}

/// With ZeRO-1 a rank updates a part, but clears and divides the whole: 4 bytes an element of fp32 sums, and 8 where
/// there are replicas.
#[test]
fn whole_gradients_are_cleared_and_divided() {
    let wide = r#", "gradient": "fp32""#;
    let plan = |data: u32, zero: u8| Plan {
        data,
        zero,
        ..Plan::default()
    };
    let update = |more: &str, plan: &Plan| {
        let more = format!("{wide}{more}");
        term(&priced(&jobs::llama(4, 1024, 4), &more, plan), "optimizer")
    };
    let mean = r#", "software": {"weights": {"divided_gradients": 0}}"#;
    let rate = worlds::nodes_of_eight(8)
        .device
        .main_memory()
        .sustained()
        .value();
    let cluster = worlds::nodes_of_eight(8);
    let training = jobs::training(64, 512, wide);
    let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster, &training);
    let elements = jobs::priced(&job, &plan(8, 0)).memory[0].gradients_bytes / 4.0;
    let divided = update("", &plan(8, 1)) - update(mean, &plan(8, 1));
    assert!((divided * rate / (8.0 * elements) - 1.0).abs() < 1e-6);
    assert_eq!(update("", &plan(1, 0)), update(mean, &plan(1, 0)));
    // wherever the update is
    let host = |more: &str| {
        let on = Plan {
            offload_optimizer: true,
            ..plan(8, 0)
        };
        let more = format!("{wide}{more}");
        let mut cluster = worlds::nodes_of_eight(8);
        cluster.system.host = Some(jobs::host());
        let training = jobs::training(64, 512, &more);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster, &training);
        jobs::priced(&job, &on).step_time_s
    };
    let more = (host("") - host(mean)) * rate;
    assert!((more / (8.0 * elements) - 1.0).abs() < 1e-6);
    // an eighth of the update, and seven eighths of the buffer are cleared beside it
    let whole = update(mean, &plan(8, 0));
    let cleared = update(mean, &plan(8, 1)) - whole / 8.0;
    assert!((cleared * rate / (3.5 * elements) - 1.0).abs() < 1e-6);
}

/// A bias behind a sum over tensor ranks is added to a rank's own tokens where those cut the sequence.
#[test]
fn gradients_of_biases_behind_a_sum_take_a_part_of_the_tokens() {
    let bytes = |sequence_parallel: bool| {
        let plan = Plan {
            tensor: 4,
            sequence_parallel,
            ..Plan::default()
        };
        let training = jobs::training(64, 512, "");
        let gpt = jobs::gpt(4, 1024);
        let plain = gpt.replace(r#""output_bias": true"#, r#""output_bias": false"#);
        assert_ne!(gpt, plain);
        [gpt, plain].map(|text| {
            let job = jobs::job(&text, &worlds::nodes_of_eight(4), &training);
            let block = job.graph.blocks.len() - 2;
            let program = lower(&job.graph, block, &job.training, &plan);
            let moved = program.backward.iter().map(|task| match task {
                Task::Compute {
                    kernel: Kernel::Memory { bytes, .. },
                    ..
                } => bytes.value(),
                _ => 0.0,
            });
            moved.sum::<f64>()
        })
    };
    let [split, whole] = [true, false].map(|on| {
        let [with, without] = bytes(on);
        with - without
    });
    // 512 tokens of 1,024 columns in bf16, of which four ranks take a part each
    assert_eq!([split, whole], [262_144.0, 1_048_576.0]);
}

/// Stages of a decoder hand on what the encoder made beside their own stream.
#[test]
fn an_encoder_s_tokens_travel_along_the_pipeline() {
    let text = |encoder: u64| {
        format!(
            r#"{{"name": "t5", "family": "encoder_decoder", "encoder_layers": 4, "layers": 4,
            "encoder_sequence": {encoder}, "hidden": 1024, "heads": 16, "ffn": 4096, "vocab": 32000,
            "position": "relative", "activation": "relu", "norm": "rmsnorm"}}"#
        )
    };
    let plan = Plan {
        pipeline: 4,
        ..Plan::default()
    };
    let sends = |encoder: u64| term(&priced(&text(encoder), "", &plan), "stage_to_stage");
    let [short, long] = [512, 4_096].map(sends);
    // 1,024 and 4,608 tokens, beside the start of a message
    assert!(
        long > 3.0 * short && long < 6.0 * short,
        "{short} and {long}"
    );
}

//! What do a host and kernels that work expert by expert add to a step of a mixture?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

use crate::worlds;

use scalewright::collective::{Collective, Crossing};
use scalewright::operator_cost::Kernel;
use scalewright::plan::{Plan, Purpose, Schedule, Task, lower};
use scalewright::workload::OperatorClass;
use worlds::fabrics;
use worlds::jobs;

const DEVICES: u32 = 4;

fn spread(expert: u32) -> Plan {
    Plan {
        micro_batch: 2,
        data: DEVICES,
        expert,
        ..Plan::default()
    }
}

fn seconds_of(model: &str, more: &str, software: &str, expert: u32) -> f64 {
    let more = format!(r#"{more}, "software": {software}"#);
    let training = jobs::training(8 * u64::from(DEVICES), 2048, &more);
    let cluster = fabrics::one_switch(DEVICES);
    jobs::priced(&jobs::job(model, &cluster, &training), &spread(expert)).step_time_s
}

/// Step of a mixture of eight experts over four ranks.
fn mixture(software: &str) -> f64 {
    seconds_of(&jobs::mixture(4, 1024), "", software, DEVICES)
}

fn dense(software: &str) -> f64 {
    seconds_of(&jobs::llama(4, 1024, 4), "", software, 1)
}

/// Kernels that one layer of a mixture launches for its experts but for their products.
fn cast_kernels(precision: &str, software: &str, expert: u32) -> f64 {
    let more = format!(r#", "precision": "{precision}", "software": {software}"#);
    let training = jobs::training(8 * u64::from(DEVICES), 2048, &more);
    let graph = jobs::model(&jobs::mixture(4, 1024)).graph(&training);
    let program = lower(&graph, graph.blocks.len() - 2, &training, &spread(expert));
    let launches = |task: &Task| match task {
        Task::Compute {
            class: OperatorClass::Experts,
            kernel: Kernel::Memory { launches, .. } | Kernel::Cast { launches, .. },
            ..
        } => *launches,
        _ => 0.0,
    };
    let tasks = [program.forward, program.backward].concat();
    tasks.iter().map(launches).sum()
}

#[test]
fn experts_in_turn_cost_time_and_other_layers_nothing() {
    let in_turn = r#"{"experts": {"experts_in_turn": true}}"#;
    assert!(mixture(in_turn) > mixture("{}"));
    assert_eq!(dense(in_turn), dense("{}"));
}

/// Rows of each product of routed experts in one layer, forward and gradients: experts of the rank and rows of one.
fn expert_rows(software: &str, expert: u32) -> Vec<[f64; 2]> {
    let more = format!(r#", "software": {software}"#);
    let training = jobs::training(8 * u64::from(DEVICES), 2048, &more);
    let graph = jobs::model(&jobs::mixture(4, 1024)).graph(&training);
    let program = lower(&graph, graph.blocks.len() - 2, &training, &spread(expert));
    let rows = |task: &Task| match task {
        Task::Compute {
            class: OperatorClass::Experts,
            kernel:
                Kernel::Matmul {
                    batch,
                    m,
                    k,
                    transposed,
                    ..
                },
            ..
        } => Some([*batch, if *transposed { *k } else { *m }]),
        _ => None,
    };
    let tasks = [program.forward, program.backward].concat();
    tasks.iter().filter_map(rows).collect()
}

/// Rows of the tiles that experts of these rows, one behind the other, touch: each is run for each of them.
fn touched(rows: &[f64], tile: f64) -> f64 {
    let mut end = 0.0_f64;
    let tiles = |rows: &f64| {
        let begin = end;
        end += rows;
        (end / tile).ceil() - (begin / tile).floor()
    };
    rows.iter().map(tiles).sum::<f64>() * tile
}

#[test]
fn tiles_that_experts_share_are_run_for_each_of_them() {
    let tile = 512.0;
    let shared = format!(r#"{{"experts": {{"shared_tile_rows": {tile}}}}}"#);
    for (expert, experts) in [(1, 8), (2, 4), (4, 2)] {
        let (own, padded) = (expert_rows("{}", expert), expert_rows(&shared, expert));
        assert!(own.len() >= 6 && own.len() == padded.len());
        for ([batch, rows], [_, more]) in own.into_iter().zip(padded) {
            assert_eq!(batch, f64::from(experts));
            // experts that begin inside a tile, a whole number of tiles in all
            let odd = tile / 2.0 + 1.0;
            let uneven: Vec<f64> = (0..experts)
                .map(|at| match at {
                    0 => rows + odd,
                    last if last == experts - 1 => rows - odd,
                    _ => rows,
                })
                .collect();
            let counted = touched(&uneven, tile) / batch;
            assert!(
                (more - counted).abs() < 1e-9,
                "{expert}: {more} of {counted}"
            );
            assert!(more > rows);
        }
    }
    assert!(mixture(&shared) > mixture("{}"));
    assert_eq!(dense(&shared), dense("{}"));
}

/// Seconds beside their bytes of the expert all-to-alls of tokens in one layer, forward and backward.
fn handled(software: &str) -> [Vec<f64>; 2] {
    let more = format!(r#", "software": {software}"#);
    let training = jobs::training(8 * u64::from(DEVICES), 2048, &more);
    let graph = jobs::model(&jobs::mixture(4, 1024)).graph(&training);
    let program = lower(&graph, graph.blocks.len() - 2, &training, &spread(DEVICES));
    [program.forward, program.backward].map(|tasks| {
        let seconds = |task: &Task| match task {
            Task::Communicate {
                purpose: Purpose::Expert,
                handling,
                ..
            } => Some(handling.value()),
            _ => None,
        };
        tasks.iter().filter_map(seconds).collect()
    })
}

/// Bytes that one layer of a mixture keeps, and its tasks, both ways.
fn kept(software: &str) -> (f64, [Vec<Task>; 2]) {
    let more = format!(r#", "software": {software}"#);
    let training = jobs::training(8 * u64::from(DEVICES), 2048, &more);
    let graph = jobs::model(&jobs::mixture(4, 1024)).graph(&training);
    let program = lower(&graph, graph.blocks.len() - 2, &training, &spread(DEVICES));
    (
        program.activations.kept.value(),
        [program.forward, program.backward],
    )
}

#[test]
fn what_experts_return_is_kept_for_the_router_unless_activations_were_weighed() {
    let (returned, tasks) = kept("{}");
    let (weighed, same) = kept(r#"{"experts": {"weighs_activations": true}}"#);
    // 4,096 tokens of two copies, 1,024 columns in bf16
    assert_eq!(returned - weighed, 4096.0 * 2.0 * 1024.0 * 2.0);
    assert_eq!(tasks, same);
}

#[test]
fn rows_take_their_time_out_and_back_once_for_each_rank() {
    let way = r#""row_time": [1e-9, 3e-9]"#;
    // 4,096 tokens of two copies
    let rows = 2.0 * 4096.0;
    let [forward, backward] = handled(&format!(r#"{{"experts": {{{way}}}}}"#));
    // gradients of what came back go out again, in the backward pass
    for seconds in [forward, backward] {
        assert!(
            (seconds[0] / (rows * 1e-9) - 1.0).abs() < 1e-9,
            "{seconds:?}"
        );
        assert!(
            (seconds[1] / (rows * 3e-9) - 1.0).abs() < 1e-9,
            "{seconds:?}"
        );
    }
    // a token whose two experts lie on one of four ranks goes there once
    let [once, _] = handled(&format!(r#"{{"experts": {{{way}, "sends_once": true}}}}"#));
    let share = 4.0 * (1.0 - 0.75 * 0.75) / 2.0;
    assert!((once[0] / (share * rows * 1e-9) - 1.0).abs() < 1e-9);
}

#[test]
fn a_router_selects_out_of_the_scores_of_all_experts_on_the_way_there_alone() {
    let of = |task: &Task| match task {
        Task::Compute {
            kernel: Kernel::Selection { scores },
            ..
        } => *scores,
        _ => 0.0,
    };
    let scores = |software: &str| kept(software).1.map(|way| way.iter().map(of).sum::<f64>());
    assert_eq!(scores("{}"), [0.0, 0.0]);
    // 4,096 tokens, eight experts
    assert_eq!(
        scores(r#"{"experts": {"selections": 1}}"#),
        [4096.0 * 8.0, 0.0]
    );
    assert_eq!(
        scores(r#"{"experts": {"selections": 2}}"#),
        [4096.0 * 16.0, 0.0]
    );
}

#[test]
fn kernels_that_take_elements_one_by_one_are_those_of_the_operators_that_the_software_names() {
    let of = |task: &Task| match task {
        Task::Compute {
            kernel: Kernel::Strided { elements, .. },
            ..
        } => *elements,
        _ => 0.0,
    };
    let elements = |software: &str| kept(software).1.map(|way| way.iter().map(of).sum::<f64>());
    assert_eq!(elements("{}"), [0.0, 0.0]);
    // 4,096 tokens, two experts each and a shared one, of 1,024 columns; rotation of 16 and 8 heads of 64
    let gated = 4096.0 * 3.0 * 1024.0;
    let strided = r#"{"layer": {"gated_activation_strided": [2, 5]}}"#;
    assert_eq!(elements(strided), [2.0 * gated, 5.0 * gated]);
    let turned = 4096.0 * (16.0 + 8.0) * 64.0;
    let strided = r#"{"layer": {"rotary_strided": [2.5, 1]}}"#;
    assert_eq!(elements(strided), [2.5 * turned, turned]);
    let less = r#"{"layer": {"gated_activation": [7, 10.5]}}"#;
    let same = r#"{"layer": {"gated_activation": [7, 10.5], "gated_activation_strided": [2, 5]}}"#;
    assert!(mixture(same) > mixture(less));
}

#[test]
fn each_expert_is_cast_by_one_kernel_or_by_three_that_seek_a_scale() {
    let (once, each) = (
        r#"{"weights": {"casts_weights_once": true}}"#,
        r#"{"weights": {"casts_weights_once": true}, "experts": {"casts_each_expert": true}}"#,
    );
    // two products, whose input is cast forward and whose output gradient is cast backward
    for (precision, together, apart) in [("fp8", 2.0, 3.0), ("mxfp8", 1.0, 1.0)] {
        for experts in [2.0, 8.0] {
            let ranks = if experts > 4.0 { 1 } else { DEVICES };
            let more = cast_kernels(precision, each, ranks) - cast_kernels(precision, once, ranks);
            let meant = 4.0 * (experts * apart - together);
            assert!(
                (more - meant).abs() < 1e-9,
                "{precision}: {more} for {meant}"
            );
        }
    }
    assert_eq!(cast_kernels("bf16", each, 1), cast_kernels("bf16", once, 1));
}

#[test]
fn a_host_that_reads_counts_back_hides_no_more_than_one_that_runs_ahead() {
    let step = |host: f64, waits: bool, blocks: bool| {
        mixture(&format!(
            r#"{{"host": {{"host_time": {host}, "routing_waits": {waits}, "blocking": {blocks}}}}}"#
        ))
    };
    for host in [1e-6, 1e-5, 5e-5, 2e-4] {
        let (ahead, waits) = (step(host, false, false), step(host, true, false));
        assert!(waits >= ahead, "{host}: {waits} and {ahead}");
        assert!(waits <= step(host, false, true), "{host}");
    }
    assert!(step(5e-5, true, false) > step(5e-5, false, false));
    assert_eq!(step(0.0, true, false), mixture("{}"));
}

#[test]
fn a_layer_whose_graph_is_replayed_keeps_its_host_for_the_experts() {
    let (host, waits) = (r#""host_time": 2e-4"#, r#""routing_waits": true"#);
    for more in [String::new(), format!(", {waits}")] {
        let eager = mixture(&format!(r#"{{"host": {{{host}{more}}}}}"#));
        let replayed = mixture(&format!(
            r#"{{"host": {{{host}{more}, "replays_attention": true}}}}"#
        ));
        assert!(
            replayed < eager && replayed > mixture("{}"),
            "{replayed} of {eager}"
        );
    }
    // a layer without routed experts has no such graph
    assert_eq!(
        dense(&format!(r#"{{"host": {{{host}}}}}"#)),
        dense(&format!(
            r#"{{"host": {{{host}, "replays_attention": true}}}}"#
        ))
    );
}

#[test]
fn a_host_that_works_for_each_expert_and_for_routing_slows_mixtures_alone() {
    let base = r#"{"host": {"host_time": 1e-4}}"#;
    for field in ["expert_host_time", "routing_host_time"] {
        let more = format!(r#"{{"host": {{"host_time": 1e-4, "{field}": [1e-2, 1e-2]}}}}"#);
        assert!(mixture(&more) > mixture(base), "{field}");
        assert_eq!(dense(&more), dense(base), "{field}");
    }
    // more experts on a rank take more of it
    let each = r#"{"host": {"host_time": 1e-4, "expert_host_time": [1e-2, 1e-2]}}"#;
    let model = jobs::mixture(4, 1024);
    let few = seconds_of(&model, "", each, DEVICES);
    assert!(seconds_of(&model, "", each, 1) > few);
}

#[test]
fn passes_in_pairs_hide_all_to_alls_and_nothing_else() {
    let paired = r#"{"experts": {"pairs_passes": true}}"#;
    let (plain, hidden) = (mixture("{}"), mixture(paired));
    assert!(hidden < plain, "{hidden} of {plain}");
    let model = jobs::mixture(4, 1024);
    let alone = seconds_of(&model, "", "{}", 1);
    assert_eq!(seconds_of(&model, "", paired, 1), alone);
    assert_eq!(dense(paired), dense("{}"));
    // what they hide is no more than what travels
    let training = jobs::training(8 * u64::from(DEVICES), 2048, "");
    let job = jobs::job(&model, &fabrics::one_switch(DEVICES), &training);
    let lines = jobs::priced(&job, &spread(DEVICES)).time;
    let travel = lines
        .iter()
        .filter(|l| l.term.starts_with("expert_parallel"));
    let travel: f64 = travel.map(|l| l.time_s).sum();
    assert!(plain - hidden <= travel * (1.0 + 1e-9));
}

/// What all-to-alls take from the pass beside them is lost, and no more than they take in the open.
#[test]
fn a_larger_share_for_all_to_alls_hides_less_of_them() {
    let with = |share: f64| {
        mixture(&format!(
            r#"{{"experts": {{"pairs_passes": true, "paired_share": {share:?}}}}}"#
        ))
    };
    assert!(with(0.0) < with(0.4) && with(0.4) < with(1.0));
    assert!(with(1.0) <= mixture("{}") * (1.0 + 1e-9));
}

/// The first micro-batch goes forward and the last one backward without an opposite pass.
#[test]
fn passes_in_pairs_leave_one_micro_batch_of_all_to_alls_exposed() {
    let model = jobs::mixture(4, 1024);
    let cluster = fabrics::one_switch(DEVICES);
    let saved = |micro_batches: u64, plan: &Plan| {
        let rows = micro_batches * u64::from(plan.data) * u64::from(plan.micro_batch);
        let [plain, paired] = ["{}", r#"{"experts": {"pairs_passes": true}}"#].map(|software| {
            let more = format!(r#", "software": {software}"#);
            let job = jobs::job(&model, &cluster, &jobs::training(rows, 2048, &more));
            jobs::priced(&job, plan).step_time_s
        });
        plain - paired
    };
    let alone = spread(DEVICES);
    let one = saved(2, &alone);
    assert!(one > 0.0 && saved(1, &alone).abs() < 1e-9 * one, "{one}");
    for count in [3, 8] {
        let ratio = saved(count, &alone) / one;
        assert!((ratio / (count - 1) as f64 - 1.0).abs() < 1e-9, "{ratio}");
    }
    // stages fill and drain with as many passes of each as there are stages: all layers of one micro-batch again
    let staged = Plan {
        data: 2,
        expert: 2,
        pipeline: 2,
        interleave: 2,
        schedule: Schedule::Interleaved,
        ..spread(2)
    };
    let [few, many] = [4, 8].map(|count| saved(count, &staged));
    assert!(0.0 < few && few < many / 2.0, "{few} {many}");
}

#[test]
fn what_goes_with_a_dispatch_slows_mixtures_alone() {
    for more in [
        r#"{"experts": {"routing_kernels": [24.0, 6.0]}}"#,
        r#"{"experts": {"sends_weights": true}}"#,
        r#"{"experts": {"gathers_routing": true}}"#,
        r#"{"experts": {"sends_row_weights": true}}"#,
    ] {
        assert!(mixture(more) > mixture("{}"), "{more}");
        assert_eq!(dense(more), dense("{}"), "{more}");
    }
}

#[test]
fn up_projections_run_again_only_where_attention_is_latent() {
    let again = r#"{"recompute": {"repeats_latent": true}}"#;
    let latent = jobs::latent(4, 1024);
    let once = seconds_of(&latent, "", "{}", 1);
    assert!(seconds_of(&latent, "", again, 1) > once);
    assert_eq!(mixture(again), mixture("{}"));
}

#[test]
fn weights_of_a_row_are_those_of_the_experts_of_a_rank_once_each_way() {
    let software =
        r#"{"experts": {"sends_once": true, "sends_row_weights": true, "gathers_routing": true}}"#;
    let training = jobs::training(
        8 * u64::from(DEVICES),
        2048,
        &format!(r#", "software": {software}"#),
    );
    let graph = jobs::model(&jobs::mixture(4, 1024)).graph(&training);
    let program = lower(&graph, graph.blocks.len() - 2, &training, &spread(DEVICES));
    let sent = |tasks: &[Task], wanted: fn(Collective, Crossing) -> bool| -> Vec<f64> {
        let bytes = tasks.iter().filter_map(|task| match task {
            Task::Communicate {
                collective,
                crossing,
                bytes,
                ..
            } if wanted(*collective, *crossing) => Some(bytes.value()),
            _ => None,
        });
        bytes.collect()
    };
    let beside = |_: Collective, crossing: Crossing| matches!(crossing, Crossing::Beside { .. });
    let rows = |_: Collective, crossing: Crossing| matches!(crossing, Crossing::Once { .. });
    // eight experts on four ranks: two fp32 weights beside a row of 1,024 bf16 numbers
    for tasks in [&program.forward, &program.backward] {
        let (weights, tokens) = (sent(tasks, beside), sent(tasks, rows));
        assert_eq!((weights.len(), tokens.len()), (1, 2));
        assert!((tokens[0] / weights[0] - 2048.0 / 8.0).abs() < 1e-9);
    }
    // a byte for each of eight experts, of two sequences of 2,048 tokens on each of four ranks
    let map = |collective: Collective, _: Crossing| collective == Collective::AllGather;
    assert_eq!(sent(&program.forward, map), [8.0 * 4.0 * 2.0 * 2048.0]);
    assert!(sent(&program.backward, map).is_empty());
}

/// Activations of one device in bytes, where the experts of a mixture get so many tokens each.
fn held(load: &str) -> f64 {
    let text = jobs::mixture(4, 1024).replace(r#""top_k": 2"#, &format!(r#""top_k": 2{load}"#));
    let job = jobs::job(
        &text,
        &worlds::nodes_of_eight(8),
        &jobs::training(16, 1024, ""),
    );
    let plan = Plan {
        data: 8,
        expert: 8,
        ..Plan::default()
    };
    let memory = jobs::priced(&job, &plan).memory;
    memory
        .iter()
        .map(|stage| stage.activations_bytes)
        .fold(0.0, f64::max)
}

#[test]
fn the_rank_whose_experts_get_more_tokens_keeps_more() {
    let even = held("");
    let loads = |first: u32| {
        format!(
            r#", "expert_load": {{"histogram": {{"weights": [{first}, 1, 1, 1, 1, 1, 1, 1]}}}}"#
        )
    };
    assert!((held(&loads(1)) / even - 1.0).abs() < 1e-12);
    let [twice, thrice] = [2, 3].map(|first| held(&loads(first)) - even);
    // 16/9 and 24/10 of the mean reach the first expert
    assert!(
        (twice / thrice - (7.0 / 9.0) / 1.4).abs() < 1e-9,
        "{twice} {thrice}"
    );
    let dropped = held(r#", "capacity_factor": 0.5"#);
    assert!(dropped < even);
    // what lies outside the experts is the same: half of their tokens are half of what they keep
    assert!(((even - dropped) / thrice - 0.5 / 1.4).abs() < 1e-9);
}

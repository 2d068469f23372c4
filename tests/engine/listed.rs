//! Are listed values that no plan of a job can have left out, and those that some plan can have kept?

#![allow(clippy::unwrap_used, clippy::float_cmp)] // the lint's own exemption ends at test functions

use crate::worlds;

use scalewright::control::Control;
use scalewright::estimate::{Job, price};
use scalewright::hardware::Cluster;
use scalewright::plan::{BrokenRule, ExpertRecompute, Plan, Schedule, TokenSlices};
use scalewright::search::{Limits, Method, OffloadWhen, SearchOutcome, Space, search};
use worlds::jobs;

fn found(job: &Job, space: &str, method: Method) -> SearchOutcome {
    let limits = Limits {
        method,
        top: 5,
        offload: OffloadWhen::Never,
        ..Limits::default()
    };
    search(
        job,
        &Space::from_json(space).unwrap(),
        &limits,
        &Control::new(),
    )
    .unwrap()
}

fn times(outcome: &SearchOutcome) -> Vec<f64> {
    outcome
        .best
        .iter()
        .map(|found| found.composed.time)
        .collect()
}

fn hosted(devices: u32) -> Cluster {
    let mut cluster = worlds::nodes_of_eight(devices);
    cluster.system.host = Some(jobs::host());
    cluster
}

/// A list, the same without what no plan can have, and the rule that this breaks.
const IMPOSSIBLE: [(&str, &str, &str); 6] = [
    (
        r#""offload_optimizer": [true, false]"#,
        r#""offload_optimizer": [false]"#,
        "muon",
    ),
    (
        r#""offload_optimizer": [false, true]"#,
        r#""offload_optimizer": [false]"#,
        "bare",
    ),
    (
        r#""offload_activations": [40, 0]"#,
        r#""offload_activations": [0]"#,
        "bare",
    ),
    (
        r#""offload_activations": [0, 150]"#,
        r#""offload_activations": [0]"#,
        "hosted",
    ),
    (
        r#""recompute_experts": ["full", "same"]"#,
        r#""recompute_experts": ["same"]"#,
        "hosted",
    ),
    (
        r#""recompute_layers": [2], "recompute_rest": ["full", "none"]"#,
        r#""recompute_layers": [2], "recompute_rest": ["none"]"#,
        "hosted",
    ),
];

fn job_of(kind: &str) -> Job {
    let optimizer = if kind == "muon" {
        r#", "optimizer": "muon""#
    } else {
        ""
    };
    let cluster = if kind == "bare" {
        worlds::nodes_of_eight(4)
    } else {
        hosted(4)
    };
    jobs::job(
        &jobs::llama(6, 2048, 2),
        &cluster,
        &jobs::training(8, 1024, optimizer),
    )
}

#[test]
fn what_no_plan_can_have_changes_no_answer_and_is_named() {
    for (listed, possible, kind) in IMPOSSIBLE {
        let job = job_of(kind);
        for method in [Method::Bounds, Method::Exhaustive] {
            let some = found(&job, &format!("{{{listed}}}"), method);
            let without = found(&job, &format!("{{{possible}}}"), method);
            assert_eq!(times(&some), times(&without), "{listed}");
            assert_eq!(some.counts.legal(), without.counts.legal(), "{listed}");
            assert!(
                some.best
                    .iter()
                    .all(|found| price(&job, &found.plan).is_ok())
            );
            let rejected = |outcome: &SearchOutcome| outcome.counts.illegal.iter().sum::<u64>();
            assert!(rejected(&some) > rejected(&without), "{listed}");
        }
    }
}

#[test]
fn a_list_of_nothing_else_leaves_no_legal_plan_and_says_why() {
    for (listed, kind, rule) in [
        (
            r#"{"offload_optimizer": [true]}"#,
            "muon",
            BrokenRule::HostProducts,
        ),
        (
            r#"{"offload_optimizer": [true]}"#,
            "bare",
            BrokenRule::Host("offload_optimizer"),
        ),
        (
            r#"{"recompute_experts": ["full"]}"#,
            "hosted",
            BrokenRule::Recompute(""),
        ),
    ] {
        let outcome = found(&job_of(kind), listed, Method::Bounds);
        assert_eq!(outcome.counts.legal(), 0, "{listed}");
        assert!(outcome.counts.illegal[rule.family()] > 0, "{listed}");
    }
}

#[test]
fn some_layers_listed_leave_the_plans_that_compute_nothing_again() {
    let job = job_of("hosted");
    let none = found(&job, r#"{"recompute": ["none"]}"#, Method::Bounds);
    let some = found(&job, r#"{"recompute_layers": [2]}"#, Method::Bounds);
    assert_eq!(times(&some)[0], times(&none)[0]);
}

#[test]
fn slices_on_one_stage_are_searched_under_the_schedule_that_cuts() {
    let job = job_of("hosted");
    let slices = |count| TokenSlices::Even(count);
    for listed in ["[4]", "[1, 4]"] {
        let space = format!(
            r#"{{"pipeline": [1], "tensor": [1], "context": [1], "micro_batch": [1, 2],
            "zero": [0, 3], "recompute": ["none"], "token_slices": {listed}}}"#
        );
        let mut priced: Vec<f64> = Vec::new();
        for count in [1, 4]
            .into_iter()
            .filter(|count| listed.contains(&count.to_string()))
        {
            for micro_batch in [1, 2] {
                for zero in [0, 3] {
                    let plan = Plan {
                        data: 4,
                        micro_batch,
                        zero,
                        token_slices: slices(count),
                        schedule: [Schedule::OneForwardOneBackward, Schedule::GPipe]
                            [usize::from(count > 1)],
                        ..Plan::default()
                    };
                    priced.extend(price(&job, &plan).ok().map(|composed| composed.time));
                }
            }
        }
        priced.sort_by(f64::total_cmp);
        for method in [Method::Bounds, Method::Exhaustive] {
            let outcome = found(&job, &space, method);
            assert_eq!(outcome.counts.legal(), priced.len() as u64, "{listed}");
            let best = times(&outcome);
            assert_eq!(best, priced[..best.len()], "{listed}");
        }
    }
}

#[test]
fn experts_that_follow_a_list_of_their_own_end_with_the_listed_layers() {
    let training = jobs::training(8, 1024, "");
    let job = jobs::job(&jobs::mixture(6, 1024), &hosted(4), &training);
    let axes = r#""tensor": [1], "context": [1], "pipeline": [1], "expert": [4], "micro_batch": [1], "zero": [1]"#;
    let space = format!(
        r#"{{{axes}, "recompute": ["none"], "recompute_experts": ["full"], "recompute_layers": [2]}}"#
    );
    let plan = Plan {
        data: 4,
        expert: 4,
        zero: 1,
        recompute_experts: ExpertRecompute::Full,
        recompute_layers: 2,
        ..Plan::default()
    };
    let outcome = found(&job, &space, Method::Bounds);
    assert_eq!(times(&outcome)[0], price(&job, &plan).unwrap().time);
    assert_eq!(outcome.best[0].plan.recompute_layers, 2);
}

#[test]
fn open_chunks_of_any_schedule_are_all_that_it_runs() {
    let job = job_of("hosted");
    let axes = r#""pipeline": [2], "tensor": [1], "context": [1], "schedule": ["breadth-first"]"#;
    let open = found(&job, &format!("{{{axes}}}"), Method::Bounds);
    let all = found(
        &job,
        &format!(r#"{{{axes}, "interleave": [1, 2, 3, 4]}}"#),
        Method::Bounds,
    );
    assert_eq!(times(&open), times(&all));
    assert_eq!(open.counts.legal(), all.counts.legal());
    // a schedule of one count says that one
    let paired = r#"{"pipeline": [2], "tensor": [1], "context": [1], "schedule": ["zb-v"]"#;
    let own = found(&job, &format!("{paired}}}"), Method::Bounds);
    let two = found(
        &job,
        &format!(r#"{paired}, "interleave": [2]}}"#),
        Method::Bounds,
    );
    assert_eq!(own.counts.legal(), two.counts.legal());
}

/// Nothing is shared where nothing is held twice, whatever a program does for what is.
#[test]
fn stages_of_zero_are_one_plan_without_replicas() {
    let software = r#", "software": {"optimizer": {"layer_update_time": 1e-3},
        "zero": {"gather_copy": 4.0, "reduce_copy": 4.0, "gather_rank_time": 1e-4,
        "gather_host_time": [1e-3, 1e-4], "reduces_whole": true},
        "weights": {"casts_weights_once": true}}"#;
    for (text, plan) in [
        (jobs::llama(6, 2048, 2), Plan::default()),
        (
            jobs::llama(6, 2048, 2),
            Plan {
                tensor: 4,
                ..Plan::default()
            },
        ),
        (
            jobs::mixture(6, 1024),
            Plan {
                tensor: 4,
                sequence_parallel: true,
                ..Plan::default()
            },
        ),
        (
            jobs::llama(6, 2048, 2),
            Plan {
                tensor: 2,
                pipeline: 2,
                ..Plan::default()
            },
        ),
    ] {
        let devices = u32::try_from(plan.devices()).unwrap();
        let job = jobs::job(&text, &hosted(devices), &jobs::training(8, 1024, software));
        let [first, others @ ..] = [0, 1, 2, 3].map(|zero| {
            let composed = price(
                &job,
                &Plan {
                    zero,
                    ..plan.clone()
                },
            )
            .unwrap();
            (composed.time, composed.memory)
        });
        assert_eq!(others, [first; 3]);
        // experts on fewer tensor ranks than their layer are held twice
        if job.shape.experts {
            let apart = |zero| Plan {
                zero,
                expert_tensor: 1,
                ..plan.clone()
            };
            assert!(
                price(&job, &apart(3)).unwrap().memory < price(&job, &apart(0)).unwrap().memory
            );
        }
    }
}

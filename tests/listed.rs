//! Are listed values that no plan of a job can have left out, and those that some plan can have kept?

mod worlds;

use scalewright::control::Control;
use scalewright::estimate::{Job, price};
use scalewright::hardware::Cluster;
use scalewright::plan::{Plan, Rule, Schedule, TokenSlices};
use scalewright::search::{Limits, Method, Offload, Outcome, Space, search};
use worlds::jobs;

fn found(job: &Job, space: &str, method: Method) -> Outcome {
    let limits = Limits {
        method,
        top: 5,
        offload: Offload::Never,
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

fn times(outcome: &Outcome) -> Vec<f64> {
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
            let rejected = |outcome: &Outcome| outcome.counts.illegal.iter().sum::<u64>();
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
            Rule::HostProducts,
        ),
        (
            r#"{"offload_optimizer": [true]}"#,
            "bare",
            Rule::Host("offload_optimizer"),
        ),
        (
            r#"{"recompute_experts": ["full"]}"#,
            "hosted",
            Rule::Recompute(""),
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

//! What does a plan that breaks a rule get told: what was got, and what is allowed or near?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use scalewright::hardware::Cluster;
use scalewright::plan::{JobShape, Plan, check};
use worlds::jobs;

/// Nodes of eight with hosts.
fn with_a_host(devices: u32) -> Cluster {
    let mut cluster = worlds::nodes_of_eight(devices.max(1));
    cluster.system.host = Some(jobs::host());
    cluster
}

/// The message of the rule that a plan breaks for a model of 128 heads.
fn broken(plan: &Plan) -> String {
    let text = jobs::gpt(96, 12288).replace(r#""heads": 16"#, r#""heads": 128"#);
    let training = jobs::training(1536, 2048, "");
    let graph = jobs::model(&text).graph(&training);
    let devices = u32::try_from(plan.devices()).unwrap();
    check(
        plan,
        &JobShape::new(&graph, &with_a_host(devices)),
        &training,
        devices,
    )
    .unwrap_err()
    .to_string()
}

#[test]
fn illegal_plans_name_the_nearest_legal_value() {
    let base = Plan::default();
    let cases = [
        (
            Plan {
                tensor: 12,
                ..base.clone()
            },
            "tensor = 12 does not divide heads = 128; nearest 8, 16",
        ),
        (
            Plan {
                pipeline: 36,
                ..base.clone()
            },
            "pipeline x interleave = 36 does not divide layers = 96; nearest 32, 48",
        ),
        (
            Plan {
                data: 5,
                ..base.clone()
            },
            "data x micro_batch = 5 does not divide global_batch = 1536; nearest 4, 6",
        ),
        (
            Plan {
                data: 1,
                micro_batch: 3000,
                ..base.clone()
            },
            "data x micro_batch = 3000 does not divide global_batch = 1536; nearest 1536",
        ),
        (
            Plan { context: 3, ..base },
            "context (x tensor) = 3 does not divide sequence = 2048; nearest 2, 4",
        ),
    ];
    for (plan, message) in cases {
        assert_eq!(broken(&plan), message);
    }
}

#[test]
fn broken_rules_say_what_was_got_and_what_is_allowed() {
    let base = Plan::default();
    let cases = [
        (
            Plan {
                tensor: 0,
                ..base.clone()
            },
            "tensor: got 0; allowed: 1 to 2^24",
        ),
        (
            Plan {
                zero: 4,
                ..base.clone()
            },
            "zero: got 4; allowed: 0 to 3",
        ),
        (
            Plan {
                data: 16,
                zero_group: 3,
                ..base.clone()
            },
            "zero_group = 3 does not divide context x data = 16; nearest 2, 4",
        ),
        (
            Plan {
                interleave: 2,
                ..base.clone()
            },
            "interleave: got 2 with schedule = 1f1b; allowed: 1, or schedule = interleaved",
        ),
        (
            Plan {
                overlap_pipeline: true,
                ..base.clone()
            },
            "overlap_pipeline: got true with schedule = 1f1b; allowed: false",
        ),
        (
            Plan { expert: 2, ..base },
            "expert: got 2; allowed: 1, since the model has no routed experts",
        ),
    ];
    for (plan, message) in cases {
        assert_eq!(broken(&plan), message);
    }
}

#[test]
fn messages_of_large_batches_name_the_nearest() {
    // the largest prime below 2^32: only 1 and itself divide it
    let training = jobs::training(4_294_967_291, 512, "");
    let graph = jobs::model(&jobs::gpt(4, 256)).graph(&training);
    let plan = Plan {
        data: 2,
        ..Plan::default()
    };
    let rule = check(&plan, &JobShape::new(&graph, &with_a_host(2)), &training, 2).unwrap_err();
    assert!(rule.to_string().ends_with("nearest 1, 4294967291"));
}

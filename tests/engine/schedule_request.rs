//! Is a schedule answered alike by name and as an order that is brought, and is wrong input named?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::error::from_json;
use scalewright::schedule::{
    Gradient, Operation, PipelineShape, Request, Schedule, ScheduleReport, Work, order, read_order,
    spell,
};
use serde_json::{Value, json};

/// Every schedule with a shape and micro-batches near the drawn ones that it can run.
fn runnable() -> impl Strategy<Value = (Schedule, PipelineShape, u32)> {
    let kind = proptest::sample::select(Schedule::ALL.to_vec());
    let shape = (1..7_u32, 1..4_u32, 1..4_u32, 1..4_u32);
    (kind, shape, 1..13_u32).prop_filter_map(
        "no shape near by can run",
        |(kind, (stages, chunks, window, slices), micro_batches)| {
            let shapes = [chunks, kind.rule().chunks()]
                .into_iter()
                .flat_map(|chunks| {
                    [stages, stages.next_multiple_of(2)].map(|stages| PipelineShape {
                        window,
                        slices,
                        ..PipelineShape::new(stages, chunks)
                    })
                });
            let mut all = shapes.flat_map(|shape| {
                let rounds = micro_batches.next_multiple_of(shape.stages);
                [micro_batches, rounds, 2 * rounds].map(|count| (kind, shape, count))
            });
            all.find(|(kind, shape, count)| kind.rule().check(*shape, *count).is_ok())
        },
    )
}

fn ask(request: &Value) -> Result<ScheduleReport, String> {
    let request: Request =
        from_json("schedule", &request.to_string()).map_err(|e| e.to_string())?;
    request.answer().map_err(|e| e.to_string())
}

fn refused(change: &[(&str, Value)]) -> String {
    let mut request = json!({
        "name": "1f1b", "stages": 4, "micro_batches": 8, "forward_s": [1.0], "backward_s": [2.0],
    });
    for (field, value) in change {
        request[*field] = value.clone();
    }
    ask(&request).expect_err("wrong input")
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_order_spelt_and_read_is_the_same((kind, shape, micro_batches) in runnable()) {
        for device in 0..shape.stages {
            let wanted = order(kind, device, shape, micro_batches);
            let text = spell(&wanted);
            prop_assert_eq!(read_order(&text, device).expect("what was spelt"), wanted, "{}", text);
        }
    }

    #[test]
    fn an_order_that_is_brought_runs_as_its_schedule(
        (kind, shape, micro_batches) in runnable(), times in vec(0.1..4.0_f64, 64),
        hops in vec(0.0..1.0_f64, 64), blocking in any::<bool>(),
    ) {
        let rule = kind.rule();
        let count = rule.count(shape) as usize;
        let mut request = json!({
            "name": rule.name(), "stages": shape.stages, "chunks": shape.chunks,
            "window": shape.window, "slices": shape.slices, "micro_batches": micro_batches,
            "forward_s": times[..count], "backward_s": times[16..16 + count],
            "weight_s": times[32..32 + count], "hidden_s": [0.05], "hop_s": hops[..count - 1],
            "sends": if blocking { "blocking" } else { "asynchronous" },
            "feedback_s": 0.3, "simulate": true,
        });
        if count == 1 {
            request["hop_s"] = json!([0.0]);
        }
        let named = ask(&request).expect("runs");
        let lines: Vec<String> = named.run.orders.iter().map(|order| spell(order)).collect();
        request["order"] = json!(lines);
        request["micro_batches"] = json!(named.executed);
        request["slices"] = json!(1);
        let brought = ask(&request).expect("the same order");
        prop_assert_eq!(&brought.run, &named.run);
        for answer in [&named, &brought] {
            let step = answer.run.makespan.value();
            prop_assert!(close(answer.simulated.unwrap().value(), step));
            prop_assert!(answer.bound.time.value() <= step * (1.0 + 1e-9));
            prop_assert!(answer.interval.unwrap().value() <= step * (1.0 + 1e-9));
            for device in &answer.devices {
                prop_assert!(device.work <= device.busy * (1.0 + 1e-9) + 1e-9);
                prop_assert!(device.busy <= step * (1.0 + 1e-9));
                prop_assert!(blocking || close(device.work, device.busy));
            }
        }
        for (device, of_kind) in brought.devices.iter().zip(&named.devices) {
            prop_assert_eq!(device.in_flight, of_kind.in_flight);
            prop_assert!(close(device.work, of_kind.work));
        }
        // an order shows only the copies that its micro-batches use
        prop_assert!(brought.copies <= named.copies);
    }

    #[test]
    fn stages_that_are_cut_hold_the_same_work((kind, shape, micro_batches) in runnable()) {
        let answer = ask(&json!({
            "name": kind.rule().name(), "stages": shape.stages, "chunks": shape.chunks,
            "window": shape.window, "slices": shape.slices, "micro_batches": micro_batches,
            "forward_s": [1.0],
            "backward_s": ["2 s"], "cut_stages": true, "whole_backward": true,
        })).expect("runs");
        let work: f64 = answer.devices.iter().map(|device| device.work).sum();
        let plain = f64::from(answer.executed * shape.stages) / f64::from(answer.slices);
        // local losses carried over several stages run some passes more than once
        let chained = !matches!(kind.rule().gradient(shape), Gradient::Window(_));
        prop_assert!(close(work, 3.0 * plain) || !chained && work > 3.0 * plain, "{work}, {plain}");
    }
}

#[test]
fn runs_of_micro_batches_and_pairs_have_a_spelling() {
    let of = |work, stage, micro_batch| Operation::new(work, stage, micro_batch);
    let order = [
        of(Work::Forward, 3, 0).over(4),
        of(Work::Forward, 3, 4).with_next(),
        of(Work::Backward, 1, 0),
        of(Work::Local(2), 3, 5),
    ];
    assert_eq!(spell(&order), "F0-3@3 F4@3&B0@1 L2:5@3");
    assert_eq!(read_order("F0-3 F4&B0@1 L2:5", 3).unwrap(), order);
    for wrong in [
        "G0@1", "F@1", "F0@", "F1-0@1", "F+1@1", "L0@1", "F0@1&", "é",
    ] {
        let error = read_order(&format!("F0@1 {wrong}"), 1)
            .unwrap_err()
            .to_string();
        assert!(error.contains("order of device 1, place 1"), "{error}");
    }
}

#[test]
fn the_bubble_of_1f1b_is_the_published_one() {
    let answer = ask(&json!({
        "name": "1f1b", "stages": 4, "micro_batches": 8, "forward_s": ["10 ms"],
        "backward_s": ["20 ms"],
    }))
    .unwrap();
    assert!(close(answer.run.makespan.value(), 0.33));
    assert!(close(answer.bubble.over_ideal, 3.0 / 8.0));
    assert!(close(answer.period.unwrap().value(), 0.03));
    assert!(answer.bound.exact);
    let held: Vec<u32> = answer.devices.iter().map(|d| d.in_flight).collect();
    assert_eq!(held, [4, 3, 2, 1]);
}

#[test]
fn a_brought_order_is_bound_by_its_ways_and_its_work() {
    let answer = ask(&json!({
        "stages": 2, "micro_batches": 2, "forward_s": [1.0, 3.0], "backward_s": [1.0, 3.0],
        "hop_s": [0.5], "order": ["F0 F1 B0 B1", "F0 B0 F1 B1"],
    }))
    .unwrap();
    // a way of 1.5 s down to stage 1, 12 s of work there, 1.5 s up
    assert!(close(answer.bound.time.value(), 15.0));
    assert!(close(answer.run.makespan.value(), 15.0));
    assert_eq!(answer.devices[0].in_flight, 2);
}

/// Changes to a request that can be answered, and what is said of each.
fn all_refused(cases: &[(&[(&str, Value)], &str)]) {
    for (change, said) in cases {
        let error = refused(change);
        assert!(error.contains(said), "{error} lacks {said}");
    }
}

#[test]
fn wrong_input_is_named() {
    all_refused(&[
        (
            &[("name", json!("1f1c"))],
            "schedule: unknown name '1f1c'; nearest: 1f1b",
        ),
        (&[("name", Value::Null)], "unknown name ''"),
        (&[("stages", json!(0))], "stages: got 0; allowed: 1 or more"),
        (&[("micro_batches", json!(0))], "micro_batches: got 0"),
        (&[("window", json!(0))], "window: got 0"),
        (&[("chunks", json!(3))], "chunks: got 3; allowed: 1"),
        (&[("micro_batches", json!(u32::MAX))], "2^22 results"),
        (&[("stages", json!(u32::MAX))], "2^22 results"),
        (
            &[("forward_s", json!([1.0, 2.0]))],
            "forward_s: got 2 values; allowed: 1 or 4",
        ),
        (
            &[("backward_s", json!([1.0, -2.0]))],
            "schedule.backward_s[1]: got -2",
        ),
        (&[("backward_s", json!(["2 parsecs"]))], "units: s, ms, us"),
        (
            &[("hop_s", json!([1.0, 2.0]))],
            "hop_s: got 2 values; allowed: 1 or 3",
        ),
        (
            &[("sizes", json!([[1.0, 1.0]]))],
            "sizes: got 1 values; allowed: 8",
        ),
        (
            &[("sizes", json!(vec![[1.0, -1.0]; 8]))],
            "sizes[0]: got [1.0, -1.0]",
        ),
        (&[("sends", json!("blockin"))], "nearest: blocking"),
        (
            &[("weight_s", json!([3.0])), ("whole_backward", json!(true))],
            "weight_s of stage 0: got 3; allowed: at most 2 s",
        ),
    ]);
}

#[test]
fn a_wrong_order_is_named() {
    all_refused(&[
        (
            &[
                ("order", json!(["F0", "F0 B0 B0@0", "F0 B0", "F0 B0"])),
                ("micro_batches", json!(1)),
            ],
            "device 1 runs backward of micro-batch 0 on stage 0, whose forward pass another",
        ),
        (&[("order", json!(["F0"]))], "order: got 1; allowed: 4"),
        (
            &[("order", json!(["F0", "F0", "F0", "X"]))],
            "order of device 3, place 0: got X",
        ),
        (
            &[
                ("order", json!(["F0 B0", "F0 B0", "F0 B0", "F0 I0"])),
                ("micro_batches", json!(1)),
            ],
            "no device runs the weight gradient of micro-batch 0 on stage 3",
        ),
        (
            &[
                ("order", json!(["F0", "F0 B0", "F0 B0", "F0 B0"])),
                ("micro_batches", json!(1)),
            ],
            "no device runs the backward pass of micro-batch 0 on stage 0",
        ),
    ]);
}

#[test]
fn an_order_of_forwards_alone_is_inference() {
    let answer = ask(&json!({
        "stages": 2, "micro_batches": 3, "forward_s": [1.0], "backward_s": [2.0],
        "order": ["F0 F1 F2", "F0 F1 F2"],
    }))
    .unwrap();
    assert!(close(answer.run.makespan.value(), 4.0));
}

#[test]
fn an_order_whose_chunks_are_left_out_has_as_many_as_it_names() {
    let answer = ask(&json!({
        "stages": 2, "micro_batches": 1, "forward_s": [1.0], "backward_s": [1.0],
        "order": ["F0@0 F0@3 B0@3 B0@0", "F0@1 F0@2 B0@2 B0@1"],
    }))
    .unwrap();
    assert_eq!((answer.count, answer.shape.chunks), (4, 2));
    assert!(close(answer.run.makespan.value(), 8.0));
}

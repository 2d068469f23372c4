//! What do gathers, sums and hand-overs of a program cost beside those of any program?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

use crate::worlds;

use scalewright::collective::{Collective, Forms};
use scalewright::operator_cost::Kernel;
use scalewright::plan::{Plan, RecomputePolicy, Task, lower};
use scalewright::units::{Bytes, Dtype, FlopsPerSecond};
use worlds::jobs;
use worlds::programs::{beyond, cluster, job, plan, seconds};

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
fn gathers_by_tensor_are_never_shorter_than_flat_ones() {
    let sharded = Plan {
        data: 8,
        zero: 3,
        overlap_param_gather: false,
        recompute: RecomputePolicy::None,
        ..plan()
    };
    let flat = seconds(&job("{}", 8), &sharded);
    let cut = seconds(
        &job(r#"{"zero": {"gathers_per_layer": 12.0}}"#, 8),
        &sharded,
    );
    assert!(cut > flat, "{cut} after {flat}");
}

#[test]
fn copies_count_once_for_each_gather_and_reduction_of_a_sharded_layer() {
    let sharded = |zero| Plan {
        data: 8,
        zero,
        overlap_param_gather: false,
        ..plan()
    };
    let (gathers, reductions) = (
        r#"{"zero": {"gather_copy": 4.0}}"#,
        r#"{"zero": {"reduce_copy": 4.0}}"#,
    );
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
        let with = r#"{"zero": {"gathers_per_layer": 4.0, "gather_rank_time": 1e-4}}"#;
        let without = r#"{"zero": {"gathers_per_layer": 4.0}}"#;
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

/// `max(0, host + gathers - pass)`: a pass of one micro-batch is no shorter than what keeps its host.
#[test]
fn a_device_waits_for_gathers_that_its_host_cannot_prepare_ahead() {
    let none = RecomputePolicy::None;
    let step = |host: f64, gather: [f64; 2], data| {
        let software = format!(
            r#"{{"zero": {{"gathers_per_layer": 4.0, "gather_host_time": {gather:?}}},
                "host": {{"host_time": {host}}}}}"#
        );
        gathered(&software, data, none)
    };
    for data in [4, 8] {
        let micro_batches = f64::from(16 / (2 * data));
        let of = |[each, rank]: [f64; 2]| {
            micro_batches * 2.0 * 4.0 * 4.0 * (each + f64::from(data) * rank)
        };
        // a host that sets the pace has no time to spare but while traffic is in the open
        let free = step(0.0, [0.0; 2], data);
        let pair = [1e-3, 1e-4];
        let (waited, meant) = (step(0.1, pair, data) - step(0.1, [0.0; 2], data), of(pair));
        assert!(waited <= meant * (1.0 + 1e-9), "{waited} of {meant}");
        assert!(waited >= meant - free, "{waited} of {meant} less {free}");
        // one that issues at once does so ahead of the device, as far as that is busy
        let short = [1e-8, 1e-9];
        assert!(of(short) > 0.0);
        assert_eq!(step(0.0, short, data), free);
        let long = [1.0, 0.1];
        let waited = step(0.0, long, data) - free;
        assert!(waited > 0.0 && waited < of(long), "{waited}");
    }
}

#[test]
fn weights_are_gathered_again_only_for_what_is_computed_again() {
    let (once, twice) = (
        r#"{"zero": {"gathers_again": false}}"#,
        r#"{"zero": {"gathers_again": true}}"#,
    );
    let none = RecomputePolicy::None;
    assert_eq!(gathered(once, 8, none), gathered(twice, 8, none));
    let full = RecomputePolicy::Full;
    assert!(gathered(twice, 8, full) > gathered(once, 8, full));
}

#[test]
fn gradients_whose_sums_take_more_passes_are_added_apart() {
    let step = |software: &str, fused: bool| {
        let more = format!(r#", "fused_gradients": {fused}, "software": {software}"#);
        let training = jobs::training(8, 2048, &more);
        let job = jobs::job(&jobs::llama(4, 1024, 4), &cluster(1), &training);
        seconds(&job, &plan())
    };
    let (plain, copied) = ("{}", r#"{"weights": {"accumulation": 8.0}}"#);
    assert!(step(copied, false) > step(plain, false));
    assert!(step(plain, false) > step(plain, true));
    assert_eq!(step(copied, true), step(copied, false));
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
    let (hidden, waits) = ("{}", r#"{"tensor": {"reductions_wait": true}}"#);
    assert_eq!(step(hidden, 1, true), step(waits, 1, true));
    assert_eq!(step(hidden, 4, false), step(waits, 4, false));
    // gathers are still hidden
    assert!(step(hidden, 4, true) < step(waits, 4, true));
    assert!(step(waits, 4, true) < step(waits, 4, false));
}

/// Bytes that tensor ranks exchange in a layer's passes: sums of activations, and all else.
fn passed_around(software: &str, tensor: u32, sequence_parallel: bool) -> [f64; 2] {
    let plan = Plan {
        tensor,
        sequence_parallel,
        ..plan()
    };
    let training = jobs::training(8, 2048, &format!(r#", "software": {software}"#));
    let graph = jobs::model(&jobs::llama(4, 1024, 4)).graph(&training);
    let program = lower(&graph, graph.blocks.len() - 2, &training, &plan);
    let mut found = [0.0; 2];
    for task in program.forward.iter().chain(&program.backward) {
        if let Task::Communicate {
            collective, bytes, ..
        } = task
        {
            found[usize::from(*collective == Collective::AllGather)] += bytes.value();
        }
    }
    found
}

#[test]
fn wide_sums_double_what_is_added_up_and_leave_gathers_as_they_are() {
    let (narrow, wide) = ("{}", r#"{"tensor": {"sums_wide": true}}"#);
    for sequence_parallel in [false, true] {
        let [sums, gathers] = passed_around(narrow, 4, sequence_parallel);
        assert!(sums > 0.0);
        let other = passed_around(wide, 4, sequence_parallel);
        assert_eq!(other, [2.0 * sums, gathers]);
    }
    assert_eq!(passed_around(wide, 1, false), [0.0; 2]);
    // nothing travels on one rank, and nothing is cast
    let time = |software, tensor| seconds(&job(software, tensor), &Plan { tensor, ..plan() });
    assert_eq!(time(wide, 1), time(narrow, 1));
    assert!(time(wide, 4) > time(narrow, 4));
}

#[test]
fn keys_gathered_before_attention_wait_in_the_open() {
    let step = |first: bool, context: u32| {
        let cluster = cluster(4);
        let still = r#""ring": [0.0, 0.0], "ring_keys": [0.0, 0.0]"#;
        let more =
            format!(r#", "software": {{"context": {{"gathers_keys_first": {first}, {still}}}}}"#);
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

/// Bytes that a layer's forward pass streams on one of so many context ranks.
fn streamed(software: &str, context: u32) -> f64 {
    let plan = Plan { context, ..plan() };
    let training = jobs::training(8, 8192, &format!(r#", "software": {software}"#));
    let graph = jobs::model(&jobs::llama(4, 1024, 4)).graph(&training);
    let program = lower(&graph, graph.blocks.len() - 2, &training, &plan);
    let bytes = program.forward.iter().map(|task| match task {
        Task::Compute {
            kernel: Kernel::Memory { bytes, .. },
            ..
        } => bytes.value(),
        _ => 0.0,
    });
    bytes.sum()
}

/// Each of P parts of a ring is merged with a P-th of the queries, so that a rank moves as much whatever P is.
#[test]
fn parts_of_a_ring_are_merged_with_all_queries_once_each() {
    let still = r#"{"context": {"ring": [0.0, 0.0], "ring_keys": [0.0, 0.0]}}"#;
    let queries = r#"{"context": {"ring": [3.0, 0.0], "ring_keys": [0.0, 0.0]}}"#;
    let keys = r#"{"context": {"ring": [0.0, 0.0], "ring_keys": [3.0, 0.0]}}"#;
    let first = r#"{"context": {"gathers_keys_first": true}}"#;
    let merged = |software: &str, context| streamed(software, context) - streamed(still, context);
    for software in [queries, keys] {
        assert_eq!(merged(software, 1), 0.0, "one rank has no ring");
        let two = merged(software, 2);
        assert!(two > 0.0);
        assert!((merged(software, 8) / two - 1.0).abs() < 1e-9);
    }
    assert_eq!(
        merged(first, 4),
        0.0,
        "one kernel sees all that was gathered"
    );
    assert!(merged("{}", 2) > 0.0);
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
        let more = format!(r#", "software": {{"pipeline": {{"staggers_sends": {staggers}}}}}"#);
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
    let apart = r#"{"pipeline": {"sends_apart": true}}"#;
    assert!(staged(apart, 1, 4) > 0.0);
    assert_eq!(staged(apart, 4, 1), 0.0);
}

#[test]
fn gathers_and_copies_of_a_hand_over_are_those_of_tensor_ranks() {
    for software in [
        r#"{"pipeline": {"handover_gathers": 3.0}}"#,
        r#"{"pipeline": {"handover_copies": 8.0}}"#,
    ] {
        assert!(staged(software, 2, 2) > 0.0, "{software}");
        assert_eq!(staged(software, 1, 4), 0.0, "{software}");
        assert_eq!(staged(software, 4, 1), 0.0, "{software}");
    }
}

#[test]
fn each_hand_over_waits_as_long_for_the_host() {
    let waits = |time: f64| {
        staged(
            &format!(r#"{{"pipeline": {{"handover_time": {time}}}}}"#),
            1,
            4,
        )
    };
    let (once, twice) = (waits(1e-3), waits(2e-3));
    assert!(once > 0.0);
    assert!((twice / once - 2.0).abs() < 1e-6, "{twice} after {once}");
}

#[test]
fn whole_sums_lengthen_the_first_stage_of_zero_alone() {
    let whole = r#"{"zero": {"reduces_whole": true}}"#;
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

/// Bytes travel alike, and every broadcast starts anew: with `n` owners `n b(w / n)`, b one broadcast; there are
/// no more owners than ranks, nor than tensors.
#[test]
fn tensors_dealt_whole_cost_a_broadcast_for_each_owner() {
    let turns = r#"{"zero": {"dealt_tensors": 4}}"#;
    let shared = |data, zero| Plan {
        data,
        zero,
        overlap_param_gather: false,
        overlap_grad_reduce: false,
        ..plan()
    };
    for data in [2, 8, 32] {
        let (job, plan) = (job("{}", data), shared(data, 1));
        let group = job.cluster.group(1, data);
        let time = |collective, bytes: f64| {
            let forms = Forms::new(collective, &group, &job.cluster);
            forms.time(Bytes::new(bytes)).value()
        };
        let held = jobs::priced(&job, &plan).memory[0].weights_bytes;
        let owners = f64::from(data).min(4.0 * job.shape.layers as f64);
        let wanted =
            owners * time(Collective::Broadcast, held / owners) - time(Collective::AllGather, held);
        let got = beyond(turns, data, &plan);
        assert!(
            (got - wanted).abs() < 1e-9 + 1e-6 * wanted.abs(),
            "{data}: {got}, {wanted}"
        );
        for zero in [0, 3] {
            assert_eq!(
                beyond(turns, data, &shared(data, zero)),
                0.0,
                "stage {zero}"
            );
        }
    }
}

#[test]
fn weights_that_stay_gathered_trade_memory_for_the_gather_of_the_backward_pass() {
    let stays = r#"{"zero": {"keeps_gathered": true}}"#;
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

/// The host goes on while the device waits for traffic: a pass with both takes as long as the longer of them, and never
/// less on a slower device.
#[test]
fn what_the_host_does_ahead_of_gathers_hides_under_their_traffic_too() {
    let plan = Plan {
        data: 8,
        zero: 3,
        ..plan()
    };
    let ahead = r#"{"zero": {"gather_host_time": [2e-4, 0.0]}}"#;
    let at = |share: f64, software: &str| {
        let mut slow = job(software, 8).cluster;
        let peak = slow.device.engine_peak(Dtype::Bf16).value();
        let lasting = FlopsPerSecond::new(share * peak);
        slow.device.sustained.insert(Dtype::Bf16, lasting);
        seconds(&job(software, 8).on(slow).unwrap(), &plan)
    };
    let rates = [0.8, 0.4, 0.2, 0.1, 0.05];
    let times = rates.map(|share| at(share, ahead));
    assert!(times.is_sorted(), "{times:?}");
    for (share, time) in rates.into_iter().zip(times) {
        assert!(time >= at(share, "{}"));
    }
}

//! Do compressed and rarer exchanges send what they must, cost what their parts do, and lose where they say?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use proptest::prelude::*;
use scalewright::collective::{
    Algorithm, Collective, CompressionSetting, Counts, Exchange, Format, Forms, Local, OneBitAdam,
    Payload, Policy, Ranks, Stage, Stages, ZeroOneAdam, averaging, compressed_all_reduce,
    transfers,
};
use scalewright::hardware::Cluster;
use scalewright::solve::Simulation;
use scalewright::units::{Bytes, Dtype};
use worlds::fabrics::{one_switch, wide_area};
use worlds::{nodes_of_eight, oversubscribed, reducing_switches, torus};

const WORLDS: [fn(u32) -> Cluster; 6] = [
    one_switch,
    nodes_of_eight,
    oversubscribed,
    reducing_switches,
    wide_area,
    torus,
];

const FORMATS: [Format; 8] = [
    Format::Fp32,
    Format::Fp16,
    Format::Bf16,
    Format::Fp8,
    Format::Mxfp8,
    Format::Int8,
    Format::Nvfp4,
    Format::OneBit,
];

fn setting(cluster: &Cluster, bytes: f64) -> CompressionSetting<'_> {
    CompressionSetting {
        cluster,
        stride: 1,
        ranks: cluster.devices,
        dtype: Dtype::Fp16,
        buffer: Bytes::new(bytes),
    }
}

fn top_k(share: f64) -> Payload {
    Payload {
        share: Some(share),
        ..Format::TopK.into()
    }
}

fn local(every: u64, steps: u64) -> Policy {
    Policy::Local(Local {
        every,
        steps: Some(steps),
    })
}

fn clusters() -> impl Strategy<Value = Cluster> {
    (0..WORLDS.len(), 1_u32..40).prop_map(|(world, ranks)| WORLDS[world](ranks))
}

fn payloads() -> impl Strategy<Value = Payload> {
    let dense = (0..FORMATS.len(), proptest::option::of(1_u32..4096)).prop_map(|(i, block)| {
        let scaled = matches!(FORMATS[i], Format::Fp8 | Format::Int8 | Format::OneBit);
        Payload {
            block: block.filter(|_| scaled),
            ..FORMATS[i].into()
        }
    });
    prop_oneof![dense, (1e-4_f64..1.0).prop_map(top_k)]
}

fn stages() -> impl Strategy<Value = Vec<Stage>> {
    let stage = (1_u64..60, 1_u64..9, proptest::option::of(1_u64..6));
    let stage = stage.prop_map(|(steps, interval, full_every)| Stage {
        steps,
        interval,
        full_every,
    });
    proptest::collection::vec(stage, 1..6)
}

/// Walks a policy step by step.
fn walked(stages: &[Stage]) -> Counts {
    let mut counts = Counts::default();
    let (mut since_round, mut since_full) = (0, 0);
    for stage in stages {
        for _ in 0..stage.steps {
            counts.steps += 1;
            since_round += 1;
            if since_round < stage.interval {
                continue;
            }
            since_round = 0;
            since_full += 1;
            if stage.full_every.is_some_and(|every| since_full >= every) {
                since_full = 0;
                counts.full += 1;
            } else {
                counts.compressed += 1;
            }
        }
    }
    counts
}

fn counts(of: &Exchange) -> (u64, u64, u64) {
    (of.steps, of.full_rounds, of.compressed_rounds)
}

/// True within rounding.
fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

proptest! {
    #[test]
    fn a_policys_counts_are_those_of_walking_its_steps(stages in stages(), bytes in 1e3_f64..1e9) {
        let brute = walked(&stages);
        prop_assert_eq!(Counts::of(&stages), brute);
        let cluster = nodes_of_eight(16);
        let policy = Policy::Stages(Stages { stages });
        let answer = averaging(&setting(&cluster, bytes), &policy, None).unwrap();
        prop_assert_eq!(counts(&answer), (brute.steps, brute.full, brute.compressed));
        // what a step sends is what its rounds send
        let signs = compressed_all_reduce(&setting(&cluster, bytes), &Format::OneBit.into()).unwrap();
        let sent = (brute.full as f64 * signs.plain_sent_bytes
            + brute.compressed as f64 * signs.sent_bytes) / brute.steps as f64;
        prop_assert!(close(answer.sent_bytes, sent));
        let time = (brute.full as f64 * signs.plain_time_s
            + brute.compressed as f64 * signs.time_s) / brute.steps as f64;
        prop_assert!(close(answer.time_s, time));
        prop_assert!(answer.worst_time_s >= answer.time_s * (1.0 - 1e-9));
    }

    #[test]
    fn one_bit_adam_sends_its_warm_up_whole(steps in 1_u64..10_000, thousandths in 0_u64..=1000) {
        let warm_up_steps = steps * thousandths / 1000;
        let cluster = nodes_of_eight(64);
        let policy = Policy::OneBitAdam(OneBitAdam { steps, warm_up_steps });
        let answer = averaging(&setting(&cluster, 1e9), &policy, None).unwrap();
        prop_assert_eq!(counts(&answer), (steps, warm_up_steps, steps - warm_up_steps));
        let warm = warm_up_steps as f64 / steps as f64;
        let volume = answer.sent_bytes / answer.plain_sent_bytes;
        prop_assert!((volume - (warm + (1.0 - warm) / 16.0)).abs() < 1e-6);
    }

    #[test]
    fn zero_one_adam_follows_the_published_gaps(
        steps in 1_u64..4_000, thousandths in 0_u64..=1000, updates in 1_u64..9, doubling in 1_u64..300,
        longest in 0_u32..5,
    ) {
        let freeze = steps * thousandths / 1000;
        let cluster = one_switch(4);
        let adam = ZeroOneAdam {
            steps,
            variance_freeze_step: freeze,
            updates_per_doubling: updates,
            steps_per_doubling: doubling,
            longest_interval: 1 << longest,
        };
        let answer = averaging(&setting(&cluster, 1e6), &Policy::ZeroOneAdam(adam), None).unwrap();
        // k_(j+1) - k_j = 2^floor(j / updates), as the paper writes it
        let (mut full, mut at) = (0_u64, 0_u64);
        loop {
            at += 1 << (full / updates).min(60);
            if at > freeze {
                break;
            }
            full += 1;
        }
        let (mut rounds, mut last) = (freeze, 0);
        for i in 1..=steps - freeze {
            let gap = (1_u64 << ((i - 1) / doubling).min(60)).min(1 << longest);
            if i - last >= gap {
                (rounds, last) = (rounds + 1, i);
            }
        }
        prop_assert_eq!(counts(&answer), (steps, full, rounds - full));
    }

    #[test]
    fn averaging_each_step_is_the_plain_all_reduce(cluster in clusters(), bytes in 1.0_f64..1e11) {
        let answer = averaging(&setting(&cluster, bytes), &local(1, 7), None).unwrap();
        let forms = Forms::new(Collective::AllReduce, &cluster.group(1, cluster.devices), &cluster);
        let plain = forms.time(Bytes::new(bytes)).value();
        prop_assert!(close(answer.time_s, plain) && close(answer.worst_time_s, plain));
        prop_assert!(close(answer.sent_bytes, answer.plain_sent_bytes));
        prop_assert_eq!((answer.losing_bytes, answer.break_even_bytes), (vec![], Some(0.0)));
    }

    #[test]
    fn rarer_averages_send_and_take_less(
        cluster in clusters(), bytes in 1e3_f64..1e11, every in 1_u64..100, factor in 2_u64..10,
    ) {
        let price = |every| averaging(&setting(&cluster, bytes), &local(every, every * factor), None);
        let (often, rarely) = (price(every).unwrap(), price(every * factor).unwrap());
        prop_assert!(close(often.sent_bytes, factor as f64 * rarely.sent_bytes));
        prop_assert!(close(often.time_s, factor as f64 * rarely.time_s));
        prop_assert!(close(often.worst_time_s, rarely.worst_time_s));
        prop_assert!(rarely.losing_bytes.is_empty());
    }

    #[test]
    fn no_payload_is_below_its_own_bits(
        cluster in clusters(), payload in payloads(), bytes in 1e3_f64..1e10,
    ) {
        let answer = compressed_all_reduce(&setting(&cluster, bytes), &payload).unwrap();
        let bits = match payload.format {
            Format::Fp32 => 32.0,
            Format::Fp16 | Format::Bf16 => 16.0,
            Format::Fp8 | Format::Int8 => 8.0,
            Format::Mxfp8 => 8.25,
            Format::Nvfp4 => 4.5,
            Format::OneBit => 1.0,
            // a value of 16 bits and a place of 32
            Format::TopK => 48.0 * payload.share.unwrap(),
        };
        let bits = if cluster.devices == 1 { 16.0 } else { bits };
        prop_assert!(answer.bits_per_element >= bits * (1.0 - 1e-9));
        let exact = payload.block.is_none() && cluster.devices > 1;
        let scales = 32.0 * f64::from(cluster.devices) / (bytes / 2.0);
        prop_assert!(!exact || answer.bits_per_element <= bits + scales + 1e-9);
        prop_assert!(close(answer.worst_time_s, answer.time_s));
        prop_assert!(answer.passes_time_s <= answer.time_s);
    }

    #[test]
    fn what_is_sent_is_what_the_transfers_carry(ranks in 2_u32..20, bytes in 1e3_f64..1e10) {
        let cluster = one_switch(ranks);
        let carried = |algorithm, collective, bytes| {
            let group = Ranks { stride: 1, size: ranks };
            let bytes = Bytes::new(bytes);
            let flows = transfers(algorithm, collective, &cluster, group, bytes).unwrap();
            let outcome = Simulation::new(&flows).run().clone();
            // each byte leaves one device and enters another
            outcome.loads.iter().map(|load| load.carried).sum::<f64>() / 2.0
        };
        let chunks = bytes / 16.0 + 4.0 * f64::from(ranks);
        let signs = compressed_all_reduce(&setting(&cluster, bytes), &Format::OneBit.into()).unwrap();
        let phases = carried(Algorithm::Pairwise, Collective::AllToAll, chunks)
            + carried(Algorithm::Ring, Collective::AllGather, chunks);
        prop_assert!(close(signs.sent_bytes * f64::from(ranks), phases));
        let plain = carried(Algorithm::Ring, Collective::AllReduce, bytes);
        prop_assert!(close(signs.plain_sent_bytes * f64::from(ranks), plain));
        let entries = f64::from(ranks) * bytes / 2.0 * 0.01 * 6.0;
        let sparse = compressed_all_reduce(&setting(&cluster, bytes), &top_k(0.01)).unwrap();
        let gathered = carried(Algorithm::Ring, Collective::AllGather, entries);
        prop_assert!(close(sparse.sent_bytes * f64::from(ranks), gathered));
    }

    #[test]
    fn more_compression_never_sends_more(
        cluster in clusters(), bytes in 1e5_f64..1e10, block in 1_u32..4096, share in 1e-4_f64..0.5,
    ) {
        let sent = |payload: Payload| {
            compressed_all_reduce(&setting(&cluster, bytes), &payload).unwrap().sent_bytes
        };
        let scale = |format: Format, block| Payload { block: Some(block), ..format.into() };
        let order = [
            Format::Fp32.into(), Format::Fp16.into(), Format::Mxfp8.into(), Format::Int8.into(),
            Format::Nvfp4.into(), Format::OneBit.into(),
        ];
        prop_assert!(order.map(sent).is_sorted_by(|a, b| a >= b));
        for format in [Format::Int8, Format::OneBit] {
            prop_assert!(sent(scale(format, block)) >= sent(scale(format, block + 1)));
        }
        prop_assert!(sent(top_k(share)) <= sent(top_k(share * 2.0)));
    }

    #[test]
    fn it_loses_where_it_says(
        cluster in clusters(), payload in payloads(), sizes in proptest::collection::vec(0.0_f64..12.0, 40),
        warm in 0_u64..10, nodes_first in any::<bool>(),
    ) {
        let several = cluster.group(1, cluster.devices).members[0] < cluster.devices;
        let payload = Payload { nodes_first: nodes_first && several, ..payload };
        let policy = Policy::OneBitAdam(OneBitAdam { steps: 10, warm_up_steps: warm });
        let at = |bytes: f64| averaging(&setting(&cluster, bytes), &policy, Some(&payload)).unwrap();
        let said = at(1.0);
        for size in sizes.into_iter().map(|power| 10_f64.powf(power)) {
            let answer = at(size);
            prop_assert_eq!(&answer.losing_bytes, &said.losing_bytes);
            let inside = said.losing_bytes.iter().any(|&(from, to)| {
                from <= size && to.is_none_or(|to| size <= to)
            });
            let difference = answer.time_s - answer.plain_time_s;
            if difference.abs() > 1e-9 * answer.plain_time_s {
                prop_assert_eq!(inside, difference > 0.0, "{} of {:?}", size, said.losing_bytes);
            }
        }
        for &(from, to) in &said.losing_bytes {
            for end in [Some(from).filter(|&from| from > 0.0), to].into_iter().flatten() {
                let there = at(end);
                prop_assert!(close(there.time_s, there.plain_time_s), "{there:?} at {end}");
            }
        }
        let last = said.losing_bytes.last();
        prop_assert_eq!(said.break_even_bytes, last.map_or(Some(0.0), |last| last.1));
    }
}

#[test]
fn signs_cost_two_phases_and_their_passes() {
    let (cluster, bytes) = (nodes_of_eight(16), 1e9);
    let group = cluster.group(1, 16);
    let answer = compressed_all_reduce(&setting(&cluster, bytes), &Format::OneBit.into()).unwrap();
    let coded = Bytes::new(bytes / 16.0 + 64.0);
    let phase = |collective| Forms::new(collective, &group, &cluster).time(coded).value();
    let phases = phase(Collective::AllToAll) + phase(Collective::AllGather);
    // of each element of 2 bytes and 1/8 coded: 10.125 to code; 0.125 and a sixteenth of 8.125 to
    // sum the own chunk; 2.125 to decode; five kernels of 4 us at 2 TB/s
    let traffic = (10.125 + 0.125 + 8.125 / 16.0 + 2.125) * bytes / 2.0;
    let passes = 5.0 * 4e-6 + traffic / 2e12;
    assert!(close(answer.passes_time_s, passes), "{answer:?} {passes}");
    assert!(close(answer.time_s, phases + passes));
}

#[test]
fn a_cast_costs_two_passes_and_a_smaller_all_reduce() {
    let cluster = nodes_of_eight(16);
    let held = CompressionSetting {
        dtype: Dtype::Fp32,
        ..setting(&cluster, 1e9)
    };
    let answer = compressed_all_reduce(&held, &Format::Bf16.into()).unwrap();
    let forms = Forms::new(Collective::AllReduce, &cluster.group(1, 16), &cluster);
    let passes = 2.0 * (4e-6 + 1.5e9 / 2e12);
    assert!(close(
        answer.time_s,
        forms.time(Bytes::new(5e8)).value() + passes
    ));
    assert!(answer.time_s < answer.plain_time_s);
}

#[test]
fn signs_gain_on_a_slow_network_and_lose_inside_a_node() {
    let slow = nodes_of_eight(64);
    let signs = Payload::from(Format::OneBit);
    let small = compressed_all_reduce(&setting(&slow, 1e4), &signs).unwrap();
    let large = compressed_all_reduce(&setting(&slow, 1e9), &signs).unwrap();
    assert!(small.time_s > small.plain_time_s && large.time_s < large.plain_time_s);
    let even = large.break_even_bytes.unwrap();
    assert!((1e4..1e9).contains(&even), "{even}");
    let mut fast = reducing_switches(8);
    let inside = compressed_all_reduce(&setting(&fast, 1e9), &signs).unwrap();
    assert!(inside.time_s > inside.plain_time_s && inside.break_even_bytes > Some(1e9));
    fast.device.tiers[0].bandwidth = fast.system.levels[0].bandwidth;
    let inside = compressed_all_reduce(&setting(&fast, 1e9), &signs).unwrap();
    assert_eq!(inside.break_even_bytes, None);
    assert_eq!(inside.losing_bytes, [(0.0, None)]);
}

#[test]
fn nodes_first_codes_a_share_between_nodes_only() {
    let (cluster, bytes) = (nodes_of_eight(64), 1e9);
    let integers = Payload::from(Format::Int8);
    let nodes = Payload {
        nodes_first: true,
        ..integers
    };
    let flat = compressed_all_reduce(&setting(&cluster, bytes), &integers).unwrap();
    let answer = compressed_all_reduce(&setting(&cluster, bytes), &nodes).unwrap();
    let node = cluster.group(1, 8);
    let inside = |collective| {
        Forms::new(collective, &node, &cluster)
            .time(Bytes::new(bytes))
            .value()
    };
    let between = CompressionSetting {
        stride: 8,
        ranks: 8,
        ..setting(&cluster, bytes / 8.0)
    };
    let between = compressed_all_reduce(&between, &integers).unwrap();
    let both = inside(Collective::ReduceScatter) + inside(Collective::AllGather);
    assert!(close(answer.time_s, both + between.time_s), "{answer:?}");
    assert!(close(
        answer.sent_bytes,
        2.0 * 7.0 / 8.0 * bytes + between.sent_bytes
    ));
    // a flat all-to-all passes all coded bytes over each rank's share of the network
    assert!(flat.time_s > flat.plain_time_s && answer.time_s < flat.time_s);
    assert!(close(
        answer.bits_per_element,
        8.0 + 8.0 * 32.0 * 8.0 / (bytes / 2.0)
    ));
    let alone = nodes_of_eight(8);
    let wrong = compressed_all_reduce(&setting(&alone, bytes), &nodes).unwrap_err();
    assert!(
        wrong
            .to_string()
            .starts_with("payload.nodes_first: got true on 8"),
        "{wrong}"
    );
}

#[test]
fn an_empty_buffer_and_a_lone_rank_cost_nothing() {
    let (many, one) = (nodes_of_eight(16), nodes_of_eight(1));
    for format in FORMATS {
        for here in [setting(&many, 0.0), setting(&one, 1e9)] {
            let answer = compressed_all_reduce(&here, &format.into()).unwrap();
            assert_eq!(
                (answer.time_s, answer.passes_time_s, answer.sent_bytes),
                (0.0, 0.0, 0.0)
            );
        }
    }
}

#[test]
fn what_cannot_be_is_refused_by_its_field() {
    let cluster = nodes_of_eight(16);
    let here = setting(&cluster, 1e6);
    let payload = |payload: Payload| compressed_all_reduce(&here, &payload).unwrap_err();
    let block = |format: Format, block| Payload {
        block: Some(block),
        ..format.into()
    };
    let values = Payload {
        values: Some(Dtype::Int8),
        ..top_k(0.1)
    };
    for (wrong, field) in [
        (payload(top_k(0.0)), "payload.share: got 0"),
        (payload(top_k(1.5)), "payload.share: got 1.5"),
        (payload(top_k(f64::NAN)), "payload.share: got NaN"),
        (payload(Format::TopK.into()), "payload.share: got none"),
        (payload(values), "payload.values: got int8"),
        (payload(block(Format::Int8, 0)), "payload.block: got 0"),
        (payload(block(Format::Fp16, 32)), "payload.block: got 32"),
        (
            averaging(&here, &local(0, 5), None).unwrap_err(),
            "policy.local.every: got 0",
        ),
        (
            averaging(&here, &Policy::Stages(Stages { stages: vec![] }), None).unwrap_err(),
            "policy.stages.stages: got no step",
        ),
    ] {
        assert!(wrong.to_string().starts_with(field), "{wrong}");
    }
    let eight_bits = CompressionSetting {
        dtype: Dtype::Int8,
        ..here
    };
    let wrong = compressed_all_reduce(&eight_bits, &Format::OneBit.into()).unwrap_err();
    assert!(wrong.to_string().starts_with("dtype: got int8"), "{wrong}");
}

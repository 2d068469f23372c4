//! Does each algorithm obey its laws wherever it can run, and say what it needs where it cannot?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use proptest::prelude::*;
use scalewright::collective::{Algorithm, Collective, Form, Forms, Protocol};
use scalewright::hardware::{Cluster, Group, Library};
use scalewright::units::{Bytes, BytesPerSecond, Seconds};
use worlds::fabrics::{closed_ring, dragonfly, one_switch, optical, wafer, wide_area, with_host};
use worlds::{full_mesh, nodes_of_eight, oversubscribed, reducing_switches, torus};

const WORLDS: [fn(u32) -> Cluster; 9] = [
    nodes_of_eight,
    oversubscribed,
    torus,
    reducing_switches,
    dragonfly,
    optical,
    wide_area,
    with_host,
    wafer,
];

/// A cluster and a group on it, powers of two or not.
fn places() -> impl Strategy<Value = (Cluster, Group)> {
    let sizes = (0..=WORLDS.len(), 1_u32..9, 2_u32..33, 1_u32..5);
    sizes.prop_map(|(world, stride, size, rest)| {
        let Some(build) = WORLDS.get(world) else {
            let cluster = full_mesh(8);
            let group = cluster.group(1, size.min(8));
            return (cluster, group);
        };
        let cluster = build(stride * size * rest);
        let group = cluster.group(stride, size);
        (cluster, group)
    })
}

fn any_algorithm() -> impl Strategy<Value = Algorithm> {
    (0..Algorithm::NAMED.len(), 1_u32..17).prop_map(|(i, servers)| match Algorithm::NAMED[i] {
        Algorithm::ParameterServer { .. } => Algorithm::ParameterServer { servers },
        other => other,
    })
}

fn any_collective() -> impl Strategy<Value = Collective> {
    (0..Collective::ALL.len()).prop_map(|i| Collective::ALL[i])
}

fn any_bytes() -> impl Strategy<Value = f64> {
    (0.0_f64..34.0).prop_map(f64::exp2)
}

fn faster(cluster: &Cluster, factor: f64) -> Cluster {
    let mut faster = cluster.clone();
    for level in &mut faster.system.levels {
        level.bandwidth = BytesPerSecond::new(level.bandwidth.value() * factor);
        if let Some(wide) = &mut level.wide_area {
            wide.window = Bytes::new(wide.window.value() * factor);
            wide.segment = Bytes::new(wide.segment.value() * factor);
        }
    }
    if let Some(host) = &mut faster.system.host {
        host.link_bandwidth = BytesPerSecond::new(host.link_bandwidth.value() * factor);
        host.memory_bandwidth = BytesPerSecond::new(host.memory_bandwidth.value() * factor);
    }
    faster
}

/// The one form under the protocol of large chunks.
fn simple(forms: &Forms) -> Form {
    let found = forms.all().iter().find(|f| f.protocol == Protocol::Simple);
    *found.unwrap()
}

/// Forced, where the algorithm can run; the error must name it or the collective else.
fn forced(
    algorithm: Algorithm,
    collective: Collective,
    group: &Group,
    cluster: &Cluster,
) -> Option<Forms> {
    match Forms::forced(algorithm, collective, group, cluster) {
        Ok(forms) => Some(forms),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(algorithm.name()), "{text}");
            assert!(text.contains("allowed: "), "{text}");
            None
        }
    }
}

/// Algorithms whose sums are formed in hosts, outside the fabric that the bound describes.
fn outside_the_fabric(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::HostReduce | Algorithm::HostStaged)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_algorithm_beats_the_bound(
        (cluster, group) in places(), algorithm in any_algorithm(),
        collective in any_collective(), bytes in any_bytes(),
    ) {
        let Some(forms) = forced(algorithm, collective, &group, &cluster) else { return Ok(()) };
        let time = forms.time(Bytes::new(bytes)).value();
        prop_assert!(time.is_finite() && time > 0.0, "{forms:?}");
        let bound = if outside_the_fabric(algorithm) {
            bytes / cluster.system.host.as_ref().unwrap().link_bandwidth.value() * 0.5
        } else {
            forms.lower_bound(Bytes::new(bytes)).value()
        };
        prop_assert!(time >= bound * (1.0 - 1e-12), "{time} < {bound}: {group:?} {forms:?}");
    }

    #[test]
    fn more_bytes_take_longer_and_more_bandwidth_never_does(
        (cluster, group) in places(), algorithm in any_algorithm(),
        collective in any_collective(), bytes in any_bytes(), factor in 1.0_f64..10.0,
    ) {
        let Some(forms) = forced(algorithm, collective, &group, &cluster) else { return Ok(()) };
        let time = forms.time(Bytes::new(bytes)).value();
        prop_assert!(time <= forms.time(Bytes::new(bytes * factor)).value());
        let fast = forced(algorithm, collective, &group, &faster(&cluster, factor)).unwrap();
        prop_assert!(fast.time(Bytes::new(bytes)).value() <= time * (1.0 + 1e-12));
    }

    // Bytes and rates in another unit leave every time as it was.
    #[test]
    fn units_do_not_matter(
        (cluster, group) in places(), algorithm in any_algorithm(),
        collective in any_collective(), bytes in any_bytes(), unit in 0.01_f64..100.0,
    ) {
        let Some(forms) = forced(algorithm, collective, &group, &cluster) else { return Ok(()) };
        let scaled = forced(algorithm, collective, &group, &faster(&cluster, unit)).unwrap();
        let (here, there) = (forms.time(Bytes::new(bytes)), scaled.time(Bytes::new(bytes * unit)));
        prop_assert!((here.ratio(there) - 1.0).abs() < 1e-9, "{here:?} {there:?}");
    }

    // One port a rank: whoever has something can tell one more in each step.
    #[test]
    fn rounds_take_a_logarithm_of_steps_at_least(
        (cluster, group) in places(), algorithm in any_algorithm(), collective in any_collective(),
    ) {
        let one_port = matches!(
            algorithm,
            Algorithm::Ring | Algorithm::RecursiveDoubling | Algorithm::HalvingDoubling
                | Algorithm::BidirectionalRing
                | Algorithm::Bruck | Algorithm::Binomial | Algorithm::ScatterAllGather
                | Algorithm::Chain | Algorithm::Product
        );
        let on_rings = cluster.system.levels.iter().any(|level| level.kind.has_dims());
        if !one_port || on_rings {
            return Ok(());
        }
        let Some(forms) = forced(algorithm, collective, &group, &cluster) else { return Ok(()) };
        // no protocol steps faster than 0.3 of a level's latency (NCCL's LL inside a node)
        let fastest = cluster.system.levels.iter().map(|l| l.latency.value()).fold(1.0, f64::min);
        let steps = f64::from(group.size).log2().ceil();
        for form in forms.all() {
            prop_assert!(form.fixed.value() >= 0.3 * fastest * steps, "{form:?} {group:?}");
        }
    }

    #[test]
    fn all_reduce_is_reduce_scatter_and_all_gather(
        (cluster, group) in places(), which in 0_usize..4, bytes in any_bytes(),
    ) {
        let composed = [
            Algorithm::HalvingDoubling, Algorithm::Product, Algorithm::TwoDimensional,
            Algorithm::HostStaged,
        ];
        let time = |collective| {
            let forms = forced(composed[which], collective, &group, &cluster)?;
            Some(simple(&forms).time(Bytes::new(bytes)).value())
        };
        let parts = (time(Collective::ReduceScatter), time(Collective::AllGather));
        let (Some(scatter), Some(gather)) = parts else { return Ok(()) };
        let whole = time(Collective::AllReduce).unwrap();
        // each half starts once, and so does the whole
        let outermost = &cluster.system.levels[group.outermost()];
        let start = Library::of_kind(outermost.kind).simple.base.value();
        prop_assert!(((whole + start) / (scatter + gather) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_forbidden_algorithm_never_wins(
        (cluster, group) in places(), collective in any_collective(), bytes in any_bytes(),
    ) {
        let forms = Forms::new(collective, &group, &cluster);
        let Some((best, time)) = forms.best(Bytes::new(bytes)) else { return Ok(()) };
        match Forms::without(&[best.algorithm], collective, &group, &cluster) {
            Ok(others) => {
                prop_assert!(others.all().iter().all(|f| f.algorithm != best.algorithm));
                prop_assert!(others.time(Bytes::new(bytes)) >= time);
            }
            Err(error) => prop_assert!(error.to_string().contains("forbid: got"), "{error}"),
        }
    }

    #[test]
    fn what_the_library_offers_can_be_forced(
        (cluster, group) in places(), collective in any_collective(),
    ) {
        for form in Forms::new(collective, &group, &cluster).all() {
            let forms = Forms::forced(form.algorithm, collective, &group, &cluster).unwrap();
            prop_assert!(forms.all().contains(form), "{form:?} {forms:?}");
        }
    }

    #[test]
    fn a_torus_of_one_dimension_is_a_ring(size in 3_u32..33, bytes in any_bytes()) {
        let cluster = closed_ring(size);
        let group = cluster.group(1, size);
        let p = f64::from(size);
        let (step, link) = (1e-6, 40e9);
        let time = |collective| {
            let forms = Forms::forced(Algorithm::Torus, collective, &group, &cluster).unwrap();
            forms.time(Bytes::new(bytes)).value()
        };
        // a bidirectional ring: half way round, half of the bytes each way
        let one_way = one_switch(size);
        let here = |algorithm| {
            let forms = Forms::forced(algorithm, Collective::AllGather, &group, &one_way);
            forms.unwrap().all()[0]
        };
        // the ring both ways on ports that the two share has its steps, each with a second message to issue, and
        // twice its time for bytes
        let (both, ring) = (here(Algorithm::BidirectionalRing), here(Algorithm::Ring));
        prop_assert!((both.fixed.value() / 2.2e-6 - (p / 2.0).floor()).abs() < 1e-9);
        prop_assert!((both.per_byte / ring.per_byte - 1.0).abs() < 1e-12);
        let pass = (p / 2.0).floor() * step + bytes * (p - 1.0) / p / (2.0 * link);
        prop_assert!((time(Collective::AllGather) / pass - 1.0).abs() < 1e-9);
        prop_assert!((time(Collective::AllReduce) / (2.0 * pass) - 1.0).abs() < 1e-9);
    }
}

/// Algorithm, collective, steps, and buffers sent by a rank, of sixteen ranks on one switch.
const TEXTBOOK: [(Algorithm, Collective, f64, f64); 14] = [
    (
        Algorithm::RecursiveDoubling,
        Collective::AllReduce,
        4.0,
        4.0,
    ),
    (
        Algorithm::RecursiveDoubling,
        Collective::AllGather,
        4.0,
        15.0 / 16.0,
    ),
    (
        Algorithm::HalvingDoubling,
        Collective::AllReduce,
        8.0,
        30.0 / 16.0,
    ),
    (
        Algorithm::HalvingDoubling,
        Collective::ReduceScatter,
        4.0,
        15.0 / 16.0,
    ),
    (Algorithm::Product, Collective::AllReduce, 8.0, 30.0 / 16.0),
    (Algorithm::Bruck, Collective::AllGather, 4.0, 15.0 / 16.0),
    (Algorithm::Bruck, Collective::AllToAll, 4.0, 2.0),
    (Algorithm::Bruck, Collective::Barrier, 4.0, 0.0),
    (Algorithm::Binomial, Collective::Broadcast, 4.0, 4.0),
    (Algorithm::Binomial, Collective::Gather, 4.0, 15.0 / 16.0),
    (
        Algorithm::ScatterAllGather,
        Collective::Broadcast,
        19.0,
        30.0 / 16.0,
    ),
    (Algorithm::Ring, Collective::Broadcast, 15.0, 1.0),
    (Algorithm::Ring, Collective::AllReduce, 30.0, 30.0 / 16.0),
    (
        Algorithm::BidirectionalRing,
        Collective::AllReduce,
        16.0 * 1.1, // the second message of a step is issued in a tenth of it
        30.0 / 16.0,
    ),
];

#[test]
fn rounds_on_one_switch_are_the_textbook() {
    let cluster = one_switch(16);
    let group = cluster.group(1, 16);
    for (algorithm, collective, steps, buffers) in TEXTBOOK {
        let forms = Forms::forced(algorithm, collective, &group, &cluster).unwrap();
        let got = forms.time(Bytes::new(1e6)).value();
        let expected = steps * 2e-6 + buffers * 1e6 / 100e9;
        let name = collective.name();
        assert!(
            (got / expected - 1.0).abs() < 1e-9,
            "{algorithm:?} {name} {got}"
        );
    }
}

#[test]
fn bruck_takes_any_number_of_ranks() {
    for size in 2..40 {
        let cluster = one_switch(size);
        let group = cluster.group(1, size);
        let form = |collective| {
            let forms = Forms::forced(Algorithm::Bruck, collective, &group, &cluster);
            forms.unwrap().all()[0]
        };
        let p = f64::from(size);
        let blocks: u32 = (0..size).map(u32::count_ones).sum();
        let gathered = form(Collective::AllGather).per_byte * 100e9 * p;
        let exchanged = form(Collective::AllToAll).per_byte * 100e9 * p;
        assert!((gathered - (p - 1.0)).abs() < 1e-6, "{size}: {gathered}");
        assert!(
            (exchanged - f64::from(blocks)).abs() < 1e-6,
            "{size}: {exchanged}"
        );
        let steps = (p - 1e-9).log2().ceil();
        assert!((form(Collective::Barrier).fixed.value() / 2e-6 - steps).abs() < 1e-6);
    }
}

#[test]
fn a_chain_of_segments_comes_near_the_best_number_of_them() {
    let cluster = one_switch(16);
    let group = cluster.group(1, 16);
    let forms = Forms::forced(Algorithm::Chain, Collective::Broadcast, &group, &cluster).unwrap();
    for exponent in 12..30 {
        let n = f64::from(1_u32 << exponent);
        let best = ((14.0_f64 * 2e-6).sqrt() + (n / 100e9).sqrt()).powi(2);
        let time = forms.time(Bytes::new(n)).value();
        assert!(
            time >= best * (1.0 - 1e-12) || n / 100e9 < 2e-6,
            "{n}: {time} < {best}"
        );
        assert!(
            time <= best * 1.15 || n / 100e9 < 2e-6,
            "{n}: {time} > {best}"
        );
    }
}

#[test]
fn rank_counts_that_an_algorithm_cannot_do_are_refused_by_name() {
    let cluster = nodes_of_eight(48);
    let group = cluster.group(1, 6);
    for algorithm in [Algorithm::RecursiveDoubling, Algorithm::HalvingDoubling] {
        let error = Forms::forced(algorithm, Collective::AllGather, &group, &cluster).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(algorithm.name()) && text.contains('6'),
            "{text}"
        );
        assert!(text.contains("power of two"), "{text}");
        // the all-reduce folds them, which costs more than four ranks but less than two folds more
        let folded = Forms::forced(algorithm, Collective::AllReduce, &group, &cluster).unwrap();
        let four = cluster.group(1, 4);
        let four = Forms::forced(algorithm, Collective::AllReduce, &four, &cluster).unwrap();
        assert!(folded.time(Bytes::new(1e9)) > four.time(Bytes::new(1e9)));
    }
    let server = Algorithm::ParameterServer { servers: 7 };
    let error = Forms::forced(server, Collective::AllReduce, &group, &cluster).unwrap_err();
    assert!(error.to_string().contains("1 to 6 servers"), "{error}");
    let error = Algorithm::named("rign").unwrap_err().to_string();
    assert!(error.contains("rign") && error.contains("ring"), "{error}");
    assert!(Forms::least_of(&[], Collective::AllReduce, &group, &cluster).is_err());
}

#[test]
fn two_dimensions_one_after_the_other_take_twice_as_long_as_both_at_once() {
    let cluster = torus(16);
    let group = cluster.group(1, 16);
    let slope = |algorithm| {
        let forms = Forms::forced(algorithm, Collective::AllReduce, &group, &cluster).unwrap();
        forms.all()[0].per_byte
    };
    let ratio = slope(Algorithm::TwoDimensional) / slope(Algorithm::Torus);
    assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
}

#[test]
fn streamed_weights_do_not_feel_the_number_of_wafers() {
    let slope = |wafers| {
        let cluster = reducing_switches(8);
        let group = cluster.group(1, wafers);
        let algorithm = Algorithm::WeightStreaming { fan_out: 2 };
        let forms = Forms::forced(algorithm, Collective::Broadcast, &group, &cluster).unwrap();
        forms.all()[0].per_byte
    };
    assert!((slope(8) / slope(2) - 1.0).abs() < 1e-12);
}

#[test]
fn one_server_carries_what_all_send() {
    let cluster = one_switch(16);
    let group = cluster.group(1, 16);
    let slope = |servers| {
        let algorithm = Algorithm::ParameterServer { servers };
        let forms = Forms::forced(algorithm, Collective::AllReduce, &group, &cluster).unwrap();
        forms.all()[0].per_byte * 100e9
    };
    assert!((slope(1) - 30.0).abs() < 1e-9 && (slope(16) - 2.0 * 15.0 / 16.0).abs() < 1e-9);
}

#[test]
fn host_sums_cross_the_network_once_a_node() {
    // Fire-Flyer 2: 6.3 to 8.1 GB/s measured (An et al. 2024); memory alone would allow 13.3
    let cluster = with_host(64);
    let group = cluster.group(1, 64);
    let time = |algorithm| {
        let forms = Forms::forced(algorithm, Collective::AllReduce, &group, &cluster).unwrap();
        forms.time(Bytes::new(1e9)).value()
    };
    let rate = 1.0 / time(Algorithm::HostReduce);
    assert!((6.0..13.4).contains(&rate), "{rate} GB/s");
    assert!(time(Algorithm::HostReduce) < time(Algorithm::HostStaged));
}

#[test]
fn a_barrier_takes_time_without_bytes() {
    let cluster = nodes_of_eight(64);
    let forms = Forms::new(Collective::Barrier, &cluster.group(1, 64), &cluster);
    let none = forms.time(Bytes::ZERO);
    assert!(none > Seconds::ZERO && none == forms.time(Bytes::new(1e9)));
    assert_eq!(forms.best(Bytes::ZERO).unwrap().1, none);
}

#[test]
fn bandwidths_are_counted_as_in_nccl_tests() {
    let time = Seconds::new(0.5);
    let bytes = Bytes::new(1e9);
    for (collective, bus) in [
        (Collective::AllReduce, 3.5e9),
        (Collective::AllGather, 1.75e9),
        (Collective::ReduceScatter, 1.75e9),
        (Collective::AllToAll, 1.75e9),
        (Collective::Gather, 1.75e9),
        (Collective::Scatter, 1.75e9),
        (Collective::Broadcast, 2e9),
        (Collective::Reduce, 2e9),
        (Collective::SendReceive, 2e9),
        (Collective::Barrier, 0.0),
    ] {
        let got = bytes.value() / time.value() * collective.bus_factor(8);
        assert!((got - bus).abs() < 1.0, "{} {got}", collective.name());
    }
    assert!(Collective::AllReduce.bus_factor(0).abs() < 1e-12);
}

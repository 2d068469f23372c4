//! Does the price of a collective obey the laws of the fabric?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use proptest::prelude::*;
use scalewright::collective::{Algorithm, Collective, Crossing, Forms, Rules, Sweep, SweepPoints};
use scalewright::control::Control;
use scalewright::hardware::{Cluster, Group, Library};
use scalewright::units::{Bytes, BytesPerSecond, Seconds};
use worlds::{full_mesh, nodes_of_eight, oversubscribed, reducing_switches, torus};

const COLLECTIVES: [Collective; 5] = [
    Collective::AllReduce,
    Collective::ReduceScatter,
    Collective::AllGather,
    Collective::AllToAll,
    Collective::SendReceive,
];

/// A cluster and a group on it, powers of two or not.
fn places() -> impl Strategy<Value = (Cluster, Group)> {
    let sizes = (0_usize..5, 1_u32..17, 2_u32..17, 1_u32..9);
    sizes.prop_map(|(world, stride, size, rest)| {
        let most = if world == 3 { 8 } else { u32::MAX };
        let (stride, size) = (stride.min(most / 2), size.min(most / stride.min(most / 2)));
        let devices = (stride * size * rest).min(most.max(stride * size));
        let build = [
            nodes_of_eight,
            oversubscribed,
            torus,
            full_mesh,
            reducing_switches,
        ][world];
        let cluster = build(devices);
        let group = cluster.group(stride, size);
        (cluster, group)
    })
}

fn any_collective() -> impl Strategy<Value = Collective> {
    (0_usize..5).prop_map(|i| COLLECTIVES[i])
}

fn any_bytes() -> impl Strategy<Value = f64> {
    (0.0_f64..34.0).prop_map(f64::exp2)
}

/// Bytes of the whole group that cross the links of one unit of the level below `level`.
///
/// Counted from what each algorithm sends, for a buffer of `bytes` per rank; the least that the
/// algorithm can need, so a time below `load / capacity` would need links that do not exist.
fn load(
    collective: Collective,
    algorithm: Algorithm,
    group: &Group,
    level: usize,
    bytes: f64,
) -> f64 {
    let ranks = f64::from(group.size);
    let covered = f64::from(group.covered(level));
    let units = ranks / covered;
    let passes = if collective == Collective::AllReduce {
        2.0
    } else {
        1.0
    };
    match (collective, algorithm) {
        (Collective::SendReceive, _) | (_, Algorithm::InNetwork) => bytes,
        (Collective::AllToAll, _) if level == 0 => {
            bytes * (f64::from(group.members[0]) - 1.0) / ranks
        }
        (Collective::AllToAll, _) => covered * bytes * (units - 1.0) / units,
        (_, Algorithm::Tree) => bytes * 2.0 * (units - 1.0) / units,
        (_, Algorithm::Ring) => bytes * passes * (ranks - 1.0) / ranks,
        _ => bytes * passes * (units - 1.0) / units,
    }
}

/// Bytes per second that one unit of the level below `level` can send for this group: the sustained
/// rate of the unit's links, shared with the siblings. A torus device has two links a dimension.
fn share_of_uplink(cluster: &Cluster, group: &Group, level: usize) -> f64 {
    let fabric = &cluster.system.levels[level];
    let below = level
        .checked_sub(1)
        .and_then(|l| cluster.system.levels[l].devices)
        .map_or(1, |d| d.min(cluster.devices));
    let links = if fabric.dims.is_empty() { 1.0 } else { 6.0 };
    let capacity = fabric.bandwidth.value() * fabric.efficiency / fabric.oversubscription;
    capacity * links * f64::from(below) / f64::from(group.siblings[level])
}

/// Groups that reach into one unit of the level below `level` and out of it, and pairs of a rank inside with
/// one outside, per device of the unit that has most; counted rank by rank.
fn counted(cluster: &Cluster, group: &Group, level: usize) -> (f64, f64) {
    let below = cluster.system.levels[level - 1].devices.unwrap();
    let block = group.stride * group.size;
    let mut most = (0.0_f64, 0.0_f64);
    for unit in 0..cluster.devices.div_ceil(below) {
        let held = f64::from((cluster.devices - unit * below).min(below));
        let (mut groups, mut pairs) = (0.0, 0.0);
        for first in (0..cluster.devices / block * block).filter(|d| d % block < group.stride) {
            let ranks = (0..group.size).map(|rank| first + rank * group.stride);
            let inside: u32 = ranks.map(|device| u32::from(device / below == unit)).sum();
            if inside > 0 && inside < group.size {
                groups += 1.0;
                pairs += f64::from(inside * (group.size - inside));
            }
        }
        most = (most.0.max(groups / held), most.1.max(pairs / held));
    }
    most
}

fn faster(cluster: &Cluster, factor: f64) -> Cluster {
    let mut faster = cluster.clone();
    for level in &mut faster.system.levels {
        level.bandwidth = BytesPerSecond::new(level.bandwidth.value() * factor);
    }
    faster
}

proptest! {
    #[test]
    fn no_time_is_below_the_bound(
        (cluster, group) in places(), collective in any_collective(), bytes in any_bytes(),
    ) {
        let forms = Forms::new(collective, &group, &cluster);
        let bytes = Bytes::new(bytes);
        let (time, bound) = (forms.time(bytes).value(), forms.lower_bound(bytes).value());
        prop_assert!(bound > 0.0 && time.is_finite());
        prop_assert!(time >= bound * (1.0 - 1e-12), "{time} < {bound}: {forms:?}");
    }

    #[test]
    fn links_carry_no_more_than_they_can(
        (cluster, group) in places(), collective in any_collective(), bytes in any_bytes(),
    ) {
        let forms = Forms::new(collective, &group, &cluster);
        for form in forms.all() {
            let time = form.time(Bytes::new(bytes)).value();
            for level in 0..cluster.system.levels.len() {
                let beyond = group.members[level..].iter().product::<u32>() > 1;
                if !beyond || (level == 0 && group.members[0] == 1) {
                    continue;
                }
                if level > 0 && matches!(form.algorithm, Algorithm::Ring | Algorithm::Pairwise) {
                    let rate = share_of_uplink(&cluster, &Group::SINGLE, level);
                    let below = cluster.system.levels[level - 1].devices.unwrap();
                    let (groups, pairs) = counted(&cluster, &group, level);
                    let ranks = f64::from(group.size);
                    let each = if collective == Collective::AllToAll {
                        pairs / ranks
                    } else {
                        groups * load(collective, form.algorithm, &group, 0, 1.0)
                    };
                    let capacity = rate / f64::from(below.min(cluster.devices));
                    prop_assert!(each * bytes <= time * capacity * (1.0 + 1e-9), "{form:?}");
                    continue;
                }
                let load = load(collective, form.algorithm, &group, level, bytes);
                let capacity = share_of_uplink(&cluster, &group, level);
                prop_assert!(load <= time * capacity * (1.0 + 1e-9), "{level} {form:?} {group:?}");
            }
        }
    }

    #[test]
    fn more_bytes_take_longer(
        (cluster, group) in places(), collective in any_collective(),
        bytes in any_bytes(), more in 1.0_f64..10.0,
    ) {
        let forms = Forms::new(collective, &group, &cluster);
        prop_assert!(forms.time(Bytes::new(bytes)) <= forms.time(Bytes::new(bytes * more)));
    }

    #[test]
    fn more_bandwidth_is_never_slower(
        (cluster, group) in places(), collective in any_collective(),
        bytes in any_bytes(), factor in 1.0_f64..10.0,
    ) {
        let slow = Forms::new(collective, &group, &cluster).time(Bytes::new(bytes));
        let fast = Forms::new(collective, &group, &faster(&cluster, factor)).time(Bytes::new(bytes));
        prop_assert!(fast.value() <= slow.value() * (1.0 + 1e-12));
    }

    #[test]
    fn rates_scale_only_the_byte_term(
        (cluster, group) in places(), collective in any_collective(), factor in 0.1_f64..10.0,
    ) {
        let here = Forms::new(collective, &group, &cluster);
        let there = Forms::new(collective, &group, &faster(&cluster, factor));
        prop_assert_eq!(here.all().len(), there.all().len());
        for (a, b) in here.all().iter().zip(there.all()) {
            prop_assert_eq!(a.fixed, b.fixed);
            prop_assert!((a.per_byte / factor - b.per_byte).abs() <= 1e-9 * b.per_byte);
        }
    }

    #[test]
    fn parts_are_never_negative((cluster, group) in places(), collective in any_collective()) {
        for form in Forms::new(collective, &group, &cluster).all() {
            prop_assert!(form.fixed >= Seconds::ZERO && form.per_byte > 0.0);
        }
    }

    // Trees and switches shorten all-reduce alone; everywhere else it contains the other two.
    #[test]
    fn an_all_reduce_costs_more_than_its_halves_each(
        (cluster, group) in places(), bytes in any_bytes(),
    ) {
        let bytes = Bytes::new(bytes);
        let forms = |collective| Forms::new(collective, &group, &cluster);
        let (best, time) = forms(Collective::AllReduce).best(bytes).unwrap();
        if !matches!(best.algorithm, Algorithm::Tree | Algorithm::InNetwork) {
            prop_assert!(time >= forms(Collective::ReduceScatter).time(bytes));
            prop_assert!(time >= forms(Collective::AllGather).time(bytes));
        }
    }

    #[test]
    fn the_best_form_is_the_time(
        (cluster, group) in places(), collective in any_collective(), bytes in any_bytes(),
    ) {
        let forms = Forms::new(collective, &group, &cluster);
        let (form, time) = forms.best(Bytes::new(bytes)).unwrap();
        prop_assert_eq!(time, forms.time(Bytes::new(bytes)));
        prop_assert!(forms.all().contains(&form));
    }
}

#[test]
fn an_array_has_the_times_of_its_elements_one_by_one() {
    let points: Vec<u32> = (0..3000).collect();
    let bytes: Vec<f64> = points.iter().map(|&i| 1e5 * f64::from(i % 7)).collect();
    let ranks: Vec<u32> = points.iter().map(|&i| 1 + i * 37 % 64).collect();
    let rates: Vec<f64> = points
        .iter()
        .map(|&i| 1e9 * f64::from(1 + i % 11))
        .collect();
    for build in [nodes_of_eight, oversubscribed, torus, reducing_switches] {
        let cluster = build(64);
        let sweep = Sweep {
            cluster: &cluster,
            collective: Collective::AllReduce,
            rules: Rules::default(),
            stride: 1,
            level: Some(1),
        };
        let times = |bytes, ranks, bandwidths| {
            let points = SweepPoints {
                bytes,
                ranks,
                bandwidths,
            };
            sweep.times(points, &Control::new()).unwrap()
        };
        let (all, same) = (times(&bytes, &ranks, &rates), times(&bytes, &[20], &rates));
        for at in (0..3000).step_by(17) {
            let mut faster = cluster.clone();
            faster.system.levels[1].bandwidth = BytesPerSecond::new(rates[at]);
            for (size, time) in [(ranks[at], all[at]), (20, same[at])] {
                let forms = Forms::new(Collective::AllReduce, &faster.group(1, size), &faster);
                assert_eq!(forms.time(Bytes::new(bytes[at])), Seconds::new(time));
            }
        }
    }
}

#[test]
fn a_group_of_one_is_free() {
    let cluster = nodes_of_eight(8);
    for collective in COLLECTIVES {
        let forms = Forms::new(collective, &cluster.group(4, 1), &cluster);
        assert_eq!(forms.time(Bytes::new(1e9)), Seconds::ZERO);
        assert_eq!(forms.lower_bound(Bytes::new(1e9)), Seconds::ZERO);
        assert!(forms.best(Bytes::new(1e9)).is_none());
    }
}

#[test]
fn a_group_with_one_member_a_node_has_one_adapter() {
    let cluster = nodes_of_eight(64);
    let slope = |stride, size| {
        let group = cluster.group(stride, size);
        let forms = Forms::new(Collective::AllGather, &group, &cluster);
        forms.time(Bytes::new(1e12)).value() / 1e12
    };
    // 25 GB/s a device at 80 %; the ring over all eight devices of each node has eight adapters
    assert!((slope(8, 8) / (7.0 / 8.0 / 20e9) - 1.0).abs() < 0.1);
    assert!((slope(1, 64) / (63.0 / 64.0 / 160e9) - 1.0).abs() < 0.1);
}

#[test]
fn the_few_devices_of_a_unit_have_all_adapters_that_it_shares() {
    let halves = |adapters: u32, devices| {
        worlds::cluster(
            &format!(
                r#"[{{"name": "half", "kind": "pcie", "devices": 4, "bandwidth": "32 GB/s", "latency": "0 s"}},
                {{"name": "halves", "kind": "pcie", "devices": 8, "bandwidth": "2 GB/s", "efficiency": 1,
                "latency": "0 s", "adapters": {adapters}}}]"#
            ),
            devices,
        )
    };
    let slope = |adapters, devices| {
        let mut cluster = halves(adapters, devices);
        for level in &mut cluster.system.levels {
            level.library = Some(Library::PLAIN);
        }
        let group = cluster.group(1, devices);
        let ring = (Algorithm::Ring, Collective::AllGather);
        let forms = Forms::forced(ring.0, ring.1, &group, &cluster).unwrap();
        forms.time(Bytes::new(1e12)).value()
    };
    // a ring of five has one device in the other half, whose part of the crossing is a quarter
    for (adapters, alone) in [(1, 4.0), (2, 2.0), (3, 4.0 / 3.0), (4, 1.0)] {
        assert!((slope(adapters, 8) / slope(4, 8) - 1.0).abs() < 1e-9);
        let quicker = slope(4, 5) / slope(adapters, 5);
        assert!(
            (quicker / alone - 1.0).abs() < 0.05,
            "{adapters}: {quicker}"
        );
    }
}

#[test]
fn oversubscription_slows_only_what_crosses() {
    let cluster = oversubscribed(128);
    let time = |stride, size| {
        let group = cluster.group(stride, size);
        let forms = Forms::new(Collective::AllGather, &group, &cluster);
        forms.time(Bytes::new(1e12)).value()
    };
    let (within, across) = (time(8, 4), time(32, 4));
    assert!((across / within - 4.0).abs() < 0.1, "{}", across / within);
}

#[test]
fn closed_rings_on_all_dimensions_share_the_work() {
    let cluster = torus(64);
    let forms = Forms::new(Collective::AllGather, &cluster.group(1, 64), &cluster);
    let slope = forms.all()[0].per_byte;
    // Six links of 50 GB/s at 80 %.
    assert!((slope * 6.0 * 40e9 / (63.0 / 64.0) - 1.0).abs() < 1e-9);
}

#[test]
fn switches_that_reduce_beat_rings_at_large_sizes() {
    let cluster = reducing_switches(8);
    let forms = Forms::new(Collective::AllReduce, &cluster.group(1, 8), &cluster);
    let (form, _) = forms.best(Bytes::new(1e10)).unwrap();
    assert_eq!(form.algorithm, Algorithm::InNetwork);
}

#[test]
fn a_protocol_without_rate_is_refused_by_name() {
    let mut cluster = nodes_of_eight(8);
    let mut library = Library::NODE;
    library.simple.share = 0.0;
    cluster.system.levels[0].library = Some(library);
    let error = cluster.check().unwrap_err().to_string();
    assert!(
        error.contains("levels.switch.library.simple.share: got 0"),
        "{error}"
    );
}

#[test]
fn level_by_level_takes_fewer_steps_and_spares_the_network() {
    let flat = nodes_of_eight(64);
    let mut layered = flat.clone();
    layered.system.levels[1].hierarchical = true;
    let best = |cluster: &Cluster| {
        let forms = Forms::new(Collective::AllGather, &cluster.group(1, 64), cluster);
        forms.best(Bytes::new(1e6)).unwrap()
    };
    let (form, time) = best(&layered);
    assert_eq!(form.algorithm, Algorithm::Hierarchical);
    assert!(time < best(&flat).1);
    // inside: 7/8 at 240 GB/s; between: 7/8 of an eighth at 20 GB/s; both at one protocol's share
    let full = 7.0 / 8.0 * (1.0 / 240e9 + 1.0 / 8.0 / 20e9);
    assert!(form.per_byte >= full && form.per_byte < 1.2 * full);
}

#[test]
fn tokens_sent_once_cross_as_often_as_they_reach_other_units() {
    let cluster = nodes_of_eight(32);
    let group = cluster.group(1, 32);
    let per_byte = |forms: &Forms| forms.best(Bytes::new(1e9)).unwrap().0.per_byte;
    let each = per_byte(&Forms::new(Collective::AllToAll, &group, &cluster));
    assert_eq!(
        Forms::crossing(Crossing::Each, &group, &cluster)
            .time(Bytes::new(1e9))
            .value()
            .to_bits(),
        Forms::new(Collective::AllToAll, &group, &cluster)
            .time(Bytes::new(1e9))
            .value()
            .to_bits()
    );
    let mut before = each;
    for copies in [2_u16, 4, 8, 16] {
        let crossing = Crossing::Once {
            copies,
            direct: false,
        };
        let once = per_byte(&Forms::crossing(crossing, &group, &cluster));
        // four nodes, of which copies at random reach so many
        let k = f64::from(copies);
        let joined = 4.0 * (1.0 - 0.75_f64.powf(k)) / k;
        assert!(once < before, "{copies}: {once} after {before}");
        assert!(once >= 0.99 * joined * each && once < 1.3 * joined * each + 0.1 * each);
        before = once;
    }
}

#[test]
fn tokens_sent_once_reach_each_rank_once() {
    // inside one node copies for one of eight ranks are one row
    let cluster = nodes_of_eight(8);
    let group = cluster.group(1, 8);
    let per_byte = |crossing: Crossing| {
        let forms = Forms::crossing(crossing, &group, &cluster);
        forms.best(Bytes::new(1e9)).unwrap().0.per_byte
    };
    let each = per_byte(Crossing::Each);
    for copies in [1_u16, 2, 8, 22] {
        let k = f64::from(copies);
        let rows = 8.0 * (1.0 - 0.875_f64.powf(k));
        let once = per_byte(Crossing::Once {
            copies,
            direct: false,
        });
        assert!(
            (once / each - rows / k).abs() < 1e-9,
            "{copies}: {once} of {each}"
        );
        // what goes beside a row for every rank of the node is as much for each of the eight
        let beside = per_byte(Crossing::Beside {
            copies,
            direct: false,
        });
        assert!((beside / once - 8.0).abs() < 1e-9);
        // kernels that write past the library reach the links' rate: seven of eight rows cross
        let direct = per_byte(Crossing::Once {
            copies,
            direct: true,
        });
        let link = cluster.system.levels[0].bandwidth.value() * cluster.system.levels[0].efficiency;
        let meant = rows / k * 7.0 / 8.0 / link;
        assert!((direct / meant - 1.0).abs() < 1e-9, "{direct} for {meant}");
    }
    let beside = Forms::crossing(
        Crossing::Beside {
            copies: 2,
            direct: false,
        },
        &group,
        &cluster,
    );
    assert_eq!(
        beside.time(Bytes::new(0.0)).value().to_bits(),
        0.0_f64.to_bits()
    );
}

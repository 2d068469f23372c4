//! Does an all-to-all of unequal parts agree with equal parts, and follow its busiest port?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use proptest::prelude::*;
use scalewright::collective::{Algorithm, Collective, Forms, uneven_all_to_all};
use scalewright::hardware::{Cluster, Group};
use scalewright::units::Bytes;
use worlds::fabrics::{closed_ring, dragonfly, one_switch, staged, wide_area};
use worlds::{nodes_of_eight, oversubscribed, reducing_switches, torus};

const WORLDS: [fn(u32) -> Cluster; 7] = [
    nodes_of_eight,
    oversubscribed,
    reducing_switches,
    dragonfly,
    wide_area,
    staged,
    torus,
];

fn places() -> impl Strategy<Value = (usize, Cluster, Group)> {
    let sizes = (0..WORLDS.len(), 0_u32..3, 2_u32..17, 1_u32..3);
    sizes.prop_map(|(world, stride, size, rest)| {
        let stride = 1 << stride;
        let cluster = WORLDS[world](stride * size * rest);
        let group = cluster.group(stride, size);
        (world, cluster, group)
    })
}

fn even(group: &Group, bytes: f64) -> Vec<Bytes> {
    let ranks = group.size as usize;
    vec![Bytes::new(bytes / f64::from(group.size)); ranks * ranks]
}

proptest! {
    #[test]
    fn equal_parts_cost_what_the_even_collective_does(
        (world, cluster, group) in places(), bytes in 1e3_f64..1e10,
    ) {
        let uneven = uneven_all_to_all(&group, &cluster, &even(&group, bytes)).unwrap();
        let forms = Forms::new(Collective::AllToAll, &group, &cluster);
        let time = forms.time(Bytes::new(bytes));
        if world < 6 {
            prop_assert!((uneven.time.ratio(time) - 1.0).abs() < 1e-9, "{uneven:?} {time:?}");
        }
    }

    #[test]
    fn no_matrix_beats_its_busiest_port(
        (_, cluster, group) in places(),
        parts in proptest::collection::vec(0.0_f64..1e8, 256), factor in 1.0_f64..10.0,
    ) {
        let ranks = group.size as usize;
        let matrix = |scale: f64| -> Vec<Bytes> {
            parts[..ranks * ranks].iter().map(|p| Bytes::new(p * scale)).collect()
        };
        let cost = uneven_all_to_all(&group, &cluster, &matrix(1.0)).unwrap();
        prop_assert!(cost.time >= cost.lower_bound * (1.0 - 1e-12));
        prop_assert!(cost.lower_bound.value() > 0.0);
        let more = uneven_all_to_all(&group, &cluster, &matrix(factor)).unwrap();
        prop_assert!(more.time >= cost.time);
        prop_assert_eq!(more.busiest_rank, cost.busiest_rank);
    }

    // Where all ranks are alike, the load of the average rank is the least of the busiest.
    #[test]
    fn imbalance_never_helps(shift in 0.0_f64..1.0, hot in 0_usize..8) {
        let cluster = one_switch(8);
        let group = cluster.group(1, 8);
        let fair = even(&group, 1e9);
        let mut skewed = fair.clone();
        for (at, part) in skewed.iter_mut().enumerate() {
            let scale = if at % 8 == hot { 1.0 + 7.0 * shift } else { 1.0 - shift };
            *part = Bytes::new(part.value() * scale);
        }
        let (fair, skewed) = (
            uneven_all_to_all(&group, &cluster, &fair).unwrap(),
            uneven_all_to_all(&group, &cluster, &skewed).unwrap(),
        );
        prop_assert!(skewed.time >= fair.time);
        if shift > 0.01 {
            prop_assert_eq!(skewed.busiest_rank as usize, hot);
        }
    }
}

#[test]
fn on_closed_rings_equal_parts_load_the_bisection() {
    for cluster in [closed_ring(16), torus(64)] {
        let group = cluster.group(1, cluster.devices);
        let bytes = 1e9;
        let uneven = uneven_all_to_all(&group, &cluster, &even(&group, bytes)).unwrap();
        let forms =
            Forms::forced(Algorithm::Torus, Collective::AllToAll, &group, &cluster).unwrap();
        let slope = forms.all()[0].per_byte * bytes;
        let start = 1e-6 * f64::from(cluster.devices);
        assert!(
            (uneven.time.value() - slope).abs() < start + 1e-9 * slope,
            "{uneven:?} {slope}"
        );
    }
}

#[test]
fn a_wrong_matrix_is_refused_by_place() {
    let cluster = one_switch(4);
    let group = cluster.group(1, 4);
    let mut parts = even(&group, 1e6);
    parts[6] = Bytes::new(-1.0);
    let error = uneven_all_to_all(&group, &cluster, &parts)
        .unwrap_err()
        .to_string();
    assert!(error.contains("bytes[1][2]: got -1"), "{error}");
    parts[6] = Bytes::new(f64::NAN);
    assert!(uneven_all_to_all(&group, &cluster, &parts).is_err());
    let error = uneven_all_to_all(&group, &cluster, &parts[1..])
        .unwrap_err()
        .to_string();
    assert!(error.contains("4 x 4 parts"), "{error}");
}

/// What leaves a node passes its one adapter, whatever carries it inside.
#[test]
fn nobody_sends_more_out_of_a_node_than_its_adapter_takes() {
    for devices in [16, 64] {
        let cluster = staged(devices);
        let group = cluster.group(1, devices);
        let bytes = 1e8;
        let leaving = 8.0 * bytes * f64::from(devices - 8) / f64::from(devices);
        let adapter = leaving / (8.0 * 12.5e9 / 8.0);
        let forms = Forms::new(Collective::AllToAll, &group, &cluster);
        assert!(forms.time(Bytes::new(bytes)).value() > adapter);
        assert!((forms.lower_bound(Bytes::new(bytes)).value() / adapter - 1.0).abs() < 0.1);
        let uneven = uneven_all_to_all(&group, &cluster, &even(&group, bytes)).unwrap();
        assert!((uneven.lower_bound.value() / adapter - 1.0).abs() < 0.1);
    }
}

//! Where does a group of ranks lie on the fabric?

use crate::worlds;

use proptest::prelude::*;
use scalewright::hardware::{Cluster, Group};
use worlds::{nodes_of_eight, oversubscribed, torus};

fn worlds() -> impl Strategy<Value = (Cluster, u32, u32)> {
    let sizes = (0_usize..3, 1_u32..30, 1_u32..30, 1_u32..12);
    sizes.prop_map(|(world, stride, size, rest)| {
        let devices = stride * size * rest;
        let cluster = [nodes_of_eight, oversubscribed, torus][world](devices);
        (cluster, stride, size)
    })
}

/// Most members of any true group inside one unit of `capacity` devices, and the units of the group
/// that is spread most.
fn brute_force(devices: u32, stride: u32, size: u32, capacity: u32) -> (u32, u32) {
    let block = stride * size;
    let (mut fewest_inside, mut most_units) = (u32::MAX, 0);
    for first in (0..devices).filter(|rank| rank % block < stride) {
        let (mut inside, mut units, mut unit) = (0, 0, u32::MAX);
        for rank in (0..size).map(|k| first + k * stride) {
            if rank / capacity != unit {
                if units > 0 {
                    fewest_inside = fewest_inside.min(inside);
                }
                (inside, units, unit) = (0, units + 1, rank / capacity);
            }
            inside += 1;
        }
        fewest_inside = fewest_inside.min(inside);
        most_units = most_units.max(units);
    }
    (fewest_inside, most_units)
}

proptest! {
    #[test]
    fn members_multiply_to_the_size((cluster, stride, size) in worlds()) {
        let group = cluster.group(stride, size);
        prop_assert_eq!(group.members.iter().product::<u32>(), size);
        prop_assert_eq!(group.size, size);
        prop_assert!(group.siblings.iter().all(|&s| s >= 1));
    }

    #[test]
    fn a_group_is_never_denser_than_its_worst_true_place((cluster, stride, size) in worlds()) {
        let group = cluster.group(stride, size);
        let capacity = cluster.system.levels[0].devices.unwrap();
        let (fewest, units) = brute_force(cluster.devices, stride, size, capacity);
        prop_assert!(group.members[0] <= fewest, "{group:?} but {fewest} inside");
        prop_assert!(size / group.members[0] >= units);
    }

    #[test]
    fn powers_of_two_lie_exactly(stride in 0_u32..8, size in 0_u32..8, rest in 0_u32..5) {
        let (stride, size) = (1 << stride, 1 << size);
        let cluster = nodes_of_eight((stride * size) << rest);
        let capacity = 8;
        let (fewest, units) = brute_force(cluster.devices, stride, size, capacity);
        let group = cluster.group(stride, size);
        prop_assert_eq!((group.members[0], group.members[1]), (fewest, units));
    }

    #[test]
    fn equal_groups_fill_each_uplink((cluster, stride, size) in worlds()) {
        let group = cluster.group(stride, size);
        let node = cluster.system.levels[0].devices.unwrap().min(cluster.devices);
        if group.members[1] > 1 {
            prop_assert_eq!(group.siblings[1] * group.members[0], node);
        }
    }

    #[test]
    fn a_torus_group_keeps_its_members((cluster, stride, size) in worlds()) {
        let group = cluster.group(stride, size);
        let along: u32 = group.extents.iter().product();
        let on_torus = cluster.system.levels[0].name == "ici";
        prop_assert_eq!(along, if on_torus { group.members[0] } else { 1 });
        prop_assert!(group.spacing >= 1 && group.spacing <= 4);
    }
}

#[test]
fn a_degree_that_does_not_divide_the_node_spreads() {
    let place = |size| cluster_members(&nodes_of_eight(48), 1, size);
    assert_eq!(place(3), [1, 3, 1, 1]);
    assert_eq!(place(6), [2, 3, 1, 1]);
    assert_eq!(place(12), [4, 3, 1, 1]);
}

#[test]
fn a_cluster_smaller_than_a_node_stays_inside() {
    assert_eq!(cluster_members(&nodes_of_eight(6), 2, 3), [3, 1, 1, 1]);
}

#[test]
fn three_levels_share_the_ranks() {
    let cluster = oversubscribed(128);
    assert_eq!(cluster_members(&cluster, 1, 128), [8, 4, 4, 1]);
    assert_eq!(cluster_members(&cluster, 8, 16), [1, 4, 4, 1]);
    assert_eq!(cluster.group(8, 16).siblings, [1, 8, 8, 1]);
    assert_eq!(cluster_members(&cluster, 32, 4), [1, 1, 4, 1]);
    assert_eq!(cluster.group(32, 4).siblings, [1, 8, 32, 1]);
}

#[test]
fn a_stride_of_a_row_lies_on_the_next_dimension() {
    let cluster = torus(64);
    assert_eq!(cluster.group(4, 4).extents, [1, 4, 1]);
    assert_eq!(cluster.group(1, 16).extents, [4, 4, 1]);
    let sparse = cluster.group(2, 8);
    assert_eq!((sparse.extents, sparse.spacing), ([2, 4, 1], 2));
    assert_eq!(cluster.group(1, 6).size, 6);
}

#[test]
fn no_ranks_count_as_one() {
    assert_eq!(nodes_of_eight(8).group(0, 0), Group::SINGLE);
}

fn cluster_members(cluster: &Cluster, stride: u32, size: u32) -> [u32; 4] {
    cluster.group(stride, size).members
}

//! Do dragonflies, wafers, optical switches and wide areas limit what crosses them, and refuse what cannot be?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use scalewright::collective::{Algorithm, Collective, Forms};
use scalewright::hardware::{Cluster, LevelKind, Routing, System, Wrap};
use scalewright::units::{Bytes, Seconds};
use std::path::Path;
use worlds::fabrics::{dragonfly, optical, ramp, sockets, wafer, wide_area};

/// Seconds per byte of large buffers.
fn slope(algorithm: Algorithm, collective: Collective, cluster: &Cluster, stride: u32) -> f64 {
    let group = cluster.group(stride, cluster.devices / stride);
    let forms = Forms::forced(algorithm, collective, &group, cluster).unwrap();
    forms.time(Bytes::new(1e15)).value() / 1e15
}

#[test]
fn all_to_all_uses_every_global_link_and_neighbours_half_of_them() {
    let cluster = dragonfly(1024);
    // 20 GB/s a device at 80 %; 31 of 32 groups lie beyond
    let uniform = slope(Algorithm::Pairwise, Collective::AllToAll, &cluster, 32);
    assert!(
        (uniform * 16e9 / (31.0 / 32.0) - 1.0).abs() < 1e-3,
        "{uniform}"
    );
    let ring = slope(Algorithm::Ring, Collective::AllGather, &cluster, 32);
    assert!((ring * 8e9 / (31.0 / 32.0) - 1.0).abs() < 1e-3, "{ring}");
    let mut minimal = cluster;
    minimal.system.levels[2].routing = Routing::Minimal;
    let direct = slope(Algorithm::Ring, Collective::AllGather, &minimal, 32);
    assert!(
        (direct / ring - 31.0 / 2.0).abs() < 1e-3,
        "{}",
        direct / ring
    );
}

#[test]
fn what_leaves_a_node_passes_no_bus_inside_it() {
    let slow = sockets(32);
    let mut fast = slow.clone();
    for level in &mut fast.system.levels[..2] {
        level.bandwidth = level.bandwidth * 1000.0;
    }
    for (algorithm, collective) in [
        (Algorithm::Ring, Collective::AllReduce),
        (Algorithm::Tree, Collective::AllReduce),
        (Algorithm::Pairwise, Collective::AllToAll),
    ] {
        let of = |cluster: &Cluster, stride| slope(algorithm, collective, cluster, stride);
        let (alone, as_alone) = (of(&slow, 8), of(&fast, 8));
        assert!(
            (alone / as_alone - 1.0).abs() < 1e-9,
            "{algorithm:?} {alone} {as_alone}"
        );
        // ranks of one node have nothing else to go by
        assert!(of(&slow, 1) > 2.0 * of(&fast, 1), "{algorithm:?}");
        let inside = |cluster: &Cluster| {
            let forms = Forms::forced(algorithm, collective, &cluster.group(4, 2), cluster);
            forms.unwrap().time(Bytes::new(1e12)).value()
        };
        assert!(inside(&slow) > 100.0 * inside(&fast), "{algorithm:?}");
    }
}

#[test]
fn mirrors_turn_once_for_each_further_pair_of_partners() {
    let cluster = optical(128);
    let group = cluster.group(8, 16);
    let fixed = |algorithm, collective| {
        let forms = Forms::forced(algorithm, collective, &group, &cluster).unwrap();
        forms.all()[0].fixed.value()
    };
    // two circuits: 15 partners need eight settings, four need two, a ring's one is always there
    let turns = |algorithm, collective| (fixed(algorithm, collective) / 10e-3).floor();
    assert!((turns(Algorithm::Pairwise, Collective::AllToAll) - 7.0).abs() < 0.1);
    assert!((turns(Algorithm::HalvingDoubling, Collective::AllGather) - 1.0).abs() < 0.1);
    assert!((turns(Algorithm::HalvingDoubling, Collective::AllReduce) - 2.0).abs() < 0.1);
    assert!(fixed(Algorithm::Ring, Collective::AllReduce) < 1e-3);
}

#[test]
fn loss_and_window_bound_a_wide_area() {
    let mut cluster = wide_area(16);
    let wide = cluster.system.levels[1].wide_area.unwrap();
    // 16 flows of 1460 B * sqrt(1.5) / (80 ms * 0.01) = 2.235 MB/s, less than 8 MiB / 80 ms each
    let lossy = 16.0 * 1460.0 * 1.5_f64.sqrt() / (0.08 * 0.01);
    assert!((wide.rate().value() / lossy - 1.0).abs() < 1e-12);
    let time = |cluster: &Cluster| {
        let group = cluster.group(8, 2);
        let forms = Forms::new(Collective::SendReceive, &group, cluster);
        forms.time(Bytes::new(1e9)).value()
    };
    // eight devices of a node share its flows
    assert!((time(&cluster) / (0.04 + 8e9 / lossy) - 1.0).abs() < 1e-9);
    let wide = cluster.system.levels[1].wide_area.as_mut().unwrap();
    wide.loss = 0.0;
    wide.window = Bytes::new(1e6);
    let window = 16.0 * 1e6 / 0.08;
    assert!((time(&cluster) / (0.04 + 8e9 / window) - 1.0).abs() < 1e-9);
    // many flows fill the link: 62.5 MB/s a device at 80 %
    cluster.system.levels[1].wide_area.as_mut().unwrap().flows = 1000;
    assert!((time(&cluster) / (0.04 + 1e9 / 50e6) - 1.0).abs() < 1e-9);
}

#[test]
fn a_wafer_is_a_torus_that_does_not_close() {
    let mut open = wafer(144);
    let group = open.group(1, 144);
    let time = |cluster: &Cluster, collective| {
        let forms = Forms::forced(Algorithm::Torus, collective, &group, cluster).unwrap();
        forms.time(Bytes::new(1e9)).value()
    };
    for collective in [
        Collective::AllReduce,
        Collective::AllToAll,
        Collective::Gather,
    ] {
        let on_wafer = time(&open, collective);
        open.system.levels[0].kind = LevelKind::Torus;
        assert!((on_wafer / time(&open, collective) - 1.0).abs() < 1e-12);
        open.system.levels[0].wrap = Wrap::All(true);
        assert!(time(&open, collective) < on_wafer);
        open.system.levels[0].wrap = Wrap::All(false);
        open.system.levels[0].kind = LevelKind::WaferMesh;
    }
    // reduce and broadcast pass each link once: along 11 + 11 hops, then at the rate of a link
    let line = 22.0 * 50e-9 + 1e9 / 400e9;
    assert!((time(&open, Collective::Broadcast) / line - 1.0).abs() < 1e-9);
}

#[test]
fn fabrics_that_cannot_be_are_refused_by_field() {
    let refused = |mut cluster: Cluster, change: &dyn Fn(&mut Cluster), text: &str| {
        cluster.check().unwrap();
        change(&mut cluster);
        let error = cluster.check().unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    let outer = |cluster: &mut Cluster| cluster.system.levels.len() - 1;
    let no_table = |cluster: &mut Cluster| {
        let last = outer(cluster);
        cluster.system.levels[last].optical = None;
        cluster.system.levels[last].wide_area = None;
    };
    refused(optical(16), &no_table, "mirrors.optical: got none");
    refused(wide_area(16), &no_table, "wan.wide_area: got none");
    refused(
        wafer(16),
        &|c| c.system.levels[0].wrap = Wrap::All(true),
        "wafer.wrap: got true",
    );
    refused(
        worlds::torus(64),
        &|c| c.system.levels[0].wrap = Wrap::Each(vec![true, false]),
        "ici.wrap: got [true, false]; allowed: true, false, or 3 of them",
    );
    refused(
        wafer(16),
        &|c| c.system.levels[0].dims.clear(),
        "wafer.dims: got []",
    );
    refused(
        optical(16),
        &|c| c.system.levels[1].optical.as_mut().unwrap().circuits = 0,
        "mirrors.optical.circuits: got 0",
    );
    refused(
        wide_area(16),
        &|c| c.system.levels[1].wide_area.as_mut().unwrap().loss = 1.0,
        "wan.wide_area.loss: got 1",
    );
    refused(
        wide_area(16),
        &|c| c.system.levels[1].latency = Seconds::new(0.03),
        "wan.wide_area.round_trip: got 0.08",
    );
}

#[test]
fn the_catalog_has_a_system_of_each_kind() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/scalewright/catalog/systems");
    for (name, kind) in [
        ("dragonfly-frontier", LevelKind::Dragonfly),
        ("dojo-tile", LevelKind::WaferMesh),
        ("topoopt-a100", LevelKind::OpticalSwitch),
        ("wan-500mbit", LevelKind::WideArea),
        ("ramp", LevelKind::SingleHop),
    ] {
        let text = std::fs::read_to_string(root.join(format!("{name}.toml"))).unwrap();
        let system: System = toml::from_str(&text).unwrap();
        system.check().unwrap();
        assert_eq!(system.levels.last().unwrap().kind, kind, "{name}");
    }
}

#[test]
fn ramp_takes_four_stages_and_composes() {
    let cluster = ramp(65_536);
    let group = cluster.group(1, 65_536);
    let form = |collective| Forms::new(collective, &group, &cluster).all()[0];
    let whole = form(Collective::AllReduce);
    let halves = [Collective::ReduceScatter, Collective::AllGather].map(form);
    let sum = halves[0].per_byte + halves[1].per_byte;
    assert!((whole.per_byte / sum - 1.0).abs() < 1e-12);
    assert!((whole.fixed.value() / (8.0 * 1.45e-6) - 1.0).abs() < 1e-9);
    assert!(whole.per_byte >= 2.0 * 65_535.0 / 65_536.0 / 1.6e12);
    let barrier = form(Collective::Barrier);
    assert!(barrier.per_byte.abs() < 1e-30 && barrier.fixed == whole.fixed);
    let sent = form(Collective::Broadcast);
    assert!((sent.per_byte / (2.0 * halves[1].per_byte) - 1.0).abs() < 1e-12);
}

#[test]
fn ramp_never_beats_a_nodes_transceivers_and_small_jobs_take_one_stage() {
    let cluster = ramp(65_536);
    for ranks in [2, 31, 32, 33, 40, 1_000, 2_048, 2_049, 65_535, 65_536] {
        let group = cluster.group(1, ranks);
        for collective in Collective::ALL {
            let forms = Forms::new(collective, &group, &cluster);
            let (bytes, bound) = (Bytes::new(1e12), forms.lower_bound(Bytes::new(1e12)));
            assert!(
                forms.time(bytes) >= bound * (1.0 - 1e-12),
                "{ranks} {collective:?}"
            );
        }
        let start = Forms::new(Collective::AllGather, &group, &cluster).all()[0].fixed;
        assert!(ranks > 32 || (start.value() / 1.45e-6 - 1.0).abs() < 1e-9);
    }
}

#[test]
fn a_single_hop_network_refuses_rings_and_what_lacks_transceivers() {
    let cluster = ramp(64);
    let group = cluster.group(1, 64);
    let error = Forms::forced(Algorithm::Ring, Collective::AllReduce, &group, &cluster);
    assert!(error.unwrap_err().to_string().contains("ramp"));
    let mut wide = cluster;
    let network = wide.system.levels[0].single_hop.as_mut().unwrap();
    network.racks = 33;
    let error = wide.check().unwrap_err().to_string();
    assert!(error.contains("racks: got 33; allowed: 1 to 32"), "{error}");
    let on_switches = worlds::nodes_of_eight(16);
    let group = on_switches.group(1, 16);
    let error = Forms::forced(Algorithm::Ramp, Collective::AllReduce, &group, &on_switches);
    assert!(error.unwrap_err().to_string().contains("single-hop"));
}

/// Peak rates of memory and links make the form a limit: the measured times lie up to 2.1 times above.
#[test]
fn host_sums_on_fire_flyer_are_a_limit_that_measured_times_stay_above() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/scalewright/catalog/systems");
    let text = std::fs::read_to_string(root.join("fire-flyer-2.toml")).unwrap();
    let mut cluster = worlds::nodes_of_eight(16);
    cluster.system = toml::from_str(&text).unwrap();
    // An et al. 2024, figure 7a: 186 MiB on 16 and 1,440 devices
    for (devices, measured) in [(16, 24.078e-3), (1440, 30.909e-3)] {
        cluster.devices = devices;
        let group = cluster.group(1, devices);
        let forms = Forms::forced(
            Algorithm::HostReduce,
            Collective::AllReduce,
            &group,
            &cluster,
        );
        let time = forms.unwrap().time(Bytes::new(186.0 * 1024.0 * 1024.0));
        let share = time.value() / measured;
        assert!((0.45..1.0).contains(&share), "{devices}: {share}");
    }
}

#[test]
fn a_job_on_a_part_of_a_torus_of_blocks_has_the_slice_that_is_named() {
    let torus = |devices: u32, dims: &str, rest: &str| {
        format!(
            r#"[{{"name": "ring", "kind": "torus", "devices": {devices}, "bandwidth": "50 GB/s", "latency": "1 us",
            "dims": {dims}{rest}}}]"#
        )
    };
    let times = |cluster: &Cluster| {
        let group = cluster.group(1, cluster.devices);
        let halves = cluster.group(1, cluster.devices / 2);
        let collectives = [Collective::AllReduce, Collective::AllToAll];
        collectives.map(|collective| {
            [group, halves].map(|group| {
                Forms::new(collective, &group, cluster)
                    .time(Bytes::new(1e9))
                    .value()
            })
        })
    };
    let blocks = torus(4096, "[16, 16, 16]", r#", "wrap": true, "block": 4"#);
    let none = torus(256, "[16, 16]", r#", "wrap": true, "block": 0"#);
    for (levels, devices, slice, wrap) in [
        (&blocks, 128, "[4, 4, 8]", "true"),
        (&blocks, 64, "[4, 4, 4]", "true"),
        (&blocks, 32, "[2, 4, 4]", "false"),
        (&none, 128, "[8, 16]", "[false, true]"),
        (&none, 32, "[4, 8]", "false"),
    ] {
        let named = torus(devices, slice, &format!(r#", "wrap": {wrap}"#));
        let mut cluster = worlds::cluster(levels, devices);
        let expected = times(&worlds::cluster(&named, devices));
        assert_eq!(times(&cluster), expected, "{devices} {slice}");
        // another number of devices has another slice
        cluster.resize(16);
        assert_eq!(times(&cluster), times(&worlds::cluster(levels, 16)));
        cluster.resize(devices);
        assert_eq!(times(&cluster), expected);
    }
}

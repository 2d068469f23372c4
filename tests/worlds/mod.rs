//! Tiny clusters and models for black-box tests, built from JSON as a user's configuration is.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use scalewright::hardware::Cluster;

const DEVICE: &str = r#"{
    "name": "toy", "title": "Toy device", "vendor": "nobody", "year": 2020,
    "matrix": {"bf16": "300 TFLOP/s"}, "vector": "20 TFLOP/s",
    "tiers": [{"name": "hbm", "kind": "hbm", "capacity": "80 GB", "bandwidth": "2 TB/s"}],
    "launch_overhead": "4 us", "power": {"peak": 400, "idle": 100}
}"#;

/// A cluster of toy devices joined by `levels`, given as JSON.
pub fn cluster(levels: &str, devices: u32) -> Cluster {
    let text = format!(
        r#"{{"system": {{"name": "toy-system", "title": "Toy system", "device": "toy",
        "devices_per_node": 8, "levels": {levels}}}, "device": {DEVICE}, "devices": {devices}}}"#
    );
    Cluster::from_json(&text).unwrap()
}

/// Nodes of eight on a switch, joined by a network with a tenth of its rate.
pub fn nodes_of_eight(devices: u32) -> Cluster {
    let levels = r#"[
        {"name": "switch", "kind": "switch", "devices": 8, "bandwidth": "300 GB/s", "latency": "3 us"},
        {"name": "network", "kind": "fat-tree", "bandwidth": "25 GB/s", "latency": "10 us"}]"#;
    cluster(levels, devices)
}

/// Nodes of eight, leaves of 32 devices, and a spine with a quarter of the leaves' rate.
pub fn oversubscribed(devices: u32) -> Cluster {
    let levels = r#"[
        {"name": "switch", "kind": "switch", "devices": 8, "bandwidth": "300 GB/s", "latency": "3 us"},
        {"name": "leaf", "kind": "fat-tree", "devices": 32, "bandwidth": "25 GB/s", "latency": "10 us"},
        {"name": "spine", "kind": "fat-tree", "bandwidth": "25 GB/s", "latency": "12 us",
         "oversubscription": 4}]"#;
    cluster(levels, devices)
}

/// A closed 4 x 4 x 4 torus under a network between tori.
pub fn torus(devices: u32) -> Cluster {
    let levels = r#"[
        {"name": "ici", "kind": "torus", "devices": 64, "bandwidth": "50 GB/s", "latency": "1 us",
         "dims": [4, 4, 4], "wrap": true},
        {"name": "network", "kind": "fat-tree", "bandwidth": "6 GB/s", "latency": "20 us"}]"#;
    cluster(levels, devices)
}

/// Eight devices with a link between each pair.
pub fn full_mesh(devices: u32) -> Cluster {
    let levels = r#"[{"name": "links", "kind": "mesh", "devices": 8, "bandwidth": "448 GB/s",
        "latency": "2 us"}]"#;
    cluster(levels, devices)
}

/// Nodes of eight on switches that reduce and multicast, joined by a fast network.
pub fn reducing_switches(devices: u32) -> Cluster {
    let levels = r#"[
        {"name": "switch", "kind": "switch", "devices": 8, "bandwidth": "450 GB/s", "latency": "2 us",
         "in_network_reduction": true},
        {"name": "network", "kind": "fat-tree", "bandwidth": "50 GB/s", "latency": "10 us"}]"#;
    cluster(levels, devices)
}

//! Tiny clusters and models for black-box tests, built from JSON as a user's configuration is.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod cases;
pub mod fabrics;
pub mod jobs;
pub mod programs;

use scalewright::hardware::{Cluster, Device};

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

/// One device from JSON.
pub fn device(text: &str) -> Device {
    let device: Device = serde_json::from_str(text).unwrap();
    device.check().unwrap();
    device
}

/// A100 with the constants fitted to other rows than those of `tests/data`.
pub fn a100() -> Device {
    device(
        r#"{
        "name": "a100", "title": "A100", "vendor": "NVIDIA", "year": 2020,
        "matrix": {"bf16": "312 TFLOP/s"}, "vector": "19.5 TFLOP/s",
        "tiers": [
            {"name": "l2", "kind": "sram", "capacity": "40 MiB", "bandwidth": "7.2 TB/s",
             "efficiency": 0.7},
            {"name": "hbm", "kind": "hbm", "capacity": "80 GiB", "bandwidth": "2.039 TB/s",
             "efficiency": 0.87}],
        "launch_overhead": "2.709 us", "power": {"peak": 400, "idle": 60},
        "matmul": {"units": 108, "efficiency": {"bf16": 0.9562}, "tile_overhead": 57.39,
                   "depth_overhead": 170.9, "depth_time": "1.0 ns", "throttle": 0.07688,
                   "split_overhead": "2.145 us", "memory_efficiency": 0.8667, "store_cost": 1.0,
                   "cache_efficiency": 0.294},
        "attention": {"forward_efficiency": 0.575, "backward_efficiency": 0.449,
                      "score_overhead": 20.0, "key_overhead": 32.6,
                      "tail": 0.505}}"#,
    )
}

/// H100 with the constants fitted to other rows than those of `tests/data`.
pub fn h100() -> Device {
    device(
        r#"{
        "name": "h100", "title": "H100", "vendor": "NVIDIA", "year": 2022,
        "matrix": {"bf16": "989.4 TFLOP/s", "fp8": "1978.9 TFLOP/s"}, "vector": "67 TFLOP/s",
        "tiers": [
            {"name": "l2", "kind": "sram", "capacity": "50 MiB", "bandwidth": "5.5 TB/s",
             "efficiency": 0.7},
            {"name": "hbm", "kind": "hbm", "capacity": "80 GiB", "bandwidth": "3.35 TB/s",
             "efficiency": 0.9}],
        "launch_overhead": "2.596 us", "power": {"peak": 400, "idle": 60},
        "matmul": {"units": 132, "efficiency": {"bf16": 0.9151, "fp8": 0.8295}, "tile_overhead": 2.349,
                   "depth_overhead": 133.1, "depth_time": "1.0 ns", "throttle": 0.1765,
                   "split_overhead": "2.602 us", "memory_efficiency": 0.8467, "store_cost": 1.0,
                   "cache_efficiency": 0.6674},
        "attention": {"forward_efficiency": 0.991, "backward_efficiency": 0.705,
                      "score_overhead": 81.8, "key_overhead": 92.6,
                      "tail": 0.595, "wide": 1.11}}"#,
    )
}

/// B200 with the constants fitted to other rows than those of `tests/data`.
pub fn b200() -> Device {
    device(
        r#"{
        "name": "b200", "title": "B200", "vendor": "NVIDIA", "year": 2024,
        "matrix": {"bf16": "2250 TFLOP/s"}, "vector": "75 TFLOP/s",
        "tiers": [
            {"name": "l2", "kind": "sram", "capacity": "126 MiB", "bandwidth": "21 TB/s",
             "efficiency": 0.7},
            {"name": "hbm", "kind": "hbm", "capacity": "180 GiB", "bandwidth": "8 TB/s",
             "efficiency": 0.87}],
        "launch_overhead": "2.114 us", "power": {"peak": 400, "idle": 60},
        "matmul": {"units": 148, "efficiency": {"bf16": 0.7484}, "tile_overhead": 2.281,
                   "depth_overhead": 8.868, "depth_time": "1.002 ns", "throttle": 0.2959,
                   "split_overhead": "2.518 us", "memory_efficiency": 0.7936, "store_cost": 1.169,
                   "cache_efficiency": 0.3194},
        "attention": {"forward_efficiency": 1.0, "backward_efficiency": 0.724,
                      "score_overhead": 100.0, "key_overhead": 346.0,
                      "tail": 1.21, "wide": 0.764}}"#,
    )
}

/// GB300 with the constants fitted to other rows than those of `tests/data`.
pub fn gb300() -> Device {
    device(
        r#"{
        "name": "gb300", "title": "GB300", "vendor": "NVIDIA", "year": 2025,
        "matrix": {"bf16": "2500 TFLOP/s"}, "vector": "80 TFLOP/s",
        "tiers": [
            {"name": "l2", "kind": "sram", "capacity": "126 MiB", "bandwidth": "21 TB/s",
             "efficiency": 0.7},
            {"name": "hbm", "kind": "hbm", "capacity": "279 GiB", "bandwidth": "8 TB/s",
             "efficiency": 0.87}],
        "launch_overhead": "2.13 us", "power": {"peak": 400, "idle": 60},
        "matmul": {"units": 152, "efficiency": {"bf16": 0.8492}, "tile_overhead": 4.649,
                   "depth_overhead": 12.77, "depth_time": "0.9075 ns", "throttle": 0.07712,
                   "split_overhead": "3.013 us", "memory_efficiency": 0.7999, "store_cost": 1.089,
                   "cache_efficiency": 0.3467},
        "attention": {"forward_efficiency": 1.0, "backward_efficiency": 0.721,
                      "score_overhead": 76.9, "key_overhead": 231.0,
                      "tail": 0.809, "wide": 0.817}}"#,
    )
}

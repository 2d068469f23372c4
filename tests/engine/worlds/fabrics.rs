//! Tiny clusters on fabrics of each kind beside nodes and fat trees.

use super::cluster;
use scalewright::hardware::{Cluster, Host};
use scalewright::units::{Bytes, BytesPerSecond};

/// Library figures of messages that cost their latency and their bytes, nothing else.
const PLAIN: &str = r#"{"low_latency": {"base": 0, "step": 1, "share": 1},
    "low_latency_128": {"base": 0, "step": 1, "share": 1},
    "simple": {"base": 0, "step": 1, "share": 1}}"#;

/// All devices on one switch of 100 GB/s and 2 us.
pub fn one_switch(devices: u32) -> Cluster {
    let levels = format!(
        r#"[{{"name": "switch", "kind": "switch", "bandwidth": "100 GB/s", "latency": "2 us",
        "efficiency": 1, "library": {PLAIN}}}]"#
    );
    cluster(&levels, devices)
}

/// One closed ring of links of 50 GB/s at 80 %.
pub fn closed_ring(devices: u32) -> Cluster {
    let levels = format!(
        r#"[{{"name": "ici", "kind": "torus", "devices": {devices}, "bandwidth": "50 GB/s",
        "latency": "1 us", "dims": [{devices}], "wrap": true}}]"#
    );
    cluster(&levels, devices)
}

/// Nodes of eight in eight groups of 32 devices with a global link for each other group.
pub fn dragonfly(devices: u32) -> Cluster {
    let levels = r#"[
        {"name": "switch", "kind": "switch", "devices": 8, "bandwidth": "300 GB/s", "latency": "3 us"},
        {"name": "local", "kind": "fat-tree", "devices": 32, "bandwidth": "25 GB/s", "latency": "5 us"},
        {"name": "global", "kind": "dragonfly", "devices": 1024, "bandwidth": "20 GB/s",
         "latency": "6 us"}]"#;
    cluster(levels, devices)
}

/// Nodes of eight behind an optical switch with two circuits a node.
pub fn optical(devices: u32) -> Cluster {
    let levels = r#"[
        {"name": "switch", "kind": "switch", "devices": 8, "bandwidth": "300 GB/s", "latency": "3 us"},
        {"name": "mirrors", "kind": "optical-switch", "bandwidth": "25 GB/s", "latency": "2 us",
         "optical": {"reconfiguration": "10 ms", "circuits": 2}}]"#;
    cluster(levels, devices)
}

/// Nodes of eight a continent apart.
pub fn wide_area(devices: u32) -> Cluster {
    let levels = r#"[
        {"name": "switch", "kind": "switch", "devices": 8, "bandwidth": "300 GB/s", "latency": "3 us"},
        {"name": "wan", "kind": "wide-area", "bandwidth": "62.5 MB/s", "latency": "40 ms",
         "wide_area": {"round_trip": "80 ms", "loss": 0.0001, "flows": 16, "window": "8 MiB",
                       "segment": "1460 B"}}]"#;
    cluster(levels, devices)
}

/// Nodes of eight that reach one another through host memory alone, one slow adapter a node.
pub fn staged(devices: u32) -> Cluster {
    let levels = r#"[
        {"name": "pcie", "kind": "pcie", "devices": 8, "bandwidth": "31.5 GB/s", "latency": "2.5 us",
         "peer_to_peer": false},
        {"name": "network", "kind": "fat-tree", "bandwidth": "12.5 Gb/s", "efficiency": 1.0,
         "latency": "6 us"}]"#;
    hosted(levels, devices, 400e9, 31.5e9)
}

/// Nodes of two sockets with four devices each, between which little passes, and an adapter for each device.
pub fn sockets(devices: u32) -> Cluster {
    let levels = r#"[
        {"name": "pcie", "kind": "pcie", "devices": 4, "bandwidth": "20 GB/s", "latency": "3 us"},
        {"name": "sockets", "kind": "pcie", "devices": 8, "bandwidth": "1 GB/s", "latency": "5 us"},
        {"name": "network", "kind": "fat-tree", "bandwidth": "12.5 GB/s", "latency": "10 us"}]"#;
    cluster(levels, devices)
}

/// A wafer of 12 x 12 dies.
pub fn wafer(devices: u32) -> Cluster {
    let levels = r#"[
        {"name": "wafer", "kind": "wafer-mesh", "devices": 144, "bandwidth": "500 GB/s",
         "latency": "50 ns", "dims": [12, 12]},
        {"name": "network", "kind": "fat-tree", "bandwidth": "25 GB/s", "latency": "10 us"}]"#;
    cluster(levels, devices)
}

/// Nodes of eight on `PCIe` with one adapter of 25 GB/s a node and memory of 320 GB/s.
pub fn with_host(devices: u32) -> Cluster {
    let levels = r#"[
        {"name": "pcie", "kind": "pcie", "devices": 8, "bandwidth": "25 GB/s", "latency": "3 us"},
        {"name": "network", "kind": "fat-tree", "bandwidth": "3.125 GB/s", "latency": "10 us"}]"#;
    hosted(levels, devices, 320e9, 25e9)
}

/// Levels below whose devices a host of 512 GB has memory and a link to each of such rates, bytes a second.
fn hosted(levels: &str, devices: u32, memory: f64, link: f64) -> Cluster {
    let mut cluster = cluster(levels, devices);
    cluster.system.host = Some(Host::new(
        Bytes::new(512e9),
        BytesPerSecond::new(memory),
        BytesPerSecond::new(link),
    ));
    cluster
}

/// Nodes of a single-hop optical network, as published.
pub fn ramp(devices: u32) -> Cluster {
    let levels = r#"[
        {"name": "ramp", "kind": "single-hop", "devices": 65536, "bandwidth": "1.6 TB/s",
         "efficiency": 1.0, "latency": "1.45 us",
         "single_hop": {"transceivers": 32, "racks": 32, "nodes": 64, "addition": "667 GB/s"}}]"#;
    cluster(levels, devices)
}

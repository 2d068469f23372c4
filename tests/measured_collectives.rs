//! How far are predicted collectives from measured ones that no constant was fitted to?
#![allow(clippy::unwrap_used, clippy::panic)]

use scalewright::collective::{Collective, Forms};
use scalewright::hardware::Cluster;
use scalewright::units::Bytes;
use std::fs;
use std::path::PathBuf;

/// Sizes from which bandwidth decides; training's collectives are mostly larger.
const LARGE: f64 = 16e6;

struct Row {
    system: String,
    name: String,
    collective: Collective,
    ranks: u32,
    bytes: f64,
    time_us: f64,
}

fn path(inside: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(inside)
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(path("tests/data/collectives_held_out.csv")).unwrap();
    text.lines().skip(1).map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.split(',').collect();
    let collective = match cells[1] {
        "all_reduce" => Collective::AllReduce,
        "all_gather" => Collective::AllGather,
        "reduce_scatter" => Collective::ReduceScatter,
        "all_to_all" => Collective::AllToAll,
        other => panic!("unknown collective {other}"),
    };
    Row {
        system: cells[0].to_owned(),
        name: cells[1].to_owned(),
        collective,
        ranks: cells[2].parse().unwrap(),
        bytes: cells[4].parse().unwrap(),
        time_us: cells[5].parse().unwrap(),
    }
}

/// An entry of the catalog as JSON.
fn entry(folder: &str, name: &str) -> serde_json::Value {
    let file = path(&format!("python/scalewright/catalog/{folder}/{name}.toml"));
    toml::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

fn cluster(system: &str, devices: u32) -> Cluster {
    let system = entry("systems", system);
    let device = entry("devices", system["device"].as_str().unwrap());
    let whole = serde_json::json!({"system": system, "device": device, "devices": devices});
    Cluster::from_json(&whole.to_string()).unwrap()
}

/// Predicted over measured time, less one.
fn error(row: &Row) -> f64 {
    let cluster = cluster(&row.system, row.ranks);
    let group = cluster.group(1, row.ranks);
    let time = Forms::new(row.collective, &group, &cluster).time(Bytes::new(row.bytes));
    time.value() * 1e6 / row.time_us - 1.0
}

/// Mean absolute error of the rows that `chosen` picks, in percent; at least `least` of them.
fn mean_error(least: usize, chosen: impl Fn(&Row) -> bool) -> f64 {
    let errors: Vec<f64> = rows().iter().filter(|r| chosen(r)).map(error).collect();
    assert!(errors.len() >= least, "only {} rows", errors.len());
    100.0 * errors.iter().map(|e| e.abs()).sum::<f64>() / errors.len() as f64
}

#[test]
fn large_collectives_inside_a_node_are_close() {
    for name in ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"] {
        let mean = mean_error(6, |r| r.bytes >= LARGE && r.ranks <= 8 && r.name == name);
        assert!(mean <= 8.0, "{name}: {mean:.1} %");
    }
}

#[test]
fn large_collectives_between_nodes_are_close() {
    let mean = mean_error(8, |r| r.bytes >= LARGE && r.ranks > 8);
    assert!(mean <= 10.0, "{mean:.1} %");
}

#[test]
fn small_collectives_are_near() {
    for between in [false, true] {
        let mean = mean_error(8, |r| r.bytes < LARGE && (r.ranks > 8) == between);
        assert!(mean <= 15.0, "between nodes {between}: {mean:.1} %");
    }
}

#[test]
fn no_prediction_is_far_off() {
    for row in rows() {
        let error = error(&row);
        let shown = format!("{} {} {} B: {error:+.2}", row.system, row.name, row.bytes);
        assert!(error.abs() <= 0.4, "{shown}");
    }
}

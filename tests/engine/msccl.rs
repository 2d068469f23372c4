//! Does an MSCCL file run as what it says, and is a wrong one refused with its line?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use scalewright::collective::{Algorithm, Collective, Msccl, Ranks, transfers};
use scalewright::control::Control;
use scalewright::hardware::Cluster;
use scalewright::solve::Simulation;
use scalewright::units::Bytes;
use worlds::{full_mesh, nodes_of_eight};

const RING: &str = include_str!("../data/msccl-ring-of-four.xml");
const ALL_PAIRS: &str = include_str!("../data/msccl-all-pairs-of-four.xml");

/// An all-reduce of the first four devices as the engine lays it out itself.
fn own(algorithm: Algorithm, cluster: &Cluster, bytes: f64) -> f64 {
    let mut four = cluster.clone();
    four.devices = 4;
    let ranks = Ranks { stride: 1, size: 4 };
    let bytes = Bytes::new(bytes);
    let flows = transfers(algorithm, Collective::AllReduce, &four, ranks, bytes).unwrap();
    Simulation::new(&flows).run().end()
}

fn same(a: f64, b: f64) {
    assert!((a / b - 1.0).abs() < 1e-9, "{a} but {b}");
}

#[test]
fn a_ring_in_a_file_is_a_ring() {
    let cluster = nodes_of_eight(16);
    let ring = Msccl::from_xml(RING).unwrap();
    for bytes in [1.0, 1e6, 1e10] {
        let run = ring
            .simulate(&cluster, Bytes::new(bytes), &Control::new())
            .unwrap();
        same(run.time_s, own(Algorithm::Ring, &cluster, bytes));
        same(run.algorithm_bandwidth_bytes_per_s, bytes / run.time_s);
        same(run.sent_bytes, 6.0 * bytes); // 2 (p - 1) steps of p messages of a p-th
        assert!(run.busiest_link_share <= 1.0 + 1e-9);
    }
    let run = ring
        .simulate(&cluster, Bytes::new(1e10), &Control::new())
        .unwrap();
    assert!(run.busiest_link_share > 0.99, "{run:?}");
    assert_eq!((run.ranks, run.messages), (4, 24));
    assert_eq!(
        (&*run.algorithm, &*run.collective),
        ("ring-of-four", "allreduce")
    );
}

#[test]
fn all_pairs_in_a_file_are_direct_links() {
    let cluster = full_mesh(8);
    let pairs = Msccl::from_xml(ALL_PAIRS).unwrap();
    for bytes in [1.0, 1e6, 1e10] {
        let run = pairs
            .simulate(&cluster, Bytes::new(bytes), &Control::new())
            .unwrap();
        same(run.time_s, own(Algorithm::Direct, &cluster, bytes));
    }
    // two steps instead of six
    let few = Bytes::new(8.0);
    let ring = Msccl::from_xml(RING)
        .unwrap()
        .simulate(&cluster, few, &Control::new())
        .unwrap();
    let pairs = pairs.simulate(&cluster, few, &Control::new()).unwrap();
    assert!((ring.time_s / pairs.time_s - 3.0).abs() < 1e-3);
}

#[test]
fn no_bytes_take_the_steps_alone() {
    let run = Msccl::from_xml(RING).unwrap();
    let run = run
        .simulate(&nodes_of_eight(8), Bytes::new(0.0), &Control::new())
        .unwrap();
    same(run.time_s, 6.0 * 3e-6);
    assert!(run.busiest_link_share.abs() < 1e-12);
}

/// The ring with the first `from` turned into `to` is refused with a message that starts so.
fn refused(from: &str, to: &str, message: &str) {
    assert!(RING.contains(from), "{from}");
    let error = Msccl::from_xml(&RING.replacen(from, to, 1))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(message),
        "{error}\nbut expected {message}"
    );
}

#[test]
fn a_wrong_element_is_refused_with_its_line() {
    refused("</tb>", "</tub>", "line 12: no well-formed XML");
    refused("<!--", "<!DOCTYPE a><!--", "line 1: no well-formed XML");
    refused("<algo", "<algo><", "line 2: no well-formed XML");
    refused("ngpus=\"4\"", "", "line 2: algo.ngpus: got nothing");
    refused(
        "ngpus=\"4\"",
        "ngpus=\"5\"",
        "line 2: gpu: got none with id 4",
    );
    refused(
        "loop=\"4\"",
        "loop=\"0\"",
        "line 2: algo.nchunksperloop: got 0",
    );
    refused("gpu id=\"1\"", "gpu id=\"0\"", "line 14: gpu.id: got 0");
    refused("gpu id=\"1\"", "gpu id=\"7\"", "line 14: gpu.id: got 7");
    refused("send=\"1\"", "send=\"4\"", "line 4: tb.send: got 4");
    refused("send=\"1\"", "send=\"-1\"", "line 4: tb.send: got -1");
    refused("recv=\"3\"", "recv=\"-1\"", "line 4: tb.recv: got -1");
    refused("<step", "<stop", "line 5: element: got stop");
    let error = Msccl::from_xml("\n<gpu/>").unwrap_err().to_string();
    assert!(
        error.starts_with("line 2: root element: got gpu"),
        "{error}"
    );
}

#[test]
fn a_wrong_step_is_refused_with_its_line() {
    let wait = "depid=\"-1\" deps=\"-1\"";
    refused("s=\"1\" type", "s=\"2\" type", "line 6: step.s: got 2");
    refused(
        "\"rrs\"",
        "\"rsr\"",
        "line 6: step.type: unknown name 'rsr'",
    );
    refused("cnt=\"1\"", "cnt=\"2\"", "line 17: step.cnt: got 1");
    refused("cnt=\"1\"", "cnt=\"x\"", "line 5: step.cnt: got x");
    let unknown = "line 5: step.depid, step.deps: got 1, 0";
    refused(wait, "depid=\"1\" deps=\"0\"", unknown);
    let circle = "line 5: step waits in a circle";
    refused(wait, "depid=\"0\" deps=\"6\"", circle);
    let sent = "line 43: a message from rank 3 to 0 on channel 0 is sent";
    refused("\"r\"", "\"nop\"", sent);
    let awaited = "line 22: a message from rank 0 to 1 on channel 0 is awaited";
    refused("\"rcs\"", "\"r\"", awaited);
}

#[test]
fn a_cluster_without_room_is_refused() {
    let ring = Msccl::from_xml(RING).unwrap();
    let error = ring
        .simulate(&nodes_of_eight(3), Bytes::new(1.0), &Control::new())
        .unwrap_err();
    assert!(
        error.to_string().starts_with("algo.ngpus: got 4"),
        "{error}"
    );
}

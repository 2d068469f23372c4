//! How many ring all-reduces a second does the flow simulator run on 8, 64 and 1,024 ranks of a switch?

#![allow(missing_docs, clippy::unwrap_used)]

mod worlds;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use scalewright::collective::{Algorithm, Collective, Ranks, transfers};
use scalewright::hardware::Cluster;
use scalewright::solve::{Flows, Simulation};
use scalewright::units::Bytes;
use std::time::Duration;

/// All devices on one switch.
fn on_a_switch(devices: u32) -> Cluster {
    let mut cluster = worlds::dgx_a100(devices);
    cluster.system.levels.truncate(1);
    cluster.system.levels[0].devices = Some(devices);
    cluster
}

fn ring(cluster: &Cluster) -> Flows {
    let ranks = Ranks {
        stride: 1,
        size: cluster.devices,
    };
    let bytes = Bytes::new(1e9);
    transfers(
        Algorithm::Ring,
        Collective::AllReduce,
        cluster,
        ranks,
        bytes,
    )
    .unwrap()
}

fn all_reduce(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("flow: ring all-reduce");
    group.throughput(Throughput::Elements(1)); // simulations
    for ranks in [8, 64, 1024] {
        let cluster = on_a_switch(ranks);
        let flows = ring(&cluster);
        let mut simulation = Simulation::new(&flows);
        group.bench_function(format!("run, {ranks} ranks"), |b| {
            b.iter(|| simulation.run().end());
        });
        group.bench_function(format!("lay out and run, {ranks} ranks"), |b| {
            b.iter(|| Simulation::new(&ring(&cluster)).run().end());
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3));
    targets = all_reduce
}
criterion_main!(benches);

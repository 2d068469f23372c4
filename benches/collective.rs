//! What does choosing a collective's closed forms cost, and what does reading a time off them?

#![allow(missing_docs)]
#![allow(clippy::unwrap_used)] // a benchmark that cannot start should stop

mod worlds;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use scalewright::collective::{Algorithm, Collective, Forms, Protocol, Rules, Sweep, SweepPoints};
use scalewright::control::Control;
use scalewright::units::Bytes;
use std::hint::black_box;

fn all_reduce(criterion: &mut Criterion) {
    let cluster = worlds::dgx_a100(1024);
    let mut group = criterion.benchmark_group("collective");
    group.bench_function("group of 128 ranks, 8 apart", |b| {
        b.iter(|| cluster.group(black_box(8), black_box(128)));
    });
    let ranks = cluster.group(8, 128);
    group.bench_function("forms", |b| {
        b.iter(|| Forms::new(Collective::AllReduce, black_box(&ranks), &cluster));
    });
    let forms = Forms::new(Collective::AllReduce, &ranks, &cluster);
    group.bench_function("time", |b| {
        b.iter(|| forms.time(black_box(Bytes::new(1e8))));
    });
    group.finish();
}

/// Whole arrays as `scalewright.collective` hands them over, on one thread.
fn arrays(criterion: &mut Criterion) {
    const ELEMENTS: usize = 1 << 18;
    let cluster = worlds::dgx_a100(1024);
    let places = (0_u32..).take(ELEMENTS);
    let bytes: Vec<f64> = places.clone().map(|i| 1e3 + 3e4 * f64::from(i)).collect();
    let ranks: Vec<u32> = places.clone().map(|i| 2 + i * 7919 % 1023).collect();
    let rates: Vec<f64> = places
        .map(|i| 1e10 + 1e6 * f64::from(i * 31 % 40_000))
        .collect();
    let ring = Rules {
        allowed: vec![Algorithm::Ring],
        protocol: Some(Protocol::Simple),
        ..Rules::default()
    };
    let sweep = |rules: &Rules| Sweep {
        cluster: &cluster,
        collective: Collective::AllReduce,
        rules: rules.clone(),
        stride: 1,
        level: None,
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    let mut group = criterion.benchmark_group("collective arrays");
    group.throughput(Throughput::Elements(ELEMENTS as u64));
    let mut run = |name: &str, rules: &Rules, ranks: &[u32], bandwidths: &[f64]| {
        let sweep = sweep(rules);
        let points = SweepPoints {
            bytes: &bytes,
            ranks,
            bandwidths,
        };
        group.bench_function(name, |b| {
            b.iter(|| pool.install(|| sweep.times(black_box(points), &Control::new()).unwrap()));
        });
    };
    run("one group, choice", &Rules::default(), &[128], &[]);
    run("ranks differ, choice", &Rules::default(), &ranks, &[]);
    run("ranks and rates differ, ring", &ring, &ranks, &rates);
    run(
        "ranks and rates differ, choice",
        &Rules::default(),
        &ranks,
        &rates,
    );
    group.finish();
}

criterion_group!(benches, all_reduce, arrays);
criterion_main!(benches);

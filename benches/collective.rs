//! What does choosing a collective's closed forms cost, and what does reading a time off them?

#![allow(missing_docs)]

mod worlds;

use criterion::{Criterion, criterion_group, criterion_main};
use scalewright::collective::{Collective, Forms};
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

criterion_group!(benches, all_reduce);
criterion_main!(benches);

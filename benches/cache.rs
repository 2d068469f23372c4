//! How many accesses a second does each policy replay, and what does a formula cost over a billion rows?

#![allow(missing_docs)]
#![allow(clippy::unwrap_used)] // a benchmark that cannot start should stop

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use scalewright::control::Control;
use scalewright::memory::cache::{Demand, Policy, Popularity, Trace, replay};
use scalewright::solve::Random;
use std::hint::black_box;

const OBJECTS: u32 = 1_000_000;
const ACCESSES: u64 = 4_000_000;
const CAPACITY: u64 = 100_000;

/// Independent references by a Zipf law of exponent 0.9, over objects in no order.
fn trace() -> Vec<u32> {
    let mut ends = Vec::new();
    let mut sum = 0.0;
    for rank in 1..=OBJECTS {
        sum += f64::from(rank).powf(-0.9);
        ends.push(sum);
    }
    let mut random = Random::new(1, 0);
    let ids = (0..ACCESSES).map(|_| {
        let drawn = random.uniform() * sum;
        let rank = ends.partition_point(|end| *end <= drawn);
        // a prime step deals ranks over numbers
        u32::try_from(rank as u64 * 7919 % u64::from(OBJECTS)).unwrap()
    });
    ids.collect()
}

fn replays(criterion: &mut Criterion) {
    let ids = trace();
    let sizes = vec![1_u64; OBJECTS as usize];
    let control = Control::new();
    let mut group = criterion.benchmark_group("cache");
    group.throughput(Throughput::Elements(ACCESSES));
    group.sample_size(10);
    for policy in Policy::ALL {
        for (how, sizes) in [("", &[][..]), (", by bytes", &sizes[..])] {
            let trace = Trace::new(&ids, sizes).unwrap();
            group.bench_function(format!("{}{how}", policy.name()), |b| {
                b.iter(|| replay(black_box(&trace), policy, CAPACITY, 0, &control).unwrap());
            });
        }
    }
    group.finish();
}

fn formulas(criterion: &mut Criterion) {
    let control = Control::new();
    let law = Popularity::Zipf {
        objects: 10_000_000_000,
        exponent: 1.05,
    };
    let mut group = criterion.benchmark_group("cache formulas");
    for policy in [Policy::Static, Policy::Lru, Policy::Fifo] {
        group.bench_function(format!("{} of 1e10 rows", policy.name()), |b| {
            b.iter(|| {
                let demand = Demand::new(black_box(&law), &[]).unwrap();
                demand.hits(policy, 1e8, &control).unwrap()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, replays, formulas);
criterion_main!(benches);

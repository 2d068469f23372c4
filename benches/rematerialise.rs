//! How long does it take to choose what chains keep, compute again and move?

#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use scalewright::control::Control;
use scalewright::memory::rematerialise::{Block, Link, Request, SelectiveRecompute, rematerialise};
use scalewright::solve::Random;
use std::hint::black_box;

/// Unlike blocks, of which a share of the tensors fits.
fn request(count: usize, share: f64, link: Option<Link>) -> Request {
    let mut random = Random::new(1, 0);
    let mut of = |low: f64, high: f64| low + (high - low) * random.uniform();
    let blocks: Vec<Block> = (0..count)
        .map(|_| {
            let (input_bytes, kept) = (of(1e7, 4e7), of(1e8, 9e8));
            let forward_s = of(1e-3, 9e-3);
            Block {
                forward_s,
                backward_s: 2.0 * forward_s,
                input_bytes,
                kept_bytes: input_bytes + kept,
                forward_working_bytes: of(0.0, 1e8),
                backward_working_bytes: of(0.0, 1e8),
                partial: Some(SelectiveRecompute {
                    kept_bytes: input_bytes + 0.4 * kept,
                    again_s: 0.1 * forward_s,
                }),
                repeats: true,
            }
        })
        .collect();
    Request {
        budget_bytes: share * blocks.iter().map(|b| b.kept_bytes).sum::<f64>(),
        blocks,
        output_bytes: 0.0,
        link,
        slots: 500,
        width: 1,
    }
}

fn recomputation(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("recompute, 500 slots");
    group.sample_size(10);
    for count in [50, 100, 200] {
        for share in [0.05, 0.3] {
            let request = request(count, share, None);
            let name = BenchmarkId::new(format!("{count} blocks"), share);
            group.bench_function(name, |bench| {
                bench.iter(|| rematerialise(black_box(&request), &Control::new()).unwrap());
            });
        }
    }
    group.finish();
}

fn swapping(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("keep, recompute or swap");
    group.sample_size(10);
    let link = Link {
        write_bytes_per_s: 2.5e10,
        read_bytes_per_s: 2.5e10,
    };
    for (count, width) in [(50, 64), (50, 512), (200, 512)] {
        let mut request = request(count, 0.3, Some(link));
        (request.width, request.slots) = (width, 1);
        let name = BenchmarkId::new(format!("{count} blocks"), width);
        group.bench_function(name, |bench| {
            bench.iter(|| rematerialise(black_box(&request), &Control::new()).unwrap());
        });
    }
    group.finish();
}

criterion_group!(benches, recomputation, swapping);
criterion_main!(benches);

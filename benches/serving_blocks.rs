//! How long does the exact search for the best block take on the models of the paper?

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use criterion::{Criterion, criterion_group, criterion_main};
use scalewright::control::Control;
use scalewright::memory::serving_blocks::serving_blocks;
use std::hint::black_box;

#[path = "worlds/flexgen.rs"]
mod flexgen;

fn search(bench: &mut Criterion) {
    for (name, layers, hidden, heads) in [
        ("OPT-6.7B", 32, 4096, 32),
        ("OPT-30B", 48, 7168, 56),
        ("OPT-175B", 96, 12288, 96),
    ] {
        let problem = flexgen::problem(layers, hidden, heads);
        let found = serving_blocks(&problem, &Control::new()).unwrap();
        println!(
            "{name}: {} programs, {} boxes, gap {:.1e}",
            found.programs,
            found.boxes,
            found.relative_gap.unwrap()
        );
        bench.bench_function(&format!("serving_blocks/{name}"), |timer| {
            timer.iter(|| serving_blocks(black_box(&problem), &Control::new()).unwrap());
        });
    }
}

criterion_group!(benches, search);
criterion_main!(benches);

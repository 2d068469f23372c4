//! How many plans a second does a search walk on one core, and how many of them does it price?

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]

mod worlds;

use criterion::{Criterion, criterion_group, criterion_main};
use rayon::ThreadPoolBuilder;
use scalewright::control::Control;
use scalewright::estimate::Job;
use scalewright::search::{Limits, Method, SearchOutcome, Space, search};
use std::time::{Duration, Instant};

/// The reference space, field by field in `spaces/reference.toml`.
fn reference() -> Space {
    let text = include_str!("spaces/reference.toml");
    let fields: toml::Value = toml::from_str(text).unwrap();
    Space::from_json(&serde_json::to_string(&fields).unwrap()).unwrap()
}

fn found(job: &Job, space: &Space, method: Method) -> SearchOutcome {
    let limits = Limits {
        method,
        ..Limits::default()
    };
    search(job, space, &limits, &Control::new()).unwrap()
}

/// Walks once and prints rates: of all legal plans, and of those whose exact time was computed.
fn say(name: &str, job: &Job, space: &Space) {
    for method in [Method::Exhaustive, Method::Bounds] {
        let start = Instant::now();
        let counts = found(job, space, method).counts;
        let seconds = start.elapsed().as_secs_f64();
        let legal = counts.legal() as f64;
        println!(
            "{name}, {method:?}: {legal} legal plans in {seconds:.4} s on one \
             core, {:.0} plans/s, {:.1} ns each",
            legal / seconds,
            1e9 * seconds / legal
        );
        println!(
            "  {} priced, {} excluded by bounds, {} do not fit",
            counts.priced,
            counts.excluded(),
            counts.not_fitting()
        );
    }
}

fn whole_spaces(criterion: &mut Criterion) {
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let mut group = criterion.benchmark_group("search");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(3));
    for devices in [1024, 4096] {
        let job = worlds::gpt3_175b(devices);
        let name = format!("GPT-3 175B on {devices} A100");
        pool.install(|| say(&name, &job, &Space::default()));
        let name = format!("{name}, reference space");
        pool.install(|| say(&name, &job, &reference()));
        let name = format!("gpt3-175b on {devices} a100, one thread");
        group.bench_function(name, |b| {
            b.iter(|| pool.install(|| found(&job, &Space::default(), Method::Bounds)));
        });
    }
    // most groups of ranks do not line up with nodes where devices are no power of two
    for devices in [10_000, 100_000] {
        let job = worlds::gpt3_175b_of(devices, devices);
        let name = format!("gpt3-175b on {devices} a100, a sequence each, one thread");
        group.bench_function(name, |b| {
            b.iter(|| pool.install(|| found(&job, &Space::default(), Method::Bounds)));
        });
    }
    group.finish();
}

criterion_group!(benches, whole_spaces);
criterion_main!(benches);

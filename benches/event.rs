//! How many tasks a second does the event simulator run, and how long does a large step take?

#![allow(missing_docs, clippy::unwrap_used)]

mod worlds;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use scalewright::control::Control;
use scalewright::estimate::timeline;
use scalewright::plan::Plan;
use scalewright::schedule::{self, Pass, Passes, Pipeline, PipelineShape, Schedule, Scratch};
use scalewright::solve::{Dependency, QueueDiscipline, Slowdown, Tasks, simulate};
use scalewright::units::Seconds;
use std::hint::black_box;

/// 1F1B of 16 stages over 4,096 micro-batches: each task waits for a neighbour's.
fn pipeline_tasks(slowed: bool) -> Tasks {
    let (stages, micro_batches) = (16, 4_096);
    let mut tasks = Tasks::new();
    let engines: Vec<u32> = (0..stages)
        .map(|_| tasks.engine(QueueDiscipline::Added))
        .collect();
    if slowed {
        for pair in engines.windows(2) {
            tasks.slow(Slowdown {
                engine: pair[0],
                by: pair[1],
                factor: 1.1,
            });
        }
    }
    // forwards of all micro-batches, then backwards: tasks are known by direction, stage, micro-batch
    for back in [false, true] {
        for place in 0..stages {
            let stage = if back { stages - 1 - place } else { place };
            for micro_batch in 0..micro_batches {
                let task =
                    |place: u32| (u32::from(back) * stages + place) * micro_batches + micro_batch;
                let after = match (place, back) {
                    (0, false) => None,
                    (0, true) => Some((stages - 1) * micro_batches + micro_batch),
                    _ => Some(task(place - 1)),
                };
                let after = after.map(|task| Dependency { task, delay: 0.01 });
                let seconds = if back { 2.0 } else { 1.0 };
                tasks.add(engines[stage as usize], seconds, after.as_slice());
            }
        }
    }
    tasks
}

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event");
    for (name, slowed) in [("in order", false), ("slowed by neighbours", true)] {
        let tasks = pipeline_tasks(slowed);
        group.throughput(Throughput::Elements(tasks.len() as u64));
        group.bench_function(name, |bench| bench.iter(|| simulate(black_box(&tasks))));
    }
    group.finish();
}

fn recurrences(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("schedule recurrence, operations");
    let passes = vec![Pass::new(Seconds::new(1.0), Seconds::new(2.0)); 64];
    for kind in Schedule::ALL {
        let shape = PipelineShape::new(16, kind.rule().chunks());
        let count = kind.rule().count(shape);
        let passes = Passes::Each(&passes[..count as usize]);
        let pipeline = Pipeline::new(shape, passes, Seconds::new(0.1));
        let mut scratch = Scratch::new();
        group.throughput(Throughput::Elements(2 * 128 * u64::from(count)));
        group.bench_function(kind.rule().name(), |bench| {
            bench.iter(|| schedule::recurrence(kind, black_box(&pipeline), 128, &mut scratch));
        });
    }
    group.finish();
}

/// GPT-3 175B on 16,384 devices with 128 micro-batches: 16 representative ranks.
fn large_step(criterion: &mut Criterion) {
    let job = worlds::gpt3_175b_of(16_384, 16_384);
    let plan = Plan {
        tensor: 8,
        pipeline: 16,
        data: 128,
        sequence_parallel: true,
        zero: 1,
        ..Plan::default()
    };
    let tasks = match timeline::simulate(&job, &plan, &Control::new()) {
        Ok(Ok(line)) => line.start.len() as u64,
        _ => return,
    };
    let mut group = criterion.benchmark_group("simulated step");
    group.sample_size(10);
    group.throughput(Throughput::Elements(tasks));
    group.bench_function("16,384 devices, 128 micro-batches", |bench| {
        bench.iter(|| timeline::simulate(black_box(&job), &plan, &Control::new()));
    });
    group.finish();
}

criterion_group!(benches, events, recurrences, large_step);
criterion_main!(benches);

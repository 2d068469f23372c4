//! What does one estimate cost, and what do its steps: pricing blocks, links, composing?

#![allow(missing_docs)]

mod worlds;

use criterion::{Criterion, criterion_group, criterion_main};
use scalewright::estimate::{
    Chunks, Composer, Factors, Links, ModelStates, PlanInputs, Pricer, RecomputationCosts,
    ScheduleFacts, Sums, estimate,
};
use scalewright::plan::{Plan, RecomputePolicy, Schedule, Split};
use scalewright::schedule::Scratch;
use std::hint::black_box;

/// The plan of Narayanan et al. 2021, table 2, with Korthikanti's sequence parallelism.
fn megatron() -> Plan {
    Plan {
        tensor: 8,
        pipeline: 16,
        data: 8,
        micro_batch: 1,
        interleave: 3,
        schedule: Schedule::Interleaved,
        sequence_parallel: true,
        recompute: RecomputePolicy::Selective,
        zero: 1,
        ..Plan::default()
    }
}

fn one_plan(criterion: &mut Criterion) {
    let job = worlds::gpt3_175b(1024);
    let plan = megatron();
    let mut pricer = Pricer::new(&job.cluster);
    let factors = Factors::new(&job, &plan, &mut pricer);
    let links = Links::new(&plan, job.dealt_tensors(&plan), &mut pricer);
    let stages = u64::from(plan.pipeline * plan.interleave);
    let each = job.shape.layers / stages;
    let split = Split {
        first: each,
        middle: each,
        last: each,
    };
    let chunks = Chunks::new(&job, split, stages);
    let sums = Sums::new(&job, &factors, &chunks, true);
    let recomputed =
        RecomputationCosts::new(&job, &factors, (&chunks, &sums), plan.recomputation());
    let facts = ScheduleFacts::new(&job, &plan, &chunks);
    let inputs = PlanInputs {
        job: &job,
        plan: &plan,
        factors: &factors,
        links: &links,
        chunks: &chunks,
        sums: &sums,
        recomputed: &recomputed,
        facts: &facts,
    };
    let state = &ModelStates::new(&inputs);
    let composer = Composer { inputs, state };
    let mut scratch = Scratch::new();
    let mut group = criterion.benchmark_group("estimate");
    group.bench_function("whole estimate", |b| {
        b.iter(|| estimate(&job, black_box(&plan)));
    });
    group.bench_function("price blocks", |b| {
        b.iter(|| Factors::new(&job, black_box(&plan), &mut pricer));
    });
    group.bench_function("memory", |b| b.iter(|| black_box(&composer).memory()));
    let memory = composer.memory();
    group.bench_function("draft", |b| b.iter(|| black_box(&composer).draft(memory)));
    group.bench_function("compose", |b| {
        b.iter(|| black_box(&composer).compose(&mut scratch));
    });
    group.finish();
}

criterion_group!(benches, one_plan);
criterion_main!(benches);

//! Does pricing a plan leave the heap alone? A search does it for every plan of its space.

#![allow(clippy::unwrap_used)]

mod worlds;

use scalewright::estimate::{
    Chunks, Composer, Factors, Frame, Job, Links, Pricer, Recomputed, Setting, State, Sums,
};
use scalewright::plan::{Plan, Schedule, check};
use scalewright::schedule::Scratch;
use worlds::jobs;

/// Heap blocks that `work` asks for on this thread.
fn blocks(work: impl FnOnce()) -> u64 {
    allocation_counter::measure(work).count_total
}

/// Runs `work` with a composer of the plan.
fn composed(job: &Job, plan: &Plan, work: impl FnOnce(&Composer)) {
    let split = check(plan, &job.shape, &job.training, job.cluster.devices).unwrap();
    let mut pricer = Pricer::new(&job.cluster);
    let factors = Factors::new(job, plan, &mut pricer);
    let links = Links::new(plan, &mut pricer);
    let chunks = Chunks::new(job, split, u64::from(plan.pipeline * plan.interleave));
    let sums = Sums::new(job, &factors, &chunks, plan.pipeline > 1);
    let again = Recomputed::new(job, &factors, (&chunks, &sums), plan.recomputation());
    let frame = Frame::new(job, plan, &chunks);
    let setting = Setting {
        job,
        plan,
        factors: &factors,
        links: &links,
        chunks: &chunks,
        sums: &sums,
        again: &again,
        frame: &frame,
    };
    let state = &State::new(&setting);
    work(&Composer { setting, state });
}

fn plans() -> Vec<(Job, Plan)> {
    let training = jobs::training(32, 2048, "");
    let cluster = worlds::nodes_of_eight(32);
    let plan = Plan {
        tensor: 2,
        pipeline: 4,
        data: 4,
        zero: 3,
        sequence_parallel: true,
        ..Plan::default()
    };
    let chunked = Plan {
        interleave: 2,
        schedule: Schedule::Interleaved,
        overlap_pipeline: true,
        ..plan
    };
    let away = Plan {
        offload_optimizer: true,
        offload_activations: 50,
        tensor_chunks: 4,
        ..plan
    };
    let mut hosted = cluster.clone();
    hosted.system.host = Some(jobs::host());
    vec![
        (jobs::job(&jobs::gpt(8, 1024), &hosted, &training), away),
        (
            jobs::job(&jobs::gpt(8, 1024), &cluster, &training),
            plan.clone(),
        ),
        (
            jobs::job(&jobs::mixture(8, 1024), &cluster, &training),
            plan,
        ),
        (
            jobs::job(&jobs::mixture(8, 1024), &cluster, &training),
            chunked,
        ),
    ]
}

#[test]
fn a_draft_asks_for_no_memory() {
    for (job, plan) in plans() {
        composed(&job, &plan, |composer| {
            let asked = blocks(|| {
                std::hint::black_box(composer.draft(composer.memory()));
            });
            assert_eq!(asked, 0, "{plan:?}");
        });
    }
}

#[test]
fn a_second_composition_asks_for_no_memory() {
    let mut scratch = Scratch::new();
    for (job, plan) in plans() {
        composed(&job, &plan, |composer| {
            composer.compose(&mut scratch);
            let asked = blocks(|| {
                std::hint::black_box(composer.compose(&mut scratch));
            });
            assert_eq!(asked, 0, "{plan:?}");
        });
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(blocks(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

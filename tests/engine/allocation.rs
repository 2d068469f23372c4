//! Does pricing a plan leave the heap alone? A search does it for every plan of its space.

#![allow(clippy::unwrap_used)]

use crate::worlds;

use rayon::ThreadPoolBuilder;
use scalewright::control::Control;
use scalewright::estimate::{
    Chunks, Composer, Factors, Job, Links, ModelStates, PlanInputs, Pricer, RecomputationCosts,
    ScheduleFacts, Sums,
};
use scalewright::plan::{Plan, Schedule, check};
use scalewright::schedule::Scratch;
use scalewright::search::{Limits, Method, Search, Space};
use std::sync::Arc;
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
    let links = Links::new(plan, job.dealt_tensors(plan), &mut pricer);
    let chunks = Chunks::new(job, split, u64::from(plan.pipeline * plan.interleave));
    let sums = Sums::new(job, &factors, &chunks, plan.pipeline > 1);
    let recomputed = RecomputationCosts::new(job, &factors, (&chunks, &sums), plan.recomputation());
    let facts = ScheduleFacts::new(job, plan, &chunks);
    let inputs = PlanInputs {
        job,
        plan,
        factors: &factors,
        links: &links,
        chunks: &chunks,
        sums: &sums,
        recomputed: &recomputed,
        facts: &facts,
    };
    let state = &ModelStates::new(&inputs);
    work(&Composer { inputs, state });
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
        ..plan.clone()
    };
    let away = Plan {
        offload_optimizer: true,
        offload_activations: 50,
        tensor_chunks: 4,
        ..plan.clone()
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

/// Heap blocks of a whole walk on one thread, and the plans that it weighed.
fn walked(space: &str) -> (u64, u64) {
    let mut cluster = worlds::nodes_of_eight(32);
    cluster.system.host = Some(jobs::host());
    let job = jobs::job(&jobs::gpt(8, 1024), &cluster, &jobs::training(32, 2048, ""));
    let limits = Limits {
        top: 1,
        front: Vec::new(),
        method: Method::Exhaustive,
        ..Limits::default()
    };
    let (job, space) = (Arc::new(job), Space::from_json(space).unwrap());
    let search = Search::new(job, space, limits, &Control::new()).unwrap();
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| {
        let mut plans = 0;
        let asked = blocks(|| {
            let part = search.run([0, search.units()], None, &Control::new());
            plans = part.unwrap().counts().legal();
        });
        (asked, plans)
    })
}

#[test]
fn more_plans_of_the_same_families_ask_for_no_more_memory() {
    let shares: Vec<u32> = (0..=100).collect();
    let (few, some) = walked(r#"{"recompute": ["full"], "recompute_layers": [0]}"#);
    let (more, many) = walked(&format!(
        r#"{{"recompute": ["full"], "recompute_layers": [0], "offload_activations": {shares:?}}}"#
    ));
    assert_eq!(many, 101 * some);
    // the winner is kept anew each time another plan beats it
    assert!(
        more - few < many / 500,
        "{few} and {more} blocks for {some} and {many} plans"
    );
}

#[test]
fn the_counter_counts() {
    assert_eq!(blocks(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

//! Does the breadth-first schedule idle and hold as published?

use scalewright::schedule::{
    self, Pass, Passes, Pipeline, PipelineShape, Schedule, Scratch, Stages,
};
use scalewright::units::Seconds;

const KIND: Schedule = Schedule::BreadthFirst;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

/// Seconds of a step whose passes take 1 s and 2 s.
fn step(kind: Schedule, shape: PipelineShape, micro_batches: u32) -> f64 {
    let passes = vec![Pass::new(Seconds::new(1.0), Seconds::new(2.0)); shape.parts() as usize];
    let pipeline = Pipeline::new(shape, Passes::Each(&passes), Seconds::ZERO);
    let run = schedule::run(kind, &pipeline, micro_batches).map(|run| run.makespan);
    run.map_or(f64::NAN, Seconds::value)
}

#[test]
fn the_bubble_shrinks_with_chunks_as_published() {
    // Lamy-Poirier 2022, section 4: (p - 1) / (v m) of the work
    for (stages, chunks, micro_batches) in [(4, 4, 8), (8, 2, 8), (8, 8, 64), (3, 5, 7), (1, 3, 2)]
    {
        let shape = PipelineShape::new(stages, chunks);
        let work = f64::from(3 * chunks * micro_batches);
        let share = f64::from(stages - 1) / f64::from(chunks * micro_batches);
        let found = step(KIND, shape, micro_batches);
        assert!(close(found / work - 1.0, share), "{shape:?}: {found}");
        let rounds = micro_batches.is_multiple_of(stages);
        let other = step(Schedule::Interleaved, shape, micro_batches);
        assert!(!rounds || close(found, other), "{shape:?}: {other}");
    }
}

#[test]
fn fewer_micro_batches_than_devices_wait_for_the_first_to_come_round() {
    // ((v - 1) p + p - 1 + m) (f + b)
    for (stages, chunks, micro_batches) in [(8, 2, 1), (8, 4, 3), (16, 3, 15)] {
        let passes = stages * chunks - 1 + micro_batches;
        let found = step(KIND, PipelineShape::new(stages, chunks), micro_batches);
        assert!(close(found, f64::from(3 * passes)), "{found}");
    }
}

#[test]
fn one_chunk_is_gpipe_and_every_chunk_is_held() {
    assert!(close(
        step(KIND, PipelineShape::new(6, 1), 9),
        step(Schedule::GPipe, PipelineShape::new(6, 1), 9)
    ));
    assert_eq!(
        schedule::in_flight(KIND, 3, PipelineShape::new(8, 4), 16),
        64
    );
}

#[test]
fn heavy_ends_and_hops_are_timed_without_running_every_micro_batch() {
    let pass = |f, b| Pass::new(Seconds::new(f), Seconds::new(b));
    let stages = Stages {
        count: 5,
        chunks: 3,
        first: pass(1.5, 2.0),
        middle: pass(1.0, 2.0),
        last: pass(2.0, 4.5),
        hop: Seconds::new(0.3),
    };
    let mut passes = Vec::new();
    let pipeline = stages.expand(&mut passes);
    for micro_batches in [1, 2, 4, 5, 9, 40] {
        let scratch = &mut Scratch::new();
        let quick = schedule::step_time(KIND, &stages, micro_batches, scratch);
        let run = schedule::run(KIND, &pipeline, micro_batches).map(|run| run.makespan);
        assert!(run.is_ok_and(|run| close(run.value(), quick.value())));
        let closed = schedule::makespan(KIND, &stages, micro_batches);
        assert!(closed.exact && close(closed.time.value(), quick.value()));
    }
}

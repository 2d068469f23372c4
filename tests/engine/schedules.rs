//! Does every schedule keep the laws of a pipeline, whatever its stages, links and micro-batches?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use scalewright::schedule::{
    self, Gradient, Hops, Operation, Pass, Passes, Pipeline, PipelineShape, Run, Schedule, Scratch,
    Sends, Size, Work,
};
use scalewright::units::Seconds;
use std::collections::BTreeMap;

/// Most virtual stages of a drawn shape.
const PARTS: usize = 32;
/// Most micro-batches drawn, rounds filled up.
const MICRO_BATCHES: usize = 64;

fn any_kind() -> impl Strategy<Value = Schedule> {
    proptest::sample::select(Schedule::ALL.to_vec())
}

/// A shape and micro-batches that the schedule can run.
fn runnable() -> impl Strategy<Value = (Schedule, PipelineShape, u32)> {
    let counts = (1..9_u32, 1..5_u32, 1..5_u32, 1..5_u32, 1..25_u32);
    (any_kind(), counts)
        .prop_map(|(kind, (stages, chunks, window, slices, micro_batches))| {
            let shape = PipelineShape {
                window,
                slices,
                ..PipelineShape::new(stages, chunks)
            };
            nearest(kind, shape, micro_batches)
        })
        .prop_filter(
            "no shape near by can run",
            |(kind, shape, micro_batches)| kind.rule().check(*shape, *micro_batches).is_ok(),
        )
}

/// The drawn shape, or one near it that the schedule can run.
fn nearest(
    kind: Schedule,
    drawn: PipelineShape,
    micro_batches: u32,
) -> (Schedule, PipelineShape, u32) {
    let chunks = [drawn.chunks, kind.rule().chunks()];
    let stages = [drawn.stages, drawn.stages.next_multiple_of(2)];
    for chunks in chunks {
        for stages in stages {
            let rounds = micro_batches.next_multiple_of(stages.max(1));
            for count in [micro_batches, rounds, 2 * rounds] {
                let shape = PipelineShape {
                    stages,
                    chunks,
                    ..drawn
                };
                if kind.rule().check(shape, count).is_ok() && count as usize <= MICRO_BATCHES {
                    return (kind, shape, count);
                }
            }
        }
    }
    (kind, drawn, micro_batches)
}

fn seconds() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..1.0, 0.0..20.0]
}

/// Where a schedule says that chunks run back one after another, they do; where it does not, some do not.
#[test]
fn chunks_that_run_back_one_after_another_are_those_of_the_order() {
    for kind in [
        Schedule::OneForwardOneBackward,
        Schedule::GPipe,
        Schedule::Interleaved,
    ] {
        for (stages, chunks, micro_batches) in [(4, 2, 4), (4, 2, 8), (2, 3, 6), (4, 1, 8)] {
            let shape = PipelineShape::new(stages, chunks);
            if kind.rule().check(shape, micro_batches).is_err() {
                continue;
            }
            let apart = (0..stages).all(|device| {
                let mut order = Vec::new();
                kind.rule().order(shape, micro_batches, device, &mut order);
                let back = order
                    .iter()
                    .filter(|operation| operation.work == Work::Backward);
                let mut chunks: Vec<u32> = back.map(|operation| operation.stage).collect();
                chunks.dedup();
                chunks.len() == shape.chunks as usize
            });
            let said = kind.rule().backs_by_chunk(shape, micro_batches);
            assert_eq!(said, apart, "{kind:?} {shape:?} {micro_batches}");
        }
    }
}

#[derive(Debug, Clone)]
struct World {
    passes: Vec<Pass>,
    hops: Vec<Seconds>,
    sizes: Vec<Size>,
    sends: Sends,
    feedback: f64,
}

impl World {
    fn pipeline(&self, kind: Schedule, shape: PipelineShape) -> Pipeline<'_> {
        let count = kind.rule().count(shape) as usize;
        Pipeline {
            hops: Hops::Each(&self.hops[..count.saturating_sub(1)]),
            sizes: &self.sizes,
            sends: self.sends,
            feedback: Seconds::new(self.feedback),
            ..Pipeline::new(shape, Passes::Each(&self.passes[..count]), Seconds::ZERO)
        }
    }
}

/// Uneven stages, borders and micro-batches, with sends that block or do not.
fn any_world() -> impl Strategy<Value = World> {
    let pass = (seconds(), seconds(), seconds(), 0.0..0.5).prop_map(|(f, b, w, hidden)| Pass {
        forward: Seconds::new(f),
        backward: Seconds::new(b),
        weight: Seconds::new(w),
        hidden: Seconds::new(hidden * f.min(b)),
    });
    let size = (0.2..3.0, 0.2..3.0).prop_map(|(forward, backward)| Size { forward, backward });
    let sizes = prop_oneof![Just(Vec::new()), vec(size, MICRO_BATCHES)];
    let hops = vec(
        prop_oneof![Just(0.0), 0.0..2.0].prop_map(Seconds::new),
        PARTS,
    );
    let sends = prop_oneof![Just(Sends::Asynchronous), Just(Sends::Blocking)];
    (vec(pass, PARTS), hops, sizes, sends, 0.0..2.0).prop_map(
        |(passes, hops, sizes, sends, feedback)| World {
            passes,
            hops,
            sizes,
            sends,
            feedback,
        },
    )
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

fn step(kind: Schedule, pipeline: &Pipeline<'_>, micro_batches: u32) -> f64 {
    schedule::recurrence(kind, pipeline, micro_batches, &mut Scratch::new()).value()
}

/// Operations that a stage and micro-batch must go through, with the micro-batches of each.
fn results(
    kind: Schedule,
    shape: PipelineShape,
    run: &Run,
) -> BTreeMap<(Work, u32, u32), (u32, f64, f64)> {
    let mut results = BTreeMap::new();
    for (device, (order, spans)) in (0_u32..).zip(run.orders.iter().zip(&run.spans)) {
        for (operation, span) in order.iter().zip(spans) {
            for m in operation.micro_batch..operation.micro_batch + operation.span {
                let key = (operation.work, operation.stage, m);
                let before = results.insert(key, (device, span[0], span[1]));
                assert!(before.is_none(), "{kind:?}: {operation} twice");
                assert_eq!(
                    kind.rule().device(shape, operation.stage, m),
                    device,
                    "{operation}"
                );
            }
        }
    }
    results
}

/// True where an operation is the last use of a stage's activations of a micro-batch.
fn frees(operation: &Operation, gradient: Gradient, count: u32) -> bool {
    match operation.work {
        Work::Forward | Work::Input => false,
        Work::Backward | Work::Weight => true,
        Work::Local(offset) => match gradient {
            Gradient::Window(window) => offset == (window - 1).min(count - 1 - operation.stage),
            _ => true,
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_recurrence_is_the_event_simulation(
        (kind, shape, micro_batches) in runnable(), world in any_world(),
    ) {
        let pipeline = world.pipeline(kind, shape);
        let witness = schedule::simulate(kind, &pipeline, micro_batches);
        let witness = witness.expect("an order that runs").makespan();
        let run = schedule::run(kind, &pipeline, micro_batches).expect("the same order");
        prop_assert!(close(run.makespan.value(), witness), "{:?} is not {witness}", run.makespan);
        let found = step(kind, &pipeline, micro_batches);
        prop_assert!(close(found, witness), "{kind:?}: {found} is not {witness}");
    }

    #[test]
    fn the_recurrence_of_plain_stages_is_the_event_simulation(
        (kind, shape, micro_batches) in runnable(), world in any_world(), hop in 0.0..2.0,
    ) {
        let count = kind.rule().count(shape) as usize;
        let passes = Passes::Each(&world.passes[..count]);
        let pipeline = Pipeline::new(shape, passes, Seconds::new(hop));
        let witness = schedule::simulate(kind, &pipeline, micro_batches).expect("an order that runs");
        let found = step(kind, &pipeline, micro_batches);
        prop_assert!(close(found, witness.makespan()), "{kind:?}: {found} is not {witness:?}");
    }

    #[test]
    fn no_step_beats_its_bound(
        (kind, shape, micro_batches) in runnable(), world in any_world(),
    ) {
        let pipeline = world.pipeline(kind, shape);
        let bound = schedule::bound(kind, &pipeline, micro_batches);
        let found = step(kind, &pipeline, micro_batches);
        prop_assert!(bound.time.value() <= found * (1.0 + 1e-9) + 1e-9, "{bound:?} over {found}");
        prop_assert!(!bound.exact || close(bound.time.value(), found), "{bound:?} is not {found}");
    }

    #[test]
    fn the_bound_is_exact_on_uniform_stages(
        (kind, shape, micro_batches) in runnable(), f in 0.1..5.0, b in 0.1..5.0,
    ) {
        // schedules that split the backward pass are published for three equal passes
        let splits = kind.rule().splits();
        let pass = Pass {
            forward: Seconds::new(f),
            backward: Seconds::new(if splits { f } else { b }),
            weight: Seconds::new(if splits { f } else { 0.0 }),
            hidden: Seconds::ZERO,
        };
        let passes = vec![pass; PARTS];
        let count = kind.rule().count(shape) as usize;
        let pipeline = Pipeline::new(shape, Passes::Each(&passes[..count]), Seconds::ZERO);
        let bound = schedule::bound(kind, &pipeline, micro_batches);
        let found = step(kind, &pipeline, micro_batches);
        prop_assert!(close(bound.time.value(), found), "{kind:?} {shape:?}: {bound:?}, not {found}");
    }

    #[test]
    fn a_bound_said_to_be_exact_is_the_step(
        (kind, shape, micro_batches) in runnable(), f in 0.1..5.0, b in 0.1..5.0, w in 0.1..5.0,
    ) {
        let pass = Pass {
            forward: Seconds::new(f),
            backward: Seconds::new(b),
            weight: Seconds::new(w),
            hidden: Seconds::ZERO,
        };
        let passes = vec![pass; kind.rule().count(shape) as usize];
        let pipeline = Pipeline::new(shape, Passes::Each(&passes), Seconds::ZERO);
        let bound = schedule::bound(kind, &pipeline, micro_batches);
        let found = step(kind, &pipeline, micro_batches);
        prop_assert!(bound.time.value() <= found * (1.0 + 1e-9), "{bound:?} over {found}");
        prop_assert!(!bound.exact || close(bound.time.value(), found), "{bound:?} is not {found}");
    }

    #[test]
    fn every_pass_runs_once_in_order_and_alone_on_its_device(
        (kind, shape, micro_batches) in runnable(), world in any_world(),
    ) {
        let pipeline = world.pipeline(kind, shape);
        let rule = kind.rule();
        let (count, gradient) = (rule.count(shape), rule.gradient(shape));
        let run = schedule::run(kind, &pipeline, micro_batches).expect("runs");
        let results = results(kind, shape, &run);
        for m in 0..rule.executed(shape, micro_batches) {
            for stage in 0..count {
                let forward = results[&(Work::Forward, stage, m)];
                if stage > 0 {
                    prop_assert!(forward.1 >= results[&(Work::Forward, stage - 1, m)].2 - 1e-9);
                }
                let whole = results.get(&(Work::Backward, stage, m));
                let input = results.get(&(Work::Input, stage, m));
                if let Gradient::Window(window) = gradient {
                    for offset in 0..window.min(count - stage) {
                        prop_assert!(results[&(Work::Local(offset), stage, m)].1 >= forward.2 - 1e-9);
                    }
                } else {
                    prop_assert!(whole.is_some() != input.is_some());
                    let weight = results.get(&(Work::Weight, stage, m));
                    prop_assert_eq!(weight.is_some(), input.is_some());
                    let first = *whole.or(input).unwrap();
                    prop_assert!(first.1 >= forward.2 - 1e-9);
                    prop_assert!(weight.is_none_or(|w| w.1 >= first.2 - 1e-9));
                }
            }
        }
        for (order, spans) in run.orders.iter().zip(&run.spans) {
            for index in 1..spans.len() {
                let together = order[index - 1].paired;
                prop_assert!(together || spans[index][0] >= spans[index - 1][1] - 1e-9);
            }
        }
    }

    #[test]
    fn the_ends_of_the_model_lie_where_is_said((kind, shape, micro_batches) in runnable()) {
        let rule = kind.rule();
        let count = rule.count(shape);
        for device in 0..shape.stages {
            let order = schedule::order(kind, device, shape, micro_batches);
            let own: std::collections::BTreeSet<u32> = order.iter().map(|o| o.stage).collect();
            let first = u32::from(own.contains(&0));
            let last = u32::from(count > 1 && own.contains(&(count - 1)));
            let all = u32::try_from(own.len()).unwrap();
            let enough = micro_batches >= shape.chunks;
            prop_assert!(!enough || rule.held(shape, device) == [first, all - first - last, last]);
        }
    }

    #[test]
    fn a_device_holds_what_is_said((kind, shape, micro_batches) in runnable()) {
        let rule = kind.rule();
        let (count, gradient) = (rule.count(shape), rule.gradient(shape));
        for device in 0..shape.stages {
            let (mut held, mut most) = (0_i64, 0);
            for operation in schedule::order(kind, device, shape, micro_batches) {
                let span = i64::from(operation.span);
                if operation.work == Work::Forward {
                    held += span;
                } else if frees(&operation, gradient, count) {
                    held -= span;
                }
                prop_assert!(held >= 0);
                // two that run together hold both
                most = most.max(held);
            }
            prop_assert_eq!(held, 0);
            let said = schedule::in_flight(kind, device, shape, micro_batches);
            prop_assert_eq!(i64::from(said), most, "{:?} {:?} {}", kind, shape, device);
        }
    }

    #[test]
    fn a_step_is_no_shorter_than_any_device_s_work_or_any_micro_batch_s_way(
        (kind, shape, micro_batches) in runnable(), world in any_world(),
    ) {
        let pipeline = world.pipeline(kind, shape);
        let run = schedule::run(kind, &pipeline, micro_batches).expect("runs");
        let step = run.makespan.value();
        for spans in &run.spans {
            let mut busy_until = 0.0_f64;
            let mut work = 0.0;
            for span in spans {
                // two that run together share their time
                work += (span[1] - span[0].max(busy_until)).max(0.0);
                busy_until = busy_until.max(span[1]);
            }
            prop_assert!(step >= work - 1e-9);
        }
        let count = kind.rule().count(shape) as usize;
        let forward = world.passes[..count].iter().map(|pass| pass.forward.value());
        let shortest = world.sizes.iter().map(|s| s.forward).fold(f64::INFINITY, f64::min);
        let shortest = if world.sizes.is_empty() { 1.0 } else { shortest };
        prop_assert!(step >= forward.sum::<f64>() * shortest - 1e-9);
    }

    #[test]
    fn a_slower_stage_or_border_never_ends_the_step_sooner(
        (kind, shape, micro_batches) in runnable(), mut world in any_world(),
        slower in 0..PARTS, by in seconds(),
    ) {
        let before = step(kind, &world.pipeline(kind, shape), micro_batches);
        let at = slower % kind.rule().count(shape) as usize;
        world.passes[at].forward += Seconds::new(by);
        world.passes[at].weight += Seconds::new(by / 2.0);
        let after = step(kind, &world.pipeline(kind, shape), micro_batches);
        prop_assert!(after >= before - 1e-9 * before);
        world.hops[at] += Seconds::new(by);
        let later = step(kind, &world.pipeline(kind, shape), micro_batches);
        prop_assert!(later >= after - 1e-9 * after);
    }

    #[test]
    fn the_number_of_a_device_does_not_matter(
        (kind, shape, micro_batches) in runnable(), world in any_world(), turn in 0..8_usize,
    ) {
        let pipeline = world.pipeline(kind, shape);
        let rule = kind.rule();
        let run = schedule::run(kind, &pipeline, micro_batches).expect("runs");
        let mut orders = run.orders.clone();
        orders.rotate_left(turn % shape.stages as usize);
        let extent = (rule.count(shape), rule.executed(shape, micro_batches));
        let again = schedule::run_order(&orders, extent, rule.gradient(shape), &pipeline);
        prop_assert_eq!(again.expect("the same order").makespan, run.makespan);
    }
}

/// The bound of stages uneven by 30% with four times as many micro-batches as stages or more stays
/// within 5% of the step, by the median.
#[test]
fn bounds_are_close_where_stages_are_uneven() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let share = vec(0.7..1.3_f64, 2 * PARTS);
    for kind in Schedule::ALL {
        let mut gaps = Vec::new();
        for round in 0..60_u32 {
            let stages = 2 * (1 + round % 4);
            let drawn = PipelineShape {
                window: 1 + round / 4 % 4,
                ..PipelineShape::new(stages, kind.rule().chunks())
            };
            let (_, shape, micro_batches) = nearest(kind, drawn, 4 * stages + 2 * (round % 8));
            let share = share.new_tree(&mut runner).unwrap().current();
            let splits = kind.rule().splits();
            let passes: Vec<Pass> = share
                .iter()
                .map(|s| Pass {
                    forward: Seconds::new(*s),
                    backward: Seconds::new(if splits { *s } else { 2.0 * s }),
                    weight: Seconds::new(if splits { *s } else { 0.0 }),
                    hidden: Seconds::ZERO,
                })
                .collect();
            let count = kind.rule().count(shape) as usize;
            let pipeline = Pipeline::new(shape, Passes::Each(&passes[..count]), Seconds::ZERO);
            let bound = schedule::bound(kind, &pipeline, micro_batches).time.value();
            gaps.push(1.0 - bound / step(kind, &pipeline, micro_batches));
        }
        gaps.sort_by(f64::total_cmp);
        let median = gaps[gaps.len() / 2];
        assert!(median <= 0.05, "{kind:?}: {median}");
    }
}

#[test]
fn sends_cost_more_than_the_textbook_says() {
    // 8 stages, 64 micro-batches, passes of 1 and 2 s, sends of 0.1 s: (m + p - 1)(f + b) + 2 (p - 1) c
    // is 214.4 s, but a send delays the next round too
    let passes = vec![Pass::new(Seconds::new(1.0), Seconds::new(2.0)); 8];
    let pipeline = Pipeline::new(
        PipelineShape::new(8, 1),
        Passes::Each(&passes),
        Seconds::new(0.1),
    );
    let found = step(Schedule::OneForwardOneBackward, &pipeline, 64);
    assert!(close(found, 225.4), "{found}");
}

#[test]
fn an_order_that_cannot_run_is_refused_with_the_rule() {
    let passes = vec![Pass::new(Seconds::new(1.0), Seconds::new(1.0)); 2];
    let pipeline = Pipeline::new(
        PipelineShape::new(2, 1),
        Passes::Each(&passes),
        Seconds::ZERO,
    );
    let of = |work, stage| Operation::new(work, stage, 0);
    let refused = |orders: &[Vec<Operation>]| {
        let run = schedule::run_order(orders, (2, 1), Gradient::Chain, &pipeline);
        run.expect_err("an order that cannot run").to_string()
    };
    let (f, b) = (Work::Forward, Work::Backward);
    let circle = refused(&[vec![of(b, 0), of(f, 0)], vec![of(f, 1), of(b, 1)]]);
    assert!(
        circle.contains("device 0 stops at its operation 0"),
        "{circle}"
    );
    let missing = refused(&[vec![of(f, 0), of(b, 0)], vec![of(f, 1)]]);
    assert!(
        missing.contains("backward of micro-batch 0 on stage 1, which no device"),
        "{missing}"
    );
    let twice = refused(&[vec![of(f, 0), of(f, 0)], vec![of(f, 1)]]);
    assert!(twice.contains("must stand once"), "{twice}");
    let absent = refused(&[vec![of(f, 0)], vec![]]);
    assert!(
        absent.contains("no device runs the forward pass"),
        "{absent}"
    );
    let outside = refused(&[vec![of(f, 0), of(f, 5)], vec![of(f, 1)]]);
    assert!(outside.contains("stages below 2"), "{outside}");
}

//! Do the schedules' closed forms, recurrences and orders agree with one another on any stage times?

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::schedule::{
    self, Makespan, Pass, Passes, Pipeline, PipelineShape, Schedule, Scratch, Stages, Work,
};
use scalewright::units::Seconds;

const KINDS: [Schedule; 3] = [
    Schedule::GPipe,
    Schedule::OneForwardOneBackward,
    Schedule::Interleaved,
];

fn seconds() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..1.0, 0.0..20.0]
}

fn pass(forward: f64, backward: f64) -> Pass {
    Pass::new(Seconds::new(forward), Seconds::new(backward))
}

fn any_pass() -> impl Strategy<Value = Pass> {
    (seconds(), seconds()).prop_map(|(forward, backward)| pass(forward, backward))
}

fn hop() -> impl Strategy<Value = f64> {
    prop_oneof![2 => Just(0.0), 1 => 0.0..2.0]
}

fn any_shape() -> impl Strategy<Value = PipelineShape> {
    (1..9_u32, 1..5_u32).prop_map(|(stages, chunks)| PipelineShape::new(stages, chunks))
}

/// Stages whose ends may be lighter or heavier than the rest.
fn any_stages() -> impl Strategy<Value = Stages> {
    (any_shape(), any_pass(), any_pass(), any_pass(), hop()).prop_map(
        |(shape, first, middle, last, hop)| Stages {
            count: shape.stages,
            chunks: shape.chunks,
            first,
            middle,
            last,
            hop: Seconds::new(hop),
        },
    )
}

/// What training looks like: alike layers, a head on top of the last, an embedding that costs less
/// than the head, hops shorter than a pass.
fn training_stages() -> impl Strategy<Value = Stages> {
    let parts = (any_pass(), any_pass(), any_pass());
    (any_shape(), parts, 0.0..=1.0, any::<bool>()).prop_map(
        |(shape, (embedding, middle, head), share, alone)| {
            let add = |a: Pass, b: Pass| Pass::new(a.forward + b.forward, a.backward + b.backward);
            let (first, last) = if alone {
                (embedding, add(embedding, add(middle, head)))
            } else {
                (add(middle, embedding), add(middle, add(embedding, head)))
            };
            Stages {
                count: shape.stages,
                chunks: shape.chunks,
                first,
                middle,
                last,
                hop: middle.forward.min(middle.backward) * share,
            }
        },
    )
}

fn uniform(shape: PipelineShape, every: Pass) -> Stages {
    Stages {
        count: shape.stages,
        chunks: shape.chunks,
        first: every,
        middle: every,
        last: every,
        hop: Seconds::ZERO,
    }
}

/// Shape as `kind` reads it.
fn read_by(kind: Schedule, shape: PipelineShape) -> PipelineShape {
    match kind {
        Schedule::Interleaved => shape,
        _ => PipelineShape { chunks: 1, ..shape },
    }
}

fn recurrence(kind: Schedule, stages: &Stages, micro_batches: u32) -> Seconds {
    let chunks = read_by(kind, stages.shape()).chunks;
    let mut passes = Vec::new();
    let pipeline = Stages { chunks, ..*stages }.expand(&mut passes);
    schedule::recurrence(kind, &pipeline, micro_batches, &mut Scratch::new())
}

/// Passes for every virtual stage of a shape of up to 8 x 4.
fn any_passes() -> impl Strategy<Value = Vec<Pass>> {
    vec(any_pass(), 32)
}

fn pipeline(kind: Schedule, shape: PipelineShape, passes: &[Pass], hop: f64) -> Pipeline<'_> {
    let shape = read_by(kind, shape);
    let passes = Passes::Each(&passes[..shape.parts() as usize]);
    Pipeline::new(shape, passes, Seconds::new(hop))
}

fn time(kind: Schedule, pipeline: &Pipeline<'_>, micro_batches: u32) -> Seconds {
    schedule::recurrence(kind, pipeline, micro_batches, &mut Scratch::new())
}

/// The witness: the event simulation of the order.
fn simulated(kind: Schedule, pipeline: &Pipeline<'_>, micro_batches: u32) -> f64 {
    let line = schedule::simulate(kind, pipeline, micro_batches);
    line.map_or(f64::NAN, |line| line.makespan()) // NaN: stuck
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

fn check_closed_form(kind: Schedule, stages: &Stages, micro_batches: u32) -> Makespan {
    let closed = schedule::makespan(kind, stages, micro_batches);
    let (bound, exact) = (
        closed.time.value(),
        recurrence(kind, stages, micro_batches).value(),
    );
    assert!(
        bound <= exact * (1.0 + 1e-9) + 1e-9,
        "{kind:?}: bound {bound} over {exact}"
    );
    if closed.exact {
        assert!(close(bound, exact), "{kind:?}: {bound} is not {exact}");
    }
    let step = schedule::step_time(kind, stages, micro_batches, &mut Scratch::new());
    assert!(close(step.value(), exact), "{kind:?}: step {step:?}");
    assert_eq!(
        schedule::lower_bound(kind, stages, micro_batches),
        closed.time
    );
    closed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_closed_form_is_a_bound_on_any_ends(stages in any_stages(), micro_batches in 1..50_u32) {
        for kind in KINDS {
            let closed = check_closed_form(kind, &stages, micro_batches);
            let plain = stages.hop == Seconds::ZERO && kind != Schedule::Interleaved;
            prop_assert!(closed.exact || !plain && kind != Schedule::GPipe);
        }
    }

    #[test]
    fn the_closed_form_is_exact_on_training_stages(
        stages in training_stages(), micro_batches in 1..50_u32,
    ) {
        let heavy_ends = stages.first.forward >= stages.middle.forward
            && stages.first.backward >= stages.middle.backward;
        for kind in KINDS {
            let made = check_closed_form(kind, &stages, micro_batches);
            let one_chunk = kind == Schedule::Interleaved && stages.chunks == 1;
            let hops = kind == Schedule::OneForwardOneBackward || one_chunk;
            prop_assert!(made.exact || hops && !heavy_ends, "{kind:?}");
        }
        let blocking = Stages { hop: Seconds::ZERO, ..stages };
        for kind in KINDS {
            prop_assert!(check_closed_form(kind, &blocking, micro_batches).exact);
        }
    }

    #[test]
    fn the_recurrence_is_the_event_simulation(
        shape in any_shape(), passes in any_passes(), hop in hop(), micro_batches in 1..20_u32,
    ) {
        for kind in KINDS {
            let pipeline = pipeline(kind, shape, &passes, hop);
            let expected = simulated(kind, &pipeline, micro_batches);
            let found = time(kind, &pipeline, micro_batches).value();
            prop_assert!(close(found, expected), "{kind:?}: {found} is not {expected}");
        }
    }

    #[test]
    fn a_slower_pass_or_hop_never_ends_the_step_sooner(
        shape in any_shape(), mut passes in any_passes(), hop in hop(), micro_batches in 1..20_u32,
        slower in 0..32_usize, by in seconds(),
    ) {
        for kind in KINDS {
            let before = time(kind, &pipeline(kind, shape, &passes, hop), micro_batches);
            let later = time(kind, &pipeline(kind, shape, &passes, hop + by), micro_batches);
            prop_assert!(later >= before);
            let at = slower % (shape.stages * shape.chunks) as usize;
            passes[at].forward += Seconds::new(by);
            passes[at].backward += Seconds::new(by / 2.0);
            let after = time(kind, &pipeline(kind, shape, &passes, hop), micro_batches);
            prop_assert!(after.value() >= before.value() * (1.0 - 1e-12));
        }
    }

    #[test]
    fn time_has_no_scale(stages in any_stages(), micro_batches in 1..50_u32, power in -20..20_i32) {
        let factor = 2.0_f64.powi(power); // a power of two loses no digit
        let scale = |p: Pass| Pass::new(p.forward * factor, p.backward * factor);
        let scaled = Stages {
            first: scale(stages.first),
            middle: scale(stages.middle),
            last: scale(stages.last),
            hop: stages.hop * factor,
            ..stages
        };
        let mut scratch = Scratch::new();
        for kind in KINDS {
            let plain = schedule::step_time(kind, &stages, micro_batches, &mut scratch);
            let other = schedule::step_time(kind, &scaled, micro_batches, &mut scratch);
            prop_assert_eq!(plain * factor, other);
        }
    }

    #[test]
    fn uniform_stages_idle_as_published(
        shape in any_shape(), forward in 0.1..5.0, backward in 0.1..5.0, rounds in 1..5_u32,
    ) {
        // Narayanan et al. 2021, sections 2.2.1 and 2.2.2: (p - 1) / m and (p - 1) / (v m)
        let stages = uniform(shape, pass(forward, backward));
        let micro_batches = rounds * shape.stages;
        let mut found = Vec::new();
        for kind in KINDS {
            let chunks = f64::from(read_by(kind, shape).chunks);
            let ideal = chunks * f64::from(micro_batches) * (forward + backward);
            let step = schedule::makespan(kind, &stages, micro_batches).time;
            let bubble = schedule::bubble(kind, &stages, micro_batches, step);
            let share = f64::from(shape.stages - 1) / (chunks * f64::from(micro_batches));
            prop_assert!(close(bubble.value() / ideal, share), "{kind:?}: {bubble:?}");
            found.push(step.value());
        }
        prop_assert!(close(found[0], found[1]));
    }

    #[test]
    fn a_stage_runs_everything_once_and_holds_what_is_said(
        shape in any_shape(), micro_batches in 1..40_u32,
    ) {
        for kind in KINDS {
            let shape = read_by(kind, shape);
            for stage in 0..shape.stages {
                let order = schedule::order(kind, stage, shape, micro_batches);
                let (mut open, mut most) = (Vec::new(), 0);
                for operation in &order {
                    let key = (operation.micro_batch, operation.stage);
                    if operation.work == Work::Forward {
                        open.push(key);
                    } else {
                        let at = open.iter().position(|o| *o == key);
                        prop_assert!(at.is_some(), "backward before its forward");
                        open.remove(at.unwrap());
                    }
                    most = most.max(open.len());
                }
                prop_assert!(open.is_empty());
                let said = schedule::in_flight(kind, stage, shape, micro_batches);
                prop_assert_eq!(said as usize, most);
                let whole = kind == Schedule::Interleaved && shape.chunks > 1;
                let run = if whole { micro_batches.next_multiple_of(shape.stages) } else { micro_batches };
                prop_assert_eq!(order.len(), (2 * run * shape.chunks) as usize);
            }
        }
    }
}

#[test]
fn interleaving_holds_the_published_surplus() {
    // Korthikanti et al. 2022, section 4.2.3: 1 + (p - 1) / (p v) times the L layers' activations
    let shape = PipelineShape::new(8, 3);
    let chunks = schedule::in_flight(Schedule::Interleaved, 0, shape, 64);
    let whole = schedule::in_flight(Schedule::OneForwardOneBackward, 0, shape, 64) * shape.chunks;
    assert!(close(
        f64::from(chunks) / f64::from(whole),
        1.0 + 7.0 / 24.0
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Very many micro-batches go on along the slope that the recurrence has settled to.
    #[test]
    fn a_long_step_is_as_long_as_its_recurrence(
        stages in any_stages(),
        micro_batches in 16_385..30_000_u32,
    ) {
        for kind in KINDS {
            let whole = recurrence(kind, &stages, micro_batches).value();
            let quick = schedule::step_time(kind, &stages, micro_batches, &mut Scratch::new());
            prop_assert!((quick.value() - whole).abs() <= 1e-3 * whole, "{kind:?}");
        }
    }
}

#[test]
fn the_longest_step_takes_no_longer_to_price() {
    let shape = PipelineShape::new(4, 3);
    let mut stages = uniform(shape, pass(1.0, 2.0));
    stages.first = pass(1.5, 2.0);
    let time = schedule::step_time(
        Schedule::Interleaved,
        &stages,
        u32::MAX,
        &mut Scratch::new(),
    );
    // the first stage is always busy: one pass of 3.5 s and two of 3 s for each micro-batch
    assert!((time.value() / (9.5 * f64::from(u32::MAX)) - 1.0).abs() < 1e-3);
}

#[test]
fn nothing_to_do_takes_no_time() {
    let shape = PipelineShape::new(4, 2);
    let stages = uniform(shape, pass(1.0, 2.0));
    for kind in KINDS {
        let time = schedule::step_time(kind, &stages, 0, &mut Scratch::new());
        assert_eq!(time, Seconds::ZERO);
        assert_eq!(schedule::in_flight(kind, 0, shape, 0), 0);
        assert!(schedule::order(kind, 0, shape, 0).is_empty());
    }
}

#[test]
fn one_stage_runs_without_a_bubble() {
    for chunks in [1, 3] {
        let shape = PipelineShape::new(1, chunks);
        let stages = uniform(shape, pass(1.0, 2.0));
        for kind in KINDS {
            let made = schedule::makespan(kind, &stages, 5);
            let work = 15.0 * f64::from(read_by(kind, shape).chunks);
            assert!(made.exact && close(made.time.value(), work), "{kind:?}");
        }
    }
}

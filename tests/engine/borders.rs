//! Do steps over borders of unlike hops last as long as their operations do, and are their closed forms no more?

use proptest::prelude::*;
use scalewright::schedule::{
    self, Borders, Hops, Pass, Passes, Pipeline, PipelineShape, Schedule, Scratch, Sends, Stages,
};
use scalewright::units::Seconds;

/// Schedules whose virtual stages go round the devices in one direction.
const KINDS: [Schedule; 8] = [
    Schedule::GPipe,
    Schedule::OneForwardOneBackward,
    Schedule::Interleaved,
    Schedule::BreadthFirst,
    Schedule::ZeroBubbleH1,
    Schedule::ZeroBubbleH2,
    Schedule::PipeDream,
    Schedule::PipeDream2Bw,
];

/// Stages in units within units, as many in each, with the hop out of each; the last is of all.
#[derive(Debug, Clone)]
struct Units(Vec<(u32, f64)>);

impl Units {
    fn stages(&self) -> u32 {
        self.0.iter().map(|unit| unit.0).product()
    }

    fn borders(&self, held: [f64; 2], apart: f64) -> Borders {
        let mut every = 1;
        let mut borders = Borders::new(held, apart);
        for &(members, seconds) in &self.0 {
            borders = borders.with_hop(every, seconds);
            every *= members;
        }
        borders
    }

    /// The hop behind a virtual stage, found by asking of each unit whether it holds both ends.
    fn hop(&self, stage: u32) -> f64 {
        let count = self.stages();
        let (from, to) = (stage % count, (stage + 1) % count);
        let mut inside = 1;
        for &(members, seconds) in &self.0 {
            inside *= members;
            if from / inside == to / inside {
                return seconds;
            }
        }
        f64::NAN
    }

    fn hops(&self, count: u32) -> Vec<Seconds> {
        (1..count)
            .map(|stage| Seconds::new(self.hop(stage - 1)))
            .collect()
    }
}

fn units() -> impl Strategy<Value = Units> {
    let hop = prop_oneof![Just(0.0), 0.0..1.0, 0.0..10.0];
    prop::collection::vec((2..4_u32, hop), 1..4).prop_map(Units)
}

fn seconds() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..1.0, 0.0..20.0]
}

fn any_pass() -> impl Strategy<Value = Pass> {
    (seconds(), seconds(), seconds()).prop_map(|(forward, backward, weight)| Pass {
        weight: Seconds::new(weight),
        ..Pass::new(Seconds::new(forward), Seconds::new(backward))
    })
}

fn any_stages(units: &Units) -> impl Strategy<Value = Stages> + use<> {
    let count = units.stages();
    (1..4_u32, any_pass(), any_pass(), any_pass()).prop_map(move |(chunks, first, middle, last)| {
        Stages {
            count,
            chunks,
            first,
            middle,
            last,
            hop: Seconds::ZERO,
        }
    })
}

fn world() -> impl Strategy<Value = (Units, Stages)> {
    units().prop_flat_map(|units| (Just(units.clone()), any_stages(&units)))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

/// Passes of all virtual stages as a schedule runs them.
fn passes(kind: Schedule, stages: &Stages) -> (PipelineShape, Vec<Pass>) {
    let chunks = if matches!(kind, Schedule::Interleaved | Schedule::BreadthFirst) {
        stages.chunks
    } else {
        1
    };
    let shape = PipelineShape::new(stages.count, chunks);
    let read = Stages { chunks, ..*stages };
    let passes = (0..u64::from(shape.parts())).map(|stage| read.pass(stage));
    let splits = kind.rule().splits();
    let whole = |pass: Pass| Pass {
        backward: pass.backward + pass.weight,
        weight: Seconds::ZERO,
        ..pass
    };
    (
        shape,
        passes
            .map(|pass| if splits { pass } else { whole(pass) })
            .collect(),
    )
}

/// The witness: events of the same order on borders of which each has its own hop.
fn simulated(
    kind: Schedule,
    units: &Units,
    stages: &Stages,
    sends: Sends,
    count: u32,
) -> Option<f64> {
    let (shape, passes) = passes(kind, stages);
    kind.rule().check(shape, count).ok()?;
    let hops = units.hops(shape.parts());
    let pipeline = Pipeline {
        hops: Hops::Each(&hops),
        sends,
        ..Pipeline::new(shape, Passes::Each(&passes), Seconds::ZERO)
    };
    let run = schedule::simulate(kind, &pipeline, count).ok()?;
    Some(run.makespan())
}

/// Seconds by the recurrence over borders.
fn found(kind: Schedule, stages: &Stages, borders: &Borders, count: u32) -> f64 {
    let (shape, _) = passes(kind, stages);
    let read = Stages {
        chunks: shape.chunks,
        ..*stages
    };
    schedule::step_time_over(kind, &read, borders, count, &mut Scratch::new()).value()
}

fn plain(stages: &Stages) -> Stages<f64> {
    let plain = |pass: Pass| Pass {
        forward: pass.forward.value(),
        backward: pass.backward.value(),
        weight: pass.weight.value(),
        hidden: 0.0,
    };
    Stages {
        count: stages.count,
        chunks: stages.chunks,
        first: plain(stages.first),
        middle: plain(stages.middle),
        last: plain(stages.last),
        hop: stages.hop,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_border_crosses_the_outermost_unit_that_ends_there(units in units(), stage in 0..100_u32) {
        let borders = units.borders([1.0; 2], 0.0);
        prop_assert!(close(borders.at(stage), units.hop(stage)));
        let most = (1..units.stages()).map(|s| units.hop(s - 1)).fold(0.0, f64::max);
        prop_assert!(close(borders.slowest(), most));
        let unlike = (1..units.stages()).any(|s| !close(units.hop(s - 1), units.hop(0)));
        prop_assert_eq!(borders.unlike(), unlike);
        let pairs = (2..units.stages()).map(|s| units.hop(s - 1) + units.hop(s - 2));
        let [down, up] = borders.busiest(units.stages());
        prop_assert!(close(down + up, pairs.fold(0.0, f64::max)));
    }

    /// Senders that wait and receivers that wait, each against the events of the same order.
    #[test]
    fn the_recurrence_over_unlike_hops_is_the_event_simulation(
        (units, stages) in world(), blocking in any::<bool>(), count in 1..20_u32,
    ) {
        let (sends, borders) = if blocking {
            (Sends::Blocking, units.borders([1.0; 2], 0.0))
        } else {
            (Sends::Asynchronous, units.borders([0.0; 2], 1.0))
        };
        for kind in KINDS {
            if !kind.rule().flushes() || kind.rule().bypasses() {
                continue; // one step of many
            }
            let Some(expected) = simulated(kind, &units, &stages, sends, count) else {
                continue;
            };
            let found = found(kind, &stages, &borders, count);
            prop_assert!(close(found, expected), "{kind:?}: {found} is not {expected}");
        }
    }

    /// The closed form never says more than the recurrence, and all of it where it says that it is exact.
    #[test]
    fn the_closed_form_over_unlike_hops_is_a_bound(
        (units, stages) in world(),
        held in prop_oneof![Just([1.0; 2]), Just([1.0, 0.0]), Just([0.1; 2])],
        apart in any::<bool>(),
        count in 1..40_u32,
    ) {
        let borders = units.borders(held, if apart { 1.0 } else { 0.0 });
        for kind in KINDS {
            let (shape, _) = passes(kind, &stages);
            // an endless step's recurrence is a slope, which the first micro-batches bend
            if !kind.rule().flushes() || kind.rule().check(shape, count).is_err() {
                continue;
            }
            let read = Stages { chunks: shape.chunks, ..stages };
            let closed = schedule::closed_forms_over(kind, &plain(&read), &borders, count);
            let exact = found(kind, &stages, &borders, count);
            prop_assert!(closed.time <= exact * (1.0 + 1e-9) + 1e-9, "{kind:?}: {closed:?} over {exact}");
            prop_assert!(closed.exact < 1.0 || close(closed.time, exact), "{kind:?}: {closed:?} {exact}");
            let settled = kind == Schedule::GPipe || kind == Schedule::OneForwardOneBackward && !apart;
            prop_assert_eq!(closed.exact >= 1.0, settled, "{:?}", kind);
        }
    }

    /// Alike hops in several units are hops of one kind.
    #[test]
    fn alike_hops_cost_what_one_hop_does((units, stages) in world(), hop in 0.0..5.0, count in 1..20_u32) {
        let alike = Units(units.0.iter().map(|unit| (unit.0, hop)).collect());
        let borders = alike.borders([1.0; 2], 0.0);
        prop_assert!(!borders.unlike());
        let add = |pass: Pass, down: f64, up: f64| Pass {
            forward: pass.forward + Seconds::new(down),
            backward: pass.backward + Seconds::new(up),
            ..pass
        };
        let held = Stages {
            first: add(stages.first, hop, 0.0),
            middle: add(stages.middle, hop, hop),
            last: add(stages.last, 0.0, hop),
            ..stages
        };
        for kind in [Schedule::GPipe, Schedule::OneForwardOneBackward, Schedule::Interleaved] {
            let mut scratch = Scratch::new();
            let one = schedule::step_time(kind, &held, count, &mut scratch).value();
            let each = schedule::step_time_over(kind, &stages, &borders, count, &mut scratch).value();
            prop_assert!(close(one, each), "{kind:?}: {one} is not {each}");
        }
    }
}

/// Two stages to a node: a micro-batch of many stages meets the slow hop at every other border, and 1F1B's
/// steady state at every one.
#[test]
fn a_pipeline_fills_over_all_hops_and_runs_at_the_slowest() {
    let pass = Pass::new(Seconds::new(1.0), Seconds::new(2.0));
    let stages = Stages {
        count: 8,
        chunks: 1,
        first: pass,
        middle: pass,
        last: pass,
        hop: Seconds::ZERO,
    };
    let borders = Borders::new([1.0; 2], 0.0)
        .with_hop(1, 0.1)
        .with_hop(2, 0.5);
    let time = |count| {
        let closed = schedule::closed_forms_over(Schedule::GPipe, &plain(&stages), &borders, count);
        closed.time
    };
    // eight passes each way, four hops inside a node and three between nodes
    assert!(close(time(1), 8.0 * 3.0 + 2.0 * (4.0 * 0.1 + 3.0 * 0.5)));
    assert!(close(time(2) - time(1), 3.0 + 2.0 * 0.5));
}

/// The bound of an interleaved pipeline is near where layers are alike and hops shorter than a pass.
#[test]
fn the_interleaved_bound_is_near() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut gaps = Vec::new();
    for _ in 0..400 {
        let Ok(drawn) = (world(), 1..40_u32).new_tree(&mut runner) else {
            continue;
        };
        let ((units, mut stages), count) = drawn.current();
        // training: alike layers, ends that add to them
        let add = |a: Pass, b: Pass| Pass {
            weight: Seconds::ZERO,
            ..Pass::new(a.forward + b.forward * 0.1, a.backward + b.backward * 0.1)
        };
        stages.middle.forward += Seconds::new(1.0);
        stages.middle.backward += Seconds::new(1.0);
        let units = Units(units.0.iter().map(|unit| (unit.0, unit.1 / 10.0)).collect());
        let base = stages.middle;
        (stages.first, stages.last) = (add(base, stages.first), add(base, stages.last));
        stages.middle.weight = Seconds::ZERO;
        stages.chunks = stages.chunks.max(2);
        let borders = units.borders([1.0; 2], 0.0);
        let closed =
            schedule::closed_forms_over(Schedule::Interleaved, &plain(&stages), &borders, count);
        let exact = found(Schedule::Interleaved, &stages, &borders, count);
        if exact > 0.0 {
            gaps.push(1.0 - closed.time / exact);
        }
    }
    gaps.sort_by(f64::total_cmp);
    let (half, most) = (gaps[gaps.len() / 2], gaps[gaps.len() * 9 / 10]);
    assert!(
        half < 1e-3 && most < 0.05,
        "{half} {most} {:?}",
        gaps.last()
    );
}

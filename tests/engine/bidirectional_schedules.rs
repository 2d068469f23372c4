//! Do schedules that run pipelines both ways idle and hold as published?

use scalewright::schedule::{
    self, Pass, Passes, Pipeline, PipelineShape, Run, Schedule, Scratch, Stages, Work,
};
use scalewright::units::Seconds;

const CHIMERA: [Schedule; 3] = [
    Schedule::Chimera,
    Schedule::ChimeraForwardDoubling,
    Schedule::ChimeraBackwardHalving,
];

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

/// Forward, input gradients, weight gradients, what a pair saves.
fn pass([forward, backward, weight, hidden]: [f64; 4]) -> Pass {
    Pass {
        forward: Seconds::new(forward),
        backward: Seconds::new(backward),
        weight: Seconds::new(weight),
        hidden: Seconds::new(hidden),
    }
}

/// A step of alike stages without hops, with its bound, which must be exact.
fn run(kind: Schedule, shape: PipelineShape, micro_batches: u32, every: [f64; 4]) -> Run {
    let passes = vec![pass(every); kind.rule().count(shape) as usize];
    let pipeline = Pipeline::new(shape, Passes::Each(&passes), Seconds::ZERO);
    let run = schedule::run(kind, &pipeline, micro_batches).expect("runs");
    let bound = schedule::bound(kind, &pipeline, micro_batches);
    let (found, said) = (run.makespan.value(), bound.time.value());
    assert!(bound.exact, "{kind:?} {shape:?} {micro_batches}");
    assert!(
        close(found, said),
        "{kind:?} {shape:?} {micro_batches} {every:?}: {said}, not {found}"
    );
    run
}

fn step(kind: Schedule, shape: PipelineShape, micro_batches: u32, every: [f64; 4]) -> f64 {
    run(kind, shape, micro_batches, every).makespan.value()
}

/// Shapes of an even number of stages and every number of pipelines over them.
fn shapes() -> impl Iterator<Item = (PipelineShape, u32)> {
    let stages = [2_u32, 4, 6, 8, 12, 16].into_iter();
    stages.flat_map(|stages| {
        let groups = (1..=stages / 2).filter(move |f| (stages / 2).is_multiple_of(*f));
        groups.map(move |f| (PipelineShape::new(stages, 2 * f), f))
    })
}

#[test]
fn chimera_idles_half_as_long_as_1f1b() {
    // Li & Hoefler 2021, tables 2 and 3: (D - 2 f) / (2 f N + D - 2 f) of the step where forward and
    // backward passes take the same time, N a multiple of D
    for (shape, f) in shapes() {
        let d = shape.stages;
        for n in [d, 2 * d, 3 * d] {
            let found = step(Schedule::Chimera, shape, n, [1.0, 1.0, 0.0, 0.0]);
            let share = f64::from(d - 2 * f) / f64::from(2 * f * n + d - 2 * f);
            let idle = found - f64::from(2 * n);
            assert!(close(idle / found, share), "{shape:?} {n}: {found}");
            let one = PipelineShape::new(d, 1);
            let other = step(
                Schedule::OneForwardOneBackward,
                one,
                n,
                [1.0, 1.0, 0.0, 0.0],
            );
            let bubbles = f64::from(d / f - 2) / f64::from(2 * (d - 1));
            assert!(close(idle / (other - f64::from(2 * n)), bubbles));
        }
    }
}

#[test]
fn chimera_s_critical_path_is_as_published() {
    // Li & Hoefler 2021, section 3.4: 6 forward and 10 backward passes for D = N = 6
    for (forward, backward) in [(1.0, 2.0), (1.0, 1.0), (0.7, 3.1)] {
        let found = step(
            Schedule::Chimera,
            PipelineShape::new(6, 2),
            6,
            [forward, backward, 0.0, 0.0],
        );
        assert!(close(found, 6.0 * forward + 10.0 * backward), "{found}");
    }
}

#[test]
fn backward_passes_twice_as_long_leave_gaps_that_doubling_fills() {
    // section 3.5: (D - 2) / (3 N / 2 + D - 2) of the step, for direct concatenation of one unit only
    for (shape, f) in shapes() {
        let d = shape.stages;
        let reach = f64::from(d / f);
        for units in 1..4 {
            let n = f64::from(2 * d * units);
            let found = step(
                Schedule::ChimeraForwardDoubling,
                shape,
                2 * d * units,
                [1.0, 2.0, 0.0, 0.0],
            );
            let share = (reach - 2.0) / (1.5 * n + reach - 2.0);
            assert!(close(1.0 - 3.0 * n / found, share), "{shape:?}: {found}");
            let n = f64::from(d * units);
            let direct = step(Schedule::Chimera, shape, d * units, [1.0, 2.0, 0.0, 0.0]);
            let gaps = f64::from(units + 1) * (reach - 2.0);
            assert!(close(direct, 3.0 * n + gaps), "{shape:?}: {direct}");
        }
    }
}

#[test]
fn chimera_s_bound_is_exact_for_any_passes_and_any_rest_of_a_unit() {
    for (shape, _) in shapes() {
        for every in [
            [1.0, 2.0],
            [2.0, 1.0],
            [1.0, 1.3],
            [3.0, 2.9],
            [1.0, 9.0],
            [5.0, 1.0],
        ] {
            let every = [every[0], every[1], 0.0, 0.0];
            for micro_batches in 1..=3 * shape.stages {
                step(Schedule::Chimera, shape, micro_batches, every);
            }
            for kind in [
                Schedule::ChimeraForwardDoubling,
                Schedule::ChimeraBackwardHalving,
            ] {
                for units in 1..4 {
                    step(kind, shape, 2 * shape.stages * units, every);
                }
            }
        }
    }
}

#[test]
fn chimera_holds_activations_as_published() {
    // tables 2 and 3: from D - D / (2 f) + 1 to D; section 3.5: twice as many with forward doubling
    for (shape, f) in shapes() {
        let d = shape.stages;
        let held = |kind, n| (0..d).map(move |i| schedule::in_flight(kind, i, shape, n));
        for units in 1..4 {
            assert_eq!(held(Schedule::Chimera, d * units).max(), Some(d));
            let least = d - d / (2 * f) + 1;
            assert_eq!(held(Schedule::Chimera, d * units).min(), Some(least));
            let doubled = held(Schedule::ChimeraForwardDoubling, 2 * d * units).max();
            assert_eq!(doubled, Some(2 * d));
        }
        for kind in CHIMERA {
            assert_eq!(kind.rule().copies(shape), 2 * f);
        }
    }
}

#[test]
fn every_device_holds_a_stage_of_each_of_chimera_s_pipelines() {
    for (shape, _) in shapes() {
        for kind in CHIMERA {
            let span = if kind == Schedule::Chimera { 1 } else { 2 };
            let mut stages = vec![0; shape.stages as usize];
            for copy in 0..shape.chunks {
                let mut seen = vec![false; shape.stages as usize];
                for stage in 0..shape.stages {
                    let device = kind.rule().device(shape, stage, copy * span);
                    seen[device as usize] = true;
                    stages[device as usize] += 1;
                }
                assert!(seen.iter().all(|s| *s));
            }
            assert!(stages.iter().all(|count| *count == shape.chunks));
        }
    }
}

#[test]
fn doubled_forward_passes_run_two_micro_batches() {
    let shape = PipelineShape::new(4, 2);
    for kind in [
        Schedule::ChimeraForwardDoubling,
        Schedule::ChimeraBackwardHalving,
    ] {
        let run = run(kind, shape, 16, [1.0, 2.0, 0.0, 0.0]);
        for (order, spans) in run.orders.iter().zip(&run.spans) {
            let forwards = order.iter().filter(|o| o.work == Work::Forward);
            assert_eq!(forwards.clone().count(), 8);
            assert!(forwards.clone().all(|o| o.span == 2));
            // a forward pass of two and a backward pass of one take the same time
            assert!(spans.iter().all(|s| close(s[1] - s[0], 2.0)));
        }
    }
}

/// Idle seconds of a device.
fn idle(run: &Run, device: usize) -> f64 {
    let mut busy = 0.0;
    let mut until = 0.0_f64;
    for span in &run.spans[device] {
        busy += (span[1] - span[0].max(until)).max(0.0);
        until = until.max(span[1]);
    }
    run.makespan.value() - busy
}

#[test]
fn dualpipe_idles_as_published() {
    // DeepSeek-V3, table 2: (p / 2 - 1) (F&B + B - 3 W), beside 1F1B's (p - 1) (F + B)
    for stages in [2, 4, 6, 8, 16] {
        let shape = PipelineShape::new(stages, 2);
        for micro_batches in [2 * stages, 2 * stages + 2, 5 * stages] {
            for weight in [0.0, 0.5, 1.0] {
                for saved in [0.0, 0.4, 1.0] {
                    let every = [1.0, 1.0, weight, saved];
                    let run = run(Schedule::DualPipe, shape, micro_batches, every);
                    let (both, backward) = (2.0 + weight, 1.0 + weight);
                    let bubble = both - saved + backward - 3.0 * weight;
                    let bubble = (f64::from(stages) / 2.0 - 1.0) * bubble;
                    let found = idle(&run, stages as usize / 2 - 1);
                    assert!(close(found, bubble), "{shape:?} {every:?}: {found}");
                    let alone = [1.0, backward, 0.0, 0.0];
                    let one = PipelineShape::new(stages, 1);
                    let other = step(Schedule::OneForwardOneBackward, one, micro_batches, alone);
                    let work = both * f64::from(micro_batches);
                    assert!(close(other - work, f64::from(stages - 1) * both));
                }
            }
        }
    }
}

#[test]
fn devices_run_as_many_pairs_as_is_said() {
    for (stages, micro_batches) in [(2, 4), (4, 8), (8, 20), (12, 40)] {
        let shape = PipelineShape::new(stages, 2);
        for device in 0..stages {
            let order = schedule::order(Schedule::DualPipe, device, shape, micro_batches);
            let pairs = order.iter().filter(|o| o.paired).count();
            let said = Schedule::DualPipe
                .rule()
                .pairs(shape, micro_batches, device);
            assert_eq!(said as usize, pairs);
        }
    }
}

#[test]
fn dualpipe_holds_two_copies_and_one_more_activation_than_stages() {
    let shape = PipelineShape::new(8, 2);
    assert_eq!(Schedule::DualPipe.rule().copies(shape), 2);
    for device in 0..8 {
        assert_eq!(
            schedule::in_flight(Schedule::DualPipe, device, shape, 20),
            9
        );
    }
}

#[test]
fn dualpipe_s_orders_are_mirrored_and_split_only_in_the_ramps() {
    // the figure in the README of DualPipe: 8 devices, 10 micro-batches each way; the first device
    // begins with 6 forward passes of its near stage, then one of each
    let order = |device| schedule::order(Schedule::DualPipe, device, PipelineShape::new(8, 2), 20);
    for device in 0..8 {
        let across = order(7 - device);
        for (own, other) in order(device).iter().zip(&across) {
            assert_eq!((own.work, own.stage), (other.work, other.stage));
            assert_eq!(own.micro_batch ^ 1, other.micro_batch);
        }
    }
    let first = order(0);
    let stages: Vec<u32> = first[..8].iter().map(|o| o.stage).collect();
    assert_eq!(stages, [0, 0, 0, 0, 0, 0, 0, 7]);
    let weights = |device| {
        order(device)
            .iter()
            .filter(|o| o.work == Work::Weight)
            .count()
    };
    assert_eq!(
        [weights(0), weights(1), weights(2), weights(3)],
        [7, 6, 5, 4]
    );
}

#[test]
fn shapes_that_cannot_run_are_refused_with_the_rule() {
    let refused = |kind: Schedule, stages, chunks, micro_batches| {
        let made = kind
            .rule()
            .check(PipelineShape::new(stages, chunks), micro_batches);
        made.expect_err("cannot run").to_string()
    };
    for (kind, shape, field) in [
        (Schedule::Chimera, (3, 2, 6), "stages"),
        (Schedule::Chimera, (6, 4, 6), "chunks"),
        (Schedule::Chimera, (6, 3, 6), "chunks"),
        (
            Schedule::ChimeraForwardDoubling,
            (4, 2, 12),
            "micro_batches",
        ),
        (Schedule::ChimeraBackwardHalving, (4, 2, 7), "micro_batches"),
        (Schedule::DualPipe, (5, 2, 20), "stages"),
        (Schedule::DualPipe, (4, 1, 20), "chunks"),
        (Schedule::DualPipe, (4, 2, 6), "micro_batches"),
        (Schedule::DualPipe, (4, 2, 9), "micro_batches"),
    ] {
        let found = refused(kind, shape.0, shape.1, shape.2);
        assert!(found.starts_with(field), "{found}");
    }
}

#[test]
fn heavy_ends_are_timed_as_their_orders_run() {
    let stages = |chunks| Stages {
        count: 8,
        chunks,
        first: pass([1.2, 1.0, 1.0, 0.2]),
        middle: pass([1.0, 1.0, 1.0, 0.3]),
        last: pass([1.4, 2.0, 1.5, 0.1]),
        hop: Seconds::new(0.1),
    };
    for (kind, chunks) in [
        (Schedule::Chimera, 2),
        (Schedule::Chimera, 4),
        (Schedule::ChimeraForwardDoubling, 2),
        (Schedule::DualPipe, 2),
    ] {
        let stages = stages(chunks);
        let passes: Vec<Pass> = (0..8)
            .map(|stage| match stage {
                0 => stages.first,
                7 => stages.last,
                _ => stages.middle,
            })
            .collect();
        let pipeline = Pipeline::new(stages.shape(), Passes::Each(&passes), stages.hop);
        let run = schedule::run(kind, &pipeline, 32).expect("runs");
        let made = run.makespan;
        let quick = schedule::step_time(kind, &stages, 32, &mut Scratch::new());
        assert!(
            close(made.value(), quick.value()),
            "{kind:?}: {made:?} {quick:?}"
        );
        let closed = schedule::makespan(kind, &stages, 32).time;
        assert!(
            closed <= made && closed.value() >= 0.85 * made.value(),
            "{closed:?} {made:?}"
        );
        let said = schedule::bubble(kind, &stages, 32, made).value();
        let least = (0..8)
            .map(|device| idle(&run, device))
            .fold(f64::INFINITY, f64::min);
        assert!(close(said, least), "{kind:?}: {said}, not {least}");
        // very many micro-batches go on along the slope
        let long = schedule::step_time(kind, &stages, 64 * 400, &mut Scratch::new());
        let whole = schedule::recurrence(kind, &pipeline, 64 * 400, &mut Scratch::new());
        assert!((long.value() / whole.value() - 1.0).abs() < 1e-3);
    }
}

//! Do schedules reproduce the bubbles, activations and delays that their papers publish?

use scalewright::schedule::{
    self, Mitigation, Operation, Pass, Passes, Pipeline, PipelineShape, Schedule, Scratch, Stages,
    Work,
};
use scalewright::units::Seconds;

/// Alike stages with passes of so many seconds: forward, inputs, weights.
fn stages(count: u32, chunks: u32, [forward, backward, weight]: [f64; 3]) -> Stages {
    let pass = Pass {
        forward: Seconds::new(forward),
        backward: Seconds::new(backward),
        weight: Seconds::new(weight),
        hidden: Seconds::ZERO,
    };
    Stages {
        count,
        chunks,
        first: pass,
        middle: pass,
        last: pass,
        hop: Seconds::ZERO,
    }
}

fn step(kind: Schedule, stages: &Stages, micro_batches: u32) -> f64 {
    schedule::step_time(kind, stages, micro_batches, &mut Scratch::new()).value()
}

/// Seconds from a step to the next where no device waits for the others in between.
fn interval(kind: Schedule, stages: &Stages, micro_batches: u32) -> f64 {
    let mut scratch = Scratch::new();
    let interval = schedule::interval(kind, &stages.pipeline(), micro_batches, &mut scratch);
    interval.expect("a shape that runs").value()
}

fn steady(kind: Schedule, stages: &Stages) -> f64 {
    schedule::steady_period(kind, &stages.pipeline(), &mut Scratch::new()).value()
}

fn bubble(kind: Schedule, stages: &Stages, micro_batches: u32, time: f64) -> f64 {
    schedule::bubble(kind, stages, micro_batches, Seconds::new(time)).value()
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

/// An order as figures show it: `F1 B1 W1`, micro-batches from one.
fn drawn(order: &[Operation]) -> String {
    let letter = |work| match work {
        Work::Forward => 'F',
        Work::Weight => 'W',
        _ => 'B',
    };
    let pass = |o: &Operation| format!("{}{}", letter(o.work), o.micro_batch + 1);
    order.iter().map(pass).collect::<Vec<_>>().join(" ")
}

/// Backward passes that a device runs between a micro-batch's forward and its own, in the middle
/// of a long run.
fn updates_between(kind: Schedule, shape: PipelineShape, device: u32) -> u32 {
    let order = schedule::order(kind, device, shape, 100);
    let place = |work| {
        let mut places = order.iter();
        places.position(|o| o.work == work && o.micro_batch == 50)
    };
    let between = place(Work::Forward)..place(Work::Backward);
    let between = between.start.expect("runs forward")..between.end.expect("runs backward");
    let updates = order[between].iter().filter(|o| o.work == Work::Backward);
    u32::try_from(updates.count()).expect("few")
}

/// Qi et al. 2023 (Zero Bubble), table 2, for passes with W <= F <= B and micro-batches enough:
/// 1F1B idles (p - 1) (F + B + W), ZB-H1 (p - 1) (F + B - W) and ZB-H2 (p - 1) (F + B - 2 W).
#[test]
fn zero_bubble_idles_as_published() {
    let passes = [
        [10.0, 10.0, 10.0],
        [10.0, 11.0, 9.0],
        [10.0, 12.0, 8.0],
        [10.0, 15.0, 5.0],
    ];
    for [f, b, w] in passes {
        for (p, m) in [(2, 8), (4, 8), (4, 24), (8, 24), (8, 48)] {
            let stages = stages(p, 1, [f, b, w]);
            let work = f64::from(m) * (f + b + w);
            let gaps = f64::from(p - 1);
            let kind = Schedule::OneForwardOneBackward;
            assert!(same(step(kind, &stages, m) - work, gaps * (f + b + w)));
            let kind = Schedule::ZeroBubbleH1;
            assert!(same(step(kind, &stages, m) - work, gaps * (f + b - w)));
            assert!(same(interval(kind, &stages, m) - work, gaps * (f + b - w)));
            let kind = Schedule::ZeroBubbleH2;
            let idle = interval(kind, &stages, m) - work;
            assert!(same(idle, gaps * (f + b - 2.0 * w)), "{p} {m}: {idle}");
        }
    }
}

/// Qi et al. 2023, table 2: activations of p micro-batches for ZB-H1 and 2 p - 1 for ZB-H2; of p
/// micro-batches, that is 2 p chunks, for ZB-V.
#[test]
fn zero_bubble_holds_what_is_published() {
    for p in 1..9 {
        for device in 0..p {
            let held = |kind, chunks| {
                schedule::in_flight(kind, device, PipelineShape::new(p, chunks), 4 * p + 1)
            };
            assert_eq!(held(Schedule::ZeroBubbleH1, 1), p);
            assert_eq!(held(Schedule::ZeroBubbleH2, 1), 2 * p - 1);
            assert_eq!(held(Schedule::ZeroBubbleV, 2), 2 * p);
        }
    }
}

/// Qi et al. 2023, figure 3: four devices, eight micro-batches.
#[test]
fn zero_bubble_orders_are_those_drawn() {
    let row = |kind, device| drawn(&schedule::order(kind, device, PipelineShape::new(4, 1), 8));
    assert_eq!(
        row(Schedule::ZeroBubbleH1, 1),
        "F1 F2 F3 B1 F4 B2 W1 F5 B3 W2 F6 B4 W3 F7 B5 W4 F8 B6 W5 B7 W6 B8 W7 W8"
    );
    assert_eq!(
        row(Schedule::ZeroBubbleH1, 3),
        "F1 B1 F2 B2 F3 B3 F4 B4 W1 F5 B5 W2 F6 B6 W3 F7 B7 W4 F8 B8 W5 W6 W7 W8"
    );
    assert_eq!(
        row(Schedule::ZeroBubbleH2, 0),
        "F1 F2 F3 F4 F5 F6 F7 B1 W1 F8 B2 W2 B3 W3 B4 W4 B5 W5 B6 W6 B7 W7 B8 W8"
    );
    assert_eq!(
        row(Schedule::ZeroBubbleH2, 2),
        "F1 F2 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 W1 F8 B6 W2 B7 W3 B8 W4 W5 W6 W7 W8"
    );
}

/// Qi et al. 2023, section on ZB-V: no device idles where F, B and W are alike, from 2 p - 1
/// micro-batches on; the last device starts p - 1 passes after the first.
#[test]
fn the_v_leaves_no_gap() {
    for p in 1..9 {
        for m in [2 * p - 1, 2 * p, 4 * p + 3] {
            let stages = stages(p, 2, [1.0; 3]);
            let work = 6.0 * f64::from(m);
            assert!(same(interval(Schedule::ZeroBubbleV, &stages, m), work));
            assert!(same(step(Schedule::ZeroBubbleV, &stages, m), work));
            let run = schedule::run(Schedule::ZeroBubbleV, &stages.pipeline(), m).unwrap();
            let idle = run.makespan.value() - work;
            assert!(same(idle, f64::from(p - 1)), "{p} {m}: {idle}");
        }
        if p > 2 {
            let stages = stages(p, 2, [1.0; 3]);
            assert!(
                interval(Schedule::ZeroBubbleV, &stages, 2 * p - 2) > 6.0 * f64::from(2 * p - 2)
            );
        }
    }
}

#[test]
fn the_device_with_both_ends_is_the_busiest() {
    let mut stages = stages(4, 2, [1.0; 3]);
    stages.first.forward = Seconds::new(2.0);
    stages.last.forward = Seconds::new(3.0);
    let idle = bubble(Schedule::ZeroBubbleV, &stages, 10, 100.0);
    assert!(same(idle, 100.0 - 10.0 * (4.0 + 5.0)), "{idle}");
}

/// Once the pipeline is full, a micro-batch adds the work of one device and nothing else.
#[test]
fn full_pipelines_never_wait() {
    for p in [1, 2, 4, 7] {
        for kind in [Schedule::ZeroBubbleH1, Schedule::ZeroBubbleH2] {
            assert!(same(steady(kind, &stages(p, 1, [1.0; 3])), 3.0));
        }
        assert!(same(
            steady(Schedule::ZeroBubbleV, &stages(p, 2, [0.5; 3])),
            3.0
        ));
        let whole = stages(p, 1, [1.0, 2.0, 0.0]);
        for kind in Schedule::ALL {
            if kind.rule().chunks() == 1 && !kind.rule().splits() {
                assert!(same(steady(kind, &whole), 3.0), "{kind:?}");
            }
        }
    }
}

/// Narayanan et al. 2019 (`PipeDream`), Narayanan et al. 2021 (2BW), Kosson et al. 2021: what does
/// not flush has no bubble; what flushes does.
#[test]
fn what_never_flushes_has_no_bubble() {
    let whole = stages(4, 1, [1.0, 2.0, 0.0]);
    for kind in Schedule::ALL {
        if kind.rule().chunks() > 1 || kind.rule().splits() {
            continue;
        }
        let idle = bubble(kind, &whole, 16, interval(kind, &whole, 16));
        assert_eq!(same(idle, 0.0), !kind.rule().flushes(), "{kind:?}: {idle}");
    }
}

/// Narayanan et al. 2019, section 3.3: stage i of p, from 0, keeps p - i versions of its weights and
/// uses gradients that are p - 1 - i updates late. Kosson et al. 2021: 2 (p - 1 - i).
#[test]
fn delays_are_as_published() {
    for p in 1..9 {
        let shape = PipelineShape::new(p, 1);
        for device in 0..p {
            let after = p - 1 - device;
            let rule = Schedule::PipeDream.rule();
            assert_eq!(rule.versions(shape, 1, device), after + 1);
            assert_eq!(rule.staleness(shape, 1, device), after);
            assert_eq!(updates_between(Schedule::PipeDream, shape, device), after);
            let kind = Schedule::PipelinedBackpropagation;
            assert_eq!(kind.rule().versions(shape, 1, device), 1);
            assert_eq!(kind.rule().staleness(shape, 1, device), 2 * after);
            assert_eq!(updates_between(kind, shape, device), 2 * after);
            assert_eq!(schedule::in_flight(kind, device, shape, 100), 2 * after + 1);
        }
    }
}

/// Narayanan et al. 2021 (2BW), section 3.1: micro-batches in flight belong to two batches at most
/// where a batch has as many as there are stages, so two versions and a delay of one are enough.
#[test]
fn two_versions_are_enough() {
    let kind = Schedule::PipeDream2Bw;
    for p in 2..7_u32 {
        let shape = PipelineShape::new(p, 1);
        for batch in p..=p + 3 {
            for device in 0..p {
                let (mut open, mut most) = (Vec::new(), 0);
                for operation in schedule::order(kind, device, shape, 4 * batch) {
                    if operation.work == Work::Forward {
                        open.push(operation.micro_batch / batch);
                    } else {
                        open.remove(0);
                    }
                    let batches = open.last().zip(open.first());
                    most = most.max(batches.map_or(0, |(last, first)| last - first + 1));
                }
                assert!(most <= kind.rule().versions(shape, batch, device));
                assert_eq!(kind.rule().staleness(shape, batch, device), 1);
            }
        }
        let refused = kind.rule().check(shape, p - 1);
        let refused = refused.expect_err("too few micro-batches").to_string();
        assert!(refused.contains("two versions of the weights"), "{refused}");
    }
}

/// Kosson et al. 2021: filling and draining the pipeline for a batch of N takes
/// N + 2 S - 2 time steps on S stages, each of one forward and one backward.
#[test]
fn filling_and_draining_is_used_as_published() {
    for (count, batch) in [(1_u32, 8_u32), (4, 8), (8, 32), (16, 32)] {
        let shape = PipelineShape::new(count, 1);
        let order = schedule::order(Schedule::PipelinedBackpropagation, 0, shape, batch);
        // a forward and the backward behind it share a time step
        let shared = order
            .windows(2)
            .filter(|pair| pair[0].work == Work::Forward && pair[1].work == Work::Backward);
        let together = u32::try_from(shared.count()).expect("few");
        let steps = 2 * batch - together;
        assert_eq!(steps, batch + 2 * count - 2);
    }
}

#[test]
fn mitigations_hold_the_copies_of_their_update() {
    let copies = |mitigation| schedule::mitigation_copies(mitigation, 6);
    assert_eq!(copies(Mitigation::None), 0);
    assert_eq!(copies(Mitigation::SpikeCompensation), 0);
    assert_eq!(copies(Mitigation::WeightPrediction), 1);
    assert_eq!(copies(Mitigation::Both), 1);
    assert_eq!(copies(Mitigation::WeightStashing), 6);
    assert_eq!(
        schedule::mitigation_copies(Mitigation::WeightPrediction, 0),
        0
    );
}

/// Gomez et al. 2022: a micro-batch goes down all stages and back over the window alone; a window
/// of one is local learning, one of all stages is as deep as backpropagation.
#[test]
fn backward_depth_falls_to_the_window() {
    let passes = vec![Pass::new(Seconds::new(1.0), Seconds::new(2.0)); 6];
    let depth = |kind, window, m| {
        let shape = PipelineShape {
            window,
            ..PipelineShape::new(6, 1)
        };
        let pipeline = Pipeline::new(shape, Passes::Each(&passes), Seconds::ZERO);
        schedule::recurrence(kind, &pipeline, m, &mut Scratch::new()).value()
    };
    for window in 1..=6 {
        let time = depth(Schedule::Interlocking, window, 1);
        assert!(same(time, 6.0 + 2.0 * f64::from(window)));
    }
    let whole = depth(Schedule::OneForwardOneBackward, 1, 1);
    assert!(same(depth(Schedule::Interlocking, 6, 1), whole));
    // local learning leaves the wait for the first forward alone: (p - 1) F
    assert!(same(depth(Schedule::Interlocking, 1, 32), 32.0 * 3.0 + 5.0));
}

/// Nøkland 2016: no backward pass waits for another, so that only forwards fill the pipeline.
#[test]
fn feedback_reaches_all_stages_at_once() {
    let passes = vec![Pass::new(Seconds::new(1.0), Seconds::new(2.0)); 4];
    let time = |feedback, m| {
        let plain = Pipeline::new(
            PipelineShape::new(4, 1),
            Passes::Each(&passes),
            Seconds::ZERO,
        );
        let pipeline = Pipeline {
            feedback: Seconds::new(feedback),
            ..plain
        };
        schedule::recurrence(Schedule::DirectFeedback, &pipeline, m, &mut Scratch::new()).value()
    };
    assert!(same(time(0.0, 1), 4.0 + 2.0));
    assert!(same(time(0.5, 1), 4.0 + 0.5 + 2.0));
    assert!(same(time(0.0, 16), 16.0 * 3.0 + 3.0));
}

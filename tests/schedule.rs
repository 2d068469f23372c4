//! Do the schedules' closed forms, recurrences and orders agree with one another on any stage times?

use proptest::prelude::*;
use scalewright::schedule::{self, Kind, Pass, Scratch, Stages};
use scalewright::units::Seconds;

const KINDS: [Kind; 3] = [Kind::GPipe, Kind::OneForwardOneBackward, Kind::Interleaved];

fn seconds() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..1.0, 0.0..20.0]
}

fn pass() -> impl Strategy<Value = Pass> {
    (seconds(), seconds()).prop_map(|(forward, backward)| Pass {
        forward: Seconds::new(forward),
        backward: Seconds::new(backward),
    })
}

fn close(a: Seconds, b: Seconds) -> bool {
    (a.value() - b.value()).abs() <= 1e-9 * (1.0 + a.value().abs())
}

/// Any stages with unlike ends; whole rounds for the interleaved schedule.
fn stages() -> impl Strategy<Value = Stages> {
    let hop = prop_oneof![2 => Just(0.0), 1 => 0.0..2.0];
    (1..9_u32, 1..5_u32, pass(), pass(), pass(), hop).prop_map(
        |(count, chunks, first, middle, last, hop)| Stages {
            count,
            chunks,
            first,
            middle,
            last,
            hop: Seconds::new(hop),
        },
    )
}

fn recurrence(kind: Kind, stages: &Stages, micro_batches: u32) -> Seconds {
    let stages = match kind {
        Kind::Interleaved => *stages,
        _ => Stages {
            chunks: 1,
            ..*stages
        },
    };
    let mut passes = Vec::new();
    let pipeline = stages.expand(&mut passes);
    schedule::recurrence(kind, &pipeline, micro_batches, &mut Scratch::new())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_closed_form_is_the_recurrence_where_it_says_so(
        stages in stages(), micro_batches in 1..40_u32,
    ) {
        for kind in KINDS {
            let closed = schedule::makespan(kind, &stages, micro_batches);
            let exact = recurrence(kind, &stages, micro_batches);
            prop_assert!(
                closed.time.value() <= exact.value() * (1.0 + 1e-9) + 1e-9,
                "{kind:?}: bound {closed:?} over {exact:?}"
            );
            if closed.exact {
                prop_assert!(close(closed.time, exact), "{kind:?}: {closed:?} is not {exact:?}");
            }
        }
    }
}

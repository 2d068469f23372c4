//! Are slices of sequences the best of all, by trying all, and does the schedule take the time said?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::control::Control;
use scalewright::schedule::token_slices::{Request, Slices, Table, token_slices};
use scalewright::schedule::{
    self, Pass, Passes, Pipeline, PipelineShape, Schedule, Scratch, Size, Stages,
};
use scalewright::units::Seconds;

fn solve(request: &Request) -> Option<Slices> {
    token_slices(request, &Control::new()).expect("a request that can be sliced")
}

/// All ways to write `total` as a sum in order.
fn sums_in_order(total: usize) -> Vec<Vec<usize>> {
    if total == 0 {
        return vec![vec![]];
    }
    let first = 1..=total;
    let with = first.flat_map(|first| {
        sums_in_order(total - first)
            .into_iter()
            .map(move |mut rest| {
                rest.insert(0, first);
                rest
            })
    });
    with.collect()
}

/// Sum and slowest of every slicing of every sharing of the batch.
fn all(request: &Request) -> Vec<(f64, f64)> {
    let units = request.tables[0].times_s.len();
    let of_table = |table: &Table| -> Vec<(f64, f64)> {
        let weighed = sums_in_order(units).into_iter().filter_map(|lengths| {
            let (mut context, mut sum, mut slowest) = (0, 0.0, 0.0_f64);
            for length in lengths {
                let time = table.times_s[length - 1][context]?;
                (sum, slowest) = (sum + time, slowest.max(time));
                context += length;
            }
            Some((sum, slowest))
        });
        weighed.collect()
    };
    let mut found = Vec::new();
    for sizes in sums_in_order(request.sequences as usize) {
        let tables: Option<Vec<&Table>> = sizes
            .iter()
            .map(|size| {
                request
                    .tables
                    .iter()
                    .find(|t| t.sequences as usize == *size)
            })
            .collect();
        let mut open = vec![(0.0, 0.0_f64)];
        for table in tables.into_iter().flatten() {
            let options = of_table(table);
            let longer = |(sum, slowest): &(f64, f64)| {
                let (sum, slowest) = (*sum, *slowest);
                let with = options.iter().map(move |o| (sum + o.0, slowest.max(o.1)));
                with.collect::<Vec<_>>()
            };
            open = open.iter().flat_map(longer).collect();
        }
        let known = sizes
            .iter()
            .all(|s| request.tables.iter().any(|t| t.sequences as usize == *s));
        if known {
            found.extend(open);
        }
    }
    found
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

/// Up to six units and three sequences; some slices are not allowed.
fn any_request() -> impl Strategy<Value = Request> {
    (1..7_usize, 1..4_u32, 1..9_u32).prop_flat_map(|(units, sequences, stages)| {
        let time = prop_oneof![
            1 => Just(None),
            2 => Just(Some(1.0)),
            9 => (0.0..5.0_f64).prop_map(Some),
        ];
        let table = vec(vec(time, units), units);
        vec(table, sequences as usize).prop_map(move |tables| Request {
            tables: (1..)
                .zip(tables)
                .map(|(sequences, times_s)| Table { sequences, times_s })
                .collect(),
            sequences,
            stages,
            epsilon_s: 0.0,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_other_slices_end_sooner(request in any_request(), epsilon in 0.0..1.0) {
        let again = f64::from(request.stages - 1);
        let times = all(&request).into_iter().map(|(sum, slowest)| sum + again * slowest);
        let best = times.reduce(f64::min);
        let found = solve(&request);
        match (&found, best) {
            (Some(found), Some(best)) => {
                prop_assert!(close(found.time_s, best), "{found:?} against {best}");
                let each = found.parts.iter().flat_map(|p| &p.times_s);
                prop_assert!(close(each.sum::<f64>(), found.sum_s));
                let sequences: u32 = found.parts.iter().map(|p| p.sequences).sum();
                prop_assert_eq!(sequences, request.sequences);
                prop_assert!(found.whole_s.is_none_or(|whole| whole >= best * (1.0 - 1e-9)));
                let near = solve(&Request { epsilon_s: epsilon, ..request }).unwrap();
                prop_assert!(near.time_s >= best * (1.0 - 1e-9));
                prop_assert!(near.time_s <= best + near.error_s + 1e-9, "{near:?} against {best}");
            }
            (None, None) => {}
            _ => prop_assert!(false, "{found:?} against {best:?}"),
        }
    }

    #[test]
    fn the_schedule_takes_the_time_that_the_slices_promise(
        request in any_request(), share in 0.1..0.9_f64,
    ) {
        let Some(found) = solve(&request) else { return Ok(()) };
        // as one micro-batch whose slices are those of all parts in turn
        let times: Vec<f64> = found.parts.iter().flat_map(|p| p.times_s.clone()).collect();
        let sizes: Vec<Size> = times.iter().map(|t| Size { forward: *t, backward: *t }).collect();
        let pass = Pass::new(Seconds::new(share), Seconds::new(1.0 - share));
        let passes = vec![pass; request.stages as usize];
        let slices = u32::try_from(sizes.len()).unwrap();
        let shape = PipelineShape { slices, ..PipelineShape::new(request.stages, 1) };
        let pipeline = Pipeline {
            sizes: &sizes,
            ..Pipeline::new(shape, Passes::Each(&passes), Seconds::ZERO)
        };
        let step = schedule::recurrence(Schedule::TeraPipe, &pipeline, 1, &mut Scratch::new());
        prop_assert!(close(step.value(), found.time_s), "{step:?} against {found:?}");
        let bound = schedule::bound(Schedule::TeraPipe, &pipeline, 1);
        prop_assert!(bound.exact && close(bound.time.value(), found.time_s));
    }

    #[test]
    fn alike_slices_run_as_so_many_micro_batches_of_gpipe(
        (stages, slices, micro_batches) in (1..7_u32, 1..6_u32, 1..9_u32),
        times in vec((0.0..3.0_f64, 0.0..3.0_f64), 6), hop in 0.0..1.0_f64,
    ) {
        let pass = |t: &(f64, f64)| Pass::new(Seconds::new(t.0), Seconds::new(t.1));
        let passes: Vec<Pass> = times.iter().take(stages as usize).map(pass).collect();
        let of = |kind, slices, micro_batches| {
            let shape = PipelineShape { slices, ..PipelineShape::new(stages, 1) };
            let pipeline = Pipeline::new(shape, Passes::Each(&passes), Seconds::new(hop));
            schedule::step_time_extrapolated(kind, &pipeline, micro_batches, &mut Scratch::new()).value()
        };
        let sliced = of(Schedule::TeraPipe, slices, micro_batches);
        let whole = of(Schedule::GPipe, 1, slices * micro_batches);
        prop_assert!(close(sliced, whole), "{sliced} against {whole}");
    }
}

/// A slice costs a launch, its own tokens, and its attention to itself and what stands before it.
fn transformer(units: usize, launch: f64, attention: f64) -> Table {
    let time = |length: usize, context: usize| {
        let (l, c) = (length as f64, context as f64);
        Some(launch + l + attention * l * (c + l / 2.0))
    };
    let row = |length| (0..=units - length).map(|c| time(length, c)).collect();
    Table {
        sequences: 1,
        times_s: (1..=units).map(row).collect(),
    }
}

fn of_table(table: Table, stages: u32) -> Request {
    Request {
        tables: vec![table],
        sequences: 1,
        stages,
        epsilon_s: 0.0,
    }
}

#[test]
fn attention_makes_later_slices_shorter() {
    let found = solve(&of_table(transformer(128, 2.0, 0.02), 24)).unwrap();
    let lengths = &found.parts[0].lengths;
    assert!(lengths.len() > 4, "{found:?}");
    assert!(lengths.first() > lengths.last(), "{found:?}");
    assert!(found.time_s < 0.5 * found.whole_s.unwrap(), "{found:?}");
    assert_eq!(lengths.iter().sum::<u32>(), 128);
}

#[test]
fn one_stage_needs_no_slices() {
    let found = solve(&of_table(transformer(64, 2.0, 0.01), 1)).unwrap();
    assert_eq!(found.parts[0].lengths, [64]);
    assert_eq!(Some(found.time_s), found.whole_s);
}

#[test]
fn through_stages_a_sequence_has_one_slice() {
    let pass = Pass::new(Seconds::new(1.0), Seconds::new(2.0));
    let stages = Stages {
        count: 4,
        chunks: 1,
        first: pass,
        middle: pass,
        last: pass,
        hop: Seconds::ZERO,
    };
    let [tera, gpipe] =
        [Schedule::TeraPipe, Schedule::GPipe].map(|k| schedule::makespan(k, &stages, 8));
    assert_eq!(tera, gpipe);
    assert_eq!(
        schedule::in_flight(Schedule::TeraPipe, 0, stages.shape(), 8),
        8
    );
}

#[test]
fn what_is_wrong_is_refused_with_the_field() {
    let said = |request: &Request| {
        let refused = token_slices(request, &Control::new());
        refused.unwrap_err().to_string()
    };
    let right = of_table(transformer(4, 1.0, 0.1), 4);
    let mut request = right.clone();
    request.tables[0].times_s[1].pop();
    assert!(said(&request).contains("tables[0].times_s[1]: got 2"));
    request = right.clone();
    request.tables[0].times_s[2][0] = Some(-1.0);
    assert!(said(&request).contains("times_s[2]: got -1"));
    request = Request {
        stages: 0,
        ..right.clone()
    };
    assert!(said(&request).contains("stages: got 0"));
    request = right;
    request.tables.push(request.tables[0].clone());
    assert!(said(&request).contains("each number of sequences once"));
    let shape = PipelineShape {
        slices: 0,
        ..PipelineShape::new(2, 1)
    };
    let refused = Schedule::TeraPipe.rule().check(shape, 4).unwrap_err();
    assert!(refused.to_string().contains("slices: got 0"));
}

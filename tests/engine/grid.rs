//! Do tensor ranks in a grid hold, send and refuse what two-dimensional sharding says?

#![allow(clippy::unwrap_used)]

use crate::worlds;

use proptest::prelude::*;
use scalewright::collective::Collective::{self, AllGather, AllReduce, ReduceScatter};
use scalewright::plan::{BlockProgram, JobShape, Plan, Task, check, lower};
use scalewright::workload::BlockRole;
use worlds::jobs;

const HIDDEN: f64 = 1024.0;
const TOKENS: f64 = 4.0 * 2048.0;

/// The program of the first block of a role under a plan.
fn block(text: &str, role: BlockRole, plan: &Plan) -> BlockProgram {
    let cluster = worlds::nodes_of_eight(plan.tensor);
    let job = jobs::job(text, &cluster, &jobs::training(64, 2048, ""));
    let wanted = |b: &usize| job.graph.blocks[*b].role == role;
    let found = job.graph.order.iter().copied().find(wanted).unwrap();
    lower(&job.graph, found, &job.training, plan)
}

fn grid(tensor: u32, tensor_rows: u32, sequence_parallel: bool) -> Plan {
    Plan {
        tensor,
        tensor_rows,
        micro_batch: 4,
        sequence_parallel,
        ..Plan::default()
    }
}

/// Collectives in order: operation, stride and number of ranks, columns of a token in 16-bit.
fn sent(tasks: &[Task]) -> Vec<(Collective, u32, u32, f64)> {
    let wire = |task: &Task| match task {
        Task::Communicate {
            collective,
            span,
            bytes,
            ..
        } => Some((
            *collective,
            span.stride,
            span.size,
            bytes.value() / (2.0 * TOKENS),
        )),
        _ => None,
    };
    tasks.iter().filter_map(wire).collect()
}

/// Columns of a token that a rank of a ring sends.
fn volume(tasks: &[Task]) -> f64 {
    let ring = |(collective, _, ranks, columns): (Collective, u32, u32, f64)| {
        let way = columns * f64::from(ranks - 1) / f64::from(ranks);
        if collective == AllReduce {
            2.0 * way
        } else {
            way
        }
    };
    sent(tasks).into_iter().map(ring).sum()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// Pope et al. 2022, section 3.2.2, with the stream cut along the sequence over columns: `h / R` is
/// gathered and scattered over columns, `F / C` scattered and gathered over rows.
#[test]
fn a_layer_moves_its_stream_over_columns_and_its_inner_widths_over_rows() {
    let layer = block(&jobs::gpt(4, 1024), BlockRole::Layer, &grid(8, 2, true));
    let (rows, columns) = ((4, 2), (1, 4));
    let wire = |collective, (stride, size): (u32, u32), width| (collective, stride, size, width);
    // two fp32 numbers a token, tokens cut over columns
    let statistics = wire(AllReduce, rows, 2.0 * 4.0 / 2.0 / 4.0);
    let half = |inner: f64, outer: f64| {
        [
            statistics,
            wire(AllGather, columns, HIDDEN / 2.0),
            wire(ReduceScatter, rows, inner * HIDDEN / 4.0),
            wire(AllGather, rows, outer * HIDDEN / 4.0),
            wire(ReduceScatter, columns, HIDDEN / 2.0),
        ]
    };
    let expected = [half(3.0, 1.0), half(4.0, 4.0)].concat();
    assert_eq!(sent(&layer.forward), expected);
    // the adjoint of each, and both kept inputs gathered again for gradients of weights
    let backward = sent(&layer.backward);
    let count = |wanted| backward.iter().filter(|w| **w == wanted).count();
    assert_eq!(count(wire(ReduceScatter, columns, HIDDEN / 2.0)), 2);
    assert_eq!(count(wire(ReduceScatter, rows, HIDDEN / 4.0)), 1);
    assert_eq!(count(wire(ReduceScatter, rows, HIDDEN)), 1);
    assert_eq!(count(wire(AllGather, columns, HIDDEN / 2.0)), 4);
    assert_eq!(count(wire(AllGather, rows, 3.0 * HIDDEN / 4.0)), 1);
    assert_eq!(count(wire(AllGather, rows, HIDDEN / 4.0)), 1);
    assert_eq!(count(wire(AllGather, rows, HIDDEN)), 2);
    assert_eq!(count(statistics), 2);
    assert_eq!(backward.len(), 14);
}

/// Without sequence parallelism columns sum the part of the stream that a row holds.
#[test]
fn columns_sum_the_part_of_their_row() {
    let layer = block(&jobs::gpt(4, 1024), BlockRole::Layer, &grid(8, 2, false));
    for tasks in [&layer.forward, &layer.backward] {
        let sums = sent(tasks);
        let sums = sums.iter().filter(|w| w.0 == AllReduce && w.2 == 4);
        assert_eq!(sums.clone().count(), 2);
        assert!(sums.into_iter().all(|w| near(w.3, HIDDEN / 2.0)));
    }
}

/// The vocabulary is cut over all ranks: the whole stream comes to the head, and its gradient goes
/// back, as one collective where both sides want the same.
#[test]
fn the_head_sees_the_stream_whole_in_width() {
    let head = block(&jobs::gpt(4, 1024), BlockRole::Head, &grid(8, 2, true));
    let whole = |collective| (collective, 1, 8, HIDDEN);
    assert!(sent(&head.forward).contains(&whole(AllGather)));
    assert!(sent(&head.backward).contains(&whole(ReduceScatter)));
    let apart = block(&jobs::gpt(4, 1024), BlockRole::Head, &grid(8, 2, false));
    assert!(sent(&apart.forward).contains(&(AllGather, 4, 2, HIDDEN)));
    // first each row's part of the sum, then the columns' sum of that
    let backward = sent(&apart.backward);
    let at = |wanted| backward.iter().position(|w| *w == wanted).unwrap();
    let part = at((ReduceScatter, 4, 2, HIDDEN));
    assert!(part < at((AllReduce, 1, 4, HIDDEN / 2.0)));
}

/// What a search tries by itself, from 16 ranks on, is what the lowered layers send least with.
#[test]
fn least_is_sent_near_the_root_of_a_third_of_the_ranks() {
    let text = jobs::gpt(4, 4096).replace(r#""heads": 16"#, r#""heads": 64"#);
    for (tensor, least) in [(2, 1), (4, 1), (8, 2), (16, 2), (32, 4), (64, 4)] {
        let rows: Vec<u32> = (0..7).map(|e| 1 << e).filter(|r| *r < tensor).collect();
        let sends = |rows: &u32| {
            let layer = block(&text, BlockRole::Layer, &grid(tensor, *rows, true));
            volume(&layer.forward)
        };
        let all: Vec<(u32, f64)> = rows.iter().map(|r| (*r, sends(r))).collect();
        let best = all.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert_eq!(best.0, least, "{tensor}: {all:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        max_global_rejects: 20_000, // most of what is drawn has fewer than two tensor ranks
        ..ProptestConfig::default()
    })]

    /// A grid holds of every matrix as much as one row does and keeps no more between the passes; only
    /// compressed keys, which belong to no head, stay whole over rows.
    #[test]
    fn a_grid_holds_no_more_than_a_row((job, plan) in jobs::planned(), exponent in 1..4_u32) {
        prop_assume!(job.model.latent.is_none());
        let cut = Plan { tensor_rows: 1 << exponent, tensor_chunks: 1, ..plan.clone() };
        let row = Plan { tensor_rows: 1, tensor_chunks: 1, ..plan };
        let devices = job.cluster.devices;
        let legal = |plan| check(plan, &job.shape, &job.training, devices).is_ok();
        prop_assume!(legal(&cut) && legal(&row));
        for index in 0..job.graph.blocks.len() {
            let [cut, row] = [&cut, &row].map(|plan| lower(&job.graph, index, &job.training, plan));
            let most = 1.0 + 1e-9;
            // biases behind sums over rows are whole there
            let biases = 8.0 * job.model.hidden as f64;
            prop_assert!(cut.weights.local() <= row.weights.local() * most + biases);
            let kept = |program: &BlockProgram| program.activations.kept.value();
            prop_assert!(kept(&cut) <= kept(&row) * most);
            let input = |program: &BlockProgram| program.activations.input.value();
            prop_assert!(input(&cut) <= input(&row) * most);
        }
    }
}

/// The message of the rule that a plan breaks.
fn broken(text: &str, plan: &Plan) -> String {
    let training = jobs::training(64, 2048, "");
    let graph = jobs::model(text).graph(&training);
    let shape = JobShape::new(&graph, &worlds::nodes_of_eight(plan.tensor));
    let rule = check(plan, &shape, &training, plan.tensor).unwrap_err();
    rule.to_string()
}

#[test]
fn what_no_grid_can_do_is_refused_by_name() {
    let gpt = jobs::gpt(4, 1024);
    let cases = [
        (
            grid(8, 3, false),
            "tensor_rows = 3 does not divide tensor = 8; nearest 2, 4",
        ),
        (grid(8, 0, false), "tensor_rows: got 0; allowed: 1 to 2^24"),
        (
            grid(4, 4, true),
            "sequence_parallel needs tensor above tensor_rows: it splits sequences over the columns",
        ),
        (
            Plan {
                tensor_chunks: 2,
                ..grid(8, 2, false)
            },
            "tensor_rows above 1 needs tensor_chunks = 1: only products that are cut one way run in chunks",
        ),
    ];
    for (plan, message) in cases {
        assert_eq!(broken(&gpt, &plan), message);
    }
    let experts = broken(&jobs::mixture(4, 1024), &grid(8, 2, true));
    assert!(experts.starts_with("tensor_rows above 1 needs a model without routed experts"));
    let odd = jobs::gpt(4, 1026).replace(r#""heads": 16"#, r#""heads": 12, "head_dim": 64"#);
    let width = broken(&odd, &grid(12, 4, false));
    assert!(
        width.starts_with("tensor_rows = 4 does not divide hidden"),
        "{width}"
    );
}

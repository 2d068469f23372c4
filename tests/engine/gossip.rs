//! Does gossip cost its messages, and do ranks come to agree as fast as the eigenvalues say?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use proptest::prelude::*;
use scalewright::collective::{
    Collective, CompressionSetting, Exchange, Format, Forms, Gossip, Graph, Payload, Policy,
    averaging,
};
use scalewright::hardware::Cluster;
use scalewright::units::{Bytes, Dtype};
use worlds::fabrics::one_switch;
use worlds::{nodes_of_eight, oversubscribed, torus};

const GRAPHS: [Graph; 6] = [
    Graph::Ring,
    Graph::Torus,
    Graph::Complete,
    Graph::Hypercube,
    Graph::Exponential,
    Graph::OnePeerExponential,
];

fn ask(
    cluster: &Cluster,
    graph: Graph,
    sides: Option<[u32; 2]>,
    payload: Option<Payload>,
) -> Exchange {
    let setting = CompressionSetting {
        cluster,
        stride: 1,
        ranks: cluster.devices,
        dtype: Dtype::Fp32,
        buffer: Bytes::new(1e8),
    };
    let policy = Policy::Gossip(Gossip {
        graph,
        every: 1,
        sides,
    });
    averaging(&setting, &policy, payload.as_ref()).unwrap()
}

/// Where each rank's messages go in round `round`.
fn targets(graph: Graph, rank: usize, ranks: usize, row: usize, round: usize) -> Vec<usize> {
    let log = ranks.next_power_of_two().ilog2() as usize;
    let mut to = match graph {
        Graph::Ring => vec![(rank + 1) % ranks, (rank + ranks - 1) % ranks],
        Graph::Torus => {
            let (x, y, rows) = (rank % row, rank / row, ranks / row);
            vec![
                (x + 1) % row + y * row,
                (x + row - 1) % row + y * row,
                x + (y + 1) % rows * row,
                x + (y + rows - 1) % rows * row,
            ]
        }
        Graph::Complete => (0..ranks).collect(),
        Graph::Hypercube => (0..log).map(|bit| rank ^ (1 << bit)).collect(),
        Graph::Exponential => (0..log).map(|bit| (rank + (1 << bit)) % ranks).collect(),
        Graph::OnePeerExponential if log > 0 => vec![(rank + (1 << (round % log))) % ranks],
        Graph::OnePeerExponential => vec![],
    };
    to.sort_unstable();
    to.dedup();
    to.retain(|&other| other != rank);
    to
}

/// One round: each rank averages what it has and what it is sent.
fn step(graph: Graph, row: usize, round: usize, values: &[f64]) -> Vec<f64> {
    let mut sums = values.to_vec();
    let mut sent = 0;
    for (rank, value) in values.iter().enumerate() {
        let to = targets(graph, rank, values.len(), row, round);
        sent = to.len();
        for other in to {
            sums[other] += value;
        }
    }
    sums.iter().map(|sum| sum / (sent + 1) as f64).collect()
}

fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values
        .iter()
        .map(|v| (v - mean).powi(2))
        .sum::<f64>()
        .sqrt()
}

/// Values of no pattern, about zero, with a spread of one.
fn scattered(ranks: usize) -> Vec<f64> {
    let raw: Vec<f64> = (0..ranks)
        .map(|i| (1.0 + i as f64 * 12.9898).sin() * 43_758.545)
        .map(f64::fract)
        .collect();
    let mean = raw.iter().sum::<f64>() / ranks as f64;
    let spread = spread(&raw);
    raw.iter().map(|v| (v - mean) / spread).collect()
}

/// The factor by which a late round shrinks the spread; none where nothing is left before.
fn shrinkage(graph: Graph, ranks: usize, row: usize) -> Option<f64> {
    let (mut values, mut factors) = (scattered(ranks), Vec::new());
    for round in 0..6_000 {
        values = step(graph, row, round, &values);
        let left = spread(&values);
        factors.push(left);
        if left < 1e-9 {
            return None;
        }
        // rounding feeds the mean, which no round shrinks
        let mean = values.iter().sum::<f64>() / ranks as f64;
        for value in &mut values {
            *value = (*value - mean) / left;
        }
    }
    let late = &factors[5_000..];
    Some((late.iter().map(|f| f.ln()).sum::<f64>() / late.len() as f64).exp())
}

#[test]
fn rounds_shrink_disagreement_by_the_second_eigenvalue() {
    for ranks in [2_u32, 3, 4, 5, 6, 7, 8, 12, 16, 21, 24] {
        let cluster = one_switch(ranks);
        for graph in GRAPHS {
            let doubles = matches!(graph, Graph::Hypercube | Graph::OnePeerExponential);
            if doubles && !ranks.is_power_of_two() || graph == Graph::OnePeerExponential {
                continue;
            }
            let row = (1..=ranks)
                .find(|row| ranks % row == 0 && row * row >= ranks)
                .unwrap();
            let mixing = ask(&cluster, graph, None, None).mixing.unwrap();
            let (gap, said) = (mixing.spectral_gap, mixing.second_eigenvalue);
            let seen = shrinkage(graph, ranks as usize, row as usize).unwrap_or(0.0);
            assert!(close(gap, 1.0 - said));
            let agrees = if mixing.is_bound {
                seen <= said + 1e-9
            } else {
                (seen - said).abs() < 2e-3
            };
            assert!(agrees, "{graph:?} on {ranks}: {seen} seen, {mixing:?}");
        }
    }
}

#[test]
fn the_told_rounds_leave_a_tenth() {
    for ranks in [2_u32, 5, 8, 16, 30, 64] {
        let cluster = one_switch(ranks);
        for graph in GRAPHS {
            let doubles = matches!(graph, Graph::Hypercube | Graph::OnePeerExponential);
            if doubles && !ranks.is_power_of_two() {
                continue;
            }
            let row = (1..=ranks)
                .find(|row| ranks % row == 0 && row * row >= ranks)
                .unwrap();
            let mixing = ask(&cluster, graph, None, None).mixing.unwrap();
            let mut values = scattered(ranks as usize);
            let told = (0..usize::MAX).take_while(|&round| (round as f64) < mixing.rounds_to_tenth);
            for round in told {
                values = step(graph, row as usize, round, &values);
            }
            let left = spread(&values);
            assert!(
                left <= 0.1 + 1e-9,
                "{graph:?} on {ranks}: {left}, {mixing:?}"
            );
            if graph == Graph::OnePeerExponential {
                assert!(
                    left < 1e-12,
                    "one peer a round must end at the mean: {left}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn a_round_sends_one_message_to_each_neighbour(power in 1_u32..7, which in 0..GRAPHS.len()) {
        let ranks = 1 << power;
        let graph = GRAPHS[which];
        let row = 1 << power.div_ceil(2);
        for world in [one_switch, nodes_of_eight, oversubscribed, torus] {
            let cluster = world(ranks);
            let to = targets(graph, 0, ranks as usize, row, 0).len();
            let answer = ask(&cluster, graph, None, None);
            prop_assert_eq!(answer.mixing.unwrap().neighbours as usize, to);
            prop_assert!(close(answer.sent_bytes, to as f64 * 1e8));
            prop_assert!(answer.worst_time_s >= answer.time_s * (1.0 - 1e-9));
            let signs = ask(&cluster, graph, None, Some(Format::OneBit.into()));
            prop_assert!(close(signs.sent_bytes, to as f64 * (1e8 / 32.0 + 4.0)));
            // no port sends its messages faster than the fabric's fastest link
            let fastest = if ranks <= 8 { 300e9 * 0.8 } else { 300e9 };
            prop_assert!(answer.time_s >= to as f64 * 1e8 / fastest);
        }
    }
}

#[test]
fn a_ring_round_on_a_switch_is_two_messages_and_an_average() {
    let answer = ask(&one_switch(16), Graph::Ring, None, None);
    // 100 GB/s and 2 us a message; the average reads three buffers and writes one at 2 TB/s
    let messages = 2.0 * (2e-6 + 1e8 / 100e9);
    let average = 4e-6 + 4e8 / 2e12;
    assert!(close(answer.time_s, messages + average), "{answer:?}");
}

#[test]
fn a_torus_of_nodes_sends_its_rows_inside_them() {
    let cluster = nodes_of_eight(32);
    let rows = ask(&cluster, Graph::Torus, Some([8, 4]), None);
    let longer = ask(&cluster, Graph::Torus, Some([16, 2]), None);
    let ring = ask(&cluster, Graph::Ring, None, None);
    // as in the ring two messages leave the node; two more at 80 % of 300 GB/s, and into the average
    let inside = 2.0 * (1e8 / 240e9 + 1e8 / 2e12);
    let more = rows.time_s - ring.time_s;
    assert!((more / inside - 1.0).abs() < 0.05, "{more} {inside}");
    // rows over two nodes: three messages leave
    assert!(longer.time_s > 1.3 * rows.time_s, "{longer:?} {rows:?}");
}

#[test]
fn partners_of_a_hypercube_inside_a_node_stay_there() {
    let cluster = nodes_of_eight(16);
    let bits = ask(&cluster, Graph::Hypercube, None, None);
    let shifts = ask(&cluster, Graph::Exponential, None, None);
    assert!(close(bits.sent_bytes, shifts.sent_bytes));
    // of four messages one leaves the node; each shift moves some rank out of it
    assert!(shifts.time_s > 3.0 * bits.time_s, "{shifts:?} {bits:?}");
}

#[test]
fn a_complete_graph_gathers_all_buffers() {
    let cluster = nodes_of_eight(16);
    let answer = ask(&cluster, Graph::Complete, None, None);
    let gather = Forms::new(Collective::AllGather, &cluster.group(1, 16), &cluster);
    let average = 4e-6 + 17e8 / 2e12;
    let expected = gather.time(Bytes::new(16e8)).value() + average;
    assert!(close(answer.time_s, expected));
    assert!(answer.time_s > answer.plain_time_s);
    assert!(close(answer.mixing.unwrap().rounds_to_tenth, 1.0));
}

#[test]
fn sides_and_ranks_that_make_no_graph_are_refused() {
    let cluster = one_switch(12);
    let setting = CompressionSetting {
        cluster: &cluster,
        stride: 1,
        ranks: 12,
        dtype: Dtype::Fp32,
        buffer: Bytes::new(1e6),
    };
    let refused = |graph, every, sides| {
        let policy = Policy::Gossip(Gossip {
            graph,
            every,
            sides,
        });
        averaging(&setting, &policy, None).unwrap_err().to_string()
    };
    for (message, start) in [
        (refused(Graph::Hypercube, 1, None), "devices: got 12"),
        (
            refused(Graph::OnePeerExponential, 1, None),
            "devices: got 12",
        ),
        (refused(Graph::Ring, 0, None), "policy.gossip.every: got 0"),
        (
            refused(Graph::Torus, 1, Some([5, 2])),
            "policy.gossip.sides: got 5 x 2",
        ),
        (
            refused(Graph::Ring, 1, Some([6, 2])),
            "policy.gossip.sides: got 6 x 2",
        ),
    ] {
        assert!(message.starts_with(start), "{message}");
    }
}

/// True within rounding.
fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3)
}

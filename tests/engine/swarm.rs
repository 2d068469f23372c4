//! Does a swarm keep to its bound, to its closed form, and to what failing and moving peers must do?

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::control::Control;
use scalewright::schedule::swarm::{
    Request, Routing, Service, Swarm, Transfer, expected_per_s, swarm, utilization,
};

fn run(request: &Request) -> Swarm {
    swarm(request, &Control::new()).expect("a swarm that can run")
}

fn close(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * (1e-9 + a.abs().max(b.abs()))
}

fn still(stages: Vec<Vec<f64>>, in_flight: u32) -> Request {
    Request {
        stages,
        trainers: 1,
        in_flight,
        forward_share: 1.0 / 3.0,
        delay_s: 0.0,
        service: Service::Constant,
        routing: Routing::RoundRobin,
        failures_per_s: 0.0,
        joins_per_s: 0.0,
        join_speeds: vec![1.0, 2.0],
        rebalance_s: None,
        move_s: 0.0,
        duration_s: 1_000.0,
        runs: 4,
        seed: 1,
    }
}

fn any_request() -> impl Strategy<Value = Request> {
    let stages = vec(vec(0.2..3.0_f64, 1..5), 1..5);
    let counts = (1..4_u32, 1..9_u32, any::<bool>(), any::<u64>());
    let rates = (0.0..0.02_f64, 0.0..0.05_f64, 0.0..1.0_f64, 0.0..5.0_f64);
    let moves = prop_oneof![Just(None), (1.0..50.0_f64).prop_map(Some)];
    (stages, counts, rates, moves, 0.0..1.0_f64).prop_map(
        |(stages, (trainers, in_flight, even, seed), (fail, join, delay, away), moves, share)| {
            Request {
                trainers,
                forward_share: share,
                delay_s: delay,
                routing: if even {
                    Routing::RoundRobin
                } else {
                    Routing::Random
                },
                failures_per_s: fail,
                joins_per_s: join,
                rebalance_s: moves,
                move_s: away,
                duration_s: 300.0,
                runs: 2,
                seed,
                ..still(stages, in_flight)
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_swarm_gets_more_done_than_its_bound(request in any_request()) {
        let found = run(&request);
        prop_assert!(found.throughput_per_s <= found.bound_per_s * (1.0 + 1e-9), "{found:?}");
        for stage in &found.stages {
            prop_assert!((0.0..=1.0 + 1e-9).contains(&stage.utilization));
            let worked = stage.utilization * stage.speed_per_s;
            prop_assert!(found.throughput_per_s <= worked * (1.0 + 1e-9) + 1e-12, "{found:?}");
            let under_way = f64::from(request.trainers * request.in_flight);
            prop_assert!((-1e-9..=under_way * (1.0 + 1e-9)).contains(&stage.queue));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_swarm(request in any_request()) {
        prop_assert_eq!(run(&request), run(&request));
    }

    #[test]
    fn peers_that_stay_are_there_all_the_time(request in any_request()) {
        let found = run(&Request {
            failures_per_s: 0.0,
            joins_per_s: 0.0,
            rebalance_s: None,
            ..request.clone()
        });
        for (stage, peers) in found.stages.iter().zip(&request.stages) {
            prop_assert!(close(stage.peers, peers.len() as f64, 1e-9));
            prop_assert!(close(stage.speed_per_s, peers.iter().sum(), 1e-9));
        }
        prop_assert!(close(found.bound_per_s, found.static_bound_per_s, 1e-9));
        prop_assert_eq!((found.failures, found.joins, found.moves), (0.0, 0.0, 0.0));
        prop_assert!(found.expected_per_s <= found.static_bound_per_s * (1.0 + 1e-9));
    }
}

#[test]
fn the_closed_form_is_the_mean_of_runs_by_chance() {
    let worlds = [
        (vec![vec![1.0, 3.0], vec![2.0], vec![0.5, 0.5, 2.0]], 1, 0.0),
        (vec![vec![1.0, 3.0], vec![2.0], vec![0.5, 0.5, 2.0]], 6, 0.3),
        (vec![vec![1.0; 4]; 3], 12, 0.0),
        (vec![vec![0.7, 1.9]], 3, 1.0),
    ];
    for (stages, in_flight, delay_s) in worlds {
        let request = Request {
            delay_s,
            forward_share: 0.5,
            service: Service::Exponential,
            routing: Routing::Random,
            duration_s: 20_000.0,
            runs: 16,
            trainers: 2,
            ..still(stages, in_flight)
        };
        let found = run(&request);
        let error = found.standard_error_per_s.expect("of many runs");
        let off = (found.throughput_per_s - found.expected_per_s).abs();
        assert!(off < 4.0 * error, "{found:?}");
        assert!(error < 0.005 * found.throughput_per_s, "{found:?}");
    }
}

#[test]
fn one_peer_and_one_micro_batch_take_turns() {
    let request = Request {
        delay_s: 0.25,
        duration_s: 3_000.0,
        ..still(vec![vec![2.0]], 1)
    };
    // there, a pass down and up, back
    let found = run(&request);
    assert!(close(found.throughput_per_s, 1.0, 1e-3), "{found:?}");
    assert!(close(
        expected_per_s(&request).expect("a closed form"),
        1.0,
        1e-12
    ));
    assert!(close(found.stages[0].utilization, 0.5, 1e-3));
}

#[test]
fn enough_micro_batches_reach_the_bound() {
    let stages = vec![vec![1.0, 2.0, 4.0], vec![3.0, 3.0], vec![8.0]];
    let by = |routing| {
        run(&Request {
            routing,
            trainers: 4,
            ..still(stages.clone(), 12)
        })
    };
    let even = by(Routing::RoundRobin);
    assert!(
        even.throughput_per_s > 0.97 * even.static_bound_per_s,
        "{even:?}"
    );
    assert!(close(even.static_bound_per_s, 6.0, 1e-12));
    let chance = by(Routing::Random);
    assert!(
        chance.throughput_per_s < even.throughput_per_s,
        "{chance:?}"
    );
    assert!(even.throughput_per_s > even.expected_per_s);
}

#[test]
fn peers_move_to_where_they_are_missed() {
    let lopsided = Request {
        duration_s: 5_000.0,
        move_s: 5.0,
        trainers: 4,
        ..still(vec![vec![1.0], vec![1.0; 7], vec![1.0; 4]], 16)
    };
    let stiff = run(&lopsided);
    let moving = run(&Request {
        rebalance_s: Some(60.0),
        ..lopsided
    });
    assert!(close(stiff.bound_per_s, 1.0, 1e-9));
    assert!(
        moving.throughput_per_s > 3.0 * stiff.throughput_per_s,
        "{moving:?}"
    );
    assert!((3.0..10.0).contains(&moving.moves), "{moving:?}");
}

#[test]
fn failures_cost_and_joining_peers_make_up_for_them() {
    let sound = Request {
        duration_s: 5_000.0,
        trainers: 4,
        join_speeds: vec![1.0],
        ..still(vec![vec![1.0; 6]; 4], 16)
    };
    let failing = Request {
        failures_per_s: 1e-3,
        ..sound.clone()
    };
    let (whole, alone) = (run(&sound), run(&failing));
    assert!(
        alone.throughput_per_s < 0.5 * whole.throughput_per_s,
        "{alone:?}"
    );
    assert!(alone.failures > 20.0, "{alone:?}");
    let joined = Request {
        joins_per_s: 24e-3,
        rebalance_s: Some(60.0),
        ..failing
    };
    let joined = run(&joined);
    assert!(
        joined.throughput_per_s > 0.7 * whole.throughput_per_s,
        "{joined:?}"
    );
    assert!(joined.throughput_per_s < joined.bound_per_s);
}

/// Shares of time in which a device computes at 500 Mb/s, by latency (Ryabinin et al. 2023, section 4.1).
const PUBLISHED: [[f64; 5]; 4] = [
    [0.180, 0.118, 0.0488, 0.0278, 0.0153],
    [0.321, 0.289, 0.201, 0.149, 0.101],
    [0.821, 0.793, 0.703, 0.602, 0.485],
    [0.895, 0.872, 0.795, 0.715, 0.592],
];
const LATENCY_S: [f64; 5] = [0.0, 0.01, 0.05, 0.1, 0.2];

#[test]
fn published_shares_follow_from_compute_and_bytes() {
    let rate = 500e6 / 8.0;
    for shares in PUBLISHED {
        // compute and bytes from the first and the last figure alone; those between are held out
        let compute_s = 2.0 * 0.2 / (1.0 / shares[4] - 1.0 / shares[0]);
        let bytes = (1.0 / shares[0] - 1.0) * compute_s / 2.0 * rate;
        for (latency_s, published) in LATENCY_S.into_iter().zip(shares) {
            let transfer = Transfer {
                compute_s,
                bytes,
                bandwidth_bytes_per_s: Some(rate),
                latency_s,
                messages: 2,
            };
            let found = utilization(&transfer).expect("a share");
            assert!(
                close(found, published, 0.045),
                "{latency_s}: {found} against {published}"
            );
        }
    }
}

#[test]
fn what_is_wrong_is_refused_with_the_field() {
    let said = |request: Request| {
        let refused = swarm(&request, &Control::new());
        refused.expect_err("wrong").to_string()
    };
    let right = still(vec![vec![1.0]], 1);
    assert!(
        said(Request {
            stages: vec![vec![1.0], vec![]],
            ..right.clone()
        })
        .contains("stages[1]")
    );
    assert!(
        said(Request {
            stages: vec![vec![0.0]],
            ..right.clone()
        })
        .contains("stages[0][0]")
    );
    assert!(
        said(Request {
            forward_share: 2.0,
            ..right.clone()
        })
        .contains("forward_share: got 2")
    );
    let none = Request {
        joins_per_s: 1.0,
        join_speeds: vec![],
        ..right.clone()
    };
    assert!(said(none).contains("join_speeds: got none"));
    assert!(
        said(Request {
            rebalance_s: Some(0.0),
            ..right.clone()
        })
        .contains("rebalance_s")
    );
    let control = Control::new();
    control.cancel();
    let long = Request {
        duration_s: 1e6,
        ..right
    };
    assert!(
        swarm(&long, &control)
            .expect_err("cancelled")
            .to_string()
            .contains("cancelled")
    );
}

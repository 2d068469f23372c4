//! Do collectives over links that are each pair's own hold their laws, and cost what their transfers take?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

mod witness;
mod world;

use proptest::prelude::*;
use scalewright::collective::{Algorithm, Collective, Pairs, PairsRequest, collective_on_pairs};
use scalewright::control::Control;
use scalewright::units::Bytes;
use world::{World, any_worlds, asked, close, cost, log_uniform, sizes, time, worlds};

const PRICED: [Collective; 8] = [
    Collective::AllReduce,
    Collective::ReduceScatter,
    Collective::AllGather,
    Collective::AllToAll,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::SendReceive,
    Collective::Barrier,
];
/// All orders of `0..ranks` that start with 0.
fn rings(ranks: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![0]];
    for _ in 1..ranks {
        let longer = all.iter().flat_map(|order| {
            let rest = (0..ranks).filter(|rank| !order.contains(rank));
            rest.map(|rank| [&order[..], &[rank]].concat())
        });
        all = longer.collect();
    }
    all
}

/// Least `D + n / r` over every tree away from `root`, or towards it.
fn best_tree(world: &World, root: usize, bytes: f64, inwards: bool) -> f64 {
    let ranks = world.ranks;
    let mut best = f64::INFINITY;
    for code in 0..ranks.pow(u32::try_from(ranks).unwrap()) {
        let mut rest = code;
        let digits = (0..ranks).map(|_| {
            let digit = rest % ranks;
            rest /= ranks;
            digit
        });
        let parents: Vec<usize> = digits.collect();
        if parents[root] == root {
            best = best.min(tree_time(world, root, (&parents, inwards), bytes));
        }
    }
    best
}

fn tree_time(world: &World, root: usize, (parents, inwards): (&[usize], bool), bytes: f64) -> f64 {
    let (mut depth, mut pace) = (0.0_f64, f64::INFINITY);
    for start in 0..world.ranks {
        let (mut rank, mut latency, mut steps) = (start, 0.0, 0);
        while rank != root {
            let parent = parents[rank];
            let (from, to) = if inwards {
                (rank, parent)
            } else {
                (parent, rank)
            };
            latency += world.latencies[from * world.ranks + to];
            pace = pace.min(world.rate(from, to));
            rank = parent;
            steps += 1;
            if steps == world.ranks {
                return f64::INFINITY; // a circle
            }
        }
        depth = depth.max(latency);
    }
    depth + bytes / pace
}

proptest! {
    #[test]
    fn the_order_is_the_best_of_all(world in any_worlds(7), bytes in sizes()) {
        let found = time(&world, Collective::AllGather, bytes, Some(Algorithm::Ring));
        let part = bytes / world.ranks as f64;
        let slowest = |order: &Vec<usize>| {
            let hops = (0..order.len()).map(|i| (order[i], order[(i + 1) % order.len()]));
            hops.map(|(from, to)| world.hop(from, to, part)).fold(0.0, f64::max)
        };
        let best = rings(world.ranks).iter().map(slowest).fold(f64::INFINITY, f64::min);
        prop_assert!(close(found, best * (world.ranks - 1) as f64, 1e-12));
    }

    #[test]
    fn permuting_ranks_permutes_the_answer(
        world in any_worlds(7), bytes in sizes(), names in Just((0..7).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let names: Vec<usize> = names.into_iter().filter(|&name| name < world.ranks).collect();
        let other = world.renamed(&names);
        for collective in [Collective::AllReduce, Collective::AllGather, Collective::AllToAll] {
            let plain = cost(&world, &asked(collective, bytes, None));
            let renamed = cost(&other, &asked(collective, bytes, None));
            prop_assert!(close(plain.time.value(), renamed.time.value(), 1e-12));
            prop_assert!(close(plain.lower_bound.value(), renamed.lower_bound.value(), 1e-12));
            prop_assert_eq!(plain.algorithm, renamed.algorithm);
            if plain.algorithm != Algorithm::Tree {
                let (from, to) = renamed.slowest;
                prop_assert_eq!(plain.slowest, (names[from], names[to]));
            }
        }
    }

    #[test]
    fn a_faster_link_never_slows_anything(
        world in worlds(7, false), bytes in sizes(), link in any::<prop::sample::Index>(),
        faster in 1.0_f64..20.0, nearer in 0.05_f64..1.0,
    ) {
        let mut better = world.clone();
        let at = link.index(world.rates.len());
        better.rates[at] *= faster;
        better.latencies[at] *= nearer;
        for collective in PRICED {
            let (before, after) = (
                cost(&world, &asked(collective, bytes, None)),
                cost(&better, &asked(collective, bytes, None)),
            );
            prop_assert!(after.time.value() <= before.time.value() * (1.0 + 1e-12), "{collective}");
            prop_assert!(before.is_exact);
        }
    }

    #[test]
    fn no_algorithm_beats_the_bound(world in any_worlds(8), bytes in sizes()) {
        let all = [None, Some(Algorithm::Ring), Some(Algorithm::Tree), Some(Algorithm::Direct)];
        for (collective, algorithm) in PRICED.into_iter().flat_map(|c| all.map(|a| (c, a))) {
            let question = asked(collective, bytes, algorithm);
            let found = collective_on_pairs(&world.pairs(), &question, &Control::new());
            if let Ok(found) = found {
                prop_assert!(found.lower_bound.value() <= found.time.value() * (1.0 + 1e-9));
                prop_assert!(found.lower_bound.value() > 0.0 && found.gap().unwrap() >= 0.0);
            } else {
                prop_assert!(algorithm.is_some());
            }
        }
    }

    #[test]
    fn equal_links_give_the_plain_ring(
        ranks in 2_usize..40, rate in log_uniform(1e6, 1e11), latency in 0.0_f64..0.1, bytes in sizes(),
    ) {
        let world = World::even(ranks, rate, latency);
        let found = cost(&world, &asked(Collective::AllReduce, bytes, Some(Algorithm::Ring)));
        let p = ranks as f64;
        // Patarasuk and Yuan 2009
        let plain = 2.0 * (p - 1.0) * (latency + bytes / p / rate);
        prop_assert!(close(found.time.value(), plain, 1e-12));
        prop_assert!(found.is_exact);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_tree_and_its_root_are_the_best_of_all(world in worlds(5, false), bytes in sizes()) {
        let found = |collective| time(&world, collective, bytes, Some(Algorithm::Tree));
        let best = |root, inwards| best_tree(&world, root, bytes, inwards);
        prop_assert!(close(found(Collective::Broadcast), best(0, false), 1e-12));
        prop_assert!(close(found(Collective::Reduce), best(0, true), 1e-12));
        let sums = (0..world.ranks).map(|root| best(root, true) + best(root, false));
        let sum = sums.fold(f64::INFINITY, f64::min);
        prop_assert!(close(found(Collective::AllReduce), sum, 1e-12));
    }

    #[test]
    fn beyond_exact_orders_the_answer_says_how_good_it_is(
        world in worlds(30, false).prop_filter("more ranks", |world| world.ranks > 14), bytes in sizes(),
    ) {
        let found = cost(&world, &asked(Collective::AllGather, bytes, Some(Algorithm::Ring)));
        let mut order = found.order.clone();
        order.sort_unstable();
        prop_assert_eq!(order, (0..world.ranks).collect::<Vec<_>>());
        let (from, to) = found.slowest;
        let part = bytes / world.ranks as f64;
        let steps = (world.ranks - 1) as f64;
        prop_assert!(close(found.time.value(), steps * world.hop(from, to, part), 1e-12));
        // each rank must leave by some hop and be entered by some hop
        let others = |rank: usize| (0..world.ranks).filter(move |&other| other != rank);
        let needed = (0..world.ranks).map(|rank| {
            let out = others(rank).map(|to| world.hop(rank, to, part));
            let into = others(rank).map(|from| world.hop(from, rank, part));
            out.fold(f64::INFINITY, f64::min).max(into.fold(f64::INFINITY, f64::min))
        });
        let needed = steps * needed.fold(0.0, f64::max);
        prop_assert!(found.time.value() >= needed * (1.0 - 1e-12));
        if close(found.time.value(), needed, 1e-12) {
            prop_assert!(found.is_exact);
        }
    }
}

#[test]
fn a_chain_is_as_slow_as_its_slowest_pair() {
    let mut world = World::even(4, 1e9, 1e-3);
    world.rates[2 * 4 + 3] = 1e8;
    let mut question = asked(Collective::SendReceive, 1e9, None);
    let found = cost(&world, &question);
    assert!(close(found.time.value(), 10.001, 1e-12));
    assert_eq!(found.slowest, (2, 3));
    question.chain = &[3, 2, 0];
    let found = cost(&world, &question);
    assert!(close(found.time.value(), 1.001, 1e-12));
    assert_eq!(found.order, [3, 2, 0]);
    // round the far rank nothing takes time, so there is no bound to be a share of
    let mut world = World::even(3, 1e9, 0.0);
    world.latencies[1] = 1.0;
    question.chain = &[0, 1];
    question.bytes = Bytes::ZERO;
    let found = cost(&world, &question);
    assert_eq!(
        (found.lower_bound.value() > 0.0, found.gap()),
        (false, None)
    );
}

#[test]
fn a_missing_link_is_gone_round_where_another_way_is_left() {
    // a line 0 - 1 - 2 - 3: no ring, but a tree
    let mut world = World::even(4, 0.0, f64::NAN);
    for (from, to) in [(0, 1), (1, 2), (2, 3)] {
        for at in [from * 4 + to, to * 4 + from] {
            world.rates[at] = 1e9;
            world.latencies[at] = 1e-3;
        }
    }
    let found = cost(&world, &asked(Collective::AllReduce, 1e9, None));
    assert_eq!(found.algorithm, Algorithm::Tree);
    // the root is in the middle: two hops deep, in and out
    assert!(close(found.time.value(), 2.0 * (0.002 + 1.0), 1e-12));
    let refused = |collective| {
        let question = asked(collective, 1e9, None);
        let answer = collective_on_pairs(&world.pairs(), &question, &Control::new());
        answer.unwrap_err().to_string()
    };
    let error = refused(Collective::AllGather);
    assert!(
        error.contains("no ring over all ranks was found"),
        "{error}"
    );
    let error = refused(Collective::AllToAll);
    assert!(error.contains("no link from rank 0 to rank 2"), "{error}");
    world.rates[2 * 4 + 3] = 0.0;
    let question = asked(Collective::AllReduce, 1e9, None);
    let answer = collective_on_pairs(&world.pairs(), &question, &Control::new());
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("rank 3 is not cut off"), "{error}");
}

#[test]
fn many_ranks_of_a_few_sites_find_the_ring_that_leaves_each_site_once() {
    let (ranks, sites) = (60, 5);
    let mut world = World::even(ranks, 1e10, 1e-5);
    for at in 0..ranks * ranks {
        let (from, to) = (at / ranks % sites, at % ranks % sites);
        // each site reaches only the next quickly
        if to == (from + 1) % sites {
            (world.rates[at], world.latencies[at]) = (1e8, 0.02);
        } else if to != from {
            (world.rates[at], world.latencies[at]) = (1e7, 0.1);
        }
    }
    let found = cost(
        &world,
        &asked(Collective::AllReduce, 1e9, Some(Algorithm::Ring)),
    );
    assert!(found.is_exact);
    let hop = 0.02 + 1e9 / 60.0 / 1e8;
    assert!(close(found.time.value(), 118.0 * hop, 1e-12));
}

#[test]
fn wrong_input_is_refused_by_place() {
    let world = World::even(3, 1e9, 1e-3);
    let with = |change: &dyn Fn(&mut World)| {
        let mut other = world.clone();
        change(&mut other);
        Pairs::new(&other.matrices()).unwrap_err().to_string()
    };
    let negative = with(&|world| world.rates[5] = -1.0);
    assert!(
        negative.starts_with("bandwidth_bytes_per_s[1][2]: got -1"),
        "{negative}"
    );
    let unknown = with(&|world| world.rates[3] = f64::NAN);
    assert!(
        unknown.starts_with("bandwidth_bytes_per_s[1][0]: got NaN"),
        "{unknown}"
    );
    let late = with(&|world| world.latencies[1] = f64::INFINITY);
    assert!(late.starts_with("latency_s[0][1]: got inf"), "{late}");
    let shape = with(&|world| world.rates.truncate(8));
    assert!(shape.contains("8 numbers; allowed: 3 x 3"), "{shape}");
    let port = with(&|world| world.ports = Some((vec![1e9, 0.0, 1e9], vec![1e9; 3])));
    assert!(port.starts_with("port_out_bytes_per_s[1]: got 0"), "{port}");
    let one = Pairs::new(&World::even(1, 1e9, 0.0).matrices()).unwrap_err();
    assert!(one.to_string().contains("ranks: got 1; allowed: 2 to 512"));
    let many = Pairs::new(&World::even(513, 1e9, 0.0).matrices()).unwrap_err();
    assert!(many.to_string().contains("ranks: got 513"));
    let refused = |question: &PairsRequest| {
        let answer = collective_on_pairs(&world.pairs(), question, &Control::new());
        answer.unwrap_err().to_string()
    };
    let plain = asked(Collective::Broadcast, 1.0, None);
    assert!(refused(&PairsRequest { root: 3, ..plain }).starts_with("root: got 3"));
    assert!(
        refused(&PairsRequest {
            chain: &[0, 1, 0],
            ..plain
        })
        .starts_with("chain[2]: got 0")
    );
    assert!(
        refused(&PairsRequest {
            chain: &[2],
            ..plain
        })
        .starts_with("chain: got 1 ranks")
    );
    assert!(refused(&asked(Collective::Gather, 1.0, None)).starts_with("collective: got gather"));
    let ring = asked(Collective::Broadcast, 1.0, Some(Algorithm::Ring));
    assert!(refused(&ring).contains("got ring for broadcast; allowed: tree"));
    let bytes = asked(Collective::AllReduce, f64::NAN, None);
    assert!(refused(&bytes).starts_with("buffer_bytes: got NaN"));
    let control = Control::new();
    control.cancel();
    let large = World::even(30, 1e9, 1e-3).pairs();
    let stopped = collective_on_pairs(&large, &asked(Collective::AllReduce, 1e9, None), &control);
    assert!(stopped.unwrap_err().to_string().starts_with("cancelled"));
}

//! Do collectives over links that are each pair's own hold their laws, and cost what their transfers take?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::collective::{
    Algorithm, Collective, Matrices, OnPairs, Pairs, PairsCost, collective_on_pairs,
};
use scalewright::control::Control;
use scalewright::solve::{Flows, Link, Simulation, Transfer};
use scalewright::units::Bytes;

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
/// Segments in which a simulated tree moves: filling it costs less than 1 % then.
const SEGMENTS: usize = 1000;

/// Ranks, the links between them, and what their ports allow.
#[derive(Debug, Clone)]
struct World {
    ranks: usize,
    rates: Vec<f64>,
    latencies: Vec<f64>,
    ports: Option<(Vec<f64>, Vec<f64>)>,
}

impl World {
    fn pairs(&self) -> Pairs {
        Pairs::new(&self.matrices()).unwrap()
    }

    fn matrices(&self) -> Matrices<'_> {
        Matrices {
            ranks: self.ranks,
            rates: &self.rates,
            latencies: &self.latencies,
            out: self.ports.as_ref().map(|(out, _)| &out[..]),
            into: self.ports.as_ref().map(|(_, into)| &into[..]),
        }
    }

    fn even(ranks: usize, rate: f64, latency: f64) -> Self {
        Self {
            ranks,
            rates: vec![rate; ranks * ranks],
            latencies: vec![latency; ranks * ranks],
            ports: None,
        }
    }

    fn port(&self, rank: usize) -> (f64, f64) {
        let free = (f64::INFINITY, f64::INFINITY);
        let limits = self.ports.as_ref();
        limits.map_or(free, |(out, into)| (out[rank], into[rank]))
    }

    fn rate(&self, from: usize, to: usize) -> f64 {
        let ports = self.port(from).0.min(self.port(to).1);
        self.rates[from * self.ranks + to].min(ports)
    }

    fn hop(&self, from: usize, to: usize, bytes: f64) -> f64 {
        self.latencies[from * self.ranks + to] + bytes / self.rate(from, to)
    }

    /// Rank `i` of the result is rank `names[i]` of this.
    fn renamed(&self, names: &[usize]) -> Self {
        let pick = |matrix: &[f64]| -> Vec<f64> {
            let row = |&i: &usize| names.iter().map(move |&j| matrix[i * self.ranks + j]);
            names.iter().flat_map(row).collect()
        };
        let each = |list: &[f64]| names.iter().map(|&i| list[i]).collect();
        let ports = self.ports.as_ref();
        Self {
            ranks: self.ranks,
            rates: pick(&self.rates),
            latencies: pick(&self.latencies),
            ports: ports.map(|(out, into)| (each(out), each(into))),
        }
    }
}

fn log_uniform(from: f64, to: f64) -> impl Strategy<Value = f64> {
    (from.ln()..to.ln()).prop_map(f64::exp)
}

fn worlds(most: usize, with_ports: bool) -> impl Strategy<Value = World> {
    (2..=most).prop_flat_map(move |ranks| {
        let links = (
            vec(log_uniform(1e6, 1e10), ranks * ranks),
            vec(log_uniform(1e-6, 0.3), ranks * ranks),
        );
        let ports = (
            vec(log_uniform(1e7, 1e10), ranks),
            vec(log_uniform(1e7, 1e10), ranks),
        );
        (links, ports).prop_map(move |((rates, latencies), ports)| World {
            ranks,
            rates,
            latencies,
            ports: with_ports.then_some(ports),
        })
    })
}

fn any_worlds(most: usize) -> impl Strategy<Value = World> {
    prop_oneof![worlds(most, false), worlds(most, true)]
}

fn sizes() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), log_uniform(1e2, 1e10)]
}

fn asked(collective: Collective, bytes: f64, algorithm: Option<Algorithm>) -> OnPairs<'static> {
    OnPairs {
        collective,
        bytes: Bytes::new(bytes),
        algorithm,
        root: 0,
        chain: &[],
    }
}

fn cost(world: &World, asked: &OnPairs) -> PairsCost {
    collective_on_pairs(&world.pairs(), asked, &Control::new()).unwrap()
}

fn time(world: &World, collective: Collective, bytes: f64, algorithm: Option<Algorithm>) -> f64 {
    cost(world, &asked(collective, bytes, algorithm))
        .time
        .value()
}

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
    for mut rank in 0..world.ranks {
        let (mut latency, mut steps) = (0.0, 0);
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

/// Transfers over the links of a world, each pair's own between the ports at its ends.
struct Wires<'a> {
    world: &'a World,
    flows: Flows,
}

impl<'a> Wires<'a> {
    /// Links as they are, or slower where `paces` says so.
    fn new(world: &'a World, paces: &dyn Fn(usize, usize) -> f64) -> Self {
        let ranks = world.ranks;
        let mut links: Vec<Link> = (0..ranks * ranks)
            .map(|at| Link {
                capacity: world.rates[at].min(paces(at / ranks, at % ranks)),
                latency: world.latencies[at],
            })
            .collect();
        for rank in 0..ranks {
            let (out, into) = world.port(rank);
            for port in [out, into] {
                let capacity = port.min(1e30);
                links.push(Link {
                    capacity,
                    latency: 0.0,
                });
            }
        }
        let flows = Flows::new(links).unwrap();
        Self { world, flows }
    }

    fn send(
        &mut self,
        (from, to): (usize, usize),
        size: f64,
        after: &[u32],
        behind: Option<u32>,
    ) -> u32 {
        let ranks = self.world.ranks;
        let ports = ranks * ranks;
        let route = [ports + 2 * from, from * ranks + to, ports + 2 * to + 1];
        let route = route.map(|link| u32::try_from(link).unwrap());
        let transfer = Transfer {
            size,
            route: &route,
            after,
            behind,
            ..Transfer::default()
        };
        self.flows.push(&transfer).unwrap()
    }

    fn meet(&mut self, after: &[u32]) -> u32 {
        let transfer = Transfer {
            after,
            ..Transfer::default()
        };
        self.flows.push(&transfer).unwrap()
    }

    fn end(&self) -> f64 {
        Simulation::new(&self.flows).run().end()
    }

    /// A buffer along a tree's edges, segment by segment, each on once all segments before it came.
    fn tree(&mut self, edges: &[(usize, usize)], bytes: f64, start: &[u32]) -> Vec<u32> {
        let mut sent: Vec<Option<u32>> = vec![None; edges.len()];
        for _ in 0..SEGMENTS {
            let mut now: Vec<Option<u32>> = vec![None; edges.len()];
            while let Some(next) = (0..edges.len()).find(|&e| {
                let ready = |f: usize| edges[f].1 != edges[e].0 || now[f].is_some();
                now[e].is_none() && (0..edges.len()).all(ready)
            }) {
                let before = (0..edges.len()).filter(|&f| edges[f].1 == edges[next].0);
                let mut after: Vec<u32> = before.filter_map(|f| now[f]).collect();
                after.extend_from_slice(start);
                let size = bytes / SEGMENTS as f64;
                now[next] = Some(self.send(edges[next], size, &after, sent[next]));
            }
            sent = now;
        }
        sent.into_iter().flatten().collect()
    }
}

/// Steps in which each rank waits for its part, and for its own last part to arrive.
fn simulated_ring(world: &World, order: &[usize], steps: usize, part: f64) -> f64 {
    let mut wires = Wires::new(world, &|_, _| f64::INFINITY);
    let ranks = order.len();
    let mut last: Vec<u32> = Vec::new();
    for step in 0..steps {
        let now = (0..ranks).map(|place| {
            let hop = (order[place], order[(place + 1) % ranks]);
            let waits = if step == 0 {
                vec![]
            } else {
                vec![last[place], last[(place + ranks - 1) % ranks]]
            };
            wires.send(hop, part, &waits, None)
        });
        last = now.collect();
    }
    wires.end()
}

fn simulated_direct(world: &World, shots: usize, part: f64, is_paced: bool) -> f64 {
    let others = (world.ranks - 1) as f64;
    let share = |from: usize, to: usize| world.port(from).0.min(world.port(to).1) / others;
    let free = |_: usize, _: usize| f64::INFINITY;
    let mut wires = Wires::new(world, if is_paced { &share } else { &free });
    let mut ready = vec![];
    for _ in 0..shots {
        let mut all = Vec::new();
        for from in 0..world.ranks {
            for to in (0..world.ranks).filter(|&to| to != from) {
                all.push(wires.send((from, to), part, &ready, None));
            }
        }
        ready = vec![wires.meet(&all)];
    }
    wires.end()
}

/// A sum inwards where the first half of the edges says so, then a broadcast outwards.
fn simulated_trees(world: &World, found: &PairsCost, asked: &OnPairs, is_paced: bool) -> f64 {
    let count = world.ranks - 1;
    let (up, down) = match asked.collective {
        Collective::Broadcast => found.edges.split_at(0),
        _ => found.edges.split_at(count),
    };
    let bytes = asked.bytes.value();
    let mut total = 0.0;
    for (edges, inwards) in [(up, true), (down, false)] {
        let shared = |end: usize| {
            let ends = edges.iter().map(|e| if inwards { e.1 } else { e.0 });
            ends.filter(|&other| other == end).count() as f64
        };
        let share = |&(from, to): &(usize, usize)| {
            let (out, into) = (world.port(from).0, world.port(to).1);
            let (out, into) = if inwards {
                (out, into / shared(to))
            } else {
                (out / shared(from), into)
            };
            world.rates[from * world.ranks + to].min(out).min(into)
        };
        let pace = edges.iter().map(share).fold(f64::INFINITY, f64::min);
        let pace = if is_paced { pace } else { f64::INFINITY };
        let mut wires = Wires::new(world, &|_, _| pace);
        wires.tree(edges, bytes, &[]);
        total += wires.end();
    }
    total
}

fn close(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * a.max(b)
}

proptest! {
    #[test]
    fn a_ring_takes_as_long_as_its_transfers(world in any_worlds(7), bytes in sizes()) {
        for (collective, passes) in [(Collective::AllReduce, 2), (Collective::AllGather, 1)] {
            let found = cost(&world, &asked(collective, bytes, Some(Algorithm::Ring)));
            let part = bytes / world.ranks as f64;
            let steps = passes * (world.ranks - 1);
            let simulated = simulated_ring(&world, &found.order, steps, part);
            prop_assert!(close(found.time.value(), simulated, 1e-9), "{found:?} {simulated}");
        }
    }

    #[test]
    fn direct_takes_as_long_as_its_transfers(world in any_worlds(7), bytes in sizes()) {
        for (collective, shots) in [(Collective::AllReduce, 2), (Collective::AllToAll, 1)] {
            let found = time(&world, collective, bytes, Some(Algorithm::Direct));
            let part = bytes / world.ranks as f64;
            let paced = simulated_direct(&world, shots, part, true);
            prop_assert!(close(found, paced, 1e-9), "{found} {paced}");
            // fair shares are never less than equal ones
            let fair = simulated_direct(&world, shots, part, false);
            prop_assert!(fair <= found * (1.0 + 1e-9), "{found} {fair}");
        }
    }

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
                prop_assert!(found.lower_bound.value() > 0.0 && found.gap() >= 0.0);
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
    fn a_tree_takes_as_long_as_its_transfers(world in any_worlds(6), bytes in sizes()) {
        for collective in [Collective::AllReduce, Collective::Broadcast, Collective::Reduce] {
            let question = asked(collective, bytes, Some(Algorithm::Tree));
            let found = cost(&world, &question);
            let paced = simulated_trees(&world, &found, &question, true);
            prop_assert!(close(found.time.value(), paced, 0.01), "{found:?} {paced}");
            let free = simulated_trees(&world, &found, &question, false);
            prop_assert!(free <= found.time.value() * 1.01, "{found:?} {free}");
        }
    }

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
    let shape = with(&|world| drop(world.rates.pop()));
    assert!(shape.contains("8 numbers; allowed: 3 x 3"), "{shape}");
    let port = with(&|world| world.ports = Some((vec![1e9, 0.0, 1e9], vec![1e9; 3])));
    assert!(port.starts_with("port_out_bytes_per_s[1]: got 0"), "{port}");
    let one = Pairs::new(&World::even(1, 1e9, 0.0).matrices()).unwrap_err();
    assert!(one.to_string().contains("ranks: got 1; allowed: 2 to 512"));
    let many = Pairs::new(&World::even(513, 1e9, 0.0).matrices()).unwrap_err();
    assert!(many.to_string().contains("ranks: got 513"));
    let refused = |question: &OnPairs| {
        let answer = collective_on_pairs(&world.pairs(), question, &Control::new());
        answer.unwrap_err().to_string()
    };
    let plain = asked(Collective::Broadcast, 1.0, None);
    assert!(refused(&OnPairs { root: 3, ..plain }).starts_with("root: got 3"));
    assert!(
        refused(&OnPairs {
            chain: &[0, 1, 0],
            ..plain
        })
        .starts_with("chain[2]: got 0")
    );
    assert!(
        refused(&OnPairs {
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

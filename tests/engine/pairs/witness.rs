//! Do closed forms over pairs take as long as their transfers, when links and ports are shared fairly?

use crate::pairs::world::{World, any_worlds, asked, close, cost, sizes, time};
use proptest::prelude::*;
use scalewright::collective::{Algorithm, Collective, PairsCost, PairsRequest};
use scalewright::solve::{Flows, Link, Simulation, Transfer};

/// Segments in which a simulated tree moves: filling it costs less than 1 % then.
const SEGMENTS: usize = 1000;

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
    fn tree(&mut self, edges: &[(usize, usize)], bytes: f64) {
        let mut sent: Vec<Option<u32>> = vec![None; edges.len()];
        for _ in 0..SEGMENTS {
            let mut now: Vec<Option<u32>> = vec![None; edges.len()];
            while let Some(next) = (0..edges.len()).find(|&e| {
                let ready = |f: usize| edges[f].1 != edges[e].0 || now[f].is_some();
                now[e].is_none() && (0..edges.len()).all(ready)
            }) {
                let before = (0..edges.len()).filter(|&f| edges[f].1 == edges[next].0);
                let after: Vec<u32> = before.filter_map(|f| now[f]).collect();
                let size = bytes / SEGMENTS as f64;
                now[next] = Some(self.send(edges[next], size, &after, sent[next]));
            }
            sent = now;
        }
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
fn simulated_trees(world: &World, found: &PairsCost, asked: &PairsRequest, is_paced: bool) -> f64 {
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
        wires.tree(edges, bytes);
        total += wires.end();
    }
    total
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
}

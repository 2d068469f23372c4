//! Which random ranks and links are priced, and how is a question asked of them?

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::collective::{
    Algorithm, Collective, Matrices, Pairs, PairsCost, PairsRequest, collective_on_pairs,
};
use scalewright::control::Control;
use scalewright::units::Bytes;

/// Ranks, the links between them, and what their ports allow.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) ranks: usize,
    pub(crate) rates: Vec<f64>,
    pub(crate) latencies: Vec<f64>,
    pub(crate) ports: Option<(Vec<f64>, Vec<f64>)>,
}

impl World {
    pub(crate) fn pairs(&self) -> Pairs {
        Pairs::new(&self.matrices()).unwrap()
    }

    pub(crate) fn matrices(&self) -> Matrices<'_> {
        Matrices {
            ranks: self.ranks,
            rates: &self.rates,
            latencies: &self.latencies,
            out: self.ports.as_ref().map(|(out, _)| &out[..]),
            into: self.ports.as_ref().map(|(_, into)| &into[..]),
        }
    }

    pub(crate) fn even(ranks: usize, rate: f64, latency: f64) -> Self {
        Self {
            ranks,
            rates: vec![rate; ranks * ranks],
            latencies: vec![latency; ranks * ranks],
            ports: None,
        }
    }

    pub(crate) fn port(&self, rank: usize) -> (f64, f64) {
        let free = (f64::INFINITY, f64::INFINITY);
        let limits = self.ports.as_ref();
        limits.map_or(free, |(out, into)| (out[rank], into[rank]))
    }

    pub(crate) fn rate(&self, from: usize, to: usize) -> f64 {
        let ports = self.port(from).0.min(self.port(to).1);
        self.rates[from * self.ranks + to].min(ports)
    }

    pub(crate) fn hop(&self, from: usize, to: usize, bytes: f64) -> f64 {
        self.latencies[from * self.ranks + to] + bytes / self.rate(from, to)
    }

    /// Rank `i` of the result is rank `names[i]` of this.
    pub(crate) fn renamed(&self, names: &[usize]) -> Self {
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

pub(crate) fn log_uniform(from: f64, to: f64) -> impl Strategy<Value = f64> {
    (from.ln()..to.ln()).prop_map(f64::exp)
}

pub(crate) fn worlds(most: usize, with_ports: bool) -> impl Strategy<Value = World> {
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

pub(crate) fn any_worlds(most: usize) -> impl Strategy<Value = World> {
    prop_oneof![worlds(most, false), worlds(most, true)]
}

pub(crate) fn sizes() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), log_uniform(1e2, 1e10)]
}

pub(crate) fn asked(
    collective: Collective,
    bytes: f64,
    algorithm: Option<Algorithm>,
) -> PairsRequest<'static> {
    PairsRequest {
        collective,
        bytes: Bytes::new(bytes),
        algorithm,
        root: 0,
        chain: &[],
    }
}

pub(crate) fn cost(world: &World, asked: &PairsRequest) -> PairsCost {
    collective_on_pairs(&world.pairs(), asked, &Control::new()).unwrap()
}

pub(crate) fn time(
    world: &World,
    collective: Collective,
    bytes: f64,
    algorithm: Option<Algorithm>,
) -> f64 {
    cost(world, &asked(collective, bytes, algorithm))
        .time
        .value()
}

pub(crate) fn close(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * a.max(b)
}

//! Do the closed forms of collectives take as long as their transfers do on the links?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

mod worlds;

use proptest::prelude::*;
use scalewright::collective::{Algorithm, Collective, Form, Forms, Ranks, transfers};
use scalewright::hardware::{Cluster, Group, LevelKind, Library};
use scalewright::solve::Simulation;
use scalewright::units::Bytes;
use std::fmt;
use worlds::cluster;

const REDUCING: [Collective; 3] = [
    Collective::AllReduce,
    Collective::ReduceScatter,
    Collective::AllGather,
];

/// A fabric, a group on it with its siblings, and a buffer.
#[derive(Clone)]
struct Case {
    cluster: Cluster,
    ranks: Ranks,
    bytes: f64,
}

impl fmt::Debug for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = self.cluster.system.levels.iter();
        let levels: Vec<_> = levels
            .map(|l| {
                (
                    l.kind,
                    l.devices,
                    l.bandwidth,
                    l.latency,
                    l.oversubscription,
                    &l.dims,
                    l.wrap,
                )
            })
            .collect();
        write!(out, "{levels:?} {:?} {} bytes", self.ranks, self.bytes)
    }
}

impl Case {
    fn group(&self) -> Group {
        self.cluster.group(self.ranks.stride, self.ranks.size)
    }

    /// The closed form of `algorithm`.
    fn form(&self, algorithm: Algorithm, collective: Collective) -> Form {
        let forms = Forms::forced(algorithm, collective, &self.group(), &self.cluster);
        forms.unwrap().all()[0]
    }

    /// End of the last transfer; no link may have carried more than it can.
    fn simulated(&self, algorithm: Algorithm, collective: Collective) -> f64 {
        let bytes = Bytes::new(self.bytes);
        let flows = transfers(algorithm, collective, &self.cluster, self.ranks, bytes).unwrap();
        let mut simulation = Simulation::new(&flows);
        let outcome = simulation.run();
        for (link, load) in flows.links().iter().zip(&outcome.loads) {
            assert!(
                load.peak <= link.capacity * (1.0 + 1e-9),
                "{load:?} on {link:?}"
            );
        }
        outcome.end()
    }

    fn bound(&self, collective: Collective) -> f64 {
        let forms = Forms::new(collective, &self.group(), &self.cluster);
        forms.lower_bound(Bytes::new(self.bytes)).value()
    }

    /// The simulation is within 1% of the form; above the bound in any case.
    fn agrees(&self, algorithm: Algorithm, collective: Collective) {
        let simulated = self.simulated(algorithm, collective);
        assert!(
            simulated >= self.bound(collective) * (1.0 - 1e-9),
            "{self:?}"
        );
        if self.ranks.size == 1 {
            return; // nobody to talk with: no form
        }
        let form = self.form(algorithm, collective);
        let ratio = simulated / form.time(Bytes::new(self.bytes)).value();
        assert!((ratio - 1.0).abs() < 0.01, "{ratio} {form:?} {self:?}");
    }

    /// The same buffer, so large that the byte term is all but the whole time.
    fn with_large_buffer(mut self) -> Self {
        self.bytes = 1e15;
        self
    }
}

/// Nodes on a switch, perhaps leaves and a spine, all sizes powers of two; messages cost their latency
/// and their bytes.
fn switched(most_levels: usize) -> impl Strategy<Value = Case> {
    let level = (10_u32..500, 5_u32..200, 1_u32..5);
    let levels = proptest::collection::vec(level, 1..=most_levels);
    let sizes = (1_u32..4, 1_u32..3, 0_u32..3);
    let group = (0_u32..6, 1_u32..6, 10.0_f64..33.0);
    (levels, sizes, group).prop_map(|(levels, sizes, (stride, size, bytes))| {
        let counts = [sizes.0, sizes.0 + sizes.1, sizes.0 + sizes.1 + sizes.2];
        let last = levels.len() - 1;
        let total = counts[last].max(stride + 1);
        let entries: Vec<String> = levels.iter().enumerate().map(|(i, (rate, latency, over))| {
            let kind = if i == 0 { "switch" } else { "fat-tree" };
            let devices = 1 << if i == last { total } else { counts[i] };
            let over = if i == 0 { 1 } else { *over };
            format!(
                r#"{{"name": "level-{i}", "kind": "{kind}", "devices": {devices}, "hierarchical": true,
                "bandwidth": "{rate} GB/s", "latency": "{latency}e-7 s", "oversubscription": {over}}}"#
            )
        }).collect();
        let stride = stride.min(total - 1);
        let size = size.min(total - stride);
        case(&entries, 1 << total, (1 << stride, 1 << size), bytes)
    })
}

/// Nodes on a switch, perhaps leaves and a spine, with groups of any size and stride that need not line up
/// with any of them.
fn uneven(most_levels: usize) -> impl Strategy<Value = Case> {
    let level = (10_u32..500, 5_u32..200, 1_u32..5);
    let levels = proptest::collection::vec(level, 2..=most_levels);
    let sizes = (2_u32..10, 2_u32..5);
    let group = (1_u32..8, 2_u32..12, 1_u32..8);
    (levels, sizes, group).prop_map(|(levels, sizes, (stride, size, blocks))| {
        let counts = [sizes.0, sizes.0 * sizes.1];
        let last = levels.len() - 1;
        let total = stride * size * blocks;
        let entries: Vec<String> = levels.iter().enumerate().map(|(i, (rate, latency, over))| {
            let kind = if i == 0 { "switch" } else { "fat-tree" };
            let devices = if i == last { total.next_multiple_of(counts[last - 1]) } else { counts[i] };
            let over = if i == 0 { 1 } else { *over };
            format!(
                r#"{{"name": "level-{i}", "kind": "{kind}", "devices": {devices}, "hierarchical": true,
                "bandwidth": "{rate} GB/s", "latency": "{latency}e-7 s", "oversubscription": {over}}}"#
            )
        }).collect();
        case(&entries, total, (stride, size), 50.0)
    })
}

fn case(levels: &[String], devices: u32, (stride, size): (u32, u32), log_bytes: f64) -> Case {
    let mut cluster = cluster(&format!("[{}]", levels.join(",")), devices);
    for level in &mut cluster.system.levels {
        level.library = Some(Library::PLAIN);
    }
    Case {
        cluster,
        ranks: Ranks { stride, size },
        bytes: log_bytes.exp2(),
    }
}

/// A group that fills whole dimensions of one extent, on a torus or an open mesh network.
fn bucketed() -> impl Strategy<Value = Case> {
    let shape = (2_u32..6, 1_u32..4, any::<bool>());
    let figures = (10_u32..500, 5_u32..200, 10.0_f64..33.0);
    (shape, figures, 0_u32..3, 1_u32..4).prop_map(|((extent, axes, wrap), (rate, latency, bytes), skip, used)| {
        let (skip, used) = (skip.min(axes - 1), used.min(axes));
        let used = used.min(axes - skip);
        let devices = extent.pow(axes);
        let dims = vec![extent; axes as usize];
        let level = format!(
            r#"{{"name": "ici", "kind": "torus", "devices": {devices}, "bandwidth": "{rate} GB/s",
            "latency": "{latency}e-7 s", "dims": {dims:?}, "wrap": {wrap}}}"#
        );
        case(&[level], devices, (extent.pow(skip), extent.pow(used)), bytes)
    })
}

/// A group inside one mesh of direct links.
fn meshed() -> impl Strategy<Value = Case> {
    let place = (2_u32..12, 1_u32..4, 2_u32..12);
    (place, 10_u32..500, 5_u32..200, 10.0_f64..33.0).prop_map(|((devices, stride, size), rate, latency, bytes)| {
        let stride = stride.min(devices / 2);
        let size = size.min(devices / stride);
        let level = format!(
            r#"{{"name": "links", "kind": "mesh", "devices": {devices}, "bandwidth": "{rate} GB/s",
            "latency": "{latency}e-7 s"}}"#
        );
        case(&[level], devices, (stride, size), bytes)
    })
}

proptest! {
    #[test]
    fn a_ring_inside_one_level_takes_its_closed_form(case in switched(1), i in 0_usize..3) {
        case.agrees(Algorithm::Ring, REDUCING[i]);
    }

    #[test]
    fn a_ring_across_levels_with_siblings_takes_its_closed_form(case in switched(3), i in 0_usize..3) {
        case.with_large_buffer().agrees(Algorithm::Ring, REDUCING[i]);
    }

    #[test]
    fn an_all_to_all_takes_its_closed_form(case in switched(3)) {
        case.with_large_buffer().agrees(Algorithm::Pairwise, Collective::AllToAll);
    }

    #[test]
    fn an_all_to_all_inside_one_level_takes_its_closed_form(case in switched(1)) {
        case.agrees(Algorithm::Pairwise, Collective::AllToAll);
    }

    #[test]
    fn level_by_level_takes_its_closed_form(case in switched(3), i in 0_usize..4) {
        let collective = REDUCING.get(i).copied().unwrap_or(Collective::AllToAll);
        case.agrees(Algorithm::Hierarchical, collective);
    }

    #[test]
    fn a_ring_of_any_stride_and_size_takes_its_closed_form(case in uneven(3), i in 0_usize..3) {
        case.agrees(Algorithm::Ring, REDUCING[i]);
    }

    #[test]
    fn an_all_to_all_of_any_stride_and_size_takes_its_closed_form(case in uneven(3)) {
        case.agrees(Algorithm::Pairwise, Collective::AllToAll);
    }

    #[test]
    fn one_message_takes_its_closed_form(mut case in switched(3)) {
        case.ranks.size = 2;
        case.agrees(Algorithm::PointToPoint, Collective::SendReceive);
    }

    #[test]
    fn buckets_on_a_torus_take_their_closed_form(case in bucketed(), i in 0_usize..3) {
        case.agrees(Algorithm::Torus, REDUCING[i]);
    }

    #[test]
    fn direct_links_take_their_closed_form(case in meshed(), i in 0_usize..3) {
        prop_assert_eq!(case.cluster.system.levels[0].kind, LevelKind::Mesh);
        case.agrees(Algorithm::Direct, REDUCING[i]);
    }
}

//! Random fabrics with a group and a buffer, on which a closed form and its transfers are compared.

use super::cluster;
use proptest::prelude::*;
use scalewright::collective::{Algorithm, Collective, Forms, Ranks, transfers};
use scalewright::hardware::{Cluster, Group, Host, LevelKind, Library};
use scalewright::solve::Simulation;
use scalewright::units::{Bytes, BytesPerSecond};
use std::fmt;

/// The collectives that reduce or gather on all ranks alike.
pub const REDUCING: [Collective; 3] = [
    Collective::AllReduce,
    Collective::ReduceScatter,
    Collective::AllGather,
];

/// A fabric, a group on it with its siblings, and a buffer.
#[derive(Clone)]
pub struct Case {
    pub cluster: Cluster,
    pub ranks: Ranks,
    pub bytes: f64,
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
                    &l.wrap,
                )
            })
            .collect();
        let host = &self.cluster.system.host;
        let (ranks, bytes) = (self.ranks, self.bytes);
        write!(out, "{levels:?} {host:?} {ranks:?} {bytes} bytes")
    }
}

impl Case {
    pub fn group(&self) -> Group {
        self.cluster.group(self.ranks.stride, self.ranks.size)
    }

    /// Time of the closed form of `algorithm`.
    pub fn formed(&self, algorithm: Algorithm, collective: Collective) -> f64 {
        let forms = Forms::forced(algorithm, collective, &self.group(), &self.cluster);
        forms.unwrap().time(Bytes::new(self.bytes)).value()
    }

    /// As `formed`, zero for a group of one.
    pub fn formed_or_free(&self, algorithm: Algorithm, collective: Collective) -> f64 {
        if self.ranks.size == 1 {
            return 0.0;
        }
        self.formed(algorithm, collective)
    }

    /// End of the last transfer; no link may have carried more than it can.
    pub fn simulated(&self, algorithm: Algorithm, collective: Collective) -> f64 {
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

    pub fn bound(&self, collective: Collective) -> f64 {
        let forms = Forms::new(collective, &self.group(), &self.cluster);
        forms.lower_bound(Bytes::new(self.bytes)).value()
    }

    /// Simulated over formed time; 1 for a group of one. The simulation is above the bound in any case.
    pub fn ratio(&self, algorithm: Algorithm, collective: Collective) -> f64 {
        if self.ranks.size == 1 {
            return 1.0; // nobody to talk with: no form
        }
        let simulated = self.simulated(algorithm, collective);
        let bound = self.bound(collective);
        assert!(
            simulated >= bound * (1.0 - 1e-9),
            "{simulated} < {bound}: {self:?}"
        );
        simulated / self.formed(algorithm, collective)
    }

    /// The simulation is within 1% of the form.
    pub fn agrees(&self, algorithm: Algorithm, collective: Collective) {
        let ratio = self.ratio(algorithm, collective);
        assert!(
            (ratio - 1.0).abs() < 0.01,
            "{ratio} {algorithm:?} {collective:?} {self:?}"
        );
    }

    /// The form is an upper bound: the simulation takes no longer, but for what uneven sharing loses.
    pub fn stays_below(&self, algorithm: Algorithm, collective: Collective) {
        let ratio = self.ratio(algorithm, collective);
        assert!(
            ratio <= 1.05,
            "{ratio} {algorithm:?} {collective:?} {self:?}"
        );
    }

    /// The same fabric, its levels in such an order that each is slower than those inside it.
    pub fn narrowing(mut self) -> Self {
        let levels = &mut self.cluster.system.levels;
        for i in 1..levels.len() {
            let (inner, outer) = (levels[i - 1].clone(), &mut levels[i]);
            outer.oversubscription = 1.0;
            outer.bandwidth = outer.bandwidth.min(inner.bandwidth);
            outer.latency = outer.latency.max(inner.latency);
        }
        self
    }

    /// The same buffer, so large that the byte term is all but the whole time.
    pub fn with_large_buffer(mut self) -> Self {
        self.bytes = 1e15;
        self
    }
}

/// Nodes on a switch, perhaps with buses inside (up to eight devices), leaves and a spine, all sizes powers of two;
/// messages cost their latency and their bytes.
pub fn switched(most_levels: usize) -> impl Strategy<Value = Case> {
    let level = (10_u32..500, 5_u32..200, 1_u32..5);
    let levels = proptest::collection::vec(level, 1..=most_levels);
    let sizes = (1_u32..4, 1_u32..3, 0_u32..3);
    let group = (0_u32..6, 1_u32..6, 10.0_f64..33.0);
    (levels, sizes, group).prop_map(|(levels, sizes, (stride, size, bytes))| {
        let counts = [sizes.0, sizes.0 + sizes.1, sizes.0 + sizes.1 + sizes.2];
        let last = levels.len() - 1;
        let total = counts[last].max(stride + 1);
        let entries: Vec<String> = levels.iter().enumerate().map(|(i, (rate, latency, over))| {
            let devices = 1 << if i == last { total } else { counts[i] };
            let kind = match i {
                0 => "switch",
                _ if devices <= 8 && rate % 2 == 0 => "pcie",
                _ => "fat-tree",
            };
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

/// Groups of any size beside one another on one switch, or a prime number of ranks on a full mesh.
pub fn one_level() -> impl Strategy<Value = Case> {
    let group = (1_u32..5, 2_u32..20, 1_u32..3, any::<bool>());
    (group, 10_u32..500, 5_u32..200, 10.0_f64..33.0).prop_map(|(group, rate, latency, bytes)| {
        let (stride, size, blocks, mesh) = group;
        let prime = [2, 3, 5, 7, 11, 13, 17, 19][size as usize % 8];
        let size = if mesh { prime } else { size };
        let devices = stride * size * if mesh { 1 } else { blocks };
        let kind = if mesh { "mesh" } else { "switch" };
        let level = format!(
            r#"{{"name": "links", "kind": "{kind}", "devices": {devices}, "bandwidth": "{rate} GB/s",
            "latency": "{latency}e-7 s"}}"#
        );
        case(&[level], devices, (stride, size), bytes)
    })
}

/// Groups of any size beside one another on one switch.
pub fn one_switch() -> impl Strategy<Value = Case> {
    one_level().prop_filter("on a switch", |case| {
        case.cluster.system.levels[0].kind == LevelKind::Switch
    })
}

/// Switches that reduce on every level.
pub fn reducing() -> impl Strategy<Value = Case> {
    switched(3).prop_map(|mut case| {
        for level in &mut case.cluster.system.levels {
            level.in_network_reduction = true;
        }
        case
    })
}

/// A group that fills whole dimensions of a torus or an open mesh network of any shape.
pub fn boxed() -> impl Strategy<Value = Case> {
    let shape = (
        proptest::collection::vec(2_u32..7, 1..=3),
        0_usize..3,
        0_usize..3,
        (any::<bool>(), any::<[bool; 3]>()),
    );
    let figures = (10_u32..500, 5_u32..200, 10.0_f64..33.0);
    (shape, figures).prop_map(
        |((mut dims, first, last, (wrap, closed)), (rate, latency, bytes))| {
            if dims.len() == 3 {
                for dim in &mut dims {
                    *dim = (*dim).min(4);
                }
            }
            let first = first.min(dims.len() - 1);
            let last = last.clamp(first, dims.len() - 1);
            let closed: Vec<bool> = closed[..dims.len()]
                .iter()
                .map(|closed| wrap && *closed)
                .collect();
            let devices: u32 = dims.iter().product();
            let stride = dims[..first].iter().product();
            let size = dims[first..=last].iter().product();
            let level = format!(
                r#"{{"name": "ici", "kind": "{}", "devices": {devices}, "bandwidth": "{rate} GB/s",
            "latency": "{latency}e-7 s", "dims": {dims:?}, "wrap": {closed:?}}}"#,
                if wrap { "torus" } else { "wafer-mesh" }
            );
            case(&[level], devices, (stride, size), bytes)
        },
    )
}

/// Nodes of any size, a group of all devices of some of them.
pub fn nested() -> impl Strategy<Value = Case> {
    let shape = (2_u32..7, 2_u32..7, 1_u32..3);
    (shape, (10_u32..500, 10_u32..500), 5_u32..200).prop_map(|((node, nodes, blocks), rates, latency)| {
        let devices = node * nodes * blocks;
        let level = |name: &str, devices: u32, rate: u32| format!(
            r#"{{"name": "{name}", "kind": "{}", "devices": {devices}, "bandwidth": "{rate} GB/s",
            "latency": "{latency}e-7 s"}}"#,
            if name == "node" { "switch" } else { "fat-tree" }
        );
        let levels = [level("node", node, rates.0), level("network", devices, rates.1)];
        case(&levels, devices, (1, node * nodes), 20.0)
    })
}

/// Nodes far apart: on the minimal way of a dragonfly, behind optical circuits, or a wide area.
pub fn distant() -> impl Strategy<Value = Case> {
    let shape = (1_u32..4, 0_u32..3, 1_u32..4, 0_u32..3);
    let kind = (0_usize..3, 1_u32..5);
    (shape, kind, (10_u32..500, 1_u32..50)).prop_map(|(shape, (kind, circuits), (inner, outer))| {
        let (node, stride, size, rest) = shape;
        let stride = stride.min(node);
        let devices = 1 << (node + size + rest);
        let mirrors = format!(
            r#""kind": "optical-switch", "optical": {{"reconfiguration": "1 s", "circuits": {circuits}}}"#
        );
        let own = [
            r#""kind": "dragonfly", "routing": "minimal""#,
            &mirrors,
            r#""kind": "wide-area", "wide_area": {"round_trip": "4 us", "loss": 0.0, "flows": 4,
            "window": "16 MB", "segment": "1460 B"}"#,
        ][kind];
        let levels = [
            format!(
                r#"{{"name": "node", "kind": "switch", "devices": {}, "bandwidth": "{inner} GB/s",
                "latency": "1 us"}}"#,
                1 << node
            ),
            format!(
                r#"{{"name": "far", {own}, "devices": {devices}, "bandwidth": "{outer} GB/s",
                "latency": "2 us"}}"#
            ),
        ];
        case(
            &levels,
            devices,
            (1 << stride, 1 << (node - stride + size)),
            50.0,
        )
    })
}

/// Nodes of eight with hosts, perhaps of two sockets if they may be, and groups that fill nodes or lie inside one.
pub fn hosted(by_sockets: bool) -> impl Strategy<Value = Case> {
    let shape = (0_u32..3, 1_u32..5, 0_u32..2);
    let rates = (1_u32..50, 1_u32..50, (10_u32..500, 1_u32..50));
    let sockets = proptest::option::of(1_u32..50);
    (shape, rates, sockets).prop_map(
        move |((stride, size, rest), (pcie, network, (memory, link)), sockets)| {
            let devices = (1 << (stride + size + rest)).max(8);
            let level = |name: &str, kind: &str, devices: &str, rate: u32, latency: u32| {
                format!(
                    r#"{{"name": "{name}", "kind": "{kind}", {devices} "bandwidth": "{rate} GB/s",
                "latency": "{latency} us"}}"#
                )
            };
            let mut levels = vec![level("network", "fat-tree", "", network, 10)];
            match sockets.filter(|_| by_sockets) {
                None => levels.insert(0, level("pcie", "pcie", r#""devices": 8,"#, pcie, 3)),
                Some(between) => {
                    levels.insert(0, level("sockets", "pcie", r#""devices": 8,"#, between, 3));
                    levels.insert(0, level("pcie", "pcie", r#""devices": 4,"#, pcie, 3));
                }
            }
            let mut case = case(&levels, devices, (1 << stride, 1 << size), 50.0);
            case.cluster.system.host = Some(Host::new(
                Bytes::new(512e9),
                BytesPerSecond::new(f64::from(memory) * 1e9),
                BytesPerSecond::new(f64::from(link) * 1e9),
            ));
            case
        },
    )
}

/// Nodes on a switch, perhaps leaves and a spine, with groups of any size and stride that need not line up
/// with any of them.
pub fn uneven(most_levels: usize) -> impl Strategy<Value = Case> {
    let level = (10_u32..500, 5_u32..200, 1_u32..5, 0_u32..12);
    let levels = proptest::collection::vec(level, 2..=most_levels);
    let sizes = (2_u32..10, 2_u32..5);
    let group = (1_u32..8, 2_u32..12, 1_u32..8);
    (levels, sizes, group).prop_map(|(levels, sizes, (stride, size, blocks))| {
        let counts = [sizes.0, sizes.0 * sizes.1];
        let last = levels.len() - 1;
        let total = stride * size * blocks;
        let entries: Vec<String> = levels.iter().enumerate().map(|(i, (rate, latency, over, shared))| {
            let kind = if i == 0 { "switch" } else { "fat-tree" };
            let devices = if i == last { total.next_multiple_of(counts[last - 1]) } else { counts[i] };
            let over = if i == 0 { 1 } else { *over };
            let below = if i == 0 { 1 } else { counts[i - 1] };
            let shares = (1..=below).contains(shared).then(|| format!(r#", "adapters": {shared}"#));
            let shares = shares.unwrap_or_default();
            format!(
                r#"{{"name": "level-{i}", "kind": "{kind}", "devices": {devices}, "hierarchical": true,
                "bandwidth": "{rate} GB/s", "latency": "{latency}e-7 s", "oversubscription": {over}{shares}}}"#
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
pub fn bucketed() -> impl Strategy<Value = Case> {
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
pub fn meshed() -> impl Strategy<Value = Case> {
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

/// Ranks that fill communication groups, nodes and racks of a single-hop optical network.
pub fn single_hop() -> impl Strategy<Value = Case> {
    let network = (1_u32..7, 1_u32..7, (1_u32..4, 1_u32..7));
    let figures = (10_u32..2000, 5_u32..200, 100_u32..2000, 10.0_f64..33.0);
    (network, figures, any::<[bool; 3]>()).prop_map(|(network, figures, short)| {
        let (transceivers, racks, (near, rest)) = network;
        let racks = racks.min(transceivers);
        let nodes = if near == 1 { rest.min(transceivers) } else { transceivers * near.min(transceivers) };
        let (rate, latency, addition, bytes) = figures;
        let level = format!(
            r#"{{"name": "light", "kind": "single-hop", "devices": {}, "bandwidth": "{rate} GB/s",
            "efficiency": 1.0, "latency": "{latency}e-7 s", "single_hop": {{"transceivers": {transceivers},
            "racks": {racks}, "nodes": {nodes}, "addition": "{addition} GB/s"}}}}"#,
            transceivers * racks * nodes
        );
        // a job on all of it, in one rack of each group, on one node of each rack, or on some groups
        let size = match short {
            [true, _, _] => transceivers * nodes,
            [_, true, _] => transceivers,
            [_, _, true] => transceivers.div_ceil(2),
            _ => transceivers * racks * nodes,
        };
        case(&[level], size, (1, size), bytes)
    })
}

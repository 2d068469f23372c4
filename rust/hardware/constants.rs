//! Which numbers of a cluster does pricing read, by what name, and what is the cluster with some of them scaled?

use super::attention_model::{AttentionModel, AttentionPass};
use super::cluster::Cluster;
use super::device::Device;
use super::level::Level;
use super::library::Library;
use super::matmul_model::MatmulModel;
use super::path::Path;
use super::system::Host;
use super::tier::MemoryTier;
use crate::units::{BytesPerSecond, Dtype};
use serde::Serialize;
use std::fmt::Arguments;
use std::ops::Mul;
use std::sync::Arc;

/// What a larger value of a constant means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConstantKind {
    /// Something a second: a larger one makes steps shorter.
    Rate,
    /// A rate over another, which may be more than 1: a larger one makes steps shorter.
    Ratio,
    /// A share of a rate, at most 1: a larger one makes steps shorter.
    Share,
    /// Seconds that something takes: a larger one makes steps longer.
    Time,
    /// Seconds until something slows down: a larger one makes steps shorter.
    Grace,
    /// What is paid beside the work, as a share, a count or bytes: a larger one makes steps longer or
    /// memory fuller.
    Overhead,
    /// Bytes that there is room for: a larger one makes steps shorter or lets more plans fit.
    Size,
}

impl ConstantKind {
    /// True where a larger value is never worse.
    pub const fn larger_is_better(self) -> bool {
        !matches!(self, Self::Time | Self::Overhead)
    }
}

/// A number of a cluster that pricing reads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Constant {
    /// Its dotted name, as `device.memory.bandwidth` or `fabric.nvswitch.latency`.
    pub name: String,
    /// Its value, the sustained one of a rate.
    pub value: f64,
    /// The unit of the value.
    pub unit: &'static str,
    /// What a larger value means.
    pub kind: ConstantKind,
}

impl Constant {
    /// The factor that scaling by `factor` amounts to: a share stays at most 1.
    pub fn applied(&self, factor: f64) -> f64 {
        limited(self.kind, self.value, factor)
    }
}

/// Unit and kind of a constant.
type UnitAndKind = (&'static str, ConstantKind);

/// The protocols of a library, as its fields are called.
const PROTOCOLS: [&str; 4] = ["low_latency", "low_latency_128", "simple", "in_network"];

/// The formats of products that a step may run, as `workload::Precision` names them.
const MULTIPLIED: [Dtype; 7] = [
    Dtype::Fp32,
    Dtype::Tf32,
    Dtype::Bf16,
    Dtype::Fp16,
    Dtype::Fp8,
    Dtype::Mxfp8,
    Dtype::Nvfp4,
];

const ARITHMETIC: UnitAndKind = ("FLOP/s", ConstantKind::Rate);
const TRAFFIC: UnitAndKind = ("bytes/s", ConstantKind::Rate);
const RATIO: UnitAndKind = ("rate/rate", ConstantKind::Ratio);
const LASTING: UnitAndKind = ("share", ConstantKind::Ratio);
const SHARE: UnitAndKind = ("share", ConstantKind::Share);
const SECONDS: UnitAndKind = ("s", ConstantKind::Time);
const GRACE: UnitAndKind = ("s", ConstantKind::Grace);
const ELEMENTS: UnitAndKind = ("elements", ConstantKind::Overhead);
const PART: UnitAndKind = ("share", ConstantKind::Overhead);
const UNITS: UnitAndKind = ("units", ConstantKind::Overhead);
const TAKEN: UnitAndKind = ("bytes", ConstantKind::Overhead);
const ROOM: UnitAndKind = ("bytes", ConstantKind::Size);

impl Cluster {
    /// Every number that the time and the memory of a step depend on, in a fixed order.
    ///
    /// Two that act as their product alone are one constant: a bandwidth stands for bandwidth times
    /// efficiency (over oversubscription), read and written. So are those that belong together: a
    /// link's bandwidth and what channels drive of it, the start-up times of a library's protocols, a
    /// latency and the steps that are multiples of it, a constant of products and that of each family of
    /// formats, latency and round trip of a wide area, window and
    /// segment of its flows. A rate that lasts is held as a share of the peak, which it follows.
    /// Numbers that are 0 are left out, and so are counts that are known (devices,
    /// units, channels), energy and prices, formats in which no step multiplies, and tiers and paths
    /// behind the host: plans are priced without them.
    pub fn constants(&self) -> Vec<Constant> {
        let mut all = Vec::new();
        ConstantWalk {
            visit: &mut |name, value, (unit, kind)| {
                let name = name.to_string();
                all.push(Constant {
                    name,
                    value,
                    unit,
                    kind,
                });
                1.0
            },
        }
        .cluster(&mut self.clone());
        all
    }

    /// The same cluster with each constant times its factor, given in the order of `constants`; those
    /// without a factor stay.
    pub fn scaled(&self, factors: &[f64]) -> Self {
        let mut scaled = self.clone();
        let device = &mut scaled.device;
        if device.unscaled.is_none() && !device.sustained.is_empty() {
            device.unscaled = Some(Arc::new(self.device.clone()));
        }
        let mut left = factors.iter().copied();
        ConstantWalk {
            visit: &mut |_, _, _| left.next().unwrap_or(1.0),
        }
        .cluster(&mut scaled);
        scaled
    }
}

fn limited(kind: ConstantKind, value: f64, factor: f64) -> f64 {
    if kind == ConstantKind::Share {
        factor.min(1.0 / value)
    } else {
        factor
    }
}

/// Scales a quantity.
fn scale<T: Copy + Mul<f64, Output = T>>(quantity: &mut T, factor: f64) {
    *quantity = *quantity * factor;
}

/// Which rates of products a step may read on a device.
#[derive(Default)]
struct ProductRates {
    peaks: Vec<Dtype>,
    efficiencies: Vec<Dtype>,
    /// The efficiency of formats without one of their own.
    other: bool,
}

impl ProductRates {
    fn of(device: &Device) -> Self {
        let mut reads = Self::default();
        for asked in MULTIPLIED {
            let engine = device.engine_format(asked);
            // exponentials of attention scores run at the rate of bf16 in any job
            let vector =
                engine.is_none() && matches!(asked, Dtype::Fp32 | Dtype::Tf32 | Dtype::Bf16);
            reads.peaks.extend(engine);
            let listed = |d: &Dtype| device.matmul.efficiency.contains_key(d);
            let own = [Some(asked), engine].into_iter().flatten().find(listed);
            reads.other |= own.is_none() && (engine.is_some() || vector);
            reads.efficiencies.extend(own);
        }
        reads
    }
}

/// Passes over all constants of a cluster; `visit` is told of each and says its factor.
struct ConstantWalk<'a> {
    visit: &'a mut dyn FnMut(Arguments, f64, UnitAndKind) -> f64,
}

impl ConstantWalk<'_> {
    /// The factor of one constant.
    fn factor(&mut self, name: Arguments, value: f64, sort: UnitAndKind) -> f64 {
        if value > 0.0 {
            limited(sort.1, value, (self.visit)(name, value, sort))
        } else {
            1.0
        }
    }

    /// Scales one plain number by its factor.
    fn number(&mut self, name: Arguments, number: &mut f64, sort: UnitAndKind) {
        *number *= self.factor(name, *number, sort);
    }

    fn cluster(&mut self, cluster: &mut Cluster) {
        self.device(&mut cluster.device);
        for level in &mut cluster.system.levels {
            self.level(level);
        }
        let system = &mut cluster.system;
        let mut next = system.host.as_ref().and_then(|host| host.behind.clone());
        if let Some(host) = &mut system.host {
            self.host(host);
        }
        // a chain has at most as many links as there are paths
        for _ in 0..system.paths.len() {
            let path = system.paths.iter_mut();
            let Some(path) = path
                .into_iter()
                .find(|path| Some(&path.name) == next.as_ref())
            else {
                break;
            };
            self.path(path);
            next.clone_from(&path.behind);
        }
    }

    fn device(&mut self, device: &mut Device) {
        let reads = ProductRates::of(device);
        let lasting = device.sustained.keys();
        let peaks: Vec<f64> = lasting.map(|&d| device.engine_peak(d).value()).collect();
        for (dtype, peak) in &mut device.matrix {
            if !reads.peaks.contains(dtype) {
                continue;
            }
            let name = dtype.name();
            let factor = self.factor(
                format_args!("device.matrix_peak.{name}"),
                peak.value(),
                ARITHMETIC,
            );
            scale(peak, factor);
        }
        // state-space scans run at it, and formats that the matrix engine lacks
        let vector = device.vector.value();
        let factor = self.factor(format_args!("device.vector_peak"), vector, ARITHMETIC);
        scale(&mut device.vector, factor);
        self.sustained(device, &peaks, &reads);
        self.matmul(&mut device.matmul, &reads);
        self.attention(device);
        let launch = device.launch_overhead.value();
        let factor = self.factor(format_args!("device.launch_overhead"), launch, SECONDS);
        scale(&mut device.launch_overhead, factor);
        if let Some(overhead) = &mut device.stream_overhead {
            scale(overhead, factor);
        }
        if device.cast_share < 1.0 {
            let casts = &mut device.cast_share;
            self.number(format_args!("device.cast_share"), casts, SHARE);
        }
        let units = &mut device.communication_units;
        self.number(format_args!("device.communication_units"), units, UNITS);
        let spread = &mut device.speed_spread;
        self.number(format_args!("device.speed_spread"), spread, PART);
        let reserved = device.reserved_memory.value();
        let factor = self.factor(format_args!("device.reserved_memory"), reserved, TAKEN);
        scale(&mut device.reserved_memory, factor);
        if let Some(main) = device.tiers.last_mut() {
            self.tier("device.memory", main);
        }
        if let Some(cache) = device.cache_mut() {
            self.tier("device.cache", cache);
        }
    }

    /// Rates that last, as shares of the peaks, which they follow; `peaks` are those before any change.
    fn sustained(&mut self, device: &mut Device, peaks: &[f64], reads: &ProductRates) {
        let mut lasting = std::mem::take(&mut device.sustained);
        for ((dtype, rate), before) in lasting.iter_mut().zip(peaks) {
            let grown = device.engine_peak(*dtype).value() / before;
            let name = format_args!("device.sustained.{}", dtype.name());
            let own = if reads.peaks.contains(dtype) {
                self.factor(name, rate.value() / before, LASTING)
            } else {
                1.0
            };
            scale(rate, grown * own);
        }
        device.sustained = lasting;
    }

    fn matmul(&mut self, model: &mut MatmulModel, reads: &ProductRates) {
        for (dtype, efficiency) in &mut model.efficiency {
            if !reads.efficiencies.contains(dtype) {
                continue;
            }
            let name = dtype.name();
            let name = format_args!("device.matmul.efficiency.{name}");
            self.number(name, efficiency, SHARE);
        }
        if reads.other {
            let name = format_args!("device.matmul.efficiency.other");
            self.number(name, &mut model.default_efficiency, SHARE);
        }
        let plain = [
            ("tile_overhead", model.tile_overhead, ELEMENTS),
            ("depth_overhead", model.depth_overhead, ELEMENTS),
            ("throttle", model.throttle, PART),
            ("store_cost", model.store_cost, PART),
        ];
        let times = [
            ("throttle_time", model.throttle_time, GRACE),
            ("split_overhead", model.split_overhead, SECONDS),
            ("depth_time", model.depth_time, SECONDS),
        ];
        let [tile, depth, throttle, store] = plain.map(|(name, value, sort)| {
            self.factor(format_args!("device.matmul.{name}"), value, sort)
        });
        let [grace, split, depth_time] = times.map(|(name, time, sort)| {
            self.factor(format_args!("device.matmul.{name}"), time.value(), sort)
        });
        model.tile_overhead *= tile;
        model.depth_overhead *= depth;
        model.throttle *= throttle;
        model.store_cost *= store;
        scale(&mut model.throttle_time, grace);
        scale(&mut model.split_overhead, split);
        scale(&mut model.depth_time, depth_time);
        for family in model.families.values_mut() {
            family.tile_overhead *= tile;
            family.depth_overhead *= depth;
            family.throttle *= throttle;
            family.store_cost *= store;
            scale(&mut family.throttle_time, grace);
            scale(&mut family.split_overhead, split);
            scale(&mut family.depth_time, depth_time);
        }
    }

    /// Attention in 16 bits reads its own kernels where they were timed; other formats those of theirs.
    fn attention(&mut self, device: &mut Device) {
        let timed = device.training_attention.get(&Dtype::Bf16);
        if timed.is_none_or(|passes| passes.forward.is_none() || passes.backward.is_none()) {
            self.any_attention(&mut device.attention);
        }
        for (dtype, passes) in &mut device.training_attention {
            let name = dtype.name();
            for (kind, pass) in [
                ("forward", &mut passes.forward),
                ("backward", &mut passes.backward),
            ] {
                if let Some(pass) = pass {
                    let at = format!("device.training_attention.{name}.{kind}");
                    self.attention_pass(&at, pass);
                }
            }
        }
    }

    fn any_attention(&mut self, model: &mut AttentionModel) {
        for (name, number, sort) in [
            ("forward_efficiency", &mut model.forward_efficiency, SHARE),
            ("backward_efficiency", &mut model.backward_efficiency, SHARE),
            ("score_overhead", &mut model.score_overhead, ELEMENTS),
            ("key_overhead", &mut model.key_overhead, ELEMENTS),
            ("tail", &mut model.tail, PART),
            ("wide", &mut model.wide, PART),
        ] {
            self.number(format_args!("device.attention.{name}"), number, sort);
        }
    }

    fn attention_pass(&mut self, at: &str, pass: &mut AttentionPass) {
        for (name, number, sort) in [
            ("efficiency", &mut pass.efficiency, SHARE),
            ("score_overhead", &mut pass.score_overhead, ELEMENTS),
            ("key_overhead", &mut pass.key_overhead, ELEMENTS),
            ("tail", &mut pass.tail, PART),
            ("wide", &mut pass.wide, PART),
        ] {
            self.number(format_args!("{at}.{name}"), number, sort);
        }
        if pass.skips_hidden {
            let window = pass.window.value();
            let factor = self.factor(format_args!("{at}.window"), window, SECONDS);
            scale(&mut pass.window, factor);
        }
    }

    fn tier(&mut self, at: &str, tier: &mut MemoryTier) {
        let rate = tier.sustained().value();
        let factor = self.factor(format_args!("{at}.bandwidth"), rate, TRAFFIC);
        scale(&mut tier.bandwidth, factor);
        let alone = [&mut tier.read_bandwidth, &mut tier.write_bandwidth];
        for rate in alone.into_iter().flatten() {
            scale(rate, factor);
        }
        let capacity = tier.capacity.value();
        let factor = self.factor(format_args!("{at}.capacity"), capacity, ROOM);
        scale(&mut tier.capacity, factor);
    }

    fn level(&mut self, level: &mut Level) {
        let mut library = *level.driven_by();
        let at = level.name.as_str();
        let rate = level.bandwidth.value() * level.efficiency / level.oversubscription;
        let factor = self.factor(format_args!("fabric.{at}.bandwidth"), rate, TRAFFIC);
        scale(&mut level.bandwidth, factor);
        if let Some(channels) = &mut library.channels {
            scale(&mut channels.bandwidth, factor);
        }
        let latency = level.latency.value();
        let factor = self.factor(format_args!("fabric.{at}.latency"), latency, SECONDS);
        scale(&mut level.latency, factor);
        if let Some(wide) = &mut level.wide_area {
            scale(&mut wide.round_trip, factor);
            let name = format_args!("fabric.{at}.window");
            let factor = self.factor(name, wide.window.value(), ROOM);
            scale(&mut wide.window, factor);
            scale(&mut wide.segment, factor);
            self.number(format_args!("fabric.{at}.loss"), &mut wide.loss, PART);
        }
        if let Some(optical) = &mut level.optical {
            let name = format_args!("fabric.{at}.reconfiguration");
            let factor = self.factor(name, optical.reconfiguration.value(), SECONDS);
            scale(&mut optical.reconfiguration, factor);
        }
        if let Some(network) = &mut level.single_hop {
            let name = format_args!("fabric.{at}.addition");
            let factor = self.factor(name, network.addition.value(), TRAFFIC);
            scale(&mut network.addition, factor);
        }
        self.library(at, &mut library, level.in_network_reduction);
        level.library = Some(library);
    }

    fn library(&mut self, at: &str, library: &mut Library, reduces: bool) {
        let lines = [
            &mut library.low_latency,
            &mut library.low_latency_128,
            &mut library.simple,
            &mut library.in_network,
        ];
        let longest = |most: f64, base: f64| most.max(base);
        let longest = lines.iter().map(|l| l.base.value()).fold(0.0, longest);
        let factor = self.factor(format_args!("fabric.{at}.startup"), longest, SECONDS);
        for (line, name) in lines.into_iter().zip(PROTOCOLS) {
            scale(&mut line.base, factor);
            if reduces || name != "in_network" {
                let name = format_args!("fabric.{at}.share.{name}");
                self.number(name, &mut line.share, SHARE);
            }
        }
        for (name, number, sort) in [
            ("pairwise_share", &mut library.pairwise_share, RATIO),
            ("busy_share", &mut library.busy_share, SHARE),
            ("own_part", &mut library.own_part, PART),
            ("issue", &mut library.issue, PART),
        ] {
            self.number(format_args!("fabric.{at}.{name}"), number, sort);
        }
    }

    fn host(&mut self, host: &mut Host) {
        let rate = host.link_bandwidth.value() * host.link_efficiency;
        let factor = self.factor(format_args!("host.link.bandwidth"), rate, TRAFFIC);
        scale(&mut host.link_bandwidth, factor);
        let rate = host.memory_bandwidth.value() * host.memory_efficiency;
        let factor = self.factor(format_args!("host.memory.bandwidth"), rate, TRAFFIC);
        scale(&mut host.memory_bandwidth, factor);
        let memory = host.memory.value();
        let factor = self.factor(format_args!("host.memory.capacity"), memory, ROOM);
        scale(&mut host.memory, factor);
    }

    fn path(&mut self, path: &mut Path) {
        let [rate, _] = path.rates().map(BytesPerSecond::value);
        let name = &path.name;
        let factor = self.factor(format_args!("paths.{name}.bandwidth"), rate, TRAFFIC);
        scale(&mut path.bandwidth, factor);
        if let Some(rate) = &mut path.write_bandwidth {
            scale(rate, factor);
        }
    }
}

//! At which rate, and with which start-up and step times, does a group move bytes at each level?

use super::form::Protocol;
use super::rates::{LevelCrossing, Rates, Scale};
use super::spread::Spread;
use crate::hardware::{
    Cluster, Group, Level, LevelKind, Library, Line, MAX_LEVELS, Routing, SingleHop,
};
use crate::units::{BytesPerSecond, Seconds};

/// A group, and how it and those like it lie among the units of a fabric; found once for all protocols.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupPlacement {
    pub(super) group: Group,
    /// Where groups and units do not line up, by level.
    spreads: [Option<Spread>; MAX_LEVELS],
    /// Devices of the group inside one unit of the level below each level.
    covered: [f64; MAX_LEVELS],
    /// Of the `p - 1` hops along all ranks in order, those across each level, of the group that goes out most.
    ///
    /// As NCCL's tuner counts them: of the hops round a ring, the last across the outermost level is left out.
    hops: [f64; MAX_LEVELS],
    innermost: usize,
    outermost: usize,
    /// Levels whose links the group's traffic takes.
    crossed: [bool; MAX_LEVELS],
    /// Levels inside a node, of a group that leaves it.
    inside: [bool; MAX_LEVELS],
    /// The torus level among those that the group crosses.
    torus: Option<usize>,
    /// True where neighbours inside a node have no way to one another but through host memory.
    through_host: bool,
}

impl GroupPlacement {
    pub(super) fn new(group: &Group, cluster: &Cluster) -> Self {
        let levels = &cluster.system.levels;
        let outermost = group.outermost().min(levels.len().saturating_sub(1));
        let mut spreads = [None; MAX_LEVELS];
        for (i, spread) in spreads.iter_mut().enumerate().take(outermost + 1).skip(1) {
            let below = units_of(levels, i);
            *spread = Spread::new(group, cluster.devices, below, levels[i].adapters);
        }
        let mut covered = [1.0; MAX_LEVELS];
        for (i, devices) in covered.iter_mut().enumerate() {
            *devices = f64::from(group.covered(i));
        }
        let mut hops = [0.0; MAX_LEVELS];
        let mut beyond = 1.0; // round the ring and across the levels above, less the one left out
        for i in (0..=outermost).rev() {
            let units = spreads[i].map_or(group.size / group.covered(i), |spread| spread.units);
            let crossing = f64::from(units).max(beyond);
            hops[i] = crossing - beyond;
            beyond = crossing;
        }
        let innermost = (0..levels.len().min(MAX_LEVELS)).find(|&i| group.members[i] > 1);
        let (mut crossed, mut inside) = ([false; MAX_LEVELS], [false; MAX_LEVELS]);
        let leaves = !cluster.system.inside_node(outermost);
        for i in 0..=outermost {
            inside[i] = leaves && cluster.system.inside_node(i);
            let joins = group.members[i] > 1 || spreads[i].is_some();
            crossed[i] = joins || i > 0 && !inside[i];
        }
        let mut path = (0..(outermost + 1).min(levels.len())).filter(|&i| crossed[i]);
        let through_host = path.clone().any(|i| !levels[i].peer_to_peer);
        let torus = path.find(|&i| levels[i].kind.has_dims() && group.members[i] > 1);
        Self {
            torus,
            through_host,
            group: *group,
            spreads,
            covered,
            hops,
            innermost: innermost.unwrap_or(0),
            outermost,
            crossed,
            inside,
        }
    }
}

/// Devices in one unit of the level below `i`.
fn units_of(levels: &[Level], i: usize) -> u32 {
    i.checked_sub(1)
        .and_then(|below| levels[below].devices)
        .unwrap_or(1)
        .max(1)
}

/// A group on its fabric under one protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route<'a> {
    pub(super) group: &'a Group,
    place: &'a GroupPlacement,
    levels: &'a [Level],
    pub(super) protocol: Protocol,
    in_place: bool,
    /// The protocol as the library of each level has it.
    lines: [Line; MAX_LEVELS],
    rates: [Rates; MAX_LEVELS],
}

impl<'a> Route<'a> {
    pub(super) fn new(place: &'a GroupPlacement, cluster: &'a Cluster, protocol: Protocol) -> Self {
        let mut route = Self::without_protocol(place, cluster);
        let scales = route.scales();
        route.set_protocol(protocol, &scales);
        route
    }

    /// The route before a protocol is chosen, to which `set_protocol` gives one.
    pub(super) fn without_protocol(place: &'a GroupPlacement, cluster: &'a Cluster) -> Self {
        let count = cluster.system.levels.len().min(MAX_LEVELS);
        Self {
            group: &place.group,
            place,
            levels: &cluster.system.levels[..count],
            protocol: Protocol::Simple,
            in_place: false,
            lines: [Library::PLAIN.simple; MAX_LEVELS],
            rates: [Rates::default(); MAX_LEVELS],
        }
    }

    /// What `set_protocol` takes, found once for all protocols.
    pub(super) fn scales(&self) -> [Option<Scale<'a>>; MAX_LEVELS] {
        let mut scales = [None; MAX_LEVELS];
        for (i, scale) in scales.iter_mut().enumerate().take(self.levels.len()) {
            *scale = Some(self.scale(i));
        }
        scales
    }

    /// Takes the lines and rates of a protocol.
    pub(super) fn set_protocol(&mut self, protocol: Protocol, scales: &[Option<Scale>]) {
        self.protocol = protocol;
        for (i, scale) in scales.iter().flatten().enumerate() {
            let library = scale.library;
            self.lines[i] = match protocol {
                Protocol::LowLatency => library.low_latency,
                Protocol::LowLatency128 => library.low_latency_128,
                Protocol::Simple => library.simple,
            };
            self.set_bandwidth(i, scale, scale.level.bandwidth);
        }
    }

    /// Takes `bandwidth` for that of level `i`, per device and direction.
    #[inline]
    pub(super) fn set_bandwidth(&mut self, i: usize, scale: &Scale, bandwidth: BytesPerSecond) {
        self.rates[i] = scale.rates(bandwidth, self.lines[i].share);
    }

    /// What turns the bandwidth of level `i` into rates.
    pub(super) fn scale(&self, i: usize) -> Scale<'a> {
        let (level, library) = (self.level(i), self.library(i));
        let channels = library.channels.map_or(f64::INFINITY, |channels| {
            f64::from(channels.count) * channels.bandwidth.value()
        });
        Scale {
            level,
            library,
            below: units_of(self.levels, i),
            reached: self.reached(i),
            channels,
            one_partner: self.one_partner(i),
            covered: self.place.covered[i],
            ring: self.turn(i),
        }
    }

    /// The same with results in the place of inputs, or not.
    pub(super) fn in_place(self, in_place: bool) -> Self {
        Self { in_place, ..self }
    }

    pub(super) fn level(&self, i: usize) -> &'a Level {
        &self.levels[i]
    }

    /// Ranks as a number for formulas.
    pub(super) fn ranks(&self) -> f64 {
        f64::from(self.group.size)
    }

    pub(super) fn members(&self, i: usize) -> f64 {
        f64::from(self.group.members[i])
    }

    /// Units of the level below `i` that the whole group covers.
    pub(super) fn units(&self, i: usize) -> u32 {
        self.group.size / self.group.covered(i)
    }

    /// True where level `i` joins partners by links of their own, which traffic of levels further out does not pass:
    /// devices of a node, whose adapters lie beside them, and units that a mesh or a torus joins.
    pub(super) fn has_own_links(&self, i: usize) -> bool {
        let kind = self.level(i).kind;
        i == 0 || kind == LevelKind::Mesh || kind.has_dims() || self.inside(i)
    }

    /// The torus level among those the group crosses.
    pub(super) fn torus(&self) -> Option<usize> {
        self.place.torus
    }

    /// The torus level that holds the whole group.
    pub(super) fn only_torus(&self) -> Option<usize> {
        self.torus()
            .filter(|&i| self.group.members[i] == self.group.size)
    }

    /// Where the group and those like it lie among the units of the level below `i`; `None` where all
    /// units look alike, so that `members` tells everything.
    #[inline]
    pub(super) fn spread(&self, i: usize) -> Option<&'a Spread> {
        self.place.spreads[i].as_ref()
    }

    /// See `GroupPlacement::hops`.
    pub(super) fn hops(&self) -> [f64; MAX_LEVELS] {
        self.place.hops
    }

    /// The single-hop network on which the group lies.
    pub(super) fn single_hop(&self) -> Option<&'a SingleHop> {
        self.levels[self.outermost()].single_hop.as_ref()
    }

    /// True where direct links between all members are the group's only level.
    pub(super) fn full_mesh(&self) -> bool {
        let level = self.innermost();
        level == self.outermost() && self.level(level).kind == LevelKind::Mesh
    }

    /// True where every device of the group can read the memory of every other.
    pub(super) fn reaches_memory(&self) -> bool {
        let reaches = |level: &Level| level.kind.reaches_memory() && level.peer_to_peer;
        self.path().all(|i| reaches(self.level(i)))
    }

    /// True where neighbours inside a node have no way to one another but through host memory.
    pub(super) fn through_host(&self) -> bool {
        self.place.through_host
    }

    /// True where the library uses all direct links of a member at once.
    pub(super) fn offers_direct(&self) -> bool {
        self.full_mesh() && self.library(self.innermost()).direct
    }

    /// True where some level on the way has switches that reduce.
    pub(super) fn reduces(&self) -> bool {
        self.path().any(|i| self.level(i).in_network_reduction)
    }

    /// True where all levels on the way do.
    pub(super) fn reduces_everywhere(&self) -> bool {
        self.path().all(|i| self.level(i).in_network_reduction)
    }

    /// True where these hand out and take in parts too.
    pub(super) fn reduces_parts(&self) -> bool {
        self.reduces_everywhere() && self.path().all(|i| self.level(i).in_network_parts)
    }

    /// Turning an optical switch at level `i` so that each unit can send to all of `partners`.
    ///
    /// `(ceil(partners / circuits) - 1) * reconfiguration`; the circuits of the first are set before.
    pub(super) fn switch_reconfiguration(&self, i: usize, partners: f64) -> Seconds {
        self.level(i).optical.map_or(Seconds::ZERO, |optical| {
            let settings = (partners / f64::from(optical.circuits)).ceil();
            optical.reconfiguration * (settings - 1.0).max(0.0)
        })
    }

    /// Links of a full mesh into which a member's rate is divided: one to each other member.
    pub(super) fn mesh_links(&self, i: usize) -> f64 {
        (self.members(i) - 1.0).max(1.0)
    }

    /// The innermost level on which the group has neighbours.
    pub(super) fn innermost(&self) -> usize {
        self.place.innermost
    }

    /// The outermost level that the group crosses.
    pub(super) fn outermost(&self) -> usize {
        self.place.outermost
    }

    /// The levels whose links the group's traffic takes: those on which it has neighbours, and each up to the
    /// outermost, since outer traffic passes the inner ones; but what leaves a node passes no links inside it.
    pub(super) fn path(&self) -> impl Iterator<Item = usize> {
        let place = self.place;
        (0..=place.outermost).filter(|&i| place.crossed[i])
    }

    #[inline]
    fn library(&self, i: usize) -> &'a Library {
        self.level(i).driven_by()
    }

    #[inline]
    fn line(&self, i: usize) -> &Line {
        &self.lines[i]
    }

    /// Start-up of a collective: that of the outermost level.
    pub(super) fn base(&self) -> Seconds {
        self.line(self.outermost()).base
    }

    /// One step across level `i`.
    pub(super) fn step(&self, i: usize) -> Seconds {
        self.level(i).latency * self.line(i).step
    }

    /// True where the library crosses the outermost level in chunks whose size and step are the protocol's.
    pub(super) fn in_chunks(&self) -> bool {
        let library = self.library(self.outermost());
        library.simple.step > library.low_latency.step
    }

    /// The shortest step across level `i` of any protocol, of switches that reduce and of reads of memory.
    pub(super) fn shortest_step(&self, i: usize) -> Seconds {
        let library = self.library(i);
        let lines = [library.low_latency, library.low_latency_128, library.simple];
        let protocols = lines
            .iter()
            .fold(f64::INFINITY, |least, line| least.min(line.step));
        // where switches reduce, a level without them is crossed in plain steps
        let helped = if self.reduces() {
            library.in_network.step.min(1.0)
        } else {
            protocols
        };
        let read = if self.level(i).kind.reaches_memory() {
            library.one_shot.step.min(library.two_shot.step)
        } else {
            protocols
        };
        self.level(i).latency * protocols.min(helped).min(read)
    }

    /// Issuing one message to one peer across level `i`.
    pub(super) fn issue(&self, i: usize) -> Seconds {
        self.level(i).latency * self.library(i).issue
    }

    /// Rate of one device into level `i` in an all-to-all, in bytes/s.
    ///
    /// On the minimal way of a dragonfly the links to groups outside it serve nobody: `(N - 1) / (G - 1)` of
    /// them carry, `N` groups that take part of `G`.
    pub(super) fn pairwise_rate(&self, i: usize) -> f64 {
        let level = self.level(i);
        let minimal = level.kind == LevelKind::Dragonfly && level.routing == Routing::Minimal;
        let serving = if minimal {
            (self.members(i) - 1.0).max(1.0) * self.share_of_one_group(i)
        } else {
            1.0
        };
        self.sustained(i) * self.line(i).share * self.library(i).pairwise_share * serving
    }

    /// The same where kernels write into the memory of their peers, past the library.
    pub(super) fn direct_rate(&self, i: usize) -> f64 {
        self.pairwise_rate(i) / self.library(i).pairwise_share
    }

    /// The lines of kernels that read the memory of their peers across level `i`: one shot and two.
    pub(super) fn shots(&self, i: usize) -> (Line, Line) {
        let library = self.library(i);
        (library.one_shot, library.two_shot)
    }

    /// The line of the switches' own reduction at level `i`.
    pub(super) fn in_network(&self, i: usize) -> Line {
        self.library(i).in_network
    }

    /// Passing one's own part through memory, in steps of the innermost ring; nothing in place.
    pub(super) fn own_part(&self) -> f64 {
        if self.in_place {
            0.0
        } else {
            self.library(self.innermost()).own_part
        }
    }

    /// Sustained rate per device and direction into level `i`, whatever the protocol, in bytes/s.
    ///
    /// `bandwidth * efficiency / oversubscription`. In a mesh a device reaches only the links to
    /// those of its `devices - 1` peers that are in the group.
    #[inline]
    pub(super) fn sustained(&self, i: usize) -> f64 {
        self.rates[i].sustained
    }

    /// Share of a device's links at level `i` that lead to members of the group.
    fn reached(&self, i: usize) -> f64 {
        self.reached_by(self.members(i), i)
    }

    /// The same where so many units of the level below are in the group.
    fn reached_by(&self, members: f64, i: usize) -> f64 {
        let level = self.level(i);
        match (level.kind, level.devices) {
            (LevelKind::Mesh, Some(devices)) if devices > 1 => {
                let units = f64::from(devices) / f64::from(units_of(self.levels, i));
                ((members - 1.0).max(1.0) / (units - 1.0).max(1.0)).min(1.0)
            }
            _ => 1.0,
        }
    }

    /// How many times as fast as `most` a device may send into level `i` at another place than the group's worst: in
    /// a mesh all its ranks may be partners there.
    pub(super) fn best_rate_ratio(&self, i: usize) -> f64 {
        if self.outermost() > i || self.spread(i).is_some() {
            self.reached_by(self.ranks(), i) / self.reached(i)
        } else {
            1.0
        }
    }

    /// The most that a device is known to send into level `i`: the sustained rate, or that of an all-to-all
    /// where its many streams reach more than a ring does.
    pub(super) fn most(&self, i: usize) -> f64 {
        self.sustained(i) * self.library(i).pairwise_share.max(1.0)
    }

    /// Rate per device and direction under this protocol, in bytes/s; at most what the channels drive.
    #[inline]
    pub(super) fn device_rate(&self, i: usize) -> f64 {
        self.rates[i].device
    }

    /// Share of a dragonfly group's global links that traffic to one other group gets.
    ///
    /// Over a third group each byte takes two global links: 1/2 (Valiant). On the minimal way only the
    /// links of the two groups serve: `1 / (G - 1)`, `G` groups of the system. Kim et al. 2008.
    fn one_partner(&self, i: usize) -> f64 {
        let level = self.level(i);
        if level.kind != LevelKind::Dragonfly {
            return 1.0;
        }
        let direct = self.share_of_one_group(i);
        match level.routing {
            Routing::Minimal => direct,
            Routing::Adaptive => direct.max(0.5),
        }
    }

    /// Share of a dragonfly group's global links that lead to one other group.
    fn share_of_one_group(&self, i: usize) -> f64 {
        self.level(i).devices.map_or(0.0, |devices| {
            let groups = f64::from(devices) / f64::from(units_of(self.levels, i));
            1.0 / (groups - 1.0).max(1.0)
        })
    }

    /// Rate of one device to a partner across level `i`: that of the slowest network on the way.
    pub(super) fn message_rate(&self, i: usize) -> f64 {
        let on_the_way = (i.min(1)..=i).filter(|&j| !self.inside(j) || self.inside(i));
        on_the_way.fold(f64::INFINITY, |rate, j| rate.min(self.device_rate(j)))
    }

    /// Rate at which the group leaves one unit of the level below `i`: each of its devices there
    /// brings its own share of the uplink, the siblings have the rest.
    #[inline]
    pub(super) fn unit_rate(&self, i: usize) -> f64 {
        self.rates[i].unit
    }

    /// Rate of a ring across level `i`; no bound where it sends nothing there.
    ///
    /// As `unit_rate`, where groups and units line up; else the rings that cross the busiest unit's links
    /// share them.
    #[inline]
    pub(super) fn ring_rate(&self, i: usize) -> f64 {
        self.rates[i].ring
    }

    fn turn(&self, i: usize) -> LevelCrossing {
        let crossed = self.place.crossed[i] || i == 0 && self.inside_a_node();
        match self.spread(i) {
            Some(spread) if spread.crossing > 0.0 => LevelCrossing::Shared(spread.crossing),
            None if crossed => LevelCrossing::InLine,
            _ => LevelCrossing::Never,
        }
    }

    /// True for a bus inside a node, of a group that leaves it: what goes out passes it by.
    pub(super) fn inside(&self, i: usize) -> bool {
        self.place.inside[i]
    }

    /// Other ranks whose messages pass a rank's links of level `i`.
    pub(super) fn peers_beyond(&self, i: usize) -> f64 {
        let within = f64::from(self.group.covered(i));
        match i {
            0 => self.inner_peers(),
            _ if self.inside(i) => within * (self.members(i) - 1.0),
            _ => self.ranks() - within,
        }
    }

    /// Most other ranks of the group inside one unit of level 0.
    pub(super) fn inner_peers(&self) -> f64 {
        let spread = self.spread(self.outermost().min(1));
        spread.map_or(self.members(0), |spread| f64::from(spread.inside)) - 1.0
    }

    /// True where some group has neighbours in one unit of level 0 although `members` tells of none.
    fn inside_a_node(&self) -> bool {
        self.inner_peers() > 0.0
    }
}

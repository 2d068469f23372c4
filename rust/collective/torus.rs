//! What a collective costs on the rings of a torus or the lines of a mesh network.

use super::form::{Algorithm, Collective, Form};
use super::rounds::{self, Pattern};
use super::route::Route;
use crate::hardware::MAX_DIMS;
use crate::units::{Bytes, Seconds};
use std::cmp::Ordering;

/// The collective on a group that lies inside one torus level.
///
/// Buckets on dimensions of unlike extent count each dimension's steps once, as parts that do not wait for one
/// another take them, and the bytes of phases that do: each is met where it decides.
pub(super) fn form(collective: Collective, route: &Route, i: usize) -> Form {
    let (start, per_byte) = level(collective, route, i);
    Form {
        algorithm: Algorithm::Torus,
        protocol: route.protocol,
        fixed: route.base() + start,
        per_byte,
    }
}

/// Steps and seconds per byte of `collective` within torus level `i`, for a device's whole buffer.
pub(super) fn level(collective: Collective, route: &Route, i: usize) -> (Seconds, f64) {
    let rings = Rings::new(route, i);
    let ways = if collective == Collective::Barrier {
        2.0
    } else {
        collective.passes()
    };
    let start = route.step(i) * (ways * rings.steps());
    let per_byte = match collective {
        Collective::AllToAll => rings.all_to_all(),
        Collective::SendReceive | Collective::Broadcast | Collective::Reduce => {
            1.0 / rings.slowest_link()
        }
        Collective::Gather | Collective::Scatter => rings.to_root(),
        Collective::Barrier => 0.0,
        _ => collective.passes() * rings.bucket(),
    };
    (start, per_byte)
}

/// As `level`, on one dimension after the other, in the better order of two.
pub(super) fn one_by_one(collective: Collective, route: &Route, i: usize) -> (Seconds, f64) {
    let rings = Rings::new(route, i);
    let passes = collective.passes();
    let slope = |first: usize, second: usize| {
        let along = |d: usize| (rings.extent[d] - 1.0) / (rings.extent[d] * rings.rate(d));
        along(first) + along(second) / rings.extent[first]
    };
    let start = route.step(i) * (passes * rings.steps());
    (start, passes * slope(0, 1).min(slope(1, 0)))
}

/// Hops, and seconds per byte of a message, of one round on torus level `i`.
///
/// A message moves each of its digits along that dimension. A shift by `o` of `k` members puts at
/// most `min(o, k-o)` messages on a link in a direction; an exchange over `o` puts `o`; of messages
/// of single senders no two share one.
pub(super) fn round(route: &Route, i: usize, pattern: Pattern, distance: u32) -> (f64, f64) {
    let rings = Rings::new(route, i);
    let carries = rounds::carries(route, pattern);
    let inside = route.group.covered(i);
    let mut carry = carries && !distance.is_multiple_of(inside);
    let mut left = distance / inside;
    let (mut hops, mut slowest) = (0.0, 0.0_f64);
    for d in 0..rings.count {
        let extent = rings.extent[d];
        let digit = f64::from(left % rings.members[d]);
        let (mut far, mut load) = (0.0_f64, 0.0_f64);
        for offset in [digit, (digit + 1.0) % extent] {
            let near = offset.min(extent - offset);
            let on_line = if carries { extent - near } else { offset };
            if offset > 0.0 && (offset <= digit || carry) {
                far = far.max(if rings.closed[d] { near } else { on_line });
                load = load.max(if carries { near } else { offset });
            }
        }
        if pattern == Pattern::Single && !carries {
            load = load.min(1.0);
        }
        carry = carries && (carry || digit > 0.0);
        left /= rings.members[d];
        hops += far;
        slowest = slowest.max(load / rings.link[d]);
    }
    (hops, slowest)
}

/// Rate of all links of one device on level `i`, or `rate` where it is no torus.
pub(super) fn port(route: &Route, i: usize, rate: f64) -> f64 {
    if route.level(i).kind.has_dims() && route.group.members[i] > 1 {
        Rings::new(route, i).injection()
    } else {
        rate
    }
}

/// Seconds that the busiest link of torus level `i` needs for the parts of an all-to-all.
///
/// Each part goes along the first dimension, then the next, the shorter way round; half each way where
/// both are as long. `bytes[from * p + to]`.
pub(super) fn busiest_link(route: &Route, i: usize, bytes: &[Bytes]) -> f64 {
    let rings = Rings::new(route, i);
    let ranks = route.group.size as usize;
    let inside = route.group.covered(i) as usize;
    let mut loads = vec![[[0.0; 2]; MAX_DIMS]; ranks];
    for (at, part) in bytes.iter().enumerate() {
        let (from, to) = (at / ranks, at % ranks);
        let unit = inside * route.group.members[i] as usize;
        if part.value() > 0.0 && from / unit == to / unit {
            rings.send(&mut loads, inside, (from, to), part.value());
        }
    }
    let times = loads.iter().flat_map(|links| {
        let per_link = links.iter().zip(rings.link);
        per_link
            .flat_map(|(ways, rate)| ways.map(|load| if load > 0.0 { load / rate } else { 0.0 }))
    });
    times.fold(0.0, f64::max)
}

/// Bytes on the links of one device: by dimension, up and down.
type Links = [[f64; 2]; MAX_DIMS];

/// The dimensions that a group uses.
struct Rings {
    count: usize,
    members: [u32; MAX_DIMS],
    /// Members as a number for formulas.
    extent: [f64; MAX_DIMS],
    /// Bytes/s of one link in one direction, as far as the group may use it.
    link: [f64; MAX_DIMS],
    /// True where the ring closes through more than two members, so both directions carry.
    closed: [bool; MAX_DIMS],
    /// Devices round each dimension whose ends are joined, more of them than the group may have; else 0.
    around: [u32; MAX_DIMS],
    /// Seconds per byte of an all-to-all in the box around members that fill none and go on from row to row.
    enclosed: Option<f64>,
}

impl Rings {
    fn new(route: &Route, i: usize) -> Self {
        let level = route.level(i);
        let mut rings = Self {
            count: 0,
            members: [1; MAX_DIMS],
            extent: [1.0; MAX_DIMS],
            link: [0.0; MAX_DIMS],
            closed: [false; MAX_DIMS],
            around: [0; MAX_DIMS],
            enclosed: None,
        };
        for (axis, (&extent, &dim)) in route.group.extents.iter().zip(&level.dims).enumerate() {
            if extent <= 1 {
                continue;
            }
            let spacing = if rings.count == 0 {
                route.group.spacing
            } else {
                1
            };
            let slot = rings.count;
            rings.members[slot] = extent;
            rings.extent[slot] = f64::from(extent);
            rings.link[slot] = route.device_rate(i) / f64::from(spacing);
            let length = extent.saturating_mul(spacing);
            rings.closed[slot] = extent > 2 && length == dim && level.wrap.closes(axis);
            if level.wrap.closes(axis) {
                rings.around[slot] = dim / spacing.max(1);
            }
            if length > dim {
                rings.enclosed = Some(rings.in_box(route, i));
            }
            rings.count += 1;
        }
        rings
    }

    /// Adds `bytes` to the links from one rank to another; `loads[rank][dimension][up or down]`.
    fn send(&self, loads: &mut [Links], inside: usize, ends: (usize, usize), bytes: f64) {
        let (mut at, to) = ends;
        let mut stride = inside;
        for (d, &members) in self.members[..self.count].iter().enumerate() {
            let extent = members as usize;
            let (here, there) = (at / stride % extent, to / stride % extent);
            let up = (there + extent - here) % extent;
            let row = at - here * stride;
            let share_up = match (self.closed[d], (2 * up).cmp(&extent)) {
                _ if up == 0 => 0.0,
                (true, Ordering::Less) => 1.0,
                (true, Ordering::Equal) => 0.5,
                (true, Ordering::Greater) => 0.0,
                (false, _) => f64::from(u8::from(there > here)),
            };
            if up > 0 && share_up > 0.0 {
                for hop in 0..up {
                    loads[row + (here + hop) % extent * stride][d][0] += bytes * share_up;
                }
            }
            if up > 0 && share_up < 1.0 {
                for hop in 0..extent - up {
                    let from = (here + extent - hop) % extent;
                    loads[row + from * stride][d][1] += bytes * (1.0 - share_up);
                }
            }
            at = row + there * stride;
            stride *= extent;
        }
    }

    /// Steps of one pass: half way round where both directions carry, else along the line.
    fn steps(&self) -> f64 {
        (0..self.count)
            .map(|d| {
                if self.closed[d] {
                    (self.extent[d] / 2.0).floor()
                } else {
                    self.extent[d] - 1.0
                }
            })
            .sum()
    }

    /// Rate along dimension `d` of one device: both directions of a closed ring.
    fn rate(&self, d: usize) -> f64 {
        self.link[d] * if self.closed[d] { 2.0 } else { 1.0 }
    }

    fn slowest_link(&self) -> f64 {
        self.link[..self.count]
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min)
    }

    /// Seconds per byte of one pass (all-gather or reduce-scatter) by rotated buckets.
    ///
    /// The buffer is cut into `D` parts, one per used dimension; in phase `j` part `d` runs on
    /// dimension `(d + j) mod D` with what the earlier phases left of it:
    /// `sum_j max_d (1/D) / prod_earlier k * (k - 1)/k / B`, `k` extent, `B` rate of that dimension.
    /// Equal extents and rates give `(p-1)/p / (D * B)`. Sack and Gropp 2015; Kumar et al. 2020.
    fn bucket(&self) -> f64 {
        let parts = self.count as f64;
        let mut total = 0.0;
        for phase in 0..self.count {
            let mut slowest = 0.0_f64;
            for part in 0..self.count {
                let earlier: f64 = (0..phase)
                    .map(|j| self.extent[(part + j) % self.count])
                    .product();
                let d = (part + phase) % self.count;
                let extent = self.extent[d];
                slowest = slowest.max((extent - 1.0) / (extent * parts * earlier * self.rate(d)));
            }
            total += slowest;
        }
        total
    }

    /// Seconds per byte of a gather to one corner, or a scatter from it, dimension by dimension.
    ///
    /// `sum_d (prod_later k) * far_d / (p B)`: before dimension `d` each member holds what the later
    /// ones brought together; `far_d` = k - 1 members along a line, half of them each way on a closed ring.
    fn to_root(&self) -> f64 {
        let ranks: f64 = self.extent[..self.count].iter().product();
        let mut held = 1.0;
        let mut total = 0.0;
        for d in (0..self.count).rev() {
            let others = self.extent[d] - 1.0;
            let far = if self.closed[d] { others / 2.0 } else { others };
            total += held * far / (ranks * self.link[d]);
            held *= self.extent[d];
        }
        total
    }

    /// Seconds per byte of an all-to-all: the busiest cut.
    fn all_to_all(&self) -> f64 {
        self.enclosed.unwrap_or_else(|| {
            (0..self.count)
                .map(|d| across_middle(self.members[d]) / self.rate(d))
                .fold(0.0, f64::max)
        })
    }

    /// Seconds per byte of an all-to-all of members in the smallest box around them, whose other devices send
    /// nothing: `P / p` of what its `P` devices would need, whose pairs hold as much.
    fn in_box(&self, route: &Route, i: usize) -> f64 {
        let level = route.level(i);
        let members = self.members[0];
        let (mut left, mut devices, mut slowest) = (members, 1.0, 0.0_f64);
        for (axis, &dim) in level.dims.iter().enumerate() {
            let extent = left.min(dim);
            left = left.div_ceil(extent.max(1));
            let closed = extent > 2 && extent == dim && level.wrap.closes(axis);
            let rate = self.link[0] * if closed { 2.0 } else { 1.0 };
            slowest = slowest.max(across_middle(extent) / rate);
            devices *= f64::from(extent);
        }
        slowest * devices / f64::from(members)
    }

    /// Rate at which one device can send along all its used links.
    fn injection(&self) -> f64 {
        // an open line's inner members have both neighbours, so two links count for the bound
        (0..self.count).map(|d| 2.0 * self.link[d]).sum()
    }
}

/// Bytes of an all-to-all that cross the middle of a line of `members`, over those of a rank and its part of lines.
///
/// Half of the ranks send half of their bytes across: `n k / 4` per line of `k` ranks, over one link of a line or two
/// of a closed ring: `k / (4 B)` or `k / (8 B)`. Of an odd `k` the halves differ by one: `(k^2 - 1) / k` stands for `k`.
fn across_middle(members: u32) -> f64 {
    let extent = f64::from(members);
    (extent * extent - f64::from(members % 2)) / (4.0 * extent)
}

/// Rate at which one device can send on torus level `i`, for the bound: over links of all dimensions where the
/// group goes on outside, lies unevenly or fills no box, since it may then lie on any of them.
pub(super) fn injection(route: &Route, i: usize) -> f64 {
    let rings = Rings::new(route, i);
    let unknown = route.outermost() > i || route.spread(i).is_some() || rings.enclosed.is_some();
    if unknown {
        2.0 * route.device_rate(i) * route.level(i).dims.len() as f64
    } else {
        rings.injection()
    }
}

/// Seconds per byte that an all-to-all needs across the middle of the dimension where that takes longest, also
/// past devices of others where ends are joined; nothing is known of members that fill no box.
pub(super) fn across(route: &Route, i: usize) -> f64 {
    let rings = Rings::new(route, i);
    if rings.enclosed.is_some() {
        return 0.0;
    }
    let ways = |d: usize| if rings.around[d] > 2 { 2.0 } else { 1.0 };
    (0..rings.count)
        .map(|d| across_middle(rings.members[d]) / (rings.link[d] * ways(d)))
        .fold(0.0, f64::max)
}

/// Hops to the furthest rank on torus level `i`, also past devices of others where ends are joined; one at least of
/// members that fill no box.
pub(super) fn furthest(route: &Route, i: usize) -> f64 {
    let rings = Rings::new(route, i);
    if rings.enclosed.is_some() {
        return 1.0;
    }
    let far = |d: usize| match rings.around[d] {
        0 => rings.members[d] - 1,
        dim => (rings.members[d] - 1).min(dim / 2),
    };
    (0..rings.count).map(|d| f64::from(far(d))).sum()
}

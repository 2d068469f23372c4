//! What a collective costs on the rings of a torus or the lines of a mesh network.

use super::form::{Algorithm, Collective, Form};
use super::route::Route;
use crate::hardware::MAX_DIMS;
use crate::units::Seconds;

/// The collective on a group that lies inside one torus level.
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
    let start = route.step(i) * (collective.passes() * rings.steps());
    let per_byte = match collective {
        Collective::AllToAll => rings.all_to_all(),
        Collective::SendReceive => 1.0 / rings.slowest_link(),
        _ => collective.passes() * rings.bucket(),
    };
    (start, per_byte)
}

/// The dimensions that a group uses.
struct Rings {
    count: usize,
    extent: [f64; MAX_DIMS],
    /// Bytes/s of one link in one direction, as far as the group may use it.
    link: [f64; MAX_DIMS],
    /// True where the ring closes through more than two members, so both directions carry.
    closed: [bool; MAX_DIMS],
}

impl Rings {
    fn new(route: &Route, i: usize) -> Self {
        let level = route.level(i);
        let mut rings = Self {
            count: 0,
            extent: [1.0; MAX_DIMS],
            link: [0.0; MAX_DIMS],
            closed: [false; MAX_DIMS],
        };
        for (&extent, &dim) in route.group.extents.iter().zip(&level.dims) {
            if extent <= 1 {
                continue;
            }
            let spacing = if rings.count == 0 {
                route.group.spacing
            } else {
                1
            };
            let slot = rings.count;
            rings.extent[slot] = f64::from(extent);
            rings.link[slot] = route.device_rate(i) / f64::from(spacing);
            rings.closed[slot] = level.wrap && extent > 2 && extent.saturating_mul(spacing) == dim;
            rings.count += 1;
        }
        rings
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

    /// Seconds per byte of an all-to-all: the busiest cut.
    ///
    /// Half of the ranks send half of their bytes across the middle of dimension `d`: `n k / 4` per
    /// line of `k` ranks, over one link of a line or two of a closed ring: `k / (4 B)` or `k / (8 B)`.
    fn all_to_all(&self) -> f64 {
        (0..self.count)
            .map(|d| self.extent[d] / (4.0 * self.rate(d)))
            .fold(0.0, f64::max)
    }

    /// Rate at which one device can send along all its used links.
    fn injection(&self) -> f64 {
        // an open line's inner members have both neighbours, so two links count for the bound
        (0..self.count).map(|d| 2.0 * self.link[d]).sum()
    }
}

/// Rate at which one device can send on torus level `i`, for the bound.
pub(super) fn injection(route: &Route, i: usize) -> f64 {
    Rings::new(route, i).injection()
}

//! What does a round cost in which ranks send to partners a given distance away, on any fabric?

use super::form::{Algorithm, Form};
use super::route::Route;
use super::torus;
use crate::hardware::{LevelKind, MAX_LEVELS};
use crate::units::Seconds;

/// Who sends to whom in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Every rank to the one `distance` after it, round the group.
    Shift,
    /// Every rank with the one whose number differs in the bit `distance`.
    Exchange,
    /// As `Exchange`, among the power of two of ranks that is left when the first few have given what they
    /// have to their neighbours; distance 0 is that giving.
    Folded,
    /// Every second block of `distance` ranks has one sender, to the block after it.
    Single,
}

/// Rounds that follow one another: times add up.
///
/// `T = base + sum_r (step_r + n * part_r * max_l load_l / B_l)`
///
/// `step_r` is that of the slowest level that round `r` crosses; `part_r` of the buffer is in each
/// message; `load_l` messages share a link of level `l` in a direction: 1 on switches, where each
/// device has its own share `B_l` bytes/s; the links to the other members in a full mesh, whose `B`
/// is their sum; on a torus the messages that pass a link under dimension-ordered routing.
pub(super) struct Rounds<'a> {
    route: &'a Route<'a>,
    fixed: Seconds,
    per_byte: f64,
    /// Partners met so far across each level, for optical switches.
    partners: [f64; MAX_LEVELS],
    /// Units from one partner to the other in the last round that crossed each level.
    apart: [u32; MAX_LEVELS],
    ways: f64,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(route: &'a Route<'a>) -> Self {
        Self {
            route,
            fixed: route.base(),
            per_byte: 0.0,
            partners: [0.0; MAX_LEVELS],
            apart: [0; MAX_LEVELS],
            ways: 1.0,
        }
    }

    /// Adds a round with `part` of the buffer in each message.
    pub(super) fn add(&mut self, pattern: Pattern, distance: u32, part: f64) {
        let (step, slope) = round(self.route, pattern, distance);
        self.fixed += step;
        self.per_byte += part * slope;
        for i in 0..=self.route.outermost() {
            // shorter ways than a unit is wide all lead to the next unit
            let apart = distance.div_ceil(self.route.group.covered(i));
            if moves(self.route, pattern, distance, i) && apart != self.apart[i] {
                self.partners[i] += 1.0;
                self.apart[i] = apart;
            }
        }
    }

    /// Repeats all rounds in the opposite order: the partners of the last are those of the first.
    pub(super) fn and_back(&mut self) {
        self.fixed += self.fixed - self.route.base();
        self.per_byte *= 2.0;
        self.ways = 2.0;
    }

    /// Adds another form's steps and bytes, but not its start-up.
    pub(super) fn follow(&mut self, form: &Form) {
        self.fixed += form.fixed - self.route.base();
        self.per_byte += form.per_byte;
    }

    pub(super) fn form(&self, algorithm: Algorithm) -> Form {
        let levels = 0..=self.route.outermost();
        let turns =
            levels.map(|i| self.route.switch_reconfiguration(i, self.partners[i]) * self.ways);
        Form {
            algorithm,
            protocol: self.route.protocol,
            fixed: self.fixed + turns.sum(),
            per_byte: self.per_byte,
        }
    }
}

/// Step time, and seconds per byte of a message, of one round.
pub(super) fn round(route: &Route, pattern: Pattern, distance: u32) -> (Seconds, f64) {
    let mut step = Seconds::ZERO;
    let mut slope = 0.0_f64;
    let (mut beyond, mut inside) = (false, false);
    for i in (0..=route.outermost()).rev() {
        let moved = moves(route, pattern, distance, i);
        // what goes further out passes the networks on its way, but not the links inside a node
        let passes = i > 0 && (inside || beyond && !route.inside(i));
        if !moved && !passes {
            continue;
        }
        let (hops, per_byte) = if moved && route.level(i).kind.has_dims() {
            torus::round(route, i, pattern, distance)
        } else {
            (1.0, load(route, i, moved) / route.device_rate(i))
        };
        slope = slope.max(per_byte);
        if moved {
            step = step.max(route.step(i) * hops);
        }
        beyond |= moved;
        inside |= moved && route.inside(i);
    }
    (step, slope)
}

/// True when some message of the round crosses level `i`.
fn moves(route: &Route, pattern: Pattern, distance: u32, i: usize) -> bool {
    let inside = route.group.covered(i);
    let within = inside * route.group.members[i];
    let size = route.group.size;
    let crosses = |(a, b): (u32, u32)| a / inside != b / inside && a / within == b / within;
    match pattern {
        Pattern::Folded => folded(size, distance).any(crosses),
        Pattern::Single if carries(route, pattern) => {
            let first = (0..size - distance.min(size)).step_by(2 * distance as usize);
            first.map(|rank| (rank, rank + distance)).any(crosses)
        }
        Pattern::Shift => within > inside && distance.min(size - distance) < within,
        Pattern::Exchange | Pattern::Single => (inside..within).contains(&distance),
    }
}

/// The pairs of a round among `size` ranks of which the first, two by two, are one.
fn folded(size: u32, distance: u32) -> impl Iterator<Item = (u32, u32)> {
    let power = 1 << size.ilog2();
    let extra = size - power;
    let rank = move |number: u32| {
        if number < extra {
            2 * number + 1
        } else {
            number + extra
        }
    };
    let first = if distance == 0 { extra } else { power };
    let chosen = (0..first).filter(move |number| number & distance == 0);
    chosen.map(move |number| match distance {
        0 => (2 * number, 2 * number + 1),
        _ => (rank(number), rank(number | distance)),
    })
}

/// True when a distance can move a rank across more levels than the one of its highest digit.
pub(super) fn carries(route: &Route, pattern: Pattern) -> bool {
    match pattern {
        Pattern::Exchange | Pattern::Folded => false,
        Pattern::Single => !route.group.size.is_power_of_two(),
        Pattern::Shift => true,
    }
}

/// Links of level `i` among which the one to the partner is.
fn load(route: &Route, i: usize, moved: bool) -> f64 {
    if moved && route.level(i).kind == LevelKind::Mesh {
        route.mesh_links(i)
    } else {
        1.0
    }
}

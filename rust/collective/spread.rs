//! How do groups that do not line up with the units of a fabric load the busiest unit's links?

use crate::hardware::Group;
use std::ops::Range;

/// Devices that a walk may pass; groups that need more are taken as at their worst place.
const MOST_DEVICES: u64 = 1 << 24;

/// What all groups like one put on the links of a unit, per device of the unit; each the most of any unit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Spread {
    /// Most units of any group.
    pub(super) units: u32,
    /// Most ranks of a group inside one unit.
    pub(super) inside: u32,
    /// Groups that reach into the unit and out of it: what each sends a ring's next unit.
    pub(super) crossing: f64,
    /// Pairs of a rank inside with one outside: `sum_g m_g (p - m_g)`, `m_g` of the `p` ranks inside.
    pub(super) pairs: f64,
    /// Ranks outside of the groups that cross: `sum_g (p - m_g)`.
    pub(super) outside: f64,
    /// Groups that cross and have their first rank inside, or those that have it outside, whichever is more.
    pub(super) rooted: f64,
    /// As `outside`, of the groups whose first rank is inside.
    pub(super) gathered: f64,
    /// Not of one unit but of all that are reached: `sum_g (N_g - 1)` over their devices, `N_g` units.
    pub(super) joins: f64,
}

/// Sums over the groups that reach into one unit.
#[derive(Debug, Clone, Copy, Default)]
struct Unit {
    crossing: u32,
    roots: u32,
    pairs: f64,
    outside: f64,
    gathered: f64,
}

impl Spread {
    /// Walks the groups that fill `devices` devices, block after block, over units of `below` devices.
    ///
    /// `None` where all units look alike: blocks of `stride * size` fill units or units fill blocks, and
    /// ranks in a unit are its devices at the stride. Blocks and units repeat after their least common
    /// multiple, so one period and what is left at the end tell all.
    pub(super) fn new(group: &Group, devices: u32, below: u32) -> Option<Self> {
        let block = group.stride.checked_mul(group.size)?;
        let in_units = below.is_multiple_of(group.stride) || group.stride.is_multiple_of(below);
        if below.is_multiple_of(block) || (block.is_multiple_of(below) && in_units) {
            return None;
        }
        let blocks = (devices / block).max(1);
        let period = (below / gcd(below, block)).min(blocks);
        // no cluster is so large; a walk would take more memory than there is
        if u64::from(period) * u64::from(block) > MOST_DEVICES {
            return None;
        }
        let tail = blocks / period * period;
        let mut spread = Self::default();
        spread.walk(group, 0..period, (devices, below));
        spread.walk(group, tail..blocks, (devices, below));
        Some(spread)
    }

    /// Takes the most of the units that the groups of some blocks reach; the first block starts a unit.
    fn walk(&mut self, group: &Group, blocks: Range<u32>, (devices, below): (u32, u32)) {
        let block = group.stride * group.size;
        let start = blocks.start * block;
        let most = (blocks.len() as u64 * u64::from(block)).div_ceil(u64::from(below));
        let mut units = vec![Unit::default(); usize::try_from(most).unwrap_or(0)];
        let (mut joins, mut reached) = (0.0, 0.0);
        for first in blocks.map(|number| number * block - start) {
            for offset in 0..group.stride {
                joins += f64::from(self.add(&mut units, group, first + offset, below) - 1);
            }
        }
        let mut left = devices - start.min(devices);
        for unit in &units {
            let held = f64::from(left.clamp(1, below));
            if unit.crossing > 0 {
                self.take(unit, held);
                reached += held;
            }
            left = left.saturating_sub(below);
        }
        if reached > 0.0 {
            self.joins = self.joins.max(joins / reached);
        }
    }

    /// Adds the group that starts at device `first`; returns how many units it reaches into.
    fn add(&mut self, units: &mut [Unit], group: &Group, first: u32, below: u32) -> u32 {
        let Group { size, stride, .. } = *group;
        let last = first + (size - 1) * stride;
        let (mut rank, mut count) = (0, 0);
        while rank < size {
            let at = (first + rank * stride) / below;
            let after = ((at + 1).saturating_mul(below) - first)
                .div_ceil(stride)
                .min(size);
            let inside = after - rank;
            self.inside = self.inside.max(inside);
            if first / below != last / below
                && let Some(unit) = units.get_mut(at as usize)
            {
                let (here, there) = (f64::from(inside), f64::from(size - inside));
                unit.crossing += 1;
                unit.pairs += here * there;
                unit.outside += there;
                if rank == 0 {
                    unit.roots += 1;
                    unit.gathered += there;
                }
            }
            rank = after;
            count += 1;
        }
        self.units = self.units.max(count);
        count
    }

    fn take(&mut self, unit: &Unit, held: f64) {
        let rooted = unit.roots.max(unit.crossing - unit.roots);
        self.crossing = self.crossing.max(f64::from(unit.crossing) / held);
        self.pairs = self.pairs.max(unit.pairs / held);
        self.outside = self.outside.max(unit.outside / held);
        self.rooted = self.rooted.max(f64::from(rooted) / held);
        self.gathered = self.gathered.max(unit.gathered / held);
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

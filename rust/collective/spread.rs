//! How do groups that do not line up with the units of a fabric load the busiest unit's links?

use crate::hardware::{Group, Level};

/// Devices of one period up to which the places of groups are told apart; groups that need more are taken as at
/// their worst place, since no cluster is so large.
const MOST_DEVICES: u64 = 1 << 24;

/// What all groups like one put on the links of a unit, per device of the unit; each the most of any unit.
///
/// Where the devices of a unit share adapters, the few of one that is not full have them all, and count as that many
/// devices more.
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

/// Sums over the groups that reach into one unit and out of it.
#[derive(Debug, Clone, Copy, Default)]
struct UnitTraffic {
    crossing: u64,
    roots: u64,
    pairs: u64,
    outside: u64,
    gathered: u64,
    /// Most ranks of any group inside, of those that stay inside too.
    inside: u64,
}

/// Groups of `size` ranks, `stride` apart, in blocks of as many devices, over units of `below`.
#[derive(Debug, Clone, Copy)]
struct GroupBlocks {
    size: u64,
    stride: u64,
    block: u64,
    below: u64,
    adapters: Option<u32>,
}

impl Spread {
    /// The groups that fill `devices` devices, block after block, over units of `below` devices, which share so many
    /// adapters, or have their own.
    ///
    /// `None` where all units look alike: blocks of `stride * size` fill units or units fill blocks, and
    /// ranks in a unit are its devices at the stride. Blocks and units repeat after their least common
    /// multiple, so one period and what is left at the end tell all. Fewer devices than a block are taken as one:
    /// whoever asks for a group alone names no more of them than it spans.
    pub(super) fn new(
        group: &Group,
        devices: u32,
        below: u32,
        adapters: Option<u32>,
    ) -> Option<Self> {
        let block = group.stride.checked_mul(group.size)?;
        let in_units = below.is_multiple_of(group.stride) || group.stride.is_multiple_of(below);
        if below.is_multiple_of(block) || (block.is_multiple_of(below) && in_units) {
            return None;
        }
        let devices = devices.max(block);
        let blocks = devices / block;
        let period = (below / gcd(below, block)).min(blocks);
        if u64::from(period) * u64::from(block) > MOST_DEVICES {
            return None;
        }
        let tail = blocks / period * period;
        let lay = GroupBlocks {
            size: group.size.into(),
            stride: group.stride.into(),
            block: block.into(),
            below: below.into(),
            adapters,
        };
        let mut spread = Self::default();
        spread.walk(&lay, period, devices);
        // blocks that are left start a unit too
        spread.walk(&lay, blocks - tail, devices.saturating_sub(tail * block));
        Some(spread)
    }

    /// Takes the most of the units that the groups of so many blocks reach, of which the first starts a
    /// unit, as do the `devices` devices from there on.
    fn walk(&mut self, lay: &GroupBlocks, blocks: u32, devices: u32) {
        let (block, below) = (lay.block, lay.below);
        let (filled, devices) = (u64::from(blocks) * block, u64::from(devices));
        let mut joins = 0;
        for first in (0..u64::from(blocks)).map(|number| number * block) {
            let (units, joined) = lay.reach(first);
            self.units = self.units.max(narrow(units));
            joins += joined;
        }
        let reached = if block < 2 * below {
            (0..filled.div_ceil(below))
                .map(|at| {
                    let held = lay.links(devices_in_unit(at, below, devices));
                    self.take_unit(&lay.unit(at, filled), held)
                })
                .sum()
        } else {
            self.walk_ends(lay, (filled, devices))
        };
        if reached > 0.0 {
            self.joins = self.joins.max(joins as f64 / reached);
        }
    }

    /// As `walk` where blocks are of two units or more; returns the devices of all units that are reached.
    ///
    /// Every group then crosses, and units inside a block hold the same numbers of ranks. Only the number of first
    /// ranks falls from one to the next, and with it `gathered`, while `rooted` is most at one end or the
    /// other. So the first and the last unit of a block stand for all, beside those that hold an end of one.
    fn walk_ends(&mut self, lay: &GroupBlocks, (filled, devices): (u64, u64)) -> f64 {
        let (block, below) = (lay.block, lay.below);
        let units = filled.div_ceil(below);
        let mut take = |at: u64| {
            if at < units {
                let held = lay.links(devices_in_unit(at, below, devices));
                self.take_unit(&lay.unit(at, filled), held);
            }
        };
        for number in 0..filled / block {
            let (first, end) = (number * block, (number + 1) * block);
            take(first / below);
            take(first.div_ceil(below));
            take(end / below - 1);
            take((end - 1) / below);
        }
        // where the devices end inside a block
        let whole = devices / below;
        take(whole);
        take(whole + 1);
        let beyond = units.saturating_sub(whole + 1);
        let cut = if units > whole {
            lay.links(devices_in_unit(whole, below, devices))
        } else {
            0.0
        };
        (units.min(whole) * below) as f64 + cut + beyond as f64 * lay.links(1)
    }

    /// Takes the most of a unit with the links of so many devices; returns these where a group crosses.
    fn take_unit(&mut self, unit: &UnitTraffic, held: f64) -> f64 {
        self.inside = self.inside.max(narrow(unit.inside));
        if unit.crossing == 0 {
            return 0.0;
        }
        let rooted = unit.roots.max(unit.crossing - unit.roots);
        let each = |sum: u64| sum as f64 / held;
        self.crossing = self.crossing.max(each(unit.crossing));
        self.pairs = self.pairs.max(each(unit.pairs));
        self.outside = self.outside.max(each(unit.outside));
        self.rooted = self.rooted.max(each(rooted));
        self.gathered = self.gathered.max(each(unit.gathered));
        held
    }
}

impl GroupBlocks {
    /// The links that so many devices of a unit have, in those of one device where all send.
    fn links(&self, held: u64) -> f64 {
        let alone = Level::alone(self.adapters, narrow(held), narrow(self.below));
        held as f64 * alone
    }

    /// The groups of the block that starts at device `first`: most units of one, and `sum_g (N_g - 1)`.
    ///
    /// Ranks a unit or more apart lie in as many units; else a group reaches all from its first rank's to its
    /// last one's.
    fn reach(&self, first: u64) -> (u64, u64) {
        let Self {
            size,
            stride,
            below,
            ..
        } = *self;
        if stride >= below {
            return (size, stride * (size - 1));
        }
        let along = (size - 1) * stride;
        // sum of the units' numbers over the devices before one
        let before = |device: u64| {
            let (unit, inside) = (device / below, device % below);
            below * (unit * unit.saturating_sub(1) / 2) + unit * inside
        };
        let numbers = |start: u64| before(start + stride) - before(start);
        let latest = (first % below + stride).min(below) - 1;
        let units = along / below + (latest + along % below) / below + 1;
        (units, numbers(first + along) - numbers(first))
    }

    /// Sums over unit `at` of those that hold the `filled` devices of whole blocks.
    fn unit(&self, at: u64, filled: u64) -> UnitTraffic {
        let mut unit = UnitTraffic::default();
        let (start, end) = (at * self.below, ((at + 1) * self.below).min(filled));
        let (first, last) = (start / self.block, (end - 1) / self.block);
        if last > first + 1 {
            unit.inside = self.size; // whole blocks between, of which no group crosses
        }
        let along = |device: u64, number: u64| device - number * self.block;
        self.add(
            &mut unit,
            (along(start, first), along(end, first).min(self.block)),
        );
        if last > first {
            self.add(&mut unit, (0, along(end, last)));
        }
        unit
    }

    /// Adds the groups of a block that have ranks among its devices from one on to before another.
    ///
    /// Of `n` devices in a row each group holds `n / stride`, and as many groups as are left over hold one
    /// more: those of the first devices.
    fn add(&self, unit: &mut UnitTraffic, (from, to): (u64, u64)) {
        let (each, more) = ((to - from) / self.stride, (to - from) % self.stride);
        let rest = if each > 0 { self.stride - more } else { 0 };
        let roots = to.min(self.stride).saturating_sub(from);
        let roots_of_more = roots.min(more);
        for (groups, ranks, roots) in [
            (more, each + 1, roots_of_more),
            (rest, each, roots - roots_of_more),
        ] {
            if groups == 0 {
                continue;
            }
            unit.inside = unit.inside.max(ranks);
            let there = self.size - ranks;
            if there > 0 {
                unit.crossing += groups;
                unit.roots += roots;
                unit.pairs += groups * ranks * there;
                unit.outside += groups * there;
                unit.gathered += roots * there;
            }
        }
    }
}

/// Devices of a unit, of which the cluster's last one may have fewer.
fn devices_in_unit(at: u64, below: u64, devices: u64) -> u64 {
    devices.saturating_sub(at * below).clamp(1, below)
}

/// A number of ranks or units, of which a group has no more than `u32` counts.
fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::ops::Range;

    /// Walks every rank of every group of some blocks, one after another.
    fn walk(
        spread: &mut Spread,
        group: &Group,
        blocks: Range<u32>,
        (devices, below, adapters): (u32, u32, Option<u32>),
    ) {
        let block = group.stride * group.size;
        let start = blocks.start * block;
        let most = ((blocks.end - blocks.start) * block).div_ceil(below);
        let mut units = vec![UnitTraffic::default(); usize::try_from(most).unwrap_or(0)];
        let mut joins = 0;
        let firsts = |number: u32| (0..group.stride).map(move |o| number * block - start + o);
        for first in blocks.flat_map(firsts) {
            let mut ranks = BTreeMap::<u32, u64>::new();
            for rank in 0..group.size {
                *ranks
                    .entry((first + rank * group.stride) / below)
                    .or_default() += 1;
            }
            let reach = ranks.len() as u64;
            spread.units = spread.units.max(narrow(reach));
            joins += reach - 1;
            for (&at, &here) in &ranks {
                let unit = &mut units[at as usize];
                unit.inside = unit.inside.max(here);
                if ranks.len() > 1 {
                    let there = u64::from(group.size) - here;
                    let roots = u64::from(first / below == at);
                    unit.crossing += 1;
                    unit.roots += roots;
                    unit.pairs += here * there;
                    unit.outside += there;
                    unit.gathered += roots * there;
                }
            }
        }
        let mut left = devices.saturating_sub(start);
        let mut reached = 0.0;
        for unit in &units {
            let held = left.clamp(1, below);
            // adapters that the devices there leave idle serve them, too
            let shared = adapters.map_or(below, |adapters| adapters.max(held));
            let held = f64::from(held) * (f64::from(below) / f64::from(shared)).max(1.0);
            reached += spread.take_unit(unit, held);
            left = left.saturating_sub(below);
        }
        if reached > 0.0 {
            spread.joins = spread.joins.max(joins as f64 / reached);
        }
    }

    proptest! {
        #[test]
        fn devices_that_a_block_lacks_count_as_its_own(
            stride in 1_u32..60, size in 2_u32..40, percent in 0_u32..100, below in 2_u32..40,
        ) {
            let group = Group { size, stride, ..Group::SINGLE };
            let block = stride * size;
            let fewer = block * percent / 100;
            prop_assert_eq!(
                Spread::new(&group, fewer, below, None), Spread::new(&group, block, below, None)
            );
        }

        #[test]
        fn ends_of_blocks_stand_for_a_walk_over_all_ranks(
            stride in 1_u32..60, size in 2_u32..40, devices in 1_u32..5000, below in 2_u32..40,
            shared in 0_u32..40,
        ) {
            let group = Group { size, stride, ..Group::SINGLE };
            let adapters = (1..=below).contains(&shared).then_some(shared);
            if let Some(found) = Spread::new(&group, devices, below, adapters) {
                let block = stride * size;
                let devices = devices.max(block);
                let blocks = devices / block;
                let period = (below / gcd(below, block)).min(blocks);
                let mut walked = Spread::default();
                let units = (devices, below, adapters);
                walk(&mut walked, &group, 0..period, units);
                walk(&mut walked, &group, blocks / period * period..blocks, units);
                prop_assert!((found.joins - walked.joins).abs() <= 1e-12 * walked.joins);
                walked.joins = found.joins; // summed in another order
                prop_assert_eq!(found, walked);
            }
        }
    }
}

//! How often do the mirrors of optical switches turn for the messages of a plan?

use crate::collective::{Algorithm, Collective};
use crate::hardware::Cluster;
use std::collections::BTreeSet;

/// Which units send to which across each optical switch.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    levels: Vec<Mirror>,
}

#[derive(Debug)]
struct Mirror {
    /// Devices of a unit, and of all units that the switch joins.
    below: u32,
    within: u32,
    circuits: u32,
    reconfiguration: f64,
    pairs: BTreeSet<(u32, u32)>,
}

impl Mirrors {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let mut below = 1;
        let mut levels = Vec::new();
        for level in &cluster.system.levels {
            let within = level.devices.unwrap_or(cluster.devices).max(below);
            if let Some(optical) = level.optical {
                levels.push(Mirror {
                    below,
                    within,
                    circuits: optical.circuits,
                    reconfiguration: optical.reconfiguration.value(),
                    pairs: BTreeSet::new(),
                });
            }
            below = within;
        }
        Self { levels }
    }

    /// Notes a message between two devices.
    pub(super) fn pass(&mut self, (from, to): (u32, u32)) {
        for mirror in &mut self.levels {
            let units = (from / mirror.below, to / mirror.below);
            if units.0 != units.1 && from / mirror.within == to / mirror.within {
                mirror.pairs.insert(units);
            }
        }
    }

    /// Seconds that the turns take: `ways (ceil(partners / circuits) - 1) reconfiguration` of the unit with most
    /// partners that it sends to, or that send to it.
    pub(super) fn turns(&self, ways: f64) -> f64 {
        self.levels.iter().map(|mirror| mirror.turns(ways)).sum()
    }
}

impl Mirror {
    fn turns(&self, ways: f64) -> f64 {
        let there = self.pairs.iter().map(|&(from, _)| from);
        let mut back: Vec<u32> = self.pairs.iter().map(|&(_, to)| to).collect();
        back.sort_unstable();
        let partners = longest_run(there).max(longest_run(back.into_iter()));
        let settings = partners.div_ceil(self.circuits.max(1));
        ways * f64::from(settings.saturating_sub(1)) * self.reconfiguration
    }
}

/// Most equal numbers in a row.
fn longest_run(numbers: impl Iterator<Item = u32>) -> u32 {
    let (mut longest, mut run, mut last) = (0, 0, None);
    for number in numbers {
        run = if last == Some(number) { run + 1 } else { 1 };
        longest = longest.max(run);
        last = Some(number);
    }
    longest
}

/// Passes over all partners: two where an all-reduce meets them in order and once more on its way back.
pub(super) fn pass_count(algorithm: Algorithm, collective: Collective) -> f64 {
    let returns = matches!(algorithm, Algorithm::HalvingDoubling | Algorithm::Product);
    if returns && collective == Collective::AllReduce {
        2.0
    } else {
        1.0
    }
}

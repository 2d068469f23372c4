//! What does a step come to where only some layers live on the host, and layers may share weights?

use super::layer_placement::{LayerPlacement, LayerTiers};
use super::rates::{Rates, Tier};
use super::report::{OffloadReport, TierBytes};
use super::work::StepWork;
use crate::error::amounts::count;
use crate::error::{Error, Result};
use serde::Deserialize;

/// Granular offloading and shared layers of M6-10T (Lin et al. 2021, sections 3 and 4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Granular {
    /// Blocks whose weights and state live on the host; none: as few as fit.
    pub away: Option<u32>,
    /// Sets of weights that the like layers share, each by neighbours ("pseudo" stage); none: one
    /// for each layer.
    pub groups: Option<u32>,
}

impl Granular {
    /// The first of the layers that use the same weights.
    fn owners(self, work: &StepWork) -> Result<Vec<usize>> {
        let like: Vec<usize> = (0..work.layers.len())
            .filter(|&index| work.layers[index].repeats)
            .collect();
        let mut owners: Vec<usize> = (0..work.layers.len()).collect();
        let Some(groups) = self.groups else {
            return Ok(owners);
        };
        count("groups", u64::from(groups), 1, like.len().max(1) as u64)?;
        let groups = groups as usize;
        let mut first = vec![None; groups];
        for (place, &index) in like.iter().enumerate() {
            let group = &mut first[place * groups / like.len()];
            owners[index] = *group.get_or_insert(index);
        }
        Ok(owners)
    }

    /// `away` of the blocks that hold weights on the host, spread so that each one's copies run under
    /// the passes of those between: in the order of their places' bits read backwards, in which
    /// fewer blocks are always among more.
    fn placement(work: &StepWork, owners: &[usize], away: usize) -> LayerPlacement {
        let here = LayerTiers {
            weights: Tier::Device,
            optimizer: Tier::Device,
        };
        let there = LayerTiers {
            weights: Tier::Host,
            optimizer: Tier::Host,
        };
        let mut placed = LayerPlacement::all(work, here);
        let holders: Vec<usize> = (0..owners.len()).filter(|&at| owners[at] == at).collect();
        let mut places: Vec<usize> = (0..holders.len()).collect();
        places.sort_by_key(|place| place.reverse_bits());
        for &place in places.iter().take(away) {
            placed.homes[holders[place]] = there;
        }
        for (layer, &owner) in owners.iter().enumerate() {
            placed.homes[layer] = placed.homes[owner];
        }
        placed.owners = owners.to_vec();
        placed
    }

    /// The placement with the fewest blocks on the host that fits; all of them where none does.
    fn fitting_placement(self, work: &StepWork, rates: &Rates) -> Result<(LayerPlacement, usize)> {
        let owners = self.owners(work)?;
        let most = (0..owners.len()).filter(|&at| owners[at] == at).count();
        if let Some(away) = self.away {
            count("away", u64::from(away), 0, most as u64)?;
            return Ok((Self::placement(work, &owners, away as usize), away as usize));
        }
        let holds = |away: usize| {
            let held = Self::placement(work, &owners, away).memory_use(work);
            held.missing_bytes(rates, Tier::Device) <= 0.0
        };
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low.midpoint(high);
            if holds(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok((Self::placement(work, &owners, low), low))
    }

    pub(super) fn memory_use(self, work: &StepWork, rates: &Rates) -> Result<TierBytes> {
        Ok(self.fitting_placement(work, rates)?.0.memory_use(work))
    }

    pub(super) fn run(self, work: &StepWork, rates: &Rates) -> Result<OffloadReport> {
        if !rates.has(Tier::Host) {
            return Err(Error::invalid(
                "system.host",
                "nothing",
                "a host with memory",
            ));
        }
        let (placed, away) = self.fitting_placement(work, rates)?;
        let ran = placed.lay_out(work, rates).run(1)?;
        let mut answer = OffloadReport::new(work, rates, &placed.memory_use(work), ran);
        answer.chosen = vec![("away", away.to_string())];
        Ok(answer)
    }
}

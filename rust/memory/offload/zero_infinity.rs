//! What does a step of ZeRO-Infinity come to: weights, state and activations on host or drives?

use super::layer_placement::{LayerPlacement, LayerTiers};
use super::rates::{Rates, Tier};
use super::report::{OffloadReport, TierBytes};
use super::work::StepWork;
use crate::error::amounts::count;
use crate::error::{Error, Result};
use serde::Deserialize;

/// ZeRO-Infinity (Rajbhandari et al. 2021): every tensor of the model is cut over all devices and
/// has a home among the tiers.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ZeroInfinity {
    /// Home of the weights; none: the choice of homes that fits and ends soonest.
    pub weights: Option<Tier>,
    /// Home of gradients, master weights and moments, as near as the weights' or behind it.
    pub optimizer: Option<Tier>,
    /// Home of kept activations.
    pub activations: Option<Tier>,
    /// Parts of an operator that run one behind the other (memory-centric tiling, section 5.1.3).
    pub tiles: u32,
    /// True where every device brings its part of a layer over its own link, false where the link
    /// of one brings the whole layer (bandwidth-centric partitioning, section 6.1).
    pub bandwidth_centric: bool,
    /// True where copies run ahead of passes (overlap-centric design, section 6.2).
    pub overlap: bool,
}

impl Default for ZeroInfinity {
    fn default() -> Self {
        Self {
            weights: None,
            optimizer: None,
            activations: None,
            tiles: 1,
            bandwidth_centric: true,
            overlap: true,
        }
    }
}

/// Homes of weights, of state and of activations.
type Homes = [Tier; 3];

impl ZeroInfinity {
    /// The homes that the caller leaves open, nearest first; those that no tier is there for left out.
    fn choices(&self, rates: &Rates) -> Result<Vec<Homes>> {
        count("tiles", u64::from(self.tiles), 1, 1 << 16)?;
        let of = |given: Option<Tier>| {
            let all = Tier::ALL.into_iter().filter(|&tier| rates.has(tier));
            given.map_or_else(|| all.collect::<Vec<Tier>>(), |tier| vec![tier])
        };
        for (field, given) in [
            ("weights", self.weights),
            ("optimizer", self.optimizer),
            ("activations", self.activations),
        ] {
            if given.is_some_and(|tier| !rates.has(tier)) {
                return Err(Error::invalid(field, "drive", "a tier that the system has"));
            }
        }
        let mut found = Vec::new();
        for optimizer in of(self.optimizer) {
            for weights in of(self.weights) {
                for activations in of(self.activations) {
                    if weights <= optimizer {
                        found.push([weights, optimizer, activations]);
                    }
                }
            }
        }
        if found.is_empty() {
            let allowed = "a tier as near as the optimizer's, or nearer";
            return Err(Error::invalid(
                "weights",
                "a tier behind the optimizer's",
                allowed,
            ));
        }
        Ok(found)
    }

    fn placement(
        &self,
        work: &StepWork,
        [weights, optimizer, activations]: Homes,
    ) -> LayerPlacement {
        LayerPlacement {
            activations,
            tiles: f64::from(self.tiles),
            one_link: !self.bandwidth_centric,
            serial: !self.overlap,
            ..LayerPlacement::all(work, LayerTiers { weights, optimizer })
        }
    }

    /// What the first choice that fits holds; the farthest where none does.
    pub(super) fn memory_use(&self, work: &StepWork, rates: &Rates) -> Result<TierBytes> {
        let mut last = TierBytes::default();
        for homes in self.choices(rates)? {
            last = self.placement(work, homes).memory_use(work);
            if last.fits(rates) {
                break;
            }
        }
        Ok(last)
    }

    pub(super) fn run(&self, work: &StepWork, rates: &Rates) -> Result<OffloadReport> {
        let mut best: Option<OffloadReport> = None;
        for homes in self.choices(rates)? {
            let placed = self.placement(work, homes);
            let held = placed.memory_use(work);
            let fits = held.fits(rates);
            // of those that do not fit only the last, the farthest, is of use
            if !fits && best.as_ref().is_some_and(|best| best.fits) {
                continue;
            }
            let ran = placed.lay_out(work, rates).run(1)?;
            let mut answer = OffloadReport::new(work, rates, &held, ran);
            let names = ["weights", "optimizer", "activations"];
            let chosen = names.into_iter().zip(homes);
            answer.chosen = chosen
                .map(|(n, tier)| (n, format!("{tier:?}").to_lowercase()))
                .collect();
            let better = best
                .as_ref()
                .is_none_or(|best| !best.fits || answer.step_time_s < best.step_time_s);
            if better {
                best = Some(answer);
            }
        }
        best.ok_or_else(|| Error::inconsistent("homes: none could be tried"))
    }
}

/// Share of the peak that a device reaches where nothing overlaps.
///
/// `e = a B / (a B + P)`: `a` operations a byte that is moved, `B` bytes/s, `P` operations/s
/// (Rajbhandari et al. 2021, section 4, equation 6).
pub fn efficiency(intensity: f64, bandwidth: f64, peak: f64) -> f64 {
    intensity * bandwidth / (intensity * bandwidth + peak)
}

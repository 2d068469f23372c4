//! How unevenly experts are loaded, as data that routing carries.

use super::config::{ExpertLoad, MixtureOfExperts};
use crate::workload::Routed;
use std::sync::Arc;

impl ExpertLoad {
    /// Tokens of each of `experts` experts over the mean; the entries average 1.
    ///
    /// Power law: `load_i = E * i^-x / sum_j j^-x`, i from 1 to E experts, x the exponent.
    pub fn loads(&self, experts: u64) -> Vec<f64> {
        let weights: Vec<f64> = match self {
            Self::Balanced => (0..experts).map(|_| 1.0).collect(),
            Self::PowerLaw { exponent } => {
                (1..=experts).map(|i| (i as f64).powf(-exponent)).collect()
            }
            Self::Histogram { weights } => weights.clone(),
        };
        // dividing by the largest first keeps the sum finite for any finite weights
        let largest = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let mean = weights.iter().map(|w| w / largest).sum::<f64>() / weights.len().max(1) as f64;
        weights.iter().map(|w| w / largest / mean).collect()
    }

    /// Tokens of the most loaded rank over the mean, experts lying contiguously on `ranks` ranks.
    pub fn most_loaded(&self, experts: u64, ranks: u64) -> f64 {
        routed(experts, 1, self, None).most_loaded(ranks)
    }
}

impl MixtureOfExperts {
    /// How this layer's tokens meet its experts. Where `padded`, each expert computes as many slots as
    /// the capacity factor gives it, whether tokens fill them or not.
    pub fn routed(&self, padded: bool) -> Routed {
        if let (true, Some(slots)) = (padded, self.capacity_factor) {
            return Routed {
                experts: self.experts,
                top_k: self.top_k,
                imbalance: slots,
                loads: (0..self.experts).map(|_| slots).collect(),
            };
        }
        routed(
            self.experts,
            self.top_k,
            &self.expert_load,
            self.capacity_factor,
        )
    }
}

/// Loads capped by the capacity factor: an expert drops what exceeds it.
fn routed(experts: u64, top_k: u64, load: &ExpertLoad, capacity: Option<f64>) -> Routed {
    let cap = capacity.unwrap_or(f64::INFINITY);
    let loads: Arc<[f64]> = load
        .loads(experts)
        .into_iter()
        .map(|l| {
            if *load == ExpertLoad::Balanced {
                1.0_f64.min(cap)
            } else {
                l.min(cap)
            }
        })
        .collect();
    Routed {
        experts,
        top_k,
        imbalance: loads.iter().copied().fold(0.0, f64::max),
        loads,
    }
}

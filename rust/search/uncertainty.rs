//! How far may each constant of a cluster be off, and which clusters do draws within that give?

use crate::defaults::uncertainty as shares;
use crate::error::{Error, Result};
use crate::hardware::{Cluster, Constant};
use crate::solve::Random;
use serde::Serialize;
use std::collections::BTreeMap;

/// What constants may be off by where nobody says, as the share `u` of `Uncertainty`; see `Uncertainty::new`.
///
/// What is not named is taken as known: peaks and sizes of data sheets, and what was fitted together
/// with an efficiency, whose error holds theirs.
const DEFAULTS: [(&str, f64); 13] = [
    ("device.matmul.efficiency", shares::PRODUCTS),
    ("device.sustained", shares::SUSTAINED),
    ("device.attention.forward_efficiency", shares::ATTENTION),
    ("device.attention.backward_efficiency", shares::ATTENTION),
    (
        "device.training_attention.*.*.efficiency",
        shares::ATTENTION,
    ),
    ("device.memory.bandwidth", shares::MEMORY),
    ("device.cache.bandwidth", shares::CACHE),
    ("device.launch_overhead", shares::LAUNCH),
    ("fabric.*.bandwidth", shares::BANDWIDTH),
    ("fabric.*.latency", shares::LATENCY),
    ("fabric.*.startup", shares::STARTUP),
    ("host.link.bandwidth", shares::HOST),
    ("host.memory.bandwidth", shares::HOST),
];
/// The efficiencies among them on a device without measurements.
const UNMEASURED: f64 = shares::UNMEASURED;
/// A constant that may be ten times its value is not known at all.
const MOST: f64 = 9.0;

/// A constant and how far it may be off.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UncertainConstant {
    /// The constant.
    #[serde(flatten)]
    pub constant: Constant,
    /// The share `u`: the true value lies between `value / (1 + u)` and `value (1 + u)`.
    pub uncertainty: f64,
    /// Those two values; a share ends at 1.
    pub interval: [f64; 2],
}

/// How far each constant of a cluster may be off.
#[derive(Debug, Clone)]
pub struct Uncertainty {
    constants: Vec<Constant>,
    shares: Vec<f64>,
}

impl Uncertainty {
    /// The defaults for a cluster, and what `given` says by name.
    ///
    /// A name stands for all constants whose dotted names it begins, and `*` for one part of a name:
    /// `fabric` means all of the fabric, `fabric.*.latency` the latencies of all levels. Of two names
    /// for one constant the longer one counts, then the one with fewer `*`. Names that are given count
    /// before the defaults.
    pub fn new(cluster: &Cluster, given: &BTreeMap<String, f64>) -> Result<Self> {
        let constants = cluster.constants();
        for (name, share) in given {
            if !(0.0..=MOST).contains(share) {
                let field = format!("uncertainty.{name}");
                return Err(Error::invalid(field, share, format!("0 to {MOST}")));
            }
            if !constants.iter().any(|c| matched(name, &c.name).is_some()) {
                let known = constants.iter().map(|c| c.name.as_str());
                return Err(Error::unknown("uncertainty", name, known));
            }
        }
        let measured = cluster.device.calibration.measured;
        let shares = constants.iter().map(|constant| {
            let given = given.iter().map(|(name, share)| (name.as_str(), *share));
            let own = || DEFAULTS.map(|(name, share)| (name, stated(name, share, measured)));
            let found = nearest(given, &constant.name);
            found.or_else(|| nearest(own().into_iter(), &constant.name))
        });
        Ok(Self {
            shares: shares.map(|share| share.unwrap_or(0.0)).collect(),
            constants,
        })
    }

    /// Every constant that may be off, and by how much.
    pub fn listed(&self) -> Vec<UncertainConstant> {
        let all = self.constants.iter().zip(&self.shares);
        let off = all.filter(|(_, share)| **share > 0.0);
        off.map(|(constant, &uncertainty)| UncertainConstant {
            constant: constant.clone(),
            uncertainty,
            interval: [1.0 / (1.0 + uncertainty), 1.0 + uncertainty]
                .map(|factor| constant.value * constant.applied(factor)),
        })
        .collect()
    }

    /// Factors of draw `index` of a seed: each is `(1 + u)^x` with `x` from -1 to 1, each as likely,
    /// independent of one another.
    ///
    /// Nothing says more of an error than how large it may be, and constants are as likely to be half
    /// as twice what they should be: of all laws within these ends, that is the one which adds least.
    pub fn draw(&self, seed: u64, index: u64) -> Vec<f64> {
        let mut random = Random::new(seed, index);
        let one = |share: &f64| (random.uniform().mul_add(2.0, -1.0) * share.ln_1p()).exp();
        self.shares.iter().map(one).collect()
    }

    /// Factors of the end of every interval at which steps are shortest, or longest.
    pub fn corner(&self, shortest: bool) -> Vec<f64> {
        let all = self.constants.iter().zip(&self.shares);
        all.map(|(constant, share)| {
            if constant.kind.larger_is_better() == shortest {
                1.0 + share
            } else {
                1.0 / (1.0 + share)
            }
        })
        .collect()
    }
}

/// A default on a device whose constants are measured, or not.
fn stated(name: &str, share: f64, measured: bool) -> f64 {
    if !measured && name.ends_with("efficiency") {
        UNMEASURED
    } else {
        share
    }
}

/// What the name that fits best says of a constant.
fn nearest<'a>(names: impl Iterator<Item = (&'a str, f64)>, constant: &str) -> Option<f64> {
    let fits = |(name, share)| matched(name, constant).map(|parts| (parts, share));
    let best = names.filter_map(fits).max_by_key(|(parts, _)| *parts);
    best.map(|(_, share)| share)
}

/// How many parts of a constant's name a given name has, and how many of them are no `*`.
pub(super) fn matched(name: &str, constant: &str) -> Option<(usize, usize)> {
    let mut parts = constant.split('.');
    let mut found = (0, 0);
    for part in name.split('.') {
        let own = parts.next()?;
        if part != "*" && part != own {
            return None;
        }
        found = (found.0 + 1, found.1 + usize::from(part != "*"));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_what_it_begins_and_the_longer_one_counts() {
        let says = |names: &[(&'static str, f64)], constant: &str| {
            nearest(names.iter().copied(), constant)
        };
        let names = [
            ("fabric", 0.1),
            ("fabric.*.latency", 0.2),
            ("fabric.net.latency", 0.3),
            ("fabric.*.share.simple", 0.4),
        ];
        assert_eq!(says(&names, "fabric.net.bandwidth"), Some(0.1));
        assert_eq!(says(&names, "fabric.inner.latency"), Some(0.2));
        assert_eq!(says(&names, "fabric.net.latency"), Some(0.3));
        assert_eq!(says(&names, "fabric.net.share.simple"), Some(0.4));
        assert_eq!(says(&names, "fabrics.net.latency"), None);
        assert_eq!(
            says(&[("fabric.net.latency.x", 1.0)], "fabric.net.latency"),
            None
        );
    }
}

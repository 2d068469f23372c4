//! Tiers, paths and tensors as a user writes them down.

use super::answer::PlacementOutcome;
use super::live_set::LiveSet;
use super::problem::Problem;
use crate::error::{Error, Result};
use crate::hardware::{Memories, MemoryTier, Path};
use crate::solve::assign::Limits;
use serde::{Deserialize, Serialize};

/// Tensors to be placed on tiers that are given, or on those of a device.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What is to be placed.
    pub problem: Problem,
    /// Tiers, nearest first; empty: those of the cluster.
    #[serde(default)]
    pub tiers: Vec<MemoryTier>,
    /// Links that tiers lie behind.
    #[serde(default)]
    pub paths: Vec<Path>,
    /// Name of the tier that compute works in; tiers before it are nearer.
    #[serde(default)]
    pub main: Option<String>,
    /// Name of the tier whose processors can update what lies there.
    #[serde(default)]
    pub host: Option<String>,
    /// Devices that a `shared_by` of 0 stands for.
    #[serde(default = "single")]
    pub node_devices: u32,
    /// Gap at which the proof may stop.
    #[serde(default = "relative_gap")]
    pub relative_gap: f64,
    /// Relaxed programs after which the best placement found is returned with its bound.
    #[serde(default = "nodes")]
    pub nodes: u64,
}

/// A placement with the names that it needs to be read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TensorPlacement {
    /// Names of the tiers, nearest first.
    pub tiers: Vec<String>,
    /// Bytes alive over the step, wherever they lie.
    pub live: LiveSet,
    /// Where they lie, or what is missing.
    #[serde(flatten)]
    pub outcome: PlacementOutcome,
}

impl Request {
    /// The tiers that are given.
    pub fn memories(&self) -> Result<Memories> {
        if self.tiers.is_empty() {
            let what = "tiers: got none; allowed: one or more, or a system whose tiers are taken";
            return Err(Error::inconsistent(what));
        }
        let names = || self.tiers.iter().map(|t| t.name.as_str());
        let find = |field: &str, name: &str| {
            let at = names().position(|known| known == name);
            at.ok_or_else(|| Error::unknown(field, name, names()))
        };
        let main = self.main.as_deref().map_or(Ok(0), |n| find("main", n))?;
        let host = self.host.as_deref().map(|n| find("host", n)).transpose()?;
        Ok(Memories {
            host,
            ..Memories::of(&self.tiers, &self.paths, main + 1, self.node_devices.max(1))?
        })
    }

    /// When the solver may stop.
    pub fn limits(&self) -> Limits {
        Limits {
            gap: self.relative_gap,
            nodes: self.nodes,
            below: f64::INFINITY,
            shortage: true,
        }
    }

    /// Adds names to an outcome.
    pub fn answer(&self, memories: &Memories, outcome: PlacementOutcome) -> TensorPlacement {
        TensorPlacement {
            tiers: memories
                .places
                .iter()
                .map(|p| p.tier.name.clone())
                .collect(),
            live: LiveSet::new(&self.problem),
            outcome,
        }
    }
}

fn single() -> u32 {
    1
}

fn relative_gap() -> f64 {
    1e-6
}

fn nodes() -> u64 {
    100_000
}

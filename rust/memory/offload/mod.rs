//! What does a step come to whose weights, state or activations live beyond the device?

pub mod chunks;
pub mod eviction;
mod granular;
mod layer_placement;
mod patrickstar;
mod rates;
mod report;
mod step;
pub mod weight_streaming;
mod work;
pub mod zero_infinity;
pub mod zero_offload;

pub use granular::Granular;
pub use patrickstar::{MemoryShares, PatrickStar};
pub use rates::{Rates, Tier};
pub use report::{Busy, ByteUse, Exposed, OffloadReport, TierBytes, TierUse};
pub use step::{Engine, Span, TaskKind};
pub use weight_streaming::WeightStreaming;
pub use work::{Layer, StepWork, Tensor};
pub use zero_infinity::ZeroInfinity;
pub use zero_offload::ZeroOffload;

use crate::error::{Error, Result, from_json, from_value};

/// How bytes beyond the device are used; each scheme has a file of its own.
#[derive(Debug, Clone, PartialEq)]
pub enum Scheme {
    /// State and update on the host.
    ZeroOffload(ZeroOffload),
    /// Everything anywhere.
    ZeroInfinity(ZeroInfinity),
    /// Chunks that move.
    Patrickstar(PatrickStar),
    /// Some layers on the host.
    Granular(Granular),
    /// Weights that stream past.
    WeightStreaming(WeightStreaming),
}

/// Names of the schemes.
const NAMES: [&str; 5] = [
    "zero-offload",
    "zero-infinity",
    "patrickstar",
    "granular",
    "weight-streaming",
];

impl Scheme {
    /// Reads a scheme from JSON text: its name in `scheme`, beside it its own fields.
    pub fn read(text: &str) -> Result<Self> {
        let mut fields: serde_json::Map<String, serde_json::Value> = from_json("", text)?;
        let name = fields.remove("scheme").unwrap_or_default();
        let Some(name) = name.as_str() else {
            return Err(Error::invalid("scheme", name, NAMES.join(", ")));
        };
        let fields = serde_json::Value::Object(fields);
        match name {
            "zero-offload" => from_value("", fields).map(Self::ZeroOffload),
            "zero-infinity" => from_value("", fields).map(Self::ZeroInfinity),
            "patrickstar" => from_value("", fields).map(Self::Patrickstar),
            "granular" => from_value("", fields).map(Self::Granular),
            "weight-streaming" => from_value("", fields).map(Self::WeightStreaming),
            _ => Err(Error::unknown("scheme", name, NAMES)),
        }
    }

    /// A step of one device: every pass, copy and update as a task on the engine that runs it.
    pub fn run(&self, work: &StepWork, rates: &Rates) -> Result<OffloadReport> {
        work.check()?;
        rates.check()?;
        match self {
            Self::ZeroOffload(scheme) => scheme.run(work, rates),
            Self::ZeroInfinity(scheme) => scheme.run(work, rates),
            Self::Patrickstar(scheme) => scheme.run(work, rates),
            Self::Granular(scheme) => scheme.run(work, rates),
            Self::WeightStreaming(scheme) => scheme.run(work, rates),
        }
    }

    /// What lies where at the fullest moment of a step.
    pub fn memory_use(&self, work: &StepWork, rates: &Rates) -> Result<TierBytes> {
        work.check()?;
        rates.check()?;
        match self {
            Self::ZeroOffload(scheme) => Ok(scheme.memory_use(work)),
            Self::ZeroInfinity(scheme) => scheme.memory_use(work, rates),
            Self::Patrickstar(scheme) => scheme.memory_use(work, rates),
            Self::Granular(scheme) => scheme.memory_use(work, rates),
            Self::WeightStreaming(scheme) => scheme.memory_use(work),
        }
    }

    /// The parts of the tiers that the scheme uses.
    pub fn usable(&self, rates: Rates) -> Rates {
        match self {
            Self::Patrickstar(scheme) => scheme.usable(&rates),
            _ => rates,
        }
    }

    /// ZeRO stage of its collectives: 2 where devices hold all weights, 3 where they gather them.
    pub const fn zero_stage(&self) -> u8 {
        match self {
            Self::ZeroOffload(_) => 2,
            _ => 3,
        }
    }
}

//! Which algorithm sums gradients over replicas?

use crate::collective::{Algorithm, Collective};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::LazyLock;

/// How a plan's all-reduces between replicas run: gradients over all of them, or a shard over the
/// groups of a hybrid ZeRO. Reduce-scatters, gathers and collectives inside a layer stay the library's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReplicaReduction {
    /// The fastest that the library of the fabric offers.
    #[default]
    Auto,
    /// This algorithm, whether or not the library offers it.
    Forced(Algorithm),
}

impl ReplicaReduction {
    /// The text that asks for the library's own choice.
    pub const AUTO: &'static str = "auto";

    /// All that can be asked for by name: the library's choice, then each algorithm that sums, in the
    /// order of `Algorithm::NAMED`, with one server and a fan-out of two where a count is open.
    pub fn named() -> impl Iterator<Item = Self> {
        let sums = Algorithm::NAMED
            .into_iter()
            .filter(|a| carries_all_reduce(*a));
        std::iter::once(Self::Auto).chain(sums.map(Self::Forced))
    }

    /// The algorithm, where one is forced.
    pub const fn forced(self) -> Option<Algorithm> {
        match self {
            Self::Auto => None,
            Self::Forced(algorithm) => Some(algorithm),
        }
    }
}

/// True where an algorithm carries out an all-reduce.
fn carries_all_reduce(algorithm: Algorithm) -> bool {
    algorithm.carries_out().contains(&Collective::AllReduce)
}

/// `auto`, or the algorithm with its count, as `parameter_server:4`.
impl fmt::Display for ReplicaReduction {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Auto => out.write_str(Self::AUTO),
            Self::Forced(algorithm) => {
                out.write_str(algorithm.name())?;
                match algorithm {
                    Algorithm::ParameterServer { servers: count }
                    | Algorithm::WeightStreaming { fan_out: count } => write!(out, ":{count}"),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl Serialize for ReplicaReduction {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ReplicaReduction {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text == Self::AUTO {
            return Ok(Self::Auto);
        }
        let plain = text.split(':').next().unwrap_or_default();
        if !NAMES.contains(&plain) {
            return Err(D::Error::unknown_variant(&text, &NAMES));
        }
        let found = Algorithm::named(&text).map_err(D::Error::custom)?;
        Ok(Self::Forced(found))
    }
}

/// `auto` and the algorithms, without counts.
static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let name = |choice: ReplicaReduction| {
        choice
            .forced()
            .map_or(ReplicaReduction::AUTO, Algorithm::name)
    };
    ReplicaReduction::named().map(name).collect()
});

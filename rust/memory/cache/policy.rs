//! What does a full cache give up for a newcomer?

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// The rule by which a cache gives up objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Nothing: the most popular are chosen before.
    Static,
    /// What was asked for least often ever; who was asked for no more often stays out.
    Lfu,
    /// What was used the longest ago.
    #[default]
    Lru,
    /// What came in the longest ago.
    Fifo,
    /// Any, by chance.
    Random,
    /// What came in last.
    Lifo,
    /// What is used again last, the future being known.
    Belady,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Static,
        Self::Lfu,
        Self::Lru,
        Self::Fifo,
        Self::Random,
        Self::Lifo,
        Self::Belady,
    ];

    /// Its name in requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Lfu => "lfu",
            Self::Lru => "lru",
            Self::Fifo => "fifo",
            Self::Random => "random",
            Self::Lifo => "lifo",
            Self::Belady => "belady",
        }
    }

    /// The policy of a name.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| Error::unknown("policy", name, Self::ALL.map(Self::name)))
    }
}

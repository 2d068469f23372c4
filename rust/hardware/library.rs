//! How a collective library drives a fabric level: its protocols as lines over the level's own figures.

use super::device::{positive, share};
use super::level::LevelKind;
use crate::defaults::library;
use crate::error::{Error, Result};
use crate::units::{BytesPerSecond, Seconds};
use serde::{Deserialize, Serialize};

/// One protocol: a start-up time, a time per step, and a share of the sustained rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Start-up of one collective: launch, synchronisation, first fill of the pipeline.
    pub base: Seconds,
    /// Time of one step over the level's `latency`.
    pub step: f64,
    /// Share of the level's sustained rate.
    pub share: f64,
}

/// A protocol of `catalog/defaults.toml`, out of its table.
macro_rules! line {
    ($($table:ident)::+) => {
        Line {
            base: library::$($table)::+::BASE,
            step: library::$($table)::+::STEP,
            share: library::$($table)::+::SHARE,
        }
    };
}

/// The channels of a library: thread blocks that each drive a ring or tree of their own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channels {
    /// How many run at once (`NCCL_MAX_NCHANNELS`).
    pub count: u32,
    /// Rate of one of them.
    pub bandwidth: BytesPerSecond,
}

/// The protocols of a library on one level. NCCL's names: LL, LL128, Simple, NVLS.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    /// Flags inside 8-byte stores: short steps, low rate.
    pub low_latency: Line,
    /// Flags inside 128-byte stores.
    pub low_latency_128: Line,
    /// Large chunks with separate flags: full rate, long steps.
    pub simple: Line,
    /// Reduction in the switches, where the level has it; its `base` also where an inner level has it.
    #[serde(default = "switch_reduction")]
    pub in_network: Line,
    /// Kernels in which each device reads all buffers of its peers; asked for by name alone.
    #[serde(default = "reading_peers")]
    pub one_shot: Line,
    /// Kernels in which each device reads one part of all buffers, then the sums of the other parts.
    #[serde(default = "reading_peers")]
    pub two_shot: Line,
    /// Channels of its rings and trees, which bound their rate; absent: enough for the links.
    #[serde(default)]
    pub channels: Option<Channels>,
    /// Passing one's own part through memory, over sending it to a neighbour.
    #[serde(default)]
    pub own_part: f64,
    /// True where the library sends to all peers of a full mesh at once; false where it knows rings alone.
    #[serde(default = "yes")]
    pub direct: bool,
    /// Rate of the many streams of an all-to-all over that of a ring.
    #[serde(default = "full")]
    pub pairwise_share: f64,
    /// Rate of rings and trees while all groups of a job run at once, over that of single messages.
    #[serde(default = "full")]
    pub busy_share: f64,
    /// Issuing one message to one peer, over the level's `latency`.
    #[serde(default = "default_issue")]
    pub issue: f64,
}

impl Library {
    /// What a level without a table of its own gets, by its kind.
    pub const fn of_kind(kind: LevelKind) -> &'static Self {
        match kind {
            LevelKind::Torus
            | LevelKind::WaferMesh
            | LevelKind::OpticalSwitch
            | LevelKind::SingleHop
            | LevelKind::WideArea => &Self::PLAIN,
            LevelKind::FatTree | LevelKind::Dragonfly => &Self::NETWORK,
            LevelKind::Switch | LevelKind::Mesh | LevelKind::Pcie => &Self::NODE,
        }
    }

    /// Messages cost their latency and their bytes, nothing else (Hockney 1994).
    pub const PLAIN: Self = {
        let line = Line {
            base: Seconds::ZERO,
            step: 1.0,
            share: 1.0,
        };
        Self {
            low_latency: line,
            low_latency_128: line,
            simple: line,
            in_network: line,
            one_shot: line,
            two_shot: line,
            channels: None,
            own_part: 0.0,
            direct: true,
            pairwise_share: 1.0,
            busy_share: 1.0,
            issue: default_issue(),
        }
    };

    /// NCCL inside a node.
    pub const NODE: Self = Self {
        low_latency: line!(node::low_latency),
        low_latency_128: line!(node::low_latency_128),
        simple: line!(node::simple),
        in_network: switch_reduction(),
        one_shot: reading_peers(),
        two_shot: reading_peers(),
        channels: None,
        own_part: library::node::OWN_PART,
        direct: true,
        pairwise_share: 1.0,
        busy_share: 1.0,
        issue: default_issue(),
    };

    /// Remote memory access between nodes (InfiniBand and RoCE).
    pub const NETWORK: Self = Self {
        low_latency: line!(network::low_latency),
        low_latency_128: line!(network::low_latency_128),
        simple: line!(network::simple),
        in_network: switch_reduction(),
        one_shot: reading_peers(),
        two_shot: reading_peers(),
        channels: None,
        own_part: 0.0,
        direct: true,
        pairwise_share: 1.0,
        busy_share: 1.0,
        issue: default_issue(),
    };

    pub(super) fn check(&self, path: &str) -> Result<()> {
        for (name, line) in [
            ("low_latency", &self.low_latency),
            ("low_latency_128", &self.low_latency_128),
            ("simple", &self.simple),
            ("in_network", &self.in_network),
            ("one_shot", &self.one_shot),
            ("two_shot", &self.two_shot),
        ] {
            not_negative(&format!("{path}.{name}.base"), line.base.value())?;
            positive(&format!("{path}.{name}.step"), line.step)?;
            share(&format!("{path}.{name}.share"), line.share)?;
        }
        if let Some(channels) = &self.channels {
            positive(&format!("{path}.channels.count"), f64::from(channels.count))?;
            let rate = channels.bandwidth.value();
            positive(&format!("{path}.channels.bandwidth"), rate)?;
        }
        // many streams can reach links that a ring leaves idle
        positive(&format!("{path}.pairwise_share"), self.pairwise_share)?;
        share(&format!("{path}.busy_share"), self.busy_share)?;
        not_negative(&format!("{path}.own_part"), self.own_part)?;
        not_negative(&format!("{path}.issue"), self.issue)
    }
}

const fn switch_reduction() -> Line {
    line!(switch::in_network)
}

const fn reading_peers() -> Line {
    line!(peers::reading)
}

const fn default_issue() -> f64 {
    library::ISSUE
}

fn yes() -> bool {
    true
}

fn full() -> f64 {
    1.0
}

fn not_negative(field: &str, value: f64) -> Result<()> {
    if (0.0..=1e30).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid(field, value, "0 to 1e30"))
    }
}

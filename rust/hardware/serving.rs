//! Which constants say how kernels of inference (prefill, decode, experts) use a device?

use super::attention_model::AttentionModel;
use super::device::{not_negative, positive, share};
use crate::defaults::{decode, experts, prefill};
use crate::error::Result;
use crate::units::{BytesPerSecond, Seconds};
use serde::{Deserialize, Serialize};

/// Constants of prefill attention in one format of queries, beside those of `AttentionModel`: the
/// pass that writes the cache, and what a block of 128 queries pays in special cases.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrefillModel {
    /// Time of the smallest call: launches of the cache pass and of the attention kernel.
    pub launch: Seconds,
    /// What the cache pass (rotation, cast, scatter into pages) takes for an element of the queries
    /// beside its traffic.
    pub element: Seconds,
    /// What it takes for a query head of a sequence whose width is 128; in proportion for others.
    pub head: Seconds,
    /// Queries of a block where heads are wider than 64: a choice of the library, by the registers and the
    /// shared memory that a unit has. Narrower heads come in blocks of 128.
    pub block: f64,
    /// What a block of queries takes more under a sliding window.
    pub window: Seconds,
    /// The same where keys are kept in a narrower format than queries.
    pub cast_window: Seconds,
    /// What a block of queries takes more where heads are at most 64 wide.
    pub narrow: Seconds,
    /// Rate of the products where keys are kept in a narrower format than queries, over the usual one.
    pub cast: f64,
    /// The products in this format; absent: as `attention` of the device has them.
    pub attention: Option<AttentionModel>,
}

impl Default for PrefillModel {
    fn default() -> Self {
        Self {
            launch: prefill::LAUNCH,
            element: prefill::ELEMENT,
            head: Seconds::ZERO,
            block: prefill::BLOCK,
            window: Seconds::ZERO,
            cast_window: Seconds::ZERO,
            narrow: Seconds::ZERO,
            cast: prefill::CAST,
            attention: None,
        }
    }
}

/// Constants of decode attention with a cache of one format: the kernel on the matrix engine, whose
/// blocks take all queries of a key head, and the one on the vector engine, a block for each query head.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecodeModel {
    /// Share of the main memory's bandwidth that reading a cache sustains.
    pub bandwidth_share: f64,
    /// Rate at which one unit reads at most.
    pub unit_bandwidth: BytesPerSecond,
    /// Time of the smallest call of the kernel on the matrix engine.
    pub tiled_launch: Seconds,
    /// Time of the smallest call of the kernel on the vector engine.
    pub vector_launch: Seconds,
    /// What a block on the matrix engine takes before its first key.
    pub tiled_block: Seconds,
    /// What a block on the vector engine takes before its first key.
    pub vector_block: Seconds,
    /// What a block on the matrix engine takes for an element of a key's width.
    pub tiled_key: Seconds,
    /// What it takes more for each query that shares the key; they come in groups of eight.
    pub tiled_row: Seconds,
    /// What a block on the vector engine takes for an element of a key's width.
    pub vector_key: Seconds,
    /// What summing up the parts takes where keys are split over blocks.
    pub split: Seconds,
    /// Parts into which the kernel on the matrix engine splits the keys at most.
    pub most_splits: f64,
    /// What an element of the new queries, keys and values takes.
    pub element: Seconds,
    /// Least count of queries to a key for which the library takes the matrix engine.
    pub tiled_from: f64,
    /// Share of the units that blocks of at least 256 keys must fill for that.
    pub least_occupancy: f64,
}

impl Default for DecodeModel {
    fn default() -> Self {
        Self {
            bandwidth_share: decode::BANDWIDTH_SHARE,
            unit_bandwidth: decode::UNIT_BANDWIDTH,
            tiled_launch: decode::TILED_LAUNCH,
            vector_launch: decode::VECTOR_LAUNCH,
            tiled_block: decode::TILED_BLOCK,
            vector_block: decode::VECTOR_BLOCK,
            tiled_key: decode::TILED_KEY,
            tiled_row: decode::TILED_ROW,
            vector_key: decode::VECTOR_KEY,
            split: decode::SPLIT,
            most_splits: decode::MOST_SPLITS,
            element: decode::ELEMENT,
            tiled_from: decode::TILED_FROM,
            least_occupancy: decode::LEAST_OCCUPANCY,
        }
    }
}

/// Constants of the experts of a mixture as one call (routing, two grouped products, activation,
/// weighted sum), by the format that the products read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpertModel {
    /// Time of the smallest call: all its launches.
    pub launch: Seconds,
    /// Share of the dense peak that tiles of many rows sustain.
    pub efficiency: f64,
    /// Rows at which moving operands on chip costs as much as the products: a tile of `r` rows is
    /// slowed by `1 + tile_overhead / r`.
    pub tile_overhead: f64,
    /// Depth, in elements, that filling and draining a tile costs.
    pub depth_overhead: f64,
    /// Share of the main memory's bandwidth that reading weights sustains.
    pub bandwidth_share: f64,
    /// What each expert on the device takes.
    pub expert: Seconds,
    /// What routing takes for a token and an expert of the whole layer.
    pub routing: Seconds,
    /// What permuting takes for a token and an expert chosen for it.
    pub choice: Seconds,
    /// Traffic of permuting, activation and weighted sum over what they must move.
    pub pass_overhead: f64,
    /// Waves of tiles that the units wait for at the end.
    pub tail: f64,
    /// True where the library takes tiles for the rows of an average expert, as if all chosen ones were
    /// on the device; false where it takes the best ones.
    pub tiles_by_average: bool,
}

impl Default for ExpertModel {
    fn default() -> Self {
        Self {
            launch: experts::LAUNCH,
            efficiency: experts::EFFICIENCY,
            tile_overhead: experts::TILE_OVERHEAD,
            depth_overhead: experts::DEPTH_OVERHEAD,
            bandwidth_share: experts::BANDWIDTH_SHARE,
            expert: experts::EXPERT,
            routing: experts::ROUTING,
            choice: experts::CHOICE,
            pass_overhead: experts::PASS_OVERHEAD,
            tail: experts::TAIL,
            tiles_by_average: false,
        }
    }
}

impl PrefillModel {
    pub(super) fn check(&self, path: &str) -> Result<()> {
        positive(&format!("{path}.cast"), self.cast)?;
        positive(&format!("{path}.block"), self.block)?;
        if let Some(attention) = &self.attention {
            attention.check(&format!("{path}.attention"))?;
        }
        times(
            path,
            &[
                ("launch", self.launch),
                ("element", self.element),
                ("head", self.head),
                ("window", self.window),
                ("cast_window", self.cast_window),
                ("narrow", self.narrow),
            ],
        )
    }
}

impl DecodeModel {
    pub(super) fn check(&self, path: &str) -> Result<()> {
        let at = |field: &str| format!("{path}.{field}");
        share(&at("bandwidth_share"), self.bandwidth_share)?;
        positive(&at("unit_bandwidth"), self.unit_bandwidth.value())?;
        positive(&at("most_splits"), self.most_splits)?;
        positive(&at("tiled_from"), self.tiled_from)?;
        not_negative(&at("least_occupancy"), self.least_occupancy)?;
        times(
            path,
            &[
                ("tiled_launch", self.tiled_launch),
                ("vector_launch", self.vector_launch),
                ("tiled_block", self.tiled_block),
                ("vector_block", self.vector_block),
                ("tiled_key", self.tiled_key),
                ("tiled_row", self.tiled_row),
                ("vector_key", self.vector_key),
                ("split", self.split),
                ("element", self.element),
            ],
        )
    }
}

impl ExpertModel {
    pub(super) fn check(&self, path: &str) -> Result<()> {
        let at = |field: &str| format!("{path}.{field}");
        share(&at("efficiency"), self.efficiency)?;
        share(&at("bandwidth_share"), self.bandwidth_share)?;
        not_negative(&at("tile_overhead"), self.tile_overhead)?;
        not_negative(&at("depth_overhead"), self.depth_overhead)?;
        not_negative(&at("pass_overhead"), self.pass_overhead)?;
        not_negative(&at("tail"), self.tail)?;
        times(
            path,
            &[
                ("launch", self.launch),
                ("expert", self.expert),
                ("routing", self.routing),
                ("choice", self.choice),
            ],
        )
    }
}

fn times(path: &str, all: &[(&str, Seconds)]) -> Result<()> {
    for (field, time) in all {
        not_negative(&format!("{path}.{field}"), time.value())?;
    }
    Ok(())
}

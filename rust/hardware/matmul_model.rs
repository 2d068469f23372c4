//! Which constants say how matrix products of one family of formats use a device?

use super::device::{Device, not_negative, positive, share};
use crate::defaults::matmul;
use crate::error::{Error, Result};
use crate::units::{Dtype, Seconds};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Elements of a tile of 256 by 128, and of one of 256 by 256.
const TILE: f64 = 32_768.0;
const LARGE_TILE: f64 = 65_536.0;

/// Constants of the tiled matrix-product model (see `operator_cost`).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MatmulModel {
    /// Units (SMs, cores) over which output tiles are spread in waves.
    pub units: u32,
    /// Share of the dense peak that full waves of the largest tile sustain, by number format.
    pub efficiency: BTreeMap<Dtype, f64>,
    /// Efficiency for formats that `efficiency` does not list.
    pub default_efficiency: f64,
    /// Tile edge, in elements, at which moving operands on chip costs as much as the products:
    /// a tile of `rows` by `columns` is slowed by `1 + tile_overhead (1/rows + 1/columns)`.
    pub tile_overhead: f64,
    /// Depth, in elements, that filling and draining one tile costs.
    pub depth_overhead: f64,
    /// Least time of one element of depth of any tile: what loads and the pipeline of a unit take.
    pub depth_time: Seconds,
    /// Share by which kernels far longer than 1 ms are slower, at the power limit, than short ones.
    pub throttle: f64,
    /// Length of a kernel that feels half of the throttling; held at 1 ms in the fits.
    pub throttle_time: Seconds,
    /// What a product whose depth is split takes beside its parts and their sums.
    pub split_overhead: Seconds,
    /// Most parts into which a depth is split.
    pub most_splits: f64,
    /// Elements of the largest tile whose depth is split.
    pub split_tile: f64,
    /// Elements of the largest tile, at which `efficiency` holds: 256 x 128, or 256 x 256.
    pub largest_tile: f64,
    /// True where the library has tiles whose sides are multiples of 16, not powers of two alone.
    pub fine_tiles: bool,
    /// Share of a full wave that an only wave of tiles costs at least: 1 where it takes as long however few
    /// units it keeps busy, less where those run faster beside idle ones.
    pub least_wave: f64,
    /// How well traffic and arithmetic overlap: exponent by which their times add, 1 where one waits for the
    /// other; the larger, the nearer the longer of the two.
    pub overlap: f64,
    /// Share of the pin rate of main memory that operands of products reach; absent: as streaming
    /// kernels, the tier's own.
    pub memory_efficiency: Option<f64>,
    /// See `ProductModel`.
    pub least_rows: f64,
    /// See `ProductModel`.
    pub thin_rows: f64,
    /// See `ProductModel`.
    pub thin_memory_efficiency: Option<f64>,
    /// How many times its bytes a result costs to write: the units write it when they are done with a
    /// tile, and memory turns from reads to writes.
    pub store_cost: f64,
    /// Share of the cache that the bytes between two uses of an operand may fill: of more, it has been
    /// evicted. Less than 1 where parts of the cache keep copies of each other's lines.
    pub cache_share: f64,
    /// Share of the cache's rate that operands of products reach; absent: the tier's own.
    pub cache_efficiency: Option<f64>,
    /// Side, in elements, of the blocks of a result that a compiler makes one after another out of on-chip memory
    /// that it fills itself (`XLA` on TPUs): each block reads its rows and columns of the operands; 0: operands
    /// are read once.
    pub block: f64,
    /// Share of the on-chip memory that an operand may fill which stays there whole, so that both are read once.
    pub resident: f64,
    /// How many times as long the engine takes where contiguous sides are no multiple of 4 bytes, so
    /// that operands cannot be copied past the registers; 1 where a compiler pads arrays or nothing
    /// is known.
    pub unaligned: f64,
    /// The same where they are multiples of 4 bytes and not of 16, which is what one copy of a whole tile needs
    /// (the tensor memory accelerator of Hopper); 1 where nothing is known.
    pub partly_aligned: f64,
    /// Constants of products in formats that differ in more than their efficiency.
    pub families: BTreeMap<Dtype, ProductModel>,
    /// Constants of products whose right operand is stored in this format and multiplied in a
    /// wider one.
    pub weight_only: BTreeMap<Dtype, ProductModel>,
}

/// Constants of one family of products: the fields of `MatmulModel`, and the passes around one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProductModel {
    /// Share of the dense peak; absent: what `MatmulModel::efficiency` says of the format.
    pub efficiency: Option<f64>,
    /// See `MatmulModel`.
    pub tile_overhead: f64,
    /// See `MatmulModel`.
    pub depth_overhead: f64,
    /// See `MatmulModel`.
    pub depth_time: Seconds,
    /// See `MatmulModel`.
    pub throttle: f64,
    /// See `MatmulModel`.
    pub throttle_time: Seconds,
    /// See `MatmulModel`.
    pub split_overhead: Seconds,
    /// See `MatmulModel`.
    pub most_splits: f64,
    /// See `MatmulModel`.
    pub split_tile: f64,
    /// See `MatmulModel`.
    pub largest_tile: f64,
    /// See `MatmulModel`.
    pub fine_tiles: bool,
    /// See `MatmulModel`.
    pub least_wave: f64,
    /// See `MatmulModel`.
    pub overlap: f64,
    /// See `MatmulModel`.
    pub memory_efficiency: Option<f64>,
    /// See `MatmulModel`.
    pub store_cost: f64,
    /// Absent: what `MatmulModel` says.
    pub cache_share: Option<f64>,
    /// See `MatmulModel`.
    pub cache_efficiency: Option<f64>,
    /// Rows of the narrowest tile: 64, or 16 where kernels for few tokens multiply such tiles.
    pub least_rows: f64,
    /// Most rows that the library gives to kernels for few rows; 0: it has none. Where `thin_depth_time`
    /// or `thin_efficiency` says how they compute, they are matrix-vector kernels, which run beside the
    /// matrix engine; else they are tiles that only stream otherwise.
    pub thin_rows: f64,
    /// Time of one element of depth in a matrix-vector kernel.
    pub thin_depth_time: Seconds,
    /// Share of the vector engine's peak that a matrix-vector kernel reaches; absent: it waits for depth
    /// and traffic alone.
    pub thin_efficiency: Option<f64>,
    /// Share of the pin rate of main memory that kernels for few rows reach; absent: as all products.
    pub thin_memory_efficiency: Option<f64>,
    /// True where the library times its tiled kernels beside the matrix-vector kernel, and takes the
    /// quicker.
    pub thin_timed: bool,
    /// What a product takes beside a launch: unpacking of weights, kernels without a fast start.
    pub overhead: Seconds,
    /// Share of the pin rate that the pass which casts the left operand reaches: its scale needs a
    /// reading of its own.
    pub cast_efficiency: f64,
    /// What that pass takes beside a launch.
    pub cast_overhead: Seconds,
}

impl Default for MatmulModel {
    fn default() -> Self {
        let usual = ProductModel::default();
        Self {
            units: 1,
            efficiency: BTreeMap::new(),
            default_efficiency: matmul::DEFAULT_EFFICIENCY,
            tile_overhead: usual.tile_overhead,
            depth_overhead: usual.depth_overhead,
            depth_time: usual.depth_time,
            throttle: usual.throttle,
            throttle_time: usual.throttle_time,
            split_overhead: usual.split_overhead,
            most_splits: usual.most_splits,
            split_tile: usual.split_tile,
            largest_tile: usual.largest_tile,
            fine_tiles: usual.fine_tiles,
            least_wave: usual.least_wave,
            overlap: usual.overlap,
            memory_efficiency: None,
            least_rows: usual.least_rows,
            thin_rows: usual.thin_rows,
            thin_memory_efficiency: None,
            store_cost: usual.store_cost,
            cache_share: matmul::CACHE_SHARE,
            cache_efficiency: None,
            block: 0.0,
            resident: matmul::RESIDENT,
            unaligned: 1.0,
            partly_aligned: 1.0,
            families: BTreeMap::new(),
            weight_only: BTreeMap::new(),
        }
    }
}

impl Default for ProductModel {
    fn default() -> Self {
        Self {
            efficiency: None,
            tile_overhead: matmul::TILE_OVERHEAD,
            depth_overhead: matmul::DEPTH_OVERHEAD,
            depth_time: Seconds::ZERO,
            throttle: 0.0,
            throttle_time: matmul::THROTTLE_TIME,
            split_overhead: matmul::SPLIT_OVERHEAD,
            most_splits: matmul::MOST_SPLITS,
            split_tile: LARGE_TILE,
            largest_tile: TILE,
            fine_tiles: false,
            least_wave: 1.0,
            overlap: matmul::OVERLAP,
            memory_efficiency: None,
            store_cost: 1.0,
            cache_share: None,
            cache_efficiency: None,
            least_rows: matmul::LEAST_ROWS,
            thin_rows: 0.0,
            thin_depth_time: Seconds::ZERO,
            thin_efficiency: None,
            thin_memory_efficiency: None,
            thin_timed: false,
            overhead: Seconds::ZERO,
            cast_efficiency: matmul::CAST_EFFICIENCY,
            cast_overhead: Seconds::ZERO,
        }
    }
}

impl Device {
    /// Share of the peak that matrix products in `dtype` sustain.
    pub fn matmul_efficiency(&self, dtype: Dtype) -> f64 {
        let model = &self.matmul;
        let own = model.efficiency.get(&dtype);
        let ran = || {
            self.engine_format(dtype)
                .and_then(|d| model.efficiency.get(&d))
        };
        own.or_else(ran)
            .copied()
            .unwrap_or(model.default_efficiency)
    }

    /// Constants of products that run in `dtype` and read a right operand stored in `weights`; the
    /// efficiency and the share of the cache are always there.
    pub fn product_model(&self, dtype: Dtype, weights: Dtype) -> ProductModel {
        let model = &self.matmul;
        let ran = || {
            let engine = self.engine_format(dtype)?;
            model.families.get(&engine)
        };
        let stored = (weights != dtype).then(|| model.weight_only.get(&weights));
        let own = stored.flatten().or_else(|| model.families.get(&dtype));
        let found = own
            .or_else(ran)
            .copied()
            .unwrap_or_else(|| model.of_all_others());
        ProductModel {
            efficiency: found
                .efficiency
                .or_else(|| Some(self.matmul_efficiency(dtype))),
            cache_share: found.cache_share.or(Some(model.cache_share)),
            ..found
        }
    }
}

impl MatmulModel {
    /// Constants of the formats that are no family.
    fn of_all_others(&self) -> ProductModel {
        ProductModel {
            tile_overhead: self.tile_overhead,
            depth_overhead: self.depth_overhead,
            depth_time: self.depth_time,
            throttle: self.throttle,
            throttle_time: self.throttle_time,
            split_overhead: self.split_overhead,
            most_splits: self.most_splits,
            split_tile: self.split_tile,
            largest_tile: self.largest_tile,
            fine_tiles: self.fine_tiles,
            least_wave: self.least_wave,
            overlap: self.overlap,
            memory_efficiency: self.memory_efficiency,
            least_rows: self.least_rows,
            thin_rows: self.thin_rows,
            thin_memory_efficiency: self.thin_memory_efficiency,
            store_cost: self.store_cost,
            cache_share: Some(self.cache_share),
            cache_efficiency: self.cache_efficiency,
            ..ProductModel::default()
        }
    }

    /// Refuses constants that no device can have.
    pub(super) fn check(&self, path: &str) -> Result<()> {
        let at = |field: &str| format!("{path}.{field}");
        positive(&at("units"), f64::from(self.units))?;
        share(&at("default_efficiency"), self.default_efficiency)?;
        not_negative(&at("block"), self.block)?;
        share(&at("resident"), self.resident)?;
        for (dtype, value) in &self.efficiency {
            share(&at(&format!("efficiency.{}", dtype.name())), *value)?;
        }
        for (field, times) in [
            ("unaligned", self.unaligned),
            ("partly_aligned", self.partly_aligned),
        ] {
            if !(1.0..=100.0).contains(&times) {
                return Err(Error::invalid(at(field), times, "1 to 100"));
            }
        }
        self.of_all_others().check(path)?;
        for (dtype, family) in &self.families {
            family.check(&at(&format!("families.{}", dtype.name())))?;
        }
        for (dtype, family) in &self.weight_only {
            family.check(&at(&format!("weight_only.{}", dtype.name())))?;
        }
        Ok(())
    }
}

impl ProductModel {
    /// Says whether products of `rows` rows run on kernels for few rows.
    pub fn thin(&self, rows: f64) -> bool {
        rows <= self.thin_rows
    }

    /// The same constants with main memory at the rate that kernels for few rows reach.
    pub fn streaming(&self) -> Self {
        let memory_efficiency = self.thin_memory_efficiency.or(self.memory_efficiency);
        Self {
            memory_efficiency,
            ..*self
        }
    }

    /// Says whether those kernels compute beside the matrix engine.
    pub fn has_vector_kernel(&self) -> bool {
        self.thin_depth_time > Seconds::ZERO || self.thin_efficiency.is_some()
    }

    fn check(&self, path: &str) -> Result<()> {
        let at = |field: &str| format!("{path}.{field}");
        let shares = [
            ("efficiency", self.efficiency),
            ("memory_efficiency", self.memory_efficiency),
            ("cache_share", self.cache_share),
            ("cache_efficiency", self.cache_efficiency),
            ("cast_efficiency", Some(self.cast_efficiency)),
            ("least_wave", Some(self.least_wave)),
            ("thin_efficiency", self.thin_efficiency),
            ("thin_memory_efficiency", self.thin_memory_efficiency),
        ];
        for (field, value) in shares {
            value.map_or(Ok(()), |value| share(&at(field), value))?;
        }
        for (field, value) in [
            ("tile_overhead", self.tile_overhead),
            ("depth_overhead", self.depth_overhead),
            ("depth_time", self.depth_time.value()),
            ("throttle", self.throttle),
            ("split_overhead", self.split_overhead.value()),
            ("thin_rows", self.thin_rows),
            ("thin_depth_time", self.thin_depth_time.value()),
            ("overhead", self.overhead.value()),
            ("cast_overhead", self.cast_overhead.value()),
        ] {
            not_negative(&at(field), value)?;
        }
        for (field, value, least, most) in [
            ("least_rows", self.least_rows, 16.0, 64.0),
            ("most_splits", self.most_splits, 1.0, 1024.0),
            ("split_tile", self.split_tile, 0.0, LARGE_TILE),
            ("largest_tile", self.largest_tile, TILE, LARGE_TILE),
            ("overlap", self.overlap, 1.0, 16.0),
            ("store_cost", self.store_cost, 1.0, 100.0),
        ] {
            if !(least..=most).contains(&value) {
                let allowed = format!("{least} to {most}");
                return Err(Error::invalid(at(field), value, allowed));
            }
        }
        positive(&at("throttle_time"), self.throttle_time.value())
    }
}

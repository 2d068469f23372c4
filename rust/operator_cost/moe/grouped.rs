//! How long do the experts of a mixture take: two grouped products, activation, permuting and sum?

use super::loads::{Loads, Routing, TILE_ROWS};
use crate::error::{Error, Result};
use crate::hardware::{Device, ExpertModel};
use crate::operator_cost::LAYER_BYTES;
use crate::operator_cost::kernel::KernelCost;
use crate::operator_cost::memory::reading;
use crate::units::{Bytes, Dtype, Flops, Seconds};
use serde::Deserialize;

/// Columns of a tile.
const TILE_COLUMNS: f64 = 128.0;
/// Most experts of a layer.
const MOST_EXPERTS: f64 = 4096.0;
/// Largest exponent of a load's power law.
const MOST_SKEW: f64 = 4.0;

/// The experts of one layer on one device, in one format.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedExperts {
    /// Format of the rows that the products read.
    pub rows: Dtype,
    /// Bytes of an element of the weights, its share of block scales included.
    pub weight_bytes: f64,
    /// True where the first product has a gate beside it (`SwiGLU`), false for one product (squared `ReLU`).
    pub gated: bool,
    /// True where operands may still lie in the on-chip cache, as in a benchmark that repeats a kernel.
    #[serde(default)]
    pub warm: bool,
}

/// A grouped product: every expert's rows times its own weights.
struct Grouped<'a> {
    loads: &'a Loads,
    columns: f64,
    depth: f64,
    /// Place of the tiles' rows in `TILE_ROWS` where the library takes them by the average expert.
    tile: Option<usize>,
}

impl TimedExperts {
    /// The numbers that make a shape, and what stands for one that is left out.
    pub(in crate::operator_cost) const COLUMNS: &'static [(&'static str, Option<f64>)] = &[
        ("tokens", None),
        ("hidden", None),
        ("intermediate", None),
        ("topk", None),
        ("experts", None),
        ("tensor_parallel", Some(1.0)),
        ("expert_parallel", Some(1.0)),
        ("skew", Some(0.0)),
        ("random", Some(0.0)),
    ];

    /// Prices one shape, in the order of `COLUMNS`, on the device with most rows; a skew of 0 is none, and
    /// `random` above 0 means that tokens choose experts by chance.
    ///
    /// ```text
    /// time = t_launch + T k t_choice + T E t_routing + E_l t_expert + o B / r + t_product + t_product'
    /// t_product = sqrt(t_engine^2 + t_memory^2),  t_engine = min over tiles of (w + c min(1, w) / 2) t_tile
    /// t_tile = 2 m 128 (K + k0) (1 + h / m) / (u e),  w = ceil(N / 128) sum ceil(l / m) / units
    /// ```
    ///
    /// T: tokens; k: experts for each; E, `E_l`: experts of the layer and of the device; l: rows of an expert
    /// (`Loads`); m: rows of a tile, 8 to 128; N, K: columns and depth; u: peak of a unit, flop/s; e:
    /// `efficiency`; h: `tile_overhead`; k0: `depth_overhead`; c: `tail`; `t_memory`: the weights of experts
    /// with rows, the rows and the results; o: `pass_overhead`; B: bytes that permuting, activation and
    /// weighted sum move; r: rate of the tier. At most one wave counts as one. A library that picks tiles by
    /// the average expert takes the power of two from `T k / E_l`, as if all choices fell on this device.
    /// Sources: grouped products, Gale et al. 2023 (`MegaBlocks`) section 5; tile and wave quantisation as
    /// for matrix products.
    pub(in crate::operator_cost) fn cost(
        self,
        shape: [f64; 9],
        device: &Device,
    ) -> Result<KernelCost> {
        let [
            tokens,
            hidden,
            inter,
            topk,
            experts,
            tensor,
            ranks,
            skew,
            random,
        ] = shape;
        self.check(shape)?;
        if tokens * hidden * inter * topk <= 0.0 {
            return Ok(KernelCost::default());
        }
        let usual = ExpertModel::default();
        let family = match self.rows {
            Dtype::Fp16 => Dtype::Bf16,
            other => other,
        };
        let model = device.experts.get(&family).unwrap_or(&usual);
        let routing = Routing {
            tokens: tokens.ceil(),
            topk,
            experts,
            ranks,
        };
        let loads = Loads::stated(routing, skew, random);
        let local = experts / ranks;
        let tile = model
            .tiles_by_average
            .then(|| tile_of(tokens * topk / local));
        let inter = inter / tensor;
        let first = Grouped {
            loads: &loads,
            columns: self.products() * inter,
            depth: hidden,
            tile,
        };
        let second = Grouped {
            loads: &loads,
            columns: hidden,
            depth: inter,
            tile,
        };
        let passes = self.passes(tokens, hidden, inter, loads.rows);
        let passes = reading(Bytes::new(passes), self.warm, device);
        let [first_s, first_bytes] = self.product(&first, model, device);
        let [second_s, second_bytes] = self.product(&second, model, device);
        let overhead = model.launch
            + model.choice * (tokens * topk)
            + model.routing * (tokens * experts)
            + model.expert * local;
        Ok(KernelCost {
            time: overhead + passes.time * model.pass_overhead + Seconds::new(first_s + second_s),
            flops: Flops::new(2.0 * loads.rows * hidden * inter * (self.products() + 1.0)),
            traffic: passes.traffic + Bytes::new(first_bytes + second_bytes),
        })
    }

    fn products(self) -> f64 {
        if self.gated { 2.0 } else { 1.0 }
    }

    /// Bytes of permuting, activation and weighted sum.
    fn passes(self, tokens: f64, hidden: f64, inter: f64, rows: f64) -> f64 {
        let row = self.rows.bytes();
        let permuted = tokens * hidden * LAYER_BYTES + rows * hidden * row;
        let activated = rows * inter * (LAYER_BYTES * self.products() + row);
        let summed = (rows + tokens) * hidden * LAYER_BYTES;
        permuted + activated + summed
    }

    /// Seconds of a grouped product and bytes that it moves over the main-memory bus.
    fn product(self, product: &Grouped, model: &ExpertModel, device: &Device) -> [f64; 2] {
        let engine = product.engine(self.rows, model, device);
        let Grouped {
            loads,
            columns,
            depth,
            ..
        } = product;
        let weights = loads.hit * columns * depth * self.weight_bytes;
        let rows = loads.rows * (depth * self.rows.bytes() + columns * LAYER_BYTES);
        let moved = reading(Bytes::new(weights + rows), self.warm, device);
        let memory = if moved.traffic > Bytes::ZERO {
            let rate = device.main_memory().bandwidth.value() * model.bandwidth_share;
            (weights + rows) / rate
        } else {
            moved.time.value()
        };
        [engine.hypot(memory), moved.traffic.value()]
    }

    fn check(self, shape: [f64; 9]) -> Result<()> {
        let [_, _, _, topk, experts, tensor, ranks, skew, random] = shape;
        let refuse =
            |field: &str, got: f64, allowed: &str| Err(Error::invalid(field, got, allowed));
        if !(0.0..=16.0).contains(&self.weight_bytes) {
            return refuse("weight_bytes", self.weight_bytes, "0 to 16");
        }
        if !(1.0..=MOST_EXPERTS).contains(&experts) || experts.fract() > 0.0 {
            return refuse("experts", experts, "a whole number from 1 to 4096");
        }
        if !(0.0..=experts).contains(&topk) {
            return refuse("topk", topk, "from 0 to the number of experts");
        }
        if tensor < 1.0 {
            return refuse("tensor_parallel", tensor, "1 or more");
        }
        if ranks < 1.0 || ranks.fract() > 0.0 || (experts / ranks).fract() > 0.0 {
            return refuse(
                "expert_parallel",
                ranks,
                "a divisor of the number of experts",
            );
        }
        if skew > MOST_SKEW {
            return refuse(
                "skew",
                skew,
                "0 for a balanced load, or an exponent up to 4",
            );
        }
        if random > 0.0 && skew > 0.0 {
            return refuse("skew", skew, "0 where experts are chosen by chance");
        }
        Ok(())
    }
}

impl Grouped<'_> {
    /// Seconds on the matrix engine.
    fn engine(&self, dtype: Dtype, model: &ExpertModel, device: &Device) -> f64 {
        let units = f64::from(device.matmul.units);
        let rate = device.engine_peak(dtype).value() / units * model.efficiency;
        let depth = self.depth + model.depth_overhead;
        let across = (self.columns / TILE_COLUMNS).ceil();
        let of = |place: usize| {
            let rows = TILE_ROWS[place];
            let slowing = 1.0 + model.tile_overhead / rows;
            let tile = 2.0 * rows * TILE_COLUMNS * depth * slowing / rate;
            let waves = self.loads.tiles[place] * across / units;
            if waves <= 1.0 {
                tile
            } else {
                (waves + 0.5 * model.tail) * tile
            }
        };
        match self.tile {
            Some(place) => of(place),
            None => (0..TILE_ROWS.len()).map(of).fold(f64::INFINITY, f64::min),
        }
    }
}

/// The place of the smallest tile that holds so many rows, or of the largest one.
fn tile_of(rows: f64) -> usize {
    let holds = TILE_ROWS.iter().position(|&tile| rows <= tile);
    holds.unwrap_or(TILE_ROWS.len() - 1)
}

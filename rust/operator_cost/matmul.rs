//! How long does a matrix product take: tiles in waves, memory traffic, launch?

use super::kernel::KernelCost;
use super::memory::transfer;
use crate::hardware::{Device, MatmulModel};
use crate::units::{Bytes, Dtype, Flops, Seconds};

/// Output tiles (rows, columns) that vendor libraries choose from, the most efficient first.
const TILES: [(f64, f64); 8] = [
    (256.0, 128.0),
    (128.0, 256.0),
    (128.0, 128.0),
    (256.0, 64.0),
    (64.0, 256.0),
    (128.0, 64.0),
    (64.0, 128.0),
    (64.0, 64.0),
];
/// Depth of one pass of the matrix engine, elements: depths are padded to it.
const DEPTH_STEP: f64 = 32.0;
/// Most parts into which the depth of a product is split, and the least depth of a part.
const MOST_SPLITS: f64 = 16.0;
const LEAST_SPLIT_DEPTH: f64 = 128.0;
/// Bytes per output element and part that a split moves: a partial sum in fp32, written and read.
const PARTIAL_SUM_BYTES: f64 = 8.0;
/// Share of a full wave that the last one costs at least. A partial wave runs faster than a full
/// one (higher clock, more bandwidth for each unit) and overlaps the one before it.
const LEAST_LAST_WAVE: f64 = 0.5;

/// `batch` products of (`m` x `k`) by (`k` x `n`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub batch: f64,
    pub m: f64,
    pub n: f64,
    pub k: f64,
    pub dtype: Dtype,
    pub output_bytes: f64,
}

/// Seconds that the matrix engine and the sums of a split need at full speed.
struct Engine<'a> {
    product: Product,
    model: &'a MatmulModel,
    units: f64,
    /// Rate of one unit in full waves of the largest tile, flop/s.
    unit_rate: f64,
    /// Seconds that a byte of partial sums takes.
    per_partial_byte: f64,
}

/// Prices a matrix product.
///
/// ```text
/// time   = sqrt(t_engine^2 + t_memory^2) + t_launch
/// t_engine = t (1 + d t / (t + t_d)),   t = min over tiles and splits of waves * t_tile
/// t_tile = 2 tm tn (k / s + k0) / (u e g),  g = (1 + 3 h / 256) / (1 + h (1/tm + 1/tn))
/// waves  = w                                 if w is whole, and 1 if it is less
///          floor(w) + (1 + w - floor(w)) / 2 otherwise, with w = tiles s / units
/// ```
///
/// tm, tn: tile, elements; s: parts of the depth; k0: `depth_overhead`, elements; u: peak of one
/// unit, flop/s; e: sustained `efficiency`; h: `tile_overhead`, elements (operand bytes per flop
/// grow as 1/tm + 1/tn); d: `throttle`; `t_d`: `throttle_time`, s. Compute and traffic overlap, but not
/// perfectly: they add in squares. A split adds its partial sums and `split_overhead`, s. Sources: tile
/// and wave quantisation, NVIDIA Matrix Multiplication Background User's Guide (2023), sections 3 and 4;
/// roofline, Williams et al. 2009. The constants of a device are fitted to the rows that its calibration
/// names.
pub(super) fn cost(product: Product, device: &Device) -> KernelCost {
    let Product { batch, m, n, k, .. } = product;
    let outputs = batch * m * n;
    let flops = Flops::new(2.0 * outputs * k);
    if flops.value() <= 0.0 {
        return KernelCost::default();
    }
    let operands = batch * k * (m + n) * product.dtype.bytes();
    let moved = transfer(
        Bytes::new(operands + outputs * product.output_bytes),
        device,
    );
    let engine = Engine::new(product, device).time();
    KernelCost {
        time: Seconds::new(engine.hypot(moved.time.value())) + device.launch_overhead,
        flops,
        traffic: moved.traffic,
    }
}

impl<'a> Engine<'a> {
    fn new(product: Product, device: &'a Device) -> Self {
        let model = &device.matmul;
        let units = f64::from(model.units);
        let peak = device.engine_peak(product.dtype).value();
        let store = device
            .cache()
            .unwrap_or_else(|| device.main_memory())
            .sustained();
        Self {
            product,
            model,
            units,
            unit_rate: peak * device.matmul_efficiency(product.dtype) / units,
            per_partial_byte: 1.0 / store.value(),
        }
    }

    /// The best tile and split, slowed down where the chip cannot hold its clock.
    fn time(&self) -> f64 {
        let best = TILES.iter().fold(f64::INFINITY, |best, &(rows, columns)| {
            best.min(self.tiled(rows, columns, best))
        });
        let half = self.model.throttle_time.value();
        best * (1.0 + self.model.throttle * best / (best + half))
    }

    /// The best split of the depth for one tile; infinite where even full units lose to `best`.
    fn tiled(&self, rows: f64, columns: f64, best: f64) -> f64 {
        let Product { batch, m, n, k, .. } = self.product;
        let tiles = batch * (m / rows).ceil() * (n / columns).ceil();
        let overhead = self.model.tile_overhead;
        let (largest_rows, largest_columns) = TILES[0];
        let slowing = (1.0 + overhead * (1.0 / rows + 1.0 / columns))
            / (1.0 + overhead * (1.0 / largest_rows + 1.0 / largest_columns));
        let per_depth = 2.0 * rows * columns * slowing / self.unit_rate;
        if tiles * per_depth * k >= best * self.units {
            return f64::INFINITY;
        }
        let whole = self.waves(tiles) * per_depth * (padded(k) + self.model.depth_overhead);
        if tiles > self.units {
            return whole;
        }
        let most = MOST_SPLITS.min((k / LEAST_SPLIT_DEPTH).floor());
        let split = |waves: f64| {
            let parts = (waves * self.units / tiles).floor().min(most);
            if parts < 2.0 {
                return f64::INFINITY;
            }
            let depth = padded(k / parts) + self.model.depth_overhead;
            let sums = batch * m * n * parts * PARTIAL_SUM_BYTES * self.per_partial_byte;
            self.waves(tiles * parts) * per_depth * depth + sums + self.model.split_overhead.value()
        };
        whole.min(split(1.0)).min(split(2.0))
    }

    /// Waves in which `tiles` pass over the units, the last one at least half paid.
    fn waves(&self, tiles: f64) -> f64 {
        let waves = tiles / self.units;
        let full = waves.floor();
        let part = waves - full;
        if full < 1.0 {
            1.0
        } else if part > 0.0 {
            full + LEAST_LAST_WAVE + (1.0 - LEAST_LAST_WAVE) * part
        } else {
            full
        }
    }
}

fn padded(depth: f64) -> f64 {
    (depth / DEPTH_STEP).ceil() * DEPTH_STEP
}

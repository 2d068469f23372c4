//! How long does a matrix product take: tiles in waves, memory traffic, launch?

use super::kernel::KernelCost;
use super::memory::Transfer;
use super::pace::Pace;
use crate::defaults;
use crate::hardware::{Device, ProductModel};
use crate::units::{Bytes, BytesPerSecond, Dtype, Flops, Seconds};

/// Output tiles (rows, columns) that vendor libraries choose from, the most efficient first; those of
/// fewer than 64 rows serve families that have kernels for few tokens (`least_rows`).
const TILES: [(f64, f64); 11] = [
    (256.0, 256.0),
    (256.0, 128.0),
    (128.0, 256.0),
    (128.0, 128.0),
    (256.0, 64.0),
    (64.0, 256.0),
    (128.0, 64.0),
    (64.0, 128.0),
    (64.0, 64.0),
    (16.0, 256.0),
    (16.0, 128.0),
];
/// Sides of tiles of libraries that have them in steps of 16 (`fine_tiles`), the most efficient first: those
/// in the names of hipBLASLt's kernels on gfx942 (`MT256x224x64`, `MT128x112x128`, `MT64x48x256`), each for
/// rows and for columns.
const FINE_SIDES: [f64; 12] = [
    256.0, 224.0, 192.0, 160.0, 128.0, 112.0, 96.0, 80.0, 64.0, 48.0, 32.0, 16.0,
];
/// Depth of one pass of the matrix engine, elements: depths are padded to it.
const DEPTH_STEP: f64 = 32.0;
/// Least depth of a part into which the depth of a product is split.
const LEAST_SPLIT_DEPTH: f64 = 128.0;
/// Bytes per output element and part that a split moves: a partial sum in fp32, written and read.
const PARTIAL_SUM_BYTES: f64 = 8.0;
/// Bytes to which rows of operands must begin for copies past the registers into a unit's memory: the
/// least size of `cp.async` (PTX ISA, section on asynchronous copies), below which kernels load
/// element by element.
const COPY_BYTES: f64 = 4.0;

/// Bytes of which a side must be a multiple so that one copy takes a whole tile.
const WIDE_COPY_BYTES: f64 = 16.0;
/// Share of a full wave that the last of several costs at least. A partial wave runs faster than a
/// full one (higher clock, more bandwidth for each unit) and overlaps the one before it.
const LEAST_LAST_WAVE: f64 = 0.5;

/// The `overlap` at which times add in squares.
const SQUARES: f64 = 2.0;

/// Copies of its right operand that come between two uses of one in a step: those of all other layers and
/// what these leave behind, more than any cache holds. Of a weight gradient, one operand was kept since
/// the forward pass: it stands on the right.
pub(super) const ALL_LAYERS: f64 = f64::INFINITY;
/// Most copies that a benchmark goes round: as many as fill the cache, but no more than these.
pub(super) const WEIGHT_COPIES: f64 = 5.0;

/// Bytes between two uses beyond those at which eviction begins that evict everything, as a share of
/// them. What comes round in order is evicted just before it is used again, so the end is sudden; it is
/// not a step, since addresses are spread over the cache by a hash.
const EVICTION: f64 = 0.1;

/// `batch` products of (`m` x `k`) by (`k` x `n`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub batch: f64,
    pub m: f64,
    pub n: f64,
    pub k: f64,
    /// Format in which the engine multiplies and the left operand lies.
    pub dtype: Dtype,
    /// Format in which the right operand lies.
    pub weights: Dtype,
    pub output_bytes: f64,
    /// True where the rows of the left operand, not its depth, are contiguous.
    pub transposed: bool,
    /// True where the result is added to a sum, which is read and written.
    pub added: bool,
    /// Copies of the right operand that pass before one is used again.
    pub copies: f64,
    /// Bytes touched between two runs besides operands and result.
    pub beside: Bytes,
}

/// Rates at which operands of products arrive, and how much of them lies in the cache.
pub(super) struct OperandRates {
    main: BytesPerSecond,
    cache: BytesPerSecond,
    room: Bytes,
}

/// What the time of a product is made of.
pub(super) struct ProductTimes {
    /// On the matrix engine, at the clock of short kernels.
    pub engine: Seconds,
    /// By how much longer it takes there for its operands' alignment.
    unaligned: f64,
    pub memory: Seconds,
    /// What of `memory` no arithmetic hides.
    exposed: Seconds,
    /// The launch, and what the product takes beside it.
    pub launch: Seconds,
    pub flops: Flops,
    pub traffic: Bytes,
    model: ProductModel,
}

/// Seconds that the matrix engine and the sums of a split need at full speed.
struct Engine {
    product: Product,
    model: ProductModel,
    units: f64,
    /// Rate of one unit in full waves of the largest tile, flop/s.
    unit_rate: f64,
    /// Seconds that a byte of partial sums takes.
    per_partial_byte: f64,
    /// Rate of a matrix-vector kernel, flop/s.
    vector_rate: f64,
}

/// Prices a matrix product.
///
/// ```text
/// time   = (t_engine^q + (t_memory - t_sum)^q)^(1/q) + t_sum + t_launch + o
/// t_engine = a p t (1 + d t / (t + t_d)),   t = min over tiles and splits of waves * t_tile
/// t_tile = (k / s + k0) max(2 tm tn / (u e g), t_k),  g = (1 + h (1/256 + 256/l)) / (1 + h (1/tm + 1/tn))
/// waves  = w                                 if w is whole, and b + (1 - b) w if it is less than 1
///          floor(w) + (1 + w - floor(w)) / 2 otherwise, with w = tiles s / units
/// t_memory = (A + v C) t(A + B + C) + B t(A + c B + C) + A' / r_main
/// A'     = A (ceil(n / b_l) - 1) + B (ceil(m / b_l) - 1)   if min(A, B) > `resident` of the on-chip memory, else 0
/// t_sum  = x_s v C t(A + B + C)              where the result is added to a sum, else 0
/// t(S)   = x / r_main + (1 - x) / r_cache,   x = (S - R) / (0.1 R) between 0 and 1
/// t      = k t_thin + 2 m n k / (e_v u_v)    if m <= `thin_rows`; the lesser of both if `thin_timed`
/// ```
///
/// tm, tn: tile, elements; s: parts of the depth; k0: `depth_overhead`, elements; u: peak of one
/// unit, flop/s; e: sustained `efficiency`; l: `largest_tile`; h: `tile_overhead`, elements (operand bytes per flop
/// grow as 1/tm + 1/tn); a: `unaligned` or `partly_aligned` where sides are off the grid of copies, else 1;
/// `t_k`: `depth_time`, s;
/// p: slowdown of the `pace`; d: `throttle`, 0 where the pace is settled; `t_d`: `throttle_time`, s; o: `overhead`, s.
/// `b_l`: `block`, elements, absent where 0; A, B, C: bytes of operands and result; R: `cache_share` of the cache,
/// bytes; c: copies of B that pass before it is used again; v: `store_cost`; `x_s`: `exposed` of
/// `[sum]` of the defaults; b: `least_wave`;
/// r: rates that operands reach, bytes/s. A set that fits stays from one kernel to the next; a larger one that comes
/// round in order has been evicted when it is read again.
/// `t_thin`: `thin_depth_time`, s: a matrix-vector kernel deals a few columns to each block, whose threads
/// share the depth; `e_v u_v`: `thin_efficiency` of the vector engine's peak, flop/s. Where neither is known, kernels
/// for few rows are tiles; all of them stream at `thin_memory_efficiency` where it is given.
/// q: `overlap`: compute and traffic overlap, but not perfectly, so that they add in squares or a little
/// better. A split into `most_splits` parts at most, of tiles up to `split_tile`, adds its partial sums and
/// `split_overhead`, s. Sources: tile and wave quantisation, NVIDIA Matrix Multiplication Background User's Guide
/// (2023), sections 3 and 4; roofline, Williams et al. 2009. The constants of a device are
/// fitted to the rows that its calibration names.
pub(super) fn cost(product: Product, device: &Device, pace: Pace) -> KernelCost {
    let parts = parts(product, device);
    if parts.flops <= Flops::ZERO {
        return KernelCost::default();
    }
    KernelCost {
        time: parts.time(pace),
        flops: parts.flops,
        traffic: parts.traffic,
    }
}

/// What the time of a product is made of; `cost` has the formula.
pub(super) fn parts(product: Product, device: &Device) -> ProductTimes {
    let Product { batch, m, n, k, .. } = product;
    let outputs = batch * m * n;
    let flops = Flops::new(2.0 * outputs * k);
    let model = device.product_model(product.dtype, product.weights);
    if flops.value() <= 0.0 {
        return ProductTimes::nothing(model);
    }
    let left = Bytes::new(batch * m * k * product.dtype.bytes());
    let right = Bytes::new(batch * k * n * product.weights.bytes());
    let result = Bytes::new(outputs * product.output_bytes);
    let supply = if model.thin(m) {
        OperandRates::new(&model.streaming(), device)
    } else {
        OperandRates::new(&model, device)
    };
    let rest = left + result + product.beside;
    let read = supply.moved(left, rest + right);
    let weights = supply.moved(right, rest + right * product.copies);
    let stored = supply.moved(result, rest + right);
    let again = reread_bytes(product, device);
    let storing = stored.time * model.store_cost;
    // a tile reads and writes the sum when its own arithmetic is done
    let exposed = if product.added {
        defaults::sum::EXPOSED
    } else {
        0.0
    };
    ProductTimes {
        engine: Seconds::new(Engine::new(product, model, device).time()),
        unaligned: product.slowdown(device),
        memory: read.time + weights.time + storing + again / supply.main,
        exposed: storing * exposed,
        launch: device.launch_overhead + model.overhead,
        flops,
        traffic: read.traffic + weights.traffic + stored.traffic + again,
        model,
    }
}

/// Bytes of operands that are read once more for each further block of the result, where neither operand stays on chip.
fn reread_bytes(product: Product, device: &Device) -> Bytes {
    let Product { batch, m, n, k, .. } = product;
    let model = &device.matmul;
    let Some(chip) = device.cache().filter(|_| model.block > 0.0) else {
        return Bytes::ZERO;
    };
    let left = Bytes::new(m * k * product.dtype.bytes());
    let right = Bytes::new(k * n * product.weights.bytes());
    if left.min(right) <= chip.capacity * model.resident {
        return Bytes::ZERO;
    }
    let further = |side: f64| (side / model.block).ceil() - 1.0;
    (left * further(n) + right * further(m)) * batch
}

impl ProductTimes {
    fn nothing(model: ProductModel) -> Self {
        Self {
            engine: Seconds::ZERO,
            unaligned: 1.0,
            memory: Seconds::ZERO,
            exposed: Seconds::ZERO,
            launch: Seconds::ZERO,
            flops: Flops::ZERO,
            traffic: Bytes::ZERO,
            model,
        }
    }

    /// Time of the product at a pace: slowed down where the chip cannot hold its clock.
    pub(super) fn time(&self, pace: Pace) -> Seconds {
        let engine = self.engine.value();
        let half = self.model.throttle_time.value();
        let throttled = if pace.settled {
            1.0
        } else {
            1.0 + self.model.throttle * engine / (engine + half)
        };
        let engine = engine * throttled * self.unaligned * pace.slowdown;
        self.overlapped(Seconds::new(engine)) + self.exposed + self.launch
    }

    /// Time of the product's arithmetic and of the traffic beside it together.
    fn overlapped(&self, engine: Seconds) -> Seconds {
        let (engine, memory) = (engine.value(), (self.memory - self.exposed).value());
        let power = self.model.overlap;
        let longer = engine.max(memory);
        if (power - SQUARES).abs() < f64::EPSILON || longer <= 0.0 {
            return Seconds::new(engine.hypot(memory));
        }
        // of shares, since powers of seconds would vanish
        let shares = (engine / longer).powf(power) + (memory / longer).powf(power);
        Seconds::new(longer * shares.powf(power.recip()))
    }

    /// Time on the engine where a product takes `whole` beside its launch; 0 where traffic alone takes longer.
    pub(super) fn engine_of(&self, whole: Seconds) -> Seconds {
        let memory = (self.memory - self.exposed).value();
        let whole = (whole - self.exposed).max(Seconds::ZERO).value();
        let power = self.model.overlap;
        if (power - SQUARES).abs() < f64::EPSILON || whole <= 0.0 {
            let squares = whole.powi(2) - memory.powi(2);
            return Seconds::new(squares.max(0.0).sqrt());
        }
        let left = (1.0 - (memory / whole).powf(power)).max(0.0);
        Seconds::new(whole * left.powf(power.recip()))
    }
}

impl Product {
    /// How many times as long the engine takes for its operands' alignment: `a`, the device's
    /// `unaligned`, where a contiguous side of an operand or of the result is a whole number of
    /// elements that is no multiple of 4 bytes, `partly_aligned` where it is one but none of 16, and 1 elsewhere.
    fn slowdown(&self, device: &Device) -> f64 {
        let left = if self.transposed { self.m } else { self.k };
        let element = self.dtype.element_bytes();
        // integer weights beside wider operands lie in a layout of their own
        let off = |bytes: f64| {
            let of = |side: f64| side.fract() == 0.0 && (side * element) % bytes != 0.0;
            of(left) || of(self.n)
        };
        if off(COPY_BYTES) {
            device.matmul.unaligned
        } else if off(WIDE_COPY_BYTES) {
            device.matmul.partly_aligned
        } else {
            1.0
        }
    }
}

impl OperandRates {
    pub(super) fn new(model: &ProductModel, device: &Device) -> Self {
        let tier = device.main_memory();
        let main = tier.bandwidth * model.memory_efficiency.unwrap_or(tier.efficiency);
        let cache = device.cache().map_or(main, |cache| {
            cache.bandwidth * model.cache_efficiency.unwrap_or(cache.efficiency)
        });
        let room = device.cache().map_or(Bytes::ZERO, |cache| cache.capacity);
        Self {
            main,
            cache: cache.max(main),
            room: room * model.cache_share.unwrap_or(1.0),
        }
    }

    /// Moves `bytes` that are used again after `between` bytes of all kinds.
    pub(super) fn moved(&self, bytes: Bytes, between: Bytes) -> Transfer {
        let cold = if self.room > Bytes::ZERO {
            ((between - self.room).value() / (EVICTION * self.room.value())).clamp(0.0, 1.0)
        } else {
            1.0
        };
        let traffic = bytes * cold;
        Transfer {
            time: traffic / self.main + bytes * (1.0 - cold) / self.cache,
            traffic,
        }
    }
}

impl Engine {
    fn new(product: Product, model: ProductModel, device: &Device) -> Self {
        let units = f64::from(device.matmul.units);
        let peak = device.engine_peak(product.dtype).value();
        let efficiency = model.efficiency.unwrap_or(1.0);
        let store = device
            .cache()
            .unwrap_or_else(|| device.main_memory())
            .sustained();
        Self {
            product,
            model,
            units,
            unit_rate: peak * efficiency / units,
            per_partial_byte: 1.0 / store.value(),
            vector_rate: model
                .thin_efficiency
                .map_or(f64::INFINITY, |share| share * device.vector.value()),
        }
    }

    /// The kernel that the library takes: its matrix-vector kernel, or the best tile and split at the
    /// clock of short kernels.
    fn time(&self) -> f64 {
        let model = &self.model;
        let mut quickest = f64::INFINITY;
        if model.has_vector_kernel() && model.thin(self.product.m) {
            quickest = self.vector();
            if !model.thin_timed {
                return quickest;
            }
        }
        let fits = |rows: f64, columns: f64| {
            rows >= model.least_rows && rows * columns <= model.largest_tile
        };
        let or_less = |best: f64, (rows, columns): (f64, f64)| {
            if fits(rows, columns) {
                best.min(self.tiled(rows, columns, best))
            } else {
                best
            }
        };
        let best = TILES.into_iter().fold(quickest, or_less);
        if !model.fine_tiles {
            return best;
        }
        let fine = FINE_SIDES.into_iter();
        fine.flat_map(|rows| FINE_SIDES.map(|columns| (rows, columns)))
            .fold(best, or_less)
    }

    /// The matrix-vector kernel.
    fn vector(&self) -> f64 {
        let Product { batch, m, n, k, .. } = self.product;
        k * self.model.thin_depth_time.value() + 2.0 * batch * m * n * k / self.vector_rate
    }

    /// The best split of the depth for one tile; infinite where even full units lose to `best`.
    fn tiled(&self, rows: f64, columns: f64, best: f64) -> f64 {
        let Product { batch, m, n, k, .. } = self.product;
        let tiles = batch * (m / rows).ceil() * (n / columns).ceil();
        let overhead = self.model.tile_overhead;
        let slowed = |rows: f64, columns: f64| 1.0 + overhead * (1.0 / rows + 1.0 / columns);
        let slowing = slowed(rows, columns) / slowed(256.0, self.model.largest_tile / 256.0);
        let per_depth = 2.0 * rows * columns * slowing / self.unit_rate;
        let per_depth = per_depth.max(self.model.depth_time.value());
        if tiles * per_depth * k >= best * self.units {
            return f64::INFINITY;
        }
        let whole = self.waves(tiles) * per_depth * (padded(k) + self.model.depth_overhead);
        if tiles > self.units || rows * columns > self.model.split_tile {
            return whole;
        }
        let most = self.model.most_splits.min((k / LEAST_SPLIT_DEPTH).floor());
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

    /// Waves in which `tiles` pass over the units, the last of several at least half paid.
    fn waves(&self, tiles: f64) -> f64 {
        let waves = tiles / self.units;
        let full = waves.floor();
        let part = waves - full;
        if full < 1.0 {
            self.model.least_wave + (1.0 - self.model.least_wave) * part
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

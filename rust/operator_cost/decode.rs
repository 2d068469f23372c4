//! How long does attention of one new token for each sequence take, keys and values read from a cache?

use super::LAYER_BYTES;
use super::attention::{FORWARD_PRODUCTS, pair_time};
use super::kernel::KernelCost;
use super::memory::reading;
use crate::defaults::decode::streaming;
use crate::hardware::{DecodeModel, Device};
use crate::units::{Bytes, Dtype, Flops, Seconds};
use serde::Deserialize;

/// Fewest keys of a part where keys are split over blocks.
const LEAST_PART: f64 = 128.0;
/// Parts into which the kernel on the vector engine splits the keys at most.
const VECTOR_SPLITS: f64 = 64.0;
/// Most queries to a key that a block on the matrix engine takes.
const MOST_ROWS: f64 = 32.0;
/// Queries to a key come in groups of so many: the rows of one matrix instruction.
const ROW_STEP: f64 = 8.0;
/// Keys of a block when the library counts the blocks that it could fill.
const COUNTED_KEYS: f64 = 256.0;
/// Fewest keys of a block as the library starts them, and most waves of them.
const STARTED_KEYS: f64 = 128.0;
const STARTED_WAVES: f64 = 8.0;
/// Parts over which their sum does not yet dominate, as the library sees it: square root of so many times
/// the parts of fewest keys.
const STARTED_ROOT: f64 = 8.0;
/// Widest heads of kernels for a cache of keys and values, and queries of a block of the kernel for wider,
/// latent ones.
const WIDEST: f64 = 256.0;
const LATENT_ROWS: f64 = 64.0;
/// Widest heads of full tiles: heads between 128 and 256 are padded to 256 on the matrix engine.
const PADDED: [f64; 3] = [64.0, 128.0, 256.0];

/// Decode attention with a cache of one format.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedDecode {
    /// Format of the cache.
    pub cache: Dtype,
    /// True where values are the bytes of the keys, as in a latent cache: a kernel that reads both
    /// together moves them once.
    #[serde(default)]
    pub shared_values: bool,
    /// True where the cache may still lie on chip, as in a benchmark that repeats a kernel.
    #[serde(default)]
    pub warm: bool,
}

/// One kernel: its blocks and what each takes.
struct Blocks {
    /// Blocks where no keys are split.
    count: f64,
    /// Keys that each query sees.
    keys: f64,
    /// Seconds before the first key, and for each key.
    start: f64,
    key: f64,
    most_splits: f64,
    /// Keys in the cache where the library starts blocks for all of them, those out of sight, too.
    past: Option<f64>,
    /// True where units get equal shares of all blocks, so that none waits for a last wave.
    even: bool,
    /// Blocks that read the same keys, each for itself.
    copies: f64,
    /// Queries, outputs and cache in sight, and the cache alone.
    bytes: f64,
    cache: f64,
}

impl TimedDecode {
    /// The numbers that make a shape, and what stands for one that is left out.
    pub(super) const COLUMNS: &'static [(&'static str, Option<f64>)] = &[
        ("batch", Some(1.0)),
        ("keys", None),
        ("heads", None),
        ("kv_heads", None),
        ("head_dim", None),
        ("window", Some(0.0)),
    ];

    /// Prices one shape, in the order of `COLUMNS`; a window of 0 is none.
    ///
    /// ```text
    /// time = t_launch + min(whole, split) + x t_element
    /// whole = sqrt((ceil(n / units) (t0 + k t_key))^2 + (B / r(n))^2)
    /// split = sqrt((t0 + p t_key)^2 + (C / r(n k / p) + (B - C) / r(n s))^2) + t_split,  p = max(k / s, min(k, 128))
    /// r(n) = min(r_tier, min(n, units) r_unit),  s = max(1, min(units / n, most))
    /// started = sqrt((w t0 + max(ceil(n / units), n k / (q units)) q t_key)^2 + traffic of split^2) + t_split
    /// w = max(ceil(n / units), n b / units),  q = min(k, max(p, K / b)),  b = min(K / 128, sqrt(K / 16), 8 units / n)
    /// t_key = d' (t_tiled + 8 ceil(g / 8) t_row)  or  d t_vector;  latent caches also  64 t_pair,  n ceil(g / 64)
    /// ```
    ///
    /// n: blocks, one for each key head on the matrix engine, for each query head on the vector engine;
    /// k: keys in sight; B: cache in sight, queries and outputs, bytes; C: the cache of them; `r_tier`: rate of the tier that holds
    /// them; `r_unit`: what one unit draws, bytes/s; g: queries to a key; d: width, d' padded; x: elements
    /// of new queries, keys and values. The library takes the matrix engine from `tiled_from` to 32 queries
    /// to a key, where blocks of 256 keys fill `least_occupancy` of the units. Kernels that it does not compile
    /// at run time (whose occupancy it asks) start b blocks for the K keys of the cache even where a window hides
    /// most of them, which do nothing but start: `started`, but no longer than without the window. Latent caches,
    /// wider than 256, have a kernel of their own whose blocks take 64 queries of a key at the rate of prompts
    /// (`t_pair`, as in `attention`) and are dealt evenly to units, n / units for its ceiling; each draws the keys for
    /// itself, so that `r(n)` of them is `min(r_tier, min(n, units) r_unit / ceil(g / 64))`; the quicker counts.
    /// Sources: that kernel and its scheduler (`get_mla_metadata`), `FlashMLA` (deepseek-ai, 2025); splitting keys over
    /// blocks, Dao et al. 2023 (Flash-Decoding); which kernel and when, TensorRT-LLM's choice between XQA
    /// and masked multi-head attention (`DecoderXQARunner`); how many blocks, its `computeMultiBlockCount`, which
    /// knows the length of the past alone; latency-bound rates, Little's law.
    pub(super) fn cost(self, shape: [f64; 6], device: &Device) -> KernelCost {
        let [batch, keys, heads, kv_heads, width, window] = shape;
        let seen = if window > 0.0 { keys.min(window) } else { keys };
        let flops = Flops::new(4.0 * batch * heads * seen * width);
        if flops.value() <= 0.0 || kv_heads <= 0.0 {
            return KernelCost::default();
        }
        let usual = DecodeModel::default();
        let family = if self.cache.bytes() < LAYER_BYTES {
            Dtype::Fp8
        } else {
            Dtype::Bf16
        };
        let model = device.decode.get(&family).unwrap_or(&usual);
        let units = streaming_units(device);
        let rows = heads / kv_heads;
        let counted = batch * kv_heads * (keys / COUNTED_KEYS).floor().max(1.0);
        let tiled = rows >= model.tiled_from
            && rows <= MOST_ROWS
            && counted >= model.least_occupancy * units;
        let (launch, blocks) = if tiled {
            (model.tiled_launch, self.tiled(model, shape, seen))
        } else {
            (model.vector_launch, self.vector(model, shape, seen))
        };
        let (mut kernel, mut traffic) = self.timed(&blocks, model, device);
        if blocks.past.is_some() {
            // a window does not make a kernel slower
            let all = self.tiled(model, shape, keys);
            kernel = kernel.min(self.timed(&all, model, device).0);
        }
        let mut time = launch + Seconds::new(kernel);
        if self.shared_values && width > WIDEST {
            let latent = self.latent(model, shape, seen, device);
            let (kernel, moved) = self.timed(&latent, model, device);
            let latent = model.tiled_launch + Seconds::new(kernel);
            if latent < time {
                (time, traffic) = (latent, moved);
            }
        }
        let elements = batch * (heads + 2.0 * kv_heads) * width;
        KernelCost {
            time: time + model.element * elements,
            flops,
            traffic,
        }
    }

    /// Seconds of a kernel's blocks, and their traffic to main memory.
    fn timed(self, blocks: &Blocks, model: &DecodeModel, device: &Device) -> (f64, Bytes) {
        let moved = reading(Bytes::new(blocks.bytes), self.warm, device);
        // the share of this kernel instead of that of the tier, where the tier is main memory
        let main = device.main_memory();
        let sustained = main.bandwidth.value() * model.bandwidth_share;
        let rate = if moved.traffic > Bytes::ZERO {
            sustained
        } else {
            sustained.max(blocks.bytes / moved.time.value())
        };
        (
            blocks.time(model, streaming_units(device), rate),
            moved.traffic,
        )
    }

    /// The kernel on the matrix engine: a block takes all queries of a key head.
    fn tiled(self, model: &DecodeModel, shape: [f64; 6], seen: f64) -> Blocks {
        let [batch, past, heads, kv_heads, width, _] = shape;
        let rows = (heads / kv_heads / ROW_STEP).ceil() * ROW_STEP;
        let padded = PADDED.into_iter().find(|&p| width <= p).unwrap_or(width);
        Blocks {
            count: batch * kv_heads,
            keys: seen,
            start: model.tiled_block.value(),
            key: padded * (model.tiled_key.value() + rows * model.tiled_row.value()),
            most_splits: model.most_splits,
            past: (past > seen && model.least_occupancy > 0.0).then_some(past),
            even: false,
            copies: 1.0,
            bytes: self.bytes(shape, seen, self.shared_values),
            cache: self.cached(shape, seen, self.shared_values),
        }
    }

    /// The kernel on the vector engine: a block for each query head.
    fn vector(self, model: &DecodeModel, shape: [f64; 6], seen: f64) -> Blocks {
        let [batch, _, heads, _, width, _] = shape;
        Blocks {
            count: batch * heads,
            keys: seen,
            start: model.vector_block.value(),
            key: width * model.vector_key.value(),
            most_splits: VECTOR_SPLITS,
            past: None,
            even: false,
            copies: 1.0,
            bytes: self.bytes(shape, seen, false),
            cache: self.cached(shape, seen, false),
        }
    }

    /// The kernel for a latent cache: blocks of 64 queries of a key, at the rate of prompts on the matrix engine.
    fn latent(self, model: &DecodeModel, shape: [f64; 6], seen: f64, device: &Device) -> Blocks {
        let [batch, _, heads, kv_heads, width, _] = shape;
        let prompt = device.attention.pass(false);
        let products = (Dtype::Bf16, device);
        let pair = pair_time(&prompt, FORWARD_PRODUCTS, (width, width), products);
        let copies = (heads / kv_heads / LATENT_ROWS).ceil();
        let (count, cache) = (batch * kv_heads * copies, self.cached(shape, seen, true));
        Blocks {
            count,
            keys: seen,
            start: model.tiled_block.value(),
            key: LATENT_ROWS * pair * streaming_units(device),
            most_splits: model.most_splits,
            past: None,
            even: true,
            copies,
            // queries and outputs of whole blocks
            bytes: cache + count * LATENT_ROWS * width * 2.0 * LAYER_BYTES,
            cache,
        }
    }

    /// Cache in sight, queries and outputs.
    fn bytes(self, shape: [f64; 6], seen: f64, once: bool) -> f64 {
        let [batch, _, heads, _, width, _] = shape;
        self.cached(shape, seen, once) + batch * width * 2.0 * heads * LAYER_BYTES
    }

    /// Cache in sight, whose values may be its keys.
    fn cached(self, shape: [f64; 6], seen: f64, once: bool) -> f64 {
        let [batch, _, _, kv_heads, width, _] = shape;
        let tensors = if once { 1.0 } else { 2.0 };
        batch * width * tensors * kv_heads * seen * self.cache.bytes()
    }
}

/// Units over which blocks of keys spread: those of products, or, of engines that are fewer and larger,
/// as many multiprocessors as an A100 has for each byte/s of its memory. The usual constants are those
/// of its blocks.
fn streaming_units(device: &Device) -> f64 {
    let own = f64::from(device.matmul.units);
    if device.decode.is_empty() {
        let per_rate = streaming::UNITS / streaming::MEMORY.value();
        own.max(device.main_memory().bandwidth.value() * per_rate)
    } else {
        own
    }
}

impl Blocks {
    /// Seconds of the kernel: whole or with its keys split, whichever is shorter.
    fn time(&self, model: &DecodeModel, units: f64, rate: f64) -> f64 {
        // units draw a cache as often as blocks read it; memory gives it once
        let moving = |cache: f64, own: f64, blocks: f64| {
            let drawn = blocks.min(units) * model.unit_bandwidth.value();
            ((cache + own) / rate).max((cache * self.copies + own) / drawn)
        };
        let own = self.bytes - self.cache;
        let shares = self.count / units;
        let waves = if self.even {
            shares.max(1.0)
        } else {
            shares.ceil()
        };
        let splits = (units / self.count).min(self.most_splits).max(1.0);
        let part = (self.keys / splits).max(self.keys.min(LEAST_PART));
        // what no key adds to is read as by all splits that there may be, so that none saves time
        let moved = |part: f64| {
            moving(self.cache, 0.0, self.count * self.keys / part)
                + moving(0.0, own, self.count * splits)
        };
        if let Some(past) = self.past {
            let (started, each) = self.started(past, units);
            let part = part.max(each).min(self.keys);
            let working = waves.max(self.count * self.keys / part / units);
            let busy = started.max(waves) * self.start + working * part * self.key;
            return busy.hypot(moved(part)) + model.split.value();
        }
        let whole = waves * (self.start + self.keys * self.key);
        let whole = whole.hypot(moving(self.cache, own, self.count));
        let split = waves * (self.start + part * self.key);
        let split = split.hypot(moved(part)) + model.split.value();
        whole.min(split)
    }

    /// Waves of the blocks that the library starts for a cache of `past` keys, and the keys of each.
    fn started(&self, past: f64, units: f64) -> (f64, f64) {
        let parts = past / STARTED_KEYS;
        let parts = parts
            .min((parts * STARTED_ROOT).sqrt())
            .min(STARTED_WAVES * units / self.count)
            .max(1.0);
        (self.count * parts / units, past / parts)
    }
}

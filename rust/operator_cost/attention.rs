//! How long does a fused attention pass take, forward and backward?

use super::kernel::KernelCost;
use super::memory::transfer;
use super::pace::Pace;
use crate::hardware::{AttentionPass, Device};
use crate::units::{Bytes, Dtype, Flops, Seconds};

/// Queries that one unit handles at a time, but where a library says otherwise.
pub(super) const QUERY_BLOCK: f64 = 128.0;
/// Keys that a block computes on average and then masks, over its queries: half of a square block on the
/// diagonal.
const MASKED: f64 = 0.5;
/// Bytes of the row statistic (log-sum-exp) that the forward pass leaves for the backward one.
const STATISTIC_BYTES: f64 = 4.0;
/// Products of one (query, key) pair over the query width and over the value width.
pub(super) const FORWARD_PRODUCTS: (f64, f64) = (1.0, 1.0);
/// Scores again, gradients of queries and keys; gradients of probabilities and values.
const BACKWARD_PRODUCTS: (f64, f64) = (3.0, 2.0);
/// Tensors of query and key width moved besides the forward pass's own: output and its gradient.
const BACKWARD_PASSES: f64 = 2.0;

/// One fused attention pass with local extents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    pub batch_heads: f64,
    pub batch_kv_heads: f64,
    pub queries: f64,
    pub visible: f64,
    /// Keys that a window hides from a query on average, which it would see without.
    pub hidden: f64,
    pub keys: f64,
    /// Queries that one unit handles at a time.
    pub block: f64,
    /// Keys that the longest block of queries sees.
    pub longest: f64,
    pub query_dim: f64,
    pub value_dim: f64,
    pub dtype: Dtype,
    pub backward: bool,
}

/// Prices a fused attention pass.
///
/// ```text
/// time    = sqrt((p t_engine)^2 + t_memory^2) + t_launch
/// t_engine = max(blocks t_block(v) / units + c t_block(longest), t_block(longest))
/// t_block(v) = min(b (v + k0) t_pair units + t_extra, t_block(v + hidden)),   v = visible + min(b / 2, keys - visible)
/// t_pair  = (2 (a ceil(dq / g) + b ceil(dv / g)) g w / P + 4 x / P16) / e
/// ```
///
/// p: slowdown of the `pace`; b: queries of a block, 128; blocks: heads times
/// blocks; v: keys that a block computes, with those on the
/// diagonal that it masks; k0: `key_overhead`, keys; dq, dv: widths; a, b: products per pair, 1 and 1
/// forward, 3 and 2 backward (scores again and four gradients: 2.5 times the forward flops); P: peak of
/// the format, P16 of bf16, flop/s; x: `score_overhead`, the exponential of one score in equivalents of
/// head width; g: `width_step`; e: forward or backward efficiency; w: `wide` for wide heads, else 1; c: `tail`;
/// `t_extra`: what a sliding window costs and inference pays in special cases, s; hidden: keys that a window hides, all
/// of which a kernel computes that does not skip them. The longest block is the last query block of a
/// causal mask, which sees twice the average. Sources: Dao 2023 (FlashAttention-2) sections 3.1 and 3.2;
/// Shah et al. 2024 (FlashAttention-3) section 3.1 on the cost of exponentials. Constants are
/// fitted to the training kernels of cuDNN and `FlashAttention` where a device has been timed, else to prefill kernels
/// of TensorRT-LLM, with backward efficiencies of the `FlashAttention` papers: each device says which.
pub(super) fn cost(pass: &Pass, device: &Device, pace: Pace) -> KernelCost {
    let (score, value) = pass.products();
    let pairs = pass.batch_heads * pass.queries * pass.visible;
    let per_pair = 2.0 * (score * pass.query_dim + value * pass.value_dim);
    let flops = Flops::new(pairs * per_pair);
    if flops.value() <= 0.0 {
        return KernelCost::default();
    }
    let moved = transfer(pass.bytes(), device);
    let model = device.attention_pass(pass.dtype, pass.backward);
    let engine = pass.engine_time(&model, 0.0, device) * pace.slowdown;
    KernelCost {
        time: Seconds::new(engine.hypot(moved.time.value())) + device.launch_overhead,
        flops,
        traffic: moved.traffic,
    }
}

/// Seconds of the whole matrix engine for one query and key: so many products over the query width and over the value
/// width, and an exponential.
pub(super) fn pair_time(
    model: &AttentionPass,
    (score, value): (f64, f64),
    (query_dim, value_dim): (f64, f64),
    (dtype, device): (Dtype, &Device),
) -> f64 {
    let wide = if query_dim > model.wide_beyond {
        model.wide
    } else {
        1.0
    };
    let padded = |width: f64| (width / model.width_step).ceil() * model.width_step;
    let widths = score * padded(query_dim) + value * padded(value_dim);
    let products = 2.0 * widths / device.engine_peak(dtype).value();
    let exponentials = 4.0 * model.score_overhead / device.engine_peak(Dtype::Bf16).value();
    // shares that multiply one another never beat the peak
    ((products * wide + exponentials) / model.efficiency).max(products)
}

impl Pass {
    fn products(&self) -> (f64, f64) {
        if self.backward {
            BACKWARD_PRODUCTS
        } else {
            FORWARD_PRODUCTS
        }
    }

    /// Seconds on the matrix engine, where every block of queries takes `extra` seconds more.
    pub(super) fn engine_time(&self, model: &AttentionPass, extra: f64, device: &Device) -> f64 {
        let widths = (self.query_dim, self.value_dim);
        let pair = pair_time(model, self.products(), widths, (self.dtype, device));
        let units = f64::from(device.matmul.units);
        let block = |keys: f64| self.block * (keys + model.key_overhead) * pair * units + extra;
        let blocks = self.batch_heads * (self.queries / self.block).ceil();
        let masked = MASKED * self.block;
        let computed = self.visible + masked.min(self.keys - self.visible).max(0.0);
        let all =
            |mean: f64, longest: f64| (blocks * mean / units + model.tail * longest).max(longest);
        if self.hidden <= 0.0 {
            return all(block(computed), block(self.longest));
        }
        // a window never costs more than computing what it hides
        let open = self.visible + self.hidden;
        let open = open + masked.min(self.keys - open).max(0.0);
        let whole = all(block(open), block(self.keys));
        if !model.skips_hidden {
            return whole;
        }
        let edges = model.window.value();
        all(block(computed) + edges, block(self.longest) + edges).min(whole)
    }

    /// Queries, keys, values and output once; backward also their gradients and the output again.
    fn bytes(&self) -> Bytes {
        let rows = self.batch_heads * self.queries;
        let held = self.batch_kv_heads * self.keys * (self.query_dim + self.value_dim);
        let forward = rows * (self.query_dim + self.value_dim) + held;
        let passes = if self.backward { BACKWARD_PASSES } else { 1.0 };
        Bytes::new(passes * forward * self.dtype.bytes() + rows * STATISTIC_BYTES)
    }
}

//! How long does attention over a prompt take in inference, with the pass that writes the cache?

use super::LAYER_BYTES;
use super::attention::{Pass, QUERY_BLOCK};
use super::kernel::KernelCost;
use super::memory::reading;
use crate::hardware::{Device, PrefillModel};
use crate::units::{Bytes, Dtype, Flops, Seconds};
use serde::Deserialize;

/// Width of a head to which `PrefillModel::head` belongs.
const USUAL_WIDTH: f64 = 128.0;
/// Widest heads that count as narrow.
const NARROW: f64 = 64.0;

/// Attention of a prompt: rotation, writing of the cache and the attention kernel.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedPrefill {
    /// Format in which queries and keys are multiplied.
    pub queries: Dtype,
    /// Format of the cache.
    pub cache: Dtype,
    /// True where operands may still lie in the on-chip cache, as in a benchmark that repeats a kernel.
    #[serde(default)]
    pub warm: bool,
}

/// What one call reads and writes, and the products that it runs.
struct Call {
    pass: Pass,
    /// Elements of the queries, and of keys and values that are new.
    queries: f64,
    held: f64,
    windowed: bool,
}

impl TimedPrefill {
    /// The numbers that make a shape, and what stands for one that is left out.
    pub(super) const COLUMNS: &'static [(&'static str, Option<f64>)] = &[
        ("batch", Some(1.0)),
        ("queries", None),
        ("cached", Some(0.0)),
        ("heads", None),
        ("kv_heads", None),
        ("head_dim", None),
        ("window", Some(0.0)),
    ];

    /// Prices one shape, in the order of `COLUMNS`; a window of 0 is none.
    ///
    /// ```text
    /// time = t_launch + t_write + sqrt(t_engine^2 + t_memory^2)
    /// t_write = B_write / r + q t_element + heads t_head d / 128
    /// ```
    ///
    /// q: elements of the queries; `B_write`: queries, keys and values in, queries out, keys and values into
    /// the cache, bytes; r: sustained rate of the tier that holds them, bytes/s; `t_engine`: as for training
    /// (`attention`), its forward rate times `cast` where the cache is narrower than the queries, with
    /// `window`, `cast_window` and `narrow` for each block of queries that they concern. Sources: as
    /// for `attention`; the pass that writes the cache is part of a call in TensorRT-LLM (its attention
    /// plugin's preprocessing kernel).
    pub(super) fn cost(self, shape: [f64; 7], device: &Device) -> KernelCost {
        let usual = PrefillModel::default();
        let family = if self.queries.bytes() < LAYER_BYTES {
            Dtype::Fp8
        } else {
            Dtype::Bf16
        };
        let model = device.prefill.get(&family).unwrap_or(&usual);
        let call = self.call(shape, model);
        let pass = &call.pass;
        let pairs = pass.batch_heads * pass.queries * pass.visible;
        let flops = Flops::new(4.0 * pairs * pass.query_dim);
        if flops.value() <= 0.0 {
            return KernelCost::default();
        }
        let cast = self.cache.bytes() < self.queries.bytes();
        let products = model.attention.as_ref().unwrap_or(&device.attention);
        let mut products = products.pass(false);
        if cast {
            products.efficiency *= model.cast;
        }
        let extra = call.extra(model, cast);
        let engine = pass.engine_time(&products, extra, device);
        let read = call.queries * (self.queries.bytes() + LAYER_BYTES)
            + pass.batch_kv_heads * pass.keys * 2.0 * pass.query_dim * self.cache.bytes();
        let read = reading(Bytes::new(read), self.warm, device);
        let written = call.queries * (LAYER_BYTES + self.queries.bytes())
            + call.held * (LAYER_BYTES + self.cache.bytes());
        let written = reading(Bytes::new(written), self.warm, device);
        let write = model.element * call.queries
            + model.head * (pass.batch_heads * pass.query_dim / USUAL_WIDTH);
        KernelCost {
            time: model.launch
                + write
                + written.time
                + Seconds::new(engine.hypot(read.time.value())),
            flops,
            traffic: read.traffic + written.traffic,
        }
    }

    fn call(self, shape: [f64; 7], model: &PrefillModel) -> Call {
        let [batch, queries, cached, heads, kv_heads, width, window] = shape;
        let block = if width > NARROW {
            model.block
        } else {
            QUERY_BLOCK
        };
        let keys = cached + queries;
        let windowed = window > 0.0 && window < keys;
        let span = if windowed { window } else { keys };
        // query i, from 0, sees min(cached + i + 1, span) keys: those of a full span come last
        let growing = (span - cached).clamp(0.0, queries);
        let seen = growing * cached + growing * (growing + 1.0) / 2.0 + (queries - growing) * span;
        let longest = if windowed {
            keys.min(span + block)
        } else {
            keys
        };
        Call {
            pass: Pass {
                batch_heads: batch * heads,
                batch_kv_heads: batch * kv_heads,
                queries,
                visible: seen / queries.max(1.0),
                // what a window costs here is in `extra`
                hidden: 0.0,
                keys,
                block,
                longest,
                query_dim: width,
                value_dim: width,
                dtype: self.queries,
                backward: false,
            },
            queries: batch * queries * heads * width,
            held: 2.0 * batch * queries * kv_heads * width,
            windowed,
        }
    }
}

impl Call {
    /// Seconds that each block of queries takes more.
    fn extra(&self, model: &PrefillModel, cast: bool) -> f64 {
        let mut extra = 0.0;
        if self.windowed {
            let window = if cast {
                model.cast_window
            } else {
                model.window
            };
            extra += window.value();
        }
        if self.pass.query_dim <= NARROW {
            extra += model.narrow.value();
        }
        extra
    }
}

//! What does a kernel cost as a benchmark times it, with the passes that are timed with it?

use super::decode::TimedDecode;
use super::kernel::{Kernel, KernelCost};
use super::matmul::{self, OperandRates, Product};
use super::moe::TimedExperts;
use super::pace::Pace;
use super::prefill::TimedPrefill;
use crate::error::{Error, Result};
use crate::hardware::Device;
use crate::units::{Bytes, Dtype};
use serde::Deserialize;

/// Largest number that a shape may hold.
const MOST: f64 = 1e12;

/// What is timed, but for the shapes: a benchmark times many shapes of one kind.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "kernel", rename_all = "snake_case", deny_unknown_fields)]
pub enum Timed {
    /// A matrix product, perhaps with the cast of its left operand before it.
    Matmul(TimedMatmul),
    /// Attention of a prompt, with the pass that writes the cache.
    Prefill(TimedPrefill),
    /// Attention of one new token for each sequence.
    Decode(TimedDecode),
    /// The experts of a mixture.
    Experts(TimedExperts),
    /// One pass of the attention of a training step.
    TrainingAttention(TimedAttention),
}

/// One pass of fused attention as a training step runs it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedAttention {
    /// Format of the products.
    pub dtype: Dtype,
    /// True for the backward pass.
    pub backward: bool,
    /// True where a position sees only earlier ones.
    pub causal: bool,
}

/// A matrix product as linear layers run it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedMatmul {
    /// Format of the left operand (activations) as the product reads it.
    pub a: Dtype,
    /// Format of the right operand (weights) in memory.
    pub b: Dtype,
    /// Format of the result.
    pub output: Dtype,
    /// Format from which the left operand is cast in a pass of its own; absent: it is not.
    #[serde(default)]
    pub cast_from: Option<Dtype>,
    /// True where the same operands are read again and again, so that those that fit stay in the cache.
    #[serde(default)]
    pub warm: bool,
}

impl Timed {
    /// The numbers that make a shape, in the order in which `cost` takes them: their names, and what
    /// stands for one that is left out.
    pub const fn columns(&self) -> &'static [(&'static str, Option<f64>)] {
        match self {
            Self::Matmul(_) => &[("batch", Some(1.0)), ("m", None), ("n", None), ("k", None)],
            Self::Prefill(_) => TimedPrefill::COLUMNS,
            Self::Decode(_) => TimedDecode::COLUMNS,
            Self::Experts(_) => TimedExperts::COLUMNS,
            Self::TrainingAttention(_) => TimedAttention::COLUMNS,
        }
    }

    /// The formats that a device must have products in, each with the field that names it.
    fn multiplied(&self) -> impl Iterator<Item = (&'static str, Dtype)> {
        let (first, second) = match *self {
            Self::Matmul(product) => (Some(("a", product.a)), product.cast_from),
            Self::Prefill(prompt) => (Some(("queries", prompt.queries)), None),
            Self::Decode(_) => (None, None),
            Self::Experts(experts) => (Some(("rows", experts.rows)), None),
            Self::TrainingAttention(pass) => (Some(("dtype", pass.dtype)), None),
        };
        first
            .into_iter()
            .chain(second.map(|format| ("cast_from", format)))
    }

    /// Prices one shape on `device`: all passes one after the other.
    ///
    /// `shape` holds a number for each of `columns`.
    pub fn cost(&self, shape: &[f64], device: &Device) -> Result<KernelCost> {
        for ((name, _), &number) in self.columns().iter().zip(shape) {
            if !(0.0..=MOST).contains(&number) {
                return Err(Error::invalid(*name, number, "a number from 0 to 1e12"));
            }
        }
        for (field, format) in self.multiplied() {
            if device.matrix_peak(format).is_none() {
                let have = device.matrix.keys().map(|d| d.name()).collect::<Vec<_>>();
                let allowed = format!("formats of {}: {}", device.name, have.join(", "));
                return Err(Error::invalid(field, format.name(), allowed));
            }
        }
        match self {
            Self::Matmul(product) => Ok(product.cost(sized(shape)?, device)),
            Self::Prefill(prompt) => Ok(prompt.cost(sized(shape)?, device)),
            Self::Decode(token) => Ok(token.cost(sized(shape)?, device)),
            Self::Experts(experts) => experts.cost(sized(shape)?, device),
            Self::TrainingAttention(pass) => Ok(pass.cost(sized(shape)?, device)),
        }
    }
}

/// The numbers of a shape that has as many as wanted.
fn sized<const COUNT: usize>(shape: &[f64]) -> Result<[f64; COUNT]> {
    shape.try_into().map_err(|_| {
        let got = format!("{} numbers", shape.len());
        Error::invalid("shape", got, format!("{COUNT} numbers"))
    })
}

impl TimedAttention {
    /// The numbers that make a shape; a window of 0 is none.
    const COLUMNS: &'static [(&'static str, Option<f64>)] = &[
        ("batch", Some(1.0)),
        ("positions", None),
        ("heads", None),
        ("kv_heads", None),
        ("head_dim", None),
        ("value_dim", None),
        ("window", Some(0.0)),
    ];

    /// Prices one shape, in the order of `COLUMNS`, as `Kernel::Attention` of a step.
    fn cost(self, shape: [f64; 7], device: &Device) -> KernelCost {
        let [
            batch,
            positions,
            heads,
            kv_heads,
            width,
            value_width,
            window,
        ] = shape;
        let span = if window > 0.0 {
            window.min(positions)
        } else {
            positions
        };
        let seen = |span: f64| {
            if self.causal {
                span - span * (span - 1.0) / (2.0 * positions.max(1.0))
            } else {
                span
            }
        };
        let kernel = Kernel::Attention {
            batch_heads: batch * heads,
            batch_kv_heads: batch * kv_heads,
            queries: positions,
            visible: seen(span),
            longest: positions.min(2.0 * seen(span)),
            hidden: seen(positions) - seen(span),
            keys: positions,
            query_dim: width,
            value_dim: value_width,
            dtype: self.dtype,
            backward: self.backward,
        };
        kernel.cost(device)
    }
}

impl TimedMatmul {
    /// The cast of the left operand, where there is one, then the product.
    ///
    /// ```text
    /// time   = t_product + t_launch + o + (S + A) t(S + A + B + C) r_main / (r_pin e)
    /// copies = B_cache / B, rounded up, 1 to 5; 1 where operands are warm
    /// ```
    ///
    /// S, A: bytes of the left operand before and after the cast; o: `cast_overhead`, s; e:
    /// `cast_efficiency`; `r_pin`: pin rate of main memory, bytes/s; the rest as in `matmul`. A benchmark
    /// that does not want warm weights goes round as many copies as fill the cache, but no more than
    /// a few (the collector of the rows in the catalog: five).
    fn cost(self, [batch, m, n, k]: [f64; 4], device: &Device) -> KernelCost {
        let source = self.cast_from.map_or(0.0, Dtype::bytes) * batch * m * k;
        let weights = batch * n * k * self.b.bytes();
        let filled = device.cache().filter(|_| !self.warm);
        let cache = filled.map_or(0.0, |c| c.capacity.value());
        let product = Product {
            batch,
            m,
            n,
            k,
            dtype: self.a,
            weights: self.b,
            output_bytes: self.output.bytes(),
            transposed: false,
            added: false,
            copies: (cache / weights).ceil().clamp(1.0, matmul::WEIGHT_COPIES),
            beside: Bytes::new(source),
        };
        let price = matmul::cost(product, device, Pace::ALONE);
        if source <= 0.0 {
            return price;
        }
        let model = device.product_model(self.a, self.b);
        let cast = batch * m * k * self.a.bytes();
        let result = batch * m * n * self.output.bytes();
        let between = Bytes::new(source + cast + weights + result);
        let moved = OperandRates::new(&model, device).moved(Bytes::new(source + cast), between);
        let main = device.main_memory();
        let reached = model.memory_efficiency.unwrap_or(main.efficiency);
        let slower = reached / model.cast_efficiency;
        KernelCost {
            time: price.time + moved.time * slower + device.launch_overhead + model.cast_overhead,
            flops: price.flops,
            traffic: price.traffic + moved.traffic,
        }
    }
}

//! What does a kernel cost as a benchmark times it, with the passes that are timed with it?

use super::decode::TimedDecode;
use super::kernel::{Kernel, KernelCost};
use super::moe::TimedExperts;
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
        }
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
        match self {
            Self::Matmul(product) => Ok(product.cost(sized(shape)?, device)),
            Self::Prefill(prompt) => Ok(prompt.cost(sized(shape)?, device)),
            Self::Decode(token) => Ok(token.cost(sized(shape)?, device)),
            Self::Experts(experts) => experts.cost(sized(shape)?, device),
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

impl TimedMatmul {
    fn cost(self, [batch, m, n, k]: [f64; 4], device: &Device) -> KernelCost {
        let product = Kernel::Matmul {
            batch,
            m,
            n,
            k,
            dtype: self.a,
            output_bytes: self.output.bytes(),
        };
        let product = product.cost(device);
        let Some(from) = self.cast_from else {
            return product;
        };
        // read wide, written narrow
        let bytes = batch * m * k * (from.bytes() + self.a.bytes());
        let cast = Kernel::Memory {
            bytes: Bytes::new(bytes),
            launches: 1.0,
        };
        let cast = cast.cost(device);
        KernelCost {
            time: product.time + cast.time,
            flops: product.flops,
            traffic: product.traffic + cast.traffic,
        }
    }
}

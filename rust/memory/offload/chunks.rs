//! How large should the chunks be that hold a model's tensors, and which chunk holds which?

use crate::error::amounts::count;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most chunks: a model of 10^13 elements in chunks of 2^24.
const MOST: u32 = 1 << 20;

/// Tensors laid into chunks of one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chunks {
    /// Elements of a chunk.
    pub elements: f64,
    /// How many there are.
    pub count: u32,
    /// The chunk of each tensor.
    pub of: Vec<u32>,
    /// Share of all chunks' elements that no tensor uses, those among them that fill up the last group.
    pub waste: f64,
}

/// Sizes to be tried.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sizes {
    /// The smallest, elements.
    pub least: u64,
    /// The largest.
    pub most: u64,
    /// Between one and the next.
    pub step: u64,
}

impl Default for Sizes {
    /// 88 to 312 Mi elements, 32 Mi apart (Tencent/PatrickStar `examples/run_transformers.sh`).
    fn default() -> Self {
        Self {
            least: 88 << 20,
            most: 312 << 20,
            step: 32 << 20,
        }
    }
}

/// Lays tensors into chunks in their order; a tensor lies in one chunk (Fang et al. 2021, section
/// 6.1), and `ranks` ranks hold as many chunks each. None where a tensor is larger than a chunk.
pub fn lay(tensors: &[f64], elements: f64, ranks: u32) -> Option<Chunks> {
    let mut of = Vec::with_capacity(tensors.len());
    let (mut chunk, mut used) = (0_u32, 0.0);
    for &size in tensors {
        if size > elements {
            return None;
        }
        if used + size > elements {
            chunk = chunk.checked_add(1)?;
            used = 0.0;
        }
        used += size;
        of.push(chunk);
    }
    let count = if tensors.is_empty() { 0 } else { chunk + 1 };
    let held = f64::from(count.div_ceil(ranks.max(1))) * f64::from(ranks.max(1));
    let (all, total) = (held * elements, tensors.iter().sum::<f64>());
    let waste = if all > 0.0 { 1.0 - total / all } else { 0.0 };
    Some(Chunks {
        elements,
        count,
        of,
        waste,
    })
}

/// The size that wastes least, the smaller of equals (Fang et al. 2021, section 9.1). Where no size
/// holds the largest tensor, that tensor's size is taken.
pub fn search(tensors: &[f64], sizes: Sizes, ranks: u32) -> Result<Chunks> {
    count("sizes.step", sizes.step, 1, u64::MAX)?;
    count("sizes.least", sizes.least, 1, sizes.most)?;
    let tries = (sizes.most - sizes.least) / sizes.step;
    count("sizes: to be tried", tries, 0, 1 << 16)?;
    let mut best: Option<Chunks> = None;
    for number in 0..=tries {
        let size = sizes.least + number * sizes.step;
        let Some(found) = lay(tensors, size as f64, ranks) else {
            continue;
        };
        if best.as_ref().is_none_or(|best| found.waste < best.waste) {
            best = Some(found);
        }
    }
    let largest = tensors.iter().copied().fold(1.0, f64::max);
    let found = best.or_else(|| lay(tensors, largest, ranks));
    let found = found.filter(|found| found.count <= MOST);
    found.ok_or_else(|| {
        let got = format!("more than {MOST} chunks");
        Error::invalid("sizes.most", got, "larger chunks")
    })
}

//! Which objects are asked for how often, and how large are they?

use super::zipf;
use crate::error::amounts::{count, positive};
use crate::error::{Error, Result};
use serde::Deserialize;

/// Most objects: every count up to here is a whole number of an `f64`.
const MOST_OBJECTS: u64 = 1 << 53;
/// Steepest Zipf law.
const MOST_EXPONENT: f64 = 8.0;

/// Chances of objects to be asked for next, each time anew: the independent reference model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Popularity {
    /// Chance of rank i in proportion to `i^-exponent`.
    Zipf {
        /// Objects, up to 2^53.
        objects: u64,
        /// 0 for all alike, up to 8.
        exponent: f64,
    },
    /// Weights as measured, one for each object; they need not sum to 1.
    Measured(Vec<f64>),
}

/// Objects that are alike.
#[derive(Debug, Clone, Copy)]
pub(super) struct Class {
    /// Chance that one of them is asked for next.
    pub(super) chance: f64,
    /// How many they are; not whole where a node of a quadrature stands for ranks.
    pub(super) count: f64,
    /// Size of one: 1 where capacities count objects, else bytes.
    pub(super) size: f64,
}

/// A popularity ready for formulas.
#[derive(Debug, Clone)]
pub struct Demand {
    /// The most popular first. Objects that nobody asks for are not among them.
    pub(super) classes: Vec<Class>,
    /// Objects and exponent of a Zipf law.
    pub(super) zipf: Option<(u64, f64)>,
    /// True where objects have sizes.
    pub(super) sized: bool,
    /// Size of all objects that are asked for.
    pub(super) total_size: f64,
    /// Bytes of an access, on average; 1 where capacities count objects.
    pub(super) mean_size: f64,
}

impl Demand {
    /// Reads a popularity. `sizes` has a size for each measured object, or nothing: all are alike and
    /// capacities count objects.
    pub fn new(popularity: &Popularity, sizes: &[f64]) -> Result<Self> {
        let (classes, zipf) = match popularity {
            Popularity::Zipf { objects, exponent } => {
                if !sizes.is_empty() {
                    let allowed = "none where popularity is a Zipf law: its objects are alike";
                    return Err(Error::invalid("sizes", sizes.len(), allowed));
                }
                (ranked(*objects, *exponent)?, Some((*objects, *exponent)))
            }
            Popularity::Measured(weights) => (measured(weights, sizes)?, None),
        };
        let total_size = match zipf {
            Some((objects, _)) => objects as f64,
            None => classes.iter().map(|c| c.count * c.size).sum(),
        };
        let mean_size = classes.iter().map(|c| c.count * c.chance * c.size);
        Ok(Self {
            mean_size: if zipf.is_some() { 1.0 } else { mean_size.sum() },
            sized: !sizes.is_empty(),
            classes,
            zipf,
            total_size,
        })
    }

    /// Size of all objects that are asked for: their number, or bytes where they have sizes.
    pub fn total_size(&self) -> f64 {
        self.total_size
    }
}

fn ranked(objects: u64, exponent: f64) -> Result<Vec<Class>> {
    count("popularity.objects", objects, 1, MOST_OBJECTS)?;
    if !(0.0..=MOST_EXPONENT).contains(&exponent) {
        return Err(Error::invalid("popularity.exponent", exponent, "0 to 8"));
    }
    let total = zipf::partial_sum(objects, exponent);
    let nodes = zipf::nodes(objects, exponent);
    let classes = nodes.into_iter().map(|node| Class {
        chance: node.rank.powf(-exponent) / total,
        count: node.count,
        size: 1.0,
    });
    Ok(classes.collect())
}

fn measured(weights: &[f64], sizes: &[f64]) -> Result<Vec<Class>> {
    if !sizes.is_empty() && sizes.len() != weights.len() {
        let allowed = format!("{}, as many as weights of popularity", weights.len());
        return Err(Error::invalid("sizes", sizes.len(), allowed));
    }
    for (index, weight) in weights.iter().enumerate() {
        if !(0.0..=1e30).contains(weight) {
            let field = format!("popularity[{index}]");
            return Err(Error::invalid(field, weight, "0 to 1e30"));
        }
    }
    for (index, size) in sizes.iter().enumerate() {
        if !(*size > 0.0 && *size <= 1e30) {
            let field = format!("sizes[{index}]");
            return Err(Error::invalid(field, size, "above 0, up to 1e30"));
        }
    }
    let total = positive("the sum of popularity", weights.iter().sum())?;
    let of = |index: usize| sizes.get(index).copied().unwrap_or(1.0);
    let asked = weights.iter().enumerate().filter(|(_, w)| **w > 0.0);
    let mut classes: Vec<Class> = asked
        .map(|(index, weight)| Class {
            chance: weight / total,
            count: 1.0,
            size: of(index),
        })
        .collect();
    classes.sort_by(|a, b| {
        b.chance
            .total_cmp(&a.chance)
            .then(a.size.total_cmp(&b.size))
    });
    // equal objects are one class: a histogram of counts has few
    classes.dedup_by(|next, kept| {
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits();
        let alike = same(next.chance, kept.chance) && same(next.size, kept.size);
        if alike {
            kept.count += next.count;
        }
        alike
    });
    Ok(classes)
}

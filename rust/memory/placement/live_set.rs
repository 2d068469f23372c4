//! How many bytes live at each instant, and when are they most?

use super::problem::Problem;
use super::tensor::Class;
use serde::{Serialize, Serializer};

/// The live set of a step, wherever its tensors lie.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveSet {
    /// Bytes of each instant, by the classes that occur.
    #[serde(rename = "bytes_by_instant", serialize_with = "by_name")]
    pub classes: Vec<(Class, Vec<f64>)>,
    /// The fullest instant.
    #[serde(rename = "peak_instant")]
    pub at: u32,
    /// Bytes at that instant.
    pub peak_bytes: f64,
    /// The sum of each class's own peak: what a count without lifetimes gives.
    pub sum_of_peaks_bytes: f64,
}

impl LiveSet {
    /// Sums tensors over their lifetimes in O(tensors + instants).
    pub fn new(problem: &Problem) -> Self {
        let count = problem.instants() as usize;
        let mut classes: Vec<(Class, Vec<f64>)> = Vec::new();
        for class in Class::ALL {
            let mut bytes = vec![0.0; count];
            let mut change = vec![0.0; count + 1];
            for tensor in problem.tensors.iter().filter(|t| t.class == class) {
                change[tensor.from as usize] += tensor.bytes;
                change[tensor.to.map_or(count, |to| to as usize)] -= tensor.bytes;
            }
            let mut live: f64 = 0.0;
            for (at, sum) in bytes.iter_mut().enumerate() {
                live += change[at];
                *sum = live.max(0.0);
            }
            for fixed in problem.fixed.iter().filter(|f| f.class == class) {
                bytes
                    .iter_mut()
                    .zip(&fixed.bytes)
                    .for_each(|(a, b)| *a += b);
            }
            if class == Class::Fragmentation {
                // the allocator's loss on activations comes and goes with them
                let kept = classes
                    .iter()
                    .find(|(class, _)| *class == Class::Activations);
                let lost = problem.activation_factor - 1.0;
                let of = |(sum, kept): (&mut f64, &f64)| *sum += kept * lost;
                bytes
                    .iter_mut()
                    .zip(kept.map_or(&[][..], |(_, b)| b))
                    .for_each(of);
            }
            if bytes.iter().any(|b| *b > 0.0) {
                classes.push((class, bytes));
            }
        }
        let total = |at: usize| classes.iter().map(|(_, b)| b[at]).sum::<f64>();
        let (mut at, mut peak_bytes) = (0, 0.0);
        for instant in 0..count {
            if total(instant) > peak_bytes {
                (at, peak_bytes) = (instant, total(instant));
            }
        }
        let peak = |b: &[f64]| b.iter().copied().fold(0.0, f64::max);
        let sum_of_peaks_bytes = classes.iter().map(|(_, b)| peak(b)).sum();
        Self {
            at: u32::try_from(at).unwrap_or(u32::MAX),
            peak_bytes,
            sum_of_peaks_bytes,
            classes,
        }
    }
}

fn by_name<S: Serializer>(classes: &[(Class, Vec<f64>)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(classes.iter().map(|(class, bytes)| (class, bytes)))
}

//! How long does an object stay in a cache, when all that is known is how full the cache is?

use super::popularity::{Class, Demand};
use crate::control::Control;
use crate::error::{Error, Result};

/// Steps of a search that halves its bracket at worst.
const STEPS: u32 = 200;
/// How near the expected contents must come to the capacity.
const NEAR: f64 = 1e-13;

/// Share of the time that an object is held, and that times the growth with the logarithm of time,
/// given the expected number of requests for it within the characteristic time.
pub(super) type ResidencyFn = fn(f64) -> (f64, f64);

/// The time `T`, in accesses, that fills the cache: `sum_i size_i held(p_i T) = capacity`.
///
/// Infinite where all objects fit. Newton's method in the logarithm of `T`, inside a bracket.
pub(super) fn time(
    demand: &Demand,
    capacity: f64,
    held: ResidencyFn,
    control: &Control,
) -> Result<f64> {
    if capacity >= demand.total_size {
        return Ok(f64::INFINITY);
    }
    if capacity <= 0.0 {
        return Ok(0.0);
    }
    // held(x) <= x, so the contents are at most T times the mean size of an access
    let mut low = (capacity / demand.mean_size).ln();
    let mut high = f64::INFINITY;
    let mut at = low;
    for _ in 0..STEPS {
        if control.is_cancelled() {
            let what = "a search for a characteristic time".to_owned();
            return Err(Error::Cancelled { what });
        }
        let (full, growth) = contents(&demand.classes, at.exp(), held);
        if (full - capacity).abs() <= NEAR * capacity {
            break;
        }
        if full < capacity {
            low = at;
        } else {
            high = at;
        }
        let next = at + (capacity - full) / growth;
        let before = at;
        at = if next > low && next < high {
            next
        } else if high.is_finite() {
            f64::midpoint(low, high)
        } else {
            low + 1.0
        };
        if (at - before).abs() <= f64::EPSILON * before.abs() {
            break;
        }
    }
    Ok(at.exp())
}

fn contents(classes: &[Class], time: f64, held: ResidencyFn) -> (f64, f64) {
    let (mut full, mut growth) = (0.0, 0.0);
    for class in classes {
        let (share, slope) = held(class.chance * time);
        let size = class.count * class.size;
        full += size * share;
        growth += size * slope;
    }
    (full, growth)
}

/// Accesses that find their object, and bytes of them, as shares of all.
pub(super) fn hit(demand: &Demand, time: f64, held: ResidencyFn) -> (f64, f64) {
    let (mut objects, mut bytes) = (0.0, 0.0);
    for class in &demand.classes {
        let found = if time.is_finite() {
            class.count * class.chance * held(class.chance * time).0
        } else {
            class.count * class.chance
        };
        objects += found;
        bytes += found * class.size;
    }
    (objects.min(1.0), (bytes / demand.mean_size).min(1.0))
}

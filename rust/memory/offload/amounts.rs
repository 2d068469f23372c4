//! Is a number that a caller brings one that a step can be laid out with?

use crate::error::{Error, Result};

/// Keeps sums of products finite.
const MOST: f64 = 1e30;

/// A time, a size or a rate that may be nothing.
pub(super) fn not_negative(field: &str, value: f64) -> Result<f64> {
    if (0.0..=MOST).contains(&value) {
        return Ok(value);
    }
    Err(Error::invalid(field, value, "0 to 1e30"))
}

/// A part of a whole.
pub(super) fn share(field: &str, value: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(Error::invalid(field, value, "a share from 0 to 1"))
}

/// A count of at least `least` and at most `most`.
pub(super) fn count(field: &str, value: u64, least: u64, most: u64) -> Result<u64> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    let allowed = format!("a whole number from {least} to {most}");
    Err(Error::invalid(field, value, allowed))
}

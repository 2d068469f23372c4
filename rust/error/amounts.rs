//! Is a number that a caller brings one that can be worked with?

use super::{Error, Result};
use std::fmt::Display;

/// Keeps sums and products finite.
const MOST: f64 = 1e30;

/// A time, a size or a rate that may be nothing.
pub fn not_negative(field: &str, value: f64) -> Result<f64> {
    if (0.0..=MOST).contains(&value) {
        return Ok(value);
    }
    Err(Error::invalid(field, value, "0 to 1e30"))
}

/// A rate or a capacity that must be more than nothing.
pub fn positive(field: &str, value: f64) -> Result<f64> {
    if (1.0 / MOST..=MOST).contains(&value) {
        return Ok(value);
    }
    Err(Error::invalid(
        field,
        value,
        "more than 0: from 1e-30 to 1e30",
    ))
}

/// A part of a whole.
pub fn share(field: &str, value: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(Error::invalid(field, value, "a share from 0 to 1"))
}

/// A count of at least `least` and at most `most`.
pub fn count<N: Copy + PartialOrd + Display>(
    field: &str,
    value: N,
    least: N,
    most: N,
) -> Result<N> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    let allowed = format!("a whole number from {least} to {most}");
    Err(Error::invalid(field, value, allowed))
}

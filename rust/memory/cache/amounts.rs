//! Which numbers may a request for a cache hold?

use crate::error::{Error, Result};

/// Keeps sums, products and times finite.
const MOST: f64 = 1e30;

/// An amount above zero.
pub(super) fn positive(field: &str, value: f64) -> Result<f64> {
    if (1.0 / MOST..=MOST).contains(&value) {
        return Ok(value);
    }
    Err(Error::invalid(field, value, "1e-30 to 1e30"))
}

/// An amount of zero or more.
pub(super) fn not_negative(field: &str, value: f64) -> Result<f64> {
    if (0.0..=MOST).contains(&value) {
        return Ok(value);
    }
    Err(Error::invalid(field, value, "0 to 1e30"))
}

/// A count within bounds.
pub(super) fn count(field: &str, value: u64, least: u64, most: u64) -> Result<u64> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(Error::invalid(field, value, format!("{least} to {most}")))
}

/// A part of a whole.
pub(super) fn share(field: &str, value: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(Error::invalid(field, value, "0 to 1"))
}

//! Which figures of a software profile are out of the range of any program?

use crate::error::{Error, Result};
use crate::units::Seconds;

/// Largest number of passes, bytes or collectives that is taken for real.
pub(super) const MOST: f64 = 1000.0;

/// Refuses a figure outside of a range; `field` is `table.field` of the profile.
pub(super) fn within(field: &str, value: f64, least: f64, most: f64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let field = format!("training.software.{field}");
    Err(Error::invalid(field, value, format!("{least} to {most}")))
}

/// Refuses a negative number of passes, bytes or collectives, and one of more than a thousand.
pub(super) fn count(field: &str, value: f64) -> Result<()> {
    within(field, value, 0.0, MOST)
}

/// The same for the forward and the backward pass.
pub(super) fn pair(field: &str, values: [f64; 2]) -> Result<()> {
    values.into_iter().try_for_each(|value| count(field, value))
}

/// Refuses a time of the host or of a kernel of more than a second.
pub(super) fn time(field: &str, value: Seconds) -> Result<()> {
    within(field, value.value(), 0.0, 1.0)
}

/// The same for two of them.
pub(super) fn times(field: &str, values: [Seconds; 2]) -> Result<()> {
    values.into_iter().try_for_each(|value| time(field, value))
}

//! Which Python exception an engine error becomes: one exhaustive match.

use crate::error::Error;
use pyo3::prelude::*;

/// The exception for `error`, of a class of `scalewright.errors`.
pub(super) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Invalid { .. } => "InvalidError",
        Error::Unknown { .. } => "UnknownNameError",
        Error::Inconsistent { .. } => "ScalewrightError",
        Error::Cancelled { .. } => "CancelledError",
    };
    raise(py, class, &error.to_string())
}

/// The exception for a panic of the engine, which is always a bug of ours.
pub(super) fn bug(py: Python<'_>, message: &str) -> PyErr {
    let message = format!("internal error: {message}; please report it with the input");
    raise(py, "ScalewrightError", &message)
}

fn raise(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = py
        .import("scalewright.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((message,)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(failure) => failure,
    }
}

//! Published figures from Python: a priced plan and a paper's conventions in, one number out.

use super::engine_call;
use super::input::text;
use super::planning::PyJob;
use crate::calibration::{Priced, Request, published};
use crate::error::from_json;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// The figure that a paper would print for an estimate, in the paper's metric and unit.
#[pyfunction]
pub(super) fn metric(
    job: &Bound<'_, PyJob>,
    estimate: &Bound<'_, PyString>,
    request: &Bound<'_, PyString>,
) -> PyResult<f64> {
    let (py, estimate, request) = (job.py(), text(estimate)?, text(request)?);
    let job = &job.get().job;
    engine_call::brief(py, || {
        let priced = Priced::from_json(estimate)?;
        let request: Request = from_json("", request)?;
        published(job, &priced, &request)
    })
}

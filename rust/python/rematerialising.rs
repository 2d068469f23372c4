//! What a chain of blocks should keep, compute again or move, from Python: JSON in, JSON out.

use super::engine_call;
use super::input::text;
use super::planning::{PyJob, encode};
use crate::error::from_json;
use crate::estimate::{StageRequest, stage_chain};
use crate::memory::rematerialise::{self as chains, Request};
use crate::plan::Plan;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// What a chain of given blocks should keep, compute again or move.
#[pyfunction]
pub(super) fn rematerialise(request: &Bound<'_, PyString>) -> PyResult<String> {
    let (py, request) = (request.py(), text(request)?);
    engine_call::long(py, None, |control| {
        let request: Request = from_json("", request)?;
        encode(&chains::rematerialise(&request, control)?)
    })
}

/// The chain of one stage of a plan, and what it should keep, compute again or move.
#[pyfunction]
pub(super) fn rematerialise_stage(
    job: &Bound<'_, PyJob>,
    plan: &Bound<'_, PyString>,
    asked: &Bound<'_, PyString>,
) -> PyResult<String> {
    let (py, plan, asked, job) = (plan.py(), text(plan)?, text(asked)?, &job.get().job);
    engine_call::long(py, None, |control| {
        let plan: Plan = from_json("plan", plan)?;
        let asked: StageRequest = from_json("", asked)?;
        encode(&stage_chain(job, &plan, &asked, control)?)
    })
}

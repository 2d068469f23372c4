//! What constants do to plans, from Python: JSON in, JSON out.

use super::engine_call;
use super::input::{Cluster, text};
use super::planning::{PyJob, encode};
use crate::error::from_json;
use crate::plan::Plan;
use crate::search::{Space, robust as robustness, sensitivity as sensitivities};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Every number of a cluster that pricing reads, as a JSON list.
#[pyfunction]
pub(super) fn constants(cluster: &Bound<'_, Cluster>) -> PyResult<String> {
    let (py, cluster) = (cluster.py(), &cluster.get().cluster);
    engine_call::brief(py, || encode(&cluster.constants()))
}

/// Prices a plan with each constant made larger and smaller.
#[pyfunction]
#[pyo3(signature = (job, plan, space, asked, *, progress=None))]
pub(super) fn sensitivity(
    job: &Bound<'_, PyJob>,
    plan: &Bound<'_, PyString>,
    space: &Bound<'_, PyString>,
    asked: &Bound<'_, PyString>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let (py, plan, space, asked) = (job.py(), text(plan)?, text(space)?, text(asked)?);
    let job = &job.get().job;
    engine_call::long(py, progress, |control| {
        let plan: Plan = from_json("plan", plan)?;
        let space = Space::from_json(space)?;
        let asked: sensitivities::SensitivityRequest = from_json("", asked)?;
        encode(&sensitivities::sensitivity(
            job, &plan, &space, asked, control,
        )?)
    })
}

/// Prices the best plans under draws of the constants.
#[pyfunction]
#[pyo3(signature = (job, space, asked, *, progress=None))]
pub(super) fn robust(
    job: &Bound<'_, PyJob>,
    space: &Bound<'_, PyString>,
    asked: &Bound<'_, PyString>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let (py, space, asked) = (job.py(), text(space)?, text(asked)?);
    let job = &job.get().job;
    engine_call::long(py, progress, |control| {
        let space = Space::from_json(space)?;
        let asked: robustness::RobustRequest = from_json("", asked)?;
        encode(&robustness::robust(job, &space, &asked, control)?)
    })
}

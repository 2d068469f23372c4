//! Pricing and searching plans from Python: JSON in, JSON out, arrays for many plans.

use super::enter;
use super::input::{Cluster, Workload, text};
use crate::error::{Error, Result, from_json};
use crate::estimate::{Job, Verdict};
use crate::plan::Plan;
use crate::search::{Limits, SearchReport, Space};
use crate::workload::Training;
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde_json::json;

/// A model to be trained on a cluster: what stays the same while plans vary.
#[pyclass(frozen, name = "Job", module = "scalewright._engine")]
pub(super) struct PyJob {
    pub(super) job: Job,
}

#[pymethods]
impl PyJob {
    #[new]
    #[pyo3(signature = (workload, cluster, training, memory_margin=0.0))]
    fn new(
        workload: &Bound<'_, Workload>,
        cluster: &Bound<'_, Cluster>,
        training: &Bound<'_, PyString>,
        memory_margin: f64,
    ) -> PyResult<Self> {
        let (py, training) = (training.py(), text(training)?);
        let (model, cluster) = (&workload.get().model, &cluster.get().cluster);
        let job = enter::brief(py, || {
            let training: Training = from_json("training", training)?;
            Job::new(model, cluster, &training, memory_margin)
        })?;
        Ok(Self { job })
    }
}

/// Prices one plan. The JSON text holds `estimate`, or `illegal` with the rule that is broken.
#[pyfunction]
pub(super) fn estimate(job: &Bound<'_, PyJob>, plan: &Bound<'_, PyString>) -> PyResult<String> {
    let (py, plan, job) = (plan.py(), text(plan)?, &job.get().job);
    enter::brief(py, || {
        let plan: Plan = from_json("plan", plan)?;
        let value = match crate::estimate::estimate(job, &plan) {
            Verdict::Priced(estimate) => json!({ "estimate": *estimate }),
            Verdict::Illegal(rule) => json!({ "illegal": rule.to_string() }),
        };
        Ok(value.to_string())
    })
}

/// Searches a plan space. The JSON text holds the best plans, the front and the counts.
#[pyfunction]
#[pyo3(signature = (job, space, limits, *, progress=None))]
pub(super) fn search(
    job: &Bound<'_, PyJob>,
    space: &Bound<'_, PyString>,
    limits: &Bound<'_, PyString>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let (py, space, limits) = (job.py(), text(space)?, text(limits)?);
    let job = &job.get().job;
    enter::long(py, progress, |control| {
        let space = Space::from_json(space)?;
        let limits: Limits = from_json("limits", limits)?;
        let outcome = crate::search::search(job, &space, limits, control)?;
        encode(&SearchReport::new(job, &outcome))
    })
}

fn encode<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::inconsistent(format!("result: {e}")))
}

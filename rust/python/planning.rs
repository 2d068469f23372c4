//! Pricing and searching plans from Python: JSON in, JSON out, arrays for many plans.

use super::engine_call;
use super::input::{Cluster, Workload, text};
use crate::error::{Error, Result, from_json};
use crate::estimate::{Job, PriceRow, Verdict};
use crate::plan::Plan;
use crate::workload::Training;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde_json::json;
use std::sync::Arc;

type Column<'py, T> = Bound<'py, PyArray1<T>>;

/// A model to be trained on a cluster: what stays the same while plans vary.
#[pyclass(frozen, name = "Job", module = "scalewright._engine")]
pub(super) struct PyJob {
    pub(super) job: Arc<Job>,
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
        let job = engine_call::brief(py, || {
            let training: Training = from_json("training", training)?;
            Job::new(model, cluster, &training, memory_margin)
        })?;
        Ok(Self { job: Arc::new(job) })
    }
}

/// Prices one plan. The JSON text holds `estimate`, or `illegal` with the rule that is broken.
#[pyfunction]
pub(super) fn estimate(job: &Bound<'_, PyJob>, plan: &Bound<'_, PyString>) -> PyResult<String> {
    let (py, plan, job) = (plan.py(), text(plan)?, &job.get().job);
    engine_call::brief(py, || {
        let plan: Plan = from_json("plan", plan)?;
        let value = match crate::estimate::estimate(job, &plan) {
            Verdict::Priced(estimate) => json!({ "estimate": *estimate }),
            Verdict::Illegal(rule) => json!({ "illegal": rule.to_string() }),
        };
        Ok(value.to_string())
    })
}

/// Explains the terms of a plan's time: a JSON list of formula, inputs and source by term.
#[pyfunction]
pub(super) fn explain(job: &Bound<'_, PyJob>, plan: &Bound<'_, PyString>) -> PyResult<String> {
    let (py, plan, job) = (plan.py(), text(plan)?, &job.get().job);
    engine_call::brief(py, || {
        let plan: Plan = from_json("plan", plan)?;
        match crate::estimate::explained(job, &plan) {
            Ok(terms) => encode(&terms),
            Err(rule) => Err(Error::inconsistent(format!("plan: {rule}"))),
        }
    })
}

/// Prices many plans: `embedding_rows` is a plans x columns array of integers.
///
/// Returns step times in seconds, bytes on the fullest rank, and a status by plan: 0 fits,
/// 1 does not fit, 2 breaks a rule (time and bytes are then infinite).
#[allow(clippy::needless_pass_by_value)] // a Python list comes over as an owned one
#[pyfunction]
#[pyo3(signature = (job, columns, rows, *, progress=None))]
pub(super) fn estimate_many<'py>(
    job: &Bound<'py, PyJob>,
    columns: Vec<String>,
    rows: &Bound<'py, PyArray2<i64>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Column<'py, f64>, Column<'py, f64>, Column<'py, u8>)> {
    let py = job.py();
    let job = &job.get().job;
    let (width, values) = {
        let rows = rows.try_readonly()?;
        let rows = rows.as_array();
        (rows.ncols(), rows.iter().copied().collect::<Vec<i64>>())
    };
    let priced = engine_call::long(py, progress, |control| {
        if width != columns.len() {
            let allowed = format!("{} columns, as named", columns.len());
            return Err(Error::invalid("rows", format!("{width} columns"), allowed));
        }
        crate::estimate::estimate_many(job, &columns, &values, control)
    })?;
    let split = |of: fn(&PriceRow) -> f64| priced.iter().map(of).collect::<Vec<f64>>();
    let status: Vec<u8> = priced
        .iter()
        .map(|row| match row {
            PriceRow::Priced { fits: true, .. } => 0,
            PriceRow::Priced { .. } => 1,
            PriceRow::Illegal => 2,
        })
        .collect();
    let time = split(|row| match row {
        PriceRow::Priced { time, .. } => *time,
        PriceRow::Illegal => f64::INFINITY,
    });
    let memory = split(|row| match row {
        PriceRow::Priced { memory, .. } => *memory,
        PriceRow::Illegal => f64::INFINITY,
    });
    Ok((
        time.into_pyarray(py),
        memory.into_pyarray(py),
        status.into_pyarray(py),
    ))
}

pub(super) fn encode<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::inconsistent(format!("result: {e}")))
}

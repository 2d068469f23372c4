//! Simulated steps from Python: a job and a plan in, tasks as arrays out.

use super::engine_call;
use super::input::text;
use super::planning::PyJob;
use crate::error::{Error, from_json};
use crate::estimate::timeline::{Category, StepTimeline, simulate};
use crate::plan::Plan;
use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Simulates a step of a plan task by task.
///
/// Returns a dictionary: `engines` (stage and name of each), `labels` and `categories` (names by
/// number), arrays over tasks (`engine`, `label`, `category`, `micro_batch`, `virtual_stage`,
/// `start_s`, `end_s`), and `simulated_step_time_s`, `estimated_step_time_s`, `stands_for`.
#[pyfunction]
#[pyo3(signature = (job, plan, *, progress=None))]
pub(super) fn simulate_step<'py>(
    job: &Bound<'py, PyJob>,
    plan: &Bound<'py, PyString>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = job.py();
    let (plan, job) = (text(plan)?, &job.get().job);
    let line = engine_call::long(py, progress, |control| {
        let plan: Plan = from_json("plan", plan)?;
        let simulated = simulate(job, &plan, control)?;
        simulated.map_err(|rule| Error::inconsistent(format!("plan: {rule}")))
    })?;
    answer(py, line)
}

fn answer(py: Python<'_>, line: StepTimeline) -> PyResult<Bound<'_, PyDict>> {
    let engines = line.engines.into_iter().map(|e| (e.stage, e.name));
    let found = PyDict::new(py);
    found.set_item("engines", engines.collect::<Vec<_>>())?;
    found.set_item("labels", line.labels)?;
    found.set_item("categories", Category::NAMES)?;
    found.set_item("engine", line.engine.into_pyarray(py))?;
    found.set_item("label", line.label.into_pyarray(py))?;
    found.set_item("category", line.category.into_pyarray(py))?;
    found.set_item("micro_batch", line.micro_batch.into_pyarray(py))?;
    found.set_item("virtual_stage", line.virtual_stage.into_pyarray(py))?;
    found.set_item("start_s", line.start.into_pyarray(py))?;
    found.set_item("end_s", line.end.into_pyarray(py))?;
    found.set_item("simulated_step_time_s", line.simulated_step_time_s)?;
    found.set_item("estimated_step_time_s", line.estimated_step_time_s)?;
    found.set_item("stands_for", line.stands_for)?;
    Ok(found)
}

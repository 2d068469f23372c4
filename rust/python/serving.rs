//! Blocks of generated text from Python: problems, searches and given policies as JSON.

use super::engine_call;
use super::input::{Cluster, Workload, text};
use super::planning::encode;
use crate::error::from_json;
use crate::memory::serving_blocks as blocks;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// The problem that a model on a device of a cluster poses.
#[pyfunction]
pub(super) fn serving_problem(
    workload: &Bound<'_, Workload>,
    cluster: &Bound<'_, Cluster>,
    asked: &Bound<'_, PyString>,
) -> PyResult<String> {
    let (py, asked) = (asked.py(), text(asked)?);
    let (model, cluster) = (&workload.get().model, &cluster.get().cluster);
    engine_call::brief(py, || {
        let asked: blocks::ServingOptions = from_json("", asked)?;
        encode(&blocks::problem_of(model, cluster, &asked)?)
    })
}

/// The block of a problem that generates the most tokens in a second.
#[pyfunction]
pub(super) fn serving_blocks(problem: &Bound<'_, PyString>) -> PyResult<String> {
    let (py, problem) = (problem.py(), text(problem)?);
    engine_call::long(py, None, |control| {
        let problem = blocks::Problem::from_json(problem)?;
        encode(&blocks::serving_blocks(&problem, control)?)
    })
}

/// What a given block with given shares generates.
#[pyfunction]
pub(super) fn serving_policy(
    problem: &Bound<'_, PyString>,
    policy: &Bound<'_, PyString>,
) -> PyResult<String> {
    let (py, problem, policy) = (problem.py(), text(problem)?, text(policy)?);
    engine_call::brief(py, || {
        let problem = blocks::Problem::from_json(problem)?;
        let policy: blocks::Policy = from_json("policy", policy)?;
        encode(&blocks::serving_policy(&problem, &policy)?)
    })
}

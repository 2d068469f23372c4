//! Searching grids of hardware from Python: JSON in, JSON and arrays out.

use super::engine_call;
use super::input::{Cluster, text};
use super::planning::{PyJob, encode};
use crate::error::from_json;
use crate::hardware;
use crate::search::codesign::{self as designs, MEASURES};
use crate::search::{Space, VariantRow};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// The answer, what became of each variant, and what each measures.
type CodesignAnswer<'py> = (String, Bound<'py, PyArray1<u8>>, Bound<'py, PyArray2<f64>>);

/// Searches the best plan on every variant of a grid.
///
/// Returns the JSON text of the answer, what became of each variant (0 has a plan, 1 none fits,
/// 2 beyond the budget, 3 excluded by a bound), and a variants x measures array: step seconds, bytes,
/// joules and dollars of a step, devices, watts, capital dollars, square millimetres; infinite where
/// unknown or nothing runs.
#[pyfunction]
#[pyo3(signature = (job, clusters, space, asked, *, progress=None))]
pub(super) fn codesign<'py>(
    job: &Bound<'py, PyJob>,
    clusters: Vec<Py<Cluster>>,
    space: &Bound<'py, PyString>,
    asked: &Bound<'py, PyString>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<CodesignAnswer<'py>> {
    let (py, space, asked) = (job.py(), text(space)?, text(asked)?);
    let job = &job.get().job;
    let clusters = clusters.into_iter().map(|one| one.get().cluster.clone());
    let clusters: Vec<hardware::Cluster> = clusters.collect();
    let (answer, rows) = engine_call::long(py, progress, |control| {
        let space = Space::from_json(space)?;
        let asked: designs::CodesignRequest = from_json("", asked)?;
        let found = designs::codesign(job, &clusters, &space, &asked, control)?;
        Ok((encode(&found)?, found.rows))
    })?;
    let fates: Vec<u8> = rows.iter().map(|row| row.fate as u8).collect();
    let measures: Vec<f64> = rows
        .iter()
        .flat_map(|row: &VariantRow| row.measures)
        .collect();
    let shape = [rows.len(), MEASURES];
    Ok((
        answer,
        fates.into_pyarray(py),
        measures.into_pyarray(py).reshape(shape)?,
    ))
}

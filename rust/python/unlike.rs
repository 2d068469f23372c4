//! Plans on groups of unlike devices from Python: jobs in, JSON out.

use super::engine_call;
use super::input::text;
use super::planning::{PyJob, encode};
use crate::error::from_json;
use crate::hardware::Level;
use crate::search::unlike::{self, Groups};
use crate::search::{Limits, Space};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Searches plans on several groups of devices, one job each: the best plans and the counts as JSON text.
#[pyfunction]
#[pyo3(signature = (jobs, between, space, limits, *, progress=None))]
pub(super) fn search_unlike(
    jobs: Vec<Bound<'_, PyJob>>,
    between: Option<&Bound<'_, PyString>>,
    space: &Bound<'_, PyString>,
    limits: &Bound<'_, PyString>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let (py, space, limits) = (space.py(), text(space)?, text(limits)?);
    let between = between.map(text).transpose()?;
    let jobs: Vec<_> = jobs.into_iter().map(Bound::unbind).collect();
    let jobs: Vec<_> = jobs.iter().map(|job| &*job.get().job).collect();
    engine_call::long(py, progress, |control| {
        let between: Option<Level> = between.map(|text| from_json("between", text)).transpose()?;
        let groups = Groups::new(&jobs, between.as_ref())?;
        let space = Space::from_json(space)?;
        let limits: Limits = from_json("", limits)?;
        encode(&unlike::search_unlike(&groups, &space, &limits, control)?)
    })
}

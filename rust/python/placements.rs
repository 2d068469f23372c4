//! Placement of tensors over memory tiers from Python: JSON in, JSON out.

use super::engine_call;
use super::input::{Cluster, text};
use super::planning::{PyJob, encode};
use crate::error::{Error, from_json};
use crate::estimate::inventory::{PlanPlacementRequest, place};
use crate::hardware::Memories;
use crate::memory::Cell;
use crate::memory::placement::{Request, place as place_problem};
use crate::plan::Plan;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// The memories that a device of a cluster reaches: lanes, and tiers with what they cross.
#[pyfunction]
pub(super) fn memories(cluster: &Bound<'_, Cluster>) -> PyResult<String> {
    let (py, cluster) = (cluster.py(), &cluster.get().cluster);
    engine_call::brief(py, || encode(&Memories::new(cluster)?))
}

/// What a write costs and how often it is repeated in cells of a chosen retention.
#[pyfunction]
pub(super) fn retained(cell: &Bound<'_, PyString>) -> PyResult<String> {
    let (py, cell) = (cell.py(), text(cell)?);
    engine_call::brief(py, || {
        let cell: Cell = from_json("", cell)?;
        encode(&cell.retained()?)
    })
}

/// Where the tensors of a plan's rank best lie, with the proof.
#[pyfunction]
#[pyo3(signature = (job, plan, wish, *, progress=None))]
pub(super) fn place_plan(
    job: &Bound<'_, PyJob>,
    plan: &Bound<'_, PyString>,
    wish: &Bound<'_, PyString>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let (py, plan, wish) = (job.py(), text(plan)?, text(wish)?);
    let job = &job.get().job;
    engine_call::long(py, progress, |control| {
        let plan: Plan = from_json("plan", plan)?;
        let wish: PlanPlacementRequest = from_json("", wish)?;
        let placed = place(job, &plan, &wish, control)?;
        encode(&placed.map_err(|rule| Error::inconsistent(format!("plan: {rule}")))?)
    })
}

/// Where given tensors best lie in given tiers, or in those of a cluster's device.
#[pyfunction]
#[pyo3(signature = (request, cluster=None, *, progress=None))]
pub(super) fn place_tensors(
    request: &Bound<'_, PyString>,
    cluster: Option<&Bound<'_, Cluster>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let (py, request) = (request.py(), text(request)?);
    let cluster = cluster.map(|cluster| &cluster.get().cluster);
    engine_call::long(py, progress, |control| {
        let request: Request = from_json("", request)?;
        let memories = match cluster {
            Some(cluster) => Memories::new(cluster)?,
            None => request.memories()?,
        };
        let outcome = place_problem(&request.problem, &memories, &request.limits(), control)?;
        encode(&request.answer(&memories, outcome))
    })
}

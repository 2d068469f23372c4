//! Partitions and schedules of one kind of hardware or training, from Python: JSON in, JSON out.

use super::engine_call;
use super::input::text;
use super::planning::{PyJob, encode};
use crate::error::from_json;
use crate::estimate::slice_times as priced;
use crate::plan::Plan;
use crate::schedule::{
    layer_relay as relay, partition, progressive_freezing as freezing, swarm as swarms,
    token_slices as slices,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde::Deserialize;

type Times<'py> = Bound<'py, PyArray1<f64>>;

/// The best partition of layers into stages, or why there is none.
#[pyfunction]
pub(super) fn partition_layers(request: &Bound<'_, PyString>) -> PyResult<String> {
    let (py, request) = (request.py(), text(request)?);
    engine_call::long(py, None, |control| {
        let request: partition::Request = from_json("", request)?;
        encode(&partition::partition(&request, control)?)
    })
}

/// The slices of sequences that end soonest in a pipeline over tokens; `null` where none may be.
#[pyfunction]
pub(super) fn token_slices(request: &Bound<'_, PyString>) -> PyResult<String> {
    let (py, request) = (request.py(), text(request)?);
    engine_call::long(py, None, |control| {
        let request: slices::Request = from_json("", request)?;
        encode(&slices::token_slices(&request, control)?)
    })
}

/// Forward and backward passes of slices (tokens, tokens in front) on the first, an inner and the
/// last virtual stage: two arrays with three elements for each slice.
#[allow(clippy::needless_pass_by_value)] // a Python list comes over as an owned one
#[pyfunction]
pub(super) fn slice_times<'py>(
    job: &Bound<'py, PyJob>,
    plan: &Bound<'py, PyString>,
    slices: Vec<[u64; 2]>,
) -> PyResult<(Times<'py>, Times<'py>)> {
    let (py, plan, job) = (job.py(), text(plan)?, &job.get().job);
    let times = engine_call::long(py, None, |control| {
        let plan: Plan = from_json("plan", plan)?;
        priced(job, &plan, &slices, control)
    })?;
    Ok((
        times.forward.concat().into_pyarray(py),
        times.backward.concat().into_pyarray(py),
    ))
}

/// A step on one device whose weights come from the host a layer at a time.
#[pyfunction]
pub(super) fn layer_relay(request: &Bound<'_, PyString>) -> PyResult<String> {
    let (py, request) = (request.py(), text(request)?);
    engine_call::long(py, None, |_| {
        let request: relay::Request = from_json("", request)?;
        encode(&relay::layer_relay(&request)?)
    })
}

/// Layers frozen in each epoch, given a share of the active ones.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Freezing {
    freezable: usize,
    alpha: f64,
    epochs: usize,
    every: usize,
}

/// Layers frozen in each epoch where every decision freezes a share of those still active.
#[pyfunction]
pub(super) fn frozen_layers(request: &Bound<'_, PyString>) -> PyResult<Vec<usize>> {
    let (py, request) = (request.py(), text(request)?);
    engine_call::brief(py, || {
        let asked: Freezing = from_json("", request)?;
        freezing::frozen_by(asked.freezable, asked.alpha, asked.epochs, asked.every)
    })
}

/// Training in which layers freeze and pipelines shrink, against training without.
#[pyfunction]
pub(super) fn progressive_freezing(request: &Bound<'_, PyString>) -> PyResult<String> {
    let (py, request) = (request.py(), text(request)?);
    engine_call::long(py, None, |control| {
        let request: freezing::Request = from_json("", request)?;
        encode(&freezing::progressive_freezing(&request, control)?)
    })
}

/// What a pipeline of unreliable, unlike peers gets done.
#[pyfunction]
#[pyo3(signature = (request, *, progress=None))]
pub(super) fn swarm(
    request: &Bound<'_, PyString>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let (py, request) = (request.py(), text(request)?);
    engine_call::long(py, progress, |control| {
        let request: swarms::Request = from_json("", request)?;
        encode(&swarms::swarm(&request, control)?)
    })
}

/// Share of the time in which a device computes that waits for its transfers.
#[pyfunction]
pub(super) fn swarm_utilization(request: &Bound<'_, PyString>) -> PyResult<f64> {
    let (py, request) = (request.py(), text(request)?);
    engine_call::brief(py, || {
        swarms::utilization(&from_json::<swarms::Transfer>("transfer", request)?)
    })
}

//! Caches over memory tiers from Python: traces and capacities as arrays, uses as JSON.

use super::engine_call;
use super::input::{Cluster, text};
use super::planning::encode;
use crate::control::Control;
use crate::error::{Result, from_json};
use crate::hardware;
use crate::memory::cache::{
    Demand, Policy, Popularity, Trace, embedding_rows, experts, lru_curve as curve, neurons,
    replay, switching, tiers,
};
use numpy::{IntoPyArray, PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A policy, and a law of popularity where no array has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheRequest {
    policy: String,
    #[serde(default)]
    popularity: Option<Popularity>,
}

/// Expected hits for each capacity: a dictionary of arrays. `weights` and `sizes` may be empty.
#[pyfunction]
#[pyo3(signature = (request, capacities, weights, sizes, *, progress=None))]
pub(super) fn cache_hits<'py>(
    request: &Bound<'py, PyString>,
    capacities: &Bound<'py, PyArray1<f64>>,
    weights: &Bound<'py, PyArray1<f64>>,
    sizes: &Bound<'py, PyArray1<f64>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (py, request) = (request.py(), text(request)?);
    let capacities = capacities.try_readonly()?.as_array().to_vec();
    let weights = weights.try_readonly()?.as_array().to_vec();
    let sizes = sizes.try_readonly()?.as_array().to_vec();
    let found = engine_call::long(py, progress, |control| {
        let asked: CacheRequest = from_json("", request)?;
        let policy = Policy::named(&asked.policy)?;
        let popularity = asked.popularity.unwrap_or(Popularity::Measured(weights));
        Demand::new(&popularity, &sizes)?.many(policy, &capacities, control)
    })?;
    let column =
        |of: fn(&crate::memory::cache::Hits) -> f64| -> Vec<f64> { found.iter().map(of).collect() };
    let answer = PyDict::new(py);
    let (objects, bytes) = (
        column(|hits| hits.hit_rate),
        column(|hits| hits.byte_hit_rate),
    );
    let times = column(|hits| hits.characteristic_accesses.unwrap_or(f64::NAN));
    answer.set_item("hit_rate", objects.into_pyarray(py))?;
    answer.set_item("byte_hit_rate", bytes.into_pyarray(py))?;
    answer.set_item("characteristic_accesses", times.into_pyarray(py))?;
    Ok(answer)
}

/// What is asked of a run, but for the trace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplayRequest {
    policy: String,
    capacity: u64,
    #[serde(default)]
    seed: u64,
}

/// Runs a trace of object numbers through a cache, as JSON text. `sizes` may be empty.
#[pyfunction]
#[pyo3(signature = (request, trace, sizes, *, progress=None))]
pub(super) fn simulate_cache(
    request: &Bound<'_, PyString>,
    trace: &Bound<'_, PyArray1<u32>>,
    sizes: &Bound<'_, PyArray1<u64>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let (py, request) = (request.py(), text(request)?);
    let ids = trace.try_readonly()?.as_array().to_vec();
    let sizes = sizes.try_readonly()?.as_array().to_vec();
    engine_call::long(py, progress, |control| {
        let asked: ReplayRequest = from_json("", request)?;
        let policy = Policy::named(&asked.policy)?;
        let trace = Trace::new(&ids, &sizes)?;
        encode(&replay(
            &trace,
            policy,
            asked.capacity,
            asked.seed,
            control,
        )?)
    })
}

/// Hits of LRU with room for 0, 1, 2, .. objects of a trace.
#[pyfunction]
#[pyo3(signature = (trace, *, progress=None))]
pub(super) fn lru_curve<'py>(
    trace: &Bound<'py, PyArray1<u32>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray1<u64>>> {
    let py = trace.py();
    let ids = trace.try_readonly()?.as_array().to_vec();
    let hits = engine_call::long(py, progress, |control| {
        curve(&Trace::new(&ids, &[])?, control)
    })?;
    Ok(hits.into_pyarray(py))
}

/// One use of caches: a request for a cluster in, JSON out.
fn answered<Q: DeserializeOwned, A: Serialize>(
    cluster: &Bound<'_, Cluster>,
    request: &Bound<'_, PyString>,
    answer: impl FnOnce(&hardware::Cluster, &Q, &Control) -> Result<A> + Send,
) -> PyResult<String> {
    let (py, request) = (request.py(), text(request)?);
    let cluster = &cluster.get().cluster;
    engine_call::long(py, None, |control| {
        let asked: Q = from_json("", request)?;
        encode(&answer(cluster, &asked, control)?)
    })
}

/// Prompts to experts that are whole models, copied from far memory when asked for.
#[pyfunction]
pub(super) fn model_switching(
    cluster: &Bound<'_, Cluster>,
    request: &Bound<'_, PyString>,
) -> PyResult<String> {
    answered(cluster, request, switching::model_switching)
}

/// Experts of a mixture: static against dynamic gating, and buffers for experts.
#[pyfunction]
pub(super) fn expert_buffering(
    cluster: &Bound<'_, Cluster>,
    request: &Bound<'_, PyString>,
) -> PyResult<String> {
    answered(cluster, request, experts::expert_buffering)
}

/// Rows of embedding tables over near memory, the hosts' memory and storage.
#[pyfunction]
pub(super) fn embedding_cache(
    cluster: &Bound<'_, Cluster>,
    request: &Bound<'_, PyString>,
) -> PyResult<String> {
    answered(cluster, request, embedding_rows::embedding_cache)
}

/// A token of a model over caches of neurons and of layers.
#[pyfunction]
pub(super) fn neuron_cache(
    cluster: &Bound<'_, Cluster>,
    request: &Bound<'_, PyString>,
) -> PyResult<String> {
    answered(cluster, request, |cluster, asked, _| {
        neurons::neuron_cache(cluster, asked)
    })
}

/// A batch of accesses over levels of memory.
#[pyfunction]
pub(super) fn cache_time(request: &Bound<'_, PyString>) -> PyResult<String> {
    let (py, request) = (request.py(), text(request)?);
    engine_call::long(py, None, |control| {
        let asked: tiers::TieredAccessRequest = from_json("", request)?;
        encode(&tiers::cache_time(&asked, control)?)
    })
}

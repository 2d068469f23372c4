//! Collectives between ranks whose links all differ, from Python: matrices in, what it costs as JSON out.

use super::engine_call;
use super::input::text;
use super::planning::encode;
use crate::collective::{
    Algorithm, Collective, Matrices, Pairs, PairsRequest, collective_on_pairs,
};
use crate::error::from_json;
use crate::units::Bytes;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde::Deserialize;

/// What is asked, but for the matrices.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    collective: String,
    ranks: usize,
    buffer_bytes: f64,
    #[serde(default)]
    algorithm: Option<String>,
    #[serde(default)]
    root: usize,
    #[serde(default)]
    chain: Vec<usize>,
}

/// The fastest way to run a collective over links given pair by pair, as JSON text.
///
/// `bandwidths` and `latencies` have a row for each sender, joined; ports are empty where unlimited.
#[pyfunction]
pub(super) fn pairs(
    request: &Bound<'_, PyString>,
    bandwidths: &Bound<'_, PyArray1<f64>>,
    latencies: &Bound<'_, PyArray1<f64>>,
    ports_out: &Bound<'_, PyArray1<f64>>,
    ports_in: &Bound<'_, PyArray1<f64>>,
) -> PyResult<String> {
    let (py, request) = (request.py(), text(request)?);
    let arrays = [bandwidths, latencies, ports_out, ports_in];
    let arrays =
        arrays.map(|array| -> PyResult<Vec<f64>> { Ok(array.try_readonly()?.as_array().to_vec()) });
    let [rates, latencies, out, into] = arrays;
    let (rates, latencies, out, into) = (rates?, latencies?, out?, into?);
    engine_call::long(py, None, |control| {
        let request: Request = from_json("", request)?;
        let pairs = Pairs::new(&Matrices {
            ranks: request.ranks,
            rates: &rates,
            latencies: &latencies,
            out: Some(&out[..]).filter(|ports| !ports.is_empty()),
            into: Some(&into[..]).filter(|ports| !ports.is_empty()),
        })?;
        let asked = PairsRequest {
            collective: Collective::named(&request.collective)?,
            bytes: Bytes::new(request.buffer_bytes),
            algorithm: request
                .algorithm
                .as_deref()
                .map(Algorithm::named)
                .transpose()?,
            root: request.root,
            chain: &request.chain,
        };
        let found = collective_on_pairs(&pairs, &asked, control)?;
        encode(&serde_json::json!({
            "time_s": found.time.value(),
            "algorithm": found.algorithm.name(),
            "order": found.order,
            "edges": found.edges,
            "is_exact": found.is_exact,
            "slowest_link": found.slowest,
            "lower_bound_s": found.lower_bound.value(),
            "relative_gap": found.gap(),
        }))
    })
}

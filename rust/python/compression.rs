//! Compressed and rarer exchanges from Python: what is asked as JSON in, what it costs as JSON out.

use super::engine_call;
use super::input::{Cluster, text};
use super::planning::encode;
use crate::collective::{CompressionSetting, Payload, Policy, averaging, compressed_all_reduce};
use crate::error::{Error, from_json};
use crate::units::{Bytes, Dtype};
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde::Deserialize;

/// Keeps times finite on any fabric that can be read.
const MOST_BYTES: f64 = 1e30;

/// A buffer, and how ranks bring it to their mean.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompressionRequest {
    stride: u32,
    ranks: u32,
    dtype: Dtype,
    buffer_bytes: f64,
    #[serde(default)]
    payload: Option<Payload>,
    #[serde(default)]
    policy: Option<Policy>,
}

/// Prices a compressed all-reduce, or the rounds of a policy, against a plain all-reduce each step.
#[pyfunction]
pub(super) fn exchange(
    cluster: &Bound<'_, Cluster>,
    request: &Bound<'_, PyString>,
) -> PyResult<String> {
    let (py, request) = (cluster.py(), text(request)?);
    let cluster = &cluster.get().cluster;
    engine_call::brief(py, || {
        let request: CompressionRequest = from_json("", request)?;
        cluster.check_group(request.stride, request.ranks)?;
        if !(0.0..=MOST_BYTES).contains(&request.buffer_bytes) {
            let allowed = "0 to 1e30 bytes";
            return Err(Error::invalid(
                "buffer_bytes",
                request.buffer_bytes,
                allowed,
            ));
        }
        let setting = CompressionSetting {
            cluster,
            stride: request.stride,
            ranks: request.ranks,
            dtype: request.dtype,
            buffer: Bytes::new(request.buffer_bytes),
        };
        let payload = request.payload.as_ref();
        match (&request.policy, payload) {
            (Some(policy), _) => encode(&averaging(&setting, policy, payload)?),
            (None, Some(payload)) => encode(&compressed_all_reduce(&setting, payload)?),
            (None, None) => Err(Error::inconsistent(
                "exchange: a payload or a policy is needed",
            )),
        }
    })
}

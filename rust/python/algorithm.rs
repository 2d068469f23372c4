//! Algorithms run on the links from Python: a name or MSCCL XML in, what the run gives out.

use super::collectives::CollectiveRequest;
use super::engine_call;
use super::input::{Cluster, text};
use super::planning::encode;
use crate::collective::{Msccl, Ranks, simulate};
use crate::error::{self, Error, Result};
use crate::units::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Runs an MSCCL algorithm on the links of a cluster; the JSON text tells its time and its traffic.
#[pyfunction]
pub(super) fn simulate_msccl(
    cluster: &Bound<'_, Cluster>,
    xml: &Bound<'_, PyString>,
    buffer_bytes: f64,
) -> PyResult<String> {
    let (py, xml) = (cluster.py(), text(xml)?);
    let cluster = &cluster.get().cluster;
    engine_call::long(py, None, |control| {
        check(buffer_bytes)?;
        let algorithm = Msccl::from_xml(xml)?;
        encode(&algorithm.simulate(cluster, Bytes::new(buffer_bytes), control)?)
    })
}

/// Runs a collective by one algorithm on the links of a cluster, beside its closed form.
#[pyfunction]
pub(super) fn simulate_collective(
    cluster: &Bound<'_, Cluster>,
    request: &Bound<'_, PyString>,
    ranks: u32,
    buffer_bytes: f64,
) -> PyResult<String> {
    let (py, request) = (cluster.py(), text(request)?);
    let cluster = &cluster.get().cluster;
    engine_call::long(py, None, |control| {
        check(buffer_bytes)?;
        let request: CollectiveRequest = error::from_json("", request)?;
        let sweep = request.sweep(cluster)?;
        let &[algorithm] = sweep.rules.allowed.as_slice() else {
            let allowed = "one name";
            return Err(Error::invalid(
                "algorithm",
                sweep.rules.allowed.len(),
                allowed,
            ));
        };
        let ranks = Ranks {
            stride: sweep.stride,
            size: ranks,
        };
        let bytes = Bytes::new(buffer_bytes);
        encode(&simulate(
            algorithm,
            sweep.collective,
            cluster,
            ranks,
            bytes,
            control,
        )?)
    })
}

fn check(buffer_bytes: f64) -> Result<()> {
    if (0.0..=1e30).contains(&buffer_bytes) {
        return Ok(());
    }
    Err(Error::invalid(
        "buffer_bytes",
        buffer_bytes,
        "0 to 1e30 bytes",
    ))
}

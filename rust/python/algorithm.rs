//! A user's own collective algorithm from Python: MSCCL XML in, what its run on a cluster gives out.

use super::enter;
use super::input::{Cluster, text};
use super::planning::encode;
use crate::collective::Msccl;
use crate::error::Error;
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
    enter::long(py, None, |_| {
        if !(0.0..=1e30).contains(&buffer_bytes) {
            let allowed = "0 to 1e30 bytes";
            return Err(Error::invalid("buffer_bytes", buffer_bytes, allowed));
        }
        let algorithm = Msccl::from_xml(xml)?;
        encode(&algorithm.simulate(cluster, Bytes::new(buffer_bytes))?)
    })
}

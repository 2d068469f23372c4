//! What Python hands to the engine: opaque handles, read once from JSON text and checked.

use super::enter;
use crate::hardware;
use crate::workload::Transformer;
use pyo3::prelude::*;

/// A model, read from the JSON text of its config.
#[pyclass(frozen, module = "scalewright._engine")]
pub(super) struct Workload {
    pub(super) model: Transformer,
}

#[pymethods]
impl Workload {
    #[new]
    fn new(py: Python<'_>, json: &str) -> PyResult<Self> {
        let model = enter::brief(py, || Transformer::from_json(json))?;
        Ok(Self { model })
    }

    fn __repr__(&self) -> String {
        format!("Workload({})", self.model.name)
    }
}

/// A number of devices of one system, read from JSON text.
#[pyclass(frozen, module = "scalewright._engine")]
pub(super) struct Cluster {
    pub(super) cluster: hardware::Cluster,
}

#[pymethods]
impl Cluster {
    #[new]
    fn new(py: Python<'_>, json: &str) -> PyResult<Self> {
        let cluster = enter::brief(py, || hardware::Cluster::from_json(json))?;
        Ok(Self { cluster })
    }

    fn __repr__(&self) -> String {
        format!(
            "Cluster({} x {})",
            self.cluster.devices, self.cluster.device.name
        )
    }
}

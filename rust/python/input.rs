//! What Python hands to the engine: opaque handles, read once from JSON text and checked.

use super::planning::encode;
use super::{engine_call, error};
use crate::error::Error;
use crate::hardware::{self, Level};
use crate::workload::Transformer;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::collections::BTreeMap;

/// A model, read from the JSON text of its config.
#[pyclass(frozen, module = "scalewright._engine")]
pub(super) struct Workload {
    pub(super) model: Transformer,
}

#[pymethods]
impl Workload {
    #[new]
    fn new(json: &Bound<'_, PyString>) -> PyResult<Self> {
        let (py, json) = (json.py(), text(json)?);
        let model = engine_call::brief(py, || Transformer::from_json(json))?;
        Ok(Self { model })
    }

    /// Parameter counts by name; all but `padded_total` use the unpadded vocabulary.
    fn parameters(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from(self.model.parameters().named())
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
    fn new(json: &Bound<'_, PyString>) -> PyResult<Self> {
        let (py, json) = (json.py(), text(json)?);
        let cluster = engine_call::brief(py, || hardware::Cluster::from_json(json))?;
        Ok(Self { cluster })
    }

    /// The fabric levels in full, innermost first, as JSON text: SI units, defaults filled in.
    fn levels(&self, py: Python<'_>) -> PyResult<String> {
        engine_call::brief(py, || {
            let levels: Vec<Level> = self.cluster.system.levels.iter().map(Level::full).collect();
            encode(&levels)
        })
    }

    fn __repr__(&self) -> String {
        format!(
            "Cluster({} x {})",
            self.cluster.devices, self.cluster.device.name
        )
    }
}

/// The text of `json`; Python strings can hold halves of surrogate pairs, which no text has.
pub(super) fn text<'a>(json: &'a Bound<'_, PyString>) -> PyResult<&'a str> {
    json.to_str().map_err(|_| {
        let wrong = Error::inconsistent("the JSON text holds characters that are not Unicode");
        error::exception(json.py(), &wrong)
    })
}

//! Controllers from Python: a program and its machines in, what dispatch costs under each as JSON out.

use super::engine_call;
use super::input::text;
use super::planning::encode;
use crate::error::{Result, from_json};
use crate::schedule::controller::{Dispatch, DispatchSetting, dispatched};
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde::Deserialize;

/// What is asked: nothing named stands for every controller.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ControllersRequest {
    #[serde(default)]
    controllers: Vec<String>,
    setting: DispatchSetting,
}

/// Steps of a program under some controllers, in their order, as a JSON list.
#[pyfunction]
pub(super) fn controllers(request: &Bound<'_, PyString>) -> PyResult<String> {
    let (py, request) = (request.py(), text(request)?);
    engine_call::long(py, None, |_| {
        let request: ControllersRequest = from_json("", request)?;
        let kinds: Vec<Dispatch> = if request.controllers.is_empty() {
            Dispatch::ALL.to_vec()
        } else {
            let named = request.controllers.iter().map(|name| Dispatch::named(name));
            named.collect::<Result<_>>()?
        };
        let found = kinds.iter().map(|kind| dispatched(*kind, &request.setting));
        encode(&found.collect::<Result<Vec<_>>>()?)
    })
}

//! Offloading schemes from Python: a job, a plan and a scheme in, JSON out.

use super::engine_call;
use super::input::text;
use super::planning::{PyJob, encode};
use crate::error::{Error, from_json};
use crate::estimate::{Growth, OffloadEstimate, largest, offload as run};
use crate::memory::offload::{Scheme, zero_infinity::efficiency};
use crate::plan::Plan;
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde::{Deserialize, Serialize};

/// A step with the number of its tasks.
#[derive(Serialize)]
struct CountedOffload {
    task_count: usize,
    #[serde(flatten)]
    found: OffloadEstimate,
}

/// A step of a plan with an offloading scheme; its tasks are left out unless they are asked for.
#[pyfunction]
#[pyo3(signature = (job, plan, scheme, *, tasks=false))]
pub(super) fn offload(
    job: &Bound<'_, PyJob>,
    plan: &Bound<'_, PyString>,
    scheme: &Bound<'_, PyString>,
    tasks: bool,
) -> PyResult<String> {
    let (py, plan, scheme) = (job.py(), text(plan)?, text(scheme)?);
    let job = &job.get().job;
    engine_call::long(py, None, |_| {
        let plan: Plan = from_json("plan", plan)?;
        let mut found = run(job, &plan, &Scheme::read(scheme)?)?;
        let task_count = found.step.spans.len();
        if !tasks {
            found.step.spans = Vec::new();
        }
        encode(&CountedOffload { task_count, found })
    })
}

/// The largest model that a scheme fits; `growth` is `layers` or `hidden`.
#[pyfunction]
pub(super) fn largest_model(
    job: &Bound<'_, PyJob>,
    plan: &Bound<'_, PyString>,
    scheme: &Bound<'_, PyString>,
    growth: &Bound<'_, PyString>,
) -> PyResult<String> {
    let (py, plan, scheme, growth) = (job.py(), text(plan)?, text(scheme)?, text(growth)?);
    let job = &job.get().job;
    engine_call::long(py, None, |control| {
        let plan: Plan = from_json("plan", plan)?;
        let scheme = Scheme::read(scheme)?;
        let growth: Growth = from_json("growth", growth)?;
        encode(&largest(job, &plan, &scheme, growth, control)?)
    })
}

/// What the share of the peak without overlap depends on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Traffic {
    intensity_flops_per_byte: f64,
    bandwidth_bytes_per_s: f64,
    peak_flops_per_s: f64,
}

/// Share of the peak that a device reaches where traffic and arithmetic do not overlap.
#[pyfunction]
pub(super) fn offload_efficiency(request: &Bound<'_, PyString>) -> PyResult<f64> {
    let (py, request) = (request.py(), text(request)?);
    engine_call::brief(py, || {
        let asked: Traffic = from_json("", request)?;
        let of = [
            ("intensity_flops_per_byte", asked.intensity_flops_per_byte),
            ("bandwidth_bytes_per_s", asked.bandwidth_bytes_per_s),
            ("peak_flops_per_s", asked.peak_flops_per_s),
        ];
        for (field, value) in of {
            if !(1e-30..=1e30).contains(&value) {
                let allowed = "more than 0: from 1e-30 to 1e30";
                return Err(Error::invalid(field, value, allowed));
            }
        }
        Ok(efficiency(of[0].1, of[1].1, of[2].1))
    })
}

//! Pipeline schedules from Python: a JSON request in, a step as numbers and arrays out.

use super::engine_call;
use super::input::text;
use super::planning::encode;
use crate::error::{Result, from_json};
use crate::schedule::mitigation_copies as copies_of;
use crate::schedule::{
    Device, Mitigation, Operation, Request, Run, Schedule, ScheduleReport, Work, spell,
};
use crate::units::Seconds;
use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde::Serialize;

/// Names of what operations compute, by code.
const WORKS: [&str; 5] = ["forward", "backward", "input", "weight", "local"];

/// One schedule for Python.
#[derive(Serialize)]
struct ScheduleLine {
    name: &'static str,
    source: &'static str,
    chunks: u32,
    flushes: bool,
    bypasses: bool,
    splits: bool,
    pairs: bool,
    overlaps_sends: bool,
}

/// Every schedule as JSON text: what its rule says of itself, chunks where none are given.
#[pyfunction]
pub(super) fn schedule_rules(py: Python<'_>) -> PyResult<String> {
    engine_call::brief(py, || {
        let rules = Schedule::ALL.iter().map(|kind| (kind, kind.rule()));
        let lines = rules.map(|(kind, rule)| ScheduleLine {
            name: rule.name(),
            source: rule.source(),
            chunks: rule.chunks(),
            flushes: rule.flushes(),
            bypasses: rule.bypasses(),
            splits: rule.splits(),
            pairs: rule.runs_pairs(),
            overlaps_sends: kind.overlaps_sends(),
        });
        encode(&lines.collect::<Vec<_>>())
    })
}

/// Tensors of the weights' size that each stage holds to make up for stale weights: one number for
/// each delay in updates.
#[allow(clippy::needless_pass_by_value)] // a Python list comes over as an owned one
#[pyfunction]
pub(super) fn mitigation_copies(
    mitigation: &Bound<'_, PyString>,
    delays: Vec<u32>,
) -> PyResult<Vec<u32>> {
    let (py, name) = (mitigation.py(), text(mitigation)?);
    engine_call::brief(py, || {
        let way = Mitigation::named(name)?;
        let copies = delays.iter().map(|&delay| copies_of(way, delay));
        Ok(copies.collect())
    })
}

/// Operations of all devices, device after device.
#[derive(Default)]
struct Operations {
    device: Vec<u32>,
    work: Vec<u8>,
    loss_offset: Vec<u32>,
    stage: Vec<u32>,
    micro_batch: Vec<u32>,
    span: Vec<u32>,
    paired: Vec<bool>,
    start_s: Vec<f64>,
    end_s: Vec<f64>,
}

impl Operations {
    fn of(run: &Run) -> Self {
        let mut all = Self::default();
        for (device, (order, spans)) in (0_u32..).zip(run.orders.iter().zip(&run.spans)) {
            for (operation, span) in order.iter().zip(spans) {
                all.push(device, *operation, *span);
            }
        }
        all
    }

    fn push(&mut self, device: u32, operation: Operation, [start, end]: [f64; 2]) {
        let (work, offset) = match operation.work {
            Work::Forward => (0, 0),
            Work::Backward => (1, 0),
            Work::Input => (2, 0),
            Work::Weight => (3, 0),
            Work::Local(offset) => (4, offset),
        };
        self.device.push(device);
        self.work.push(work);
        self.loss_offset.push(offset);
        self.stage.push(operation.stage);
        self.micro_batch.push(operation.micro_batch);
        self.span.push(operation.span);
        self.paired.push(operation.paired);
        self.start_s.push(start);
        self.end_s.push(end);
    }

    fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let columns = PyDict::new(py);
        columns.set_item("device", self.device.into_pyarray(py))?;
        columns.set_item("work", self.work.into_pyarray(py))?;
        columns.set_item("loss_offset", self.loss_offset.into_pyarray(py))?;
        columns.set_item("stage", self.stage.into_pyarray(py))?;
        columns.set_item("micro_batch", self.micro_batch.into_pyarray(py))?;
        columns.set_item("span", self.span.into_pyarray(py))?;
        columns.set_item("paired", self.paired.into_pyarray(py))?;
        columns.set_item("start_s", self.start_s.into_pyarray(py))?;
        columns.set_item("end_s", self.end_s.into_pyarray(py))?;
        Ok(columns)
    }
}

/// Runs a schedule or an order. The dictionary holds numbers, arrays by device under `devices`, arrays
/// by operation under `operations`, and the order as text.
#[pyfunction]
pub(super) fn schedule_run<'py>(request: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyDict>> {
    let (py, request) = (request.py(), text(request)?);
    let (found, operations, order) = engine_call::long(py, None, |_| -> Result<_> {
        let request: Request = from_json("", request)?;
        let found = request.answer()?;
        let operations = Operations::of(&found.run);
        let order: Vec<String> = found.run.orders.iter().map(|order| spell(order)).collect();
        Ok((found, operations, order))
    })?;
    let answer = PyDict::new(py);
    answer.set_item("chunks", found.shape.chunks)?;
    answer.set_item("virtual_stages", found.count)?;
    answer.set_item("executed_micro_batches", found.executed)?;
    answer.set_item("slices", found.slices)?;
    answer.set_item("copies", found.copies)?;
    answer.set_item("gradient", found.gradient.name())?;
    answer.set_item("makespan_s", found.run.makespan.value())?;
    answer.set_item("lower_bound_s", found.bound.time.value())?;
    answer.set_item("bound_is_exact", found.bound.exact)?;
    answer.set_item("interval_s", found.interval.map(Seconds::value))?;
    answer.set_item("period_s", found.period.map(Seconds::value))?;
    answer.set_item("simulated_s", found.simulated.map(Seconds::value))?;
    answer.set_item("bubble_s", found.bubble.time)?;
    answer.set_item("bubble_over_ideal", found.bubble.over_ideal)?;
    answer.set_item("devices", devices(py, &found)?)?;
    answer.set_item("operations", operations.into_dict(py)?)?;
    answer.set_item("works", WORKS)?;
    answer.set_item("order", order)?;
    Ok(answer)
}

fn devices<'py>(py: Python<'py>, found: &ScheduleReport) -> PyResult<Bound<'py, PyDict>> {
    let times = |of: fn(&Device) -> f64| found.devices.iter().map(of).collect::<Vec<f64>>();
    let counts = |of: fn(&Device) -> u32| found.devices.iter().map(of).collect::<Vec<u32>>();
    let activations = found.devices.iter().map(|device| found.activations(device));
    let columns = PyDict::new(py);
    columns.set_item("work_s", times(|device| device.work).into_pyarray(py))?;
    columns.set_item("busy_s", times(|device| device.busy).into_pyarray(py))?;
    columns.set_item(
        "in_flight",
        counts(|device| device.in_flight).into_pyarray(py),
    )?;
    let activations: Vec<f64> = activations.collect();
    columns.set_item("activations", activations.into_pyarray(py))?;
    columns.set_item(
        "versions",
        counts(|device| device.versions).into_pyarray(py),
    )?;
    columns.set_item(
        "staleness",
        counts(|device| device.staleness).into_pyarray(py),
    )?;
    Ok(columns)
}

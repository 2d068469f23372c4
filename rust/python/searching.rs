//! Searching plan spaces from Python, whole or in parts: JSON in, JSON out.

use super::engine_call;
use super::input::text;
use super::planning::{PyJob, encode};
use crate::control::Control;
use crate::error::{Result, from_json};
use crate::estimate::COLUMNS;
use crate::plan::{AxisOrder, ExpertRecompute, RecomputePolicy, ReplicaReduction, Schedule};
use crate::search::{Limits, Search, SearchPart, SearchReport, Space};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde::Serialize;
use std::collections::BTreeMap;

type Column<'py, T> = Bound<'py, PyArray1<T>>;
type Table<'py, T> = Bound<'py, PyArray2<T>>;

/// A search of a job's plan space, which can be run in parts.
#[pyclass(frozen, name = "Search", module = "scalewright._engine")]
pub(super) struct PySearch {
    search: Search,
}

fn part_of(text: &str) -> Result<SearchPart> {
    from_json("part", text)
}

/// How plans write values in JSON.
fn spelled<T: Serialize>(all: impl IntoIterator<Item = T>) -> Vec<String> {
    let written = all.into_iter().map(|one| serde_json::to_value(one));
    let text = |value: serde_json::Value| value.as_str().map(str::to_owned);
    written
        .map(|value| value.ok().and_then(text).unwrap_or_default())
        .collect()
}

/// Lists and bounds the units of a space.
fn prepared(job: &PyJob, space: &str, limits: &str, control: &Control) -> Result<Search> {
    let space = Space::from_json(space)?;
    let limits: Limits = from_json("", limits)?;
    Search::new(job.job.clone(), space, limits, control)
}

fn answer(search: &Search, part: &SearchPart, control: &Control) -> Result<String> {
    let outcome = search.outcome(part, control)?;
    encode(&SearchReport::new(search, &outcome))
}

#[pymethods]
impl PySearch {
    #[new]
    fn new(
        job: &Bound<'_, PyJob>,
        space: &Bound<'_, PyString>,
        limits: &Bound<'_, PyString>,
    ) -> PyResult<Self> {
        let (py, space, limits) = (job.py(), text(space)?, text(limits)?);
        let job = job.get();
        let search = engine_call::long(py, None, |control| prepared(job, space, limits, control))?;
        Ok(Self { search })
    }

    /// Units, numbered from the one whose quickest plan may be quickest of all.
    #[getter]
    fn units(&self) -> u32 {
        self.search.units()
    }

    /// Where waves of units begin, and where the last one ends.
    #[getter]
    fn waves(&self) -> Vec<u32> {
        self.search.waves()
    }

    /// Names of the columns of `embedding_rows`.
    #[classattr]
    fn fields() -> Vec<&'static str> {
        COLUMNS.to_vec()
    }

    /// Names that the numbers of `embedding_rows` stand for, by column, in their order.
    #[classattr]
    fn names() -> BTreeMap<&'static str, Vec<String>> {
        let experts = [
            ExpertRecompute::Same,
            ExpertRecompute::None,
            ExpertRecompute::Selective,
            ExpertRecompute::Full,
        ];
        let policies = spelled(RecomputePolicy::ALL);
        BTreeMap::from([
            ("schedule", spelled(Schedule::ALL)),
            ("recompute", policies.clone()),
            ("recompute_rest", policies),
            ("recompute_experts", spelled(experts)),
            ("axis_order", spelled(AxisOrder::ALL)),
            ("collectives", spelled(ReplicaReduction::named())),
        ])
    }

    /// What no plan of the units from `first` on is better than, in the objective's unit.
    fn bound(&self, first: u32) -> f64 {
        self.search.bound(first)
    }

    /// Walks units; what others found lets more be excluded.
    #[pyo3(signature = (first, last, incumbent=None, *, progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        first: u32,
        last: u32,
        incumbent: Option<&Bound<'_, PyString>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let incumbent = incumbent.map(text).transpose()?;
        engine_call::long(py, progress, |control| {
            let before = incumbent.map(part_of).transpose()?;
            control.set_total(u64::from(last.saturating_sub(first)));
            encode(&self.search.run([first, last], before.as_ref(), control)?)
        })
    }

    /// Puts parts of other units together.
    #[allow(clippy::needless_pass_by_value)] // a Python list comes over as an owned one
    fn merge(&self, py: Python<'_>, parts: Vec<String>) -> PyResult<String> {
        engine_call::brief(py, || {
            let parts: Result<Vec<SearchPart>> = parts.iter().map(|part| part_of(part)).collect();
            encode(&self.search.merge(&parts?)?)
        })
    }

    /// The answer that a part stands for; where Ctrl-C comes meanwhile, what is known of it by then,
    /// with `stopped` true.
    #[pyo3(signature = (part, *, progress=None))]
    fn report(
        &self,
        part: &Bound<'_, PyString>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let (py, part) = (part.py(), text(part)?);
        engine_call::stoppable(py, progress, |control| {
            answer(&self.search, &part_of(part)?, control)
        })
    }

    /// Every plan of a unit that fits: plan fields, step times in seconds, bytes on the fullest rank.
    fn rows<'py>(
        &self,
        py: Python<'py>,
        unit: u32,
    ) -> PyResult<(Table<'py, u32>, Column<'py, f64>, Column<'py, f64>)> {
        let rows = engine_call::long(py, None, |control| self.search.rows(unit, control))?;
        let shape = [rows.times.len(), COLUMNS.len()];
        Ok((
            rows.fields.into_pyarray(py).reshape(shape)?,
            rows.times.into_pyarray(py),
            rows.memories.into_pyarray(py),
        ))
    }
}

/// Searches a plan space. The JSON text holds the best plans, the front and the counts.
#[pyfunction]
#[pyo3(signature = (job, space, limits, *, progress=None))]
pub(super) fn search(
    job: &Bound<'_, PyJob>,
    space: &Bound<'_, PyString>,
    limits: &Bound<'_, PyString>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let (py, space, limits) = (job.py(), text(space)?, text(limits)?);
    let job = job.get();
    engine_call::long(py, progress, |control| {
        let search = prepared(job, space, limits, control)?;
        answer(&search, &search.whole(control)?, control)
    })
}

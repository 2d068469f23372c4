//! The engine's version and collectives from Python: few fat calls, each through `engine_call`.

use super::engine_call;
use super::input::{Cluster, text};
use super::planning::encode;
use crate::collective::{
    Algorithm, Collective, Form, Protocol, Rules, Sweep, SweepPoints, uneven_all_to_all,
};
use crate::control::Control;
use crate::error::{self, Error, Result};
use crate::hardware;
use crate::units::Bytes;
use numpy::{IntoPyArray, PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde::{Deserialize, Serialize};

/// The engine's version.
#[pyfunction]
pub(super) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Sizes that are priced on the calling thread.
const BRIEF: usize = 1 << 14;

/// What is asked about a collective, but for its arrays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CollectiveRequest {
    collective: String,
    #[serde(default = "one")]
    stride: u32,
    /// Name of the level whose rate an array replaces.
    #[serde(default)]
    level: Option<String>,
    #[serde(default)]
    algorithms: Vec<String>,
    #[serde(default)]
    forbid: Vec<String>,
    #[serde(default)]
    protocol: Option<String>,
    #[serde(default)]
    in_place: bool,
}

fn one() -> u32 {
    1
}

impl CollectiveRequest {
    pub(super) fn sweep<'a>(&self, cluster: &'a hardware::Cluster) -> Result<Sweep<'a>> {
        let algorithms = |field, names: &[String]| -> Result<Vec<Algorithm>> {
            let read = |name: &String| Algorithm::in_field(field, name);
            names.iter().map(read).collect()
        };
        let rules = Rules {
            allowed: algorithms("algorithm", &self.algorithms)?,
            forbidden: algorithms("forbid", &self.forbid)?,
            protocol: self.protocol.as_deref().map(Protocol::named).transpose()?,
            in_place: self.in_place,
        };
        let levels = || cluster.system.levels.iter().map(|level| &level.name);
        let place = |name: &String| {
            let found = levels().position(|level| level == name);
            found.ok_or_else(|| Error::unknown("level", name, levels().map(String::as_str)))
        };
        Ok(Sweep {
            cluster,
            collective: Collective::named(&self.collective)?,
            rules,
            stride: self.stride,
            level: self.level.as_ref().map(place).transpose()?,
        })
    }
}

/// The arrays of a call; one of length one stands for all elements.
struct Arrays {
    bytes: Vec<f64>,
    ranks: Vec<u32>,
    bandwidths: Vec<f64>,
}

impl Arrays {
    fn read(
        bytes: &Bound<'_, PyArray1<f64>>,
        ranks: &Bound<'_, PyArray1<u32>>,
        bandwidths: Option<&Bound<'_, PyArray1<f64>>>,
    ) -> PyResult<Self> {
        let rates = bandwidths.map(PyArrayMethods::try_readonly).transpose()?;
        Ok(Self {
            bytes: bytes.try_readonly()?.as_array().to_vec(),
            ranks: ranks.try_readonly()?.as_array().to_vec(),
            bandwidths: rates.map_or_else(Vec::new, |rates| rates.as_array().to_vec()),
        })
    }

    /// True where one group and few sizes make no more than a few milliseconds of work.
    fn is_brief(&self) -> bool {
        self.ranks.len() == 1 && self.bandwidths.len() <= 1 && self.bytes.len() <= BRIEF
    }

    fn points(&self) -> SweepPoints<'_> {
        SweepPoints {
            bytes: &self.bytes,
            ranks: &self.ranks,
            bandwidths: &self.bandwidths,
        }
    }
}

/// Runs the sweep that a request asks for over its arrays.
fn swept<T: Send>(
    cluster: &Bound<'_, Cluster>,
    request: &Bound<'_, PyString>,
    arrays: &Arrays,
    progress: Option<&Bound<'_, PyAny>>,
    run: impl FnOnce(&Sweep, SweepPoints, &Control) -> Result<T> + Send,
) -> PyResult<T> {
    let (py, request) = (cluster.py(), text(request)?);
    let cluster = &cluster.get().cluster;
    let work = move |control: &Control| {
        let request: CollectiveRequest = error::from_json("", request)?;
        let alone = cluster.undisturbed(request.stride);
        let sweep = request.sweep(alone.as_ref().unwrap_or(cluster))?;
        run(&sweep, arrays.points(), control)
    };
    // a thread takes longer to start than one group's few sizes take
    if progress.is_none() && arrays.is_brief() {
        engine_call::brief(py, || work(&Control::new()))
    } else {
        engine_call::long(py, progress, work)
    }
}

/// Times in seconds of a collective, an element for each buffer size.
///
/// The request is JSON text; bytes follow nccl-tests. Where no algorithm is named, those of the
/// fabric's library compete.
#[pyfunction]
#[pyo3(signature = (cluster, request, buffer_bytes, ranks, bandwidths=None, *, progress=None))]
pub(super) fn collective_times<'py>(
    cluster: &Bound<'py, Cluster>,
    request: &Bound<'py, PyString>,
    buffer_bytes: &Bound<'py, PyArray1<f64>>,
    ranks: &Bound<'py, PyArray1<u32>>,
    bandwidths: Option<&Bound<'py, PyArray1<f64>>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let arrays = Arrays::read(buffer_bytes, ranks, bandwidths)?;
    let times = swept(cluster, request, &arrays, progress, |sweep, at, control| {
        sweep.times(at, control)
    })?;
    Ok(times.into_pyarray(cluster.py()))
}

/// Winner, runner-up, limit and lower bound for each buffer size: a dictionary of arrays, whose
/// codes are places in its `names`.
#[pyfunction]
#[pyo3(signature = (cluster, request, buffer_bytes, ranks, bandwidths=None, *, progress=None))]
pub(super) fn collective_choices<'py>(
    cluster: &Bound<'py, Cluster>,
    request: &Bound<'py, PyString>,
    buffer_bytes: &Bound<'py, PyArray1<f64>>,
    ranks: &Bound<'py, PyArray1<u32>>,
    bandwidths: Option<&Bound<'py, PyArray1<f64>>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let arrays = Arrays::read(buffer_bytes, ranks, bandwidths)?;
    let found = swept(cluster, request, &arrays, progress, |sweep, at, control| {
        sweep.explained(at, control)
    })?;
    let (py, cluster) = (cluster.py(), &cluster.get().cluster);
    let answer = PyDict::new(py);
    answer.set_item("time_s", found.times.into_pyarray(py))?;
    answer.set_item("lower_bound_s", found.lower_bounds.into_pyarray(py))?;
    answer.set_item("runner_up_time_s", found.runner_up_times.into_pyarray(py))?;
    let columns = [
        "algorithm",
        "protocol",
        "runner_up",
        "runner_up_protocol",
        "binding",
        "level",
    ];
    for (column, codes) in columns.into_iter().zip(found.codes) {
        answer.set_item(column, codes.into_pyarray(py))?;
    }
    answer.set_item("names", found.names)?;
    let levels = cluster.system.levels.iter().map(|level| &level.name);
    answer.set_item("levels", levels.collect::<Vec<_>>())?;
    Ok(answer)
}

/// One form for Python.
#[derive(Serialize)]
struct FormLine {
    algorithm: &'static str,
    protocol: &'static str,
    fixed_s: f64,
    seconds_per_byte: f64,
}

impl From<Form> for FormLine {
    fn from(form: Form) -> Self {
        Self {
            algorithm: form.algorithm.name(),
            protocol: form.protocol.name(),
            fixed_s: form.fixed.value(),
            seconds_per_byte: form.per_byte,
        }
    }
}

/// The lines that compete on a group, and the sizes at which the winner changes, as JSON text.
#[pyfunction]
#[pyo3(signature = (cluster, request, ranks, bandwidth=None))]
pub(super) fn collective_lines(
    cluster: &Bound<'_, Cluster>,
    request: &Bound<'_, PyString>,
    ranks: u32,
    bandwidth: Option<f64>,
) -> PyResult<String> {
    let (py, request) = (cluster.py(), text(request)?);
    let cluster = &cluster.get().cluster;
    engine_call::brief(py, || {
        let request: CollectiveRequest = error::from_json("", request)?;
        let alone = cluster.undisturbed(request.stride);
        let sweep = request.sweep(alone.as_ref().unwrap_or(cluster))?;
        sweep.check_group(ranks, bandwidth)?;
        let choices = sweep.choices(ranks, bandwidth)?;
        let crossovers: Vec<_> = choices
            .crossovers()
            .into_iter()
            .map(|crossover| {
                serde_json::json!({
                    "bytes": crossover.bytes.value(),
                    "before": FormLine::from(crossover.before),
                    "after": FormLine::from(crossover.after),
                })
            })
            .collect();
        let lines: Vec<FormLine> = choices.all().iter().copied().map(FormLine::from).collect();
        encode(&serde_json::json!({"lines": lines, "crossovers": crossovers}))
    })
}

/// Bus bandwidth over algorithm bandwidth for each number of ranks.
#[pyfunction]
pub(super) fn bus_factors<'py>(
    collective: &Bound<'py, PyString>,
    ranks: &Bound<'py, PyArray1<u32>>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (py, name) = (collective.py(), text(collective)?);
    let ranks: Vec<u32> = ranks.try_readonly()?.as_array().to_vec();
    let factors = engine_call::brief(py, || {
        let collective = Collective::named(name)?;
        let factors = ranks.into_iter().map(|ranks| collective.bus_factor(ranks));
        Ok(factors.collect::<Vec<f64>>())
    })?;
    Ok(factors.into_pyarray(py))
}

/// An all-to-all of unequal parts: `parts[i * ranks + j]` bytes from rank `i` to rank `j`, as JSON text.
#[pyfunction]
pub(super) fn uneven(
    cluster: &Bound<'_, Cluster>,
    stride: u32,
    ranks: u32,
    parts: &Bound<'_, PyArray1<f64>>,
) -> PyResult<String> {
    let py = cluster.py();
    let cluster = &cluster.get().cluster;
    let parts: Vec<f64> = parts.try_readonly()?.as_array().to_vec();
    engine_call::long(py, None, |_| {
        let sweep = Sweep {
            cluster,
            collective: Collective::AllToAll,
            rules: Rules::default(),
            stride,
            level: None,
        };
        sweep.check_group(ranks, None)?;
        let parts: Vec<Bytes> = parts.into_iter().map(Bytes::new).collect();
        let found = uneven_all_to_all(&cluster.group(stride, ranks), cluster, &parts)?;
        encode(&serde_json::json!({
            "time_s": found.time.value(),
            "lower_bound_s": found.lower_bound.value(),
            "busiest_rank": found.busiest_rank,
            "busiest_bytes": found.busiest_bytes.value(),
        }))
    })
}

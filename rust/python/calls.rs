//! What Python can ask of the engine: few fat calls, each through the doorway.

use super::enter;
use super::input::Cluster;
use crate::collective::{Algorithm, Collective, Forms};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::hardware;
use crate::units::Bytes;
use numpy::{IntoPyArray, PyArray1, PyArrayMethods};
use pyo3::prelude::*;

/// Array elements between two looks at the caller's wish to stop.
const CHUNK: usize = 1 << 16;

/// Keeps times finite on any fabric that can be read.
const MOST_BYTES: f64 = 1e30;

/// The engine's version.
#[pyfunction]
pub(super) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Times in seconds of a collective for an array of buffer sizes.
///
/// The group is the distance between its neighbours and its number of ranks; bytes follow
/// nccl-tests. Where no algorithm is named, those of the fabric's library compete.
#[pyfunction]
#[pyo3(signature = (cluster, collective, group, buffer_bytes, *, algorithm=None, progress=None))]
pub(super) fn collective_times<'py>(
    cluster: &Bound<'py, Cluster>,
    collective: &str,
    group: (u32, u32),
    buffer_bytes: &Bound<'py, PyArray1<f64>>,
    algorithm: Option<&str>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let py = cluster.py();
    let cluster = &cluster.get().cluster;
    let buffers: Vec<f64> = buffer_bytes.try_readonly()?.as_array().to_vec();
    let times = enter::long(py, progress, |control| {
        let collective = named(collective)?;
        let (stride, size) = group;
        check_group(cluster, stride, size)?;
        let group = cluster.group(stride, size);
        let forms = match algorithm.map(Algorithm::named).transpose()? {
            Some(algorithm) => Forms::forced(algorithm, collective, &group, cluster)?,
            None => Forms::new(collective, &group, cluster),
        };
        times(&forms, &buffers, control)
    })?;
    Ok(times.into_pyarray(py))
}

fn times(forms: &Forms, buffers: &[f64], control: &Control) -> Result<Vec<f64>> {
    control.set_total(buffers.len() as u64);
    let mut times = Vec::with_capacity(buffers.len());
    for chunk in buffers.chunks(CHUNK) {
        if control.is_cancelled() {
            let what = format!("{} of {} buffers", times.len(), buffers.len());
            return Err(Error::Cancelled { what });
        }
        for &bytes in chunk {
            if !(0.0..=MOST_BYTES).contains(&bytes) {
                let allowed = "0 to 1e30 bytes";
                return Err(Error::invalid("buffer_bytes", bytes, allowed));
            }
            times.push(forms.time(Bytes::new(bytes)).value());
        }
        control.advance(chunk.len() as u64);
    }
    Ok(times)
}

fn named(name: &str) -> Result<Collective> {
    Collective::ALL
        .into_iter()
        .find(|known| known.name() == name)
        .ok_or_else(|| Error::unknown("collective", name, Collective::ALL.map(Collective::name)))
}

/// Refuses a group that leaves the cluster.
pub(super) fn check_group(cluster: &hardware::Cluster, stride: u32, size: u32) -> Result<()> {
    let devices = u64::from(cluster.devices);
    if stride == 0 || size == 0 || u64::from(stride) * u64::from(size - 1) >= devices {
        let allowed = format!("1 or more each, and stride * (size - 1) below {devices} devices");
        return Err(Error::invalid(
            "stride, size",
            format!("{stride}, {size}"),
            allowed,
        ));
    }
    Ok(())
}

//! Many kernels on one device from Python: columns of shapes in, an array of seconds out.

use super::engine_call;
use super::input::text;
use crate::error::{self, Error, Result};
use crate::hardware::Device;
use crate::operator_cost::Timed;
use numpy::{IntoPyArray, PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Shapes that are priced on the calling thread.
const BRIEF: usize = 1 << 13;

/// Times in seconds of kernels of one kind on one device, an element for each shape.
///
/// `device` and `request` are JSON text; `columns` holds an array for each number of a shape, one
/// of length one standing for all shapes.
#[pyfunction]
pub(super) fn kernel_times<'py>(
    device: &Bound<'py, PyString>,
    request: &Bound<'py, PyString>,
    columns: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (py, device, request) = (device.py(), text(device)?, text(request)?);
    let mut given = Vec::with_capacity(columns.len());
    for (name, values) in columns {
        let values = values.cast::<PyArray1<f64>>()?.try_readonly()?;
        given.push((name.extract::<String>()?, values.as_array().to_vec()));
    }
    let work = || times(device, request, &given);
    // a thread takes longer to start than some thousands of shapes take
    let times = if given.iter().all(|(_, values)| values.len() <= BRIEF) {
        engine_call::brief(py, work)?
    } else {
        engine_call::long(py, None, |_| work())?
    };
    Ok(times.into_pyarray(py))
}

fn times(device: &str, request: &str, given: &[(String, Vec<f64>)]) -> Result<Vec<f64>> {
    let device: Device = error::from_json("device", device)?;
    device.check()?;
    let timed: Timed = error::from_json("kernel", request)?;
    let wanted = timed.columns();
    for (name, _) in given {
        if !wanted.iter().any(|(known, _)| known == name) {
            let known = wanted.iter().map(|&(known, _)| known);
            return Err(Error::unknown("shapes", name, known));
        }
    }
    let rows = given.iter().map(|(_, v)| v.len()).find(|&l| l != 1);
    let rows = rows.unwrap_or(1);
    let columns = wanted.iter().map(|wanted| column(wanted, given, rows));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let mut shape = vec![0.0; columns.len()];
    let price = |row: usize| {
        for (number, values) in shape.iter_mut().zip(&columns) {
            *number = if values.len() == 1 {
                values[0]
            } else {
                values[row]
            };
        }
        timed.cost(&shape, &device).map(|cost| cost.time.value())
    };
    (0..rows).map(price).collect()
}

/// The numbers of this name, one or as many as there are rows, or what stands for them.
fn column<'a>(
    (name, usual): &'a (&str, Option<f64>),
    given: &'a [(String, Vec<f64>)],
    rows: usize,
) -> Result<&'a [f64]> {
    let found = given.iter().find(|(known, _)| known == name);
    match (found, usual) {
        (None, Some(usual)) => Ok(std::slice::from_ref(usual)),
        (None, None) => Err(Error::invalid(*name, "nothing", "a number for each shape")),
        (Some((_, values)), _) if values.len() == 1 || values.len() == rows => Ok(values),
        (Some((_, values)), _) => {
            let got = format!("{} numbers", values.len());
            Err(Error::invalid(*name, got, format!("1 number or {rows}")))
        }
    }
}

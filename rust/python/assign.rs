//! The bare solver from Python: items choose among options that use shared rows, as arrays.

use super::engine_call;
use super::input::text;
use crate::error::{Error, Result, from_json};
use crate::solve::assign::{AssignOutcome, Limits, Model, Shortage, Solution, assign as solved};
use numpy::{Element, IntoPyArray, PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde::Deserialize;

/// When a search may stop.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchLimits {
    relative_gap: f64,
    nodes: u64,
}

/// A model as columns: of items, options, uses, rows and windows.
struct Columns {
    options: Vec<u32>,
    whole: Vec<bool>,
    cost: Vec<f64>,
    use_option: Vec<u32>,
    use_first: Vec<u32>,
    use_end: Vec<u32>,
    use_amount: Vec<f64>,
    limit: Vec<f64>,
    timed_window: Vec<u32>,
    timed_base: Vec<f64>,
    window_floor: Vec<f64>,
    window_weight: Vec<f64>,
}

fn column<T: Element + Copy>(columns: &Bound<'_, PyDict>, name: &str) -> PyResult<Vec<T>> {
    let found = columns.as_any().get_item(name)?;
    let array = found.cast::<PyArray1<T>>().map_err(PyErr::from)?;
    Ok(array.try_readonly()?.as_array().to_vec())
}

impl Columns {
    fn read(of: &Bound<'_, PyDict>) -> PyResult<Self> {
        Ok(Self {
            options: column(of, "options")?,
            whole: column(of, "whole")?,
            cost: column(of, "cost")?,
            use_option: column(of, "use_option")?,
            use_first: column(of, "use_first")?,
            use_end: column(of, "use_end")?,
            use_amount: column(of, "use_amount")?,
            limit: column(of, "limit")?,
            timed_window: column(of, "timed_window")?,
            timed_base: column(of, "timed_base")?,
            window_floor: column(of, "window_floor")?,
            window_weight: column(of, "window_weight")?,
        })
    }

    fn check(&self) -> Result<()> {
        let options: u64 = self.options.iter().map(|&n| u64::from(n)).sum();
        let lengths = [
            ("whole", self.whole.len(), self.options.len()),
            ("timed_base", self.timed_base.len(), self.timed_window.len()),
            (
                "window_weight",
                self.window_weight.len(),
                self.window_floor.len(),
            ),
            ("use_first", self.use_first.len(), self.use_option.len()),
            ("use_end", self.use_end.len(), self.use_option.len()),
            ("use_amount", self.use_amount.len(), self.use_option.len()),
        ];
        for (name, got, allowed) in lengths {
            if got != allowed {
                let allowed = format!("{allowed} elements");
                return Err(Error::invalid(name, format!("{got} elements"), allowed));
            }
        }
        if options != self.cost.len() as u64 {
            let allowed = format!("{options} elements, one for each option");
            return Err(Error::invalid("costs", self.cost.len(), allowed));
        }
        let strays = self
            .use_option
            .iter()
            .find(|&&option| u64::from(option) >= options);
        if let Some(stray) = strays {
            let allowed = format!("options below {options}");
            return Err(Error::invalid("uses", stray, allowed));
        }
        if !self.use_option.is_sorted() {
            let what = "uses: got options in disorder; allowed: uses in the order of their options";
            return Err(Error::inconsistent(what));
        }
        Ok(())
    }

    fn model(&self) -> Result<Model> {
        self.check()?;
        let mut model = Model::new();
        for (floor, weight) in self.window_floor.iter().zip(&self.window_weight) {
            model.window(*floor, *weight);
        }
        for limit in &self.limit {
            model.limited_row(*limit);
        }
        for (window, base) in self.timed_window.iter().zip(&self.timed_base) {
            model.timed_row(*window, *base);
        }
        let mut costs = self.cost.iter();
        let (mut option, mut used) = (0_u32, 0);
        for (count, whole) in self.options.iter().zip(&self.whole) {
            model.item(*whole);
            for cost in costs.by_ref().take(*count as usize) {
                model.option(*cost);
                while self.use_option.get(used) == Some(&option) {
                    let rows = self.use_first[used]..self.use_end[used];
                    model.uses(rows, self.use_amount[used]);
                    used += 1;
                }
                option += 1;
            }
        }
        Ok(model)
    }
}

/// Finds the shares with the least objective. The answer holds arrays by name; where nothing fits,
/// `short_rows` and `short_amounts`.
#[pyfunction]
#[pyo3(signature = (columns, limits, *, progress=None))]
pub(super) fn assign<'py>(
    columns: &Bound<'py, PyDict>,
    limits: &Bound<'py, PyString>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (py, limits) = (limits.py(), text(limits)?);
    let columns = Columns::read(columns)?;
    let answer = engine_call::long(py, progress, |control| {
        let asked: SearchLimits = from_json("", limits)?;
        let limits = Limits {
            gap: asked.relative_gap,
            nodes: asked.nodes,
            below: f64::INFINITY,
            shortage: true,
        };
        solved(&columns.model()?, &limits, control)
    })?;
    let told = PyDict::new(py);
    match answer {
        AssignOutcome::Solved(solution) => tell(&told, solution)?,
        AssignOutcome::Infeasible(shortage) => tell_short(&told, &shortage.unwrap_or_default())?,
        AssignOutcome::NoneBelow(bound) => told.set_item("bound", bound)?,
    }
    Ok(told)
}

fn tell(told: &Bound<'_, PyDict>, solution: Solution) -> PyResult<()> {
    let py = told.py();
    told.set_item("objective", solution.objective)?;
    told.set_item("bound", solution.bound)?;
    told.set_item("relative_gap", solution.gap())?;
    told.set_item("nodes", solution.nodes)?;
    told.set_item("shares", solution.shares.into_pyarray(py))?;
    told.set_item("windows", solution.windows.into_pyarray(py))?;
    told.set_item("prices", solution.prices.into_pyarray(py))
}

fn tell_short(told: &Bound<'_, PyDict>, shortage: &Shortage) -> PyResult<()> {
    let py = told.py();
    let (rows, amounts): (Vec<u32>, Vec<f64>) = shortage.rows.iter().copied().unzip();
    told.set_item("short_rows", rows.into_pyarray(py))?;
    told.set_item("short_amounts", amounts.into_pyarray(py))
}

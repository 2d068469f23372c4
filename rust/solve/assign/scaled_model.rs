//! How is a model laid out so that bytes and seconds are of one size and runs of rows cost as much as one?

use super::model::{Model, NONE, Use, index};
use crate::solve::Random;

/// Costs are moved by up to this much of the largest, so that no two options tie: at least, by the gap
/// that is asked for, and at most.
const APART: f64 = 1e-12;
const APART_BY_GAP: f64 = 1e-4;
const MOST_APART: f64 = 1e-6;

/// A model in units of its own largest figures, as the simplex method walks through it.
#[derive(Debug, Default)]
pub(super) struct ScaledModel {
    /// First option of each item, and one past the last.
    pub(super) items: Vec<u32>,
    pub(super) whole: Vec<bool>,
    pub(super) item_of: Vec<u32>,
    /// Cost over that of the item's cheapest option.
    pub(super) costs: Vec<f64>,
    /// First run of each option, and one past the last.
    pub(super) options: Vec<u32>,
    pub(super) runs: Vec<Run>,
    /// What the uses of each row may add to, before its window stretches.
    pub(super) right: Vec<f64>,
    pub(super) window_of: Vec<u32>,
    /// What a row gains when its window stretches by one.
    pub(super) pull: Vec<f64>,
    pub(super) row_scale: Vec<f64>,
    /// True where no run crosses from the row before: sums along rows start anew.
    pub(super) cut: Vec<bool>,
    /// True where every row is cut: all runs are of one row.
    pub(super) single: bool,
    pub(super) weights: Vec<f64>,
    /// Timed rows by window, and where each window's begin.
    pub(super) window_rows: Vec<u32>,
    pub(super) window_begins: Vec<u32>,
    pub(super) floors: Vec<f64>,
    pub(super) cost_scale: f64,
    stretch: Vec<f64>,
    apart: f64,
}

/// Rows `first` to `last`, both included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) amount: f64,
}

impl ScaledModel {
    pub(super) fn options_of(&self, item: usize) -> std::ops::Range<usize> {
        self.items[item] as usize..self.items[item + 1] as usize
    }

    pub(super) fn runs_of(&self, option: usize) -> &[Run] {
        &self.runs[self.options[option] as usize..self.options[option + 1] as usize]
    }

    pub(super) fn rows_of(&self, window: usize) -> &[u32] {
        let begins = self.window_begins[window]..self.window_begins[window + 1];
        &self.window_rows[begins.start as usize..begins.end as usize]
    }

    /// Price of a row in the model's units, of one in this form's.
    pub(super) fn true_price(&self, row: usize, price: f64) -> f64 {
        price * self.row_scale[row] / self.cost_scale
    }

    pub(super) fn build(&mut self, model: &Model, gap: f64) {
        self.apart = (gap * APART_BY_GAP).clamp(APART, MOST_APART);
        self.lay_rows(model);
        self.lay_windows(model);
        self.lay_options(model);
    }

    fn lay_rows(&mut self, model: &Model) {
        let rows = model.rows.len();
        let stretch = &mut self.stretch;
        stretch.clear();
        stretch.resize(rows + 1, 0.0);
        for used in model.uses.iter().filter(|used| counts(used)) {
            stretch[used.first as usize + 1] += 1.0;
            stretch[used.end as usize] -= 1.0;
        }
        self.cut.clear();
        let mut crossing = 0.0;
        self.cut.extend(stretch.iter().map(|step| {
            crossing += step;
            crossing <= 0.0
        }));
        self.single = !self.cut.contains(&false);
        // the largest amount of each stretch of rows, kept at its first row
        let mut start = 0;
        self.window_of.clear();
        for (row, &cut) in self.cut[..rows].iter().enumerate() {
            start = if cut { row } else { start };
            self.window_of.push(index(start));
        }
        self.row_scale.clear();
        self.row_scale.resize(rows, 0.0);
        for used in model.uses.iter().filter(|used| counts(used)) {
            let largest = &mut self.row_scale[self.window_of[used.first as usize] as usize];
            *largest = largest.max(used.amount);
        }
        for row in 0..rows {
            let start = self.window_of[row] as usize;
            self.row_scale[row] = if start < row {
                self.row_scale[start]
            } else if model.rows[row].window != NONE && self.row_scale[row] <= 0.0 {
                // what nothing uses has no unit, and only its base counts
                0.0
            } else {
                scale_of(self.row_scale[row])
            };
        }
        self.window_of.clear();
        self.window_of
            .extend(model.rows.iter().map(|row| row.window));
    }

    fn lay_windows(&mut self, model: &Model) {
        let (rows, windows) = (model.rows.len(), model.windows.len());
        self.floors.clear();
        self.floors.extend(model.windows.iter().map(|w| w.floor));
        self.weights.clear();
        self.weights.resize(windows, 0.0);
        self.window_begins.clear();
        self.window_begins.resize(windows + 1, 0);
        for (row, scale) in model.rows.iter().zip(&self.row_scale) {
            if row.window != NONE {
                let window = row.window as usize;
                self.floors[window] = self.floors[window].max(row.value);
                self.weights[window] = self.weights[window].max(*scale);
                self.window_begins[window + 1] += 1;
            }
        }
        for window in 0..windows {
            self.window_begins[window + 1] += self.window_begins[window];
        }
        self.window_rows.clear();
        self.window_rows
            .resize(self.window_begins[windows] as usize, 0);
        self.pull.clear();
        self.right.clear();
        for row in 0..rows {
            let (at, scale) = (model.rows[row], self.row_scale[row]);
            if at.window == NONE {
                self.pull.push(0.0);
                self.right.push(at.value * scale);
                continue;
            }
            let window = at.window as usize;
            let widest = self.weights[window];
            self.pull
                .push(if scale > 0.0 { scale / widest } else { 0.0 });
            self.right.push((self.floors[window] - at.value) * scale);
            let place = &mut self.window_begins[window];
            self.window_rows[*place as usize] = index(row);
            *place += 1;
        }
        self.window_begins.rotate_right(1);
        self.window_begins[0] = 0;
        // a window's weight is by its own unit, in which the fastest of its rows pulls by one; a
        // window whose length no share changes weighs nothing
        for (weight, window) in self.weights.iter_mut().zip(&model.windows) {
            *weight = if *weight > 0.0 {
                window.weight / *weight
            } else {
                0.0
            };
        }
    }

    fn lay_options(&mut self, model: &Model) {
        self.items.clear();
        self.whole.clear();
        self.item_of.clear();
        self.costs.clear();
        self.options.clear();
        self.runs.clear();
        let mut largest = self.weights.iter().copied().fold(0.0, f64::max);
        for (item, at) in model.items.iter().enumerate() {
            let options = model.options_of(index(item));
            let options = options.start as usize..options.end as usize;
            let costs = || model.options[options.clone()].iter().map(|o| o.cost);
            let least = costs().fold(f64::INFINITY, f64::min);
            self.items.push(at.first);
            self.whole.push(at.whole);
            for cost in costs() {
                self.item_of.push(index(item));
                self.costs.push(cost - least);
                largest = largest.max(cost - least);
            }
        }
        self.items.push(index(model.options.len()));
        for option in 0..model.options.len() {
            self.options.push(index(self.runs.len()));
            for used in model.uses_of(option) {
                if counts(used) {
                    self.runs.push(Run {
                        first: used.first,
                        last: used.end - 1,
                        amount: used.amount * self.row_scale[used.first as usize],
                    });
                }
            }
        }
        self.options.push(index(self.runs.len()));
        if largest <= 0.0 {
            // nothing to choose by: what all costs come to is their unit
            let costs = model.options.iter().map(|option| option.cost.abs());
            let times = model.windows.iter().zip(&self.floors);
            let times = times.map(|(window, floor)| window.weight * floor.abs());
            largest = costs.chain(times).fold(0.0, f64::max);
        }
        self.cost_scale = scale_of(largest);
        let mut random = Random::new(0, 0);
        for cost in self.costs.iter_mut().chain(&mut self.weights) {
            *cost = *cost * self.cost_scale + self.apart * random.uniform();
        }
    }
}

fn counts(used: &Use) -> bool {
    used.first < used.end && used.amount > 0.0
}

/// One over the largest amount, and 1 where all are zero.
fn scale_of(largest: f64) -> f64 {
    let scale = 1.0 / largest;
    if largest > 0.0 && scale.is_finite() {
        scale
    } else {
        1.0
    }
}

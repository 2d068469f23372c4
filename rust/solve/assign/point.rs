//! What do shares come to, and do they keep all limits?

use super::model::{Model, NONE};
use super::rounding::tolerance;
use super::scaled_model::ScaledModel;
use super::simplex::{NEAR, Simplex};

/// Shares of all options and what follows from them.
#[derive(Debug, Default)]
pub(super) struct Point {
    pub(super) shares: Vec<f64>,
    pub(super) windows: Vec<f64>,
    pub(super) objective: f64,
    used: Vec<f64>,
}

impl Point {
    /// Makes room, so that points may change places later.
    pub(super) fn start(&mut self, model: &Model) {
        self.shares.clear();
        self.shares.reserve(model.options.len());
        self.windows.clear();
        self.windows.reserve(model.windows.len());
        self.used.clear();
        self.used.reserve(model.rows.len());
    }

    /// The shares of the simplex method's basis.
    pub(super) fn set_basis(&mut self, form: &ScaledModel, simplex: &Simplex) {
        self.shares.clear();
        self.shares.resize(form.costs.len(), 0.0);
        for &key in &simplex.keys {
            self.shares[key as usize] = 1.0;
        }
        for (&variable, &share) in simplex.basic.iter().zip(&simplex.shares) {
            let variable = variable as usize;
            if let Some(&item) = form.item_of.get(variable) {
                let key = simplex.keys[item as usize] as usize;
                let share = if share < NEAR {
                    0.0
                } else {
                    share.min(self.shares[key])
                };
                self.shares[variable] = share;
                self.shares[key] -= share;
            }
        }
    }

    /// All of each item in one option.
    pub(super) fn set_choice(&mut self, options: usize, choice: &[u32]) {
        self.shares.clear();
        self.shares.resize(options, 0.0);
        for &option in choice {
            self.shares[option as usize] = 1.0;
        }
    }

    /// Sets windows and objective; false where a limit is not kept.
    pub(super) fn fits(&mut self, model: &Model, form: &ScaledModel) -> bool {
        self.used.clear();
        self.used.resize(model.rows.len(), 0.0);
        for (option, &share) in self.shares.iter().enumerate().filter(|(_, x)| **x > 0.0) {
            for used in model.uses_of(option) {
                for row in &mut self.used[used.first as usize..used.end as usize] {
                    *row += share * used.amount;
                }
            }
        }
        self.windows.clear();
        self.windows.extend_from_slice(&form.floors);
        let mut fits = true;
        for (row, (at, used)) in model.rows.iter().zip(&self.used).enumerate() {
            if at.window == NONE {
                fits &= *used <= at.value + tolerance(model, form, row);
            } else {
                let time = &mut self.windows[at.window as usize];
                *time = time.max(at.value + used);
            }
        }
        self.objective = model.objective(&self.shares, &self.windows);
        fits
    }
}

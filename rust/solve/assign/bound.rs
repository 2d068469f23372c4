//! How low can the objective be at most, whatever the arithmetic of the search did?

use super::model::{Model, NONE, index};
use super::scaled_model::ScaledModel;

/// A Lagrangian bound in the model's units.
#[derive(Debug, Default)]
pub(super) struct Bound {
    /// Price of each row, 0 or more, those of a window at most its weight.
    pub(super) prices: Vec<f64>,
    without: Vec<f64>,
    with: Vec<f64>,
}

impl Bound {
    /// The Lagrangian at scaled `prices`, less what rounding may have added.
    ///
    /// L = sum over items of min over options (cost + price * use) + sum over windows of
    /// (weight - prices) * floor - sum(price * limit) + sum(price * base) (Geoffrion 1974): a lower bound
    /// at any prices >= 0 that add to at most the weight in each window. `banned` options are left out.
    pub(super) fn at(
        &mut self,
        model: &Model,
        form: &ScaledModel,
        prices: &[f64],
        banned: &[bool],
    ) -> f64 {
        self.set_prices(model, form, prices);
        let mut sum = Sum::default();
        for (row, &price) in model.rows.iter().zip(&self.prices) {
            sum.add(if row.window == NONE { -price } else { price } * row.value);
        }
        for (window, at) in model.windows.iter().enumerate() {
            let rows = form.rows_of(window).iter();
            let paid: f64 = rows.map(|&row| self.prices[row as usize]).sum();
            sum.add(at.weight * form.floors[window]);
            sum.add(-paid * form.floors[window]);
        }
        // a sum along n rows is off by at most n rounding errors
        let share = f64::EPSILON * (model.rows.len() + 4) as f64;
        let mut doubt = 0.0;
        for item in 0..model.items.len() {
            let (mut least, mut most_doubt) = (f64::INFINITY, 0.0_f64);
            let options = model.options_of(index(item));
            let options = options.start as usize..options.end as usize;
            for option in options.filter(|&option| !banned[option]) {
                let (value, size) = self.value(model, option);
                least = least.min(value);
                most_doubt = most_doubt.max(size * share);
            }
            sum.add(least);
            doubt += most_doubt;
        }
        sum.total() - doubt - 16.0 * f64::EPSILON * sum.size
    }

    /// An option's cost at the prices, and the size of the terms it came from.
    fn value(&self, model: &Model, option: usize) -> (f64, f64) {
        let cost = model.options[option].cost;
        let (mut value, mut size) = (cost, cost.abs());
        for used in model.uses_of(option) {
            if used.first < used.end {
                let high = self.with[used.end as usize - 1];
                value += used.amount * (high - self.without[used.first as usize]);
                size += used.amount * high;
            }
        }
        (value, size)
    }

    fn set_prices(&mut self, model: &Model, form: &ScaledModel, prices: &[f64]) {
        self.prices.clear();
        let known = prices.iter().enumerate();
        let known = known.map(|(row, &price)| form.true_price(row, price.max(0.0)));
        self.prices.extend(known);
        for (window, at) in model.windows.iter().enumerate() {
            let rows = form.rows_of(window);
            let sum: f64 = rows.iter().map(|&row| self.prices[row as usize]).sum();
            if sum > at.weight {
                let factor = at.weight / sum * (1.0 - 1e-15 * (rows.len() + 1) as f64);
                for &row in rows {
                    self.prices[row as usize] *= factor;
                }
            }
        }
        self.sum_along_rows(form);
    }

    /// Hands what is left of a window's weight to the row whose base is its least length.
    ///
    /// Where that row has no uses, its base alone sets the window, and its price is the rest.
    pub(super) fn price_bases(&mut self, model: &Model, form: &ScaledModel) {
        for (window, at) in model.windows.iter().enumerate() {
            let rows = form.rows_of(window);
            let sum: f64 = rows.iter().map(|&row| self.prices[row as usize]).sum();
            let base = |row: &&u32| model.rows[**row as usize].value;
            let longest = rows.iter().max_by(|a, b| base(a).total_cmp(&base(b)));
            if let Some(row) = longest.filter(|row| base(row) > at.floor) {
                self.prices[*row as usize] += (at.weight - sum).max(0.0);
            }
        }
    }
}

/// A running sum that keeps what rounding takes from it (Neumaier 1974).
#[derive(Debug, Default)]
pub(super) struct Sum {
    rounded: f64,
    lost: f64,
    /// Sum of the terms' sizes.
    pub(super) size: f64,
}

impl Sum {
    pub(super) fn add(&mut self, term: f64) {
        let sum = self.rounded + term;
        self.lost += if self.rounded.abs() >= term.abs() {
            (self.rounded - sum) + term
        } else {
            (term - sum) + self.rounded
        };
        self.rounded = sum;
        self.size += term.abs();
    }

    pub(super) fn total(&self) -> f64 {
        self.rounded + self.lost
    }
}

/// The sum of terms, as if added exactly and rounded once or twice.
pub(super) fn amount_of(terms: impl Iterator<Item = f64>) -> f64 {
    let mut sum = Sum::default();
    terms.for_each(|term| sum.add(term));
    sum.total()
}

impl Bound {
    /// True where `step` proves that no shares keep all limits (Farkas): priced by it, even the options
    /// that use least take more than there is.
    pub(super) fn proves_empty(
        &mut self,
        form: &ScaledModel,
        step: &[f64],
        banned: &[bool],
    ) -> bool {
        self.prices.clear();
        self.prices
            .extend(step.iter().map(|change| change.max(0.0)));
        for window in 0..form.weights.len() {
            let rows = form.rows_of(window);
            let priced = |row: &u32| self.prices[*row as usize] * form.pull[*row as usize];
            // a window may stretch without end, so its rows prove nothing
            if rows.iter().map(priced).sum::<f64>() > 0.0 {
                for &row in rows {
                    self.prices[row as usize] = 0.0;
                }
            }
        }
        self.sum_along_rows(form);
        let mut sum = Sum::default();
        for (price, right) in self.prices.iter().zip(&form.right) {
            sum.add(-price * right);
        }
        for item in 0..form.whole.len() {
            let open = form.options_of(item).filter(|&option| !banned[option]);
            let used = open.map(|option| {
                let runs = form.runs_of(option).iter();
                runs.map(|run| {
                    run.amount * (self.with[run.last as usize] - self.without[run.first as usize])
                })
                .sum::<f64>()
            });
            sum.add(used.fold(f64::INFINITY, f64::min));
        }
        sum.total() > 1e-12 * sum.size
    }

    fn sum_along_rows(&mut self, form: &ScaledModel) {
        self.without.clear();
        self.with.clear();
        let mut sum = 0.0;
        for (row, price) in self.prices.iter().enumerate() {
            sum = if form.cut[row] { 0.0 } else { sum };
            self.without.push(sum);
            sum += price;
            self.with.push(sum);
        }
    }
}

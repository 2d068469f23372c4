//! How does the basis change when one variable leaves it and another enters?

use super::inverse::dot;
use super::model::{NONE, index};
use super::ratio_test::Breakpoint;
use super::scaled_model::ScaledModel;
use super::simplex::{LeavingVariable, STILL, Simplex, mark_runs};

impl Simplex {
    /// Changes the basis; false where the pivot is not what the step promised.
    pub(super) fn exchange(
        &mut self,
        form: &ScaledModel,
        leaving: LeavingVariable,
        entering: &Breakpoint,
    ) -> bool {
        let variables = form.costs.len() + form.weights.len();
        let entered = entering.what as usize;
        if let Some(row) = entered.checked_sub(variables) {
            self.exchange_slack(form, leaving, row);
            self.since_fresh += 1;
            return true;
        }
        self.set_column(form, entered);
        self.gathered.clear();
        let column = self.tight.iter().map(|&row| self.column[row as usize]);
        self.gathered.extend(column);
        self.inverse.times(&self.gathered, &mut self.solved);
        let pivot = match leaving {
            LeavingVariable::Row(row) => self.column[row] - dot(&self.line, &self.gathered),
            LeavingVariable::Basic { place, sign } => sign * self.solved[place],
        };
        if (pivot + entering.rate).abs() > 1e-6 * entering.rate.max(1e-3) && self.since_fresh > 0 {
            return false;
        }
        if pivot.abs() < STILL / 2.0 {
            return false;
        }
        self.lengthen(form, leaving, pivot);
        match leaving {
            LeavingVariable::Row(row) => {
                self.inverse.grow(&self.solved, &self.line, pivot);
                self.row_place[row] = index(self.tight.len());
                self.tight.push(index(row));
                self.place_of[entered] = index(self.basic.len());
                self.basic.push(entering.what);
                self.weights.push(self.entered);
            }
            LeavingVariable::Basic { place, .. } => {
                self.inverse.replace_column(place, &self.solved);
                self.leave(form, self.basic[place] as usize);
                self.place_of[entered] = index(place);
                self.basic[place] = entering.what;
                self.weights[place] = self.entered;
            }
        }
        if let Some(&item) = form.item_of.get(entered) {
            self.members[item as usize] += 1;
        }
        self.since_fresh += 1;
        true
    }

    /// Marks a basic variable as no longer so.
    fn leave(&mut self, form: &ScaledModel, left: usize) {
        self.place_of[left] = NONE;
        if let Some(&item) = form.item_of.get(left) {
            self.members[item as usize] -= 1;
            self.loose = item;
        }
    }

    /// Makes the weights of all that remain basic no shorter than the edge that was taken shows
    /// (Devex: Forrest and Goldfarb 1992). `solved` is what the entering column makes with the inverse.
    fn lengthen(&mut self, form: &ScaledModel, leaving: LeavingVariable, pivot: f64) {
        let taken = match leaving {
            LeavingVariable::Row(row) => self.row_weights[row],
            LeavingVariable::Basic { place, .. } => self.weights[place],
        };
        let factor = taken / (pivot * pivot);
        for (weight, entry) in self.weights.iter_mut().zip(&self.solved) {
            *weight = weight.max(entry * entry * factor);
        }
        for (&variable, &share) in self.basic.iter().zip(&self.solved) {
            let variable = variable as usize;
            if let Some(window) = variable.checked_sub(form.costs.len()) {
                for &row in form.rows_of(window) {
                    self.column[row as usize] += share * form.pull[row as usize];
                }
            }
        }
        self.marks.clear();
        self.marks.resize(form.right.len(), 0.0);
        for (&variable, &share) in self.basic.iter().zip(&self.solved) {
            let variable = variable as usize;
            if share != 0.0 && variable < form.costs.len() {
                let key = self.keys[form.item_of[variable] as usize] as usize;
                mark_runs(form, variable, -share, &mut self.marks);
                mark_runs(form, key, share, &mut self.marks);
            }
        }
        let mut sum = 0.0;
        for (row, mark) in self.marks.iter().enumerate() {
            sum = if form.cut[row] { *mark } else { sum + mark };
            let entry = sum + self.column[row];
            let weight = &mut self.row_weights[row];
            *weight = weight.max(entry * entry * factor);
        }
        self.entered = factor.max(1.0);
    }

    fn exchange_slack(&mut self, form: &ScaledModel, leaving: LeavingVariable, row: usize) {
        let place = self.row_place[row] as usize;
        match leaving {
            LeavingVariable::Row(tight) => {
                self.row_place[row] = NONE;
                self.prices[row] = 0.0;
                self.inverse.replace_row(place, &self.line);
                self.tight[place] = index(tight);
                self.row_place[tight] = index(place);
            }
            LeavingVariable::Basic { place: basic, .. } => {
                self.inverse.shrink(basic, place);
                self.drop_tight(place);
                self.drop_basic(form, basic);
            }
        }
    }

    /// Without a tight row; the last one takes its place.
    pub(super) fn drop_tight(&mut self, place: usize) {
        let row = self.tight.swap_remove(place) as usize;
        self.row_place[row] = NONE;
        self.prices[row] = 0.0;
        if let Some(&moved) = self.tight.get(place) {
            self.row_place[moved as usize] = index(place);
        }
    }

    /// Without a basic variable; the last one takes its place.
    pub(super) fn drop_basic(&mut self, form: &ScaledModel, place: usize) {
        let left = self.basic.swap_remove(place) as usize;
        self.weights.swap_remove(place);
        self.leave(form, left);
        if let Some(&moved) = self.basic.get(place) {
            self.place_of[moved as usize] = index(place);
        }
    }
}

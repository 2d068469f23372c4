//! Which whole choice near given prices fits, and can one item's change better it?

use super::model::{Model, NONE, Use, index};
use super::scaled_model::ScaledModel;
use crate::control::Control;
use crate::solve::Random;

/// Changes of one item that are looked at first: those that cost least at the prices.
pub(super) const NEAREST: usize = 1500;

/// Changes to try for each option where options use few rows, and what one may cost at first: a part of the mean objective of
/// a window; at last, a part of that. Colder or warmer ends higher on models of the benchmark.
const EACH: usize = 80;
const WARM: f64 = 0.1;
const COOL: f64 = 1e-4;
/// Rows that all changes may touch, nearly.
const WORK: usize = 200_000_000;
/// How often all are looked at again.
const PASSES: usize = 8;

/// One option for each item, and what that comes to.
#[derive(Debug, Default)]
pub(super) struct Rounding {
    pub(super) choice: Vec<u32>,
    used: Vec<f64>,
    times: Vec<f64>,
    pub(super) objective: f64,
    /// Rows and windows that the last change touched, and what they were.
    rows: Vec<(u32, f64)>,
    windows: Vec<(u32, f64)>,
    row_stamps: Vec<u64>,
    window_stamps: Vec<u64>,
    stamp: u64,
    /// The best choice while others are tried.
    kept: Vec<u32>,
    last: (u32, u32, f64),
    /// Options that items may change to, with what that costs at the prices.
    candidates: Vec<(f64, u32)>,
}

/// What a change of one item adds to the objective and to what is over limits (scaled).
#[derive(Debug, Clone, Copy)]
struct OptionChange {
    objective: f64,
    over: f64,
}

/// How far a limited row may seem to be over its limit by rounding, in the model's units.
pub(super) fn tolerance(model: &Model, form: &ScaledModel, row: usize) -> f64 {
    1e-9 * model.rows[row].value + 1e-11 / form.row_scale[row]
}

impl Rounding {
    /// Starts from the options in `keys`; `values` are costs at the prices, by option.
    ///
    /// True where a choice within all limits was found; it is then as good as single changes make it.
    pub(super) fn run(&mut self, model: &Model, form: &ScaledModel, from: &RoundingStart) -> bool {
        self.reset(model, form, from.keys);
        self.collect(form, from);
        if self.candidates.len() > from.near {
            let by_cost = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            self.candidates.select_nth_unstable_by(from.near, by_cost);
        }
        let near = self.candidates.len().min(from.near);
        self.candidates[..near].sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut tried = near;
        while !self.repair(model, form, tried) {
            if tried == self.candidates.len() {
                return false;
            }
            tried = (4 * tried).min(self.candidates.len());
        }
        for _ in 0..PASSES {
            if !self.improve(model, form, near) {
                break;
            }
        }
        true
    }

    fn reset(&mut self, model: &Model, form: &ScaledModel, keys: &[u32]) {
        self.choice.clear();
        self.choice.extend_from_slice(keys);
        self.used.clear();
        let bases = model.rows.iter();
        let bases = bases.map(|row| if row.window == NONE { 0.0 } else { row.value });
        self.used.extend(bases);
        self.objective = 0.0;
        for &option in &self.choice {
            self.objective += model.options[option as usize].cost;
            for used in model.uses_of(option as usize) {
                for row in used.first..used.end {
                    self.used[row as usize] += used.amount;
                }
            }
        }
        self.times.clear();
        for (window, at) in model.windows.iter().enumerate() {
            let time = self.time(form, window);
            self.times.push(time);
            self.objective += at.weight * time;
        }
        self.row_stamps.clear();
        self.row_stamps.resize(model.rows.len(), 0);
        self.window_stamps.clear();
        self.window_stamps.resize(model.windows.len(), 0);
        self.stamp = 0;
    }

    fn collect(&mut self, form: &ScaledModel, from: &RoundingStart) {
        self.candidates.clear();
        for (item, &key) in from.keys.iter().enumerate() {
            for option in form.options_of(item) {
                if !from.banned[option] {
                    let extra = from.values[option][0] - from.values[key as usize][0];
                    self.candidates.push((extra, index(option)));
                }
            }
        }
    }

    fn time(&self, form: &ScaledModel, window: usize) -> f64 {
        let rows = form.rows_of(window).iter();
        let times = rows.map(|&row| self.used[row as usize]);
        times.fold(form.floors[window], f64::max)
    }

    /// Moves items off rows over their limit, least objective for what is won first.
    fn repair(&mut self, model: &Model, form: &ScaledModel, near: usize) -> bool {
        for _ in 0..4 * self.choice.len() + 16 {
            let Some(row) = self.worst(model, form) else {
                return true;
            };
            let mut best: Option<(f64, u32)> = None;
            for place in 0..near {
                let option = self.candidates[place].1;
                let item = form.item_of[option as usize];
                let now = self.choice[item as usize];
                if now == option || !touches(model.uses_of(now as usize), row) {
                    continue;
                }
                let change = self.shift(model, form, item, option);
                self.undo();
                let score = change.objective.max(0.0) / -change.over;
                if change.over < -1e-12 && best.is_none_or(|best| score < best.0) {
                    best = Some((score, option));
                }
            }
            let Some((_, option)) = best else {
                return false;
            };
            self.shift(model, form, form.item_of[option as usize], option);
        }
        false
    }

    /// The limited row that is most over its limit.
    fn worst(&self, model: &Model, form: &ScaledModel) -> Option<u32> {
        let mut worst = None;
        let mut most = 0.0;
        for (row, at) in model.rows.iter().enumerate() {
            let over = self.used[row] - at.value;
            if at.window == NONE && over > tolerance(model, form, row) {
                let over = over * form.row_scale[row];
                if over > most {
                    (worst, most) = (Some(index(row)), over);
                }
            }
        }
        worst
    }

    /// Takes every change that lowers the objective and keeps all limits; false where none did.
    fn improve(&mut self, model: &Model, form: &ScaledModel, near: usize) -> bool {
        let before = self.objective;
        for place in 0..near {
            let option = self.candidates[place].1;
            let item = form.item_of[option as usize];
            if self.choice[item as usize] == option {
                continue;
            }
            let change = self.shift(model, form, item, option);
            if change.objective >= -1e-12 * self.objective.abs() || change.over > 0.0 {
                self.undo();
            }
        }
        self.objective < before
    }

    /// Changes items at random, and takes what costs little more the less readily the later
    /// (Kirkpatrick, Gelatt and Vecchi 1983); ends at the best choice on the way.
    pub(super) fn anneal(&mut self, model: &Model, form: &ScaledModel, control: &Control) {
        let mut random = Random::new(0, 2);
        let mut best = self.objective;
        self.kept.clone_from(&self.choice);
        let warm = WARM * best.abs() / form.floors.len().max(1) as f64;
        let covered = |used: &Use| (used.end - used.first) as usize;
        let covered: usize = model.uses.iter().map(covered).sum();
        let mean = covered / model.options.len().max(1);
        let changes = (EACH * model.options.len()).min(WORK / (mean + 1));
        for change in 0..changes {
            if change % 1024 == 0 && control.is_cancelled() {
                break;
            }
            let heat = warm * COOL.powf(change as f64 / changes as f64);
            let option = self.candidates[random.below(self.candidates.len())].1;
            let item = form.item_of[option as usize];
            if self.choice[item as usize] == option {
                continue;
            }
            let most = -heat * random.uniform().max(f64::MIN_POSITIVE).ln();
            let change = self.shift(model, form, item, option);
            if change.over > 0.0 || change.objective > most {
                self.undo();
            } else if self.objective < best {
                best = self.objective;
                self.kept.clone_from(&self.choice);
            }
        }
        self.choice.clone_from(&self.kept);
    }

    /// Changes an item's option.
    fn shift(&mut self, model: &Model, form: &ScaledModel, item: u32, option: u32) -> OptionChange {
        let old = std::mem::replace(&mut self.choice[item as usize], option);
        self.last = (item, old, self.objective);
        self.stamp += 1;
        self.rows.clear();
        self.windows.clear();
        self.add(model, old, -1.0);
        self.add(model, option, 1.0);
        let costs = &model.options;
        let mut gain = costs[option as usize].cost - costs[old as usize].cost;
        let mut over = 0.0;
        for place in 0..self.rows.len() {
            let (row, before) = self.rows[place];
            let at = model.rows[row as usize];
            let now = self.used[row as usize];
            if at.window == NONE {
                let limit = at.value + tolerance(model, form, row as usize);
                let more = (now - limit).max(0.0) - (before - limit).max(0.0);
                over += more * form.row_scale[row as usize];
            } else if self.window_stamps[at.window as usize] != self.stamp {
                let window = at.window as usize;
                self.window_stamps[window] = self.stamp;
                let time = self.time(form, window);
                self.windows.push((at.window, self.times[window]));
                gain += model.windows[window].weight * (time - self.times[window]);
                self.times[window] = time;
            }
        }
        self.objective += gain;
        OptionChange {
            objective: gain,
            over,
        }
    }

    fn add(&mut self, model: &Model, option: u32, sign: f64) {
        for used in model.uses_of(option as usize) {
            for row in used.first..used.end {
                let place = row as usize;
                if self.row_stamps[place] != self.stamp {
                    self.row_stamps[place] = self.stamp;
                    self.rows.push((row, self.used[place]));
                }
                self.used[place] += sign * used.amount;
            }
        }
    }

    /// Takes the last change back.
    fn undo(&mut self) {
        let (item, old, objective) = self.last;
        self.choice[item as usize] = old;
        self.objective = objective;
        for &(row, used) in &self.rows {
            self.used[row as usize] = used;
        }
        for &(window, time) in &self.windows {
            self.times[window as usize] = time;
        }
    }
}

/// Where a rounding starts.
pub(super) struct RoundingStart<'a> {
    pub(super) keys: &'a [u32],
    pub(super) values: &'a [[f64; 2]],
    pub(super) banned: &'a [bool],
    /// So many changes of one item are looked at first: those that cost least at the prices.
    pub(super) near: usize,
}

fn touches(uses: &[Use], row: u32) -> bool {
    let over = |used: &Use| (used.first..used.end).contains(&row) && used.amount > 0.0;
    uses.iter().any(over)
}

//! At which prices of the rows do the items' cheapest options just fit?

use super::inverse::Inverse;
use super::model::{NONE, index};
use super::ratio_test::RatioTest;
use super::scaled_model::{Run, ScaledModel};
use crate::control::Control;
use crate::solve::Random;

/// Shares and scaled uses nearer to what they may be than this are there.
pub(super) const NEAR: f64 = 1e-12;
/// Rates of change below this are rounding.
pub(super) const STILL: f64 = 1e-9;
/// Exchanges between two inversions from scratch.
const FRESH: usize = 120;
/// Operations that a root may take: a few seconds.
const WORK: f64 = 1e9;
/// From twice as many items on, about this many tell how to begin with all.
const MANY: usize = 700;

/// How a run of the method ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SimplexEnd {
    #[default]
    Optimal,
    /// No shares keep all rows within their limits: proven by the last step.
    Infeasible,
    /// The objective is at least what was to be cut off.
    CutOff,
    /// Out of work, or of digits.
    Stalled,
    Cancelled,
}

/// Dual simplex method with one key option for each item and long steps.
///
/// The basis is a key for each item (Dantzig and Van Slyke 1967) and a kernel: as many tight rows
/// as there are other basic options and stretched windows. Slacks of all other rows are basic and
/// need no place in the kernel, so rows that do not bind cost a sum each. A step moves the prices
/// along an edge; the items whose cheapest option changes on the way, and that have no other basic
/// option, change their key and the step goes on while the Lagrangian still grows (long-step rule: Fourer 1994;
/// Maros 2003). A start at zero prices is dual feasible, so there is no first phase.
#[derive(Debug, Default)]
pub(super) struct Simplex {
    /// Items that take part, and the part of each row that is theirs.
    pub(super) active: Vec<u32>,
    pub(super) right: Vec<f64>,
    pub(super) keys: Vec<u32>,
    /// Basic options of each item beside its key.
    pub(super) members: Vec<u32>,
    pub(super) banned: Vec<bool>,
    /// Options, and past them windows, that the kernel's columns stand for.
    pub(super) basic: Vec<u32>,
    pub(super) tight: Vec<u32>,
    pub(super) place_of: Vec<u32>,
    pub(super) row_place: Vec<u32>,
    pub(super) inverse: Inverse,
    /// What the keys leave of each row.
    pub(super) left: Vec<f64>,
    /// Value of each basic variable.
    pub(super) shares: Vec<f64>,
    pub(super) slack: Vec<f64>,
    pub(super) prices: Vec<f64>,
    pub(super) step: Vec<f64>,
    pub(super) key_share: Vec<f64>,
    pub(super) ratio: RatioTest,
    pub(super) column: Vec<f64>,
    /// Squared lengths of the edges on which rows and basic variables would leave, by reference.
    pub(super) row_weights: Vec<f64>,
    pub(super) weights: Vec<f64>,
    pub(super) gathered: Vec<f64>,
    pub(super) solved: Vec<f64>,
    /// What the leaving row makes with the inverse.
    pub(super) line: Vec<f64>,
    pub(super) others: Vec<u32>,
    pub(super) marks: Vec<f64>,
    pub(super) matrix: Vec<f64>,
    pub(super) since_fresh: usize,
    /// Weight of what has just entered.
    pub(super) entered: f64,
    /// An item that has just lost a member.
    pub(super) loose: u32,
    /// Operations so far, nearly, and how many there may be.
    work: f64,
    pub(super) allowed: f64,
}

/// What leaves the basis: the slack of a row, or a basic variable (`sign` -1: it is too large).
#[derive(Debug, Clone, Copy)]
pub(super) enum LeavingVariable {
    Row(usize),
    Basic { place: usize, sign: f64 },
}

impl Simplex {
    /// Zero prices and nobody banned.
    pub(super) fn start(&mut self, form: &ScaledModel) {
        let options = form.costs.len();
        self.banned.clear();
        self.banned.resize(options, false);
        self.place_of.clear();
        self.place_of.resize(options + form.weights.len(), NONE);
        self.row_place.clear();
        self.row_place.resize(form.right.len(), NONE);
        self.members.clear();
        self.members.resize(form.whole.len(), 0);
        self.key_share.clear();
        self.key_share.resize(form.whole.len(), 1.0);
        self.keys.clear();
        self.keys.extend_from_slice(&form.items[..form.whole.len()]);
        self.prices.clear();
        self.prices.resize(form.right.len(), 0.0);
        self.step.clear();
        self.step.resize(form.right.len(), 0.0);
        self.basic.clear();
        self.weights.clear();
        self.row_weights.clear();
        self.row_weights.resize(form.right.len(), 1.0);
        self.tight.clear();
        self.inverse.clear();
        (self.since_fresh, self.loose) = (0, NONE);
        (self.work, self.allowed) = (0.0, WORK);
        self.ratio.start(options);
        self.all(form);
    }

    /// All items take part.
    fn all(&mut self, form: &ScaledModel) {
        self.active.clear();
        self.active.extend(0..index(form.whole.len()));
        self.right.clone_from(&form.right);
        self.reset_left(form);
    }

    /// Solves for few of many items with as large a part of each row, then for all from there: the
    /// few tell nearly the prices, and what is cheapest at those for the others is dual feasible. Ends
    /// where the Lagrangian of all reaches `cut` (scaled).
    pub(super) fn run_few_then_all(
        &mut self,
        form: &ScaledModel,
        cut: f64,
        control: &Control,
    ) -> SimplexEnd {
        let items = form.whole.len();
        let few = if items < 2 * MANY { 1 } else { items / MANY };
        for among in [few, 1] {
            self.active.clear();
            let mut random = Random::new(0, 1);
            let chosen = (0..index(items)).filter(|_| random.below(among) == 0);
            self.active.extend(chosen);
            self.right.clear();
            let part = self.active.len() as f64 / items.max(1) as f64;
            self.right
                .extend(form.right.iter().map(|right| right * part));
            self.reset_left(form);
            self.take_cheapest(form);
            if among > 1 {
                self.run(form, f64::INFINITY, control);
            }
        }
        self.run(form, cut, control)
    }

    /// Steps until nothing is out of bounds, or the Lagrangian reaches `cut` (scaled).
    pub(super) fn run(&mut self, form: &ScaledModel, cut: f64, control: &Control) -> SimplexEnd {
        let mut troubles = 0;
        loop {
            if control.is_cancelled() {
                return SimplexEnd::Cancelled;
            }
            self.set_shares(form);
            self.exchange_keys(form);
            self.set_prices(form);
            if self.rekey_loose_item(form) {
                continue;
            }
            let Some(leaving) = self.worst() else {
                return SimplexEnd::Optimal;
            };
            let kernel = self.basic.len() * self.basic.len();
            self.work += (3 * kernel + 2 * form.runs.len() + 1000) as f64;
            if self.work > self.allowed || troubles > 5 {
                return SimplexEnd::Stalled;
            }
            self.set_step(form, leaving);
            let item = self.item_of(form, leaving);
            self.scan(form, item);
            if self.ratio.sum > cut {
                return SimplexEnd::CutOff;
            }
            let violation = self.violation(leaving);
            let Some(entering) = self.long_step(form, violation) else {
                return SimplexEnd::Infeasible;
            };
            if self.exchange(form, leaving, &entering) {
                continue;
            }
            troubles += 1;
            self.refresh(form);
            self.set_prices(form);
            self.take_cheapest(form);
        }
    }

    /// Every item without other basic options takes its cheapest at the present prices.
    pub(super) fn take_cheapest(&mut self, form: &ScaledModel) {
        self.scan_values(form);
        for place in 0..self.active.len() {
            self.settle_item(form, self.active[place] as usize);
        }
    }

    fn settle_item(&mut self, form: &ScaledModel, item: usize) {
        if self.members[item] > 0 {
            return;
        }
        let open = form.options_of(item).filter(|&option| !self.banned[option]);
        let value = |option: usize| self.ratio.values[option][0];
        let best = open.min_by(|&a, &b| value(a).total_cmp(&value(b)));
        if let Some(best) = best {
            self.set_key(form, item, index(best));
        }
    }

    /// Gives the item another key and the rows what is then left of them.
    pub(super) fn set_key(&mut self, form: &ScaledModel, item: usize, key: u32) {
        let old = std::mem::replace(&mut self.keys[item], key);
        if old != key {
            add_runs(form.runs_of(old as usize), 1.0, &mut self.left);
            add_runs(form.runs_of(key as usize), -1.0, &mut self.left);
        }
    }

    pub(super) fn reset_left(&mut self, form: &ScaledModel) {
        self.left.clone_from(&self.right);
        for &item in &self.active {
            let key = self.keys[item as usize] as usize;
            add_runs(form.runs_of(key), -1.0, &mut self.left);
        }
    }

    /// Values of the basic variables, and the slack that they leave on each row.
    fn set_shares(&mut self, form: &ScaledModel) {
        if self.since_fresh > FRESH.max(self.basic.len()) {
            self.refresh(form);
        }
        self.compute_shares(form);
        let off = |row: &u32| self.slack[*row as usize].abs();
        let size = self
            .shares
            .iter()
            .fold(1.0, |most: f64, share| most.max(share.abs()));
        let off = self.tight.iter().map(off).fold(0.0, f64::max);
        if off > 1e-9 * size && self.since_fresh > 20 {
            self.refresh(form);
            self.compute_shares(form);
        }
    }

    fn compute_shares(&mut self, form: &ScaledModel) {
        self.gathered.clear();
        let left = self.tight.iter().map(|&row| self.left[row as usize]);
        self.gathered.extend(left);
        self.inverse.times(&self.gathered, &mut self.shares);
        self.slack.clear();
        self.slack.resize(form.right.len(), 0.0);
        for (&variable, &share) in self.basic.iter().zip(&self.shares) {
            if share == 0.0 {
                continue;
            }
            let variable = variable as usize;
            if variable < form.costs.len() {
                let key = self.keys[form.item_of[variable] as usize] as usize;
                mark_runs(form, variable, -share, &mut self.slack);
                mark_runs(form, key, share, &mut self.slack);
            }
        }
        let mut sum = 0.0;
        for (row, slack) in self.slack.iter_mut().enumerate() {
            sum = if form.cut[row] { *slack } else { sum + *slack };
            *slack = sum + self.left[row];
        }
        for (&variable, &share) in self.basic.iter().zip(&self.shares) {
            if let Some(window) = (variable as usize).checked_sub(form.costs.len()) {
                for &row in form.rows_of(window) {
                    self.slack[row as usize] += share * form.pull[row as usize];
                }
            }
        }
    }

    /// Makes a member the key where the key has less than nothing, or may not be taken.
    fn exchange_keys(&mut self, form: &ScaledModel) {
        let items = |variable: &u32| form.item_of.get(*variable as usize).copied();
        for item in self.basic.iter().filter_map(items) {
            self.key_share[item as usize] = 1.0;
        }
        for (variable, share) in self.basic.iter().zip(&self.shares) {
            if let Some(item) = items(variable) {
                self.key_share[item as usize] -= share;
            }
        }
        for place in 0..self.basic.len() {
            let Some(item) = items(&self.basic[place]) else {
                continue;
            };
            let item = item as usize;
            let banned = self.banned[self.keys[item] as usize];
            if banned || self.key_share[item] < -NEAR {
                self.exchange_key(form, item, banned);
            }
        }
    }

    fn exchange_key(&mut self, form: &ScaledModel, item: usize, banned: bool) {
        self.others.clear();
        let own = form.options_of(item);
        let others = self
            .basic
            .iter()
            .enumerate()
            .filter(|(_, variable)| own.contains(&(**variable as usize)))
            .map(|(place, _)| index(place));
        self.others.extend(others);
        let rank = |place: &&u32| {
            let place = **place as usize;
            let open = !self.banned[self.basic[place] as usize];
            (open, self.shares[place])
        };
        let best = self.others.iter().max_by(|a, b| {
            let (a, b) = (rank(a), rank(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        let Some(&best) = best else { return };
        let place = best as usize;
        if banned && self.banned[self.basic[place] as usize] && self.key_share[item] >= -NEAR {
            return;
        }
        self.others.retain(|&other| other != best);
        self.inverse.turn(place, &self.others);
        let (old, new) = (self.keys[item], self.basic[place]);
        self.basic[place] = old;
        self.place_of[old as usize] = best;
        self.place_of[new as usize] = NONE;
        std::mem::swap(&mut self.shares[place], &mut self.key_share[item]);
        self.set_key(form, item, new);
    }

    fn set_prices(&mut self, form: &ScaledModel) {
        self.gathered.clear();
        for &variable in &self.basic {
            let variable = variable as usize;
            self.gathered
                .push(match variable.checked_sub(form.costs.len()) {
                    Some(window) => -form.weights[window],
                    None => form.costs[self.key_of(form, variable)] - form.costs[variable],
                });
        }
        self.inverse.before(&self.gathered, &mut self.solved);
        for (&row, &price) in self.tight.iter().zip(&self.solved) {
            self.prices[row as usize] = price;
        }
    }

    fn key_of(&self, form: &ScaledModel, option: usize) -> usize {
        self.keys[form.item_of[option] as usize] as usize
    }

    /// What is furthest out of its bounds.
    fn worst(&self) -> Option<LeavingVariable> {
        let (mut worst, mut most) = (None, 0.0);
        for (row, &slack) in self.slack.iter().enumerate() {
            let over = -slack - 0.5 * NEAR - 1e-10 * self.right[row];
            if over > 0.0
                && over * over > most * self.row_weights[row]
                && self.row_place[row] == NONE
            {
                worst = Some(LeavingVariable::Row(row));
                most = over * over / self.row_weights[row];
            }
        }
        for (place, &share) in self.shares.iter().enumerate() {
            let banned = self.banned.get(self.basic[place] as usize) == Some(&true);
            let over = share.abs() - NEAR;
            let counts = over > 0.0 && (share < 0.0 || banned);
            if counts && over * over > most * self.weights[place] {
                let sign = if share < 0.0 { 1.0 } else { -1.0 };
                worst = Some(LeavingVariable::Basic { place, sign });
                most = over * over / self.weights[place];
            }
        }
        worst
    }

    fn violation(&self, leaving: LeavingVariable) -> f64 {
        match leaving {
            LeavingVariable::Row(row) => -self.slack[row],
            LeavingVariable::Basic { place, .. } => self.shares[place].abs(),
        }
    }

    /// The item of a leaving option.
    fn item_of(&self, form: &ScaledModel, leaving: LeavingVariable) -> u32 {
        let LeavingVariable::Basic { place, .. } = leaving else {
            return NONE;
        };
        let variable = self.basic[place] as usize;
        form.item_of.get(variable).copied().unwrap_or(NONE)
    }

    /// How the prices move for each unit of the leaving variable's reduced cost.
    fn set_step(&mut self, form: &ScaledModel, leaving: LeavingVariable) {
        self.step.fill(0.0);
        match leaving {
            LeavingVariable::Row(row) => {
                self.gathered.clear();
                for &variable in &self.basic {
                    self.gathered.push(self.entry(form, variable as usize, row));
                }
                self.inverse.before(&self.gathered, &mut self.line);
                for (&tight, &change) in self.tight.iter().zip(&self.line) {
                    self.step[tight as usize] = -change;
                }
                self.step[row] = 1.0;
            }
            LeavingVariable::Basic { place, sign } => {
                for (&tight, &change) in self.tight.iter().zip(self.inverse.row(place)) {
                    self.step[tight as usize] = sign * change;
                }
            }
        }
    }

    /// What a basic variable uses of a row beyond what the item's key does.
    fn entry(&self, form: &ScaledModel, variable: usize, row: usize) -> f64 {
        let Some(window) = variable.checked_sub(form.costs.len()) else {
            let key = self.key_of(form, variable);
            return use_of(form.runs_of(variable), row) - use_of(form.runs_of(key), row);
        };
        if form.window_of[row] as usize == window {
            -form.pull[row]
        } else {
            0.0
        }
    }

    /// The column of a variable, on all rows.
    pub(super) fn set_column(&mut self, form: &ScaledModel, variable: usize) {
        self.column.clear();
        self.column.resize(form.right.len(), 0.0);
        if let Some(window) = variable.checked_sub(form.costs.len()) {
            for &row in form.rows_of(window) {
                self.column[row as usize] = -form.pull[row as usize];
            }
        } else {
            let key = self.key_of(form, variable);
            add_runs(form.runs_of(variable), 1.0, &mut self.column);
            add_runs(form.runs_of(key), -1.0, &mut self.column);
        }
    }

    /// An item that lost its last member and whose key is banned takes another: true where one did.
    fn rekey_loose_item(&mut self, form: &ScaledModel) -> bool {
        let item = std::mem::replace(&mut self.loose, NONE) as usize;
        if item >= self.keys.len() || self.members[item] > 0 {
            return false;
        }
        if !self.banned[self.keys[item] as usize] {
            return false;
        }
        for option in form.options_of(item) {
            let paid = |run: &Run| {
                let rows = &self.prices[run.first as usize..=run.last as usize];
                run.amount * rows.iter().sum::<f64>()
            };
            let paid: f64 = form.runs_of(option).iter().map(paid).sum();
            self.ratio.values[option][0] = form.costs[option] + paid;
        }
        self.settle_item(form, item);
        true
    }
}

fn use_of(runs: &[Run], row: usize) -> f64 {
    let over = |run: &&Run| (run.first as usize..=run.last as usize).contains(&row);
    runs.iter().filter(over).map(|run| run.amount).sum()
}

fn add_runs(runs: &[Run], factor: f64, rows: &mut [f64]) {
    for run in runs {
        for row in &mut rows[run.first as usize..=run.last as usize] {
            *row += factor * run.amount;
        }
    }
}

/// As `add_runs`, where the rows are summed along each stretch afterwards.
pub(super) fn mark_runs(form: &ScaledModel, option: usize, factor: f64, rows: &mut [f64]) {
    for run in form.runs_of(option) {
        rows[run.first as usize] += factor * run.amount;
        let end = run.last as usize + 1;
        if !form.cut[end] {
            rows[end] -= factor * run.amount;
        }
    }
}

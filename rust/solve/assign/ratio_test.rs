//! How far may the prices move along an edge, and whose cheapest option changes on the way?

use super::model::{NONE, index};
use super::scaled_model::ScaledModel;
use super::simplex::{NEAR, STILL, Simplex};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Reduced costs this near to one another tie.
const TIE: f64 = 1e-10;
/// And these where the pivot would else be tiny.
const LOOSE_TIE: f64 = 1e-8;
const TINY: f64 = 1e-4;
/// Pivots below this are looked at twice.
const WEAK: f64 = 1e-2;

/// What the last walk over all options found.
#[derive(Debug, Default)]
pub(super) struct RatioTest {
    /// Cost and uses at the prices, and their change along the step, by option.
    pub(super) values: Vec<[f64; 2]>,
    /// Sums of prices and steps up to each row, without and with it.
    without: Vec<[f64; 2]>,
    with: Vec<[f64; 2]>,
    breaks: Vec<Breakpoint>,
    /// Rates below this are rounding.
    still: f64,
    /// The Lagrangian (scaled) before the step.
    pub(super) sum: f64,
}

/// A reduced cost that reaches zero at `at`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Breakpoint {
    pub(super) at: f64,
    /// Fall of the reduced cost along the step.
    pub(super) rate: f64,
    /// An option, past them a window, past them a row.
    pub(super) what: u32,
    /// True where the step cannot go past it.
    pub(super) wall: bool,
}

impl Eq for Breakpoint {}

impl PartialOrd for Breakpoint {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The first break is the greatest; of two at one place the one with the larger rate.
impl Ord for Breakpoint {
    fn cmp(&self, other: &Self) -> Ordering {
        let first = other.at.total_cmp(&self.at);
        first
            .then(self.rate.total_cmp(&other.rate))
            .then(other.what.cmp(&self.what))
    }
}

impl RatioTest {
    pub(super) fn start(&mut self, options: usize) {
        self.values.clear();
        self.values.resize(options, [0.0; 2]);
    }
}

impl Simplex {
    /// Values of all options at the prices.
    pub(super) fn scan_values(&mut self, form: &ScaledModel) {
        self.sum_along_rows(form);
        let RatioTest {
            with,
            without,
            values,
            ..
        } = &mut self.ratio;
        for &item in &self.active {
            let own = form.options_of(item as usize);
            let mut runs = form.runs[form.options[own.start] as usize..].iter();
            let ends = form.options[own.start..=own.end].windows(2);
            let options = values[own.clone()].iter_mut().zip(&form.costs[own]);
            for ((value, &cost), ends) in options.zip(ends) {
                let (mut now, mut change) = (cost, 0.0);
                let runs = runs.by_ref().take((ends[1] - ends[0]) as usize);
                if form.single {
                    for run in runs {
                        let [price, step] = with[run.last as usize];
                        now += run.amount * price;
                        change += run.amount * step;
                    }
                } else {
                    for run in runs {
                        let (high, low) = (with[run.last as usize], without[run.first as usize]);
                        now += run.amount * (high[0] - low[0]);
                        change += run.amount * (high[1] - low[1]);
                    }
                }
                *value = [now, change];
            }
        }
    }

    fn sum_along_rows(&mut self, form: &ScaledModel) {
        self.ratio.without.clear();
        self.ratio.with.clear();
        let mut sum = [0.0; 2];
        for (row, (price, step)) in self.prices.iter().zip(&self.step).enumerate() {
            if form.cut[row] {
                sum = [0.0; 2];
            }
            self.ratio.without.push(sum);
            sum = [sum[0] + price, sum[1] + step];
            self.ratio.with.push(sum);
        }
    }

    /// Walks over all options and collects where their reduced costs reach zero along the step.
    ///
    /// `leaving` is the item of an option that leaves the basis.
    pub(super) fn scan(&mut self, form: &ScaledModel, leaving: u32) {
        self.scan_values(form);
        self.ratio.breaks.clear();
        let size = self
            .step
            .iter()
            .fold(1.0, |most: f64, step| most.max(step.abs()));
        self.ratio.still = STILL * size;
        let mut nearest = self.row_walls(form);
        let rows = self.prices.iter().zip(&self.right);
        self.ratio.sum = -rows.map(|(price, right)| price * right).sum::<f64>();
        for place in 0..self.active.len() {
            let item = self.active[place] as usize;
            self.ratio.sum += self.ratio.values[self.keys[item] as usize][0];
            let alone = self.members[item] == u32::from(item == leaving as usize);
            if alone {
                let found = self.next_break(form, item, 0.0, nearest);
                self.ratio.breaks.extend(found);
            } else {
                nearest = self.item_walls(form, item, nearest);
            }
        }
    }

    /// Tight rows whose price falls to zero and windows that begin to stretch.
    fn row_walls(&mut self, form: &ScaledModel) -> f64 {
        let mut nearest = f64::INFINITY;
        let windows = form.costs.len();
        let rows = windows + form.weights.len();
        for &row in &self.tight {
            let rate = -self.step[row as usize];
            let at = (self.prices[row as usize] / rate).max(0.0);
            if rate > self.ratio.still && at <= nearest {
                nearest = at;
                let what = index(rows) + row;
                self.ratio.breaks.push(wall(at, rate, what));
            }
        }
        for (window, &weight) in form.weights.iter().enumerate() {
            let what = windows + window;
            if self.place_of[what] != NONE {
                continue;
            }
            let (mut reduced, mut rate) = (weight, 0.0);
            for &row in form.rows_of(window) {
                let row = row as usize;
                reduced -= self.prices[row] * form.pull[row];
                rate += self.step[row] * form.pull[row];
            }
            let at = (reduced / rate).max(0.0);
            if rate > self.ratio.still && at <= nearest {
                nearest = at;
                self.ratio.breaks.push(wall(at, rate, index(what)));
            }
        }
        nearest
    }

    /// Options of an item that has other basic ones beside its key.
    fn item_walls(&mut self, form: &ScaledModel, item: usize, mut nearest: f64) -> f64 {
        let key = self.keys[item] as usize;
        let [cost, change] = self.ratio.values[key];
        for option in form.options_of(item) {
            let [other, other_change] = self.ratio.values[option];
            let rate = change - other_change;
            if rate <= self.ratio.still || self.banned[option] || self.place_of[option] != NONE {
                continue;
            }
            let at = ((other - cost) / rate).max(0.0);
            if at <= nearest {
                nearest = at;
                self.ratio.breaks.push(wall(at, rate, index(option)));
            }
        }
        nearest
    }

    /// Where another option of the item becomes cheaper than its key, at `from` or later, but not after `to`.
    fn next_break(
        &self,
        form: &ScaledModel,
        item: usize,
        from: f64,
        to: f64,
    ) -> Option<Breakpoint> {
        let key = self.keys[item] as usize;
        let [cost, change] = self.ratio.values[key];
        let own = form.options_of(item);
        let values = self.ratio.values[own.clone()].iter();
        let mut next = Breakpoint {
            at: to,
            rate: 0.0,
            what: NONE,
            wall: false,
        };
        for ((option, value), banned) in own.clone().zip(values).zip(&self.banned[own]) {
            let (over, rate) = (value[0] - cost, change - value[1]);
            if rate <= self.ratio.still || over > next.at * rate || *banned {
                continue;
            }
            let at = (over / rate).max(from);
            if at < next.at || at <= next.at && rate > next.rate {
                (next.at, next.rate, next.what) = (at, rate, index(option));
            }
        }
        (next.what != NONE).then_some(next)
    }

    /// Goes along the step while the Lagrangian grows, and says what enters the basis; `slope` is
    /// its growth at first. None where it grows for ever.
    pub(super) fn long_step(&mut self, form: &ScaledModel, mut slope: f64) -> Option<Breakpoint> {
        let breaks = std::mem::take(&mut self.ratio.breaks);
        let mut heap = BinaryHeap::from(breaks);
        let mut entering = None;
        // a growth this small is rounding
        let still = NEAR * (1.0 + slope);
        while let Some(first) = heap.pop() {
            if first.wall || slope <= first.rate + still {
                entering = Some(strongest(first, slope, &mut heap));
                break;
            }
            slope -= first.rate;
            let item = form.item_of[first.what as usize] as usize;
            self.set_key(form, item, first.what);
            heap.extend(self.next_break(form, item, first.at, f64::INFINITY));
        }
        self.ratio.breaks = heap.into_vec();
        entering
    }
}

/// Of the breaks that tie with `first`, one with a larger pivot where its own is small.
fn strongest(first: Breakpoint, slope: f64, heap: &mut BinaryHeap<Breakpoint>) -> Breakpoint {
    let mut best = first;
    while best.rate < WEAK {
        let tie = if best.rate < TINY { LOOSE_TIE } else { TIE };
        let tied = heap.pop().filter(|next| next.at <= first.at + tie);
        let Some(next) = tied else { break };
        if next.rate > best.rate && (next.wall || slope <= next.rate) {
            best = next;
        }
    }
    best
}

fn wall(at: f64, rate: f64, what: u32) -> Breakpoint {
    Breakpoint {
        at,
        rate,
        what,
        wall: true,
    }
}

impl Simplex {
    /// Inverts the kernel from scratch, without what makes it singular.
    pub(super) fn refresh(&mut self, form: &ScaledModel) {
        let mut matrix = std::mem::take(&mut self.matrix);
        loop {
            let size = self.basic.len();
            matrix.clear();
            matrix.resize(size * size, 0.0);
            for place in 0..size {
                self.set_column(form, self.basic[place] as usize);
                for (tight, &row) in self.tight.iter().enumerate() {
                    matrix[tight * size + place] = self.column[row as usize];
                }
            }
            let Err((basic, tight)) = self.inverse.invert(&mut matrix, size) else {
                break;
            };
            self.drop_basic(form, basic);
            self.drop_tight(tight);
        }
        self.matrix = matrix;
        self.since_fresh = 0;
        self.reset_left(form);
    }
}

//! Which shares and prices nearly balance, where too many rows bind to invert anything?

use super::model::{NONE, index};
use super::scaled_model::ScaledModel;
use crate::control::Control;

/// Steps of the power method that measures the matrix.
const MEASURES: usize = 20;

/// Restarted Halpern iteration of the primal-dual hybrid gradient method.
///
/// A step moves the shares against their cost at the prices and the prices along what rows are over:
/// x' = project(x - t (c + A^T p)), p' = max(0, p + s (A (2 x' - x) - b)) (Chambolle and Pock 2011), with steps by
/// item and row (Pock and Chambolle 2011). Windows are no variables: the prices of a window's rows are projected to
/// what adds to at most its weight, so every step's prices prove a bound as they are. The next point is what a reflection of the step gives, drawn
/// towards where the round began, and a new round begins where the step has become small (Lu and
/// Yang 2024). A step costs two sums over the runs, however many rows they cover.
#[derive(Debug, Default)]
pub(super) struct FirstOrder {
    /// Shares of options: the point, its step's end, the round's start.
    point: Vec<f64>,
    pub(super) ahead: Vec<f64>,
    anchor: Vec<f64>,
    /// Prices of rows in the same three roles.
    prices: Vec<f64>,
    pub(super) prices_ahead: Vec<f64>,
    price_anchor: Vec<f64>,
    /// Step lengths before `weight` and `length`.
    share_steps: Vec<f64>,
    price_steps: Vec<f64>,
    right: Vec<f64>,
    slope: Vec<f64>,
    /// The option that an item has been made to take.
    fixed: Vec<u32>,
    used: Vec<f64>,
    without: Vec<f64>,
    with: Vec<f64>,
    /// Prices count this much against shares.
    weight: f64,
    length: f64,
    round: u64,
    total: u64,
    first: f64,
    last: f64,
}

impl FirstOrder {
    /// Begins with equal shares, and each window's weight in equal parts on its rows. Limited rows are made smaller by the part `spare`, so that
    /// what is nearly within them is within the true ones.
    pub(super) fn start(&mut self, form: &ScaledModel, spare: f64) {
        let (options, rows) = (form.costs.len(), form.right.len());
        self.point.clear();
        self.point.resize(options, 0.0);
        for item in 0..form.whole.len() {
            let own = form.options_of(item);
            let share = 1.0 / own.len() as f64;
            self.point[own].fill(share);
        }
        self.fixed.clear();
        self.fixed.resize(form.whole.len(), NONE);
        self.anchor.clone_from(&self.point);
        self.ahead.clone_from(&self.point);
        self.prices.clear();
        self.prices.resize(rows, 0.0);
        for (window, &weight) in form.weights.iter().enumerate() {
            let own = form.rows_of(window);
            for &row in own {
                let row = row as usize;
                if form.pull[row] > 0.0 {
                    self.prices[row] = weight / form.pull[row] / own.len() as f64;
                }
            }
        }
        self.price_anchor.clone_from(&self.prices);
        self.prices_ahead.clone_from(&self.prices);
        self.right.clear();
        let pulled = form.right.iter().zip(&form.pull);
        let factor = |pull: f64| if pull > 0.0 { 1.0 } else { 1.0 - spare };
        self.right
            .extend(pulled.map(|(right, pull)| right * factor(*pull)));
        (self.round, self.total) = (0, 0);
        self.set_steps(form);
        self.measure(form);
    }

    /// Steps in balance: one over the sum of what an item may use, and of what a row may carry.
    fn set_steps(&mut self, form: &ScaledModel) {
        self.share_steps.clear();
        self.share_steps.resize(self.point.len(), 1.0);
        self.used.clear();
        self.used.resize(form.right.len(), 0.0);
        for item in 0..form.whole.len() {
            let own = form.options_of(item);
            let part = 1.0 / own.len() as f64;
            let mut most = 0.0_f64;
            for option in own.clone() {
                let mut sum = 0.0;
                for run in form.runs_of(option) {
                    let rows = run.first as usize..=run.last as usize;
                    for used in &mut self.used[rows] {
                        *used += part * run.amount;
                        sum += run.amount;
                    }
                }
                most = most.max(sum);
            }
            self.share_steps[own].fill(inverse(most));
        }
        self.price_steps.clear();
        self.price_steps
            .extend(self.used.iter().map(|&sum| inverse(sum)));
    }

    /// Sets the length of steps by the largest singular value of the matrix in their units.
    fn measure(&mut self, form: &ScaledModel) {
        let mut norm = 1.0_f64;
        for (place, (share, step)) in self.ahead.iter_mut().zip(&self.share_steps).enumerate() {
            // any direction will do that no symmetry hides
            *share = (1.0 + 0.37 * (place % 11) as f64) * step.sqrt();
        }
        for _ in 0..MEASURES {
            let sizes = self.ahead.iter().zip(&self.share_steps);
            let size: f64 = sizes.map(|(x, step)| x * x / step).sum();
            let size = size.sqrt().max(f64::MIN_POSITIVE);
            self.ahead.iter_mut().for_each(|x| *x /= size);
            sum_uses(form, &self.ahead, &mut self.used);
            for (price, (used, step)) in
                (self.prices_ahead.iter_mut()).zip(self.used.iter().zip(&self.price_steps))
            {
                *price = used * step;
            }
            self.set_slopes(form, true);
            let mut square = 0.0;
            for (x, (slope, step)) in
                (self.ahead.iter_mut()).zip(self.slope.iter().zip(&self.share_steps))
            {
                *x = slope * step;
                square += slope * slope * step;
            }
            norm = square.sqrt();
        }
        self.length = 0.95 / norm.sqrt().max(f64::MIN_POSITIVE);
        self.ahead.clone_from(&self.point);
        self.prices_ahead.clone_from(&self.prices);
        self.set_slopes(form, false);
        // how far the first step leads, against what it will be paid for
        let costs = (self.slope.iter().zip(&self.share_steps)).map(|(c, step)| c * c * step);
        let rights = self.right.iter().zip(&self.price_steps);
        let rights = rights.map(|(b, step)| b * b * step);
        let weight = (costs.sum::<f64>() / rights.sum::<f64>()).sqrt();
        self.weight = if weight.is_normal() { weight } else { 1.0 };
    }

    /// `slope` = cost + price * use at the prices (`ahead`: those ahead, without costs).
    fn set_slopes(&mut self, form: &ScaledModel, ahead: bool) {
        let prices = if ahead {
            &self.prices_ahead
        } else {
            &self.prices
        };
        let costs = if ahead { 0.0 } else { 1.0 };
        self.without.clear();
        self.with.clear();
        let mut sum = 0.0;
        for (price, cut) in prices.iter().zip(&form.cut) {
            sum = if *cut { 0.0 } else { sum };
            self.without.push(sum);
            sum += price;
            self.with.push(sum);
        }
        self.slope.clear();
        for option in 0..form.costs.len() {
            let mut slope = costs * form.costs[option];
            for run in form.runs_of(option) {
                let (high, low) = (
                    self.with[run.last as usize],
                    self.without[run.first as usize],
                );
                slope += run.amount * (high - low);
            }
            self.slope.push(slope);
        }
    }

    /// Takes `steps` steps; false where cancelled.
    pub(super) fn advance(&mut self, form: &ScaledModel, steps: usize, control: &Control) -> bool {
        for _ in 0..steps {
            if control.is_cancelled() {
                return false;
            }
            self.step(form);
            self.restart_or_reflect();
        }
        true
    }

    /// The item takes the option of which it has most from now on.
    pub(super) fn fix(&mut self, form: &ScaledModel, item: usize) {
        self.fixed[item] = largest(&self.ahead, form.options_of(item));
    }

    /// What the item may use at most of all rows.
    pub(super) fn size(&self, form: &ScaledModel, item: usize) -> f64 {
        1.0 / self.share_steps[form.items[item] as usize]
    }

    /// Sets the points ahead.
    fn step(&mut self, form: &ScaledModel) {
        self.set_slopes(form, false);
        let along = self.length / self.weight;
        let moves = self.slope.iter().zip(&self.share_steps);
        for ((ahead, now), (slope, step)) in self.ahead.iter_mut().zip(&self.point).zip(moves) {
            *ahead = now - along * step * slope;
        }
        for item in 0..form.whole.len() {
            let own = &mut self.ahead[form.options_of(item)];
            if self.fixed[item] == NONE {
                project(own);
            } else {
                own.fill(0.0);
                self.ahead[self.fixed[item] as usize] = 1.0;
            }
        }
        // twice the point ahead less the point, for as long as its uses are summed
        for (slope, (ahead, now)) in (self.slope.iter_mut()).zip(self.ahead.iter().zip(&self.point))
        {
            *slope = 2.0 * ahead - now;
        }
        sum_uses(form, &self.slope, &mut self.used);
        let along = self.length * self.weight;
        let over = self.used.iter().zip(&self.right);
        let over = over.zip(&self.price_steps);
        for ((ahead, now), ((used, right), step)) in
            (self.prices_ahead.iter_mut()).zip(&self.prices).zip(over)
        {
            *ahead = (now + along * step * (used - right)).max(0.0);
        }
        self.project_prices(form);
    }

    /// Nearest prices of each window's rows that add to at most its weight (Michelot 1986, with steps as weights).
    fn project_prices(&mut self, form: &ScaledModel) {
        for (window, &weight) in form.weights.iter().enumerate() {
            let rows = form.rows_of(window);
            let mut level = 0.0;
            loop {
                let (mut sum, mut steps) = (0.0, 0.0);
                for &row in rows {
                    let row = row as usize;
                    let (pull, step) = (form.pull[row], self.price_steps[row]);
                    if self.prices_ahead[row] > level * step * pull {
                        sum += self.prices_ahead[row] * pull;
                        steps += step * pull * pull;
                    }
                }
                let next = (sum - weight) / steps;
                if next.is_nan() || next <= level {
                    break;
                }
                level = next;
            }
            if level > 0.0 {
                for &row in rows {
                    let row = row as usize;
                    let less = level * self.price_steps[row] * form.pull[row];
                    self.prices_ahead[row] = (self.prices_ahead[row] - less).max(0.0);
                }
            }
        }
    }

    fn restart_or_reflect(&mut self) {
        let moved = distance(&self.point, &self.ahead, &self.share_steps) * self.weight
            + distance(&self.prices, &self.prices_ahead, &self.price_steps) / self.weight;
        let moved = moved.sqrt();
        if self.round == 0 {
            (self.first, self.last) = (moved, moved);
        }
        self.round += 1;
        self.total += 1;
        let enough = moved <= 0.2 * self.first
            || moved <= 0.8 * self.first && moved > self.last
            || self.round as f64 >= 0.36 * self.total as f64;
        self.last = moved;
        if enough && self.round > 1 {
            self.restart();
            return;
        }
        let part = 1.0 / (self.round + 1) as f64;
        reflect(&mut self.point, &self.ahead, &self.anchor, part);
        reflect(
            &mut self.prices,
            &self.prices_ahead,
            &self.price_anchor,
            part,
        );
    }

    /// A new round from the point ahead; shares and prices are weighed by how far each came.
    fn restart(&mut self) {
        let shares = distance(&self.anchor, &self.ahead, &self.share_steps).sqrt();
        let prices = distance(&self.price_anchor, &self.prices_ahead, &self.price_steps).sqrt();
        let weight = (self.weight * prices / shares).sqrt();
        if weight.is_normal() && self.round > 10 {
            self.weight = weight.clamp(self.weight / 4.0, 4.0 * self.weight);
        }
        self.point.clone_from(&self.ahead);
        self.anchor.clone_from(&self.ahead);
        self.prices.clone_from(&self.prices_ahead);
        self.price_anchor.clone_from(&self.prices_ahead);
        self.round = 0;
    }
}

/// The point reflected through the step's end, `part` of it drawn back to the anchor.
fn reflect(point: &mut [f64], ahead: &[f64], anchor: &[f64], part: f64) {
    for ((now, ahead), anchor) in point.iter_mut().zip(ahead).zip(anchor) {
        *now = (1.0 - part) * (2.0 * ahead - *now) + part * anchor;
    }
}

fn distance(a: &[f64], b: &[f64], steps: &[f64]) -> f64 {
    let apart = a.iter().zip(b).zip(steps);
    apart.map(|((a, b), step)| (a - b) * (a - b) / step).sum()
}

/// Of a run of options the one with the largest share.
pub(super) fn largest(shares: &[f64], own: std::ops::Range<usize>) -> u32 {
    let first = own.start;
    let most = own.max_by(|&a, &b| shares[a].total_cmp(&shares[b]));
    index(most.unwrap_or(first))
}

fn inverse(sum: f64) -> f64 {
    if sum > 0.0 { 1.0 / sum } else { 1.0 }
}

/// Nearest shares, none below zero, that add to 1 (Michelot 1986).
fn project(shares: &mut [f64]) {
    let (mut sum, mut count) = (shares.iter().sum::<f64>(), shares.len());
    let mut level = f64::NEG_INFINITY;
    loop {
        let next = (sum - 1.0) / count as f64;
        if next <= level || count == 0 {
            break;
        }
        level = next;
        let over = shares.iter().filter(|share| **share > level);
        (sum, count) = over.fold((0.0, 0), |(sum, count), share| (sum + share, count + 1));
    }
    for share in shares {
        *share = (*share - level).max(0.0);
    }
}

/// What shares use of each row.
fn sum_uses(form: &ScaledModel, shares: &[f64], used: &mut Vec<f64>) {
    used.clear();
    used.resize(form.right.len(), 0.0);
    for (option, &share) in shares[..form.costs.len()].iter().enumerate() {
        if share != 0.0 {
            for run in form.runs_of(option) {
                used[run.first as usize] += share * run.amount;
                let end = run.last as usize + 1;
                if !form.cut[end] {
                    used[end] -= share * run.amount;
                }
            }
        }
    }
    let mut sum = 0.0;
    for (used, cut) in used.iter_mut().zip(&form.cut) {
        sum = if *cut { *used } else { sum + *used };
        *used = sum;
    }
}

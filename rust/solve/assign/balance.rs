//! What is found, and what is proven, where rows are too many for the simplex method?

use super::branch::{Asked, Found, Tree};
use super::form::Form;
use super::model::index;

/// Steps between two looks at what they have come to.
const STEPS: usize = 100;
/// Operations that all steps may take, nearly: a few seconds.
const WORK: f64 = 7e9;
/// Parts of a fitting point that are mixed in until the mixture fits.
const BLENDS: u32 = 10;

impl Tree {
    /// Balances shares and prices until the gap is as asked, or for as long as it may take.
    ///
    /// Prices on the way give bounds above `bound`; shares, mixtures with a point that fits, and whole choices near
    /// them give points.
    pub(super) fn balance(&mut self, asked: &Asked, mut bound: f64) -> Found {
        let spare = (0.25 * asked.limits.gap).clamp(1e-4, 0.005);
        self.simplex.start(&self.form);
        self.first_order.start(&self.form, spare);
        for look in 1..=looks(&self.form) {
            if !(self.first_order).advance(&self.form, STEPS, asked.control) {
                return Found::Cancelled;
            }
            let prices = &self.first_order.prices_ahead;
            let banned = &self.simplex.banned;
            let here = (self.bound).at(asked.model, &self.form, prices, banned);
            if here > bound {
                bound = here;
                self.bound.price_bases(asked.model, &self.form);
                self.prices.clone_from(&self.bound.prices);
            }
            if look.is_multiple_of(5) {
                self.offer_rounded(asked);
            }
            if !self.form.whole.contains(&true) {
                self.offer_parts(asked);
            }
            if self.found && bound >= self.cut(asked) {
                break;
            }
        }
        self.outcome(bound)
    }

    /// Offers the shares as they are, or mixed with the best point by as little as will fit.
    fn offer_parts(&mut self, asked: &Asked) {
        let options = self.form.costs.len();
        for blend in 0..=BLENDS {
            // none of the best point at first, then 1/512 of it, twice as much each time
            let part = if blend == 0 {
                0.0
            } else {
                f64::from(1 << (blend - 1)) / f64::from(1 << (BLENDS - 1))
            };
            self.point.shares.clear();
            let ahead = &self.first_order.ahead[..options];
            if part > 0.0 {
                let best = &self.best.shares;
                let mixed = ahead.iter().zip(best);
                let mixed = mixed.map(|(ahead, best)| ahead + part * (best - ahead));
                self.point.shares.extend(mixed);
            } else {
                self.point.shares.extend_from_slice(ahead);
            }
            if self.offer(asked.model) || !self.found {
                return;
            }
        }
    }

    /// Offers a whole choice: the largest share of each item, then changes of one item.
    fn offer_rounded(&mut self, asked: &Asked) {
        let prices = &self.first_order.prices_ahead;
        self.simplex.prices.clone_from(prices);
        let shares = &self.first_order.ahead;
        for item in 0..self.form.whole.len() {
            let own = self.form.options_of(item);
            let most = own.max_by(|&a, &b| shares[a].total_cmp(&shares[b]));
            if let Some(most) = most {
                self.simplex.keys[item] = index(most);
            }
        }
        self.round(asked.model);
    }
}

/// How often to look, by what a step costs.
fn looks(form: &Form) -> usize {
    let step = (4 * form.runs.len() + 10 * form.costs.len() + 10 * form.right.len()) as f64;
    let looks = WORK / (step * STEPS as f64);
    (1..200)
        .take_while(|&look| f64::from(look) <= looks.max(5.0))
        .count()
}

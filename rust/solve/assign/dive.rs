//! Which whole choice comes of making items whole a few at a time, the largest first?

use super::branch::{SearchInputs, Tree};
use super::first_order::largest;
use super::model::index;

/// Steps after some items have become whole, for the others to make room.
const STEPS: usize = 120;
/// One in so many items becomes whole at a time, but fewer at first.
const PART: usize = 16;

impl Tree {
    /// Makes items whole from the balanced shares, changes them at random, and offers what comes of it;
    /// false where cancelled. `looks` says how many steps there may be.
    ///
    /// What is large does most harm where it is made whole last, when nothing can make room for it any more.
    pub(super) fn dive(&mut self, asked: &SearchInputs, looks: usize) -> bool {
        let steps = STEPS.min(2 * looks);
        self.simplex
            .prices
            .clone_from(&self.first_order.prices_ahead);
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        let whole = |item: &u32| self.form.whole[*item as usize];
        order.extend((0..index(self.form.whole.len())).filter(whole));
        let size = |item: u32| self.first_order.size(&self.form, item as usize);
        order.sort_unstable_by(|&a, &b| size(b).total_cmp(&size(a)).then(a.cmp(&b)));
        let mut done = 0;
        while done < order.len() {
            let next = (done + 1 + done / 4).min(done + 1 + order.len() / PART);
            let next = next.min(order.len());
            for &item in &order[done..next] {
                self.first_order.fix(&self.form, item as usize);
            }
            done = next;
            if !(self.first_order).advance(&self.form, steps, asked.control) {
                return false;
            }
        }
        self.order = order;
        if self.offer_shares(asked, usize::MAX) {
            self.anneal(asked);
        }
        !asked.control.is_cancelled()
    }

    /// Changes the rounded choice at random.
    fn anneal(&mut self, asked: &SearchInputs) {
        let model = asked.model;
        self.rounding.anneal(model, &self.form, asked.control);
        let choice = &self.rounding.choice;
        self.point.set_choice(self.form.costs.len(), choice);
        self.offer(model);
    }

    /// Changes the best choice at random; what is proven stays.
    pub(super) fn better(&mut self, asked: &SearchInputs) {
        if !self.found || !self.form.whole.iter().all(|whole| *whole) {
            return;
        }
        self.simplex.banned.fill(false);
        for item in 0..self.form.whole.len() {
            let own = self.form.options_of(item);
            self.simplex.keys[item] = largest(&self.best.shares, own);
        }
        if self.round(asked.model, usize::MAX) {
            self.anneal(asked);
        }
    }
}

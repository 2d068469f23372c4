//! What is found, and what is proven, where rows are too many for the simplex method?

use super::branch::{SearchEnd, SearchInputs, Tree};
use super::first_order::largest;
use super::rounding::NEAREST;
use super::scaled_model::ScaledModel;

/// Steps between two looks at what they have come to.
const STEPS: usize = 100;
/// Steps before each look of those that are only to prove that nothing is below what is asked for.
const PROBES: [usize; 4] = [10, 20, 50, 100];
/// Looks after which items are made whole.
const DIVE: usize = 40;
/// Operations that all steps may take, nearly: a few seconds.
const WORK: f64 = 1e10;
/// Parts of a fitting point that are mixed in until the mixture fits.
const BLENDS: u32 = 10;

impl Tree {
    /// Balances shares and prices until the gap is as asked, or for as long as it may take.
    ///
    /// Prices on the way give bounds above `bound`; shares, mixtures with a point that fits, and whole choices near
    /// them give points.
    pub(super) fn balance(&mut self, asked: &SearchInputs, mut bound: f64) -> SearchEnd {
        let spare = (0.25 * asked.limits.gap).clamp(1e-4, 0.005);
        bound = bound.max(self.lowest);
        self.simplex.start(&self.form);
        self.first_order.start(&self.form, spare);
        let whole = self.form.whole.contains(&true);
        let looks = looks(&self.form);
        for look in 1..=if whole { looks.min(DIVE) } else { looks } {
            if let Some(ended) = self.advance(asked, STEPS, &mut bound) {
                return ended;
            }
            if look == 5 || look.is_multiple_of(20) && !self.found {
                self.offer_rounded(asked);
            }
            if !whole {
                self.offer_parts(asked);
            }
            if self.found && bound >= self.cut(asked) {
                return self.outcome(bound);
            }
        }
        if whole && !self.dive(asked, looks) {
            return SearchEnd::Cancelled;
        }
        self.outcome(bound)
    }

    /// Looks for a proof that nothing is below what is asked for: of most models that have nothing there
    /// a few steps prove it, long before they come near to a balance.
    pub(super) fn probe(&mut self, asked: &SearchInputs) -> Option<SearchEnd> {
        if asked.limits.below == f64::INFINITY {
            return None;
        }
        let mut bound = self.lowest;
        if bound >= asked.limits.below {
            return Some(SearchEnd::NoneBelow(bound));
        }
        self.simplex.start(&self.form);
        self.first_order.start(&self.form, 0.0);
        PROBES
            .into_iter()
            .find_map(|steps| self.advance(asked, steps, &mut bound))
    }

    /// Takes steps and raises `bound` by what they prove; tells where that ends the search.
    fn advance(
        &mut self,
        asked: &SearchInputs,
        steps: usize,
        bound: &mut f64,
    ) -> Option<SearchEnd> {
        if !(self.first_order).advance(&self.form, steps, asked.control) {
            return Some(SearchEnd::Cancelled);
        }
        let prices = &self.first_order.prices_ahead;
        let banned = &self.simplex.banned;
        let here = (self.bound).at(asked.model, &self.form, prices, banned);
        if here > *bound {
            *bound = here;
            self.bound.price_bases(asked.model, &self.form);
            self.prices.clone_from(&self.bound.prices);
        }
        if *bound >= asked.limits.below {
            return Some(SearchEnd::NoneBelow(*bound));
        }
        let empty = !self.found && self.bound.proves_empty(&self.form, prices, banned);
        empty.then_some(SearchEnd::Nothing)
    }

    /// Offers the shares as they are, or mixed with the best point by as little as will fit.
    fn offer_parts(&mut self, asked: &SearchInputs) {
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
    fn offer_rounded(&mut self, asked: &SearchInputs) {
        self.simplex
            .prices
            .clone_from(&self.first_order.prices_ahead);
        self.offer_shares(asked, NEAREST);
    }

    /// As that, at the simplex method's prices and with `near` changes; false where it does not fit.
    pub(super) fn offer_shares(&mut self, asked: &SearchInputs, near: usize) -> bool {
        for item in 0..self.form.whole.len() {
            let own = self.form.options_of(item);
            self.simplex.keys[item] = largest(&self.first_order.ahead, own);
        }
        self.round(asked.model, near)
    }
}

/// How often to look, by what a step costs.
fn looks(form: &ScaledModel) -> usize {
    let step = (4 * form.runs.len() + 10 * form.costs.len() + 10 * form.right.len()) as f64;
    let looks = WORK / (step * STEPS as f64);
    (1..200)
        .take_while(|&look| f64::from(look) <= looks.max(5.0))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;
    use crate::solve::Random;
    use crate::solve::assign::{AssignOutcome, Limits, Model, assign};

    /// Items that live for a while in one of two tiers; the far one takes time when they begin.
    fn living(whole: bool) -> Model {
        let (instants, mut random) = (20_u32, Random::new(5, 0));
        let mut model = Model::new();
        let near: Vec<u32> = (0..instants).map(|_| model.limited_row(12.0)).collect();
        let paths: Vec<u32> = (0..instants)
            .map(|_| {
                let window = model.window(0.5, 1.0);
                model.timed_row(window, 0.1)
            })
            .collect();
        for item in 0..60 {
            let start = item % (instants - 5);
            let size = 1.0 + random.uniform();
            model.item(whole);
            model.option(0.0);
            model.uses(near[0] + start..near[0] + start + 5, size);
            model.option(0.0);
            let path = paths[start as usize];
            model.uses(path..path + 1, size);
        }
        model
    }

    #[test]
    fn balanced_shares_keep_limits_and_prices_prove_a_bound_below_the_best() {
        let (limits, control) = (Limits::default(), Control::new());
        for whole in [false, true] {
            let model = living(whole);
            let asked = SearchInputs {
                model: &model,
                limits: &limits,
                control: &control,
            };
            let mut tree = Tree::default();
            let SearchEnd::Best(exact) = tree.run(&asked) else {
                panic!("it fits");
            };
            let best = tree.best.objective;
            tree.found = false;
            let SearchEnd::Best(bound) = tree.balance(&asked, f64::NEG_INFINITY) else {
                panic!("it fits");
            };
            assert!(bound <= best && exact <= tree.best.objective);
            assert!(tree.best.fits(&model, &tree.form));
            let gap = (tree.best.objective - bound) / best;
            assert!(gap <= if whole { 0.1 } else { 0.01 }, "{whole}: {gap}");
        }
    }

    #[test]
    fn nothing_below_is_said_just_where_the_best_is_not_below() {
        let control = Control::new();
        for whole in [false, true] {
            let model = living(whole);
            let answer =
                |limits: &Limits| assign(&model, limits, &control).expect("it is well formed");
            let limits = Limits {
                gap: 1e-7,
                ..Limits::default()
            };
            let AssignOutcome::Solved(best) = answer(&limits) else {
                panic!("it fits");
            };
            for part in [0.01, 0.5, 0.9, 1.0 - 1e-6, 1.0 + 1e-5, 1.1, 10.0] {
                let below = best.objective * part;
                match answer(&Limits { below, ..limits }) {
                    AssignOutcome::NoneBelow(bound) => {
                        assert!(part < 1.0, "{whole}, {part}");
                        assert!(bound >= below && bound <= best.objective * (1.0 + 1e-12));
                    }
                    AssignOutcome::Solved(found) => {
                        // a relaxed program of whole choices may lie below what they cost
                        assert!(part > 1.0 || whole && found.objective >= below);
                        let apart = (found.objective - best.objective).abs();
                        assert!(apart <= 2e-7 * best.objective, "{whole}, {part}");
                    }
                    AssignOutcome::Infeasible(_) => panic!("it fits"),
                }
            }
        }
    }

    #[test]
    fn balancing_can_be_cancelled() {
        let (limits, control) = (Limits::default(), Control::new());
        let model = living(false);
        let asked = SearchInputs {
            model: &model,
            limits: &limits,
            control: &control,
        };
        let mut tree = Tree::default();
        tree.run(&asked);
        control.cancel();
        assert_eq!(tree.balance(&asked, 0.0), SearchEnd::Cancelled);
    }
}

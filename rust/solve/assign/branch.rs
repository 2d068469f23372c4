//! Which whole choice is best, and how far below it can the best be at most?

use super::Limits;
use super::bound::{Bound, Sum};
use super::first_order::FirstOrder;
use super::model::{Model, NONE, index};
use super::point::Point;
use super::rounding::{NEAREST, Rounding, RoundingStart};
use super::saved_basis::SavedBasis;
use super::scaled_model::ScaledModel;
use super::simplex::{Simplex, SimplexEnd};
use crate::control::Control;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A share this near to 0 or 1 is whole.
const WHOLE: f64 = 1e-9;
/// Work for the whole tree, in units of what the root may take.
const BRANCHING: f64 = 4.0;

/// All that one search works with, kept from one model to the next.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) form: ScaledModel,
    pub(super) simplex: Simplex,
    pub(super) bound: Bound,
    pub(super) rounding: Rounding,
    pub(super) first_order: FirstOrder,
    root: SavedBasis,
    pub(super) point: Point,
    pub(super) best: Point,
    pub(super) found: bool,
    /// Of the rows, at the root.
    pub(super) prices: Vec<f64>,
    /// Least bound of what was closed without looking further.
    closed: f64,
    nodes: Vec<Node>,
    open: BinaryHeap<Open>,
    /// The objective where all items and windows cost least.
    base: f64,
    /// That, less what rounding may have added.
    pub(super) lowest: f64,
    /// How the last root ended.
    ended: SimplexEnd,
    /// Whole items, the largest first.
    pub(super) order: Vec<u32>,
    pub(super) looked: u64,
}

/// A part of the choices: its parent's with one option taken, or banned.
#[derive(Debug, Clone, Copy)]
struct Node {
    parent: u32,
    option: u32,
    taken: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Open {
    bound: f64,
    node: u32,
}

impl Eq for Open {}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The least bound is the greatest, of equals the youngest.
impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        let least = other.bound.total_cmp(&self.bound);
        least.then(self.node.cmp(&other.node))
    }
}

/// What a search is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchInputs<'a> {
    pub(super) model: &'a Model,
    pub(super) limits: &'a Limits,
    pub(super) control: &'a Control,
}

/// How the search ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SearchEnd {
    /// `best` is set; nothing is below the bound.
    Best(f64),
    /// Proven: nothing fits.
    Nothing,
    /// Nothing was found to fit, and nothing is proven but the bound.
    Unknown(f64),
    /// Proven: nothing that fits is below this, which is no less than what was asked for.
    NoneBelow(f64),
    Cancelled,
}

impl Tree {
    /// Solves the relaxed program, and branches where whole items are left in parts.
    pub(super) fn run(&mut self, asked: &SearchInputs) -> SearchEnd {
        let found = self.run_apart(asked, asked.limits.gap);
        let SearchEnd::Best(bound) = found else {
            return found;
        };
        // costs are told apart by more than an objective may be worth that is next to nothing
        let parts = !self.form.whole.contains(&true) && bound < self.cut(asked);
        if parts && self.ended == SimplexEnd::Optimal && asked.limits.gap > 0.0 {
            return self.run_apart(asked, 0.0);
        }
        found
    }

    /// With costs told apart as a `gap` asks.
    fn run_apart(&mut self, asked: &SearchInputs, gap: f64) -> SearchEnd {
        let model = asked.model;
        self.form.build(model, gap);
        self.set_base(model);
        self.point.start(model);
        self.best.start(model);
        // no prices at all prove the least costs and floors
        self.prices.clear();
        self.prices.resize(model.rows.len(), 0.0);
        self.nodes.clear();
        self.open.clear();
        (self.found, self.closed, self.looked) = (false, f64::INFINITY, 1);
        if let Some(ended) = self.probe(asked) {
            return ended;
        }
        self.simplex.start(&self.form);
        let cut = self.scaled(asked.limits.below);
        self.ended = (self.simplex).run_few_then_all(&self.form, cut, asked.control);
        if self.ended == SimplexEnd::CutOff {
            let bound = self.bound_here(model);
            if bound >= asked.limits.below {
                return SearchEnd::NoneBelow(bound);
            }
            // within rounding of it
            self.ended = self.simplex.run(&self.form, f64::INFINITY, asked.control);
        }
        if self.ended == SimplexEnd::Cancelled {
            return SearchEnd::Cancelled;
        }
        if self.ended == SimplexEnd::Infeasible && self.is_empty() {
            return SearchEnd::Nothing;
        }
        let bound = self.bound_here(model);
        self.bound.price_bases(model, &self.form);
        self.prices.clone_from(&self.bound.prices);
        self.finish(asked, bound)
    }

    /// Goes on from the root.
    fn finish(&mut self, asked: &SearchInputs, bound: f64) -> SearchEnd {
        if self.ended == SimplexEnd::Optimal && self.offer_basis(asked.model) {
            return self.outcome(bound);
        }
        self.round(asked.model, NEAREST);
        if self.found && bound >= self.cut(asked) {
            return self.outcome(bound);
        }
        if self.ended != SimplexEnd::Optimal {
            return self.balance(asked, bound);
        }
        if self.fractional().is_none() {
            return self.outcome(bound);
        }
        self.simplex.allowed *= BRANCHING;
        self.root.keep(&self.simplex);
        let found = self.branch(asked, bound);
        let SearchEnd::Best(bound) = found else {
            return found;
        };
        if bound < self.cut(asked) {
            self.better(asked);
        }
        if asked.control.is_cancelled() {
            return SearchEnd::Cancelled;
        }
        self.outcome(bound)
    }

    /// The objective where all items and windows cost least, and what is certainly not below it.
    fn set_base(&mut self, model: &Model) {
        let mut sum = Sum::default();
        for item in 0..model.items.len() {
            let options = model.options_of(index(item));
            let options = &model.options[options.start as usize..options.end as usize];
            let costs = options.iter().map(|option| option.cost);
            sum.add(costs.fold(f64::INFINITY, f64::min));
        }
        for (window, floor) in model.windows.iter().zip(&self.form.floors) {
            sum.add(window.weight * floor);
        }
        self.base = sum.total();
        self.lowest = self.base - 16.0 * f64::EPSILON * sum.size;
    }

    pub(super) fn outcome(&self, bound: f64) -> SearchEnd {
        if self.found {
            SearchEnd::Best(bound.min(self.best.objective))
        } else {
            SearchEnd::Unknown(bound)
        }
    }

    fn is_empty(&mut self) -> bool {
        let simplex = &self.simplex;
        self.bound
            .proves_empty(&self.form, &simplex.step, &simplex.banned)
    }

    fn bound_here(&mut self, model: &Model) -> f64 {
        let simplex = &self.simplex;
        self.bound
            .at(model, &self.form, &simplex.prices, &simplex.banned)
            .max(self.lowest)
    }

    /// An objective as the simplex method counts it.
    fn scaled(&self, objective: f64) -> f64 {
        (objective - self.base) * self.form.cost_scale
    }

    /// What a bound must reach for nothing better than asked to lie above it.
    pub(super) fn cut(&self, asked: &SearchInputs) -> f64 {
        if !self.found {
            return f64::INFINITY;
        }
        let best = self.best.objective;
        best - best.abs() * asked.limits.gap.max(1e-11)
    }

    /// Takes the basis as the best point where all whole items are whole and it fits; true where whole.
    fn offer_basis(&mut self, model: &Model) -> bool {
        if self.fractional().is_some() {
            return false;
        }
        self.point.set_basis(&self.form, &self.simplex);
        self.offer(model)
    }

    pub(super) fn offer(&mut self, model: &Model) -> bool {
        let fits = self.point.fits(model, &self.form);
        if fits && (!self.found || self.point.objective < self.best.objective) {
            std::mem::swap(&mut self.point, &mut self.best);
            self.found = true;
        }
        fits
    }

    /// Rounds the keys to a whole choice, by `near` changes at first; false where none fits.
    pub(super) fn round(&mut self, model: &Model, near: usize) -> bool {
        self.simplex.scan_values(&self.form);
        let start = RoundingStart {
            keys: &self.simplex.keys,
            values: &self.simplex.ratio.values,
            banned: &self.simplex.banned,
            near,
        };
        let fits = self.rounding.run(model, &self.form, &start);
        if fits {
            let choice = &self.rounding.choice;
            self.point.set_choice(self.form.costs.len(), choice);
            self.offer(model);
        }
        fits
    }

    /// Of the whole items in parts the one that is nearest to whole: its option with the largest part.
    fn fractional(&self) -> Option<u32> {
        let mut found = None;
        let mut most = 0.0;
        for (place, &variable) in self.simplex.basic.iter().enumerate() {
            let Some(&item) = self.form.item_of.get(variable as usize) else {
                continue;
            };
            if !self.form.whole[item as usize] {
                continue;
            }
            let share = self.simplex.shares[place];
            let key = self.simplex.key_share[item as usize];
            let larger = share.max(key);
            if share > WHOLE && larger < 1.0 - WHOLE && larger > most {
                most = larger;
                let option = self.simplex.keys[item as usize];
                found = Some(if share > key { variable } else { option });
            }
        }
        found
    }

    /// Branch and bound: deep at first, then from the least bound (Land and Doig 1960).
    fn branch(&mut self, asked: &SearchInputs, bound: f64) -> SearchEnd {
        let mut here = Open { bound, node: NONE };
        loop {
            let split = if here.bound < self.cut(asked) {
                self.fractional()
            } else {
                None
            };
            let least = self.open.peek().map_or(f64::INFINITY, |open| open.bound);
            let least = least.min(self.closed).min(here.bound);
            let enough = self.found && least >= self.cut(asked);
            if enough || self.looked >= asked.limits.nodes {
                return self.outcome(least);
            }
            let next = if let Some(option) = split {
                Some(self.split(&here, option))
            } else {
                self.closed = self.closed.min(here.bound);
                self.next(asked)
            };
            let Some(next) = next else {
                return self.exhausted();
            };
            here = next;
            if !self.solve_relaxed(asked, &mut here) {
                return SearchEnd::Cancelled;
            }
        }
    }

    fn exhausted(&self) -> SearchEnd {
        if !self.found && self.closed == f64::INFINITY {
            return SearchEnd::Nothing;
        }
        self.outcome(self.closed)
    }

    /// Opens the part without `option` and goes on in the part that takes it.
    fn split(&mut self, here: &Open, option: u32) -> Open {
        for taken in [false, true] {
            self.nodes.push(Node {
                parent: here.node,
                option,
                taken,
            });
        }
        let node = index(self.nodes.len() - 1);
        self.open.push(Open {
            bound: here.bound,
            node: node - 1,
        });
        self.restrict(node);
        self.simplex.take_cheapest(&self.form);
        Open {
            bound: here.bound,
            node,
        }
    }

    /// The open part with the least bound, its bans set.
    fn next(&mut self, asked: &SearchInputs) -> Option<Open> {
        let next = self.open.pop()?;
        if next.bound >= self.cut(asked) {
            self.closed = self.closed.min(next.bound);
            self.open.clear();
            return None;
        }
        self.root.restore(&mut self.simplex, &self.form);
        let mut node = next.node;
        while node != NONE {
            self.restrict(node);
            node = self.nodes[node as usize].parent;
        }
        self.simplex.take_cheapest(&self.form);
        Some(next)
    }

    fn restrict(&mut self, node: u32) {
        let Node { option, taken, .. } = self.nodes[node as usize];
        if !taken {
            self.simplex.banned[option as usize] = true;
            return;
        }
        let item = self.form.item_of[option as usize] as usize;
        for other in self.form.options_of(item) {
            self.simplex.banned[other] |= other != option as usize;
        }
    }

    /// Solves the relaxed program of a part; false where cancelled.
    fn solve_relaxed(&mut self, asked: &SearchInputs, here: &mut Open) -> bool {
        self.looked += 1;
        let cut = self.scaled(self.cut(asked));
        let end = self.simplex.run(&self.form, cut, asked.control);
        if end == SimplexEnd::Cancelled {
            return false;
        }
        if end == SimplexEnd::Infeasible && self.is_empty() {
            here.bound = f64::INFINITY;
            return true;
        }
        here.bound = here.bound.max(self.bound_here(asked.model));
        if end != SimplexEnd::Optimal {
            self.closed = self.closed.min(here.bound);
            here.bound = f64::INFINITY;
            return true;
        }
        self.offer_basis(asked.model);
        if self.looked.is_power_of_two() || self.looked.is_multiple_of(16) {
            self.round(asked.model, NEAREST);
        }
        true
    }
}

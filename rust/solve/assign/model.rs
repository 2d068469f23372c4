//! Which items choose among which options, and what do they share?

use super::bound::amount_of;
use crate::error::{Error, Result};
use std::ops::Range;

/// In place of the window of a limited row.
pub(super) const NONE: u32 = u32::MAX;

/// Items that choose among options which use shared rows: a multiple-choice linear program.
///
/// It minimises sum(cost * share) + sum(weight * tau) over shares that add to 1 by item, where
/// sum(use) <= limit on limited rows, base + sum(use) <= tau of the window on timed rows, and
/// tau >= floor. Uses of an option are runs of rows, so that what lasts costs no more to write down.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub(super) windows: Vec<Window>,
    pub(super) rows: Vec<Row>,
    pub(super) items: Vec<Item>,
    pub(super) options: Vec<Choice>,
    pub(super) uses: Vec<Use>,
    /// True once an option or a use came before what it belongs to.
    stray: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) floor: f64,
    pub(super) weight: f64,
}

/// `value` is the limit, or the base of a timed row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) window: u32,
    pub(super) value: f64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) first: u32,
    pub(super) whole: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub(super) cost: f64,
    pub(super) first: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    pub(super) first: u32,
    pub(super) end: u32,
    pub(super) amount: f64,
}

impl Model {
    /// No items, rows or windows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all but keeps the memory for the next model.
    pub fn clear(&mut self) {
        self.windows.clear();
        self.rows.clear();
        self.items.clear();
        self.options.clear();
        self.uses.clear();
        self.stray = false;
    }

    /// A stretch of time tau >= `floor`; the objective grows by `weight` for each unit of it.
    pub fn window(&mut self, floor: f64, weight: f64) -> u32 {
        self.windows.push(Window { floor, weight });
        index(self.windows.len() - 1)
    }

    /// A row whose uses add to at most `limit`: a capacity at one instant.
    pub fn limited_row(&mut self, limit: f64) -> u32 {
        self.rows.push(Row {
            window: NONE,
            value: limit,
        });
        index(self.rows.len() - 1)
    }

    /// A row whose `base` and uses add to at most the tau of `window`: seconds on one path.
    pub fn timed_row(&mut self, window: u32, base: f64) -> u32 {
        self.stray |= window as usize >= self.windows.len();
        self.rows.push(Row {
            window,
            value: base,
        });
        index(self.rows.len() - 1)
    }

    /// An item; the shares of its options add to 1. A `whole` item takes one option alone.
    pub fn item(&mut self, whole: bool) -> u32 {
        let first = index(self.options.len());
        self.items.push(Item { first, whole });
        index(self.items.len() - 1)
    }

    /// An option of the last item; its share times `cost` adds to the objective.
    pub fn option(&mut self, cost: f64) -> u32 {
        self.stray |= self.items.is_empty();
        let first = index(self.uses.len());
        self.options.push(Choice { cost, first });
        index(self.options.len() - 1)
    }

    /// The last option uses `amount` >= 0 of each row in `rows`, beside what it already uses.
    pub fn uses(&mut self, rows: Range<u32>, amount: f64) {
        self.stray |= self.options.is_empty();
        self.uses.push(Use {
            first: rows.start,
            end: rows.end,
            amount,
        });
    }

    /// Options in all, the length of [`super::Solution::shares`].
    pub fn options(&self) -> usize {
        self.options.len()
    }

    /// Options of item `item`; none where there is no such item.
    pub fn options_of(&self, item: u32) -> Range<u32> {
        let item = item as usize;
        let all = index(self.options.len());
        let first = |item: usize| self.items.get(item).map_or(all, |item| item.first);
        first(item)..first(item + 1)
    }

    pub(super) fn uses_of(&self, option: usize) -> &[Use] {
        let end = self.options.get(option + 1).map(|next| next.first as usize);
        &self.uses[self.options[option].first as usize..end.unwrap_or(self.uses.len())]
    }

    /// Objective at the windows' lengths and the shares.
    pub(super) fn objective(&self, shares: &[f64], windows: &[f64]) -> f64 {
        let costs = self.options.iter().zip(shares).map(|(o, x)| o.cost * x);
        let times = self.windows.iter().zip(windows).map(|(w, t)| w.weight * t);
        amount_of(costs.chain(times))
    }

    /// Refuses what cannot be solved, naming where it stands.
    pub(super) fn check(&self) -> Result<()> {
        if self.stray {
            let what = "model: an option before its item, a use before its option or a timed row before its window";
            return Err(Error::inconsistent(what));
        }
        for (at, window) in self.windows.iter().enumerate() {
            let within = window.floor.is_finite();
            refuse(within, "windows", at, "floor", window.floor)?;
            at_least_0("windows", at, "weight", window.weight)?;
        }
        for (at, row) in self.rows.iter().enumerate() {
            if row.window == NONE {
                at_least_0("rows", at, "limit", row.value)?;
            } else {
                refuse(row.value.is_finite(), "rows", at, "base", row.value)?;
            }
        }
        for at in 0..self.items.len() {
            if self.options_of(index(at)).is_empty() {
                let got = format!("items[{at}]: got no options; allowed: one or more");
                return Err(Error::inconsistent(got));
            }
        }
        for (at, option) in self.options.iter().enumerate() {
            refuse(option.cost.is_finite(), "options", at, "cost", option.cost)?;
        }
        for (at, used) in self.uses.iter().enumerate() {
            at_least_0("uses", at, "amount", used.amount)?;
            if used.first > used.end || used.end as usize > self.rows.len() {
                let (field, rows) = (format!("uses[{at}].rows"), self.rows.len());
                let got = format!("{}..{}", used.first, used.end);
                let allowed = format!("a range within 0..{rows}");
                return Err(Error::invalid(field, got, allowed));
            }
        }
        Ok(())
    }
}

fn at_least_0(list: &str, at: usize, field: &str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    let field = format!("{list}[{at}].{field}");
    Err(Error::invalid(field, value, "a finite number, 0 or more"))
}

fn refuse(allowed: bool, list: &str, at: usize, field: &str, value: f64) -> Result<()> {
    if allowed {
        return Ok(());
    }
    let field = format!("{list}[{at}].{field}");
    Err(Error::invalid(field, value, "a finite number"))
}

/// A model holds fewer than 2^32 of anything.
pub(super) fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(NONE)
}

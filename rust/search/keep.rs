//! What a search keeps while it walks: the best few and the front of time against memory.

use crate::estimate::Composed;
use crate::plan::Plan;

/// A plan that was priced and fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The plan.
    pub plan: Plan,
    /// Its price.
    pub composed: Composed,
    /// What it is ranked by.
    pub key: f64,
    /// Its place in the walk, which breaks ties.
    pub ordinal: (usize, u64),
}

impl Found {
    fn before(&self, other: &Self) -> bool {
        self.key
            .total_cmp(&other.key)
            .then(self.ordinal.cmp(&other.ordinal))
            .is_lt()
    }
}

/// The best few, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Best {
    top: usize,
    found: Vec<Found>,
}

impl Best {
    pub(super) fn new(top: usize) -> Self {
        Self {
            top,
            found: Vec::with_capacity(top + 1),
        }
    }

    /// True where a plan with this key can still enter.
    pub(super) fn admits(&self, key: f64) -> bool {
        self.top > 0
            && (self.found.len() < self.top || self.found.last().is_some_and(|w| key < w.key))
    }

    pub(super) fn push(&mut self, found: Found) {
        if self.top == 0 {
            return;
        }
        let at = self.found.partition_point(|kept| kept.before(&found));
        if at < self.top {
            self.found.insert(at, found);
            self.found.truncate(self.top);
        }
    }

    pub(super) fn into_found(self) -> Vec<Found> {
        self.found
    }
}

/// Plans that no other beats in both time and memory, by rising time.
#[derive(Debug, Clone, Default)]
pub(super) struct Front {
    found: Vec<Found>,
}

impl Front {
    /// True where a plan with this time and memory is not beaten or equalled.
    pub(super) fn admits(&self, time: f64, memory: f64) -> bool {
        let at = self.found.partition_point(|f| f.composed.time <= time);
        at == 0 || self.found[at - 1].composed.memory > memory
    }

    pub(super) fn push(&mut self, found: Found) {
        let (time, memory) = (found.composed.time, found.composed.memory);
        if !self.admits(time, memory) {
            return;
        }
        let at = self.found.partition_point(|f| f.composed.time < time);
        let beaten = self.found[at..]
            .iter()
            .take_while(|f| f.composed.memory >= memory)
            .count();
        self.found.splice(at..at + beaten, [found]);
    }

    pub(super) fn into_found(self) -> Vec<Found> {
        self.found
    }
}

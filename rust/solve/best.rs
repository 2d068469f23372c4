//! Which are the `k` least of many keys, the same whatever the order or the thread they come from?

use std::cmp::Ordering;

/// A key and where it came from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry<T = ()> {
    /// What is minimised.
    pub key: f64,
    /// Breaks ties: the lower one is better.
    pub index: u64,
    /// What was found.
    pub item: T,
}

/// The `limit` least entries seen so far, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Best<T = ()> {
    limit: usize,
    entries: Vec<Entry<T>>,
}

impl<T: Clone> Best<T> {
    /// Holds up to `limit` entries. This is the only call that allocates.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            entries: Vec::with_capacity(limit),
        }
    }

    /// Offers an entry; true if it was taken. A key that is not a number is never taken.
    pub fn push(&mut self, entry: Entry<T>) -> bool {
        if entry.key.is_nan() || self.limit == 0 {
            return false;
        }
        if self.entries.len() == self.limit {
            match self.entries.last() {
                Some(worst) if order(&entry, worst) == Ordering::Less => self.entries.pop(),
                _ => return false,
            };
        }
        let at = self
            .entries
            .partition_point(|held| order(held, &entry) != Ordering::Greater);
        self.entries.insert(at, entry);
        true
    }

    /// Takes what another thread found.
    pub fn merge(&mut self, other: &Self) {
        for entry in &other.entries {
            if !self.push(entry.clone()) {
                break; // what follows in `other` is worse still
            }
        }
    }

    /// The key that a newcomer must not exceed; `None` while there is room.
    pub fn threshold(&self) -> Option<f64> {
        let full = self.entries.len() == self.limit;
        self.entries.last().filter(|_| full).map(|entry| entry.key)
    }

    /// True if an entry with this key could still be taken, coming after all that are held.
    pub fn admits(&self, key: f64) -> bool {
        self.limit > 0 && self.threshold().is_none_or(|worst| key < worst)
    }

    /// The entries, best first.
    pub fn entries(&self) -> &[Entry<T>] {
        &self.entries
    }
}

/// By key, then by index; zeros of both signs are equal keys.
fn order<T>(a: &Entry<T>, b: &Entry<T>) -> Ordering {
    a.key
        .partial_cmp(&b.key)
        .unwrap_or(Ordering::Equal)
        .then(a.index.cmp(&b.index))
}

//! Which are the `k` least of many keys, the same whatever the order or the thread they come from?

use std::cmp::Ordering;

/// A key and where it came from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// What is minimised.
    pub key: f64,
    /// Breaks ties: the lower one is better.
    pub index: u64,
}

/// The `limit` least entries seen so far, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    limit: usize,
    entries: Vec<Entry>,
}

impl Best {
    /// Holds up to `limit` entries. This is the only call that allocates.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            entries: Vec::with_capacity(limit),
        }
    }

    /// Offers an entry; true if it was taken. A key that is not a number is never taken.
    pub fn push(&mut self, entry: Entry) -> bool {
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
        for &entry in &other.entries {
            if !self.push(entry) {
                break; // what follows in `other` is worse still
            }
        }
    }

    /// The key that a newcomer must not exceed; `None` while there is room.
    pub fn threshold(&self) -> Option<f64> {
        let full = self.entries.len() == self.limit;
        self.entries.last().filter(|_| full).map(|entry| entry.key)
    }

    /// The entries, best first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// By key, then by index; zeros of both signs are equal keys.
fn order(a: &Entry, b: &Entry) -> Ordering {
    a.key
        .partial_cmp(&b.key)
        .unwrap_or(Ordering::Equal)
        .then(a.index.cmp(&b.index))
}

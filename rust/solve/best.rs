//! Which are the `k` least of many keys, the same whatever the order or the thread they come from?

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// A key and where it came from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Entry<T = ()> {
    /// What is minimised.
    pub key: f64,
    /// Breaks ties: the lower one is better. Entries with equal key and index are the same.
    pub index: u64,
    /// What was found.
    pub item: T,
}

/// The `limit` least entries seen so far, best first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

    /// Offers an entry; true if it was taken. A key that is not a number is never taken, nor is an
    /// entry that is held already.
    pub fn push(&mut self, entry: Entry<T>) -> bool {
        self.push_apart(entry, |_, _| false)
    }

    /// The same where of all entries that are `alike` only the best is held.
    ///
    /// `alike` sorts items into classes: the entries are then the best of the `limit` best classes.
    pub fn push_apart(&mut self, entry: Entry<T>, alike: impl Fn(&T, &T) -> bool) -> bool {
        if entry.key.is_nan() || self.limit == 0 {
            return false;
        }
        let twin = self
            .entries
            .iter()
            .position(|held| alike(&held.item, &entry.item));
        if let Some(twin) = twin {
            if order(&entry, &self.entries[twin]) != Ordering::Less {
                return false;
            }
            self.entries.remove(twin);
        }
        let at = self
            .entries
            .partition_point(|held| order(held, &entry) == Ordering::Less);
        let held = self.entries.get(at);
        if at == self.limit || held.is_some_and(|held| order(held, &entry) == Ordering::Equal) {
            return false;
        }
        if self.entries.len() == self.limit {
            self.entries.pop();
        }
        self.entries.insert(at, entry);
        true
    }

    /// Takes what another thread found.
    pub fn merge(&mut self, other: &Self) {
        self.merge_apart(other, |_, _| false);
    }

    /// The same where of all entries that are `alike` only the best is held.
    pub fn merge_apart(&mut self, other: &Self, alike: impl Fn(&T, &T) -> bool) {
        for entry in &other.entries {
            self.push_apart(entry.clone(), &alike);
        }
    }

    /// The key that a newcomer must not exceed; `None` while there is room.
    pub fn threshold(&self) -> Option<f64> {
        let full = self.entries.len() == self.limit;
        self.entries.last().filter(|_| full).map(|entry| entry.key)
    }

    /// True if an entry of this key, and an index of `first` or more, could still be taken.
    pub fn admits(&self, key: f64, first: u64) -> bool {
        if self.limit == 0 {
            return false;
        }
        match self.entries.last() {
            Some(worst) if self.entries.len() == self.limit => {
                key < worst.key || key <= worst.key && first < worst.index
            }
            _ => true,
        }
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

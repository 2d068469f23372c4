//! Which accesses does a cache serve that gives up any of its objects, by chance?

use super::replay::{Replayer, Sizes};
use crate::solve::Random;

/// A run over a trace; the same seed gives the same run. Its formula is that of `fifo.rs`.
pub(super) struct AtRandom<S> {
    sizes: S,
    capacity: u64,
    used: u64,
    random: Random,
    holds: Vec<bool>,
    held: Vec<u32>,
}

impl<S: Sizes> AtRandom<S> {
    pub(super) fn new(objects: usize, sizes: S, capacity: u64, seed: u64) -> Self {
        Self {
            sizes,
            capacity,
            used: 0,
            random: Random::new(seed, 0),
            holds: vec![false; objects],
            held: Vec::new(),
        }
    }
}

impl<S: Sizes> Replayer for AtRandom<S> {
    #[inline]
    fn access(&mut self, _: u32, id: u32) -> bool {
        if self.holds[id as usize] {
            return true;
        }
        let size = self.sizes.of(id);
        if size > self.capacity {
            return false;
        }
        while self.used + size > self.capacity && !self.held.is_empty() {
            let chosen = self.random.below(self.held.len());
            let gone = std::mem::replace(&mut self.held[chosen], id);
            self.holds[gone as usize] = false;
            self.used -= self.sizes.of(gone);
            if self.used + size <= self.capacity {
                self.used += size;
                self.holds[id as usize] = true;
                return false;
            }
            self.held.swap_remove(chosen);
        }
        self.used += size;
        self.holds[id as usize] = true;
        self.held.push(id);
        false
    }
}

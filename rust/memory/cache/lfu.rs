//! Which accesses does a cache serve that gives up what was asked for least often (LFU)?

use super::replay::{Replayer, Sizes};

/// A run over a trace. Counts outlive the stay in the cache, and a newcomer comes in only when it was
/// asked for more often than the least of those held, so with time the most popular stay.
///
/// Without buckets: a hand sweeps over the places and gives up the first whose count is `least`, the
/// lowest there is. Behind the hand all counts are higher, so `least` grows by one a sweep and never
/// falls. An object is looked at once for each of its requests at most, so all sweeps together look at
/// no more places than the trace has accesses.
pub(super) struct Lfu<S> {
    sizes: S,
    capacity: u64,
    used: u64,
    /// Twice the requests so far, one more where the object is held.
    requests: Vec<u32>,
    held: Vec<u32>,
    hand: usize,
    least: u32,
    full: bool,
}

impl<S: Sizes> Lfu<S> {
    pub(super) fn new(objects: usize, sizes: S, capacity: u64) -> Self {
        Self {
            sizes,
            capacity,
            used: 0,
            requests: vec![0; objects],
            held: Vec::new(),
            hand: 0,
            least: 1,
            full: false,
        }
    }

    /// Gives up an object asked for less often than `requests`; false where there is none.
    fn evict_below(&mut self, requests: u32) -> bool {
        while self.least < requests && !self.held.is_empty() {
            while let Some(id) = self.held.get(self.hand) {
                let count = &mut self.requests[*id as usize];
                if *count >> 1 <= self.least {
                    *count &= !1;
                    self.used -= self.sizes.of(*id);
                    self.held.swap_remove(self.hand);
                    return true;
                }
                self.hand += 1;
            }
            self.hand = 0;
            self.least += 1;
        }
        false
    }
}

impl<S: Sizes> Replayer for Lfu<S> {
    #[inline]
    fn access(&mut self, _: u32, id: u32) -> bool {
        let count = &mut self.requests[id as usize];
        *count += 2;
        if *count & 1 == 1 {
            return true;
        }
        let requests = *count >> 1;
        let size = self.sizes.of(id);
        if size > self.capacity {
            return false;
        }
        // once it was full, nobody comes in at or below the level of the sweep, though there be room
        if self.full && requests <= self.least {
            return false;
        }
        while self.used + size > self.capacity {
            self.full = true;
            if !self.evict_below(requests) {
                return false;
            }
        }
        self.used += size;
        self.requests[id as usize] |= 1;
        self.held.push(id);
        false
    }
}

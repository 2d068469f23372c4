//! Which accesses can any cache serve at best, the trace being known (Belady 1966)?

use super::replay::{Replayer, Sizes};
use std::collections::BinaryHeap;

/// The most hits of objects all alike; those that are not worth a place pass by.
///
/// A hit holds a place from the access before it to itself. The most such spans that `C` places can
/// hold are found by taking spans in the order of their ends, each into the place that became free
/// last before it starts, if there is one (Faigle and Nawijn 1995; Carlisle and Lloyd 1995). Ends come
/// in the order of the trace, and the place is found in a forest over its accesses (union and find), so
/// no queue of next uses is needed: it gives Belady's count, not what is held when.
pub(super) struct Belady {
    /// Places that never held anything.
    unused: u64,
    /// Place behind the last access to each object; 0: none.
    last: Vec<u32>,
    /// For each time: itself where a place became free then, else an earlier time no later than the
    /// last at which one did. Time 0 is before all.
    free: Vec<u32>,
}

impl Belady {
    pub(super) fn new(accesses: usize, objects: usize, capacity: u64) -> Self {
        let mut free = Vec::with_capacity(accesses + 1);
        free.push(0);
        Self {
            unused: capacity,
            last: vec![0; objects],
            free,
        }
    }

    /// The last time up to `from` at which a place became free; 0: none did.
    #[inline]
    fn latest(&mut self, from: u32) -> u32 {
        let mut at = from;
        loop {
            let next = self.free[at as usize];
            if next == at {
                return at;
            }
            let after = self.free[next as usize];
            self.free[at as usize] = after;
            at = after;
        }
    }
}

impl Replayer for Belady {
    #[inline]
    fn ask(&mut self, place: u32, id: u32) -> bool {
        let now = place + 1;
        let before = std::mem::replace(&mut self.last[id as usize], now);
        let found = if before == 0 { 0 } else { self.latest(before) };
        let hit = if found > 0 {
            // what was free then is taken from then on
            self.free[found as usize] = self.free[found as usize - 1];
            true
        } else {
            let some = before > 0 && self.unused > 0;
            self.unused -= u64::from(some);
            some
        };
        // whoever hits frees its place now, for whatever is asked for from now on
        let link = if hit { now } else { self.free[place as usize] };
        self.free.push(link);
        hit
    }
}

/// Never used again.
const NEVER: u32 = u32::MAX;

/// A run by bytes: what is used again last goes first. No rule is known that is best for unequal sizes;
/// this one is the usual reference.
pub(super) struct BeladyBySize<S> {
    sizes: S,
    capacity: u64,
    used: u64,
    /// Place of the next access to the same object, by access.
    next: Vec<u32>,
    /// Place of the next access to each object held; 0: not held.
    held: Vec<u32>,
    /// Next uses, the last on top; those that are past are skipped.
    queue: BinaryHeap<(u32, u32)>,
}

impl<S: Sizes> BeladyBySize<S> {
    pub(super) fn new(ids: &[u32], objects: usize, sizes: S, capacity: u64) -> Self {
        let mut seen = vec![NEVER; objects];
        let mut next = vec![NEVER; ids.len()];
        // a trace is shorter than that
        let mut place = u32::try_from(ids.len()).unwrap_or(NEVER);
        for (id, next) in ids.iter().zip(&mut next).rev() {
            place -= 1;
            *next = std::mem::replace(&mut seen[*id as usize], place);
        }
        Self {
            sizes,
            capacity,
            used: 0,
            next,
            held: vec![0; objects],
            queue: BinaryHeap::new(),
        }
    }

    /// Makes room by giving up what is used again later than at `next`; false where that is too little.
    fn makes_room(&mut self, size: u64, next: u32) -> bool {
        while self.used + size > self.capacity {
            match self.queue.peek() {
                Some(&(at, id)) if at > next => {
                    self.queue.pop();
                    if self.held[id as usize] == at {
                        self.held[id as usize] = 0;
                        self.used -= self.sizes.of(id);
                    }
                }
                _ => return false,
            }
        }
        true
    }
}

impl<S: Sizes> Replayer for BeladyBySize<S> {
    fn ask(&mut self, place: u32, id: u32) -> bool {
        let (size, next) = (self.sizes.of(id), self.next[place as usize]);
        let hit = self.held[id as usize] == place && place > 0;
        if hit {
            self.held[id as usize] = 0;
            self.used -= size;
        }
        let stays = next != NEVER && size <= self.capacity && self.makes_room(size, next);
        if stays {
            self.used += size;
            self.held[id as usize] = next;
            self.queue.push((next, id));
        }
        hit
    }
}

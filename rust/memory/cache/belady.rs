//! Which accesses can any cache serve at best, the trace being known (Belady 1966)?

use super::replay::{Replayer, Sizes};
use std::collections::BinaryHeap;

/// The most hits of objects all alike; those that are not worth a place pass by.
///
/// A hit holds a place from the access before it to itself. The most such spans that `C` places can
/// hold are found by taking spans in the order of their ends, each into the place that became free
/// last before it starts, if there is one (Faigle and Nawijn 1995; Carlisle and Lloyd 1995). Ends come
/// in the order of the trace, so no queue of next uses is needed: it gives Belady's count, not what is
/// held when.
pub(super) struct Belady {
    /// Places that never held anything.
    unused: u64,
    /// Place behind the last access to each object; 0: none.
    last: Vec<u32>,
    free: Times,
}

impl Belady {
    pub(super) fn new(accesses: usize, objects: usize, capacity: u64) -> Self {
        Self {
            unused: capacity,
            last: vec![0; objects],
            free: Times::new(accesses + 1),
        }
    }
}

impl Replayer for Belady {
    #[inline]
    fn access(&mut self, place: u32, id: u32) -> bool {
        let now = place + 1;
        let before = std::mem::replace(&mut self.last[id as usize], now);
        if before == 0 {
            return false;
        }
        if let Some(found) = self.free.latest(before as usize) {
            self.free.remove(found);
        } else if self.unused > 0 {
            self.unused -= 1;
        } else {
            return false;
        }
        // the place of a hit is free again for whatever is asked for from now on
        self.free.add(now as usize);
        true
    }
}

/// Times at which a place became free: a bit each, and a bit for every 64 of those that has one set,
/// level on level, so that the last one before another is a few words away.
struct Times {
    levels: Vec<Vec<u64>>,
}

impl Times {
    fn new(many: usize) -> Self {
        let mut levels = Vec::new();
        let mut bits = many;
        loop {
            bits = bits.div_ceil(64);
            levels.push(vec![0; bits]);
            if bits <= 1 {
                return Self { levels };
            }
        }
    }

    #[inline]
    fn add(&mut self, time: usize) {
        let mut at = time;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let known = *word != 0;
            *word |= 1 << (at % 64);
            if known {
                return;
            }
            at /= 64;
        }
    }

    #[inline]
    fn remove(&mut self, time: usize) {
        let mut at = time;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// The last time up to `time`.
    #[inline]
    fn latest(&self, time: usize) -> Option<usize> {
        // bits below `at`, one level after the other
        let mut at = time + 1;
        for (height, level) in self.levels.iter().enumerate() {
            let below = level
                .get(at / 64)
                .map_or(0, |word| word & ((1 << (at % 64)) - 1));
            if below != 0 {
                return Some(self.down(height, at / 64 * 64 + highest(below)));
            }
            at /= 64;
        }
        None
    }

    /// The last time under a bit of a level.
    #[inline]
    fn down(&self, height: usize, bit: usize) -> usize {
        let levels = self.levels[..height].iter().rev();
        levels.fold(bit, |at, level| at * 64 + highest(level[at]))
    }
}

fn highest(word: u64) -> usize {
    word.ilog2() as usize
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
    fn access(&mut self, place: u32, id: u32) -> bool {
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

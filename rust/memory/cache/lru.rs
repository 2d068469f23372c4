//! Which accesses does a cache serve that gives up what was used the longest ago (LRU)?

use super::characteristic;
use super::hits::Hits;
use super::popularity::Demand;
use super::replay::{Replayer, Sizes};
use crate::control::Control;
use crate::error::Result;

/// Hits under independent references: Che's approximation (Che, Tung and Wang 2002).
///
/// ```text
/// h_i = 1 - exp(-p_i T),   sum_i size_i h_i = capacity,   hit rate = sum_i p_i h_i
/// ```
///
/// An object is there if it was asked for within the last `T` accesses; `T`, which varies little where
/// many objects are held, is taken as a constant (Fricker, Robert and Roberts 2012 say why).
pub(super) fn expected(demand: &Demand, capacity: f64, control: &Control) -> Result<Hits> {
    let time = characteristic::time(demand, capacity, held, control)?;
    let (hit_rate, byte_hit_rate) = characteristic::hit(demand, time, held);
    Ok(Hits {
        hit_rate,
        byte_hit_rate,
        characteristic_accesses: Some(time),
    })
}

/// `1 - e^-x`, and `x e^-x`.
pub(super) fn held(x: f64) -> (f64, f64) {
    let absent = (-x).exp();
    (-(-x).exp_m1(), x * absent)
}

/// A run over a trace, without a list: the trace itself is the order of use.
///
/// What lies behind the place `oldest` is held if nothing later asked for it; making room walks that
/// place forward, once over the trace in all.
pub(super) struct Lru<'a, S> {
    ids: &'a [u32],
    sizes: S,
    capacity: u64,
    used: u64,
    oldest: u32,
    /// Place behind the last access to each object; 0: none.
    last: Vec<u32>,
}

impl<'a, S: Sizes> Lru<'a, S> {
    pub(super) fn new(ids: &'a [u32], objects: usize, sizes: S, capacity: u64) -> Self {
        Self {
            ids,
            sizes,
            capacity,
            used: 0,
            oldest: 0,
            last: vec![0; objects],
        }
    }
}

impl<S: Sizes> Replayer for Lru<'_, S> {
    #[inline]
    fn access(&mut self, place: u32, id: u32) -> bool {
        let last = &mut self.last[id as usize];
        if *last > self.oldest {
            *last = place + 1;
            return true;
        }
        let size = self.sizes.of(id);
        if size > self.capacity {
            return false;
        }
        *last = place + 1;
        self.used += size;
        while self.used > self.capacity {
            let eldest = self.ids[self.oldest as usize];
            self.oldest += 1;
            if self.last[eldest as usize] == self.oldest {
                self.used -= self.sizes.of(eldest);
            }
        }
        false
    }
}

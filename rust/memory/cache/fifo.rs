//! Which accesses does a cache serve that gives up what came in the longest ago (FIFO)?

use super::characteristic;
use super::hits::Hits;
use super::popularity::Demand;
use super::replay::{Replayer, Sizes};
use crate::control::Control;
use crate::error::Result;
use std::collections::VecDeque;

/// Hits under independent references, which are those of random eviction as well (Gelenbe 1973).
///
/// ```text
/// h_i = p_i T / (1 + p_i T),   sum_i size_i h_i = capacity,   hit rate = sum_i p_i h_i
/// ```
///
/// An object stays for a time `T`, in accesses, and is away until it is next asked for, `1 / p_i` on
/// average (Martina, Garetto and Leonardi 2014). The rates of both policies are equal for every
/// capacity; that `T` is taken as a constant is the only approximation.
pub(super) fn expected(demand: &Demand, capacity: f64, control: &Control) -> Result<Hits> {
    let time = characteristic::time(demand, capacity, held, control)?;
    let (hit_rate, byte_hit_rate) = characteristic::hit(demand, time, held);
    Ok(Hits {
        hit_rate,
        byte_hit_rate,
        characteristic_accesses: Some(time),
    })
}

/// `x / (1 + x)`, and `x / (1 + x)^2`.
fn held(x: f64) -> (f64, f64) {
    let away = 1.0 / (1.0 + x);
    (x * away, x * away * away)
}

/// A run over a trace.
pub(super) struct Fifo<S> {
    sizes: S,
    capacity: u64,
    used: u64,
    held: Vec<bool>,
    /// What is held, the eldest first.
    order: VecDeque<u32>,
}

impl<S: Sizes> Fifo<S> {
    pub(super) fn new(objects: usize, sizes: S, capacity: u64) -> Self {
        Self {
            sizes,
            capacity,
            used: 0,
            held: vec![false; objects],
            order: VecDeque::new(),
        }
    }
}

impl<S: Sizes> Replayer for Fifo<S> {
    #[inline]
    fn access(&mut self, _: u32, id: u32) -> bool {
        if self.held[id as usize] {
            return true;
        }
        let size = self.sizes.of(id);
        if size > self.capacity {
            return false;
        }
        while self.used + size > self.capacity {
            let Some(eldest) = self.order.pop_front() else {
                break;
            };
            self.held[eldest as usize] = false;
            self.used -= self.sizes.of(eldest);
        }
        self.used += size;
        self.held[id as usize] = true;
        self.order.push_back(id);
        false
    }
}

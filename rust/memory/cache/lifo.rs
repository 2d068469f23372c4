//! Which accesses does a cache serve that gives up what came in last (LIFO)?

use super::characteristic;
use super::hits::Hits;
use super::lru;
use super::popularity::Demand;
use super::replay::{Replayer, Sizes};
use crate::control::Control;
use crate::error::{Error, Result};

/// Hits under independent references, the mean over what the cache happened to be filled with.
///
/// ```text
/// h_i = 1 - exp(-p_i T),   sum_i h_i = C - 1
/// hit rate = sum_i p_i h_i + sum_i x_i p_i^2 / (p_i + R - x_i p_i),   x_i = 1 - h_i,   R = sum_i x_i p_i
/// ```
///
/// The first `C - 1` objects ever asked for stay for good. They are, by reversing time, as the last
/// `C - 1`: what LRU holds. One place remains, and holds the one of the others asked for last: `i` with
/// chance `p_i` over the chances of all others, which are `R` on average and at least `p_i`. A single
/// run keeps what it began with, so it may lie far from the mean; nothing is averaged out in it.
///
/// Where objects come round in a fixed order, as the experts of a layer that run by number, all but
/// one of the places hit in every round, where LRU never does: for that Huang et al. 2023 (arXiv
/// 2303.06182) choose it for buffers of experts.
pub(super) fn expected(demand: &Demand, capacity: f64, control: &Control) -> Result<Hits> {
    if demand.sized {
        let what = "sizes: lifo has no formula for unequal objects; allowed: objects all alike, \
                    or a simulation";
        return Err(Error::inconsistent(what));
    }
    let whole = capacity.floor();
    if whole < 1.0 {
        return Ok(Hits::default());
    }
    let time = characteristic::time(demand, whole - 1.0, lru::held, control)?;
    let (kept, _) = characteristic::hit(demand, time, lru::held);
    let others = 1.0 - kept;
    let mut turning = 0.0;
    for class in demand.classes.iter().filter(|_| time.is_finite()) {
        let away = class.chance * (-class.chance * time).exp();
        turning += class.count * away * class.chance / (class.chance + (others - away).max(0.0));
    }
    let hit_rate = if whole >= demand.total_size {
        1.0
    } else {
        (kept + turning).min(1.0)
    };
    Ok(Hits {
        hit_rate,
        byte_hit_rate: hit_rate,
        characteristic_accesses: None,
    })
}

/// A run over a trace.
pub(super) struct Lifo<S> {
    sizes: S,
    capacity: u64,
    used: u64,
    held: Vec<bool>,
    /// What is held, the eldest first.
    order: Vec<u32>,
}

impl<S: Sizes> Lifo<S> {
    pub(super) fn new(objects: usize, sizes: S, capacity: u64) -> Self {
        Self {
            sizes,
            capacity,
            used: 0,
            held: vec![false; objects],
            order: Vec::new(),
        }
    }
}

impl<S: Sizes> Replayer for Lifo<S> {
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
            let Some(newest) = self.order.pop() else {
                break;
            };
            self.held[newest as usize] = false;
            self.used -= self.sizes.of(newest);
        }
        self.used += size;
        self.held[id as usize] = true;
        self.order.push(id);
        false
    }
}

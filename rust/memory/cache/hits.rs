//! What share of independent accesses does a cache of a policy and a capacity serve?

use super::policy::Policy;
use super::popularity::Demand;
use super::static_cache::FillOrder;
use super::{fifo, lifo, lru, static_cache};
use crate::control::Control;
use crate::error::{Error, Result};
use rayon::prelude::*;
use serde::Serialize;

/// What a cache serves in the long run, cold misses left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Hits {
    /// Accesses that find their object, as a share of all.
    pub hit_rate: f64,
    /// Bytes of them, as a share of the bytes of all.
    pub byte_hit_rate: f64,
    /// Accesses for which an object stays after its last use (LRU) or after it came in (FIFO, random);
    /// infinite where all fit. No other policy has such a time.
    pub characteristic_accesses: Option<f64>,
}

impl Demand {
    /// Expected hits under independent references. `capacity` counts objects, or bytes where objects
    /// have sizes.
    pub fn hits(&self, policy: Policy, capacity: f64, control: &Control) -> Result<Hits> {
        if !(0.0..=1e30).contains(&capacity) {
            return Err(Error::invalid("capacity", capacity, "0 to 1e30"));
        }
        match policy {
            Policy::Static => Ok(static_cache::expected(
                self,
                capacity,
                FillOrder::RequestsPerSize,
            )),
            Policy::Lfu => Ok(static_cache::expected(self, capacity, FillOrder::Requests)),
            Policy::Lru => lru::expected(self, capacity, control),
            Policy::Fifo | Policy::Random => fifo::expected(self, capacity, control),
            Policy::Lifo => lifo::expected(self, capacity, control),
            Policy::Belady => {
                let allowed = "static, lfu, lru, fifo, random or lifo: belady looks at a trace";
                Err(Error::invalid("policy", policy.name(), allowed))
            }
        }
    }

    /// The same for many capacities, in their order.
    pub fn many(&self, policy: Policy, capacities: &[f64], control: &Control) -> Result<Vec<Hits>> {
        control.set_total(capacities.len() as u64);
        capacities
            .par_iter()
            .map(|capacity| {
                let found = self.hits(policy, *capacity, control);
                control.advance(1);
                found
            })
            .collect()
    }
}

//! Which accesses does a cache serve that holds what is popular, whatever is asked for meanwhile?

use super::hits::Hits;
use super::popularity::{Class, Demand};
use super::replay::{Replayer, Sizes};
use super::zipf;

/// Which objects a fixed cache takes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FillOrder {
    /// Requests for a unit of room.
    RequestsPerSize,
    /// Requests alone, as counting does that is blind to sizes.
    Requests,
}

/// Hits of the objects that come first, as many as fit: the popularity's mass at its head.
///
/// Exact for a cache that is filled so and stays so, and the limit of LFU whose counts never end. Of a
/// Zipf law the mass of `k` out of `n` objects is `sum_(i<=k) i^-s / sum_(i<=n) i^-s`. Objects of unequal
/// sizes are taken by requests for a byte until the next one does not fit.
pub(super) fn expected(demand: &Demand, capacity: f64, by: FillOrder) -> Hits {
    if let Some((objects, exponent)) = demand.zipf {
        let held = capacity.floor().clamp(0.0, objects as f64);
        // a count that is whole and no larger than that of the objects
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let held = held as u64;
        let part = zipf::partial_sum(held, exponent) / zipf::partial_sum(objects, exponent);
        return Hits {
            hit_rate: part.min(1.0),
            byte_hit_rate: part.min(1.0),
            characteristic_accesses: None,
        };
    }
    let mut classes = demand.classes.clone();
    if by == FillOrder::RequestsPerSize {
        let density = |class: &Class| class.chance / class.size;
        classes.sort_by(|a, b| density(b).total_cmp(&density(a)));
    }
    let (mut room, mut objects, mut bytes) = (capacity, 0.0, 0.0);
    for class in &classes {
        let fits = (room / class.size).floor().min(class.count);
        room -= fits * class.size;
        objects += fits * class.chance;
        bytes += fits * class.chance * class.size;
        if fits < class.count {
            break;
        }
    }
    Hits {
        hit_rate: objects.min(1.0),
        byte_hit_rate: (bytes / demand.mean_size).min(1.0),
        characteristic_accesses: None,
    }
}

/// A run over a trace whose most popular objects are known before: others pass by.
pub(super) struct StaticCache {
    held: Vec<bool>,
    loaded: Vec<bool>,
}

impl StaticCache {
    pub(super) fn new<S: Sizes>(ids: &[u32], objects: usize, sizes: &S, capacity: u64) -> Self {
        let mut requests = vec![0_u32; objects];
        for id in ids {
            requests[*id as usize] += 1;
        }
        let mut order: Vec<u32> = (0_u32..).take(objects).collect();
        order.retain(|id| requests[*id as usize] > 0);
        let density = |id: u32| f64::from(requests[id as usize]) / sizes.of(id) as f64;
        order.sort_by(|a, b| density(*b).total_cmp(&density(*a)).then(a.cmp(b)));
        let (mut held, mut room) = (vec![false; objects], capacity);
        for id in order {
            let Some(left) = room.checked_sub(sizes.of(id)) else {
                break;
            };
            room = left;
            held[id as usize] = true;
        }
        Self {
            held,
            loaded: vec![false; objects],
        }
    }
}

impl Replayer for StaticCache {
    #[inline]
    fn access(&mut self, _: u32, id: u32) -> bool {
        let index = id as usize;
        let hit = self.loaded[index];
        if !hit && self.held[index] {
            self.loaded[index] = true;
        }
        hit
    }
}

//! Which accesses of a trace does a cache serve?

use super::belady::{Belady, BeladyBySize};
use super::fifo::Fifo;
use super::lfu::Lfu;
use super::lifo::Lifo;
use super::lru::Lru;
use super::policy::Policy;
use super::random::AtRandom;
use super::static_cache::StaticCache;
use crate::control::Control;
use crate::error::{Error, Result};
use serde::Serialize;

/// Accesses between two looks at whether to stop.
const POLL: usize = 1 << 16;
/// Most accesses: their places are 32-bit numbers.
const MOST_ACCESSES: usize = (1 << 31) - 1;
/// Most object numbers: arrays have an element for each.
const MOST_OBJECTS: usize = 1 << 28;

/// A cache that is asked for one object after the other.
pub(super) trait Replayer {
    /// True if the object is there; whatever it does then is the policy's.
    fn access(&mut self, place: u32, id: u32) -> bool;
}

/// The sizes of objects.
pub(super) trait Sizes: Copy {
    /// Of one object, in what the capacity is counted.
    fn of(&self, id: u32) -> u64;
}

/// All alike.
#[derive(Clone, Copy)]
struct EqualSizes;

impl Sizes for EqualSizes {
    #[inline]
    fn of(&self, _: u32) -> u64 {
        1
    }
}

/// As given, in bytes.
#[derive(Clone, Copy)]
struct GivenSizes<'a>(&'a [u64]);

impl Sizes for GivenSizes<'_> {
    #[inline]
    fn of(&self, id: u32) -> u64 {
        self.0[id as usize]
    }
}

/// Accesses to objects, in their order.
#[derive(Debug, Clone, Copy)]
pub struct Trace<'a> {
    pub(super) ids: &'a [u32],
    pub(super) objects: usize,
    sizes: &'a [u64],
}

/// What a run over a trace came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// Accesses in all: hits and misses.
    pub accesses: u64,
    /// That found their object.
    pub hits: u64,
    /// That did not.
    pub misses: u64,
    /// Of the misses, first accesses to an object.
    pub cold_misses: u64,
    /// Size of what was found: bytes, or objects where they are all alike.
    pub hit_bytes: u64,
    /// Size of what was not.
    pub miss_bytes: u64,
}

impl<'a> Trace<'a> {
    /// Checks a trace. Arrays have an element up to the largest number, so objects should be numbered
    /// densely. `sizes` has the bytes of each object, or nothing: all alike.
    pub fn new(ids: &'a [u32], sizes: &'a [u64]) -> Result<Self> {
        if ids.len() > MOST_ACCESSES {
            return Err(Error::invalid(
                "trace",
                ids.len(),
                "up to 2^31 - 1 accesses",
            ));
        }
        let objects = ids.iter().max().map_or(0, |id| *id as usize + 1);
        if objects > MOST_OBJECTS {
            let allowed = "objects numbered from 0 to 2^28 - 1";
            return Err(Error::invalid("trace", objects - 1, allowed));
        }
        if !sizes.is_empty() && sizes.len() < objects {
            let allowed = format!("{objects} or more: one for each object of the trace");
            return Err(Error::invalid("sizes", sizes.len(), allowed));
        }
        let most = (1_u64 << 62) / (ids.len().max(1) as u64);
        for (index, size) in sizes.iter().enumerate() {
            if *size == 0 || *size > most {
                let allowed = format!("1 to {most}, that sums of bytes stay below 2^62");
                return Err(Error::invalid(format!("sizes[{index}]"), size, allowed));
            }
        }
        Ok(Self {
            ids,
            objects,
            sizes,
        })
    }
}

/// Runs a trace through an empty cache. `capacity` counts objects, or bytes where they have sizes; an
/// object larger than it passes by. `seed` matters for random eviction alone.
pub fn replay(
    trace: &Trace,
    policy: Policy,
    capacity: u64,
    seed: u64,
    control: &Control,
) -> Result<Replay> {
    let capacity = capacity.min(1 << 62);
    if trace.sizes.is_empty() {
        if policy == Policy::Belady {
            let best = Belady::new(trace.ids.len(), trace.objects, capacity);
            return run(trace, best, &EqualSizes, control);
        }
        return by_policy(trace, policy, capacity, seed, EqualSizes, control);
    }
    by_policy(
        trace,
        policy,
        capacity,
        seed,
        GivenSizes(trace.sizes),
        control,
    )
}

fn by_policy<S: Sizes>(
    trace: &Trace,
    policy: Policy,
    capacity: u64,
    seed: u64,
    sizes: S,
    control: &Control,
) -> Result<Replay> {
    let (ids, objects) = (trace.ids, trace.objects);
    match policy {
        Policy::Static => {
            let cache = StaticCache::new(ids, objects, &sizes, capacity);
            run(trace, cache, &sizes, control)
        }
        Policy::Lfu => run(trace, Lfu::new(objects, sizes, capacity), &sizes, control),
        Policy::Lru => {
            let cache = Lru::new(ids, objects, sizes, capacity);
            run(trace, cache, &sizes, control)
        }
        Policy::Fifo => run(trace, Fifo::new(objects, sizes, capacity), &sizes, control),
        Policy::Random => {
            let cache = AtRandom::new(objects, sizes, capacity, seed);
            run(trace, cache, &sizes, control)
        }
        Policy::Lifo => run(trace, Lifo::new(objects, sizes, capacity), &sizes, control),
        Policy::Belady => {
            let cache = BeladyBySize::new(ids, objects, sizes, capacity);
            run(trace, cache, &sizes, control)
        }
    }
}

fn run<C: Replayer, S: Sizes>(
    trace: &Trace,
    mut cache: C,
    sizes: &S,
    control: &Control,
) -> Result<Replay> {
    control.set_total(trace.ids.len() as u64);
    let mut seen = vec![false; trace.objects];
    let mut found = Replay::default();
    let mut place = 0_u32;
    for part in trace.ids.chunks(POLL) {
        if control.is_cancelled() {
            let what = format!("{place} of {} accesses", trace.ids.len());
            return Err(Error::Cancelled { what });
        }
        for id in part {
            let size = sizes.of(*id);
            if cache.access(place, *id) {
                found.hits += 1;
                found.hit_bytes += size;
            } else {
                found.misses += 1;
                found.miss_bytes += size;
                let first = !std::mem::replace(&mut seen[*id as usize], true);
                found.cold_misses += u64::from(first);
            }
            place += 1;
        }
        control.advance(part.len() as u64);
    }
    found.accesses = found.hits + found.misses;
    Ok(found)
}

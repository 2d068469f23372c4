//! Which accesses does LRU serve at every capacity at once?

use super::replay::Trace;
use crate::control::Control;
use crate::error::{Error, Result};

/// Accesses between two looks at whether to stop.
const POLL: usize = 1 << 16;

/// Hits of LRU with room for 0, 1, 2, .. objects, up to all of the trace (Mattson et al. 1970).
///
/// An access hits where room is at least its stack distance: how many objects were used since the same
/// object was, itself included. Marks at the last use of every object are counted by a Fenwick tree
/// over words of 64 times; `O(log accesses)` an access. Sizes of the trace are not looked at.
pub fn lru_curve(trace: &Trace, control: &Control) -> Result<Vec<u64>> {
    let ids = trace.ids;
    control.set_total(ids.len() as u64);
    let mut marks = Marks::new(ids.len());
    // place behind the last access; 0: none
    let mut last = vec![0_usize; trace.objects];
    let mut distances = vec![0_u64; trace.objects + 1];
    let (mut live, mut place) = (0_usize, 0_usize);
    for part in ids.chunks(POLL) {
        if control.is_cancelled() {
            let what = format!("{place} of {} accesses", ids.len());
            return Err(Error::Cancelled { what });
        }
        for id in part {
            let before = std::mem::replace(&mut last[*id as usize], place + 1);
            if before == 0 {
                live += 1;
            } else {
                distances[live - marks.before(before - 1)] += 1;
                marks.remove(before - 1);
            }
            marks.add(place);
            place += 1;
        }
        control.advance(part.len() as u64);
    }
    distances.truncate(live + 1);
    let mut hits = 0;
    for distance in &mut distances {
        hits += *distance;
        *distance = hits;
    }
    Ok(distances)
}

/// Marked times, and how many lie before one.
struct Marks {
    words: Vec<u64>,
    /// Fenwick tree over the counts of the words; the first element is not used.
    sums: Vec<u32>,
}

impl Marks {
    fn new(times: usize) -> Self {
        let words = times.div_ceil(64);
        Self {
            words: vec![0; words],
            sums: vec![0; words + 1],
        }
    }

    #[inline]
    fn add(&mut self, time: usize) {
        self.words[time / 64] |= 1 << (time % 64);
        let mut at = time / 64 + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum += 1;
            at += at & at.wrapping_neg();
        }
    }

    #[inline]
    fn remove(&mut self, time: usize) {
        self.words[time / 64] &= !(1 << (time % 64));
        let mut at = time / 64 + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum -= 1;
            at += at & at.wrapping_neg();
        }
    }

    #[inline]
    fn before(&self, time: usize) -> usize {
        let below = self.words[time / 64] & ((1 << (time % 64)) - 1);
        let mut count = below.count_ones() as usize;
        let mut at = time / 64;
        while at > 0 {
            count += self.sums[at] as usize;
            at &= at - 1;
        }
        count
    }
}

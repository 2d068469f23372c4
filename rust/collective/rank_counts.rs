//! Which numbers of ranks does an array hold, and which of its elements have the same one?

/// Numbers of ranks up to which each has a place of its own.
const MOST_INDEXED: usize = 1 << 22;

/// Numbers for each element of the array, up to which marking them is quicker than sorting them.
const MOST_MARKED: usize = 16;

/// The different numbers of ranks of an array, in order.
pub(super) struct RankCounts {
    /// Different numbers of ranks, from the least.
    pub(super) ranks: Vec<u32>,
    /// The place in `ranks` by number; empty where numbers are too large, which are then searched for.
    index: Vec<u32>,
}

impl RankCounts {
    pub(super) fn new(all: &[u32]) -> Self {
        let most = all.iter().max().map_or(0, |&most| most as usize);
        let mut index = Vec::new();
        if all.len() > 1 && most <= MOST_INDEXED {
            index = vec![0; most + 1];
        }
        let ranks = if !index.is_empty() && most / MOST_MARKED <= all.len() {
            for &ranks in all {
                index[ranks as usize] = 1;
            }
            let numbers = (0..).zip(&index);
            numbers
                .filter(|(_, mark)| **mark > 0)
                .map(|n| n.0)
                .collect()
        } else {
            let mut different = all.to_vec();
            different.sort_unstable();
            different.dedup();
            different
        };
        if !index.is_empty() {
            for (place, &ranks) in (0..).zip(&ranks) {
                index[ranks as usize] = place;
            }
        }
        Self { ranks, index }
    }

    /// The place of a number in `ranks`.
    pub(super) fn find(&self, ranks: u32) -> usize {
        match self.index.get(ranks as usize) {
            Some(&place) => place as usize,
            None => self.ranks.binary_search(&ranks).unwrap_or(0),
        }
    }

    /// Hands out the places of `all`, each number's side by side where numbers are fewer than elements.
    pub(super) fn each_run(&self, all: &[u32], mut take: impl FnMut(usize, &[u32])) {
        let found: Vec<usize> = all.iter().map(|&ranks| self.find(ranks)).collect();
        let mut order: Vec<u32> = (0..).take(all.len()).collect();
        if self.ranks.len() <= all.len() {
            let mut starts = vec![0_usize; self.ranks.len() + 1];
            for &place in &found {
                starts[place + 1] += 1;
            }
            for place in 1..starts.len() {
                starts[place] += starts[place - 1];
            }
            for (at, &place) in (0..).zip(&found) {
                order[starts[place]] = at;
                starts[place] += 1;
            }
        }
        for run in order.chunk_by(|&a, &b| found[a as usize] == found[b as usize]) {
            take(found[run[0] as usize], run);
        }
    }
}

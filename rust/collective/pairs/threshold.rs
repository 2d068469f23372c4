//! Which slowest hop does every ring over all ranks have at least?

use super::ring::Hops;

/// The least cost so that the hops up to it could carry a ring: they join every rank to every other in
/// both directions, still join the others where any one rank is left out, and let each rank have a
/// next rank of its own. None where no hops can.
///
/// A ring obeys all three, so this is a bound on its slowest hop.
pub(super) fn least_hop(hops: &Hops) -> Option<f64> {
    let mut costs: Vec<f64> = hops.costs().to_vec();
    costs.retain(|cost| cost.is_finite());
    costs.sort_by(f64::total_cmp);
    costs.dedup();
    let may_carry = |most: f64| {
        joined(hops, |from, to| hops.cost(from, to) <= most)
            && joined(hops, |from, to| hops.cost(to, from) <= most)
            && DepthFirstSearch::new(hops, most).need_no_single_rank()
            && covered(hops, most)
    };
    let fails = costs.partition_point(|&most| !may_carry(most));
    costs.get(fails).copied()
}

/// Does a path lead from rank 0 to every rank?
fn joined(hops: &Hops, linked: impl Fn(usize, usize) -> bool) -> bool {
    let mut seen = vec![false; hops.ranks];
    seen[0] = true;
    let mut open = vec![0];
    while let Some(from) = open.pop() {
        for (to, seen) in seen.iter_mut().enumerate() {
            if !*seen && from != to && linked(from, to) {
                *seen = true;
                open.push(to);
            }
        }
    }
    seen.iter().all(|&seen| seen)
}

/// A walk in depth over hops of at most a cost, whichever their direction.
struct DepthFirstSearch<'a> {
    hops: &'a Hops,
    most: f64,
    /// When each rank was first seen, from 1; 0 before.
    seen: Vec<usize>,
    count: usize,
}

impl<'a> DepthFirstSearch<'a> {
    fn new(hops: &'a Hops, most: f64) -> Self {
        Self {
            hops,
            most,
            seen: vec![0; hops.ranks],
            count: 0,
        }
    }

    /// No rank is the only way between two others (Hopcroft and Tarjan 1973).
    fn need_no_single_rank(mut self) -> bool {
        self.visit(0, 0).is_some() && self.seen.iter().all(|&seen| seen > 0)
    }

    /// The first seen of the ranks that a hop joins to `rank` or those visited from it; none where
    /// these hang on `rank`'s parent, or on `rank`, alone.
    fn visit(&mut self, rank: usize, parent: usize) -> Option<usize> {
        self.count += 1;
        self.seen[rank] = self.count;
        let (mut lowest, own) = (self.count, self.count);
        for other in 0..self.hops.ranks {
            let cost = self.hops.cost(rank, other).min(self.hops.cost(other, rank));
            if other == rank || other == parent || cost > self.most {
                continue;
            }
            if self.seen[other] > 0 {
                lowest = lowest.min(self.seen[other]);
                continue;
            }
            if own == 1 && self.count > 1 {
                return None; // a second branch of the first rank
            }
            let reached = self.visit(other, rank)?;
            if own > 1 && reached >= own {
                return None;
            }
            lowest = lowest.min(reached);
        }
        Some(lowest)
    }
}

/// Can every rank have a next rank that is no other's next? Matching by augmenting paths (Berge 1957).
fn covered(hops: &Hops, most: f64) -> bool {
    let mut taken_by = vec![None; hops.ranks];
    let mut tried = vec![false; hops.ranks];
    (0..hops.ranks).all(|rank| {
        tried.fill(false);
        augment(hops, most, rank, (&mut taken_by, &mut tried))
    })
}

fn augment(
    hops: &Hops,
    most: f64,
    rank: usize,
    (taken_by, tried): (&mut [Option<usize>], &mut [bool]),
) -> bool {
    for next in 0..hops.ranks {
        if next == rank || tried[next] || hops.cost(rank, next) > most {
            continue;
        }
        tried[next] = true;
        let free = match taken_by[next] {
            None => true,
            Some(other) => augment(hops, most, other, (taken_by, tried)),
        };
        if free {
            taken_by[next] = Some(rank);
            return true;
        }
    }
    false
}

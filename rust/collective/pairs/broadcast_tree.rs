//! Which tree reaches all ranks from a root soonest, if all of it moves at no less than a given pace?

use super::links::Pairs;

/// Shares closer than this are equal: rounding alone parts them.
const SAME: f64 = 1e-12;

/// A tree over all ranks whose data flow from the root outwards.
pub(super) struct BroadcastTree {
    /// The rank from which each rank gets its data; the root's own at the root.
    pub(super) parents: Vec<usize>,
    /// How many ranks get their data from each rank.
    pub(super) children: Vec<usize>,
    /// Latency of the deepest path in seconds.
    pub(super) depth: f64,
    /// Bytes/s of its slowest link, ports being shared equally by the children.
    pub(super) pace: f64,
}

impl BroadcastTree {
    /// Bytes/s that the link to `rank` from its parent can carry beside the parent's other links.
    pub(super) fn share(&self, pairs: &Pairs, rank: usize) -> f64 {
        let parent = self.parents[rank];
        let port = pairs.out(parent) / self.children[parent] as f64;
        pairs.rate(parent, rank).min(port)
    }
}

/// A tree in the making.
struct TreeBuilder<'a> {
    pairs: &'a Pairs,
    pace: f64,
    inside: Vec<bool>,
    children: Vec<usize>,
    /// Least latency known from the root, and over which rank.
    distances: Vec<f64>,
    parents: Vec<usize>,
}

/// Takes the nearest rank into the tree until all are in (Dijkstra 1959), over links of at least `pace`
/// and with no more children of a rank than its port feeds at that pace. None where that does not
/// reach all ranks.
///
/// Without port limits no tree of this pace has a shorter deepest path. With them it is a heuristic.
pub(super) fn grow_tree(pairs: &Pairs, root: usize, pace: f64) -> Option<BroadcastTree> {
    let ranks = pairs.ranks();
    let mut growth = TreeBuilder {
        pairs,
        pace,
        inside: vec![false; ranks],
        children: vec![0; ranks],
        distances: vec![f64::INFINITY; ranks],
        parents: vec![root; ranks],
    };
    growth.distances[root] = 0.0;
    growth.inside[root] = true;
    growth.offer(root);
    for _ in 1..ranks {
        growth.take()?;
    }
    let TreeBuilder {
        children,
        distances,
        parents,
        ..
    } = growth;
    let mut grown = BroadcastTree {
        parents,
        children,
        depth: distances.into_iter().fold(0.0, f64::max),
        pace: f64::INFINITY,
    };
    let others = (0..ranks).filter(|&rank| rank != root);
    let shares = others.map(|rank| grown.share(pairs, rank));
    grown.pace = shares.fold(f64::INFINITY, f64::min);
    Some(grown)
}

impl TreeBuilder<'_> {
    /// Can the port of a rank in the tree feed another child?
    fn has_room(&self, rank: usize) -> bool {
        let needed = (self.children[rank] + 1) as f64 * self.pace;
        needed <= self.pairs.out(rank) * (1.0 + SAME)
    }

    /// Shows the links of a rank in the tree to all ranks outside.
    fn offer(&mut self, from: usize) {
        if !self.has_room(from) {
            return;
        }
        for to in 0..self.pairs.ranks() {
            if !self.inside[to] {
                self.link(from, to);
            }
        }
    }

    fn link(&mut self, from: usize, to: usize) {
        if self.pairs.rate(from, to) < self.pace {
            return;
        }
        let distance = self.distances[from] + self.pairs.latency(from, to);
        if distance < self.distances[to] {
            self.distances[to] = distance;
            self.parents[to] = from;
        }
    }

    /// Takes the nearest rank in; none where no rank can be reached.
    fn take(&mut self) -> Option<()> {
        let outside = (0..self.pairs.ranks()).filter(|&rank| !self.inside[rank]);
        let reached = outside.filter(|&rank| self.distances[rank].is_finite());
        let next = reached.min_by(|&a, &b| self.distances[a].total_cmp(&self.distances[b]))?;
        let parent = self.parents[next];
        self.inside[next] = true;
        self.children[parent] += 1;
        if !self.has_room(parent) {
            self.leave(parent);
        }
        self.offer(next);
        Some(())
    }

    /// Finds other ways to the ranks outside that wanted to hang on `full`.
    fn leave(&mut self, full: usize) {
        for to in 0..self.pairs.ranks() {
            if self.inside[to] || self.parents[to] != full {
                continue;
            }
            self.distances[to] = f64::INFINITY;
            for from in 0..self.pairs.ranks() {
                if self.inside[from] && self.has_room(from) {
                    self.link(from, to);
                }
            }
        }
    }
}

//! Over which tree does a buffer reach all ranks soonest, and which root suits a sum best?

use super::bound::shortest;
use super::broadcast_tree::{BroadcastTree, grow_tree};
use super::links::Pairs;
use crate::control::Control;
use crate::error::{Error, Result};

/// Looks at links that all trees of one question may cost together, about a second.
const LOOKS: usize = 1 << 28;
/// How much dearer a tree is whose ranks run out of room for children.
const CROWDED: usize = 16;

/// The best tree found from one root.
pub(super) struct Tree {
    pub(super) grown: BroadcastTree,
    pub(super) root: usize,
    pub(super) time: f64,
    /// What no tree from this root goes below.
    pub(super) least: f64,
}

impl Tree {
    /// The faster of two.
    fn or(self, other: Self) -> Self {
        if other.time < self.time { other } else { self }
    }
}

/// Trees whose data flow along the links of `pairs`, away from the root.
pub(super) struct Trees<'a> {
    pairs: &'a Pairs,
    bytes: f64,
    /// Every pace at which the slowest link of a tree can move, from high to low.
    paces: Vec<f64>,
    /// Trees that may still be grown; each costs `ranks^2` looks.
    left: usize,
    /// With limits on ports, growing a tree is a heuristic.
    has_ports: bool,
}

impl<'a> Trees<'a> {
    pub(super) fn new(pairs: &'a Pairs, bytes: f64) -> Self {
        let ranks = pairs.ranks();
        let mut paces: Vec<f64> = pairs.rates().to_vec();
        paces.retain(|&rate| rate > 0.0);
        let limited = (0..ranks).map(|rank| pairs.out(rank));
        let limited: Vec<f64> = limited.filter(|port| port.is_finite()).collect();
        let has_ports = !limited.is_empty();
        for port in &limited {
            paces.extend((1..ranks).map(|children| port / children as f64));
        }
        paces.sort_by(|a, b| b.total_cmp(a));
        paces.dedup();
        Self {
            pairs,
            bytes,
            paces,
            left: LOOKS / (ranks * ranks) / if has_ports { CROWDED } else { 1 },
            has_ports,
        }
    }

    /// What no tree from `root` goes below: the longest shortest path, and the slowest of the widest paths.
    pub(super) fn bound(&self, root: usize) -> f64 {
        let distances = shortest(self.pairs, root);
        let depth = distances.into_iter().fold(0.0, f64::max);
        depth + self.bytes / self.widest(root)
    }

    /// The tree from `root` that minimises `T = D + n / r`; none where links do not reach all ranks.
    ///
    /// `D` is the latency of its deepest path, `r` the rate of its slowest link, at which all of it
    /// moves; segments are so small that filling it costs nothing. At a given `r` the least `D` is
    /// that of the shortest paths over links of at least `r`. `D` falls with `r`, so between two
    /// paces `T` is at least `D` of the lower and `n / r` of the higher: such stretches are cut off
    /// until only the best is left.
    pub(super) fn best_from(&mut self, root: usize) -> Option<Tree> {
        let least = self.bound(root);
        let widest = self.widest(root);
        let high = self.paces.partition_point(|&pace| pace > widest);
        let low = self.paces.len().checked_sub(1)?;
        let lowest = self.grown(root, low)?;
        let depth = lowest.depth;
        let mut best = self.priced(root, lowest);
        if let Some(grown) = self.grown(root, high) {
            best = best.or(self.priced(root, grown));
        }
        let mut open = vec![(high, low, depth)];
        let mut is_exact = !self.has_ports;
        while let Some((high, low, depth)) = open.pop() {
            if low <= high + 1 || depth + self.bytes / self.paces[high + 1] >= best.time {
                continue;
            }
            if self.left == 0 {
                is_exact = false;
                break;
            }
            let middle = high.midpoint(low);
            let Some(grown) = self.grown(root, middle) else {
                open.push((middle, low, depth));
                continue;
            };
            open.push((high, middle, grown.depth));
            open.push((middle, low, depth));
            best = best.or(self.priced(root, grown));
        }
        best.least = if is_exact {
            best.time
        } else {
            least.min(best.time)
        };
        Some(best)
    }

    fn grown(&mut self, root: usize, pace: usize) -> Option<BroadcastTree> {
        self.left = self.left.saturating_sub(1);
        grow_tree(self.pairs, root, self.paces[pace])
    }

    fn priced(&self, root: usize, grown: BroadcastTree) -> Tree {
        Tree {
            time: grown.depth + self.bytes / grown.pace,
            grown,
            root,
            least: 0.0,
        }
    }

    /// Rate of the slowest link on the widest paths from `root` to all ranks (Pollack 1960); ports whole.
    fn widest(&self, root: usize) -> f64 {
        let pairs = self.pairs;
        let mut widths = vec![0.0; pairs.ranks()];
        widths[root] = f64::INFINITY;
        let mut open: Vec<usize> = (0..pairs.ranks()).collect();
        let mut least = f64::INFINITY;
        while let Some(place) =
            (0..open.len()).max_by(|&a, &b| widths[open[a]].total_cmp(&widths[open[b]]))
        {
            let wide = open.swap_remove(place);
            least = least.min(widths[wide]);
            for &to in &open {
                let through = widths[wide].min(pairs.rate(wide, to));
                widths[to] = widths[to].max(through);
            }
        }
        least
    }
}

/// A sum over one tree to a root, and its broadcast over another; they need not be the same.
pub(super) struct ReduceAndBroadcast {
    pub(super) up: Tree,
    pub(super) down: Tree,
    /// What no root and no two trees go below.
    pub(super) least: f64,
}

/// The root, and its trees inwards (over `turned` links) and outwards, that together take least time.
///
/// `T = D_up + n / r_up + D_down + n / r_down`, the sum being whole at the root before it goes out.
/// Roots are taken by their bounds until the next bound is above the best time.
pub(super) fn best_root(
    (pairs, turned): (&Pairs, &Pairs),
    bytes: f64,
    control: &Control,
) -> Result<Option<ReduceAndBroadcast>> {
    let (mut out, mut into) = (Trees::new(pairs, bytes), Trees::new(turned, bytes));
    let mut roots: Vec<(f64, usize)> = Vec::with_capacity(pairs.ranks());
    for root in 0..pairs.ranks() {
        check_cancelled(control, root)?;
        roots.push((out.bound(root) + into.bound(root), root));
    }
    roots.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut best, mut least): (Option<ReduceAndBroadcast>, f64) = (None, f64::INFINITY);
    for (done, &(bound, root)) in roots.iter().enumerate() {
        check_cancelled(control, done)?;
        let time = best.as_ref().map(|best| best.up.time + best.down.time);
        let is_spent = out.left == 0 || into.left == 0;
        if time.is_some_and(|time| bound >= time || is_spent) {
            least = least.min(bound);
            break;
        }
        let (Some(up), Some(down)) = (into.best_from(root), out.best_from(root)) else {
            return Ok(None);
        };
        least = least.min(up.least + down.least);
        if time.is_none_or(|time| up.time + down.time < time) {
            best = Some(ReduceAndBroadcast { up, down, least });
        }
    }
    Ok(best.map(|best| ReduceAndBroadcast {
        least: least.min(best.up.time + best.down.time),
        ..best
    }))
}

fn check_cancelled(control: &Control, roots: usize) -> Result<()> {
    if control.is_cancelled() {
        let what = format!("trees from {roots} roots");
        return Err(Error::Cancelled { what });
    }
    Ok(())
}

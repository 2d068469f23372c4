//! Which transfers run on two complementary binary trees between units, with chains inside?

use super::plan::TransferPlan;
use crate::error::Result;
use crate::solve::Transfer;

/// Pieces that travel one behind the other: enough that filling the trees adds little.
pub(super) const SEGMENTS: u32 = 1024;

/// All-reduce: each tree sums one half of the buffer from the leaves to its root and sends the sum back, piece
/// by piece. Units are the parts of a group inside one unit of the innermost level; their ranks form a chain
/// whose head is in the trees. Sanders, Speck and Traff 2009.
pub(super) fn add(plan: &mut TransferPlan, group: u32, bytes: f64) -> Result<()> {
    for mirrored in [false, true] {
        let mut tree = Tree::new(&parents(plan, mirrored));
        for _ in 0..SEGMENTS {
            let none = vec![Vec::new(); plan.size() as usize];
            tree.piece(plan, group, bytes / f64::from(2 * SEGMENTS), none)?;
        }
    }
    Ok(())
}

/// The rank above each rank; the root has none.
pub(super) fn parents(plan: &TransferPlan, mirrored: bool) -> Vec<Option<u32>> {
    let inside = plan.group.members[0];
    let units = plan.size() / inside;
    let above = |rank: u32| {
        if !rank.is_multiple_of(inside) {
            return Some(rank - 1);
        }
        let unit = rank / inside;
        // the other tree's inner nodes are this one's leaves
        let (there, back) = match (mirrored, units % 2) {
            (false, _) => (unit, 0),
            (true, 0) => (units - 1 - unit, 0),
            (true, _) => ((unit + units - 1) % units, 1),
        };
        let parent = in_order(there, units)?;
        let parent = match (mirrored, back) {
            (false, _) => parent,
            (true, 0) => units - 1 - parent,
            (true, _) => (parent + 1) % units,
        };
        Some(parent * inside)
    };
    (0..plan.size()).map(above).collect()
}

/// Parent of a place in a binary tree in order, whose even places are leaves: its lowest set bit moves one up,
/// or goes where that would lie outside `count` places.
fn in_order(place: u32, count: u32) -> Option<u32> {
    if place == 0 {
        return None;
    }
    let bit = place & place.wrapping_neg();
    let up = (place ^ bit) | (bit << 1);
    Some(if up < count { up } else { place ^ bit })
}

/// One tree with what has been sent in it.
pub(super) struct Tree {
    /// Each rank with its parent, children before parents.
    order: Vec<(u32, u32)>,
    ups: Vec<Option<u32>>,
    downs: Vec<Option<u32>>,
}

impl Tree {
    pub(super) fn new(parents: &[Option<u32>]) -> Self {
        Self {
            order: leaves_first(parents),
            ups: vec![None; parents.len()],
            downs: vec![None; parents.len()],
        }
    }

    /// Sums one piece and sends it back; `got` says what each rank waits for before and after.
    pub(super) fn piece(
        &mut self,
        plan: &mut TransferPlan,
        group: u32,
        size: f64,
        mut got: Vec<Vec<u32>>,
    ) -> Result<Vec<Vec<u32>>> {
        for &(rank, parent) in &self.order {
            let ends = (plan.device(group, rank), plan.device(group, parent));
            let message = Transfer {
                size,
                after: &got[rank as usize],
                behind: self.ups[rank as usize],
                ..Transfer::default()
            };
            let sent = plan.send(ends, message)?;
            self.ups[rank as usize] = Some(sent);
            got[parent as usize].push(sent);
        }
        for &(rank, parent) in self.order.iter().rev() {
            let ends = (plan.device(group, parent), plan.device(group, rank));
            let message = Transfer {
                size,
                after: &got[parent as usize],
                behind: self.downs[rank as usize],
                ..Transfer::default()
            };
            let sent = plan.send(ends, message)?;
            self.downs[rank as usize] = Some(sent);
            got[rank as usize] = vec![sent];
        }
        Ok(got)
    }
}

/// Each rank with its parent, children before parents.
fn leaves_first(parents: &[Option<u32>]) -> Vec<(u32, u32)> {
    let depth = |rank: u32| std::iter::successors(Some(rank), |&at| parents[at as usize]).count();
    let mut edges: Vec<(u32, u32)> = (0_u32..)
        .zip(parents)
        .filter_map(|(rank, parent)| Some((rank, (*parent)?)))
        .collect();
    edges.sort_by_key(|&(rank, _)| std::cmp::Reverse(depth(rank)));
    edges
}

//! Which transfers run on two complementary binary trees between units, with chains inside?

use super::plan::Plan;
use crate::error::Result;
use crate::solve::Transfer;

/// Pieces that travel one behind the other: enough that filling the trees adds little.
const SEGMENTS: u32 = 1024;

/// All-reduce: each tree sums one half of the buffer from the leaves to its root and sends the sum back, piece
/// by piece. Units are the parts of a group inside one unit of the innermost level; their ranks form a chain
/// whose head is in the trees. Sanders, Speck and Traff 2009.
pub(super) fn add(plan: &mut Plan, group: u32, bytes: f64) -> Result<()> {
    for mirrored in [false, true] {
        let parents = parents(plan, mirrored);
        one(plan, group, &parents, bytes / 2.0)?;
    }
    Ok(())
}

/// The rank above each rank; the root has none.
fn parents(plan: &Plan, mirrored: bool) -> Vec<Option<u32>> {
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

fn one(plan: &mut Plan, group: u32, parents: &[Option<u32>], bytes: f64) -> Result<()> {
    let size = parents.len();
    let order = from_the_leaves(parents);
    let piece = bytes / f64::from(SEGMENTS);
    let mut ups: Vec<Option<u32>> = vec![None; size];
    let mut downs: Vec<Option<u32>> = vec![None; size];
    for _ in 0..SEGMENTS {
        let mut got: Vec<Vec<u32>> = vec![Vec::new(); size];
        for &(rank, parent) in &order {
            let ends = (plan.device(group, rank), plan.device(group, parent));
            let message = Transfer {
                size: piece,
                after: &got[rank as usize],
                behind: ups[rank as usize],
                ..Transfer::default()
            };
            let sent = plan.send(ends, message)?;
            ups[rank as usize] = Some(sent);
            got[parent as usize].push(sent);
        }
        for &(rank, parent) in order.iter().rev() {
            let ends = (plan.device(group, parent), plan.device(group, rank));
            let message = Transfer {
                size: piece,
                after: &got[parent as usize],
                behind: downs[rank as usize],
                ..Transfer::default()
            };
            let sent = plan.send(ends, message)?;
            downs[rank as usize] = Some(sent);
            got[rank as usize] = vec![sent];
        }
    }
    Ok(())
}

/// Each rank with its parent, children before parents.
fn from_the_leaves(parents: &[Option<u32>]) -> Vec<(u32, u32)> {
    let depth = |rank: u32| std::iter::successors(Some(rank), |&at| parents[at as usize]).count();
    let mut edges: Vec<(u32, u32)> = (0_u32..)
        .zip(parents)
        .filter_map(|(rank, parent)| Some((rank, (*parent)?)))
        .collect();
    edges.sort_by_key(|&(rank, _)| std::cmp::Reverse(depth(rank)));
    edges
}

//! Which transfers does an all-reduce run whose sums are formed in the hosts' processors?

use super::plan::TransferPlan;
use super::tree::{self, SEGMENTS, Tree};
use crate::error::Result;

/// Pieces of a device that can be under way: more would fill the memory with sums that nobody fetches.
const WINDOW: usize = 12;

/// Piece by piece: each device copies up, the processor of its node adds what has come, the sums of the nodes
/// are added over two binary trees, one copy a node, and each device gets the result. An et al. 2024 (`HFReduce`).
pub(super) fn add(plan: &mut TransferPlan, group: u32, bytes: f64) -> Result<()> {
    let size = bytes / f64::from(2 * SEGMENTS);
    let inside = plan.group.members[0];
    let count = plan.size() as usize;
    for mirrored in [false, true] {
        let mut parents = tree::parents(plan, mirrored);
        for (rank, parent) in (0_u32..).zip(&mut parents) {
            if !rank.is_multiple_of(inside) {
                *parent = None; // its node's first rank stands for it
            }
        }
        let mut nodes = Tree::new(&parents);
        let mut ups: Vec<Option<u32>> = vec![None; count];
        let mut downs: Vec<Vec<[u32; 2]>> = vec![Vec::new(); count];
        for piece in 0..SEGMENTS as usize {
            let mut sums = vec![Vec::new(); count];
            for ((rank, last), done) in (0_u32..).zip(&mut ups).zip(&downs) {
                let free = piece.checked_sub(WINDOW).map(|earlier| done[earlier]);
                let sent = plan.copy_up(plan.device(group, rank), size, (free, *last))?;
                *last = Some(sent);
                sums[(rank / inside * inside) as usize].push(sent);
            }
            let sums = nodes.piece(plan, group, size, sums)?;
            for (rank, done) in (0_u32..).zip(&mut downs) {
                let sum = &sums[(rank / inside * inside) as usize];
                let device = plan.device(group, rank);
                done.push(plan.copy_down(device, size, (sum, done.last().copied()))?);
            }
        }
    }
    Ok(())
}

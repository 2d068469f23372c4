//! Which transfers stream weights to all ranks, or gradients from them?

use super::in_network::{self, Streams};
use super::plan::TransferPlan;
use crate::collective::Collective;
use crate::error::Result;

/// Pieces that travel one behind the other.
const SEGMENTS: u32 = 512;

/// Each rank sends its buffer up to the tree, or gets it from there, or both, piece by piece; a piece passes
/// the levels of a tree of `fan_out` links a node. The tree's own links, beside the ranks, are never narrower.
pub(super) fn add(
    plan: &mut TransferPlan,
    group: u32,
    (collective, fan_out): (Collective, u32),
    bytes: f64,
) -> Result<()> {
    let (_, outermost) = in_network::levels(plan)?;
    let nodes = |depth: &u32| u64::from(fan_out.max(2)).saturating_pow(*depth);
    let depth = (0..u32::BITS).find(|depth| nodes(depth) >= u64::from(plan.size()));
    let step = f64::from(depth.unwrap_or(u32::BITS)) * plan.latency(outermost);
    let figures = (bytes / f64::from(SEGMENTS), step);
    let mut streams = Streams::new(plan, group);
    for _ in 0..SEGMENTS {
        streams.begin();
        if collective != Collective::Broadcast {
            streams.up(plan, (0, outermost), figures)?;
        }
        if collective != Collective::Reduce {
            streams.down(plan, (0, outermost), figures)?;
        }
    }
    Ok(())
}

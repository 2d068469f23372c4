//! What it costs to stream weights to all ranks, or gradients from them, over a tree that copies and adds.

use super::form::{Algorithm, Collective, Form};
use super::route::Route;

/// Broadcast down and reduce up a tree whose nodes copy and add, beside the ranks (`SwarmX`).
///
/// `T = base + k * depth * step_out + n / B`, `depth` = levels of the tree over `p` ranks
///
/// `k` = 2 ways for all-reduce, which streams up and down at once on duplex links, else 1; `B` bytes/s of
/// one rank to the outermost level, where the tree hangs. The byte term does not know `p`: each link
/// carries the buffer once. Bound: `n / B` (met). Cerebras 2021 (weight streaming white paper): `MemoryX`
/// holds the weights, `SwarmX` spreads them.
pub(super) fn form(collective: Collective, route: &Route, fan_out: u32) -> Form {
    let mut depth = 0.0;
    let mut reach = 1_u64;
    while reach < u64::from(route.group.size) {
        reach = reach.saturating_mul(u64::from(fan_out.max(2)));
        depth += 1.0;
    }
    let rate = route.message_rate(route.outermost());
    Form {
        algorithm: Algorithm::WeightStreaming { fan_out },
        protocol: route.protocol,
        fixed: route.base() + route.step(route.outermost()) * (depth * collective.passes()),
        per_byte: 1.0 / rate,
    }
}

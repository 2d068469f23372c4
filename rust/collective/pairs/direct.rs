//! How long does it take if every rank sends to every other at once, each pair over its own link?

use super::links::Pairs;

/// Time of one exchange, and its slowest link.
pub(super) struct Exchange {
    pub(super) time: f64,
    pub(super) slowest: (usize, usize),
}

/// Every rank sends `part` bytes to every other; none where a pair has no link.
///
/// `T = max_(i,j) (latency_ij + part / min(rate_ij, out_i / (p-1), in_j / (p-1)))`
///
/// A port is shared equally by the `p-1` messages that pass it. Max-min sharing gives none of them
/// less: the share of a flow is at least the least equal share on its way (Bertsekas and Gallager 1992).
pub(super) fn exchange(pairs: &Pairs, part: f64) -> Option<Exchange> {
    let ranks = pairs.ranks();
    let others = (ranks - 1) as f64;
    let mut found = Exchange {
        time: -1.0,
        slowest: (0, 1),
    };
    for from in 0..ranks {
        for to in (0..ranks).filter(|&to| to != from) {
            let ports = pairs.out(from).min(pairs.into(to)) / others;
            let time = pairs.latency(from, to) + part / pairs.rate(from, to).min(ports);
            if !time.is_finite() {
                return None;
            }
            if time > found.time {
                found.time = time;
                found.slowest = (from, to);
            }
        }
    }
    Some(found)
}

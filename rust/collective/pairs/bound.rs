//! Which time can no algorithm beat, whatever it sends over which of the links?

use super::links::Pairs;
use crate::collective::Collective;

/// Bytes that must pass each rank's ports, and all ports together.
struct Volume {
    sent: f64,
    received: f64,
    total: f64,
}

/// Lower bound in seconds of a collective of `bytes` (`n`) on `p` ranks.
///
/// `T >= max(max_i (s_i / O_i + l_i), max_j (r_j / I_j + l_j), V / sum O + l, V / sum I + l, D)`
///
/// `s_i` and `r_j` are bytes that rank `i` must send and rank `j` receive: `n` each for all-reduce, so is
/// the root's `s` and the others' `r` in a broadcast; `(p-1)/p n` for the parts of others in gather-like
/// collectives and all-to-all, `n/p` for the own part. `V` is the volume of all: `2 (p-1) n` for
/// all-reduce, else `(p-1) n`. `O_i` is what rank `i` can send: the lesser of its port and the sum of
/// its links; `I_j` likewise. `l` is the least latency out of `i`, into `j`, of all: what is sent
/// last must still arrive. `D` is the longest of the shortest paths, in latency, between two ranks of
/// which one needs what the other has. Volumes: Patarasuk and Yuan 2009; Chan et al. 2007.
pub(super) fn bound(
    pairs: &Pairs,
    collective: Collective,
    bytes: f64,
    (root, chain): (usize, &[usize]),
) -> f64 {
    let ranks = pairs.ranks();
    let volume = |rank: usize| {
        volume(
            collective,
            bytes,
            ranks,
            role(collective, rank, root, chain),
        )
    };
    let all: Vec<(f64, f64)> = (0..ranks).map(|rank| capacity(pairs, rank)).collect();
    let mut least = distance(pairs, collective, root, chain);
    let mut first = f64::INFINITY;
    for (rank, &(out, into)) in all.iter().enumerate() {
        let Volume { sent, received, .. } = volume(rank);
        let (leaving, coming) = nearest(pairs, rank);
        first = first.min(leaving);
        if sent > 0.0 {
            least = least.max(sent / out + leaving);
        }
        if received > 0.0 {
            least = least.max(received / into + coming);
        }
    }
    let total = volume(0).total;
    if total > 0.0 {
        let out: f64 = all.iter().map(|&(out, _)| out).sum();
        let into: f64 = all.iter().map(|&(_, into)| into).sum();
        least = least.max(total / out.min(into) + first);
    }
    least
}

/// What a rank does that others do not: whether it must send, and whether it must receive.
fn role(collective: Collective, rank: usize, root: usize, chain: &[usize]) -> (bool, bool) {
    match collective {
        Collective::Broadcast => (rank == root, rank != root),
        Collective::Reduce => (rank != root, rank == root),
        Collective::SendReceive => {
            let place = chain.iter().position(|&other| other == rank);
            let sends = place.is_some_and(|place| place + 1 < chain.len());
            (sends, place.is_some_and(|place| place > 0))
        }
        _ => (true, true),
    }
}

fn volume(collective: Collective, n: f64, ranks: usize, (sends, receives): (bool, bool)) -> Volume {
    let p = ranks as f64;
    let (part, others) = (n / p, (p - 1.0) / p * n);
    let all = (p - 1.0) * n;
    let (sent, received, total) = match collective {
        Collective::AllReduce => (n, n, 2.0 * all),
        Collective::ReduceScatter => (others, part, all),
        Collective::AllGather => (part, others, all),
        Collective::AllToAll => (others, others, all),
        Collective::Broadcast | Collective::Reduce => (n, n, all),
        Collective::SendReceive => (n, n, 0.0),
        Collective::Gather | Collective::Scatter | Collective::Barrier => (0.0, 0.0, 0.0),
    };
    Volume {
        sent: if sends { sent } else { 0.0 },
        received: if receives { received } else { 0.0 },
        total,
    }
}

/// Bytes/s that a rank can send and receive over all its links.
fn capacity(pairs: &Pairs, rank: usize) -> (f64, f64) {
    let out: f64 = (0..pairs.ranks()).map(|to| pairs.rate(rank, to)).sum();
    let into: f64 = (0..pairs.ranks()).map(|from| pairs.rate(from, rank)).sum();
    (out.min(pairs.out(rank)), into.min(pairs.into(rank)))
}

/// Least latency out of a rank and into it.
fn nearest(pairs: &Pairs, rank: usize) -> (f64, f64) {
    let others = || (0..pairs.ranks()).filter(|&other| other != rank);
    let leaving = others().map(|to| pairs.latency(rank, to));
    let coming = others().map(|from| pairs.latency(from, rank));
    (
        leaving.fold(f64::INFINITY, f64::min),
        coming.fold(f64::INFINITY, f64::min),
    )
}

/// The longest of the shortest paths that what is needed must take.
fn distance(pairs: &Pairs, collective: Collective, root: usize, chain: &[usize]) -> f64 {
    match collective {
        Collective::Broadcast => farthest(&shortest(pairs, root)),
        Collective::Reduce => farthest(&shortest(&pairs.reversed(), root)),
        Collective::SendReceive => {
            let hops = chain.windows(2).map(|hop| shortest(pairs, hop[0])[hop[1]]);
            hops.fold(0.0, f64::max)
        }
        _ => {
            let each = (0..pairs.ranks()).map(|from| farthest(&shortest(pairs, from)));
            each.fold(0.0, f64::max)
        }
    }
}

fn farthest(distances: &[f64]) -> f64 {
    distances.iter().copied().fold(0.0, f64::max)
}

/// Least latency of a path from `root` to every rank. Dijkstra 1959.
pub(super) fn shortest(pairs: &Pairs, root: usize) -> Vec<f64> {
    let mut distances = vec![f64::INFINITY; pairs.ranks()];
    distances[root] = 0.0;
    let mut open: Vec<usize> = (0..pairs.ranks()).collect();
    while let Some(place) =
        (0..open.len()).min_by(|&a, &b| distances[open[a]].total_cmp(&distances[open[b]]))
    {
        let near = open.swap_remove(place);
        for &to in &open {
            let through = distances[near] + pairs.latency(near, to);
            distances[to] = distances[to].min(through);
        }
    }
    distances
}

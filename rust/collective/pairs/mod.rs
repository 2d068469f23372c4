//! What does a collective cost between ranks whose links all differ, and in which order or tree?

mod bound;
mod broadcast_tree;
mod direct;
mod links;
mod local_search;
mod random_moves;
mod ring;
mod threshold;
mod tree;

use crate::collective::{Algorithm, Collective};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::units::{Bytes, Seconds};
use tree::{Tree, Trees};

pub use links::{Matrices, Pairs};

/// Keeps every time finite.
const MOST_BYTES: f64 = 1e30;
/// Times closer than this are one: rounding alone parts them.
const SAME: f64 = 1e-12;

/// What is asked about a collective between ranks whose links all differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairsRequest<'a> {
    /// Which collective; not gather or scatter.
    pub collective: Collective,
    /// The buffer as nccl-tests counts it.
    pub bytes: Bytes,
    /// Ring, tree or direct; none: the fastest of those that the links carry.
    pub algorithm: Option<Algorithm>,
    /// Root of a broadcast or reduction.
    pub root: usize,
    /// Ranks of a send and receive, each to the next at once; empty: all ranks as they are numbered.
    pub chain: &'a [usize],
}

/// What a collective between ranks whose links all differ costs, and how it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct PairsCost {
    /// Time until the last rank is done.
    pub time: Seconds,
    /// How it is carried out.
    pub algorithm: Algorithm,
    /// Ranks round the ring, or along the chain of a send and receive; empty for trees and direct.
    pub order: Vec<usize>,
    /// Links of the trees, sender first: those of the sum, then those of the broadcast; else empty.
    pub edges: Vec<(usize, usize)>,
    /// True where no order and no tree of the algorithms that may be used is faster.
    pub is_exact: bool,
    /// The link whose own messages take longest, from and to.
    pub slowest: (usize, usize),
    /// What no algorithm whatever can beat.
    pub lower_bound: Seconds,
}

impl PairsCost {
    /// How much longer than the bound it takes, as a share of the bound; none where only the bound is 0.
    pub fn gap(&self) -> Option<f64> {
        if self.time <= self.lower_bound {
            return Some(0.0);
        }
        let share = self.time.ratio(self.lower_bound) - 1.0;
        Some(share).filter(|share| share.is_finite())
    }
}

/// One algorithm at its best.
struct AlgorithmCost {
    algorithm: Algorithm,
    time: f64,
    /// What no other order or tree of this algorithm goes below.
    least: f64,
    order: Vec<usize>,
    edges: Vec<(usize, usize)>,
    slowest: (usize, usize),
}

/// The fastest way to run a collective over links that are each pair's own.
///
/// | algorithm | time, `p` ranks, `n` bytes |
/// |---|---|
/// | ring | `k max_hop (latency + n / (p rate))`, `k = 2(p-1)` for all-reduce, else `p-1` |
/// | tree | `D + n / r` inwards, outwards or both; `D` the deepest path's latency, `r` the slowest link's rate |
/// | direct | `k max_(i,j) (latency_ij + n / (p rate_ij))`, `k = 2` for all-reduce, else 1 |
/// | point to point | the slowest `latency + n / rate` of the chain |
///
/// On equal links the ring's time is that of Patarasuk and Yuan 2009. In a ring a rank starts a step
/// once its part came and its own last part arrived. In a direct all-reduce the second shot starts when the
/// first has ended everywhere. Rates are the least of the link and of a share of the ports at its
/// ends: a ring uses each port for one message at a time, a tree shares the sender's (of a sum the
/// receiver's) among children, direct shares both among all `p-1` messages.
pub fn collective_on_pairs(
    pairs: &Pairs,
    asked: &PairsRequest,
    control: &Control,
) -> Result<PairsCost> {
    let every: Vec<usize> = (0..pairs.ranks()).collect();
    let chain = if asked.chain.is_empty() {
        &every
    } else {
        asked.chain
    };
    let asked = PairsRequest { chain, ..*asked };
    check(pairs, &asked)?;
    let allowed = algorithms(asked.collective);
    if let Some(algorithm) = asked.algorithm.filter(|named| !allowed.contains(named)) {
        let names: Vec<&str> = allowed.iter().map(|known| known.name()).collect();
        let value = format!("{} for {}", algorithm.name(), asked.collective.name());
        return Err(Error::invalid("algorithm", value, names.join(", ")));
    }
    let mut runs: Vec<AlgorithmCost> = Vec::with_capacity(allowed.len());
    for &algorithm in allowed {
        if asked.algorithm.is_none_or(|named| named == algorithm) {
            runs.extend(run(pairs, &asked, algorithm, control)?);
        }
    }
    let least = runs
        .iter()
        .map(|run| run.least)
        .fold(f64::INFINITY, f64::min);
    let best = runs.into_iter().min_by(|a, b| a.time.total_cmp(&b.time));
    let best = best.ok_or_else(|| not_carried(pairs, &asked))?;
    let bytes = asked.bytes.value();
    let bound = bound::bound(pairs, asked.collective, bytes, (asked.root, chain));
    Ok(PairsCost {
        time: Seconds::new(best.time),
        algorithm: best.algorithm,
        is_exact: best.time <= least * (1.0 + SAME),
        order: best.order,
        edges: best.edges,
        slowest: best.slowest,
        lower_bound: Seconds::new(bound),
    })
}

/// Which algorithms carry out a collective, in the order in which equal times are taken.
fn algorithms(collective: Collective) -> &'static [Algorithm] {
    match collective {
        Collective::AllReduce => &[Algorithm::Ring, Algorithm::Tree, Algorithm::Direct],
        Collective::ReduceScatter | Collective::AllGather => &[Algorithm::Ring, Algorithm::Direct],
        Collective::AllToAll => &[Algorithm::Direct],
        Collective::Broadcast | Collective::Reduce => &[Algorithm::Tree],
        Collective::Barrier => &[Algorithm::Tree, Algorithm::Direct],
        Collective::SendReceive => &[Algorithm::PointToPoint],
        Collective::Gather | Collective::Scatter => &[],
    }
}

fn check(pairs: &Pairs, asked: &PairsRequest) -> Result<()> {
    let (ranks, bytes) = (pairs.ranks(), asked.bytes.value());
    if algorithms(asked.collective).is_empty() {
        let known = Collective::ALL.into_iter();
        let known = known.filter(|&known| !algorithms(known).is_empty());
        let names: Vec<&str> = known.map(Collective::name).collect();
        let name = asked.collective.name();
        return Err(Error::invalid("collective", name, names.join(", ")));
    }
    if !(0.0..=MOST_BYTES).contains(&bytes) {
        return Err(Error::invalid("buffer_bytes", bytes, "0 to 1e30 bytes"));
    }
    if asked.root >= ranks {
        let allowed = format!("a rank below {ranks}");
        return Err(Error::invalid("root", asked.root, allowed));
    }
    let mut seen = vec![false; ranks];
    for (place, &rank) in asked.chain.iter().enumerate() {
        if rank >= ranks || std::mem::replace(&mut seen[rank], true) {
            let allowed = format!("ranks below {ranks}, each once");
            return Err(Error::invalid(format!("chain[{place}]"), rank, allowed));
        }
    }
    if asked.chain.len() < 2 {
        let value = format!("{} ranks", asked.chain.len());
        return Err(Error::invalid("chain", value, "2 ranks or more"));
    }
    check_connected(pairs, asked)
}

/// Refuses ranks between which no path of links leads as the collective needs it.
fn check_connected(pairs: &Pairs, asked: &PairsRequest) -> Result<()> {
    let collective = asked.collective;
    let refuse = |from: usize, to: usize, cut: usize| {
        let value = format!("no path of links from rank {from} to rank {to}");
        let allowed = format!("links by which rank {cut} is not cut off");
        Err(Error::invalid("bandwidth_bytes_per_s", value, allowed))
    };
    if collective == Collective::SendReceive {
        for hop in asked.chain.windows(2) {
            if pairs.rate(hop[0], hop[1]) <= 0.0 {
                let field = format!("bandwidth_bytes_per_s[{}][{}]", hop[0], hop[1]);
                let allowed = "a link from each rank of the chain to the next";
                return Err(Error::invalid(field, 0, allowed));
            }
        }
        return Ok(());
    }
    let root = asked.root;
    if collective != Collective::Reduce
        && let Some(rank) = pairs.cut_off(root)
    {
        return refuse(root, rank, rank);
    }
    if collective != Collective::Broadcast
        && let Some(rank) = pairs.reversed().cut_off(root)
    {
        return refuse(rank, root, rank);
    }
    Ok(())
}

/// Why no algorithm runs over links that do join all ranks.
fn not_carried(pairs: &Pairs, asked: &PairsRequest) -> Error {
    let ranks = pairs.ranks();
    let mut all = (0..ranks * ranks).map(|at| (at / ranks, at % ranks));
    let missing = all.find(|&(from, to)| from != to && pairs.rate(from, to) <= 0.0);
    let (from, to) = missing.unwrap_or((0, 1));
    let ring = algorithms(asked.collective).contains(&Algorithm::Ring);
    let (found, allowed) = if ring {
        (
            ", and no ring over all ranks was found",
            "a ring over all ranks, or a link from every rank to every other",
        )
    } else {
        ("", "a link from every rank to every other")
    };
    let value = format!("no link from rank {from} to rank {to}{found}");
    Error::invalid("bandwidth_bytes_per_s", value, allowed)
}

/// One algorithm at its best; none where the links do not carry it.
fn run(
    pairs: &Pairs,
    asked: &PairsRequest,
    algorithm: Algorithm,
    control: &Control,
) -> Result<Option<AlgorithmCost>> {
    match algorithm {
        Algorithm::Ring => ring(pairs, asked, control),
        Algorithm::Direct => Ok(direct(pairs, asked)),
        Algorithm::Tree => trees(pairs, asked, control),
        _ => Ok(Some(chain(pairs, asked))),
    }
}

fn ring(pairs: &Pairs, asked: &PairsRequest, control: &Control) -> Result<Option<AlgorithmCost>> {
    let part = asked.bytes.value() / pairs.ranks() as f64;
    let Some(best) = ring::best(pairs, part, control)? else {
        return Ok(None);
    };
    let steps = asked.collective.passes() * (pairs.ranks() - 1) as f64;
    let (place, _) = ring::Hops::new(pairs, part).slowest(&best.order);
    let next = best.order[(place + 1) % best.order.len()];
    Ok(Some(AlgorithmCost {
        algorithm: Algorithm::Ring,
        time: steps * best.hop,
        least: steps * best.least,
        slowest: (best.order[place], next),
        order: best.order,
        edges: Vec::new(),
    }))
}

fn direct(pairs: &Pairs, asked: &PairsRequest) -> Option<AlgorithmCost> {
    let part = if asked.collective == Collective::Barrier {
        0.0
    } else {
        asked.bytes.value() / pairs.ranks() as f64
    };
    let exchange = direct::exchange(pairs, part)?;
    let time = asked.collective.passes() * exchange.time;
    Some(AlgorithmCost {
        algorithm: Algorithm::Direct,
        time,
        least: time,
        order: Vec::new(),
        edges: Vec::new(),
        slowest: exchange.slowest,
    })
}

fn chain(pairs: &Pairs, asked: &PairsRequest) -> AlgorithmCost {
    let bytes = asked.bytes.value();
    let mut slowest = ((asked.chain[0], asked.chain[1]), -1.0);
    for hop in asked.chain.windows(2) {
        let time = pairs.message(hop[0], hop[1], bytes);
        if time > slowest.1 {
            slowest = ((hop[0], hop[1]), time);
        }
    }
    AlgorithmCost {
        algorithm: Algorithm::PointToPoint,
        time: slowest.1,
        least: slowest.1,
        order: asked.chain.to_vec(),
        edges: Vec::new(),
        slowest: slowest.0,
    }
}

fn trees(pairs: &Pairs, asked: &PairsRequest, control: &Control) -> Result<Option<AlgorithmCost>> {
    let bytes = match asked.collective {
        Collective::Barrier => 0.0,
        _ => asked.bytes.value(),
    };
    let turned = pairs.reversed();
    let (up, down, least) = match asked.collective {
        Collective::Broadcast => {
            let down = Trees::new(pairs, bytes).best_from(asked.root);
            let least = down.as_ref().map(|tree| tree.least);
            (None, down, least)
        }
        Collective::Reduce => {
            let up = Trees::new(&turned, bytes).best_from(asked.root);
            let least = up.as_ref().map(|tree| tree.least);
            (up, None, least)
        }
        _ => match tree::best_root((pairs, &turned), bytes, control)? {
            Some(both) => (Some(both.up), Some(both.down), Some(both.least)),
            None => (None, None, None),
        },
    };
    let Some(least) = least else {
        return Ok(None);
    };
    let mut run = AlgorithmCost {
        algorithm: Algorithm::Tree,
        time: 0.0,
        least,
        order: Vec::new(),
        edges: Vec::new(),
        slowest: (0, 1),
    };
    let mut slowest = -1.0;
    for (tree, links, inwards) in [(up, &turned, true), (down, pairs, false)] {
        if let Some(tree) = tree {
            run.time += tree.time;
            slowest = add_edges(&mut run, (&tree, links, inwards), bytes, slowest);
        }
    }
    Ok(Some(run))
}

/// Adds the links of a tree to a run; returns the time of the slowest so far.
fn add_edges(
    run: &mut AlgorithmCost,
    (tree, links, inwards): (&Tree, &Pairs, bool),
    bytes: f64,
    mut slowest: f64,
) -> f64 {
    for rank in (0..links.ranks()).filter(|&rank| rank != tree.root) {
        let parent = tree.grown.parents[rank];
        let edge = if inwards {
            (rank, parent)
        } else {
            (parent, rank)
        };
        let time = links.latency(parent, rank) + bytes / tree.grown.share(links, rank);
        if time > slowest {
            slowest = time;
            run.slowest = edge;
        }
        run.edges.push(edge);
    }
    slowest
}

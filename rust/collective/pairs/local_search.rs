//! How is the slowest hop of a ring over many ranks made faster, step by step?

use super::random_moves::improved_by_moves;
use super::ring::Hops;
use crate::control::Control;
use crate::error::{Error, Result};

/// Ranks from which a first ring starts.
const STARTS: usize = 8;
/// Slowest hops replaced at most for each rank; each replacement lowers the slowest hop or how many are so slow.
const STEPS_PER_RANK: usize = 16;

/// A ring whose slowest hop no single exchange makes faster, nor a walk of many: a heuristic.
///
/// Starts at the ranks whose fastest hop is slowest, goes on to the nearest rank that is left, and
/// then replaces slowest hops. Stops early where the slowest hop is `least`, which none goes below.
pub(super) fn improved(hops: &Hops, least: f64, control: &Control) -> Result<Vec<usize>> {
    let mut starts: Vec<usize> = (0..hops.ranks).collect();
    let fastest = |rank: usize| {
        let others = (0..hops.ranks).filter(|&to| to != rank);
        let costs = others.map(|to| hops.cost(rank, to));
        costs.fold(f64::INFINITY, f64::min)
    };
    starts.sort_by(|&a, &b| fastest(b).total_cmp(&fastest(a)));
    let mut best = (f64::INFINITY, starts.clone());
    for &start in starts.iter().take(STARTS) {
        let mut order = nearest(hops, start);
        for _ in 0..STEPS_PER_RANK * hops.ranks {
            if control.is_cancelled() {
                let what = format!("a ring whose slowest hop takes {} s", best.0);
                return Err(Error::Cancelled { what });
            }
            if hops.slowest(&order).1 <= least || !try_move(hops, &mut order) {
                break;
            }
        }
        let slowest = hops.slowest(&order).1;
        if slowest < best.0 {
            best = (slowest, order);
        }
        if best.0 <= least {
            break;
        }
    }
    improved_by_moves(hops, &mut best.1, least, control)?;
    Ok(best.1)
}

/// Always on to the nearest rank that is left.
fn nearest(hops: &Hops, start: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..hops.ranks).collect();
    order.swap(0, start);
    for place in 1..order.len() {
        let from = order[place - 1];
        let next = (place..order.len()).min_by(|&a, &b| {
            hops.cost(from, order[a])
                .total_cmp(&hops.cost(from, order[b]))
        });
        order.swap(place, next.unwrap_or(place));
    }
    order
}

/// Takes the slowest hop out so that all hops that come in are faster; false where none of these can:
/// turning a stretch of the ring round (2-opt, Croes 1958), or swapping two stretches (or-opt, Or 1976).
fn try_move(hops: &Hops, order: &mut [usize]) -> bool {
    let (place, slowest) = hops.slowest(order);
    // now the slowest hop leads from the last rank to the first
    order.rotate_left((place + 1) % hops.ranks);
    try_reversal(hops, order, slowest) || try_swap(hops, order, slowest)
}

/// Turns the first ranks up to some place round.
fn try_reversal(hops: &Hops, order: &mut [usize], slowest: f64) -> bool {
    let last = order[order.len() - 1];
    for end in 1..order.len() - 1 {
        if hops.cost(order[end], order[end - 1]) >= slowest {
            return false; // all longer stretches hold this hop too
        }
        let joins = hops
            .cost(last, order[end])
            .max(hops.cost(order[0], order[end + 1]));
        if joins < slowest {
            order[..=end].reverse();
            return true;
        }
    }
    false
}

/// Swaps the first ranks up to some place with those from there to another: `A B C` to `B A C`.
fn try_swap(hops: &Hops, order: &mut [usize], slowest: f64) -> bool {
    let (first, last) = (order[0], order[order.len() - 1]);
    for middle in 1..order.len() - 1 {
        if hops.cost(last, order[middle]) >= slowest {
            continue;
        }
        let end = order[middle - 1];
        for cut in middle + 1..order.len() {
            let joins = hops
                .cost(order[cut - 1], first)
                .max(hops.cost(end, order[cut]));
            if joins < slowest {
                order[..cut].rotate_left(middle);
                return true;
            }
        }
    }
    false
}

//! Can a ring be led through hops of at most some cost, if its last bad hops are moved about at random?

use super::ring::Hops;
use crate::control::Control;
use crate::error::{Error, Result};

/// Moves tried for each rank before a cost is given up.
const MOVES_PER_RANK: usize = 12;

/// A change of a ring that is cut open before its first rank.
#[derive(Clone, Copy)]
enum RingMove {
    /// Turns the ranks up to this place round.
    Turn(usize),
    /// Swaps the ranks before the first place with those from there to before the second.
    Swap(usize, usize),
}

/// Numbers that look random and are the same each time (Knuth's MMIX generator).
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }
}

/// Makes the slowest hop of a ring faster by halving the costs between it and `least`, a heuristic.
///
/// For each cost in the middle, hops above it are replaced as long as moves are left. A move that
/// only puts another bad hop in place of one is taken too: rotations of a path, after Posa 1976.
pub(super) fn improved_by_moves(
    hops: &Hops,
    order: &mut Vec<usize>,
    least: f64,
    control: &Control,
) -> Result<()> {
    let slowest = hops.slowest(order).1;
    let mut costs: Vec<f64> = hops.costs().to_vec();
    costs.retain(|&cost| cost >= least && cost < slowest);
    costs.sort_by(f64::total_cmp);
    costs.dedup();
    let mut dice = RandomNumbers(1);
    let (mut low, mut high) = (0, costs.len());
    while low < high {
        if control.is_cancelled() {
            let what = format!("a ring whose slowest hop takes {} s", hops.slowest(order).1);
            return Err(Error::Cancelled { what });
        }
        let middle = low.midpoint(high);
        let mut other = order.clone();
        if reaches_limit(hops, &mut other, costs[middle], &mut dice) {
            *order = other;
            let slowest = hops.slowest(order).1;
            high = costs.partition_point(|&cost| cost < slowest);
        } else {
            low = middle + 1;
        }
    }
    Ok(())
}

/// Moves the ring until no hop costs more than `most`; false where moves ran out.
fn reaches_limit(hops: &Hops, order: &mut [usize], most: f64, dice: &mut RandomNumbers) -> bool {
    for _ in 0..MOVES_PER_RANK * hops.ranks {
        let (place, slowest) = hops.slowest(order);
        if slowest <= most {
            return true;
        }
        // now the slowest hop leads from the last rank to the first
        order.rotate_left((place + 1) % hops.ranks);
        match choose_move(hops, order, most, dice) {
            Some(RingMove::Turn(end)) => order[..=end].reverse(),
            Some(RingMove::Swap(middle, cut)) => order[..cut].rotate_left(middle),
            None => return false,
        }
    }
    false
}

/// A move after which no hop that it makes is bad, or else one of those that make one bad hop.
fn choose_move(
    hops: &Hops,
    order: &[usize],
    most: f64,
    dice: &mut RandomNumbers,
) -> Option<RingMove> {
    let (first, last) = (order[0], order[order.len() - 1]);
    let is_good = |from: usize, to: usize| hops.cost(from, to) <= most;
    let (mut found, mut count) = (None, 0);
    let mut keep = |other: RingMove, count: &mut u64| {
        *count += 1;
        if dice.below(*count) == 0 {
            found = Some(other);
        }
    };
    for end in 1..order.len() - 1 {
        if !is_good(order[end], order[end - 1]) {
            break; // all longer stretches, turned round, hold this hop too
        }
        if is_good(last, order[end]) {
            if is_good(first, order[end + 1]) {
                return Some(RingMove::Turn(end));
            }
            keep(RingMove::Turn(end), &mut count);
        }
    }
    for middle in (1..order.len() - 1).filter(|&middle| is_good(last, order[middle])) {
        let end = order[middle - 1];
        for cut in middle + 1..order.len() {
            match (is_good(order[cut - 1], first), is_good(end, order[cut])) {
                (true, true) => return Some(RingMove::Swap(middle, cut)),
                (false, false) => {}
                _ => keep(RingMove::Swap(middle, cut), &mut count),
            }
        }
    }
    found
}

//! In which order should ranks form a ring, so that its slowest hop is as fast as can be?

use super::links::Pairs;
use super::local_search::improved;
use super::threshold::least_hop;
use crate::control::Control;
use crate::error::Result;

/// Up to here the order is found by dynamic programming over all subsets, and is the best.
const EXACT_RANKS: usize = 14;

/// An order of ranks round a ring.
pub(super) struct Ring {
    pub(super) order: Vec<usize>,
    /// Seconds of the slowest hop.
    pub(super) hop: f64,
    /// What the slowest hop of no order goes below.
    pub(super) least: f64,
}

/// Costs of all hops, a row for each sender; infinite without a link.
pub(super) struct Hops {
    pub(super) ranks: usize,
    costs: Vec<f64>,
}

impl Hops {
    pub(super) fn new(pairs: &Pairs, part: f64) -> Self {
        let ranks = pairs.ranks();
        let places = 0..ranks * ranks;
        let costs = places.map(|at| pairs.message(at / ranks, at % ranks, part));
        Self {
            ranks,
            costs: costs.collect(),
        }
    }

    pub(super) fn cost(&self, from: usize, to: usize) -> f64 {
        self.costs[from * self.ranks + to]
    }

    pub(super) fn costs(&self) -> &[f64] {
        &self.costs
    }

    /// Place of the slowest hop of a ring, from its sender, and its cost.
    pub(super) fn slowest(&self, order: &[usize]) -> (usize, f64) {
        let mut found = (0, -1.0);
        for (place, &from) in order.iter().enumerate() {
            let cost = self.cost(from, order[(place + 1) % order.len()]);
            if cost > found.1 {
                found = (place, cost);
            }
        }
        found
    }
}

/// The ring whose slowest hop is fastest; none where no ring was found.
///
/// Hops cost `latency + part / rate`. Up to 14 ranks it is the bottleneck travelling salesman,
/// `best(S, j) = min_i max(best(S - j, i), cost(i, j))`, after Held and Karp 1962. Beyond, it is
/// looked for from several starts, and `least` is a bound that every ring obeys.
pub(super) fn best(pairs: &Pairs, part: f64, control: &Control) -> Result<Option<Ring>> {
    let hops = Hops::new(pairs, part);
    if hops.ranks <= EXACT_RANKS {
        return Ok(exact(&hops));
    }
    let Some(least) = least_hop(&hops) else {
        return Ok(None);
    };
    let order = improved(&hops, least, control)?;
    let (_, hop) = hops.slowest(&order);
    Ok(hop.is_finite().then_some(Ring { order, hop, least }))
}

/// Rank 0 starts; subsets are of the other ranks, `rank - 1` being a rank's bit.
fn exact(hops: &Hops) -> Option<Ring> {
    let others = hops.ranks - 1;
    let mut best = vec![f64::INFINITY; others << others];
    let mut before = vec![0; others << others];
    for set in 1_usize..1 << others {
        for last in (0..others).filter(|last| set >> last & 1 == 1) {
            let rest = set & !(1 << last);
            let at = set * others + last;
            if rest == 0 {
                best[at] = hops.cost(0, last + 1);
            }
            for previous in (0..others).filter(|previous| rest >> previous & 1 == 1) {
                let hop = hops.cost(previous + 1, last + 1);
                let slowest = best[rest * others + previous].max(hop);
                if slowest < best[at] {
                    best[at] = slowest;
                    before[at] = previous;
                }
            }
        }
    }
    let mut set = (1 << others) - 1;
    let closed = |last: &usize| best[set * others + last].max(hops.cost(last + 1, 0));
    let mut last = (0..others).min_by(|a, b| closed(a).total_cmp(&closed(b)))?;
    let hop = Some(closed(&last)).filter(|hop| hop.is_finite())?;
    let mut order = Vec::with_capacity(hops.ranks);
    while set != 0 {
        order.push(last + 1);
        let at = set * others + last;
        set &= !(1 << last);
        last = before[at];
    }
    order.push(0);
    order.reverse();
    Some(Ring {
        order,
        hop,
        least: hop,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        // beyond the exact sizes both stand alone, so they are checked where the best is known
        #[test]
        fn the_heuristic_and_the_bound_stand_on_either_side_of_the_best(
            ranks in 4_usize..10, costs in vec(1_u32..30, 81),
        ) {
            let costs = (0..ranks * ranks).map(|at| match costs[at] {
                29 => f64::INFINITY,
                cost => f64::from(cost),
            });
            let hops = Hops { ranks, costs: costs.collect() };
            let least = least_hop(&hops).unwrap_or(f64::INFINITY);
            let mut found = improved(&hops, least, &Control::new()).unwrap();
            let slowest = hops.slowest(&found).1;
            if let Some(best) = exact(&hops) {
                let differs = hops.slowest(&best.order).1 - best.hop;
                prop_assert!(differs.abs() < 1e-12);
                prop_assert!(least <= best.hop && best.hop <= slowest);
            } else {
                prop_assert!(slowest.is_infinite());
            }
            found.sort_unstable();
            prop_assert_eq!(found, (0..ranks).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_heuristic_mostly_finds_the_best() {
        let (mut same, mut tight, mut state) = (0, 0, 7_u64);
        for _ in 0..100 {
            let costs = (0..144).map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 40) as f64
            });
            let hops = Hops {
                ranks: 12,
                costs: costs.collect(),
            };
            let best = exact(&hops).map_or(0.0, |best| best.hop);
            let least = least_hop(&hops).unwrap_or(0.0);
            let found = improved(&hops, least, &Control::new()).unwrap();
            same += i32::from(hops.slowest(&found).1 <= best);
            tight += i32::from(least >= best);
        }
        assert!(
            same >= 90 && tight >= 50,
            "{same} found, {tight} bounds met, of 100"
        );
    }
}

//! Which transfers run between partners whose distance is a power of two?

use super::plan::TransferPlan;
use crate::collective::Collective;
use crate::error::Result;

/// Partners at doubling distance exchange the whole sum, all that they have gathered, or word that they have
/// come. Thakur et al. 2005.
pub(super) fn recursive(plan: &mut TransferPlan, collective: Collective, bytes: f64) -> Result<()> {
    let pairs = Pairs::new(plan.size());
    pairs.fold(plan, bytes)?;
    for k in 0..pairs.rounds {
        let part = match collective {
            Collective::AllReduce => bytes,
            Collective::AllGather => bytes * f64::from(1 << k) / f64::from(plan.size()),
            _ => 0.0,
        };
        plan.round(|rank| Some((pairs.partner(rank, k)?, part)))?;
    }
    pairs.unfold(plan, bytes)
}

/// Halving the buffer up to the furthest partner (reduce-scatter), doubling it on the way back
/// (all-gather). Rabenseifner 2004.
pub(super) fn halving(plan: &mut TransferPlan, collective: Collective, bytes: f64) -> Result<()> {
    let pairs = Pairs::new(plan.size());
    let exchange = |plan: &mut TransferPlan, k: u32| {
        let part = bytes / f64::from(2 << k);
        plan.round(|rank| Some((pairs.partner(rank, k)?, part)))
    };
    if collective != Collective::AllGather {
        pairs.fold(plan, bytes)?;
        (0..pairs.rounds).try_for_each(|k| exchange(plan, k))?;
    }
    if collective != Collective::ReduceScatter {
        (0..pairs.rounds)
            .rev()
            .try_for_each(|k| exchange(plan, k))?;
        pairs.unfold(plan, bytes)?;
    }
    Ok(())
}

/// Ranks numbered anew after the first few have given their buffers to their neighbours, so that a power of
/// two of them is left.
#[derive(Clone, Copy)]
struct Pairs {
    rounds: u32,
    /// Ranks above the power of two: as many pairs at the start are one.
    folded: u32,
}

impl Pairs {
    fn new(size: u32) -> Self {
        let rounds = size.ilog2();
        let folded = size - (1 << rounds);
        Self { rounds, folded }
    }

    fn partner(self, rank: u32, k: u32) -> Option<u32> {
        let pairs = 2 * self.folded;
        let number = match rank {
            low if low < pairs && low % 2 == 0 => return None,
            low if low < pairs => low / 2,
            high => high - self.folded,
        };
        let other = number ^ (1 << k);
        Some(if other < self.folded {
            2 * other + 1
        } else {
            other + self.folded
        })
    }

    fn fold(self, plan: &mut TransferPlan, bytes: f64) -> Result<()> {
        let even = |rank: &u32| *rank < 2 * self.folded && rank.is_multiple_of(2);
        plan.round(|rank| Some(rank).filter(even).map(|rank| (rank + 1, bytes)))
    }

    fn unfold(self, plan: &mut TransferPlan, bytes: f64) -> Result<()> {
        let odd = |rank: &u32| *rank < 2 * self.folded && rank % 2 == 1;
        plan.round(|rank| Some(rank).filter(odd).map(|rank| (rank - 1, bytes)))
    }
}

//! How soon does a chain go forward and back in a budget, by recomputation alone and beside a link?

use super::chain::{Chain, Request};
use super::choice_search::{Chosen, choose};
use super::least_memory::LeastMemorySchedule;
use super::recompute::{Rounding, Table};
use super::retention::{Retention, RetentionChoice};
use super::sequence::{Operation, Pass, operations, time_and_peak};
use super::simulated::{Span, simulate_choice};
use super::transfers::{Lanes, evaluate};
use crate::control::Control;
use crate::error::{Error, Result};
use serde::Serialize;

/// The answers for one chain and budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RematerialiseReport {
    /// All passes, each once: what no answer beats, seconds.
    pub compute_s: f64,
    /// The best schedule that only computes again, whole stretches of blocks if need be; none where
    /// the budget is too small for any.
    pub recompute: Option<RecomputedChain>,
    /// The best choice for each block by itself: keep, compute again, or, with a link, move.
    pub choice: Option<Choices>,
    /// The same for all blocks, as frameworks offer it.
    pub policies: Vec<Policy>,
}

/// A schedule that only computes again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecomputedChain {
    /// Seconds.
    pub time_s: f64,
    /// What no such schedule beats, seconds.
    pub bound_s: f64,
    /// How much longer it takes than the bound, as a share of it.
    pub relative_gap: f64,
    /// Most bytes held.
    pub peak_bytes: f64,
    /// The least budget in which any such schedule runs, bytes.
    pub least_bytes: f64,
    /// Passes in order.
    pub operations: Vec<Operation>,
}

/// A choice for each block.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choices {
    /// Seconds, by the recurrence.
    pub time_s: f64,
    /// Seconds of the same passes and copies as simulated tasks: its witness.
    pub simulated_s: f64,
    /// What no such choice beats, seconds.
    pub bound_s: f64,
    /// How much longer it takes than the bound, as a share of it.
    pub relative_gap: f64,
    /// Most bytes held.
    pub peak_bytes: f64,
    /// Passes run again, seconds.
    pub again_s: f64,
    /// Passes wait for the link, seconds.
    pub wait_s: f64,
    /// Bytes that leave, and come back.
    pub moved_bytes: f64,
    /// Blocks in order.
    pub blocks: Vec<Decision>,
}

/// What becomes of one block, and when.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Decision {
    /// What becomes of its kept tensors.
    pub retention: Retention,
    /// What of it stays, bytes.
    pub held_bytes: f64,
    /// What of it leaves and comes back, bytes.
    pub moved_bytes: f64,
    /// Forward pass.
    pub forward: Span,
    /// Backward pass, what is computed again included.
    pub backward: Span,
    /// Copy away, if any.
    pub write: Option<Span>,
    /// Copy back, if any.
    pub read: Option<Span>,
}

/// One way for all blocks that it is open to; the others keep all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Policy {
    /// Which.
    pub retention: Retention,
    /// Seconds; none where it does not fit.
    pub time_s: Option<f64>,
    /// The least budget that it fits in, bytes.
    pub least_bytes: f64,
}

/// How much longer a time is than its bound.
fn gap(time: f64, bound: f64) -> f64 {
    if bound > 0.0 {
        (time / bound - 1.0).max(0.0)
    } else {
        0.0
    }
}

/// Finds what a chain should keep, compute again and move.
///
/// Recomputation alone is weighed over whole schedules (`Table`), with bytes rounded up to slots for
/// the answer and down for its bound. With a link each block's tensors are kept, computed again or
/// moved, exactly for the model of transfers that `ChainState` states, by branch and bound; without one
/// the same chooses which blocks to compute again, as frameworks do.
///
/// Fails on a wrong value, on a budget in which nothing runs, and when cancelled.
pub fn rematerialise(request: &Request, control: &Control) -> Result<RematerialiseReport> {
    request.check()?;
    let chain = Chain::new(request);
    let lanes = Lanes::new(request.budget_bytes, request.link);
    let least = LeastMemorySchedule::new(&chain);
    let least_bytes = least.bytes(&chain);
    let alone = choose(&chain, lanes, (false, request.width), None, control)?;
    let recompute = if fits(least_bytes, request.budget_bytes) {
        let mut orders = vec![operations(&chain, &least)];
        orders.extend(alone.as_ref().map(|alone| one_by_one(&alone.choices)));
        Some(recomputed(&chain, least_bytes, request, orders, control)?)
    } else {
        None
    };
    let chosen = match request.link {
        None => alone,
        Some(_) => choose(
            &chain,
            lanes,
            (true, request.width),
            alone.as_ref(),
            control,
        )?,
    };
    let choice = match chosen {
        Some(chosen) => Some(choices(&chain, &lanes, &chosen)?),
        None => None,
    };
    if recompute.is_none() && choice.is_none() {
        let moved = least_budget_to_move(&chain, request);
        let allowed = format!("{} or more: less holds no schedule", least_bytes.min(moved));
        return Err(Error::invalid(
            "budget_bytes",
            request.budget_bytes,
            allowed,
        ));
    }
    Ok(RematerialiseReport {
        compute_s: chain.compute(),
        recompute,
        choice,
        policies: policies(&chain, &lanes, request),
    })
}

/// True where sums in another order may be the same.
fn fits(bytes: f64, budget: f64) -> bool {
    bytes <= budget * (1.0 + 1e-12)
}

/// The least budget where every block may move: then none is in another's way.
fn least_budget_to_move(chain: &Chain, request: &Request) -> f64 {
    if request.link.is_none() {
        return f64::INFINITY;
    }
    let need = |l: usize| {
        let all = RetentionChoice::all(chain, l, true).into_iter();
        let needs = all
            .filter(|c| c.held == 0.0)
            .map(|c| c.forward.max(c.backward));
        needs.fold(f64::INFINITY, f64::min)
    };
    (0..chain.blocks.len()).map(need).fold(0.0, f64::max)
}

/// The best of some orders and of the table's.
fn recomputed(
    chain: &Chain,
    least_bytes: f64,
    request: &Request,
    mut orders: Vec<Vec<Operation>>,
    control: &Control,
) -> Result<RecomputedChain> {
    let cut = (request.budget_bytes, request.slots);
    let table = |rounding| Table::new(chain, cut, rounding, control);
    let (above, below) = rayon::join(
        || table(Rounding::Up),
        || table(Rounding::Down).map(|table| table.best()),
    );
    let (above, below) = (above?, below?);
    if above.best().is_finite() {
        orders.push(operations(chain, &above));
    }
    let mut best = (f64::INFINITY, 0.0, vec![]);
    for order in orders {
        let (time, peak) = time_and_peak(chain, &order);
        // of equal ones the shorter
        if (time, order.len()) < (best.0, best.2.len()) {
            best = (time, peak, order);
        }
    }
    let (time, peak, order) = best;
    let bound = below.max(chain.compute()).min(time);
    Ok(RecomputedChain {
        time_s: time,
        bound_s: bound,
        relative_gap: gap(time, bound),
        peak_bytes: peak,
        least_bytes,
        operations: order,
    })
}

/// The passes of a choice for each block where nothing moves.
fn one_by_one(choices: &[RetentionChoice]) -> Vec<Operation> {
    let forward = choices.iter().enumerate().map(|(block, choice)| {
        let pass = match choice.retention {
            Retention::Partial => Pass::ForwardKeepPart,
            Retention::Recompute => Pass::ForwardKeepInput,
            _ => Pass::ForwardKeepAll,
        };
        Operation { pass, block }
    });
    let mut order: Vec<Operation> = forward.collect();
    for (block, choice) in choices.iter().enumerate().rev() {
        if choice.retention == Retention::Recompute {
            let pass = Pass::ForwardKeepAll;
            order.push(Operation { pass, block });
        }
        let pass = Pass::Backward;
        order.push(Operation { pass, block });
    }
    order
}

/// A choice, laid out as tasks.
fn choices(chain: &Chain, lanes: &Lanes, chosen: &Chosen) -> Result<Choices> {
    let laid = simulate_choice(chain, lanes, &chosen.choices)?;
    let again: f64 = chosen.choices.iter().map(|c| c.again).sum();
    let waited = chosen.time - chain.compute() - again;
    let bound = chosen.bound.max(chain.compute()).min(chosen.time);
    let decision = |(l, choice): (usize, &RetentionChoice)| Decision {
        retention: choice.retention,
        held_bytes: choice.held,
        moved_bytes: choice.moved,
        forward: laid.forward[l],
        backward: laid.backward[l],
        write: laid.write[l],
        read: laid.read[l],
    };
    Ok(Choices {
        time_s: chosen.time,
        simulated_s: laid.time,
        bound_s: bound,
        relative_gap: gap(chosen.time, bound),
        peak_bytes: laid.peak,
        again_s: again,
        // differences of sums keep a last bit
        wait_s: if waited > 1e-12 * chosen.time {
            waited
        } else {
            0.0
        },
        moved_bytes: chosen.choices.iter().map(|c| c.moved).sum(),
        blocks: chosen.choices.iter().enumerate().map(decision).collect(),
    })
}

/// Every retention for all blocks.
fn policies(chain: &Chain, lanes: &Lanes, request: &Request) -> Vec<Policy> {
    let link = request.link.is_some();
    let policy = |retention: Retention| {
        let of = |l: usize| RetentionChoice::new(chain, l, link, retention);
        let open: Vec<Option<RetentionChoice>> = (0..chain.blocks.len()).map(of).collect();
        open.iter().any(Option::is_some).then_some(())?;
        let keep = |l: usize| RetentionChoice::new(chain, l, link, Retention::Keep);
        let all: Vec<RetentionChoice> = open
            .into_iter()
            .enumerate()
            .filter_map(|(l, choice)| choice.or_else(|| keep(l)))
            .collect();
        let (mut held, mut least) = (0.0, 0.0_f64);
        for choice in &all {
            least = least.max(held + choice.forward.max(choice.backward));
            held += choice.held;
        }
        Some(Policy {
            retention,
            time_s: evaluate(chain, lanes, &all),
            least_bytes: least,
        })
    };
    Retention::ALL.into_iter().filter_map(policy).collect()
}

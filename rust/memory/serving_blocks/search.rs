//! Which batch, how many batches and which shares take the fewest seconds a sequence, and is that proven?

use super::family::{Bounds, Cut, Family, Span, Terms, dot};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::solve::assign::{AssignOutcome as Assigned, Limits, Model, Solution, Workspace};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Exact programs end here; what they leave open is in their bound.
const EXACT: Limits = Limits {
    gap: 1e-11,
    nodes: 1,
    below: f64::INFINITY,
    shortage: false,
};

/// How far rounding may take a limit.
pub(super) const ROUNDING: f64 = 1e-9;

/// The best block that was found.
#[derive(Debug, Clone)]
pub(super) struct BestBlock {
    /// Sequences of a batch, and batches.
    pub(super) at: [u64; 2],
    pub(super) shares: Vec<f64>,
    /// Price of each row: seconds of the run for a byte, or for a second of the window's row.
    pub(super) prices: Vec<f64>,
    /// Seconds of the run for each sequence.
    pub(super) objective: f64,
}

/// What the search found.
#[derive(Debug)]
pub(super) struct BlockSearchOutcome {
    /// None where nothing fits.
    pub(super) best: Option<BestBlock>,
    /// No block takes fewer seconds a sequence.
    pub(super) bound: f64,
    /// Linear programs that were solved.
    pub(super) programs: u64,
    /// Boxes of batches and numbers of batches that were looked at.
    pub(super) boxes: u64,
}

/// A box that may hold a better block; the one with the least bound comes first.
struct OpenBox {
    bound: f64,
    span: Span,
    cut: usize,
}

impl PartialEq for OpenBox {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for OpenBox {}

impl PartialOrd for OpenBox {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OpenBox {
    fn cmp(&self, other: &Self) -> Ordering {
        let bounds = other.bound.total_cmp(&self.bound);
        // equal bounds: the larger blocks, then whatever is fixed
        bounds
            .then(self.span.most.cmp(&other.span.most))
            .then(self.span.least.cmp(&other.span.least))
    }
}

struct Search<'a> {
    family: &'a Family,
    gap: f64,
    open: BinaryHeap<OpenBox>,
    cuts: Vec<Cut>,
    /// Cuts of memory alone: above 0 nothing fits.
    room: Vec<Cut>,
    best: Option<(BestBlock, usize)>,
    /// The least bound of what was closed with its question open.
    left: f64,
    model: Model,
    workspace: Workspace,
    programs: u64,
    boxes: u64,
}

/// Best-first branch and bound over boxes of batches and numbers of batches.
///
/// The linear program in the middle of a box gives a block and prices; the prices give a cut that
/// bounds all boxes ([`Cut`]). Larger blocks never fit where smaller ones do not, so a middle that does
/// not fit takes all above it along.
pub(super) fn search(
    family: &Family,
    span: Span,
    gap: f64,
    control: &Control,
) -> Result<BlockSearchOutcome> {
    let mut search = Search::new(family, gap);
    search.push(span, None);
    while let Some(open) = search.open.pop() {
        if control.is_cancelled() {
            let what = format!("{} linear programs solved", search.programs);
            return Err(Error::Cancelled { what });
        }
        if search.near_enough(open.bound) {
            search.left = search.left.min(open.bound);
            break;
        }
        search.boxes += 1;
        search.explore(&open, control)?;
    }
    let least = search.best.as_ref().map(|(best, _)| best.objective);
    Ok(BlockSearchOutcome {
        bound: least.map_or(search.left, |best| best.min(search.left)),
        best: search.best.map(|(best, _)| best),
        programs: search.programs,
        boxes: search.boxes,
    })
}

impl<'a> Search<'a> {
    fn new(family: &'a Family, gap: f64) -> Self {
        let bytes = |row: &usize| matches!(family.rows[*row].bounds, Bounds::Bytes(_));
        let rows: Vec<usize> = (0..family.rows.len()).filter(bytes).collect();
        let priced = |of: &[usize]| {
            let mut prices = vec![0.0; family.rows.len()];
            for &row in of {
                prices[row] = 1.0;
            }
            Cut::new(family, &prices)
        };
        let phase = |first: usize| rows.iter().copied().skip(first).step_by(2).collect();
        let all: [Vec<usize>; 2] = [phase(0), phase(1)];
        let alone = rows.iter().map(|&row| priced(&[row]));
        let room = all.iter().map(|rows| priced(rows)).chain(alone).collect();
        Self {
            family,
            gap,
            open: BinaryHeap::new(),
            cuts: Vec::new(),
            room,
            best: None,
            left: f64::INFINITY,
            model: Model::new(),
            workspace: Workspace::new(),
            programs: 0,
            boxes: 0,
        }
    }

    fn near_enough(&self, bound: f64) -> bool {
        let best = self.best.as_ref();
        best.is_some_and(|(best, _)| bound >= best.objective * (1.0 - self.gap))
    }

    /// Opens a box unless nothing in it can fit or be better.
    fn push(&mut self, span: Span, cut: Option<usize>) {
        let family = self.family;
        if self.room.iter().any(|cut| cut.bound(family, &span) > 0.0) {
            return;
        }
        let last = self.cuts.len().checked_sub(1);
        let best = self.best.as_ref().map(|&(_, cut)| cut);
        let (mut bound, mut tightest) = (0.0, 0);
        for at in [cut, last, best].into_iter().flatten() {
            let found = self.cuts[at].bound(family, &span);
            if found > bound {
                (bound, tightest) = (found, at);
            }
        }
        if self.near_enough(bound) {
            self.left = self.left.min(bound);
            return;
        }
        self.open.push(OpenBox {
            bound,
            span,
            cut: tightest,
        });
    }

    /// Solves the program in the middle of a box and opens what is left of the box.
    fn explore(&mut self, open: &OpenBox, control: &Control) -> Result<()> {
        let Span { least, most } = open.span;
        let at = [middle(least[0], most[0]), middle(least[1], most[1])];
        let fits = self.solve(at, control)?;
        let cut = (!self.cuts.is_empty()).then_some(open.cut);
        if !fits {
            let below = |axis: usize| {
                let mut corner = most;
                corner[axis] = at[axis] - 1;
                corner
            };
            if at[0] > least[0] {
                self.push(
                    Span {
                        least,
                        most: below(0),
                    },
                    cut,
                );
            }
            if at[1] > least[1] {
                let least = [at[0], least[1]];
                self.push(
                    Span {
                        least,
                        most: below(1),
                    },
                    cut,
                );
            }
            return Ok(());
        }
        if least == most {
            let bound = self
                .cuts
                .last()
                .map_or(0.0, |cut| cut.bound(self.family, &open.span));
            self.left = self.left.min(bound);
            return Ok(());
        }
        // the longer side, by its ratio
        let ratio = |axis: usize| most[axis] as f64 / least[axis] as f64;
        let axis = usize::from(ratio(1) > ratio(0));
        let (mut first, mut second) = (most, least);
        first[axis] = at[axis].min(most[axis] - 1);
        second[axis] = first[axis] + 1;
        self.push(Span { least, most: first }, cut);
        self.push(
            Span {
                least: second,
                most,
            },
            cut,
        );
        Ok(())
    }

    /// Solves one program; false where nothing fits.
    fn solve(&mut self, at: [u64; 2], control: &Control) -> Result<bool> {
        let factors = self.family.factors(at);
        if !write(self.family, &factors, &mut self.model) {
            return Ok(false);
        }
        self.programs += 1;
        let answer = self.workspace.assign(&self.model, &EXACT, control)?;
        let Assigned::Solved(solution) = answer else {
            return Ok(false);
        };
        self.cuts.push(Cut::new(self.family, &solution.prices));
        // the shares' own seconds, not what the solver makes of them
        let objective = self.family.seconds(&factors, &solution.shares) / factors[1];
        if self
            .best
            .as_ref()
            .is_none_or(|(best, _)| objective < best.objective)
        {
            let Solution { shares, prices, .. } = solution;
            let best = BestBlock {
                at,
                shares: shares.clone(),
                prices: prices.clone(),
                objective,
            };
            self.best = Some((best, self.cuts.len() - 1));
        }
        Ok(true)
    }
}

/// Shares that take no longer than those of the best block in any window and that add up to the least
/// of `distances`; none where rounding leaves no others. What is proven of the seconds stays.
///
/// # Errors
/// Cancelled.
pub(super) fn nearest(
    family: &Family,
    best: &BestBlock,
    distances: &[f64],
    control: &Control,
) -> Result<Option<Vec<f64>>> {
    let factors = family.factors(best.at);
    let windows = family.windows(&factors, &best.shares);
    let mut model = Model::new();
    for (index, row) in family.rows.iter().enumerate() {
        let base = dot(&row.base, &factors);
        let limit = match row.bounds {
            // what is over by rounding stays as far over
            Bounds::Bytes(limit) => limit.max(family.total(index, &factors, &best.shares)),
            Bounds::Window(window) => windows[window],
        };
        model.limited_row((limit - base).max(0.0));
    }
    // distances of the size of shares, as the solver likes them
    let most = distances.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let costs = distances.iter().map(|distance| distance / most);
    fill(family, &factors, costs, &mut model);
    match Workspace::new().assign(&model, &EXACT, control) {
        Ok(Assigned::Solved(solution)) => {
            let (seconds, least) = (
                family.seconds(&factors, &solution.shares),
                family.seconds(&factors, &best.shares),
            );
            let fits = family.overfull(&factors, &solution.shares) <= ROUNDING;
            let as_good = fits && seconds <= least * (1.0 + ROUNDING);
            Ok(as_good.then(|| solution.shares.clone()))
        }
        Err(error @ Error::Cancelled { .. }) => Err(error),
        Ok(Assigned::Infeasible(_) | Assigned::NoneBelow(_)) | Err(_) => Ok(None),
    }
}

/// The middle of two counts by ratio.
fn middle(least: u64, most: u64) -> u64 {
    // counts stay below 2^20, so their product is whole
    let middle = (least * most).isqrt();
    middle.clamp(least, most)
}

/// Writes down the program of one block; false where a memory is too small for what must lie there.
fn write(family: &Family, factors: &Terms, model: &mut Model) -> bool {
    model.clear();
    let windows: Vec<u32> = family
        .weights
        .iter()
        .map(|&w| model.window(0.0, w))
        .collect();
    for row in &family.rows {
        let base = dot(&row.base, factors);
        match row.bounds {
            Bounds::Bytes(limit) if base > limit => return false,
            Bounds::Bytes(limit) => model.limited_row(limit - base),
            Bounds::Window(window) => model.timed_row(windows[window], base),
        };
    }
    fill(family, factors, std::iter::repeat(0.0), model);
    true
}

/// Writes down the options with their costs and uses.
fn fill(family: &Family, factors: &Terms, mut costs: impl Iterator<Item = f64>, model: &mut Model) {
    for item in &family.items {
        model.item(false);
        for option in item.clone() {
            model.option(costs.next().unwrap_or(0.0));
            for (row, terms) in (0..).zip(0..family.rows.len()) {
                let amount = dot(family.used(option, terms), factors);
                if amount > 0.0 {
                    model.uses(row..row + 1, amount);
                }
            }
        }
    }
}

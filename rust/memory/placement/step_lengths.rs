//! How long is the step over which wear, refreshes and keeping are taken, and what is proven then?
//!
//! What may be written in a step, what is refreshed and what keeping takes all grow with its length,
//! which the placement itself sets. A model over a stretch of lengths (`StepLengths`) bounds every placement
//! whose step lies in it; what it finds is weighed at the length of its own step. Where time alone counts
//! (`shortest`) the shortest step that lasts is bracketed; otherwise branch and bound over stretches
//! narrows the distance between the best placement and the bound. Either way the bound holds.

use super::answer::{Shortage, overfull, shortages};
use super::build::{BuiltModel, ModelObjective, ParetoLimits, StepLengths};
use super::option_costs::{LayoutSink, PlacementContext};
use super::problem::Objective;
use super::tally::PlacementTally;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::solve::assign::{AssignOutcome, Limits, Solution, assign};
use std::collections::BTreeMap;
use std::ops::Range;

/// Most models that are solved where time alone counts, and where more does.
const MOST_LOOKED: u64 = 32;
const MOST_STRETCHES: u64 = 256;
/// Gap that is near enough where energy counts: what is kept times how long is not convex, so that each
/// halving of the gap takes twice the models.
const NEAR_ENOUGH: f64 = 1e-3;
/// Stretches whose ends are nearer than this, as a part, are not divided.
const NARROW: f64 = 1e-9;
/// What is slower than it need be by this much, as a part, is not looked into closely.
const DAWDLING: f64 = 0.1;
/// Ends farther apart than this are divided by their ratio.
const WIDE: f64 = 4.0;

/// The best placement found.
pub(super) struct BestPlacement<'a> {
    pub(super) built: BuiltModel,
    pub(super) shares: Vec<f64>,
    pub(super) prices: Vec<f64>,
    pub(super) tally: PlacementTally<'a>,
}

/// What holds of all placements.
pub(super) struct PlacementProof {
    /// None has a lower objective.
    pub(super) bound: f64,
    /// Relaxed programs that were solved.
    pub(super) nodes: u64,
}

/// The best placement, or what none can do without.
pub(super) enum PlacementSearchOutcome<'a> {
    Found(Box<BestPlacement<'a>>, PlacementProof),
    Nothing(Vec<Shortage>),
    /// Nothing below what was asked for.
    NoneBelow,
}

/// Lengths of steps that are still to be looked at.
#[derive(Clone, Copy)]
struct LengthRange {
    least_s: f64,
    most_s: f64,
    bound: f64,
}

struct Search<'a> {
    context: &'a PlacementContext<'a>,
    limits: &'a Limits,
    control: &'a Control,
    open: Vec<LengthRange>,
    best: Option<Box<BestPlacement<'a>>>,
    missing: Vec<Shortage>,
    /// The least bound of what was closed with its question open.
    left: f64,
    nodes: u64,
    looked: u64,
    /// True where no placement is below what was asked for.
    none_below: bool,
    /// Years that the placement lasts longest of those that do not last.
    lasted: f64,
}

/// What one model gave.
enum ModelOutcome<'a> {
    Solved {
        bound: f64,
        best: Box<BestPlacement<'a>>,
    },
    Empty(Vec<Shortage>),
    NoneBelow,
}

/// Finds the placement with the least objective, each placement taken at the length of its own step.
///
/// # Errors
/// Cancelled, or where neither a placement nor a proof that there is none was found.
pub(super) fn best_placement<'a>(
    context: &'a PlacementContext<'a>,
    limits: &'a Limits,
    control: &'a Control,
) -> Result<PlacementSearchOutcome<'a>> {
    let shortest = context.problem.transfer_free_s();
    let mut search = Search {
        context,
        limits,
        control,
        open: Vec::new(),
        best: None,
        missing: Vec::new(),
        left: f64::INFINITY,
        nodes: 0,
        looked: 0,
        none_below: false,
        lasted: 0.0,
    };
    if !context.depends_on_length() {
        return Ok(
            match search.solve(StepLengths::only(shortest), limits.below)? {
                ModelOutcome::Solved { bound, best } => search.outcome(best, bound),
                ModelOutcome::Empty(missing) => PlacementSearchOutcome::Nothing(missing),
                ModelOutcome::NoneBelow => PlacementSearchOutcome::NoneBelow,
            },
        );
    }
    let longest = context.longest_s().max(shortest);
    let Objective { per_j, per_usd, .. } = context.problem.objective;
    if per_j + per_usd > 0.0 {
        search.open.push(LengthRange {
            least_s: shortest,
            most_s: longest,
            bound: 0.0,
        });
        search.run()?;
    } else {
        search.shortest([shortest, longest])?;
    }
    if search.none_below {
        return Ok(PlacementSearchOutcome::NoneBelow);
    }
    let bound = search.left;
    match search.best.take() {
        Some(best) => Ok(search.outcome(best, bound)),
        None if search.left < f64::INFINITY => {
            let years = context.problem.years.unwrap_or_default();
            let allowed = format!(
                "up to {:.4}, which one of {} placements lasts; slower ones may last longer, with \
                 an objective of at least {bound:.4}",
                search.lasted, search.looked
            );
            Err(Error::invalid("years", years, allowed))
        }
        None => Ok(PlacementSearchOutcome::Nothing(search.missing)),
    }
}

impl<'a> Search<'a> {
    fn outcome(&self, best: Box<BestPlacement<'a>>, bound: f64) -> PlacementSearchOutcome<'a> {
        let bound = bound.min(best.tally.objective());
        let nodes = self.nodes;
        PlacementSearchOutcome::Found(best, PlacementProof { bound, nodes })
    }

    /// Brackets the shortest step that lasts, where time alone counts.
    ///
    /// Let `v(S)` be the shortest step of those that write in it no more than may be written in `S`
    /// seconds: the more may be written, the shorter it is. A step of `S` that lasts has `v(S) <= S`, so
    /// where `v(m) > m` none of up to `m` lasts, and the one of `v(m)` seconds does. Where `v` is
    /// continuous, as of tensors that may be split, both meet. What takes longer than another that
    /// writes no more lasts only for dawdling and is not sought.
    fn shortest(&mut self, [mut low, mut high]: [f64; 2]) -> Result<()> {
        let (least_s, per_s) = (low, self.context.problem.objective.per_s);
        let mut at = high;
        // how far v lies above the step at either end
        let mut above = [f64::NAN; 2];
        loop {
            let lengths = StepLengths {
                least_s,
                most_s: at,
                surcharge: 0.0,
            };
            let first = self.looked == 0;
            // the first model bounds steps of any length
            let below = if first {
                self.limits.below
            } else {
                f64::INFINITY
            };
            match self.solve(lengths, below) {
                Ok(ModelOutcome::NoneBelow) => {
                    self.none_below = true;
                    return Ok(());
                }
                Ok(ModelOutcome::Solved { bound, best }) => {
                    let [bound_s, step_s] = [bound / per_s, best.tally.step_s];
                    self.offer(best);
                    if first {
                        low = low.max(bound_s);
                        (high, above[1]) = (at, step_s - at);
                    } else if bound_s > at {
                        (low, above[0]) = (at, step_s - at);
                    } else if step_s <= at {
                        (high, above[1]) = (at, step_s - at);
                    } else {
                        // the solver's own gap hides on which side it is; no step of up to `at` is
                        // shorter than the bound, since `v` is no lower there
                        low = low.max(bound_s);
                        break;
                    }
                }
                Ok(ModelOutcome::Empty(missing)) => {
                    self.missing = missing;
                    if first {
                        return Ok(());
                    }
                    (low, above[0]) = (at, f64::NAN);
                }
                Err(error) if self.ends_search(&error) => return Err(error),
                Err(_) => break,
            }
            let enough = self.near_enough(per_s * low);
            // far below the step at the upper end, v only says how long steps must be that dawdle
            let dawdles = self.best.is_none() && above[1] < -DAWDLING * high;
            let narrow = if dawdles { NEAR_ENOUGH } else { NARROW };
            if enough || self.looked >= MOST_LOOKED || high - low <= narrow * high {
                break;
            }
            let halve = self.looked.is_multiple_of(2);
            let met = chord([low, high], above).filter(|_| !halve);
            at = met.unwrap_or(f64::midpoint(low, high));
        }
        self.left = per_s * low;
        Ok(())
    }

    /// True where an error ends the search rather than one of its models.
    fn ends_search(&self, error: &Error) -> bool {
        self.best.is_none() || matches!(error, Error::Cancelled { .. })
    }

    fn run(&mut self) -> Result<()> {
        while let Some(stretch) = self.next() {
            let enough = self.near_enough(stretch.bound);
            if enough || self.looked >= MOST_STRETCHES {
                self.left = self.left.min(stretch.bound);
                self.open.clear(); // the others' bounds are no lower
                return Ok(());
            }
            self.explore(stretch)?;
        }
        Ok(())
    }

    /// The stretch with the least bound; among equals the longest steps, which allow most.
    fn next(&mut self) -> Option<LengthRange> {
        let better = |a: &LengthRange, b: &LengthRange| {
            let bounds = b.bound.total_cmp(&a.bound);
            bounds.then(a.most_s.total_cmp(&b.most_s))
        };
        let stretches = self.open.iter().enumerate();
        let (at, _) = stretches.max_by(|a, b| better(a.1, b.1))?;
        Some(self.open.swap_remove(at))
    }

    fn near_enough(&self, bound: f64) -> bool {
        self.best.as_ref().is_some_and(|best| {
            let objective = best.tally.objective();
            let energy = self.context.problem.objective.per_j > 0.0;
            let least = if energy { NEAR_ENOUGH } else { NARROW };
            bound >= objective - objective.abs() * self.limits.gap.max(least)
        })
    }

    fn explore(&mut self, mut stretch: LengthRange) -> Result<()> {
        let objective = self.context.problem.objective;
        if let (Some(best), true) = (&self.best, objective.per_s > 0.0) {
            // what is better takes no more time than all of the best's objective pays for
            let paid = best.tally.objective() / objective.per_s;
            stretch.most_s = stretch.most_s.min(paid).max(stretch.least_s);
        }
        // no step of the stretch is longer than `most`, so `w (step - most) <= 0` is added at no risk for
        // any w >= 0 (a Lagrangian bound, Geoffrion 1974); w at the watts of the best placement makes up
        // for keeping that is counted over the shortest step alone
        let watts = self.best.as_ref().map_or(0.0, |best| best.tally.keeping_w);
        let surcharge = objective.per_j * watts;
        let (least_s, most_s) = (stretch.least_s, stretch.most_s);
        let lengths = StepLengths {
            least_s,
            most_s,
            surcharge,
        };
        match self.solve(lengths, f64::INFINITY) {
            Ok(ModelOutcome::NoneBelow) => Ok(()), // every placement is below infinity
            Ok(ModelOutcome::Solved { bound, best }) => {
                let given = surcharge * (most_s - self.context.problem.rest_s);
                let paid = objective.per_s * least_s;
                stretch.bound = stretch.bound.max(bound - given).max(paid);
                let (step_s, lasts) = (best.tally.step_s, best.tally.endures());
                self.offer(best);
                // what lasts through the shortest steps lasts
                if !lasts
                    && let Ok(ModelOutcome::Solved { best, .. }) =
                        self.solve(StepLengths::only(least_s), f64::INFINITY)
                {
                    self.offer(best);
                }
                self.divide(stretch, step_s);
                Ok(())
            }
            Ok(ModelOutcome::Empty(missing)) => {
                let sum = |of: &[Shortage]| of.iter().map(|m| m.missing_bytes).sum::<f64>();
                if self.missing.is_empty() || sum(&missing) < sum(&self.missing) {
                    self.missing = missing;
                }
                Ok(())
            }
            Err(error) if self.ends_search(&error) => Err(error),
            Err(_) => {
                self.left = self.left.min(stretch.bound);
                Ok(())
            }
        }
    }

    fn offer(&mut self, best: Box<BestPlacement<'a>>) {
        let objective = best.tally.objective();
        let known = self.best.as_ref().map(|known| known.tally.objective());
        if !best.tally.endures() {
            self.lasted = self.lasted.max(best.tally.years());
        }
        if best.tally.endures() && known.is_none_or(|known| objective < known) {
            self.best = Some(best);
        }
    }

    /// Opens what is left of a stretch in two parts: up to where its own placement's step ends, or half.
    fn divide(&mut self, stretch: LengthRange, step_s: f64) {
        let LengthRange {
            least_s,
            most_s,
            bound,
        } = stretch;
        let near = NARROW * most_s;
        if self.near_enough(bound) || most_s - least_s <= near {
            self.left = self.left.min(bound);
            return;
        }
        let at = if step_s > least_s + near && step_s < most_s - near {
            step_s
        } else if least_s > 0.0 && most_s > WIDE * least_s {
            (least_s * most_s).sqrt()
        } else {
            f64::midpoint(least_s, most_s)
        };
        for (least_s, most_s) in [(least_s, at), (at, most_s)] {
            self.open.push(LengthRange {
                least_s,
                most_s,
                bound,
            });
        }
    }

    /// Solves a model; one with no objective `below` may be left with no placement.
    fn solve(&mut self, lengths: StepLengths, below: f64) -> Result<ModelOutcome<'a>> {
        self.looked += 1;
        let context = self.context;
        let built = match context.build(ModelObjective::Objective(lengths)) {
            Ok(built) => built,
            Err(over) => return Ok(ModelOutcome::Empty(overfull(context, &over))),
        };
        let constant = context.problem.objective.per_s * context.problem.rest_s;
        let limits = Limits {
            below: below - constant,
            ..*self.limits
        };
        match assign(&built.model, &limits, self.control)? {
            AssignOutcome::NoneBelow(_) => Ok(ModelOutcome::NoneBelow),
            AssignOutcome::Solved(solution) => {
                self.nodes += solution.nodes;
                let bound = solution.bound + constant;
                let Solution { shares, prices, .. } = solution;
                let tally = PlacementTally::new(context, &built, &shares);
                let best = Box::new(BestPlacement {
                    built,
                    shares,
                    prices,
                    tally,
                });
                Ok(ModelOutcome::Solved { bound, best })
            }
            AssignOutcome::Infeasible(shortage) => {
                let rows = shortage.map_or_else(Vec::new, |shortage| shortage.rows);
                Ok(ModelOutcome::Empty(shortages(context, &built, &rows)))
            }
        }
    }
}

/// Where the chord through two ends of a convex function is 0: at or behind where the function is.
fn chord([low, high]: [f64; 2], above: [f64; 2]) -> Option<f64> {
    let at = (high * above[0] - low * above[1]) / (above[0] - above[1]);
    let near = NARROW * high;
    (at > low + near && at < high - near).then_some(at)
}

impl<'a> BestPlacement<'a> {
    /// Takes, of all placements that are as good in every window, joule and dollar, the one that moves
    /// and keeps the fewest bytes behind the main tier. What is proven of the objective stays.
    ///
    /// # Errors
    /// Cancelled.
    pub(super) fn pulled_to_main_tier(
        &mut self,
        context: &'a PlacementContext<'a>,
        control: &Control,
    ) -> Result<()> {
        if !self.tally.uses_far_tiers() {
            return Ok(());
        }
        let kept = ParetoLimits {
            step_s: self.tally.step_s,
            window_s: self.tally.window_s.clone(),
            peaks: self.tally.peaks.clone(),
            joules: self.tally.joules,
        };
        let Ok(built) = context.build(ModelObjective::Near(&kept)) else {
            return Ok(());
        };
        let solution = match assign(&built.model, &NEAR, control) {
            Ok(AssignOutcome::Solved(solution)) => solution,
            Err(error @ Error::Cancelled { .. }) => return Err(error),
            // within rounding there is no other
            Ok(AssignOutcome::Infeasible(_) | AssignOutcome::NoneBelow(_)) | Err(_) => {
                return Ok(());
            }
        };
        let tally = PlacementTally::new(context, &built, &solution.shares);
        let least = self.tally.objective();
        let as_good = tally.objective() <= least + least.abs() * SLACK;
        if as_good && tally.endures() {
            (self.shares, self.tally) = (solution.shares, tally);
        }
        Ok(())
    }
}

/// When the search among equals ends: it has no part in the proof.
const NEAR: Limits = Limits {
    gap: 1e-6,
    nodes: 64,
    below: f64::INFINITY,
    shortage: false,
};
/// By how much of it the objective may rise on the way: rounding.
const SLACK: f64 = 2e-9;

/// Adds up the longest that each lane may be busy.
struct BusyLimits<'a> {
    window_of: &'a [u32],
    lanes: usize,
    /// Of the site at hand, by window and lane.
    site: BTreeMap<usize, f64>,
}

impl LayoutSink for BusyLimits<'_> {
    fn hold(&mut self, _: usize, _: Range<u32>, _: f64) {}

    fn load(&mut self, at: u32, lane: usize, seconds: f64) {
        let index = self.window_of[at as usize] as usize * self.lanes + lane;
        *self.site.entry(index).or_default() += seconds;
    }

    fn touch(&mut self, _: usize, _: u32, _: f64, _: f64) {}
}

impl PlacementContext<'_> {
    /// True where what is minimised, or what is allowed, changes with the length of the step.
    pub(super) fn depends_on_length(&self) -> bool {
        let objective = &self.problem.objective;
        let mut tiers = self.memories.places.iter().map(|place| &place.tier);
        tiers.any(|tier| {
            let worn = self.problem.years.is_some() && tier.endurance.is_some();
            let kept = tier.keeping_power.value() > 0.0 || tier.retention.is_some();
            worn || (objective.per_j > 0.0 && kept)
        })
    }

    /// No placement's step is longer: each tensor at the site that keeps each lane busy longest.
    fn longest_s(&self) -> f64 {
        let window_of = self.problem.window_of();
        let lanes = self.memories.lanes.len();
        let mut busy = vec![0.0; self.problem.windows.len() * lanes];
        let mut sites = Vec::new();
        for tensor in &self.problem.tensors {
            let mut most: BTreeMap<usize, f64> = BTreeMap::new();
            self.options_of(tensor, &mut sites);
            for &site in &sites {
                let mut longest = BusyLimits {
                    window_of: &window_of,
                    lanes,
                    site: BTreeMap::new(),
                };
                self.add_costs(tensor, site, &mut longest);
                for (index, seconds) in longest.site {
                    let most = most.entry(index).or_default();
                    *most = most.max(seconds);
                }
            }
            for (index, seconds) in most {
                busy[index] += seconds;
            }
        }
        let windows = self.problem.windows.iter().enumerate();
        let longest = windows.map(|(index, window)| {
            let busy = busy[index * lanes..(index + 1) * lanes].iter();
            window.repeats * busy.copied().fold(window.compute_s, f64::max)
        });
        longest.sum::<f64>() + self.problem.rest_s
    }
}

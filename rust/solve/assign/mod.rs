//! Which option does each of many items take, where options share limited and timed rows?

mod balance;
mod bound;
mod branch;
mod dive;
mod evaluate;
mod exchange;
mod first_order;
mod inverse;
mod model;
mod point;
mod ratio_test;
mod rounding;
mod saved_basis;
mod scaled_model;
mod shortage;
mod simplex;

pub use evaluate::Evaluation;
pub use model::Model;
pub use shortage::Shortage;

use crate::control::Control;
use crate::error::{Error, Result};
use branch::{SearchEnd, SearchInputs, Tree};

/// When a search may stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Relative distance between the objective and its bound that is near enough.
    pub gap: f64,
    /// Relaxed programs to solve at most.
    pub nodes: u64,
    /// Only objectives below this are of interest; infinite: all are.
    pub below: f64,
    /// Whether to find by how little limits are missed where nothing keeps them: a search of its own.
    pub shortage: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            gap: 0.01,
            nodes: 10_000,
            below: f64::INFINITY,
            shortage: true,
        }
    }
}

/// The best shares that were found, and what is proven about them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Solution {
    /// Share of each option, 0 to 1; those of an item add to 1.
    pub shares: Vec<f64>,
    /// Length tau of each window.
    pub windows: Vec<f64>,
    /// sum(cost * share) + sum(weight * tau). Limits are kept to 1e-9 of themselves.
    pub objective: f64,
    /// No shares have a lower objective: proven by the rows' prices, whatever the search did.
    pub bound: f64,
    /// By how much the relaxed objective falls with each unit of a row's limit, or grows with each
    /// unit of a timed row's base. 0 or more.
    pub prices: Vec<f64>,
    /// Relaxed programs that were solved.
    pub nodes: u64,
}

impl Solution {
    /// How far the objective may be above the best there is, as a part of it.
    pub fn gap(&self) -> f64 {
        let distance = self.objective - self.bound;
        if distance <= 0.0 {
            0.0
        } else {
            distance / self.objective.abs()
        }
    }
}

/// What came of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum AssignOutcome {
    /// Shares that keep all limits.
    Solved(Solution),
    /// Proven: no shares keep all limits; by how little they are missed, where that is asked for.
    Infeasible(Option<Shortage>),
    /// Proven: no shares that keep all limits have an objective below this, which is no less than what
    /// was asked for.
    NoneBelow(f64),
}

/// Memory of the search, for callers that solve many models: the next one allocates nothing
/// unless it is larger.
#[derive(Debug, Default)]
pub struct Workspace {
    tree: Tree,
    answer: Option<AssignOutcome>,
}

/// Finds the shares with the least objective to within `limits`.
///
/// # Errors
/// A model that makes no sense, a cancelled search, and a search that ended at `limits.nodes`
/// with nothing that fits and no proof that nothing does.
pub fn assign(model: &Model, limits: &Limits, control: &Control) -> Result<AssignOutcome> {
    let mut workspace = Workspace::new();
    workspace.assign(model, limits, control)?;
    let none = || AssignOutcome::Solved(Solution::default());
    Ok(workspace.answer.unwrap_or_else(none))
}

impl Workspace {
    /// No memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`assign`], in this memory.
    pub fn assign(
        &mut self,
        model: &Model,
        limits: &Limits,
        control: &Control,
    ) -> Result<&AssignOutcome> {
        model.check()?;
        if limits.below.is_nan() {
            return Err(Error::invalid("limits.below", limits.below, "a number"));
        }
        if !(limits.gap >= 0.0 && limits.gap.is_finite()) {
            return Err(Error::invalid(
                "relative_gap",
                limits.gap,
                "a finite number, 0 or more",
            ));
        }
        let asked = SearchInputs {
            model,
            limits,
            control,
        };
        match self.tree.run(&asked) {
            SearchEnd::Best(bound) => Ok(self.solved(bound)),
            SearchEnd::Nothing => {
                let wanted = limits.shortage.then(|| Self::least_excess(&asked));
                let shortage = wanted.transpose()?;
                Ok(self.answer.insert(AssignOutcome::Infeasible(shortage)))
            }
            SearchEnd::NoneBelow(bound) => Ok(self.answer.insert(AssignOutcome::NoneBelow(bound))),
            SearchEnd::Cancelled => Err(cancelled(&self.tree)),
            SearchEnd::Unknown(bound) => {
                let nodes = self.tree.looked;
                Err(Error::inconsistent(format!(
                    "nodes: after {nodes} relaxed programs nothing fits yet, and nothing proves that nothing does; the objective is at least {bound}"
                )))
            }
        }
    }

    fn solved(&mut self, bound: f64) -> &AssignOutcome {
        let empty = || AssignOutcome::Solved(Solution::default());
        let answer = self.answer.get_or_insert_with(empty);
        if !matches!(answer, AssignOutcome::Solved(_)) {
            *answer = empty();
        }
        if let AssignOutcome::Solved(solution) = answer {
            let tree = &self.tree;
            solution.shares.clone_from(&tree.best.shares);
            solution.windows.clone_from(&tree.best.windows);
            solution.prices.clone_from(&tree.prices);
            solution.objective = tree.best.objective;
            solution.bound = bound;
            solution.nodes = tree.looked;
        }
        answer
    }

    /// The least excess over limits, from a search of its own.
    fn least_excess(asked: &SearchInputs) -> Result<Shortage> {
        let relaxed = shortage::relaxed(asked.model);
        let mut tree = Tree::default();
        let limits = Limits {
            below: f64::INFINITY,
            ..*asked.limits
        };
        let found = tree.run(&SearchInputs {
            model: &relaxed,
            limits: &limits,
            ..*asked
        });
        match found {
            SearchEnd::Best(_) => Ok(shortage::shortage(asked.model, &tree.best.windows)),
            _ => Err(cancelled(&tree)),
        }
    }
}

fn cancelled(tree: &Tree) -> Error {
    let nodes = tree.looked;
    let best = if tree.found {
        format!(", best objective {}", tree.best.objective)
    } else {
        String::new()
    };
    Error::Cancelled {
        what: format!("{nodes} relaxed programs solved{best}"),
    }
}

//! What is looked for: what "best" means, how many plans, which fronts, how far the search may go.

use crate::error::{Error, Result};
use crate::estimate::{COLUMNS, Job};
use crate::solve::{Coordinates, MOST_COORDINATES};
use serde::{Deserialize, Serialize};

/// What is minimised. Ties go to the plan that comes first, of as many devices to the quickest one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// Step time.
    #[default]
    Time,
    /// Memory on the fullest rank.
    Memory,
    /// Energy per step.
    Energy,
    /// Dollars per step.
    Dollars,
    /// Devices.
    Devices,
}

impl Objective {
    /// What the plans of one job are ranked by: all use the same devices, and of those the quickest
    /// is wanted.
    pub(super) fn within_a_job(self) -> Self {
        match self {
            Self::Devices => Self::Time,
            other => other,
        }
    }
}

/// Things that an objective can be.
pub(super) const MEASURES: usize = 5;

/// What a plan measures, by `Objective`.
pub(super) type Measures = [f64; MEASURES];

/// When plans that do not fit in device memory are tried with tensors in other tiers, which only a
/// search for the least time does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OffloadWhen {
    /// Where no plan fits without, or the best one keeps something on the host by its own fields: a
    /// few of the fastest ones.
    #[default]
    Auto,
    /// Wherever the plan could still be among the best.
    Always,
    /// Not at all.
    Never,
}

/// How much of the space is priced. Both give the same answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Units, groups and plans that a bound excludes are counted, not priced.
    #[default]
    Bounds,
    /// Every legal plan is weighed, and priced where it fits; only recurrences of plans that their
    /// schedule's closed form excludes are left out.
    Exhaustive,
}

/// How much a search returns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Plans to return.
    pub top: usize,
    /// What they are ranked by.
    pub objective: Objective,
    /// A plan field (`estimate_many`'s columns) by which the returned plans are to differ: of all
    /// plans with one value only the best is returned.
    pub distinct: Option<String>,
    /// What the front trades; none for no front.
    pub front: Vec<Objective>,
    /// Whether bounds may leave plans unpriced.
    pub method: Method,
    /// Whether plans that do not fit in device memory are tried with tensors in other tiers.
    pub offload: OffloadWhen,
    /// Count the plans that fit and whose step is shorter than this, seconds.
    pub ahead_of_s: Option<f64>,
}

/// Most plans that a search returns; each is priced again in full.
const MOST_PLANS: usize = 1000;

impl Limits {
    /// Refuses to return no plan or more than anyone reads, and what no job can be ranked by.
    pub fn check(&self, job: &Job) -> Result<()> {
        if !(1..=MOST_PLANS).contains(&self.top) {
            let allowed = format!("1 to {MOST_PLANS}");
            return Err(Error::invalid("top", self.top, allowed));
        }
        if let Some(field) = &self.distinct
            && !COLUMNS.contains(&field.as_str())
        {
            return Err(Error::unknown("distinct", field, COLUMNS));
        }
        let twice = (1..self.front.len()).find(|&i| self.front[..i].contains(&self.front[i]));
        if let Some(twice) = twice {
            let got = format!("{:?} twice", self.front[twice]).to_lowercase();
            return Err(Error::invalid("front", got, "each measure once"));
        }
        if self
            .ahead_of_s
            .is_some_and(|time| time.is_nan() || time <= 0.0)
        {
            let got = self.ahead_of_s.unwrap_or(f64::NAN);
            return Err(Error::invalid("ahead_of_s", got, "seconds above 0"));
        }
        let dollars =
            self.objective == Objective::Dollars || self.front.contains(&Objective::Dollars);
        if dollars && !crate::economics::priced(&job.cluster) {
            let allowed = "time, memory, energy or devices: the system has no price";
            return Err(Error::invalid("objective, front", "dollars", allowed));
        }
        Ok(())
    }

    /// True where a plan's energy has to be known.
    pub(super) fn wants_energy(&self) -> bool {
        let costly = |o: &Objective| matches!(o, Objective::Energy | Objective::Dollars);
        costly(&self.objective) || self.front.iter().any(costly)
    }

    /// Where a plan lies among those of the front.
    pub(super) fn coordinates(&self, measures: &Measures) -> Coordinates {
        let mut at = [0.0; MOST_COORDINATES];
        for (coordinate, objective) in at.iter_mut().zip(&self.front) {
            *coordinate = measures[*objective as usize];
        }
        at
    }

    /// The column of `distinct`.
    pub(super) fn column(&self) -> Option<usize> {
        let field = self.distinct.as_ref()?;
        COLUMNS.iter().position(|column| column == field)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            top: 10,
            objective: Objective::Time,
            distinct: None,
            front: vec![Objective::Time, Objective::Memory],
            method: Method::Bounds,
            offload: OffloadWhen::Auto,
            ahead_of_s: None,
        }
    }
}

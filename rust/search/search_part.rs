//! What has a part of a search found, and how do parts come together?

use super::priced_plan::{Best, Front, join};
use crate::error::{Error, Result};
use crate::plan::{BrokenRule, Plan};
use crate::workload::Precision;
use serde::{Deserialize, Serialize};

/// How often each thing happened to a legal plan. They add up to the legal plans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanCounts {
    /// Fits; its exact time was computed.
    pub priced: u64,
    /// Weighed: does not fit.
    pub unfit: u64,
    /// Does not fit, since the leanest plan of its group does not.
    pub unfit_by_group: u64,
    /// Excluded with all plans of its unit: the work of a step, spread evenly over the devices,
    /// takes too long.
    pub by_work: u64,
    /// Excluded with its group by the schedule's closed form for the quickest of the group.
    pub by_group: u64,
    /// Fits; excluded by its own schedule's closed form.
    pub by_form: u64,
    /// Of the plans priced, those faster than `Limits::ahead_of_s`.
    pub ahead: u64,
    /// Combinations that break a rule, by `BrokenRule::FAMILIES`. A broken combination is counted once
    /// for all plans that share it; these are no legal plans.
    pub illegal: [u64; BrokenRule::FAMILIES.len()],
}

impl PlanCounts {
    /// Legal plans in all.
    pub fn legal(&self) -> u64 {
        self.priced + self.not_fitting() + self.excluded()
    }

    /// Legal plans that do not fit.
    pub fn not_fitting(&self) -> u64 {
        self.unfit + self.unfit_by_group
    }

    /// Legal plans that a bound excludes; of those that it excludes in groups some may not fit.
    pub fn excluded(&self) -> u64 {
        self.by_work + self.by_group + self.by_form
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.priced += other.priced;
        self.unfit += other.unfit;
        self.unfit_by_group += other.unfit_by_group;
        self.by_work += other.by_work;
        self.by_group += other.by_group;
        self.by_form += other.by_form;
        self.ahead += other.ahead;
        for (mine, theirs) in self.illegal.iter_mut().zip(other.illegal) {
            *mine += theirs;
        }
    }
}

/// Of the plans that do not fit, the one that lacks least.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NearestMiss {
    /// Bytes that it lacks.
    pub lacks_bytes: f64,
    /// Breaks ties: the lower one stands.
    pub index: u64,
    /// The plan.
    pub plan: Plan,
    /// Its precision recipe, where the space lists some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Precision>,
}

impl NearestMiss {
    /// True where it lacks less than `other`, or comes first of equals.
    fn is_nearer(&self, other: &Self) -> bool {
        let order = self.lacks_bytes.total_cmp(&other.lacks_bytes);
        order.then(self.index.cmp(&other.index)).is_lt()
    }

    /// Keeps the nearer of two.
    pub(super) fn keep(held: &mut Option<Self>, other: Self) {
        if held.as_ref().is_none_or(|held| other.is_nearer(held)) {
            *held = Some(other);
        }
    }
}

/// What the units of a search found so far. Joining parts of other units, in any order, gives what
/// one walk of all of them finds; a plan that two parts hold is held once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchPart {
    /// The best plans.
    pub(super) best: Best,
    /// The front.
    pub(super) front: Front,
    /// What became of the plans.
    pub(super) counts: PlanCounts,
    /// Where nothing fits: the plan that lacks least.
    pub(super) nearest: Option<NearestMiss>,
    /// Units walked: ranges without their ends, in order, apart from one another.
    pub(super) walked: Vec<(u32, u32)>,
}

impl SearchPart {
    /// Nothing walked, up to `top` plans to keep.
    pub fn new(top: usize) -> Self {
        Self {
            best: Best::new(top),
            front: Front::default(),
            counts: PlanCounts::default(),
            nearest: None,
            walked: Vec::new(),
        }
    }

    /// What became of the plans.
    pub fn counts(&self) -> &PlanCounts {
        &self.counts
    }

    /// Units walked: ranges without their ends.
    pub fn walked(&self) -> &[(u32, u32)] {
        &self.walked
    }

    /// Takes what another part found, whose units are not walked yet. `distinct` is the column by
    /// which the best plans differ.
    pub(super) fn merge(&mut self, other: &Self, distinct: Option<usize>) -> Result<()> {
        let mut walked = [&self.walked[..], &other.walked[..]].concat();
        walked.sort_unstable();
        if let Some(pair) = walked.windows(2).find(|pair| pair[1].0 < pair[0].1) {
            let allowed = "parts of a search that walk no unit twice";
            return Err(Error::invalid(
                "parts",
                format!("unit {} twice", pair[1].0),
                allowed,
            ));
        }
        walked.dedup_by(|next, held| {
            let joins = held.1 == next.0;
            if joins {
                held.1 = next.1;
            }
            joins
        });
        self.walked = walked;
        join(&mut self.best, &other.best, distinct);
        self.front.merge(&other.front);
        self.counts.add(&other.counts);
        if let Some(nearest) = &other.nearest {
            NearestMiss::keep(&mut self.nearest, nearest.clone());
        }
        Ok(())
    }
}

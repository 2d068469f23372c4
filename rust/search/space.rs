//! The plan space as data: for each field the values that are allowed, or all legal ones.

use crate::error::{Error, Result};
use crate::plan::{RecomputePolicy, Schedule};
use serde::{Deserialize, Serialize};

/// What "best" means. Ties go to the plan that comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// Least step time.
    #[default]
    Time,
    /// Least memory on the fullest rank.
    Memory,
    /// Least energy per step.
    Energy,
}

/// When plans that do not fit in device memory are tried with tensors in other tiers, which only a
/// search for the least time does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Offload {
    /// Where no plan fits without, a few of the fastest ones.
    #[default]
    Auto,
    /// Wherever the plan could still be among the best.
    Always,
    /// Not at all.
    Never,
}

/// How much a search returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Plans to return.
    #[serde(default = "ten")]
    pub top: usize,
    /// What they are ranked by.
    #[serde(default)]
    pub objective: Objective,
    /// Whether plans that do not fit in device memory are tried with tensors in other tiers.
    #[serde(default)]
    pub offload: Offload,
}

/// Most plans that a search returns; each is priced again in full.
const MOST_PLANS: usize = 1000;

impl Limits {
    /// Refuses to return no plan or more than anyone reads.
    pub fn check(self) -> Result<()> {
        if (1..=MOST_PLANS).contains(&self.top) {
            return Ok(());
        }
        let allowed = format!("1 to {MOST_PLANS}");
        Err(Error::invalid("limits.top", self.top, allowed))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            top: ten(),
            objective: Objective::Time,
            offload: Offload::Auto,
        }
    }
}

/// Allowed values by plan field; an absent list allows every legal value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Space {
    /// Tensor-parallel ranks.
    pub tensor: Option<Vec<u32>>,
    /// Context-parallel ranks.
    pub context: Option<Vec<u32>>,
    /// Pipeline stages.
    pub pipeline: Option<Vec<u32>>,
    /// Data-parallel replicas.
    pub data: Option<Vec<u32>>,
    /// Expert-parallel ranks.
    pub expert: Option<Vec<u32>>,
    /// Ranks that split one expert.
    pub expert_tensor: Option<Vec<u32>>,
    /// Sequences per micro-batch.
    pub micro_batch: Option<Vec<u32>>,
    /// Chunks per stage.
    pub interleave: Option<Vec<u32>>,
    /// Schedules.
    pub schedule: Option<Vec<Schedule>>,
    /// ZeRO stages.
    pub zero: Option<Vec<u8>>,
    /// ZeRO group sizes; absent: all replicas only.
    pub zero_group: Option<Vec<u32>>,
    /// Recomputation policies.
    pub recompute: Option<Vec<RecomputePolicy>>,
    /// Sequence parallelism.
    pub sequence_parallel: Option<Vec<bool>>,
    /// Gradient reduction under the backward pass; absent: on.
    pub overlap_grad_reduce: Option<Vec<bool>>,
    /// Weight gathers under compute; absent: on.
    pub overlap_param_gather: Option<Vec<bool>>,
    /// Tensor collectives under weight gradients; absent: on.
    pub overlap_tensor: Option<Vec<bool>>,
    /// Sends under compute (not with `gpipe` and `1f1b`); absent: on where it is possible.
    pub overlap_pipeline: Option<Vec<bool>>,
}

impl Space {
    /// Reads a space from its JSON text and checks it.
    pub fn from_json(text: &str) -> Result<Self> {
        let space: Self = crate::error::from_json("space", text)?;
        space.check()?;
        Ok(space)
    }

    fn check(&self) -> Result<()> {
        let lists: [(&str, &Option<Vec<u32>>); 9] = [
            ("tensor", &self.tensor),
            ("context", &self.context),
            ("pipeline", &self.pipeline),
            ("data", &self.data),
            ("expert", &self.expert),
            ("expert_tensor", &self.expert_tensor),
            ("micro_batch", &self.micro_batch),
            ("interleave", &self.interleave),
            ("zero_group", &self.zero_group),
        ];
        for (field, values) in lists {
            let zero_is_default = matches!(field, "expert_tensor" | "zero_group");
            let Some(values) = values else { continue };
            let wrong = values
                .iter()
                .find(|&&v| v == 0 && !zero_is_default || v > 1 << 24);
            if values.is_empty() || wrong.is_some() {
                let got = wrong.map_or("an empty list".to_owned(), u32::to_string);
                return Err(Error::invalid(
                    format!("space.{field}"),
                    got,
                    "one or more of 1 to 2^24",
                ));
            }
        }
        match self.zero.as_ref().and_then(|z| z.iter().find(|v| **v > 3)) {
            Some(stage) => Err(Error::invalid("space.zero", stage, "0, 1, 2 or 3")),
            None => Ok(()),
        }
    }
}

/// The listed values that divide `total`, or all divisors of it.
pub(super) fn divisors(listed: Option<&Vec<u32>>, total: u32) -> Vec<u32> {
    let divides = |v: &u32| *v > 0 && total.is_multiple_of(*v);
    if let Some(values) = listed {
        let mut some: Vec<u32> = values.iter().copied().filter(divides).collect();
        retain_first(&mut some, |a, b| a == b);
        return some;
    }
    let mut all: Vec<u32> = (1..=total.isqrt()).filter(divides).collect();
    let large: Vec<u32> = all.iter().rev().map(|v| total / v).collect();
    all.extend(large);
    all.dedup();
    all
}

/// The listed values, each once, or those given.
pub(super) fn listed<T: Copy + PartialEq>(values: Option<&Vec<T>>, all: &[T]) -> Vec<T> {
    let mut values = values.map_or_else(|| all.to_vec(), Clone::clone);
    retain_first(&mut values, |a, b| a == b);
    values
}

/// Drops values that are the same as an earlier one.
pub(super) fn retain_first<T: Copy>(values: &mut Vec<T>, same: impl Fn(&T, &T) -> bool) {
    let mut kept: Vec<T> = Vec::with_capacity(values.len());
    values.retain(|value| {
        let new = !kept.iter().any(|k| same(k, value));
        if new {
            kept.push(*value);
        }
        new
    });
}

fn ten() -> usize {
    10
}

//! The plan space as data: for each field the values that are allowed, or all legal ones.

use crate::error::{Error, Result};
use crate::plan::{
    AxisOrder, ExpertRecompute, RecomputePolicy, ReplicaReduction, Schedule, TokenSlices,
};
use crate::workload::Precision;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::hash::Hash;

/// Allowed values by plan field; an absent list allows every legal value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Space {
    /// Tensor-parallel ranks.
    pub tensor: Option<Vec<u32>>,
    /// Rows of a grid of the tensor ranks; absent: 1, and from 16 ranks on one more.
    pub tensor_rows: Option<Vec<u32>>,
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
    /// Slices of sequences along their tokens; absent: not cut.
    pub token_slices: Option<Vec<TokenSlices>>,
    /// ZeRO stages.
    pub zero: Option<Vec<u8>>,
    /// ZeRO group sizes; absent: all replicas only.
    pub zero_group: Option<Vec<u32>>,
    /// Recomputation policies.
    pub recompute: Option<Vec<RecomputePolicy>>,
    /// Leading layers of a virtual stage that follow `recompute`; absent: all, and with `full` every
    /// smaller number too.
    pub recompute_layers: Option<Vec<u32>>,
    /// What the layers behind those compute again; absent: nothing.
    pub recompute_rest: Option<Vec<RecomputePolicy>>,
    /// What layers with routed experts compute again; absent: the same as others.
    pub recompute_experts: Option<Vec<ExpertRecompute>>,
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
    /// Chunks of tensor-parallel products; absent: not cut.
    pub tensor_chunks: Option<Vec<u32>>,
    /// Expert all-to-alls under shared experts; absent: off.
    pub overlap_expert: Option<Vec<bool>>,
    /// Optimizer on the host; absent: off.
    pub offload_optimizer: Option<Vec<bool>>,
    /// Percent of kept activations in host memory; absent: none.
    pub offload_activations: Option<Vec<u32>>,
    /// Orders of the axes on the fabric; absent: tensor, context, data, pipeline.
    pub axis_order: Option<Vec<AxisOrder>>,
    /// Layers of the first virtual stage, 0 for an even deal; absent: 0.
    pub first_layers: Option<Vec<u32>>,
    /// Layers of the last virtual stage; absent: 0.
    pub last_layers: Option<Vec<u32>>,
    /// Last virtual stages without layers; absent: off.
    pub bare_last: Option<Vec<bool>>,
    /// Algorithms of the all-reduces between replicas; absent: the library's choice.
    pub collectives: Option<Vec<ReplicaReduction>>,
    /// Precision recipes of the job, of which each plan found names its own; absent: the job's. No
    /// field of a plan: what is learned in one is not what is learned in another.
    pub dtype: Option<Vec<Precision>>,
}

impl Space {
    /// Reads a space from its JSON text and checks it.
    pub fn from_json(text: &str) -> Result<Self> {
        let space: Self = crate::error::from_json("space", text)?;
        space.check()?;
        Ok(space)
    }

    /// Refuses a list of precision recipes where a question is about one job.
    pub(super) fn one_recipe(&self) -> Result<()> {
        let Some(listed) = &self.dtype else {
            return Ok(());
        };
        let allowed = "none here: set the precision of the training";
        let got = format!("{} recipes", listed.len());
        Err(Error::invalid("space.dtype", got, allowed))
    }

    fn check(&self) -> Result<()> {
        let lists: [(&str, &Option<Vec<u32>>); 15] = [
            ("tensor", &self.tensor),
            ("tensor_rows", &self.tensor_rows),
            ("context", &self.context),
            ("pipeline", &self.pipeline),
            ("data", &self.data),
            ("expert", &self.expert),
            ("expert_tensor", &self.expert_tensor),
            ("micro_batch", &self.micro_batch),
            ("interleave", &self.interleave),
            ("zero_group", &self.zero_group),
            ("tensor_chunks", &self.tensor_chunks),
            ("recompute_layers", &self.recompute_layers),
            ("first_layers", &self.first_layers),
            ("last_layers", &self.last_layers),
            ("offload_activations", &self.offload_activations),
        ];
        for (field, values) in lists {
            let zero_is_default = matches!(
                field,
                "expert_tensor"
                    | "zero_group"
                    | "offload_activations"
                    | "recompute_layers"
                    | "first_layers"
                    | "last_layers"
            );
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
        if self.token_slices.as_ref().is_some_and(Vec::is_empty) {
            let allowed = "one or more counts or lists of lengths";
            let field = "space.token_slices";
            return Err(Error::invalid(field, "an empty list", allowed));
        }
        if self.dtype.as_ref().is_some_and(Vec::is_empty) {
            let allowed = "one or more precision recipes";
            return Err(Error::invalid("space.dtype", "an empty list", allowed));
        }
        match self.zero.as_ref().and_then(|z| z.iter().find(|v| **v > 3)) {
            Some(stage) => Err(Error::invalid("space.zero", stage, "0, 1, 2 or 3")),
            None => Ok(()),
        }
    }
}

/// The listed values that divide `total`, or all divisors of it.
pub(super) fn divisors(listed: Option<&Vec<u32>>, total: u32) -> Vec<u32> {
    divisors_of(listed, total.into())
}

/// The same of a number that may be larger than any value.
pub(super) fn divisors_of(listed: Option<&Vec<u32>>, total: u64) -> Vec<u32> {
    let divides = |v: &u32| *v > 0 && total.is_multiple_of(u64::from(*v));
    if let Some(values) = listed {
        let mut some: Vec<u32> = values.iter().copied().filter(divides).collect();
        retain_first(&mut some, |value| *value);
        return some;
    }
    let small: Vec<u64> = (1..=total.isqrt())
        .filter(|v| total.is_multiple_of(*v))
        .collect();
    let large = small.iter().rev().map(|v| total / v);
    let all = small.iter().copied().chain(large);
    let mut all: Vec<u32> = all.filter_map(|v| u32::try_from(v).ok()).collect();
    all.dedup();
    all
}

/// The listed values, each once, or those given.
pub(super) fn listed<T: Clone + Eq + Hash>(values: Option<&Vec<T>>, all: &[T]) -> Vec<T> {
    let mut values = values.map_or_else(|| all.to_vec(), Clone::clone);
    retain_first(&mut values, T::clone);
    values
}

/// Drops values whose key an earlier one has, too.
pub(super) fn retain_first<T, K: Eq + Hash>(values: &mut Vec<T>, key: impl Fn(&T) -> K) {
    let mut seen = HashSet::with_capacity(values.len());
    values.retain(|value| seen.insert(key(value)));
}

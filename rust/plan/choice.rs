//! The fields of a plan.

use super::axis_order::AxisOrder;
use super::mesh::Mesh;
use super::replica_reduction::ReplicaReduction;
use super::token_slices::TokenSlices;
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};

/// Every choice that turns a model and a cluster into a running job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Ranks that split each layer's matrices.
    #[serde(default = "one")]
    pub tensor: u32,
    /// Rows of a grid of the tensor ranks (Pope et al. 2022, section 3.2.2): rows split the width of
    /// the residual stream, columns what it is projected to; 1: no grid.
    #[serde(default = "one")]
    pub tensor_rows: u32,
    /// Ranks that split each sequence.
    #[serde(default = "one")]
    pub context: u32,
    /// Pipeline stages.
    #[serde(default = "one")]
    pub pipeline: u32,
    /// Replicas that split the batch.
    #[serde(default = "one")]
    pub data: u32,
    /// Ranks that split the experts; they are taken from the data and context ranks.
    #[serde(default = "one")]
    pub expert: u32,
    /// Ranks that split each expert's matrices: 1, or the tensor ranks (0 means those).
    #[serde(default)]
    pub expert_tensor: u32,
    /// Sequences per micro-batch and replica.
    #[serde(default = "one")]
    pub micro_batch: u32,
    /// Model chunks per stage (virtual stages); copies of a stage where pipelines run both ways.
    #[serde(default = "one")]
    pub interleave: u32,
    /// Order of micro-batches on a stage.
    #[serde(default)]
    pub schedule: Schedule,
    /// Slices of each sequence along its tokens, each with a pass of its own (`TeraPipe`); 1: not cut.
    #[serde(default)]
    pub token_slices: TokenSlices,
    /// ZeRO stage: 0 replicates, 1 shards optimizer state, 2 gradients too, 3 weights too (FSDP).
    #[serde(default)]
    pub zero: u8,
    /// Ranks over which ZeRO shards (hybrid sharding); 0: all data ranks.
    #[serde(default)]
    pub zero_group: u32,
    /// What is computed again in the backward pass.
    #[serde(default)]
    pub recompute: RecomputePolicy,
    /// Layers of each virtual stage, from its front, that follow `recompute`; 0: all of them.
    #[serde(default)]
    pub recompute_layers: u32,
    /// What the layers behind those compute again: nothing, or their attention core.
    #[serde(default)]
    pub recompute_rest: RecomputePolicy,
    /// What layers with routed experts compute again where `recompute` would apply.
    #[serde(default)]
    pub recompute_experts: ExpertRecompute,
    /// Norms and dropouts split along the sequence over the tensor ranks.
    #[serde(default)]
    pub sequence_parallel: bool,
    /// Gradient reduction runs under the last micro-batch's backward pass.
    #[serde(default = "yes")]
    pub overlap_grad_reduce: bool,
    /// ZeRO weight gathers run under compute.
    #[serde(default = "yes")]
    pub overlap_param_gather: bool,
    /// Tensor-parallel collectives of the backward pass run under weight-gradient products
    /// (Korthikanti et al. 2022, section 4.2.2).
    #[serde(default = "yes")]
    pub overlap_tensor: bool,
    /// Sends between stages run under compute (not with `gpipe` and `1f1b`).
    #[serde(default)]
    pub overlap_pipeline: bool,
    /// Chunks into which a forward matrix product of attention or dense feed-forward and the
    /// tensor-parallel collective beside it are cut, one's chunks under the other's; 1: not cut.
    #[serde(default = "one")]
    pub tensor_chunks: u32,
    /// All-to-alls of expert parallelism run under the kernels of the layer's shared experts, as far
    /// as those last; a model without shared experts hides nothing.
    #[serde(default)]
    pub overlap_expert: bool,
    /// Optimizer state and master weights lie in host memory and are updated there (ZeRO-Offload).
    #[serde(default)]
    pub offload_optimizer: bool,
    /// Percent of the layers' kept activations that lie in host memory between the passes.
    #[serde(default)]
    pub offload_activations: u32,
    /// Which axis is innermost on the fabric, and which follow.
    #[serde(default)]
    pub axis_order: AxisOrder,
    /// Layers of the first virtual stage, 0 where they are dealt with the others; what both ends leave
    /// is dealt evenly to the stages between.
    #[serde(default)]
    pub first_layers: u32,
    /// Layers of the last virtual stage, 0 where they are dealt with the others.
    #[serde(default)]
    pub last_layers: u32,
    /// The last virtual stage holds no layer: the head alone, with what predicts further tokens.
    #[serde(default)]
    pub bare_last: bool,
    /// How all-reduces between replicas run.
    #[serde(default)]
    pub collectives: ReplicaReduction,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            tensor: 1,
            tensor_rows: 1,
            context: 1,
            pipeline: 1,
            data: 1,
            expert: 1,
            expert_tensor: 0,
            micro_batch: 1,
            interleave: 1,
            schedule: Schedule::default(),
            token_slices: TokenSlices::default(),
            zero: 0,
            zero_group: 0,
            recompute: RecomputePolicy::default(),
            recompute_layers: 0,
            recompute_rest: RecomputePolicy::default(),
            recompute_experts: ExpertRecompute::default(),
            sequence_parallel: false,
            overlap_grad_reduce: true,
            overlap_param_gather: true,
            overlap_tensor: true,
            overlap_pipeline: false,
            tensor_chunks: 1,
            overlap_expert: false,
            offload_optimizer: false,
            offload_activations: 0,
            axis_order: AxisOrder::default(),
            first_layers: 0,
            last_layers: 0,
            bare_last: false,
            collectives: ReplicaReduction::default(),
        }
    }
}

impl Plan {
    /// Devices that the plan uses; `u64::MAX` where they are more than that.
    pub fn devices(&self) -> u64 {
        [self.tensor, self.context, self.pipeline, self.data]
            .iter()
            .fold(1, |product, &n| product.saturating_mul(u64::from(n)))
    }

    /// True where something lies in host memory by the plan's own fields.
    pub fn uses_host(&self) -> bool {
        self.offload_optimizer || self.offload_activations > 0
    }

    /// The ZeRO stage as it acts: 0 where no weights have replicas among which anything could be shared.
    pub fn stage(&self) -> u8 {
        if self.context.saturating_mul(self.data) > 1 || self.zero == 0 {
            return self.zero;
        }
        // experts on fewer tensor ranks than their layer have replicas of their own
        let own = self.expert_tensor_ranks() < self.tensor;
        if own && Mesh::new(self).expert_replicas.size > 1 {
            self.zero
        } else {
            0
        }
    }

    /// Tensor ranks that split heads and feed-forward width: the columns of the grid.
    pub fn tensor_columns(&self) -> u32 {
        self.tensor / self.tensor_rows.max(1)
    }

    /// Ranks that split each expert's matrices, the default resolved.
    pub fn expert_tensor_ranks(&self) -> u32 {
        if self.expert_tensor == 0 {
            self.tensor
        } else {
            self.expert_tensor
        }
    }

    /// True where the first and the last virtual stage lie on unlike devices, so that each holds a table that
    /// both use. Where one device has both, as in a pipeline that runs to and fro, they share it (DeepSeek-V3,
    /// arXiv 2412.19437, section 3.2.2).
    pub fn copies_table(&self) -> bool {
        let [first, _, last] = self.schedule.rule().held(self.pipeline_shape(), 0);
        self.pipeline > 1 && (first == 0 || last == 0)
    }

    /// Stages and chunks, as schedules read them.
    pub fn pipeline_shape(&self) -> crate::schedule::PipelineShape {
        crate::schedule::PipelineShape::new(self.pipeline, self.interleave)
    }

    /// Virtual stages along the model.
    pub fn virtual_stages(&self) -> u32 {
        self.schedule.rule().count(self.pipeline_shape())
    }

    /// Micro-batches per replica and step.
    pub fn micro_batches(&self, global_batch: u64) -> u64 {
        global_batch / (u64::from(self.data) * u64::from(self.micro_batch)).max(1)
    }
}

/// What is computed again in the backward pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecomputePolicy {
    /// Nothing: everything needed is kept.
    #[default]
    None,
    /// The attention core (Korthikanti et al. 2022, section 5).
    Selective,
    /// Each layer from its input.
    Full,
}

impl RecomputePolicy {
    /// Every policy, the one that repeats least first.
    pub const ALL: [Self; 3] = [Self::None, Self::Selective, Self::Full];
}

/// What layers with routed experts compute again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExpertRecompute {
    /// The same as other layers.
    #[default]
    Same,
    /// Nothing.
    None,
    /// The attention core.
    Selective,
    /// Each layer from its input.
    Full,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

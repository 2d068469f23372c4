//! In which order do the axes of a plan number the ranks?

use super::choice::Plan;
use serde::{Deserialize, Serialize};

/// An axis of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Axis {
    /// Ranks that split a layer's matrices.
    Tensor,
    /// Ranks that split a sequence.
    Context,
    /// Ranks that split the batch.
    Data,
    /// Stages.
    Pipeline,
}

/// The axes from the inside out: ranks of the first are neighbours on the fabric.
///
/// Context and data stay together, so that the replicas of a weight, which are both, lie evenly apart.
/// Which order is best depends on what each axis sends over which links: the first keeps the tensor
/// ranks, which send most, in a node (Narayanan et al. 2021, section 3.2).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum AxisOrder {
    /// Stages outermost, since they send least.
    #[default]
    TensorContextDataPipeline,
    /// The same with sequences split further out than the batch.
    TensorDataContextPipeline,
    /// Replicas outermost (Megatron-LM's `tp-cp-ep-pp-dp` with one context rank).
    TensorPipelineContextData,
    /// The same with sequences split outermost.
    TensorPipelineDataContext,
    /// Replicas innermost, then the ranks that split matrices.
    ContextDataTensorPipeline,
    /// The same with the batch split innermost.
    DataContextTensorPipeline,
    /// Replicas innermost, the ranks that split matrices outermost.
    ContextDataPipelineTensor,
    /// The same with the batch split innermost.
    DataContextPipelineTensor,
    /// Stages innermost, replicas outermost.
    PipelineTensorContextData,
    /// The same with sequences split outermost.
    PipelineTensorDataContext,
    /// Stages innermost, the ranks that split matrices outermost.
    PipelineContextDataTensor,
    /// The same with the batch split next to the stages.
    PipelineDataContextTensor,
}

impl AxisOrder {
    /// Every order, the default first.
    pub const ALL: [Self; 12] = [
        Self::TensorContextDataPipeline,
        Self::TensorDataContextPipeline,
        Self::TensorPipelineContextData,
        Self::TensorPipelineDataContext,
        Self::ContextDataTensorPipeline,
        Self::DataContextTensorPipeline,
        Self::ContextDataPipelineTensor,
        Self::DataContextPipelineTensor,
        Self::PipelineTensorContextData,
        Self::PipelineTensorDataContext,
        Self::PipelineContextDataTensor,
        Self::PipelineDataContextTensor,
    ];

    /// The axes, innermost first.
    pub const fn axes(self) -> [Axis; 4] {
        use Axis::{Context, Data, Pipeline, Tensor};
        match self {
            Self::TensorContextDataPipeline => [Tensor, Context, Data, Pipeline],
            Self::TensorDataContextPipeline => [Tensor, Data, Context, Pipeline],
            Self::TensorPipelineContextData => [Tensor, Pipeline, Context, Data],
            Self::TensorPipelineDataContext => [Tensor, Pipeline, Data, Context],
            Self::ContextDataTensorPipeline => [Context, Data, Tensor, Pipeline],
            Self::DataContextTensorPipeline => [Data, Context, Tensor, Pipeline],
            Self::ContextDataPipelineTensor => [Context, Data, Pipeline, Tensor],
            Self::DataContextPipelineTensor => [Data, Context, Pipeline, Tensor],
            Self::PipelineTensorContextData => [Pipeline, Tensor, Context, Data],
            Self::PipelineTensorDataContext => [Pipeline, Tensor, Data, Context],
            Self::PipelineContextDataTensor => [Pipeline, Context, Data, Tensor],
            Self::PipelineDataContextTensor => [Pipeline, Data, Context, Tensor],
        }
    }

    /// Name in text, as `tensor-context-data-pipeline`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TensorContextDataPipeline => "tensor-context-data-pipeline",
            Self::TensorDataContextPipeline => "tensor-data-context-pipeline",
            Self::TensorPipelineContextData => "tensor-pipeline-context-data",
            Self::TensorPipelineDataContext => "tensor-pipeline-data-context",
            Self::ContextDataTensorPipeline => "context-data-tensor-pipeline",
            Self::DataContextTensorPipeline => "data-context-tensor-pipeline",
            Self::ContextDataPipelineTensor => "context-data-pipeline-tensor",
            Self::DataContextPipelineTensor => "data-context-pipeline-tensor",
            Self::PipelineTensorContextData => "pipeline-tensor-context-data",
            Self::PipelineTensorDataContext => "pipeline-tensor-data-context",
            Self::PipelineContextDataTensor => "pipeline-context-data-tensor",
            Self::PipelineDataContextTensor => "pipeline-data-context-tensor",
        }
    }
}

impl Plan {
    /// Ranks of an axis.
    pub const fn ranks(&self, axis: Axis) -> u32 {
        match axis {
            Axis::Tensor => self.tensor,
            Axis::Context => self.context,
            Axis::Data => self.data,
            Axis::Pipeline => self.pipeline,
        }
    }

    /// The first of `AxisOrder::ALL` that lays these ranks out as the plan's order does: an axis of
    /// one rank may stand anywhere. Plans that differ in nothing but orders with one canonical order
    /// are the same plan.
    pub fn canonical_axis_order(&self) -> AxisOrder {
        let wide = |order: AxisOrder| order.axes().into_iter().filter(|a| self.ranks(*a) > 1);
        let same = |order: &AxisOrder| wide(*order).eq(wide(self.axis_order));
        let first = AxisOrder::ALL.into_iter().find(same);
        first.unwrap_or(self.axis_order)
    }
}

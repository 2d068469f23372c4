//! A model as repeated blocks of operators, in order from input to output.

use super::operator::{Operator, Region};

/// Where a block may lie in a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockRole {
    /// On the first stage, before all layers.
    Embedding,
    /// A layer, on any stage.
    Layer,
    /// On the last stage, after all layers.
    Head,
}

/// A distinct kind of block.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Short name, as `dense_layer`.
    pub name: String,
    /// Where it may lie.
    pub role: BlockRole,
    /// Operators in order.
    pub operators: Vec<Operator>,
    /// False where no gradient passes: forward-only jobs, and frozen blocks below all trained weights.
    pub backward: bool,
}

impl Block {
    /// True where it has routed experts.
    pub fn has_experts(&self) -> bool {
        self.operators.iter().any(|o| o.region == Region::Experts)
    }

    /// True for a layer that mixes positions and has no feed-forward half.
    pub fn mixes_alone(&self) -> bool {
        let within = |o: &Operator| matches!(o.region, Region::Residual | Region::Attention);
        let mixes = |o: &Operator| o.region == Region::Attention;
        self.role == BlockRole::Layer
            && self.operators.iter().all(within)
            && self.operators.iter().any(mixes)
    }
}

/// A model: distinct blocks and the order in which they repeat.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// Distinct blocks.
    pub blocks: Vec<Block>,
    /// For each position from input to output, the index of its block. Embedding first, head last.
    pub order: Vec<usize>,
    /// Width of the residual stream, which stages pass on.
    pub hidden: u64,
    /// Tokens of an encoder, which stages pass on as well; 0 where there is none beside a decoder.
    pub encoder_tokens: u64,
    /// True when the head's weight is the embedding table.
    pub tied: bool,
}

impl Graph {
    /// Number of layer positions.
    pub fn layers(&self) -> usize {
        self.order
            .iter()
            .filter(|&&b| self.blocks[b].role == BlockRole::Layer)
            .count()
    }
}

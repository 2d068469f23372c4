//! How are blocks dealt to virtual stages?

use super::job::Job;
use super::layer_order::LayerOrder;
use crate::plan::{Plan, RecomputePolicy, Split};
use crate::workload::BlockRole;
use std::ops::Range;

/// The layers of each of `count` virtual stages, counted along the model.
pub(super) fn ranges(
    split: Split,
    count: u64,
    layers: usize,
) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    (0..count).map(move |stage| {
        let size = match stage {
            0 => split.first,
            s if s + 1 == count => split.last,
            _ => split.middle,
        };
        let end = usize::try_from(size).map_or(layers, |size| layers.min(at + size));
        let range = at..end;
        at = end;
        range
    })
}

/// A block of a virtual stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StageBlock {
    /// Index of the block.
    pub(super) block: usize,
    /// What it computes again.
    pub(super) again: RecomputePolicy,
}

/// The blocks of each of `count` virtual stages, embedding first and head last.
pub(super) fn sequences<'a>(
    job: &'a Job,
    plan: &Plan,
    split: Split,
    count: u64,
) -> impl Iterator<Item = Vec<StageBlock>> + use<'a> {
    let graph = &job.graph;
    let again = plan.recomputation();
    let of = move |role: BlockRole| {
        let order = graph.order.iter().copied();
        order.filter(move |&block| graph.blocks[block].role == role)
    };
    let layers: Vec<usize> = of(BlockRole::Layer).collect();
    let ranges = (0..).zip(ranges(split, count, layers.len()));
    ranges.map(move |(stage, range)| {
        let front = of(BlockRole::Embedding).filter(|_| stage == 0);
        let back = of(BlockRole::Head).filter(|_| stage + 1 == count);
        let end = |block| StageBlock {
            block,
            again: RecomputePolicy::None,
        };
        let layer = |(place, &block): (usize, &usize)| StageBlock {
            block,
            again: again.of(place, graph.blocks[block].has_experts()),
        };
        let layers = layers[range].iter().enumerate().map(layer);
        front.map(end).chain(layers).chain(back.map(end)).collect()
    })
}

/// Most distinct blocks of a model.
pub(super) const MAX_BLOCKS: usize = 16;

/// How often each distinct block occurs in a virtual stage.
pub type BlockCounts = [f64; MAX_BLOCKS];

/// The virtual stages of a split.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunks {
    /// Virtual stages in all.
    pub count: u64,
    /// First virtual stage, embedding included.
    pub first: BlockCounts,
    /// Distinct virtual stages between.
    pub middle: Vec<BlockCounts>,
    /// Which of them each virtual stage between the ends is.
    pub kinds: Vec<usize>,
    /// The first virtual stage of each of them.
    pub firsts: Vec<u32>,
    /// Last virtual stage, head included. With one virtual stage all is in `first`.
    pub last: BlockCounts,
    /// Layers of the first, a middle and the last virtual stage.
    pub layers: [f64; 3],
    /// The layers' blocks in order: of the first and the last virtual stage, of each distinct one
    /// between.
    pub orders: [LayerOrder; 2],
    /// See `orders`.
    pub middle_orders: Vec<LayerOrder>,
}

impl Chunks {
    /// Deals the model's positions to `count` virtual stages.
    pub fn new(job: &Job, split: Split, count: u64) -> Self {
        let graph = &job.graph;
        let role = |index: &usize| graph.blocks[*index].role;
        let layers: Vec<usize> = graph
            .order
            .iter()
            .copied()
            .filter(|b| role(b) == BlockRole::Layer)
            .collect();
        let ends = |wanted: BlockRole| {
            let mut counts = [0.0; MAX_BLOCKS];
            for &block in graph.order.iter().filter(|b| role(b) == wanted) {
                counts[block.min(MAX_BLOCKS - 1)] += 1.0;
            }
            counts
        };
        let mut chunks = Self {
            count,
            first: ends(BlockRole::Embedding),
            middle: Vec::new(),
            kinds: Vec::new(),
            firsts: Vec::new(),
            last: ends(BlockRole::Head),
            layers: [split.first as f64, split.middle as f64, split.last as f64],
            orders: [LayerOrder::NONE, LayerOrder::NONE],
            middle_orders: Vec::new(),
        };
        for (stage, range) in (0..).zip(ranges(split, count, layers.len())) {
            chunks.deal(stage, &layers[range]);
        }
        if count == 1 {
            for (a, b) in chunks.first.iter_mut().zip(chunks.last) {
                *a += b;
            }
            chunks.last = chunks.first;
            let [first, last] = &mut chunks.orders;
            last.clone_from(first);
        }
        chunks
    }

    /// The layers' blocks of each virtual stage along the model.
    pub(super) fn layer_orders(&self) -> impl Iterator<Item = &LayerOrder> {
        let middle = self.kinds.iter().map(|&kind| &self.middle_orders[kind]);
        let last = (self.count > 1).then_some(&self.orders[1]);
        std::iter::once(&self.orders[0]).chain(middle).chain(last)
    }

    /// The blocks of each virtual stage along the model.
    pub(super) fn along(&self) -> impl Iterator<Item = &BlockCounts> {
        let middle = self.kinds.iter().map(|&kind| &self.middle[kind]);
        let last = (self.count > 1).then_some(&self.last);
        std::iter::once(&self.first).chain(middle).chain(last)
    }

    fn deal(&mut self, stage: u64, blocks: &[usize]) {
        let mut counts = match stage {
            0 => self.first,
            s if s + 1 == self.count => self.last,
            _ => [0.0; MAX_BLOCKS],
        };
        for &block in blocks {
            counts[block.min(MAX_BLOCKS - 1)] += 1.0;
        }
        match stage {
            0 => {
                self.first = counts;
                self.orders[0] = LayerOrder::new(blocks);
            }
            s if s + 1 == self.count => {
                self.last = counts;
                self.orders[1] = LayerOrder::new(blocks);
            }
            _ => self.deal_middle(stage, counts, blocks),
        }
    }

    fn deal_middle(&mut self, stage: u64, counts: BlockCounts, blocks: &[usize]) {
        let order = LayerOrder::new(blocks);
        let known = self.middle_orders.iter().position(|known| *known == order);
        self.kinds.push(known.unwrap_or(self.middle.len()));
        if known.is_none() {
            self.middle.push(counts);
            self.middle_orders.push(order);
            self.firsts.push(u32::try_from(stage).unwrap_or(u32::MAX));
        }
    }
}

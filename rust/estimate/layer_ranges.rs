//! Which ranges of a model's layers hold the same blocks, and so cost the same?

use super::chunk::{BlockCounts, MAX_BLOCKS};
use super::job::Job;
use crate::workload::BlockRole;
use std::collections::BTreeMap;

/// Where a stage stands along the pipeline: who holds the embedding, and who the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelinePosition {
    /// The first of several: the embedding is here.
    First,
    /// Between the ends.
    Inner,
    /// The last of several: the head is here.
    Last,
    /// The only one.
    Alone,
}

impl PipelinePosition {
    /// How many places there are.
    pub const COUNT: usize = 4;

    /// Where stage `index` of `count` stands.
    pub const fn of(index: u32, count: u32) -> Self {
        match (index == 0, index + 1 >= count) {
            (true, true) => Self::Alone,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Inner,
        }
    }

    /// True where the embedding is.
    pub const fn holds_embedding(self) -> bool {
        matches!(self, Self::First | Self::Alone)
    }

    /// True where the head is.
    pub const fn holds_head(self) -> bool {
        matches!(self, Self::Last | Self::Alone)
    }
}

/// The ranges of a model's layers, told apart by the blocks that they hold.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerRanges {
    /// The distinct block of each layer.
    layers: Vec<usize>,
    /// Each of them once.
    distinct: Vec<usize>,
    /// Class of the range that starts at a layer and holds so many, row after row of starts.
    classes: Vec<u32>,
    /// Blocks of each class.
    counts: Vec<BlockCounts>,
    embedding: BlockCounts,
    head: BlockCounts,
}

impl LayerRanges {
    /// Tells the ranges of a job's model apart.
    pub fn new(job: &Job) -> Self {
        let graph = &job.graph;
        let of = |role: BlockRole| {
            let order = graph.order.iter().copied();
            order.filter(move |&block| graph.blocks[block].role == role)
        };
        let ends = |role| {
            let mut counts = [0.0; MAX_BLOCKS];
            for block in of(role) {
                counts[block.min(MAX_BLOCKS - 1)] += 1.0;
            }
            counts
        };
        let layers: Vec<usize> = of(BlockRole::Layer).collect();
        let width = layers.len() + 1;
        let mut distinct = layers.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let mut known = BTreeMap::new();
        let mut ranges = Self {
            classes: vec![0; width * width],
            counts: Vec::new(),
            embedding: ends(BlockRole::Embedding),
            head: ends(BlockRole::Head),
            layers,
            distinct,
        };
        for start in 0..width {
            let mut held = [0_u32; MAX_BLOCKS];
            for size in 0..width - start {
                if size > 0 {
                    held[ranges.layers[start + size - 1].min(MAX_BLOCKS - 1)] += 1;
                }
                let next = ranges.counts.len();
                let class = *known.entry(held).or_insert(next);
                if class == next {
                    ranges.counts.push(held.map(f64::from));
                }
                ranges.classes[start * width + size] = u32::try_from(class).unwrap_or(u32::MAX);
            }
        }
        ranges
    }

    /// The distinct block of each layer, along the model.
    pub fn layers(&self) -> &[usize] {
        &self.layers
    }

    /// The distinct blocks of layers, each once.
    pub fn distinct(&self) -> &[usize] {
        &self.distinct
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.counts.len()
    }

    /// The class of `size` layers from `start` on; both lie within the model.
    pub fn class(&self, start: usize, size: usize) -> usize {
        self.classes[start * (self.layers.len() + 1) + size] as usize
    }

    /// Blocks of a stage that holds a range of this class.
    pub fn blocks(&self, class: usize, place: PipelinePosition) -> BlockCounts {
        let mut counts = self.counts[class];
        let mut add = |more: &BlockCounts| {
            for (mine, theirs) in counts.iter_mut().zip(more) {
                *mine += theirs;
            }
        };
        if place.holds_embedding() {
            add(&self.embedding);
        }
        if place.holds_head() {
            add(&self.head);
        }
        counts
    }

    /// Layers of a class.
    pub fn size(&self, class: usize) -> f64 {
        self.counts[class].iter().sum()
    }

    /// Embedding and head, as often as each occurs.
    pub fn ends(&self) -> [&BlockCounts; 2] {
        [&self.embedding, &self.head]
    }
}

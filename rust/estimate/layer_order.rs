//! Which blocks are the layers of a virtual stage, in order, and how often is each among the leading ones?

use super::chunk::{BlockCounts, MAX_BLOCKS};

/// The layers of a virtual stage in order, as runs of equal neighbours.
///
/// A search asks for the leading ones of every choice of recomputation, so that counts before each run are kept: the
/// answer takes as long in a stage of thousands of layers as in one of ten.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerOrder {
    runs: Vec<Run>,
    layers: usize,
}

/// Neighbours of one block.
#[derive(Debug, Clone, PartialEq)]
struct Run {
    block: usize,
    start: usize,
    /// How often each block occurs before them.
    before: BlockCounts,
}

impl LayerOrder {
    /// Of no layer.
    pub const NONE: Self = Self {
        runs: Vec::new(),
        layers: 0,
    };

    /// The order of these blocks.
    pub fn new(blocks: &[usize]) -> Self {
        let mut order = Self::NONE;
        let mut before = [0.0; MAX_BLOCKS];
        for run in blocks.chunk_by(|a, b| a == b) {
            order.runs.push(Run {
                block: run[0],
                start: order.layers,
                before,
            });
            order.layers += run.len();
            before[run[0].min(MAX_BLOCKS - 1)] += run.len() as f64;
        }
        order
    }

    /// The block of each layer.
    pub fn blocks(&self) -> impl Iterator<Item = usize> {
        let ends = self.runs.iter().skip(1).map(|run| run.start);
        let ends = ends.chain(std::iter::once(self.layers));
        let runs = self.runs.iter().zip(ends);
        runs.flat_map(|(run, end)| std::iter::repeat_n(run.block, end - run.start))
    }

    /// How often each block occurs among the first `lead` layers, or among all where there are fewer.
    pub fn leading(&self, lead: usize) -> BlockCounts {
        let lead = lead.min(self.layers);
        let after = self.runs.partition_point(|run| run.start < lead);
        let Some(run) = after.checked_sub(1).map(|at| &self.runs[at]) else {
            return [0.0; MAX_BLOCKS];
        };
        let mut counts = run.before;
        counts[run.block.min(MAX_BLOCKS - 1)] += (lead - run.start) as f64;
        counts
    }

    /// How often each block occurs.
    pub fn all(&self) -> BlockCounts {
        self.leading(self.layers)
    }
}

#[cfg(test)]
mod tests {
    use super::LayerOrder;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_order_gives_its_blocks_back_and_counts_those_in_front(
            blocks in prop::collection::vec(0_usize..4, 0..40),
            lead in 0_usize..50,
        ) {
            let order = LayerOrder::new(&blocks);
            let mut left = order.leading(lead);
            for block in blocks.iter().take(lead) {
                left[*block] -= 1.0;
            }
            prop_assert!(left.iter().all(|count| count.abs() < 0.5), "{left:?}");
            prop_assert_eq!(order.blocks().collect::<Vec<_>>(), blocks);
        }
    }
}

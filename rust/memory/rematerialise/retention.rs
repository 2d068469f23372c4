//! What may be done with the kept tensors of one block, and what does that hold, move and cost?

use super::chain::Chain;
use serde::Serialize;

/// What becomes of a block's kept tensors between its passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Retention {
    /// All stay.
    Keep,
    /// Part stays, the rest is computed again.
    Partial,
    /// The input stays, the block is computed again.
    Recompute,
    /// All leave and come back.
    Swap,
    /// Part leaves and comes back, the rest is computed again.
    SwapPartial,
    /// The input leaves and comes back, the block is computed again.
    SwapInput,
}

impl Retention {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Keep,
        Self::Partial,
        Self::Recompute,
        Self::Swap,
        Self::SwapPartial,
        Self::SwapInput,
    ];

    /// True where tensors leave.
    pub const fn moves(self) -> bool {
        matches!(self, Self::Swap | Self::SwapPartial | Self::SwapInput)
    }
}

/// A retention of one block in numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetentionChoice {
    pub(super) retention: Retention,
    /// Stays while later blocks run.
    pub(super) held: f64,
    /// Leaves and comes back.
    pub(super) moved: f64,
    /// Seconds that the backward pass grows by.
    pub(super) again: f64,
    /// Held by the two passes, the input included, beside what other blocks hold.
    pub(super) forward: f64,
    pub(super) backward: f64,
}

impl RetentionChoice {
    /// The numbers of a retention; none where the block or the lack of a link rules it out.
    pub(super) fn new(chain: &Chain, l: usize, link: bool, retention: Retention) -> Option<Self> {
        let block = &chain.blocks[l];
        let (kept, again) = match retention {
            Retention::Keep | Retention::Swap => (block.kept_bytes, 0.0),
            Retention::Partial | Retention::SwapPartial => {
                let partial = block.partial?;
                (partial.kept_bytes, partial.again_s)
            }
            Retention::Recompute | Retention::SwapInput if block.repeats => {
                (block.input_bytes, block.forward_s)
            }
            _ => return None,
        };
        let moves = retention.moves();
        if moves && !link {
            return None;
        }
        let (input, output) = (chain.inputs[l], chain.inputs[chain.blocks.len()]);
        let whole = matches!(retention, Retention::Keep | Retention::Swap);
        let again_bytes = if whole { 0.0 } else { chain.rerun_bytes(l) };
        Some(Self {
            retention,
            held: if moves { 0.0 } else { kept },
            moved: if moves { kept } else { 0.0 },
            again,
            forward: input + output + chain.forward(l, kept - input),
            backward: input + chain.backward(l).max(again_bytes),
        })
    }

    /// All that a block may do.
    pub(super) fn all(chain: &Chain, l: usize, link: bool) -> Vec<Self> {
        let all = Retention::ALL.into_iter();
        all.filter_map(|of| Self::new(chain, l, link, of)).collect()
    }
}

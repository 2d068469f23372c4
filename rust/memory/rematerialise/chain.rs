//! What is a chain of blocks whose tensors may be kept, computed again or moved away?

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most blocks of a chain.
pub const MOST_BLOCKS: usize = 512;
/// Most slots into which the budget is cut.
const MOST_SLOTS: usize = 10_000;
/// Most entries of the two tables together: 1 GiB.
const MOST_ENTRIES: usize = 1 << 27;
/// Most choices that are followed side by side.
const MOST_WIDTH: usize = 1 << 16;
/// Keeps sums of products finite.
const MOST: f64 = 1e30;

/// A chain of blocks, the memory it may fill, and the link to a farther memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Blocks in the order of the forward pass.
    pub blocks: Vec<Block>,
    /// Memory for the chain's input, its kept tensors, gradients between blocks and working sets.
    pub budget_bytes: f64,
    /// The chain's output, or its gradient: counted throughout. 0 where the last block is the loss.
    #[serde(default)]
    pub output_bytes: f64,
    /// The link to a farther memory; none where nothing may leave.
    #[serde(default)]
    pub link: Option<Link>,
    /// Slots into which the budget is cut where a whole chain is recomputed.
    #[serde(default = "slots")]
    pub slots: usize,
    /// Choices that are followed side by side where each block is kept, recomputed or moved.
    #[serde(default = "width")]
    pub width: usize,
}

/// A block for one micro-batch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Forward pass, seconds.
    pub forward_s: f64,
    /// Backward pass from all that the forward pass kept, seconds.
    pub backward_s: f64,
    /// Its input: the output of the block before, and the size of the gradient of that.
    pub input_bytes: f64,
    /// All that its backward pass reads, its input included.
    pub kept_bytes: f64,
    /// What the forward pass holds beside input, kept tensors and output.
    #[serde(default)]
    pub forward_working_bytes: f64,
    /// What the backward pass holds beside kept tensors and both gradients.
    #[serde(default)]
    pub backward_working_bytes: f64,
    /// A way to keep less and compute part of the block again.
    #[serde(default)]
    pub partial: Option<SelectiveRecompute>,
    /// False where it is never computed again, as embeddings and heads are not in frameworks.
    #[serde(default = "yes")]
    pub repeats: bool,
}

/// Selective recomputation of a block.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectiveRecompute {
    /// What is kept, the input included.
    pub kept_bytes: f64,
    /// What the backward pass grows by, seconds.
    pub again_s: f64,
}

/// A link with an engine of its own for each direction.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Rate away from the device.
    pub write_bytes_per_s: f64,
    /// Rate towards the device.
    pub read_bytes_per_s: f64,
}

fn slots() -> usize {
    500
}

fn width() -> usize {
    512
}

fn yes() -> bool {
    true
}

impl Request {
    /// Says which field is wrong, if one is.
    pub(super) fn check(&self) -> Result<()> {
        whole("blocks", self.blocks.len(), 1, MOST_BLOCKS)?;
        amount("budget_bytes", self.budget_bytes)?;
        amount("output_bytes", self.output_bytes)?;
        for (index, block) in self.blocks.iter().enumerate() {
            block.check(index)?;
        }
        if let Some(link) = self.link {
            rate("link.write_bytes_per_s", link.write_bytes_per_s)?;
            rate("link.read_bytes_per_s", link.read_bytes_per_s)?;
        }
        let count = self.blocks.len();
        let most = MOST_ENTRIES / (count * (count + 1));
        whole("slots", self.slots, 1, most.min(MOST_SLOTS))?;
        whole("width", self.width, 1, MOST_WIDTH)
    }
}

impl Block {
    fn check(&self, index: usize) -> Result<()> {
        let named = |field: &str| format!("blocks[{index}].{field}");
        amount(&named("forward_s"), self.forward_s)?;
        amount(&named("backward_s"), self.backward_s)?;
        amount(&named("input_bytes"), self.input_bytes)?;
        amount(&named("forward_working_bytes"), self.forward_working_bytes)?;
        amount(
            &named("backward_working_bytes"),
            self.backward_working_bytes,
        )?;
        let within = |field: &str, value: f64, most: f64| {
            if (self.input_bytes..=most).contains(&value) {
                return Ok(());
            }
            let allowed = format!("{} to {most}: the input is part of it", self.input_bytes);
            Err(Error::invalid(named(field), value, allowed))
        };
        within("kept_bytes", self.kept_bytes, MOST)?;
        if let Some(partial) = self.partial {
            within("partial.kept_bytes", partial.kept_bytes, self.kept_bytes)?;
            amount(&named("partial.again_s"), partial.again_s)?;
        }
        Ok(())
    }

    /// Seconds of both passes.
    pub(super) fn passes(&self) -> f64 {
        self.forward_s + self.backward_s
    }
}

fn amount(field: &str, value: f64) -> Result<()> {
    if (0.0..=MOST).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(field, value, "0 to 1e30"))
}

fn rate(field: &str, value: f64) -> Result<()> {
    if (1.0 / MOST..=MOST).contains(&value) {
        return Ok(());
    }
    let allowed = "more than 0: from 1e-30 to 1e30";
    Err(Error::invalid(field, value, allowed))
}

fn whole(field: &str, value: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let allowed = format!("a whole number from {least} to {most}");
    Err(Error::invalid(field, value, allowed))
}

/// Bytes that the passes of a chain need, by block; blocks count from 0.
///
/// `x[l]` is the input of block `l` and `x[L]` the chain's output; a gradient has the size of its
/// tensor. `e[l]` is what block `l` keeps beside its input.
#[derive(Debug, Clone)]
pub(super) struct Chain<'a> {
    pub(super) blocks: &'a [Block],
    pub(super) inputs: Vec<f64>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(request: &'a Request) -> Self {
        let mut inputs: Vec<f64> = request.blocks.iter().map(|b| b.input_bytes).collect();
        inputs.push(request.output_bytes);
        Self {
            blocks: &request.blocks,
            inputs,
        }
    }

    /// Kept beside the input.
    pub(super) fn kept_beside_input(&self, l: usize) -> f64 {
        self.blocks[l].kept_bytes - self.inputs[l]
    }

    /// The same where part of the block is computed again.
    pub(super) fn kept_part(&self, l: usize) -> Option<f64> {
        let partial = self.blocks[l].partial?;
        Some(partial.kept_bytes - self.inputs[l])
    }

    /// Held by a forward pass beside the input, `kept` bytes of it for the backward pass.
    pub(super) fn forward(&self, l: usize, kept: f64) -> f64 {
        kept + self.inputs[l + 1] + self.blocks[l].forward_working_bytes
    }

    /// Held by a backward pass beside the input: kept tensors, both gradients, working set.
    pub(super) fn backward(&self, l: usize) -> f64 {
        let gradients = self.inputs[l] + self.inputs[l + 1];
        self.kept_beside_input(l) + gradients + self.blocks[l].backward_working_bytes
    }

    /// Held beside the input by a forward pass that runs again between both.
    pub(super) fn rerun_bytes(&self, l: usize) -> f64 {
        self.inputs[l + 1] + self.forward(l, self.kept_beside_input(l))
    }

    /// Seconds of all passes, each once.
    pub(super) fn compute(&self) -> f64 {
        self.blocks.iter().map(Block::passes).sum()
    }
}

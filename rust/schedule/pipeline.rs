//! Which stages, links and micro-batches does a schedule run on?

use super::stages::{Pass, PipelineShape};
use crate::units::Seconds;
use serde::Deserialize;

/// Times that a schedule is laid over. Stages are virtual: counted along the model.
#[derive(Debug, Clone, Copy)]
pub struct Pipeline<'a> {
    /// Devices and chunks.
    pub shape: PipelineShape,
    /// Passes of the virtual stages.
    pub passes: Passes<'a>,
    /// Time of a tensor between neighbouring virtual stages on unlike devices.
    pub hops: Hops<'a>,
    /// Who waits while a tensor is sent.
    pub sends: Sends,
    /// Length of each micro-batch against the one that the passes are given for; those that the
    /// slice does not reach are of length 1.
    pub sizes: &'a [Size],
    /// What direct feedback adds before a stage may use the last stage's error.
    pub feedback: Seconds,
}

/// Passes of the virtual stages.
#[derive(Debug, Clone, Copy)]
pub enum Passes<'a> {
    /// Only the ends differ: first, every one between, last.
    Ends([Pass; 3]),
    /// One per virtual stage.
    Each(&'a [Pass]),
}

/// Time of a tensor from one virtual stage to the next, and of its gradient back.
#[derive(Debug, Clone, Copy)]
pub enum Hops<'a> {
    /// Every border alike.
    Same(Seconds),
    /// One per border: one less than virtual stages.
    Each(&'a [Seconds]),
}

/// Who waits while a tensor is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sends {
    /// The receiver alone: both devices may compute meanwhile.
    #[default]
    Asynchronous,
    /// The sender too: its next operation starts when the tensor has arrived.
    Blocking,
}

/// Length of a micro-batch's passes against those of length 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// Of its forward pass.
    pub forward: f64,
    /// Of its backward pass, both parts.
    pub backward: f64,
}

impl Size {
    /// A micro-batch as the passes are given for.
    pub const ONE: Self = Self {
        forward: 1.0,
        backward: 1.0,
    };
}

impl<'a> Pipeline<'a> {
    /// Alike micro-batches and borders, asynchronous sends.
    pub fn new(shape: PipelineShape, passes: Passes<'a>, hop: Seconds) -> Self {
        Self {
            shape,
            passes,
            hops: Hops::Same(hop),
            sends: Sends::Asynchronous,
            sizes: &[],
            feedback: Seconds::ZERO,
        }
    }

    /// The pass of virtual stage `index`, of `count`.
    pub(super) fn pass(&self, index: u32, count: u32) -> Pass {
        match self.passes {
            Passes::Ends([first, ..]) if index == 0 => first,
            Passes::Ends([.., last]) if index + 1 == count => last,
            Passes::Ends([_, middle, _]) => middle,
            Passes::Each(passes) => passes.get(index as usize).copied().unwrap_or_default(),
        }
    }

    /// The passes where micro-batches are alike and only receivers wait, whatever the borders are.
    pub(super) fn plain(&self) -> Option<&'a [Pass]> {
        match self.passes {
            Passes::Each(passes) if self.alike() => Some(passes),
            _ => None,
        }
    }

    /// True where micro-batches are alike and only receivers wait for sends.
    pub(super) fn alike(&self) -> bool {
        self.sends == Sends::Asynchronous && self.sizes.is_empty()
    }

    /// Seconds between virtual stages `border` and `border + 1`.
    pub(super) fn hop(&self, border: u32) -> f64 {
        match self.hops {
            Hops::Same(hop) => hop.value(),
            Hops::Each(hops) => hops.get(border as usize).map_or(0.0, |hop| hop.value()),
        }
    }

    /// Length of a micro-batch.
    pub(super) fn size(&self, micro_batch: u32) -> Size {
        let size = self.sizes.get(micro_batch as usize);
        size.copied().unwrap_or(Size::ONE)
    }

    /// Length of all of a step's micro-batches together, and of the shortest.
    pub(super) fn lengths(&self, micro_batches: u32) -> (Size, Size) {
        if self.sizes.is_empty() {
            let all = f64::from(micro_batches);
            let total = Size {
                forward: all,
                backward: all,
            };
            return (total, Size::ONE);
        }
        let nothing = Size {
            forward: 0.0,
            backward: 0.0,
        };
        let endless = Size {
            forward: f64::INFINITY,
            backward: f64::INFINITY,
        };
        (0..micro_batches).fold((nothing, endless), |(total, least), micro_batch| {
            let size = self.size(micro_batch);
            let total = Size {
                forward: total.forward + size.forward,
                backward: total.backward + size.backward,
            };
            let least = Size {
                forward: least.forward.min(size.forward),
                backward: least.backward.min(size.backward),
            };
            (total, least)
        })
    }

    /// Length of the longest of a step's micro-batches.
    pub(super) fn longest(&self, micro_batches: u32) -> Size {
        if self.sizes.is_empty() {
            return Size::ONE;
        }
        let nothing = Size {
            forward: 0.0,
            backward: 0.0,
        };
        (0..micro_batches).fold(nothing, |most, micro_batch| {
            let size = self.size(micro_batch);
            Size {
                forward: most.forward.max(size.forward),
                backward: most.backward.max(size.backward),
            }
        })
    }

    /// True where every stage, border and micro-batch is as the first and sends take no time.
    pub(super) fn uniform(&self, count: u32) -> bool {
        let first = self.pass(0, count);
        let alike = match self.passes {
            Passes::Ends(ends) => {
                count == 1 || first == ends[2] && (count == 2 || first == ends[1])
            }
            Passes::Each(passes) => passes.iter().all(|pass| *pass == first),
        };
        let at_once = match self.hops {
            Hops::Same(hop) => hop == Seconds::ZERO,
            Hops::Each(hops) => hops.iter().all(|hop| *hop == Seconds::ZERO),
        };
        alike && at_once && self.sizes.iter().all(|size| *size == Size::ONE)
    }
}

//! What must a schedule say about itself?

use super::chimera::{Chimera, Scale};
use super::operation::{Gradient, Operation};
use super::pipeline::Pipeline;
use super::stages::{Makespan, PipelineShape};
use super::{bound, breadth_first, direct_feedback, dual_pipe, gpipe, interleaved, interlocking};
use super::{one_forward_one_backward, pipedream, pipedream_2bw, pipelined_backpropagation};
use super::{terapipe, zero_bubble_h1, zero_bubble_h2, zero_bubble_v};
use crate::error::{Error, Result};
use crate::units::Seconds;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::LazyLock;

/// A pipeline schedule: the order of its operations and what follows from it in closed form.
///
/// `micro_batches` are those of one step and `device` counts from the front, here and below.
pub trait ScheduleRule: Sync {
    /// Name, as users write it.
    fn name(&self) -> &'static str;

    /// The paper that describes it.
    fn source(&self) -> &'static str;

    /// Chunks per device where the user does not say.
    fn chunks(&self) -> u32 {
        1
    }

    /// Fails where the schedule cannot run, naming the rule that is broken.
    fn check(&self, shape: PipelineShape, micro_batches: u32) -> Result<()> {
        let _ = micro_batches;
        one_chunk(self.name(), shape)
    }

    /// Virtual stages along the model.
    fn count(&self, shape: PipelineShape) -> u32 {
        shape.parts()
    }

    /// Device that runs virtual stage `stage` for a micro-batch.
    fn device(&self, shape: PipelineShape, stage: u32, micro_batch: u32) -> u32 {
        let _ = micro_batch;
        stage % shape.stages.max(1)
    }

    /// Appends the operations of a device in the order in which it runs them.
    fn order(
        &self,
        shape: PipelineShape,
        micro_batches: u32,
        device: u32,
        order: &mut Vec<Operation>,
    );

    /// Where gradients come from.
    fn gradient(&self, shape: PipelineShape) -> Gradient {
        let _ = shape;
        Gradient::Chain
    }

    /// Micro-batches that a step is timed for: whole rounds where the schedule runs in rounds.
    fn executed(&self, shape: PipelineShape, micro_batches: u32) -> u32 {
        let _ = shape;
        micro_batches
    }

    /// Micro-batches after which the order repeats.
    fn period(&self, shape: PipelineShape) -> u32 {
        let _ = shape;
        1
    }

    /// True where the pipeline is empty between steps; false where steps run into one another.
    fn flushes(&self) -> bool {
        true
    }

    /// True where a device goes on to its next step without waiting for the others' optimizer: the
    /// step is then as long as the device that is busy longest from its first operation to its last.
    fn bypasses(&self) -> bool {
        false
    }

    /// True where gradients of weights may run apart from those of inputs.
    fn splits(&self) -> bool {
        false
    }

    /// True where forward and backward passes of unlike micro-batches run together.
    fn runs_pairs(&self) -> bool {
        false
    }

    /// A time that no step can beat, in `O(virtual stages)`; `exact` where it is the step's time.
    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        let time = bound::whole_backward_bound(self.count(pipeline.shape), pipeline, micro_batches);
        Makespan {
            time: Seconds::new(time),
            exact: false,
        }
    }

    /// Activations that a device holds at its peak, counted in micro-batches of one chunk.
    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32;

    /// True where a device takes all micro-batches back through one of its chunks before it starts on
    /// the next.
    fn backs_by_chunk(&self, shape: PipelineShape, micro_batches: u32) -> bool {
        let _ = micro_batches;
        shape.chunks == 1
    }

    /// Versions of its weights that a device holds.
    fn versions(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        let _ = (shape, micro_batches, device);
        1
    }

    /// Updates that happen to a device's weights between a micro-batch's forward pass and the use
    /// of its gradient.
    fn staleness(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        let _ = (shape, micro_batches, device);
        0
    }

    /// Pairs of operations that a device runs together.
    fn pairs(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        let _ = (shape, micro_batches, device);
        0
    }

    /// Copies of each stage's weights in the pipeline.
    fn copies(&self, shape: PipelineShape) -> u32 {
        let _ = shape;
        1
    }

    /// How many first, inner and last virtual stages a device holds.
    fn held(&self, shape: PipelineShape, device: u32) -> [u32; 3] {
        let copies = self.copies(shape);
        if copies == 1 {
            let first = u32::from(device == 0);
            let last = u32::from(device + 1 == shape.stages && shape.parts() > 1);
            return [first, shape.chunks.saturating_sub(first + last), last];
        }
        // micro-batches are dealt to the copies in turn, or in pairs
        let dealt = 0..2 * copies;
        let held = |stage| {
            let here = |m: &u32| self.device(shape, stage, *m) == device;
            u32::try_from(dealt.clone().filter(here).count() / 2).unwrap_or(0)
        };
        let (first, last) = (held(0), held(self.count(shape).saturating_sub(1)));
        [first, shape.chunks.saturating_sub(first + last), last]
    }
}

/// A pipeline schedule; read and written by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// All forwards, then all backwards.
    GPipe,
    /// One forward, one backward, with a flush.
    #[default]
    OneForwardOneBackward,
    /// 1F1B over several chunks per stage.
    ///
    /// Micro-batches run in rounds of as many as there are stages; a part of a round is timed as a
    /// full round. With one chunk it is `OneForwardOneBackward`.
    Interleaved,
    /// 1F1B with gradients of weights put off, in the activations of 1F1B.
    ZeroBubbleH1,
    /// The same with more forwards first: no gap on a device, almost twice the activations.
    ZeroBubbleH2,
    /// Two chunks per device, down the devices and back: no gap, the activations of 1F1B.
    ZeroBubbleV,
    /// 1F1B that never flushes, with a version of the weights for each micro-batch in flight.
    PipeDream,
    /// 1F1B that never flushes, with two versions of the weights.
    PipeDream2Bw,
    /// An update after every micro-batch, on whatever weights a stage has by then.
    PipelinedBackpropagation,
    /// A loss on every stage, carried back over a window of stages.
    Interlocking,
    /// The last stage's error handed to all stages at once.
    DirectFeedback,
    /// All forwards, then all backwards, of slices of sequences.
    TeraPipe,
    /// All micro-batches through one chunk, then through the next.
    BreadthFirst,
    /// Pipelines both ways over the same devices, units of as many micro-batches as devices in a row.
    Chimera,
    /// The same with forward passes of two micro-batches.
    ChimeraForwardDoubling,
    /// The same with backward passes of half a micro-batch, which counts as one micro-batch.
    ChimeraBackwardHalving,
    /// Pipelines both ways whose forward and backward passes run in pairs.
    DualPipe,
}

impl Schedule {
    /// Every schedule.
    pub const ALL: [Self; 17] = [
        Self::GPipe,
        Self::OneForwardOneBackward,
        Self::Interleaved,
        Self::ZeroBubbleH1,
        Self::ZeroBubbleH2,
        Self::ZeroBubbleV,
        Self::PipeDream,
        Self::PipeDream2Bw,
        Self::PipelinedBackpropagation,
        Self::Interlocking,
        Self::DirectFeedback,
        Self::TeraPipe,
        Self::BreadthFirst,
        Self::Chimera,
        Self::ChimeraForwardDoubling,
        Self::ChimeraBackwardHalving,
        Self::DualPipe,
    ];

    /// True where its sends may run under compute, as every program does but those of the first two.
    pub const fn overlaps_sends(self) -> bool {
        !matches!(self, Self::GPipe | Self::OneForwardOneBackward)
    }

    /// Its place in `ALL`.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// What it says about itself.
    pub fn rule(self) -> &'static dyn ScheduleRule {
        match self {
            Self::GPipe => &gpipe::GPipe,
            Self::OneForwardOneBackward => &one_forward_one_backward::OneForwardOneBackward,
            Self::Interleaved => &interleaved::Interleaved,
            Self::ZeroBubbleH1 => &zero_bubble_h1::ZeroBubbleH1,
            Self::ZeroBubbleH2 => &zero_bubble_h2::ZeroBubbleH2,
            Self::ZeroBubbleV => &zero_bubble_v::ZeroBubbleV,
            Self::PipeDream => &pipedream::PipeDream,
            Self::PipeDream2Bw => &pipedream_2bw::PipeDream2Bw,
            Self::PipelinedBackpropagation => &pipelined_backpropagation::PipelinedBackpropagation,
            Self::Interlocking => &interlocking::Interlocking,
            Self::DirectFeedback => &direct_feedback::DirectFeedback,
            Self::TeraPipe => &terapipe::TeraPipe,
            Self::BreadthFirst => &breadth_first::BreadthFirst,
            Self::Chimera => &Chimera(Scale::DirectConcatenation),
            Self::ChimeraForwardDoubling => &Chimera(Scale::ForwardDoubling),
            Self::ChimeraBackwardHalving => &Chimera(Scale::BackwardHalving),
            Self::DualPipe => &dual_pipe::DualPipe,
        }
    }

    /// The schedule of a name.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL
            .into_iter()
            .find(|kind| kind.rule().name() == name);
        found.ok_or_else(|| Error::unknown("schedule", name, NAMES.iter().copied()))
    }
}

static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| Schedule::ALL.map(|kind| kind.rule().name()).to_vec());

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(self.rule().name())
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        Self::named(&name).map_err(|_| D::Error::unknown_variant(&name, &NAMES))
    }
}

/// Fails where devices hold more than one chunk.
pub(super) fn one_chunk(name: &str, shape: PipelineShape) -> Result<()> {
    if shape.chunks == 1 {
        return Ok(());
    }
    let allowed = format!("1: the schedule {name} runs one model chunk per stage");
    Err(Error::invalid("chunks", shape.chunks, allowed))
}

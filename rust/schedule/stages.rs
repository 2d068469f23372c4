//! What goes into a schedule and what comes out: stage times, operations, makespan.

use super::pipeline::{Passes, Pipeline};
use super::replay::Replay;
use crate::solve::Lane;
use crate::units::Seconds;

/// Devices of a pipeline and what each holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipelineShape {
    /// Pipeline stages (devices), 1 or more.
    pub stages: u32,
    /// Model chunks per device, 1 or more; copies of a stage where pipelines run both ways.
    pub chunks: u32,
    /// Stages over which a local loss is carried back, 1 or more; read by `interlocking` only.
    pub window: u32,
    /// Parts that each sequence is cut into, 1 or more; read by `terapipe` only.
    pub slices: u32,
}

/// Time of one micro-batch on one chunk of one stage, or seconds of several plans side by side.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pass<T = Seconds> {
    /// Forward pass.
    pub forward: T,
    /// Backward pass, the part below left out: gradients of inputs.
    pub backward: T,
    /// Gradients of weights, where a schedule may run them apart; part of the backward pass where not.
    pub weight: T,
    /// Saved where a forward and a backward pass run together, as far as both allow.
    pub hidden: T,
}

/// Stage times where only the ends differ: the embedding at the front, head and loss at the back.
///
/// Virtual stages are counted along the model. With a single virtual stage its time is `first`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stages<T = Seconds> {
    /// Pipeline stages (ranks), 1 or more.
    pub count: u32,
    /// Model chunks per stage, 1 or more.
    pub chunks: u32,
    /// The first virtual stage.
    pub first: Pass<T>,
    /// Every virtual stage between.
    pub middle: Pass<T>,
    /// The last virtual stage.
    pub last: Pass<T>,
    /// Delay of a tensor between two stages, during which both may compute.
    pub hop: Seconds,
}

/// Length of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Makespan {
    /// From the first forward's start to the last backward's end.
    pub time: Seconds,
    /// False where the time is only a lower bound.
    pub exact: bool,
}

/// Buffers of the recurrences, kept by the caller so that repeated calls do not allocate.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    pub(super) passes: Vec<Pass>,
    pub(super) hops: Vec<Seconds>,
    pub(super) clock: Vec<f64>,
    pub(super) forward: Vec<f64>,
    pub(super) backward: Vec<f64>,
    pub(super) replay: Replay,
}

impl Pass {
    /// A forward and a backward pass that is not split.
    pub fn new(forward: Seconds, backward: Seconds) -> Self {
        Self {
            forward,
            backward,
            ..Self::default()
        }
    }

    /// Forward and backward together, in seconds.
    pub(super) fn both(self) -> f64 {
        self.forward.value() + self.whole()
    }

    /// Backward pass with the gradients of weights, in seconds.
    pub(super) fn whole(self) -> f64 {
        self.backward.value() + self.weight.value()
    }

    /// The same with the gradients of weights as part of the backward pass.
    pub(super) fn merged(self) -> Self {
        Self {
            backward: self.backward + self.weight,
            weight: Seconds::ZERO,
            ..self
        }
    }

    /// True where forward pass, gradients of inputs and gradients of weights take equally long.
    pub(super) fn balanced(self) -> bool {
        self.forward == self.backward && self.backward == self.weight
    }
}

impl PipelineShape {
    /// A pipeline of `stages` devices with `chunks` model chunks each.
    pub const fn new(stages: u32, chunks: u32) -> Self {
        Self {
            stages,
            chunks,
            window: 1,
            slices: 1,
        }
    }

    /// Chunks on all devices.
    pub const fn parts(self) -> u32 {
        self.stages.saturating_mul(self.chunks)
    }
}

impl Makespan {
    pub(super) const NOTHING: Self = Self {
        time: Seconds::ZERO,
        exact: true,
    };

    /// A step of just so many seconds.
    pub(super) const fn exactly(seconds: f64) -> Self {
        Self {
            time: Seconds::new(seconds),
            exact: true,
        }
    }

    /// A step of so many seconds or more.
    pub(super) const fn at_least(seconds: f64) -> Self {
        Self {
            time: Seconds::new(seconds),
            exact: false,
        }
    }
}

impl Scratch {
    /// Empty buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets every stage's clock to zero.
    pub(super) fn reset(&mut self, stages: usize) {
        for buffer in [&mut self.clock, &mut self.forward, &mut self.backward] {
            buffer.clear();
            buffer.resize(stages, 0.0);
        }
    }
}

impl Stages {
    /// Stages and chunks.
    pub fn shape(&self) -> PipelineShape {
        PipelineShape::new(self.count, self.chunks)
    }

    /// The same as a pipeline.
    pub fn pipeline(&self) -> Pipeline<'static> {
        let ends = [self.first, self.middle, self.last];
        Pipeline::new(self.shape(), Passes::Ends(ends), self.hop)
    }

    /// The same with the gradients of weights as part of the backward pass.
    pub(super) fn merged(&self) -> Self {
        Self {
            first: self.first.merged(),
            middle: self.middle.merged(),
            last: self.last.merged(),
            ..*self
        }
    }

    /// The pass of virtual stage `index` along the model.
    pub fn pass(&self, index: u64) -> Pass {
        if index == 0 {
            self.first
        } else if index + 1 == self.virtual_count() {
            self.last
        } else {
            self.middle
        }
    }

    /// Writes out every virtual stage's pass.
    pub fn expand<'a>(&self, passes: &'a mut Vec<Pass>) -> Pipeline<'a> {
        self.expand_to(self.shape().parts(), passes)
    }

    /// Writes out the passes of `count` virtual stages.
    pub(super) fn expand_to<'a>(&self, count: u32, passes: &'a mut Vec<Pass>) -> Pipeline<'a> {
        let pipeline = self.pipeline();
        passes.clear();
        passes.extend((0..count).map(|stage| pipeline.pass(stage, count)));
        Pipeline {
            passes: Passes::Each(passes),
            ..pipeline
        }
    }

    /// Work of the busiest stage on one micro-batch, all its chunks together.
    pub fn busiest(&self) -> Seconds {
        Seconds::new(self.plain().busiest_work())
    }

    /// The same as plain numbers, each backward pass whole.
    pub(super) fn plain(&self) -> Stages<f64> {
        let plain = |pass: Pass| Pass {
            forward: pass.forward.value(),
            backward: pass.whole(),
            weight: 0.0,
            hidden: pass.hidden.value(),
        };
        Stages {
            count: self.count,
            chunks: self.chunks,
            first: plain(self.first),
            middle: plain(self.middle),
            last: plain(self.last),
            hop: self.hop,
        }
    }

    /// The same where one device holds the first and the last virtual stage.
    pub(super) fn busiest_folded(&self) -> Seconds {
        let middle = self.middle.both();
        let chunks = f64::from(self.chunks);
        let ends = self.first.both() + self.last.both() + (chunks - 2.0) * middle;
        let inner = if self.count > 1 { chunks * middle } else { 0.0 };
        Seconds::new(ends.max(inner))
    }

    /// Work of the busiest device on all of `rounds` micro-batches, less what its pairs save, where
    /// each device holds a stage of each of so many copies of the model that share them.
    ///
    /// Every stage lies across from the one as far from the other end.
    pub(super) fn busiest_of_copies(
        &self,
        copies: f64,
        rounds: f64,
        pairs: impl Fn(u32) -> f64,
    ) -> Seconds {
        let [first, middle, last] = [self.first, self.middle, self.last];
        let ends = first.both() + last.both() + (copies - 2.0) * middle.both();
        let saved = first.hidden.min(last.hidden).value();
        let ends = ends * rounds / copies - pairs(0) * saved;
        if f64::from(self.count) <= copies {
            return Seconds::new(ends);
        }
        let inner = (1..self.count / 2)
            .map(|device| middle.both() * rounds - pairs(device) * middle.hidden.value());
        Seconds::new(inner.fold(ends, f64::max))
    }
}

impl<L: Lane> Pass<L> {
    /// Forward and backward together; the gradients of weights are part of the backward pass.
    #[inline(always)]
    pub(super) fn work(&self) -> L {
        self.forward + self.backward
    }

    /// 1 where neither direction is shorter than `other`'s, 0 elsewhere.
    #[inline(always)]
    pub(super) fn reaches(&self, other: &Self) -> L {
        let forward = self.forward.reaches(other.forward);
        forward.smaller(self.backward.reaches(other.backward))
    }

    #[inline(always)]
    fn whole_backward(&self) -> Self {
        Self {
            backward: self.backward + self.weight,
            weight: L::splat(0.0),
            ..*self
        }
    }

    fn at(&self, place: usize) -> Pass {
        let seconds = |lanes: &L| Seconds::new(lanes.at(place));
        Pass {
            forward: seconds(&self.forward),
            backward: seconds(&self.backward),
            weight: seconds(&self.weight),
            hidden: seconds(&self.hidden),
        }
    }
}

/// Stages of one plan or of several side by side; backward passes are whole but in `at`.
impl<L: Lane> Stages<L> {
    /// The same with whole backward passes and so many chunks.
    #[inline(always)]
    pub(super) fn whole(&self, chunks: u32) -> Self {
        Self {
            chunks,
            first: self.first.whole_backward(),
            middle: self.middle.whole_backward(),
            last: self.last.whole_backward(),
            ..*self
        }
    }

    /// Stages of the plan at a place.
    pub fn at(&self, place: usize) -> Stages {
        Stages {
            count: self.count,
            chunks: self.chunks,
            first: self.first.at(place),
            middle: self.middle.at(place),
            last: self.last.at(place),
            hop: self.hop,
        }
    }

    /// Seconds of forward and backward on all virtual stages, hops left out.
    #[inline(always)]
    pub(super) fn all_work(&self) -> L {
        let count = f64::from(self.count) * f64::from(self.chunks);
        let first = self.first.work();
        if count < 2.0 {
            return first;
        }
        first + self.middle.work() * (count - 2.0) + self.last.work()
    }

    /// Work of the busiest stage on one micro-batch, all its chunks together.
    #[inline(always)]
    pub(super) fn busiest_work(&self) -> L {
        let chunks = f64::from(self.chunks);
        let middle = self.middle.work();
        let (first, last) = (self.first.work(), self.last.work());
        match (self.count, self.chunks) {
            (1, 1) => first,
            (1, _) => first + middle * (chunks - 2.0) + last,
            (stages, _) => {
                let end = first.larger(last) + middle * (chunks - 1.0);
                if stages > 2 {
                    end.larger(middle * chunks)
                } else {
                    end
                }
            }
        }
    }
}

impl Stages {
    pub(super) fn virtual_count(&self) -> u64 {
        u64::from(self.count) * u64::from(self.chunks)
    }
}

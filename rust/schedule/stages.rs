//! What goes into a schedule and what comes out: stage times, operations, makespan.

use crate::units::Seconds;

/// A pipeline schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// All forwards, then all backwards (Huang et al. 2019).
    GPipe,
    /// One forward, one backward, with a flush (Narayanan et al. 2021, section 2.2.1).
    OneForwardOneBackward,
    /// 1F1B over several chunks per stage (Narayanan et al. 2021, section 2.2.2).
    ///
    /// Micro-batches run in rounds of as many as there are stages; a part of a round is timed as a
    /// full round. With one chunk it is `OneForwardOneBackward`.
    Interleaved,
}

/// Stages and chunks of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Pipeline stages (ranks), 1 or more.
    pub stages: u32,
    /// Model chunks per stage, 1 or more; read by `Interleaved` only.
    pub chunks: u32,
}

/// Time of one micro-batch on one chunk of one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pass {
    /// Forward pass.
    pub forward: Seconds,
    /// Backward pass.
    pub backward: Seconds,
}

/// Stage times where only the ends differ: the embedding at the front, head and loss at the back.
///
/// Virtual stages are counted along the model. With a single virtual stage its time is `first`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stages {
    /// Pipeline stages (ranks), 1 or more.
    pub count: u32,
    /// Model chunks per stage, 1 or more.
    pub chunks: u32,
    /// The first virtual stage.
    pub first: Pass,
    /// Every virtual stage between.
    pub middle: Pass,
    /// The last virtual stage.
    pub last: Pass,
    /// Delay of a tensor between two stages, during which both may compute.
    pub hop: Seconds,
}

/// Any stage times: one pass per virtual stage along the model, chunk after chunk.
#[derive(Debug, Clone, Copy)]
pub struct Pipeline<'a> {
    /// Pipeline stages (ranks), 1 or more.
    pub stages: u32,
    /// `stages * chunks` passes; virtual stage `s` runs on stage `s % stages`.
    pub passes: &'a [Pass],
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

/// One operation of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Forward pass of a micro-batch through a chunk.
    Forward {
        /// Micro-batch.
        micro_batch: u32,
        /// Chunk of this stage.
        chunk: u32,
    },
    /// Backward pass of a micro-batch through a chunk.
    Backward {
        /// Micro-batch.
        micro_batch: u32,
        /// Chunk of this stage.
        chunk: u32,
    },
}

/// Buffers of the recurrences, kept by the caller so that repeated calls do not allocate.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    pub(super) passes: Vec<Pass>,
    pub(super) clock: Vec<f64>,
    pub(super) forward: Vec<f64>,
    pub(super) backward: Vec<f64>,
}

impl Kind {
    /// The stages as this schedule runs them: one chunk each unless it interleaves.
    pub(super) fn reads(self, stages: &Stages) -> Stages {
        match self {
            Self::Interleaved => *stages,
            _ => Stages {
                chunks: 1,
                ..*stages
            },
        }
    }

    /// Micro-batches that the schedule is timed for: whole rounds where it runs in rounds.
    pub(super) fn executed(self, micro_batches: u32, shape: Shape) -> u32 {
        match self {
            Self::Interleaved if shape.chunks > 1 => {
                let rounds = micro_batches.div_ceil(shape.stages.max(1));
                rounds.saturating_mul(shape.stages)
            }
            _ => micro_batches,
        }
    }
}

impl Pass {
    /// Forward and backward together, in seconds.
    pub(super) fn both(self) -> f64 {
        self.forward.value() + self.backward.value()
    }

    /// True where neither direction is shorter than `other`'s.
    pub(super) fn covers(self, other: Self) -> bool {
        self.forward >= other.forward && self.backward >= other.backward
    }
}

impl Makespan {
    pub(super) const NOTHING: Self = Self {
        time: Seconds::ZERO,
        exact: true,
    };
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

impl Pipeline<'_> {
    /// Chunks per stage.
    pub fn chunks(&self) -> u32 {
        let stages = self.stages.max(1) as usize;
        u32::try_from(self.passes.len() / stages).unwrap_or(u32::MAX)
    }
}

impl Stages {
    /// Stages and chunks.
    pub fn shape(&self) -> Shape {
        Shape {
            stages: self.count,
            chunks: self.chunks,
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
        passes.clear();
        passes.extend((0..self.virtual_count()).map(|s| self.pass(s)));
        Pipeline {
            stages: self.count,
            passes,
            hop: self.hop,
        }
    }

    /// Work of the busiest stage on one micro-batch, all its chunks together.
    pub fn busiest(&self) -> Seconds {
        let chunks = f64::from(self.chunks);
        let middle = self.middle.both();
        let (first, last) = (self.first.both(), self.last.both());
        let work = match (self.count, self.chunks) {
            (1, 1) => first,
            (1, _) => first + (chunks - 2.0) * middle + last,
            (stages, _) => {
                let end = first.max(last) + (chunks - 1.0) * middle;
                let inner = if stages > 2 { chunks * middle } else { 0.0 };
                end.max(inner)
            }
        };
        Seconds::new(work)
    }

    /// Seconds of forward and backward on the virtual stages before `index`, hops left out.
    pub(super) fn work_before(&self, index: u64) -> f64 {
        let count = self.virtual_count();
        if index == 0 {
            0.0
        } else if index < count || count == 1 {
            self.first.both() + (index - 1) as f64 * self.middle.both()
        } else {
            self.first.both() + (count - 2) as f64 * self.middle.both() + self.last.both()
        }
    }

    pub(super) fn virtual_count(&self) -> u64 {
        u64::from(self.count) * u64::from(self.chunks)
    }
}

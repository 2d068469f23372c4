//! What does one stage of a pipeline take and hold, whatever it is dealt and whoever its neighbours are?

use super::block::Factors;
use super::chunk::{Chunks, Counts};
use super::compose::{Composer, Parts, Shares};
use super::job::Job;
use super::layer_ranges::{LayerRanges, Place};
use super::links::Links;
use super::price::Pricer;
use super::residents::Residents;
use super::sums::Sums;
use crate::collective::Forms;
use crate::plan::Plan;
use crate::units::Bytes;

/// Seconds of one stage, its sends among them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StageSeconds {
    /// Forward pass of a micro-batch.
    pub forward: f64,
    /// Backward pass of a micro-batch.
    pub backward: f64,
    /// Gradient reduction that the backward pass does not hide.
    pub gradient_exposed: f64,
    /// Gather of updated weights that the forward pass does not hide.
    pub gather_exposed: f64,
    /// Optimizer.
    pub optimizer: f64,
}

/// Prices stages that share a device kind and all plan fields but their layers and neighbours.
#[derive(Debug, Clone)]
pub struct StagePricer<'a> {
    job: &'a Job,
    plan: Plan,
    factors: &'a Factors,
    links: Links,
}

impl<'a> StagePricer<'a> {
    /// Prices the stages of `plan`, whose `pipeline` is not read. `factors` are those of the plan.
    pub fn new(job: &'a Job, plan: &Plan, factors: &'a Factors, pricer: &mut Pricer) -> Self {
        let plan = Plan {
            pipeline: 2, // a stage and the next one
            ..plan.clone()
        };
        Self {
            job,
            links: Links::new(&plan, pricer),
            plan,
            factors,
        }
    }

    /// The plan that the stages share.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Memory that a device of the stages may fill.
    pub fn capacity(&self) -> Bytes {
        self.job.capacity()
    }

    /// Seconds of both passes through one block, traffic of sharded state and sends left out: no
    /// stage that holds it takes less for it.
    pub fn least_seconds(&self, block: usize) -> f64 {
        self.factors.blocks.get(block).map_or(0.0, |block| {
            let backward = block.backward_time(self.plan.recompute);
            let trains = !self.job.training.forward_only;
            block.forward_time() + if trains { backward } else { 0.0 }
        })
    }

    /// Forward and backward pass of a micro-batch through a stage, sends left out.
    pub fn passes(&self, ranges: &LayerRanges, class: usize, place: Place) -> [f64; 2] {
        let stage = Single::new(self, ranges, class, place);
        let passes = stage.composer(self).pass_seconds(0);
        [passes.forward, passes.backward]
    }

    /// Everything that a stage takes, where its sends take `hops` beside each pass.
    pub fn seconds(
        &self,
        ranges: &LayerRanges,
        (class, place): (usize, Place),
        hops: [f64; 2],
    ) -> StageSeconds {
        let stage = Single::new(self, ranges, class, place);
        let composer = stage.composer(self);
        let passes = composer.pass_seconds(0);
        let mut sum = stage.sums.virtuals[0];
        sum.forward = passes.forward + hops[0];
        sum.backward = passes.backward + hops[1];
        let mut parts = Parts::default();
        if !self.job.training.forward_only {
            composer.after_backward(&[sum; 3], &Shares::new(&stage.plan), &mut parts);
        }
        StageSeconds {
            forward: sum.forward,
            backward: sum.backward,
            gradient_exposed: parts.gradient_exposed,
            gather_exposed: parts.gather_exposed,
            optimizer: parts.optimizer,
        }
    }

    /// Bytes on a rank of a stage behind which `behind` others stand.
    pub fn bytes(&self, ranges: &LayerRanges, (class, place): (usize, Place), behind: u32) -> f64 {
        Held::new(self, ranges, class, place).bytes(self, behind)
    }

    /// The most stages, up to `most`, that may stand behind a stage so that it fits its device;
    /// nothing where it does not fit in front of as few as its place allows.
    ///
    /// A stage holds the more micro-batches the more stages stand behind it.
    pub fn most_behind(
        &self,
        ranges: &LayerRanges,
        (class, place): (usize, Place),
        most: u32,
    ) -> Option<u32> {
        let held = Held::new(self, ranges, class, place);
        let capacity = self.capacity().value();
        let fits = |behind: u32| held.bytes(self, behind) <= capacity;
        let least = u32::from(!place.closes());
        if !fits(least) {
            return None;
        }
        let most = if place.closes() { least } else { most };
        let (mut low, mut high) = (least, most.max(least));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Some(low)
    }

    /// Seconds of a tensor between two stages of these.
    pub fn hop(&self) -> f64 {
        self.sent(&self.plan, &self.links)
    }

    /// Seconds of a tensor over another link into a stage of these: the side with fewer tensor ranks,
    /// `narrowest`, sends or takes the larger parts.
    pub fn hop_over(&self, link: &Forms, narrowest: u32) -> f64 {
        let plan = Plan {
            tensor: narrowest,
            ..self.plan.clone()
        };
        let links = Links {
            stage: *link,
            ..self.links
        };
        self.sent(&plan, &links)
    }

    fn sent(&self, plan: &Plan, links: &Links) -> f64 {
        let chunks = Chunks::NONE;
        let sums = Sums::new(self.job, self.factors, &chunks, plan.recompute, true);
        let composer = Composer {
            job: self.job,
            plan,
            factors: self.factors,
            links,
            chunks: &chunks,
            sums: &sums,
        };
        composer.hop()
    }

    /// Seconds in which both ends of a pipeline add up their gradients of a tied table over `ends`;
    /// none where the table is not tied.
    pub fn tied_sum(&self, ranges: &LayerRanges, ends: &Forms) -> f64 {
        if !self.job.graph.tied || self.job.training.forward_only {
            return 0.0;
        }
        let chunks = Chunks {
            first: *ranges.ends()[0],
            ..Chunks::NONE
        };
        let sums = Sums::new(self.job, self.factors, &chunks, self.plan.recompute, true);
        let links = Links {
            ends: *ends,
            ..self.links
        };
        let composer = Composer {
            job: self.job,
            plan: &self.plan,
            factors: self.factors,
            links: &links,
            chunks: &chunks,
            sums: &sums,
        };
        composer.embedding_sync()
    }

    /// The collective of both ends where all of `count` stages are of these.
    pub fn ends(&self, count: u32, pricer: &mut Pricer) -> Forms {
        let plan = Plan {
            pipeline: count,
            ..self.plan.clone()
        };
        Links::new(&plan, pricer).ends
    }
}

/// A stage as the composer reads it: a pipeline of one, whose time is the stage's own.
struct Single {
    plan: Plan,
    chunks: Chunks,
    sums: Sums,
}

impl Single {
    fn new(pricer: &StagePricer, ranges: &LayerRanges, class: usize, place: Place) -> Self {
        let blocks = ranges.blocks(class, place);
        let plan = Plan {
            pipeline: 1,
            ..pricer.plan.clone()
        };
        let chunks = Chunks {
            first: blocks,
            last: blocks,
            layers: [ranges.size(class); 3],
            ..Chunks::NONE
        };
        let pipelined = place != Place::Alone;
        let policy = plan.recompute;
        let sums = Sums::new(pricer.job, pricer.factors, &chunks, policy, pipelined);
        Self { plan, chunks, sums }
    }

    fn composer<'a>(&'a self, pricer: &'a StagePricer<'a>) -> Composer<'a> {
        Composer {
            job: pricer.job,
            plan: &self.plan,
            factors: pricer.factors,
            links: &pricer.links,
            chunks: &self.chunks,
            sums: &self.sums,
        }
    }
}

/// A stage as the composer weighs it: one of a pipeline whose stages hold the same blocks.
struct Held {
    place: Place,
    chunks: Chunks,
    sums: Sums,
}

impl Held {
    fn new(pricer: &StagePricer, ranges: &LayerRanges, class: usize, place: Place) -> Self {
        let blocks: Counts = ranges.blocks(class, place);
        let chunks = Chunks {
            count: 2,
            first: blocks,
            middle: vec![blocks],
            kinds: vec![0],
            last: blocks,
            layers: [ranges.size(class); 3],
            ..Chunks::NONE
        };
        let pipelined = place != Place::Alone;
        let policy = pricer.plan.recompute;
        let sums = Sums::new(pricer.job, pricer.factors, &chunks, policy, pipelined);
        Self {
            place,
            chunks,
            sums,
        }
    }

    fn bytes(&self, pricer: &StagePricer, behind: u32) -> f64 {
        let (stage, count) = match self.place {
            Place::Alone => (0, 1),
            Place::First => (0, behind + 1),
            Place::Inner => (1, behind + 2),
            Place::Last => (1, 2),
        };
        let plan = Plan {
            pipeline: count,
            ..pricer.plan.clone()
        };
        let composer = Composer {
            job: pricer.job,
            plan: &plan,
            factors: pricer.factors,
            links: &pricer.links,
            chunks: &self.chunks,
            sums: &self.sums,
        };
        Residents::new(&composer).stage(stage).total().value()
    }
}

impl Chunks {
    /// One virtual stage without a block.
    const NONE: Self = Self {
        count: 1,
        first: [0.0; super::chunk::MAX_BLOCKS],
        middle: Vec::new(),
        kinds: Vec::new(),
        firsts: Vec::new(),
        last: [0.0; super::chunk::MAX_BLOCKS],
        layers: [0.0; 3],
    };
}

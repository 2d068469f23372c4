//! What does one stage of a pipeline take and hold, whatever it is dealt and whoever its neighbours are?

use super::block::Factors;
use super::chunk::{BlockCounts, Chunks};
use super::compose::{Composer, PlanInputs, StepParts};
use super::job::Job;
use super::layer_order::LayerOrder;
use super::layer_ranges::{LayerRanges, PipelinePosition};
use super::links::Links;
use super::model_states::ModelStates;
use super::price::Pricer;
use super::recomputation_costs::RecomputationCosts;
use super::schedule_facts::ScheduleFacts;
use super::sums::Sums;
use crate::collective::Forms;
use crate::hardware::MAX_LEVELS;
use crate::plan::Plan;
use crate::units::Bytes;

/// Seconds of one stage, its sends among them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StageSeconds {
    /// Forward pass of a micro-batch.
    pub forward: f64,
    /// Backward pass of a micro-batch.
    pub backward: f64,
    /// Expert all-to-alls of a forward and a backward pass that have no opposite pass to run under.
    pub unpaired: f64,
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
            links: Links::new(&plan, job.dealt_tensors(&plan), pricer),
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
            let again = block.recompute_time(self.plan.recompute);
            let backward = block.backward_time() + again;
            let trains = !self.job.training.forward_only;
            block.forward_time() + if trains { backward } else { 0.0 }
        })
    }

    /// Forward and backward pass of a micro-batch through a stage, sends left out.
    pub fn passes(&self, ranges: &LayerRanges, class: usize, place: PipelinePosition) -> [f64; 2] {
        let stage = single(self, ranges, class, place);
        let passes = stage.composed(self, |composer| composer.pass_seconds(0));
        [passes.forward, passes.backward]
    }

    /// Everything that a stage takes, where its sends take `hops` beside each pass.
    pub fn seconds(
        &self,
        ranges: &LayerRanges,
        (class, place): (usize, PipelinePosition),
        hops: [f64; 2],
    ) -> StageSeconds {
        let stage = single(self, ranges, class, place);
        let (sum, parts) = stage.composed(self, |composer| {
            let passes = composer.pass_seconds(0);
            let mut sum = composer.sums.ends[0].work;
            sum.forward = passes.forward + hops[0];
            sum.backward = passes.backward + hops[1];
            let mut parts = StepParts::default();
            if !self.job.training.forward_only {
                composer.after_backward(&[sum; 3], &mut parts);
            }
            (sum, parts)
        });
        StageSeconds {
            forward: sum.forward,
            backward: sum.backward,
            unpaired: parts.unpaired,
            gradient_exposed: parts.gradient_exposed,
            gather_exposed: parts.gather_exposed,
            optimizer: parts.optimizer,
        }
    }

    /// Bytes on a rank of a stage behind which `behind` others stand.
    pub fn bytes(
        &self,
        ranges: &LayerRanges,
        (class, place): (usize, PipelinePosition),
        behind: u32,
    ) -> f64 {
        WeighedStage::new(ranges, class, place).bytes(self, behind)
    }

    /// The most stages, up to `most`, that may stand behind a stage so that it fits its device;
    /// nothing where it does not fit in front of as few as its place allows.
    ///
    /// A stage holds the more micro-batches the more stages stand behind it.
    pub fn most_behind(
        &self,
        ranges: &LayerRanges,
        (class, place): (usize, PipelinePosition),
        most: u32,
    ) -> Option<u32> {
        let held = WeighedStage::new(ranges, class, place);
        let capacity = self.capacity().value();
        let fits = |behind: u32| held.bytes(self, behind) <= capacity;
        let least = u32::from(!place.holds_head());
        if !fits(least) {
            return None;
        }
        let most = if place.holds_head() { least } else { most };
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
            staggered: *link,
            farthest: 1,
            nearer: [None; MAX_LEVELS - 1],
            ..self.links
        };
        self.sent(&plan, &links)
    }

    fn sent(&self, plan: &Plan, links: &Links) -> f64 {
        StagePipeline::new(self, plan.clone(), Chunks::NONE, true)
            .inputs(self, links)
            .hop()
    }

    /// Seconds in which both ends of a pipeline add up their gradients of a table that both use over `ends`;
    /// none where they share none.
    pub fn tied_sum(&self, ranges: &LayerRanges, ends: &Forms) -> f64 {
        if self.job.training.forward_only {
            return 0.0;
        }
        let [first, last] = ranges.ends().map(|counts| *counts);
        let chunks = Chunks {
            first,
            last,
            ..Chunks::NONE
        };
        let links = Links {
            ends: *ends,
            ..self.links
        };
        StagePipeline::new(self, self.plan.clone(), chunks, true)
            .inputs(self, &links)
            .embedding_sync()
    }

    /// The collective of both ends where all of `count` stages are of these.
    pub fn ends(&self, count: u32, pricer: &mut Pricer) -> Forms {
        let plan = Plan {
            pipeline: count,
            ..self.plan.clone()
        };
        Links::new(&plan, self.job.dealt_tensors(&plan), pricer).ends
    }
}

/// Virtual stages and what composing a plan reads of them.
struct StagePipeline {
    plan: Plan,
    chunks: Chunks,
    sums: Sums,
    recomputed: RecomputationCosts,
    facts: ScheduleFacts,
}

impl StagePipeline {
    fn new(pricer: &StagePricer, plan: Plan, chunks: Chunks, copied: bool) -> Self {
        let (job, factors) = (pricer.job, pricer.factors);
        let sums = Sums::new(job, factors, &chunks, copied);
        let again = RecomputationCosts::new(job, factors, (&chunks, &sums), plan.recomputation());
        let facts = ScheduleFacts::new(job, &plan, &chunks);
        Self {
            plan,
            chunks,
            sums,
            recomputed: again,
            facts,
        }
    }

    fn inputs<'a>(&'a self, pricer: &'a StagePricer, links: &'a Links) -> PlanInputs<'a> {
        PlanInputs {
            job: pricer.job,
            plan: &self.plan,
            factors: pricer.factors,
            links,
            chunks: &self.chunks,
            sums: &self.sums,
            recomputed: &self.recomputed,
            facts: &self.facts,
        }
    }

    fn composed<R>(&self, pricer: &StagePricer, work: impl FnOnce(&Composer) -> R) -> R {
        let inputs = self.inputs(pricer, &pricer.links);
        let state = &ModelStates::new(&inputs);
        work(&Composer { inputs, state })
    }
}

/// A stage as the composer reads it: a pipeline of one, whose time is the stage's own.
fn single(
    pricer: &StagePricer,
    ranges: &LayerRanges,
    class: usize,
    place: PipelinePosition,
) -> StagePipeline {
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
    StagePipeline::new(pricer, plan, chunks, place != PipelinePosition::Alone)
}

/// A stage as the composer weighs it: one of a pipeline whose stages hold the same blocks.
struct WeighedStage {
    place: PipelinePosition,
    chunks: Chunks,
}

impl WeighedStage {
    fn new(ranges: &LayerRanges, class: usize, place: PipelinePosition) -> Self {
        let blocks: BlockCounts = ranges.blocks(class, place);
        let chunks = Chunks {
            count: 2,
            first: blocks,
            middle: vec![blocks],
            middle_orders: vec![LayerOrder::NONE],
            kinds: vec![0],
            last: blocks,
            layers: [ranges.size(class); 3],
            ..Chunks::NONE
        };
        Self { place, chunks }
    }

    fn bytes(&self, pricer: &StagePricer, behind: u32) -> f64 {
        let (stage, count) = match self.place {
            PipelinePosition::Alone => (0, 1),
            PipelinePosition::First => (0, behind + 1),
            PipelinePosition::Inner => (1, behind + 2),
            PipelinePosition::Last => (1, 2),
        };
        let plan = Plan {
            pipeline: count,
            ..pricer.plan.clone()
        };
        let copied = self.place != PipelinePosition::Alone;
        let dealt = StagePipeline::new(pricer, plan, self.chunks.clone(), copied);
        dealt.composed(pricer, |composer| composer.footprint(stage).total().value())
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
        orders: [LayerOrder::NONE, LayerOrder::NONE],
        middle_orders: Vec::new(),
    };
}

//! What do the ZeRO stage and the optimizer's place fix, whatever is recomputed or overlapped?

use super::compose::PlanInputs;
use super::schedule_facts::VirtualStageShares;
use super::sums::VirtualStageParams;
use crate::memory::Footprint;
use crate::schedule::Borders;

/// Bytes of weights, gradients and optimizer state, and seconds of their traffic, computed once for
/// all plans that differ in recomputation, kept activations and overlaps.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelStates {
    /// Held by the ranks of each of the occupancies that the schedule facts list.
    pub(super) residents: Vec<Footprint>,
    /// Gathers of weights for one pass of a virtual stage, by kind.
    pub(super) gathers: [f64; 3],
    /// What the device waits for the host to prepare those, by kind, seconds.
    pub(super) issues: [[f64; 2]; 3],
    /// Copies on the device beside the gathers of a pass and beside the reductions, by kind.
    pub(super) copies: [[f64; 2]; 3],
    /// Layers of a virtual stage, by kind.
    pub(super) layers: [f64; 3],
    /// Reductions of its gradients.
    pub(super) scatters: [f64; 3],
    /// What follows the last backward pass, by position.
    pub(super) after: [AfterBackward; 3],
    /// Sum of tied embeddings between first and last stage.
    pub(super) embedding_sync: f64,
    /// Tensors between stages; none with one virtual stage.
    pub(super) borders: Borders,
    /// True where those take unlike times.
    pub(super) unlike: bool,
    /// Seconds that a virtual stage sends outputs and gradients, by kind; the busiest of those between the ends.
    pub(super) sends: [[f64; 2]; 3],
    /// Share of compute that traffic under it takes.
    pub(super) contention: f64,
    /// The same of each slice; none where sequences are not cut.
    pub(super) slices: Vec<Self>,
}

/// What follows the last backward pass on the ranks of one position.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct AfterBackward {
    /// Reduction of all gradients (ZeRO stages 0 and 1), seconds.
    pub(super) reduce: f64,
    /// Sum over the copies of its stages inside the pipeline, seconds.
    pub(super) join: f64,
    /// Gather of updated weights (stages 1 and 2), seconds.
    pub(super) gather: f64,
    /// Update on the device, seconds.
    pub(super) update: f64,
    /// Layers held.
    pub(super) layers: f64,
    /// Elements that a rank updates: of its embedding, of its layers, of its head.
    pub(super) elements: [f64; 3],
}

impl ModelStates {
    /// Prices a plan's state; of the plan, ZeRO stage, mesh and optimizer's place count.
    pub fn new(inputs: &PlanInputs) -> Self {
        let mut state = Self::blank();
        state.refill(inputs);
        state
    }

    fn blank() -> Self {
        Self {
            residents: Vec::new(),
            gathers: [0.0; 3],
            issues: [[0.0; 2]; 3],
            copies: [[0.0; 2]; 3],
            layers: [0.0; 3],
            scatters: [0.0; 3],
            after: [AfterBackward::default(); 3],
            embedding_sync: 0.0,
            borders: Borders::new([0.0; 2], 0.0),
            unlike: false,
            sends: [[0.0; 2]; 3],
            contention: 0.0,
            slices: Vec::new(),
        }
    }

    /// Prices another plan's state in the same memory.
    pub fn refill(&mut self, inputs: &PlanInputs) {
        let occupancies = inputs.facts.occupancies.iter();
        self.contention = inputs.job.cluster.device.contention();
        self.borders = inputs.borders(self.contention);
        self.unlike = self.borders.unlike();
        self.sends = sends(inputs, &self.borders, self.unlike);
        self.refill_slices(inputs);
        self.residents.clear();
        self.residents
            .extend(occupancies.map(|occupancy| inputs.state_of(occupancy)));
        let params = inputs.by_position(|stage| stage.params);
        self.layers = params.map(|params| params.layers);
        for (position, params) in params.iter().enumerate() {
            self.copies[position] = [0.0; 2];
            [self.gathers[position], self.scatters[position]] = if inputs.plan.stage() >= 2 {
                self.copies[position] = inputs.shard_copies(params);
                inputs.shard_seconds(params)
            } else {
                [0.0; 2]
            };
            self.issues[position] = inputs.gather_issue(params);
        }
        self.embedding_sync = 0.0;
        if inputs.job.training.forward_only {
            return;
        }
        let shares = &inputs.facts.shares;
        for position in 0..3 {
            self.after[position] = if inputs.exists(position) {
                after_backward_times(inputs, (shares, &params), position)
            } else {
                AfterBackward::default()
            };
        }
        if inputs.plan.copies_table() {
            self.embedding_sync = inputs.embedding_sync();
        }
    }
}

impl ModelStates {
    /// Prices the state of each slice; a pass sends each slice by itself.
    fn refill_slices(&mut self, inputs: &PlanInputs) {
        let count = inputs.factors.slices.len();
        self.slices.resize_with(count, Self::blank);
        if count == 0 {
            return;
        }
        self.sends = [[0.0; 2]; 3];
        for (place, state) in self.slices.iter_mut().enumerate() {
            if let Some(slice) = inputs.slice(place) {
                state.refill(&slice);
            }
            for (sums, own) in self.sends.iter_mut().zip(state.sends) {
                for (sum, seconds) in sums.iter_mut().zip(own) {
                    *sum += seconds;
                }
            }
        }
    }
}

fn sends(inputs: &PlanInputs, borders: &Borders, unlike: bool) -> [[f64; 2]; 3] {
    let hop = borders.slowest();
    let stages = inputs.plan.pipeline;
    let (first, between, last) = if unlike {
        let before = borders.at(stages.saturating_sub(2));
        (borders.at(0), borders.busiest(stages), before)
    } else {
        (hop, [hop; 2], hop)
    };
    let mut sends = [[first, 0.0], between, [0.0, last]];
    if inputs.job.training.forward_only {
        for send in &mut sends {
            send[1] = 0.0;
        }
    }
    sends
}

fn after_backward_times(
    inputs: &PlanInputs,
    (shares, params): (&VirtualStageShares, &[VirtualStageParams; 3]),
    position: usize,
) -> AfterBackward {
    let plan = inputs.plan;
    let dense = shares.all(params, position, |p| p.dense);
    let expert = shares.all(params, position, |p| p.expert);
    let mut after = AfterBackward {
        layers: shares.all(params, position, |p| p.layers),
        join: inputs.join_copies(dense, expert, shares.copies),
        ..AfterBackward::default()
    };
    if plan.stage() < 2 {
        after.reduce = inputs.reduce_time(dense, expert);
    }
    if plan.stage() == 1 || plan.stage() == 2 {
        let ends = shares.all(params, position, |p| p.ends);
        after.gather = inputs.gather_time(inputs.narrowed([dense, expert], ends));
    }
    if plan.offload_optimizer {
        let updated = inputs.updated(dense, expert);
        let [embedding, head] = inputs.end_elements(position);
        after.elements = [embedding, updated - embedding - head, head];
        after.update = inputs.buffer_time([dense, expert]);
    } else {
        let newton = shares.newton(params, position);
        let ends = shares.all(params, position, |p| p.ends);
        after.update = inputs.optimizer_time([dense, expert], &newton)
            + inputs.weight_casts([dense - ends, expert])
            + inputs.update_wait(after.layers);
    }
    after
}

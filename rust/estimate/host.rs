//! What travels between a device and its host, how long does that take, and what does compute hide?

use super::chunk::BlockCounts;
use super::compose::{Composer, PlanInputs, StepParts};
use super::plan_lanes::PlanLanes;
use super::recomputation_costs::StageRecomputation;
use super::sums::{VirtualStageDetail, VirtualStageWork};
use super::traffic::exposed_traffic;
use crate::hardware::Host;
use crate::memory::host_optimizer_traffic;
use crate::solve::Lane;
use crate::workload::BlockRole;

/// What the update of one rank's elements on its host depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostUpdate<L> {
    /// Elements that the rank updates: of its embedding, of its layers, of its head.
    pub(super) elements: [f64; 3],
    /// Layers, each of which travels alone.
    pub(super) layers: f64,
    /// The last backward pass through those, seconds.
    pub(super) passes: [L; 3],
    /// Reduction of their gradients, seconds, and what is left of it after that pass.
    pub(super) reduce: f64,
    pub(super) reducing: L,
    /// By how much earlier than the first stage's its last backward pass ends, seconds.
    pub(super) early: L,
}

impl<L: Lane> HostUpdate<L> {
    /// What one position's update depends on: `reduce` seconds of reduction stand in the way of its
    /// last backward pass, which ends `early`. `passes` are `PlanLanes::block_passes`.
    #[inline(always)]
    pub(super) fn new(
        lanes: &PlanLanes<L>,
        (virtuals, position): (&[VirtualStageWork<L>; 3], usize),
        (reduce, [reducing, early]): (f64, [L; 2]),
        passes: &[[L; 2]; 3],
    ) -> Self {
        let (shares, after) = (&lanes.facts.shares, &lanes.state.after[position]);
        let backward = shares.passes(virtuals, position, |v| v.backward);
        let layers = shares.passes(passes, position, |[layers, _]| *layers);
        let behind = shares.passes(passes, position, |[_, head]| *head);
        Self {
            elements: after.elements,
            layers: after.layers,
            passes: [backward - layers - behind, layers, behind],
            reduce,
            reducing,
            early,
        }
    }

    /// What is left of reduction and copies when the backward pass has ended: every block is
    /// reduced, then copied, and the slower of the two sets the pace.
    ///
    /// `max(reduction exposed_to_host + last block's copy, copies exposed_to_host + one block's reduction)`: three machines
    /// in a row; exact for like layers.
    #[inline(always)]
    fn exposed_behind_reduction(&self, copies: [f64; 3]) -> L {
        let count = self.layers.max(1.0);
        let last = if copies[0] > 0.0 {
            copies[0]
        } else {
            copies[1] / count
        };
        (self.reducing + last).larger(self.exposed_to_host(copies) + self.reduce / count)
    }

    /// What is left of copies to the host, `copies` seconds of embedding, layers and head, when the
    /// backward pass has ended: each starts behind its block, the head's first, one after another.
    ///
    /// `max over blocks of (copies from there on - passes exposed_from_host it)`; of like layers, the first or
    /// the last decides.
    #[inline(always)]
    fn exposed_to_host(&self, [embedding, layers, head]: [f64; 3]) -> L {
        let [front, middle, _] = self.passes;
        let count = self.layers.max(1.0);
        let last_layer = L::splat(layers / count + embedding) - front;
        let first_layer = L::splat(layers + embedding) - front - middle * (1.0 - 1.0 / count);
        let first = if head > 0.0 {
            L::splat(head + layers + embedding) - front - middle
        } else {
            L::splat(0.0)
        };
        let embedding = L::splat(embedding);
        embedding
            .larger(last_layer)
            .larger(first_layer)
            .larger(first)
    }

    /// What is left of copies to the device, `back` seconds for each that the update took, when the
    /// update has ended: each starts behind the update of its block, the embedding's first.
    ///
    /// `max over blocks of (copies from there on - updates exposed_from_host it)`, as for copies to the host.
    fn exposed_from_host(&self, update: f64, back: f64) -> f64 {
        let all: f64 = self.elements.iter().sum();
        let [embedding, layers, head] = self.elements.map(|part| update * part / all.max(1.0));
        let count = self.layers.max(1.0);
        let last_layer = (layers / count + head) * back - head;
        let first_layer = (layers + head) * back - layers * (1.0 - 1.0 / count) - head;
        let first = if embedding > 0.0 {
            update * back - layers - head
        } else {
            0.0
        };
        (head * back).max(last_layer).max(first_layer).max(first)
    }
}

impl PlanInputs<'_> {
    fn host(&self) -> Option<&Host> {
        self.job.cluster.system.host.as_ref()
    }

    /// Devices of a node that do the same at once.
    pub(super) fn node_devices(&self) -> f64 {
        let cluster = &self.job.cluster;
        f64::from(cluster.devices.min(cluster.system.devices_per_node.max(1)))
    }

    /// Seconds that bytes take one way: both directions at once, each at the sustained rate of the
    /// slowest that it crosses: link, shared switch, the device's part of the host memory.
    #[inline(always)]
    pub(super) fn host_copy<L: Lane>(&self, bytes: L) -> L {
        bytes * self.job.host_pace
    }

    fn host_memory_rate(&self, host: &Host) -> f64 {
        host.memory_bandwidth.value() * host.memory_efficiency / self.node_devices()
    }

    /// Seconds that the host takes to update a rank's elements, at the rate of its memory
    /// (Ren et al. 2021, ZeRO-Offload, sections 4 and 5).
    pub(super) fn host_update(&self, elements: f64) -> f64 {
        let hidden = self.job.graph.hidden as f64;
        let bytes = elements * host_optimizer_traffic(&self.job.training, hidden);
        let rate = self.host().map(|host| self.host_memory_rate(host));
        rate.map_or(0.0, |rate| bytes / rate)
    }

    /// Seconds that some elements' gradients take to the host, and their weights back.
    pub(super) fn host_swap(&self, elements: f64) -> [f64; 2] {
        let training = &self.job.training;
        let weight = training.precision.activation().bytes();
        [training.gradient.bytes(), weight].map(|bytes| self.host_copy(elements * bytes))
    }

    /// Share of the layers' kept activations that lie in host memory.
    pub(super) fn offloaded_share(&self) -> f64 {
        f64::from(self.plan.offload_activations) / 100.0
    }

    /// Elements of embedding and head that a rank of a position updates.
    pub(super) fn end_elements(&self, position: usize) -> [f64; 2] {
        let chunks = self.chunks;
        let held = |counts: &BlockCounts, wanted: BlockRole| {
            let blocks = self.factors.blocks.iter().zip(&self.job.graph.blocks);
            let of = blocks.zip(counts).filter(|((_, b), _)| b.role == wanted);
            of.map(|((factor, _), count)| {
                let dense = factor.dense(self.plan.copies_table());
                count * self.updated(dense, factor.weights.expert)
            })
            .sum::<f64>()
        };
        let [first, _, last] = self.facts.shares.counts(position);
        [
            first * held(&chunks.first, BlockRole::Embedding),
            if chunks.count == 1 { first } else { last } * held(&chunks.last, BlockRole::Head),
        ]
    }

    /// Elements that a rank updates.
    pub(super) fn updated(&self, dense: f64, expert: f64) -> f64 {
        let sharded = self.plan.stage() >= 1;
        let share = |elements: f64, shards: f64| if sharded { elements / shards } else { elements };
        share(dense, self.links.dense.shards) + share(expert, self.links.expert.shards)
    }
}

impl<L: Lane> PlanLanes<'_, L> {
    /// Bytes in the host memory of a node whose ranks all lie in the stage that fills it most.
    #[inline(always)]
    pub(super) fn host_memory(&self) -> L {
        if self.plan.offload_optimizer || self.swaps {
            self.host_bytes() * self.node_devices()
        } else {
            L::splat(0.0)
        }
    }

    /// Seconds of the backward passes of the layers and of the head of each virtual stage.
    #[inline(always)]
    pub(super) fn block_passes(&self) -> [[L; 2]; 3] {
        let passes = |kind| {
            let VirtualStageDetail {
                layer_time,
                head_time,
                ..
            } = self.stage(kind).detail;
            [
                self.recomputation(kind).seconds + layer_time.backward,
                L::splat(head_time.backward),
            ]
        };
        // written out: the `map` of arrays is not always inlined
        [passes(0), passes(1), passes(2)]
    }

    /// Kept activations leave under the forward pass and come back under the backward pass, which
    /// fetches one block ahead. A pass ends when its copies have.
    ///
    /// `n` layers of `L` seconds, each with a copy of `s`, and a head of `H`: with
    /// `u = max(s, n s - (n-1) L)`, a forward pass is longer by `max(0, u - H)`, since the last copies
    /// run under the head, and a backward pass by `u - min(s, H)`, since the head runs first and
    /// hides the first fetch. What weights and gradients add (ZeRO-2 and 3) hides copies as the head
    /// does: part of it runs beside the head, so that it must not count to the layers alone.
    #[inline(always)]
    pub(super) fn swap_activations(
        &self,
        sum: &mut VirtualStageWork<L>,
        again: &StageRecomputation<L>,
        position: usize,
    ) {
        let stage = self.stage(position);
        let zero = L::splat(0.0);
        let copy = self.host_copy(again.layers * self.share);
        let count = self.state.layers[position];
        let one = copy * (1.0 / count.max(1.0));
        // a copy engine uses no compute units, and 25 to 50 GB/s are 1% to 2% of the memory's rate
        let late = |cover: L| exposed_traffic(copy, cover, count, 0.0);
        let (layers, head) = (&stage.detail.layer_time, &stage.detail.head_time);
        let (layer, behind) = if self.facts.splits {
            (again.seconds + layers.input, head.input)
        } else {
            (again.seconds + layers.backward, head.backward)
        };
        // sharding is all that the forward pass has grown by so far
        let there = sum.forward - L::splat(stage.work.forward);
        let back = sum.shard_exposed - there;
        let forward = late(L::splat(layers.forward)) - L::splat(head.forward) - there;
        let backward = late(layer) - one.smaller(L::splat(behind)) - back;
        let (forward, backward) = (forward.larger(zero), backward.larger(zero));
        sum.forward = sum.forward + forward;
        sum.backward = sum.backward + backward;
        sum.offload_exposed = forward + backward;
    }

    /// Gradients travel to the host block by block behind their reduction, the host updates block by
    /// block when it has all of them, and weights travel back block by block behind their update. The
    /// device passes over its gradients for so many seconds beside that.
    #[inline(always)]
    pub(super) fn host_optimizer(
        &self,
        offload: &HostUpdate<L>,
        passes: f64,
        parts: &mut StepParts<L>,
    ) {
        let zero = L::splat(0.0);
        let elements: f64 = offload.elements.iter().sum();
        let [gradients, weights] = self.host_swap(elements);
        let left = if self.plan.overlap_grad_reduce {
            let [embedding, layers, head] = offload.elements;
            let copy = |part| self.host_swap(part)[0];
            offload.exposed_behind_reduction([copy(embedding), copy(layers), copy(head)])
        } else {
            offload.reducing + gradients
        };
        let late = |left: L| (left - offload.early).larger(zero);
        let (reduced, left) = (late(offload.reducing), late(left));
        let to_host = left - reduced;
        let ours = [
            reduced,
            L::splat(offload.reduce) - reduced,
            to_host,
            (L::splat(gradients) - to_host).larger(zero),
        ];
        // the position that ends last
        let most = parts.gradient_exposed + parts.to_host_exposed;
        let theirs = [
            &mut parts.gradient_exposed,
            &mut parts.gradient_hidden,
            &mut parts.to_host_exposed,
            &mut parts.to_host_hidden,
        ];
        for (theirs, ours) in theirs.into_iter().zip(ours) {
            *theirs = left.at_least(most, ours, *theirs);
        }
        let update = self.host_update(elements);
        parts.optimizer = parts.optimizer.larger(L::splat(update + passes));
        let left = if update > 0.0 {
            offload.exposed_from_host(update, weights / update)
        } else {
            weights
        };
        let (left, hidden) = (L::splat(left), L::splat((weights - left).max(0.0)));
        let most = parts.from_host_exposed;
        parts.from_host_hidden = left.at_least(most, hidden, parts.from_host_hidden);
        parts.from_host_exposed = left.larger(most);
    }
}

impl Composer<'_> {
    /// Traffic of a step's passes between device and host, seconds on the busiest rank.
    pub(super) fn offload_parts(
        &self,
        (virtuals, busiest): (&[VirtualStageWork; 3], usize),
        parts: &mut StepParts,
    ) {
        let (shares, rounds) = (&self.facts.shares, self.micro_batches());
        parts.offload_exposed = shares.passes(virtuals, busiest, |v| v.offload_exposed) * rounds;
        let kept = |kind: &usize| self.recomputation_at(*kind).layers;
        let kept = shares.passes(&[0, 1, 2], busiest, kept) * rounds;
        let copies = 2.0 * self.host_copy(kept * self.offloaded_share());
        parts.offload_hidden = (copies - parts.offload_exposed).max(0.0);
    }
}

//! What travels between a device and its host, how long does that take, and what does compute hide?

use super::chunk::Counts;
use super::compose::{Composer, Parts, Setting};
use super::sums::Virtual;
use super::traffic::uncovered;
use crate::hardware::Host;
use crate::memory::host_optimizer_traffic;
use crate::workload::BlockRole;

/// Compute that a copy engine takes from kernels beside it: none, it uses no compute units, and 25 to
/// 50 GB/s are 1% to 2% of the rate of the memory that both read.
const CONTENTION: f64 = 0.0;

/// What the update of one rank's elements on its host depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offload {
    /// Elements that the rank updates: of its embedding, of its layers, of its head.
    pub(super) elements: [f64; 3],
    /// Layers, each of which travels alone.
    pub(super) layers: f64,
    /// The last backward pass through those, seconds.
    pub(super) passes: [f64; 3],
    /// Reduction of their gradients, seconds, and what is left of it after that pass.
    pub(super) reduce: f64,
    pub(super) reducing: f64,
    /// By how much earlier than the first stage's its last backward pass ends, seconds.
    pub(super) early: f64,
}

impl Offload {
    /// What one position's update depends on: `reduce` seconds of reduction stand in the way of its
    /// last backward pass, which ends `early`. `passes` are `Composer::block_passes`.
    pub(super) fn new(
        composer: &Composer,
        (virtuals, position): (&[Virtual; 3], usize),
        [reduce, reducing, early]: [f64; 3],
        passes: &[[f64; 2]; 3],
    ) -> Self {
        let (shares, after) = (&composer.frame.shares, &composer.state.after[position]);
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
    /// `max(reduction left + last block's copy, copies left + one block's reduction)`: three machines
    /// in a row; exact for like layers.
    fn delayed(&self, copies: [f64; 3]) -> f64 {
        let count = self.layers.max(1.0);
        let last = if copies[0] > 0.0 {
            copies[0]
        } else {
            copies[1] / count
        };
        (self.reducing + last).max(self.left(copies) + self.reduce / count)
    }

    /// What is left of copies to the host, `copies` seconds of embedding, layers and head, when the
    /// backward pass has ended: each starts behind its block, the head's first, one after another.
    ///
    /// `max over blocks of (copies from there on - passes behind it)`; of like layers, the first or
    /// the last decides.
    fn left(&self, [embedding, layers, head]: [f64; 3]) -> f64 {
        let [front, middle, _] = self.passes;
        let count = self.layers.max(1.0);
        let last_layer = layers / count + embedding - front;
        let first_layer = layers + embedding - front - middle * (1.0 - 1.0 / count);
        let first = if head > 0.0 {
            head + layers + embedding - front - middle
        } else {
            0.0
        };
        embedding.max(last_layer).max(first_layer).max(first)
    }

    /// What is left of copies to the device, `back` seconds for each that the update took, when the
    /// update has ended: each starts behind the update of its block, the embedding's first.
    ///
    /// `max over blocks of (copies from there on - updates behind it)`, as for copies to the host.
    fn behind(&self, update: f64, back: f64) -> f64 {
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

impl Setting<'_> {
    /// True where something of the plan lies in host memory.
    pub(super) fn offloads(&self) -> bool {
        self.plan.offload_optimizer || self.plan.offload_activations > 0
    }

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
    pub(super) fn host_copy(&self, bytes: f64) -> f64 {
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
        let held = |counts: &Counts, wanted: BlockRole| {
            let blocks = self.factors.blocks.iter().zip(&self.job.graph.blocks);
            let of = blocks.zip(counts).filter(|((_, b), _)| b.role == wanted);
            of.map(|((factor, _), count)| {
                let dense = factor.dense(self.plan.pipeline > 1);
                count * self.updated(dense, factor.weights.expert)
            })
            .sum::<f64>()
        };
        let [first, _, last] = self.frame.shares.counts(position);
        [
            first * held(&chunks.first, BlockRole::Embedding),
            if chunks.count == 1 { first } else { last } * held(&chunks.last, BlockRole::Head),
        ]
    }

    /// Elements that a rank updates.
    pub(super) fn updated(&self, dense: f64, expert: f64) -> f64 {
        let sharded = self.plan.zero >= 1;
        let share = |elements: f64, shards: f64| if sharded { elements / shards } else { elements };
        share(dense, self.links.dense.shards) + share(expert, self.links.expert.shards)
    }
}

impl Composer<'_> {
    /// Seconds of the backward passes of the layers and of the head of each virtual stage.
    pub(super) fn block_passes(&self) -> [[f64; 2]; 3] {
        [0, 1, 2].map(|kind| {
            let again = self.again(kind).map_or(0.0, |again| again.seconds);
            let detail = self.stage(kind).map(|stage| &stage.detail);
            let layers = detail.map_or(0.0, |detail| detail.layer_time.backward);
            let head = detail.map_or(0.0, |detail| detail.head_time.backward);
            [layers + again, head]
        })
    }

    /// Kept activations leave under the forward pass and come back under the backward pass, which
    /// fetches one block ahead. A pass ends when its copies have.
    ///
    /// `n` layers of `L` seconds, each with a copy of `s`, and a head of `H`: with
    /// `u = max(s, n s - (n-1) L)`, a forward pass is longer by `max(0, u - H)`, since the last copies
    /// run under the head, and a backward pass by `u - min(s, H)`, since the head runs first and
    /// hides the first fetch. What weights and gradients add (ZeRO-2 and 3) counts to the layers.
    pub(super) fn swap_activations(&self, sum: &mut Virtual, position: usize) {
        let (Some(stage), Some(again)) = (self.stage(position), self.again(position)) else {
            return;
        };
        let copy = self.host_copy(again.layers * self.offloaded_share());
        let again = again.seconds;
        let count = self.state.layers[position];
        let one = copy / count.max(1.0);
        let late = |cover: f64| uncovered(copy, cover, count, CONTENTION);
        let (layers, head) = (&stage.detail.layer_time, &stage.detail.head_time);
        let (layer, behind) = if self.frame.splits {
            (layers.input + again, head.input)
        } else {
            (layers.backward + again, head.backward)
        };
        // sharding is all that the forward pass has grown by so far
        let there = sum.forward - stage.work.forward;
        let back = sum.shard_exposed - there;
        let forward = (late(layers.forward + there) - head.forward).max(0.0);
        let backward = (late(layer + back) - one.min(behind)).max(0.0);
        sum.forward += forward;
        sum.backward += backward;
        sum.offload_exposed = forward + backward;
    }

    /// Gradients travel to the host block by block behind their reduction, the host updates block by
    /// block when it has all of them, and weights travel back block by block behind their update.
    pub(super) fn host_optimizer(&self, offload: &Offload, parts: &mut Parts) {
        let elements: f64 = offload.elements.iter().sum();
        let [gradients, weights] = self.host_swap(elements);
        let left = if self.plan.overlap_grad_reduce {
            offload.delayed(offload.elements.map(|part| self.host_swap(part)[0]))
        } else {
            offload.reducing + gradients
        };
        let late = |left: f64| (left - offload.early).max(0.0);
        let (reduced, left) = (late(offload.reducing), late(left));
        // the position that ends last
        if left >= parts.gradient_exposed + parts.to_host_exposed {
            parts.gradient_exposed = reduced;
            parts.gradient_hidden = offload.reduce - reduced;
            parts.to_host_exposed = left - reduced;
            parts.to_host_hidden = (gradients - parts.to_host_exposed).max(0.0);
        }
        let update = self.host_update(elements);
        parts.optimizer = parts.optimizer.max(update);
        let left = if update > 0.0 {
            offload.behind(update, weights / update)
        } else {
            weights
        };
        if left >= parts.from_host_exposed {
            parts.from_host_exposed = left;
            parts.from_host_hidden = (weights - left).max(0.0);
        }
    }

    /// Traffic of a step's passes between device and host, seconds on the busiest rank.
    pub(super) fn offload_parts(
        &self,
        (virtuals, busiest): (&[Virtual; 3], usize),
        parts: &mut Parts,
    ) {
        let (shares, rounds) = (&self.frame.shares, self.micro_batches());
        parts.offload_exposed = shares.passes(virtuals, busiest, |v| v.offload_exposed) * rounds;
        let kept = |kind: &usize| self.again(*kind).map_or(0.0, |again| again.layers);
        let kept = shares.passes(&[0, 1, 2], busiest, kept) * rounds;
        let copies = 2.0 * self.host_copy(kept * self.offloaded_share());
        parts.offload_hidden = (copies - parts.offload_exposed).max(0.0);
    }
}

//! What does an update on the device cost, and what does orthogonalising its matrices add?

use super::compose::PlanInputs;
use super::links::Replicas;
use super::price::Pricer;
use crate::memory::{matrix_traffic, optimizer_traffic};
use crate::plan::{ITERATIONS, Matrices};
use crate::units::{Bytes, Dtype};

/// Matrices that a rank orthogonalises: of dense weights and of experts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct NewtonSchulz {
    /// Elements.
    pub(super) elements: [f64; 2],
    /// Seconds of all their iterations.
    seconds: [f64; 2],
    /// Seconds of those of the one that takes longest.
    longest: [f64; 2],
}

impl NewtonSchulz {
    /// Prices the iterations of a block's matrices.
    pub(super) fn new(matrices: &[Matrices], pricer: &Pricer) -> Self {
        let mut sum = Self::default();
        for one in matrices {
            let kernels = one.iteration();
            let each: f64 = kernels
                .iter()
                .map(|kernel| pricer.kernel(kernel).time.value())
                .sum();
            let kind = usize::from(one.expert);
            sum.elements[kind] += one.count * one.elements();
            sum.seconds[kind] += one.count * ITERATIONS * each;
            sum.longest[kind] = sum.longest[kind].max(ITERATIONS * each);
        }
        sum
    }

    /// Adds `count` times another's.
    pub(super) fn add(&mut self, other: &Self, count: f64) {
        for kind in 0..2 {
            self.elements[kind] += count * other.elements[kind];
            self.seconds[kind] += count * other.seconds[kind];
            if count > 0.0 {
                self.longest[kind] = self.longest[kind].max(other.longest[kind]);
            }
        }
    }

    /// The larger of each.
    pub(super) fn maximum(&self, other: &Self) -> Self {
        let most =
            |ours: [f64; 2], theirs: [f64; 2]| [0, 1].map(|kind| ours[kind].max(theirs[kind]));
        Self {
            elements: most(self.elements, other.elements),
            seconds: most(self.seconds, other.seconds),
            longest: most(self.longest, other.longest),
        }
    }
}

impl PlanInputs<'_> {
    /// Seconds of an update on the device: at the rate of its memory, and the products that orthogonalise.
    ///
    /// `t = (e - x) a / r + x b / r + g + sum over dense and expert of max(n / s, l)`: e elements that the rank
    /// updates, x those in matrices, a and b bytes per element, r the sustained rate of main memory; n seconds
    /// of all matrices' iterations, l of the longest matrix's, s ranks that share them from ZeRO stage 1 on:
    /// whole matrices are dealt to ranks (`LayerWiseDistributedOptimizer` of Megatron-Core). From stage 2 on
    /// shards cut matrices, whose momentum is gathered in bf16 first, for g seconds (Liu et al. 2025, Muon is
    /// scalable for LLM training, arXiv 2502.16982, algorithm 1). `PlanInputs::buffer_time` comes on top.
    pub(super) fn optimizer_time(&self, [dense, expert]: [f64; 2], newton: &NewtonSchulz) -> f64 {
        let training = &self.job.training;
        let [of_dense, of_expert] = newton.elements;
        let matrices = self.updated(of_dense, of_expert);
        let others = self.updated(dense, expert) - matrices;
        let hidden = self.job.graph.hidden as f64;
        let bytes =
            others * optimizer_traffic(training, hidden) + matrices * matrix_traffic(training);
        let rate = self.job.cluster.device.main_memory().sustained();
        (Bytes::new(bytes) / rate).value()
            + self.buffer_time([dense, expert])
            + self.orthogonalising(newton)
    }

    /// Seconds of passes over whole gradients, of which a rank updates a part, on device or host.
    ///
    /// `t = (c + k d) b / r`: below ZeRO stage 2 buffers of sums are cleared whole (`zero_grad_buffer` of
    /// Megatron-Core), c: those elements but the rank's part, which `optimizer_traffic` has; d: elements that have
    /// replicas, whose gradients are divided by the number of these before they are added, in k passes
    /// (`software.weights.divided_gradients`); b: bytes of a gradient; r: sustained rate of main memory, bytes/s.
    pub(super) fn buffer_time(&self, [dense, expert]: [f64; 2]) -> f64 {
        let training = &self.job.training;
        let software = &training.software;
        if self.plan.stage() >= 2 {
            return 0.0;
        }
        // programs whose updates were timed let go of gradients, or clear them in that time
        let cleared = if software.optimizer.update.is_some() || software.optimizer.frees_gradients {
            0.0
        } else {
            dense + expert - self.updated(dense, expert)
        };
        let several = |replicas: &Replicas, elements: f64| {
            if replicas.size > 1 { elements } else { 0.0 }
        };
        let divided = several(&self.links.dense, dense) + several(&self.links.expert, expert);
        let elements = cleared + divided * software.weights.divided_gradients;
        let bytes = Bytes::new(elements * training.gradient.bytes());
        (bytes / self.job.cluster.device.main_memory().sustained()).value()
    }

    /// Seconds in which weights of layers become narrow once a step (`software.weights.casts_weights_once`), below
    /// stage 3 of ZeRO, whose gathers have their own.
    ///
    /// `t = e b / r`: r the sustained rate of casts. One scale for a tensor: owners cast what they have updated, which
    /// they read for its scale, too, and write it in one layout (`fp8_param_gather` of Megatron-Core). Scales of
    /// blocks: every rank casts what it gathered wide, in both layouts (Megatron-LM pull request 6094, of mxfp8;
    /// Transformer Engine for the first micro-batch, of nvfp4).
    pub(super) fn weight_casts(&self, [dense, expert]: [f64; 2]) -> f64 {
        let training = &self.job.training;
        let [wide, narrow] =
            [training.precision.activation(), training.precision.matmul()].map(Dtype::bytes);
        let once = training.software.weights.casts_weights_once && self.plan.stage() < 3;
        if !once || narrow >= wide {
            return 0.0;
        }
        let (elements, bytes) = match training.precision.matmul() {
            Dtype::Fp8 => (self.updated(dense, expert), 2.0 * wide + narrow),
            Dtype::Nvfp4 => (dense + expert, 2.0 * wide + 2.0 * narrow),
            _ => (dense + expert, wide + 2.0 * narrow),
        };
        let device = &self.job.cluster.device;
        let rate = device.main_memory().sustained() * device.cast_share;
        (Bytes::new(elements * bytes) / rate).value()
    }

    /// Seconds of iterations and of the gathers before them; see `optimizer_time`.
    fn orthogonalising(&self, newton: &NewtonSchulz) -> f64 {
        let replicas = [&self.links.dense, &self.links.expert];
        let mut sum = 0.0;
        for (kind, replicas) in replicas.into_iter().enumerate() {
            let shards = if self.plan.stage() >= 1 {
                replicas.shards.max(1.0)
            } else {
                1.0
            };
            sum += (newton.seconds[kind] / shards).max(newton.longest[kind]);
            if self.plan.stage() >= 2 {
                let bytes = Bytes::new(newton.elements[kind] * Dtype::Bf16.bytes());
                sum += replicas.all_gather.time(bytes).value();
            }
        }
        sum
    }
}

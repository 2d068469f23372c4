//! Which traffic of weights and gradients does compute hide, and what follows the last backward pass?

use super::chunk::BlockCounts;
use super::compose::{PlanInputs, StepParts};
use super::host::HostUpdate;
use super::links::Replicas;
use super::plan_lanes::PlanLanes;
use super::sums::{VirtualStageParams, VirtualStageWork};
use crate::collective::Forms;
use crate::solve::Lane;
use crate::units::{Bytes, Seconds};
use crate::workload::BlockRole;

impl<L: Lane> PlanLanes<'_, L> {
    /// ZeRO-2 reduces gradients every micro-batch, ZeRO-3 also gathers weights, frozen ones too,
    /// before each pass (Rajbhandari et al. 2020, section 7). Each layer has collectives of its own.
    /// With prefetch the traffic of one layer runs under the compute of its neighbour, so all but
    /// one layer's share hides as far as compute lasts. What the host prepares for a gather hides
    /// nowhere, unless it can run ahead: then the device waits for what its kernels, waits for traffic and
    /// copies leave of that. Copies beside them need the device's memory and units themselves, so they count
    /// in full.
    #[inline(always)]
    pub(super) fn shard_traffic(&self, sum: &mut VirtualStageWork<L>, position: usize) {
        let (gather, scatter) = (self.state.gathers[position], self.state.scatters[position]);
        let [spread, joined] = self.state.copies[position].map(L::splat);
        let layers = self.state.layers[position];
        let overlaps = self.plan.overlap_param_gather;
        let [stands, ahead] = self.state.issues[position].map(L::splat);
        // of a pass and its traffic the host is busy for `issued` with the kernels
        let issue = |times: L, pass: L, issued: f64| {
            let spare = (pass - L::splat(issued)).larger(L::splat(0.0));
            times * stands + (times * ahead - spare).larger(L::splat(0.0))
        };
        let forward = self.exposed(L::splat(gather), sum.forward, layers, overlaps) + spread;
        let waits = issue(L::splat(1.0), sum.forward + forward, sum.issued[0]);
        let forward = forward + waits;
        let gathers = self.backward_gathers(position);
        let backward = if self.job.training.forward_only {
            L::splat(0.0)
        } else {
            // gradients of weights that run apart fill idle time and hide nothing
            let apart = if self.facts.splits { sum.weight } else { 0.0 };
            let cover = sum.backward - L::splat(apart);
            let left = self.exposed_backward(gathers * gather, scatter, (cover, layers))
                + gathers * spread
                + joined;
            left + issue(gathers, sum.backward + left, sum.issued[1])
        };
        sum.forward = sum.forward + forward;
        sum.backward = sum.backward + backward;
        sum.shard_exposed = forward + backward;
    }

    /// Gathers of weights and reductions of their gradients of a virtual stage in a micro-batch, hidden ones too.
    pub(super) fn shard_seconds(&self, position: usize) -> L {
        let (gather, scatter) = (self.state.gathers[position], self.state.scatters[position]);
        let [spread, joined] = self.state.copies[position];
        let passes = if self.job.training.forward_only {
            L::splat(0.0)
        } else {
            self.backward_gathers(position) * (gather + spread) + L::splat(scatter + joined)
        };
        passes + L::splat(gather + spread)
    }

    /// Gradient reduction, optimizer, weight gather, tied embeddings.
    #[inline(always)]
    pub(super) fn after_backward(
        &self,
        virtuals: &[VirtualStageWork<L>; 3],
        parts: &mut StepParts<L>,
    ) {
        let (plan, shares) = (self.plan, &self.facts.shares);
        let share = shares.copies / f64::from(plan.interleave);
        let passes = if plan.offload_optimizer {
            self.block_passes()
        } else {
            [[L::splat(0.0); 2]; 3]
        };
        let (mut ripple, mut join) = (L::splat(0.0), 0.0_f64);
        let [slowest_forward, slowest_backward] = self.slowest(virtuals);
        for position in 0..3 {
            if !self.exists(position) {
                continue;
            }
            let after = &self.state.after[position];
            join = join.max(after.join);
            let backward = shares.passes(virtuals, position, |v| v.backward);
            let (reduce, mut reducing) = (after.reduce, L::splat(0.0));
            if plan.stage() < 2 {
                let overlaps = plan.overlap_grad_reduce;
                let covers = [backward, slowest_backward];
                let left = self.exposed_in_turns(L::splat(reduce), covers, after.layers, overlaps);
                reducing = left;
                if !plan.offload_optimizer {
                    // later stages end their last backward earlier, by the passes still to come
                    let late = (left - ripple).larger(L::splat(0.0));
                    let (most, hidden) = (parts.gradient_exposed, L::splat(reduce) - late);
                    parts.gradient_hidden = late.at_least(most, hidden, parts.gradient_hidden);
                    parts.gradient_exposed = late.larger(most);
                }
            }
            if plan.stage() == 1 || plan.stage() == 2 {
                let forward = shares.passes(virtuals, position, |v| v.forward);
                let overlaps = plan.overlap_param_gather;
                let gather = L::splat(after.gather);
                let covers = [forward, slowest_forward];
                let left = self.exposed_in_turns(gather, covers, after.layers, overlaps);
                let (most, hidden) = (parts.gather_exposed, L::splat(after.gather) - left);
                parts.gather_hidden = left.at_least(most, hidden, parts.gather_hidden);
                parts.gather_exposed = left.larger(most);
            }
            if plan.offload_optimizer {
                let delays = (reduce, [reducing, ripple]);
                let offload = HostUpdate::new(self, (virtuals, position), delays, &passes);
                self.host_optimizer(&offload, after.update, parts);
            } else {
                parts.optimizer = parts.optimizer.larger(L::splat(after.update));
            }
            ripple = ripple + backward * share;
        }
        // the two ends of a pair sum up what all passes of both have left, whatever ZeRO stage
        parts.gradient_exposed = parts.gradient_exposed + L::splat(join);
        parts.embedding_sync = L::splat(self.state.embedding_sync);
        parts.unpaired = L::splat(self.sums.unpaired.iter().sum());
    }

    /// Forward and backward passes of all chunks of the slowest rank, where chunks take turns.
    #[inline(always)]
    fn slowest(&self, virtuals: &[VirtualStageWork<L>; 3]) -> [L; 2] {
        let shares = &self.facts.shares;
        let mut slowest = [L::splat(0.0); 2];
        if self.facts.turns.chunks < 2.0 {
            return slowest;
        }
        for position in (0..3).filter(|position| self.exists(*position)) {
            let forward = shares.passes(virtuals, position, |v| v.forward);
            let backward = shares.passes(virtuals, position, |v| v.backward);
            slowest = [slowest[0].larger(forward), slowest[1].larger(backward)];
        }
        slowest
    }

    /// How often a backward pass gathers each weight: once, and once more for what it computes again
    /// where the software does; never where weights stay gathered from the forward pass.
    #[inline(always)]
    fn backward_gathers(&self, position: usize) -> L {
        let one = L::splat(1.0);
        if self.job.training.software.zero.keeps_gathered {
            L::splat(0.0)
        } else if self.job.training.software.zero.gathers_again {
            let again = self.recomputation(position).seconds;
            again.at_least(L::splat(f64::MIN_POSITIVE), one + one, one)
        } else {
            one
        }
    }

    /// Gathers and reductions that the backward pass does not hide: those that may run under it
    /// share it, the others stand alone.
    #[inline(always)]
    fn exposed_backward(&self, gather: L, scatter: f64, (cover, layers): (L, f64)) -> L {
        let (none, scatter) = (L::splat(0.0), L::splat(scatter));
        let under = |traffic: L, overlaps: bool| if overlaps { traffic } else { none };
        let hidden = under(gather, self.plan.overlap_param_gather)
            + under(scatter, self.plan.overlap_grad_reduce);
        let alone = gather + scatter - hidden;
        self.exposed(hidden, cover, layers, true) + alone
    }

    /// The part of `traffic` that `cover` does not hide, when the work comes in `pieces` of which
    /// one has no neighbour to hide under. Hidden traffic still takes its share of compute.
    #[inline(always)]
    fn exposed(&self, traffic: L, cover: L, pieces: f64, overlap: bool) -> L {
        if !overlap {
            return traffic;
        }
        exposed_traffic(traffic, cover, pieces, self.state.contention)
    }

    /// The same of traffic that comes once a step, under a pass of the rank's chunks that take turns: `k`
    /// micro-batches of a chunk go back before the next chunk does, so that all but the last chunk's traffic has
    /// `k` passes of each chunk behind it to run under (Narayanan et al. 2021, section 2.2.2).
    ///
    /// With v chunks, n pieces, T traffic, K a pass of all chunks and S that of the slowest rank, at whose pace all
    /// ranks come to their next pass:
    ///
    /// ```text
    /// max(uncovered(T / v, K / v, n / v), c T, T - (S (v - 1) k + K (1 - v / n)) / v)
    /// ```
    #[inline(always)]
    fn exposed_in_turns(
        &self,
        traffic: L,
        [cover, slowest]: [L; 2],
        pieces: f64,
        overlap: bool,
    ) -> L {
        let turns = &self.facts.turns;
        if !overlap || turns.chunks < 2.0 {
            return self.exposed(traffic, cover, pieces, overlap);
        }
        let (part, own) = (1.0 / turns.chunks, (pieces / turns.chunks).max(1.0));
        let last = exposed_traffic(traffic * part, cover * part, own, 0.0);
        let behind = slowest * ((turns.chunks - 1.0) * turns.passes * part);
        let rest = traffic - behind - cover * ((1.0 - 1.0 / own) * part);
        last.larger(traffic * self.state.contention).larger(rest)
    }
}

impl PlanInputs<'_> {
    /// Gathers of weights for one pass of a virtual stage (ZeRO stage 3), and reductions of its
    /// gradients (2 and 3), layer by layer.
    pub(super) fn shard_seconds(&self, params: &VirtualStageParams) -> [f64; 2] {
        let training = &self.job.training;
        let weight = training.precision.activation().bytes();
        let pieces = params.layers.max(1.0);
        let gather = if self.plan.stage() == 3 {
            let gathers = pieces * training.software.zero.gathers_per_layer;
            let all = [
                params.dense + params.frozen,
                params.expert + params.frozen_expert,
            ];
            let all = self.narrowed(all, params.ends);
            let [dense, expert] = all.map(|elements| elements * weight / gathers);
            gathers
                * (seconds(&self.links.dense.all_gather, dense)
                    + seconds(&self.links.expert.all_gather, expert))
        } else {
            0.0
        };
        let scatter = if training.forward_only {
            0.0
        } else {
            pieces * self.reduce_time(params.dense / pieces, params.expert / pieces)
        };
        [gather, scatter]
    }

    /// Dense and expert elements as so many wide ones as take the room of those that gathers deliver: of
    /// layers narrow ones where the software casts before it gathers; `ends` of them are not in layers.
    pub(super) fn narrowed(&self, [dense, expert]: [f64; 2], ends: f64) -> [f64; 2] {
        let precision = self.job.training.precision;
        let wide = precision.activation().bytes();
        let share = (precision.matmul().bytes() / wide).min(1.0);
        if !self.job.training.software.zero.narrows(self.plan.data) {
            return [dense, expert];
        }
        [(dense - ends) * share + ends, expert * share]
    }

    /// What the host does in one pass to prepare gathers of weights while the device waits, `gathers * ranks * t`,
    /// and what it does ahead of it, `gathers * (a + ranks * b)`: t, a and b are the software's
    /// `gather_rank_time` and `gather_host_time`. What one rank holds whole nobody gathers.
    pub(super) fn gather_issue(&self, params: &VirtualStageParams) -> [f64; 2] {
        let software = &self.job.training.software;
        let rank = software.zero.gather_rank_time.value();
        let ahead = software.zero.gather_host_time.map(Seconds::value);
        if self.plan.stage() < 3 || rank + ahead[0] + ahead[1] <= 0.0 {
            return [0.0; 2];
        }
        let gathers = params.layers.max(1.0) * software.zero.gathers_per_layer;
        let held = [
            (params.dense + params.frozen, self.links.dense.shards),
            (
                params.expert + params.frozen_expert,
                self.links.expert.shards,
            ),
        ];
        let mut sums = [0.0; 2];
        for (_, shards) in held
            .into_iter()
            .filter(|(elements, shards)| *elements > 0.0 && *shards > 1.0)
        {
            sums[0] += gathers * shards * rank;
            sums[1] += gathers * (ahead[0] + shards * ahead[1]);
        }
        sums
    }

    /// Copies on the device beside the gathers of one pass (ZeRO stage 3) and beside the reductions.
    ///
    /// `t = elements * bytes / r`: bytes per element of the software (`software.zero.gather_copy`,
    /// `software.zero.reduce_copy`), r the sustained rate of main memory.
    pub(super) fn shard_copies(&self, params: &VirtualStageParams) -> [f64; 2] {
        let training = &self.job.training;
        let (software, rate) = (
            &training.software,
            self.job.cluster.device.main_memory().sustained(),
        );
        let trained = params.dense + params.expert;
        let gathered = if self.plan.stage() == 3 {
            let all = [
                params.dense + params.frozen,
                params.expert + params.frozen_expert,
            ];
            self.narrowed(all, params.ends).iter().sum()
        } else {
            0.0
        };
        let reduced = if training.forward_only { 0.0 } else { trained };
        [
            gathered * software.zero.gather_copy,
            reduced * software.zero.reduce_copy,
        ]
        .map(|bytes| (Bytes::new(bytes) / rate).value())
    }

    /// Gather of dense and expert weights over their shards: after their update, or before a pass (stage 3).
    pub(super) fn gather_time(&self, [dense, expert]: [f64; 2]) -> f64 {
        let weight = self.job.training.precision.activation().bytes();
        let forms = |replicas: &Replicas| {
            if self.plan.stage() == 3 {
                replicas.all_gather
            } else {
                replicas.delivery
            }
        };
        seconds(&forms(&self.links.dense), dense * weight)
            + seconds(&forms(&self.links.expert), expert * weight)
    }

    /// Sum of gradients over replicas: an all-reduce (ZeRO stage 0, and 1 where the software does not take
    /// sums of a part), or a reduce-scatter inside the ZeRO group and an all-reduce of the shard over the groups.
    pub(super) fn reduce_time(&self, dense: f64, expert: f64) -> f64 {
        let gradient = self.job.training.gradient.bytes();
        let one = |replicas: &Replicas, elements: f64| {
            let bytes = elements * gradient;
            let whole = self.plan.stage() == 1 && self.job.training.software.zero.reduces_whole;
            if self.plan.stage() == 0 || whole {
                seconds(&replicas.all_reduce, bytes)
            } else {
                seconds(&replicas.reduce_scatter, bytes)
                    + seconds(&replicas.outer_reduce, bytes / replicas.shards)
            }
        };
        one(&self.links.dense, dense) + one(&self.links.expert, expert)
    }

    /// Sum of gradients over the copies of a stage inside the pipeline, as many as `copies`: of the
    /// part that each replica holds between reduce-scatter and all-gather. An all-reduce moves
    /// `2 (c - 1) / c` of its buffer, `2 / 2` between the two that the ends span.
    pub(super) fn join_copies(&self, dense: f64, expert: f64, copies: f64) -> f64 {
        if copies < 2.0 {
            return 0.0;
        }
        let part = |elements: f64, replicas: &Replicas| elements / f64::from(replicas.size.max(1));
        let elements = part(dense, &self.links.dense) + part(expert, &self.links.expert);
        let bytes = elements * self.job.training.gradient.bytes();
        seconds(&self.links.ends, bytes * 2.0 * (copies - 1.0) / copies)
    }

    /// What the device waits in a step for the host to see to the tensors of `layers` layers one by one.
    pub(super) fn update_wait(&self, layers: f64) -> f64 {
        if self.plan.stage() > 0 {
            return 0.0; // shards are flat
        }
        layers
            * self
                .job
                .training
                .software
                .optimizer
                .layer_update_time
                .value()
    }

    /// First and last stage add up their gradients of a table that both use: one is tied to the other, or modules
    /// that predict further tokens embed them on the last stage.
    pub(super) fn embedding_sync(&self) -> f64 {
        let lent = |counts: &BlockCounts, role: BlockRole| -> f64 {
            let blocks = self.factors.blocks.iter().zip(&self.job.graph.blocks);
            let used = counts.iter().zip(blocks);
            let of_role = used.filter(|(_, (_, block))| block.role == role);
            of_role
                .map(|(count, (factor, _))| count * factor.weights.borrowed)
                .sum()
        };
        let first = lent(&self.chunks.first, BlockRole::Embedding);
        let table = first.max(lent(&self.chunks.last, BlockRole::Head));
        seconds(&self.links.ends, table * self.job.training.gradient.bytes())
    }
}

/// What `cover` does not hide of `traffic` that comes in `pieces`, one of which has no neighbour to
/// run under, and which takes the share `contention` of compute meanwhile.
#[inline(always)]
pub(super) fn exposed_traffic<L: Lane>(traffic: L, cover: L, pieces: f64, contention: f64) -> L {
    let share = 1.0 / pieces.max(1.0);
    let one = traffic * share;
    let slowed = traffic * contention;
    let rest = traffic - cover * (1.0 - share);
    one.larger(slowed).larger(rest)
}

fn seconds(forms: &Forms, bytes: f64) -> f64 {
    forms.time(Bytes::new(bytes)).value()
}

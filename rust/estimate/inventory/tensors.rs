//! Which tensors does a rank keep, when is each used, and what never leaves the device?

use super::steps::Steps;
use crate::estimate::recomputation_costs::kept_and_transient;
use crate::memory::placement::{Class, Fixed, Tensor, Update, Use};
use crate::memory::{
    FRAGMENTATION, bytes_saved_by_muon, frozen_bytes, host_optimizer_traffic, optimizer_bytes,
    weight_bytes,
};
use crate::schedule::{Operation, Work};
use crate::workload::{BlockRole, Training};

/// Weight elements of a group of blocks on one rank.
#[derive(Debug, Clone, Copy, Default)]
struct Elements {
    /// Trained, replicated over data ranks and inside experts.
    trained: [f64; 2],
    /// Not trained, likewise.
    frozen: [f64; 2],
    /// Of what is trained, matrices that the optimizer orthogonalises, likewise.
    matrices: [f64; 2],
}

impl Steps<'_, '_> {
    fn training(&self) -> &Training {
        &self.composer.job.training
    }

    fn elements(&self, stage: u32, group: usize) -> Elements {
        let mut sum = Elements::default();
        for (factor, ..) in self.blocks(stage, group) {
            sum.trained[0] += factor.dense(self.composer.plan.copies_table());
            sum.trained[1] += factor.weights.expert;
            sum.frozen[0] += factor.weights.frozen;
            sum.frozen[1] += factor.weights.frozen_expert;
            for (matrices, more) in sum.matrices.iter_mut().zip(factor.newton.elements) {
                *matrices += more;
            }
        }
        sum
    }

    /// Ranks over which a ZeRO stage cuts dense and expert state (Rajbhandari et al. 2020, table 1).
    fn shards(&self, stage: u8) -> [f64; 2] {
        let links = self.composer.links;
        if self.composer.plan.stage() >= stage {
            [links.dense.shards.max(1.0), links.expert.shards.max(1.0)]
        } else {
            [1.0; 2]
        }
    }

    /// Every tensor that may lie in another tier.
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        let mut tensors = Vec::new();
        for (place, &(stage, group)) in self.held.iter().enumerate() {
            let update = self.update + u32::try_from(place).unwrap_or(u32::MAX);
            self.weights(stage, group, update, &mut tensors);
            if !self.training().forward_only {
                self.state(stage, group, update, &mut tensors);
            }
        }
        for (index, operation) in self.order.iter().enumerate() {
            if operation.work == Work::Forward && !self.training().forward_only {
                self.activations(index, operation, &mut tensors);
            }
        }
        tensors.retain(|tensor| tensor.bytes > 0.0);
        tensors
    }

    fn weights(&self, stage: u32, group: usize, update: u32, tensors: &mut Vec<Tensor>) {
        let (training, elements) = (self.training(), self.elements(stage, group));
        let element = training.precision.activation().bytes();
        let (rule, shape) = (
            self.composer.plan.schedule.rule(),
            self.composer.plan.pipeline_shape(),
        );
        let count = u32::try_from(self.composer.plan.micro_batches(training.global_batch));
        let versions = rule.versions(shape, count.unwrap_or(u32::MAX), self.stage);
        let older = f64::from(versions) - 1.0;
        let ends =
            self.has(stage, group, BlockRole::Embedding) || self.has(stage, group, BlockRole::Head);
        let kinds = [
            (
                if ends {
                    Class::Embeddings
                } else {
                    Class::Weights
                },
                "weights",
            ),
            (Class::Experts, "experts"),
        ];
        let (zero, shards) = (self.composer.plan.stage(), self.shards(3));
        let links = self.composer.links;
        let shared = links.dense.shards.max(links.expert.shards) > 1.0;
        let narrow = training.software.zero.narrows(self.composer.plan.data);
        let each = weight_bytes(training, zero, shared, narrow)[usize::from(ends)];
        let still = frozen_bytes(training)[usize::from(ends)];
        for (kind, (class, name)) in kinds.into_iter().enumerate() {
            let (trained, frozen) = (elements.trained[kind], elements.frozen[kind]);
            let newest = (trained * each + frozen * still) / shards[kind];
            let reads = |(index, operation): (usize, &Operation)| {
                (operation.work != Work::Weight).then(|| Use {
                    at: self.instant(index, group),
                    read_bytes: newest,
                    written_bytes: 0.0,
                })
            };
            let mut uses: Vec<Use> = self.on(stage).filter_map(reads).collect();
            if trained > 0.0 && !training.forward_only {
                uses.push(Use {
                    at: update,
                    read_bytes: 0.0,
                    written_bytes: trained / shards[kind] * each,
                });
            }
            tensors.push(Tensor {
                name: format!("{} {name}", self.title(stage, group)),
                class,
                bytes: newest + older * trained / shards[kind] * element,
                from: 0,
                to: None,
                uses,
                whole: false,
                tiers: Vec::new(),
                update: None,
            });
        }
    }

    /// When gradients of so many bytes are added to and read by the update, and when the last are made.
    fn summed(&self, stage: u32, group: usize, update: u32, bytes: f64) -> (Vec<Use>, u32) {
        let makes = |operation: &Operation| {
            matches!(
                operation.work,
                Work::Backward | Work::Weight | Work::Local(_)
            )
        };
        let mut uses: Vec<Use> = Vec::new();
        for (index, _) in self.on(stage).filter(|(_, operation)| makes(operation)) {
            let before = uses.is_empty();
            uses.push(Use {
                at: self.instant(index, group),
                read_bytes: if before { 0.0 } else { bytes },
                written_bytes: bytes,
            });
        }
        let last = uses.last().map_or(0, |used| used.at);
        uses.push(Use {
            at: update,
            read_bytes: bytes,
            written_bytes: 0.0,
        });
        (uses, last)
    }

    /// Gradients, master weights and optimizer state.
    fn state(&self, stage: u32, group: usize, update: u32, tensors: &mut Vec<Tensor>) {
        let (training, elements) = (self.training(), self.elements(stage, group));
        let hidden = self.composer.job.graph.hidden as f64;
        let sum = |of: [f64; 2], by: [f64; 2]| of[0] / by[0] + of[1] / by[1];
        let gradients = sum(elements.trained, self.shards(2)) * training.gradient.bytes();
        let (uses, last) = self.summed(stage, group, update, gradients);
        let updated = sum(elements.trained, self.shards(1));
        let matrices = sum(elements.matrices, self.shards(1));
        let updated = updated - matrices;
        let each = optimizer_bytes(training, hidden);
        let bytes = updated * each;
        let title = self.title(stage, group);
        let late = self.composer.gradients_come_late();
        tensors.push(Tensor {
            name: format!("{title} gradients"),
            class: Class::Gradients,
            bytes: gradients,
            from: if late { uses[0].at } else { 0 },
            to: Some(self.instants()),
            uses,
            whole: false,
            tiers: Vec::new(),
            update: None,
        });
        let on_host = Update {
            at: update,
            out_at: last,
            out_bytes: updated * training.gradient.bytes(),
            back_bytes: updated * training.precision.activation().bytes(),
            touched_bytes: updated * host_optimizer_traffic(training, hidden),
        };
        let name = format!("{title} optimizer state");
        tensors.push(state(name, bytes, update, Some(on_host)));
        // what is orthogonalised is updated on the device, wherever it lies
        let name = format!("{title} momentum of matrices");
        tensors.push(state(
            name,
            matrices * (each - bytes_saved_by_muon(training)),
            update,
            None,
        ));
    }

    /// What a forward pass keeps for the backward pass of the same micro-batches.
    fn activations(&self, index: usize, forward: &Operation, tensors: &mut Vec<Tensor>) {
        let job = self.composer.job;
        let meets = |other: &Operation| {
            other.micro_batch < forward.micro_batch + forward.span
                && forward.micro_batch < other.micro_batch + other.span
        };
        let needs = |(_, other): &(usize, &Operation)| other.work != Work::Forward && meets(other);
        for group in 0..self.groups[forward.stage as usize].len() {
            let of = self.blocks(forward.stage, group);
            let bytes: f64 = of
                .map(|(factor, block, again)| kept_and_transient(job, again, factor, block.role).0)
                .sum();
            let bytes = bytes * f64::from(forward.span);
            let made = self.instant(index, group);
            let mut uses = vec![Use {
                at: made,
                read_bytes: 0.0,
                written_bytes: bytes,
            }];
            let readers = self.on(forward.stage).filter(needs);
            uses.extend(readers.map(|(later, _)| Use {
                at: self.instant(later, group),
                read_bytes: bytes,
                written_bytes: 0.0,
            }));
            let end = uses.last().map_or(made, |used| used.at) + 1;
            let title = self.title(forward.stage, group);
            tensors.push(Tensor {
                name: format!("{title} activations of micro-batch {}", forward.micro_batch),
                class: Class::Activations,
                bytes,
                from: made,
                to: Some(end),
                uses,
                whole: false,
                tiers: Vec::new(),
                update: None,
            });
        }
    }

    /// What never leaves the device: working sets, logits, gathered blocks, the allocator's loss on
    /// them, the driver's share.
    pub(super) fn fixed(&self) -> Vec<Fixed> {
        let count = self.instants() as usize;
        let job = self.composer.job;
        let [mut workspace, mut logits] = [vec![0.0; count], vec![0.0; count]];
        for (index, operation) in self.order.iter().enumerate() {
            for group in 0..self.groups[operation.stage as usize].len() {
                let at = self.instant(index, group) as usize;
                for (factor, block, policy) in self.blocks(operation.stage, group) {
                    let backward = operation.work != Work::Forward;
                    let again = if backward {
                        kept_and_transient(job, policy, factor, block.role).1
                    } else {
                        0.0
                    };
                    let span = f64::from(operation.span);
                    let bytes = (factor.activations.transient.value() + again) * span;
                    let line = if block.role == BlockRole::Head {
                        &mut logits
                    } else {
                        &mut workspace
                    };
                    line[at] = bytes.max(line[at]);
                }
            }
        }
        // lists of an update lie there for all groups at once
        let lists = self.composer.update_bytes(self.stage).value();
        for line in workspace.iter_mut().skip(self.update as usize) {
            *line = lists.max(*line);
        }
        let buckets = vec![self.buckets(); count];
        let lost = |at: usize| workspace[at] + logits[at] + buckets[at];
        let fragmentation = (0..count).map(|at| lost(at) * (FRAGMENTATION - 1.0));
        let reserve = job.cluster.device.reserved_memory.value();
        let lines = [
            (Class::Fragmentation, fragmentation.collect()),
            (Class::Workspace, workspace),
            (Class::Logits, logits),
            (Class::Buckets, buckets),
            (Class::Reserve, vec![reserve; count]),
        ];
        let fixed = lines
            .into_iter()
            .map(|(class, bytes)| Fixed { class, bytes });
        fixed.filter(|f| f.bytes.iter().any(|b| *b > 0.0)).collect()
    }

    /// Weights that are gathered and gradients that are not cut yet at one time: a block and its
    /// neighbour, a block (ZeRO stages 3 and 2); what stands in for gradients that products add up.
    fn buckets(&self) -> f64 {
        let (plan, training) = (self.composer.plan, self.training());
        let cuts = self.shards(plan.stage()).iter().any(|s| *s > 1.0);
        let blocks = || self.held.iter().flat_map(|&(s, g)| self.blocks(s, g));
        let trains = if training.forward_only { 0.0 } else { 1.0 };
        let trained =
            |f: &crate::estimate::BlockFactor| f.dense(plan.copies_table()) + f.weights.expert;
        let largest = blocks()
            .map(|(f, ..)| f.weights.local())
            .fold(0.0, f64::max);
        let unreduced = blocks().map(|(f, ..)| trained(f)).fold(0.0, f64::max);
        let element = training.precision.activation().bytes();
        let of = |stage: u8, bytes: f64| {
            if cuts && plan.stage() >= stage {
                bytes
            } else {
                0.0
            }
        };
        let stand_ins = |layer: bool| {
            let found = blocks().filter(|(_, b, _)| (b.role == BlockRole::Layer) == layer);
            found.map(|(f, ..)| f.weights.stand_ins).fold(0.0, f64::max)
        };
        of(3, 2.0 * largest * element)
            + of(2, unreduced * training.gradient.bytes() * trains)
            + (stand_ins(true) + stand_ins(false)) * element
    }

    fn title(&self, stage: u32, group: usize) -> String {
        let groups = &self.groups[stage as usize];
        let blocks = self.groups[..stage as usize]
            .iter()
            .flatten()
            .chain(&groups[..group]);
        let before: usize = blocks.map(Vec::len).sum();
        let size = groups[group].len();
        if size == 1 {
            format!("block {before}")
        } else {
            format!("blocks {before}-{}", before + size - 1)
        }
    }
}

/// State of the optimizer, read and written by its update, which the host makes in one way or not at all.
fn state(name: String, bytes: f64, at: u32, on_host: Option<Update>) -> Tensor {
    Tensor {
        name,
        class: Class::Optimizer,
        bytes,
        from: 0,
        to: None,
        uses: vec![Use {
            at,
            read_bytes: bytes,
            written_bytes: bytes,
        }],
        whole: false,
        tiers: Vec::new(),
        update: on_host,
    }
}

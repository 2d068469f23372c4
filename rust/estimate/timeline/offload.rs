//! Which copies run between device and host, and what waits for them?

use super::Category;
use super::builder::{OperationChain, Owner};
use super::layout::StepLayout;
use crate::estimate::chunk::StageBlock;
use crate::estimate::recomputation_costs::kept_and_transient;
use crate::solve::Dependency;
use crate::workload::BlockRole;

/// Engines of a rank towards its host.
const TO_HOST: usize = 0;
const FROM_HOST: usize = 1;
const HOST: usize = 2;

impl StepLayout<'_, '_> {
    /// Sends what a layer keeps to the host, behind its forward pass; nothing where it stays.
    pub(super) fn copy_to_host(
        &mut self,
        device: usize,
        (block, slice): (StageBlock, usize),
        after: &[Dependency],
    ) -> Option<Dependency> {
        let copy = self.kept_copy(block, slice);
        let task = (TO_HOST, copy, "activations to host");
        (copy > 0.0).then(|| self.host_task(device, task, after))
    }

    /// Fetches what a layer keeps, `ahead` of its backward pass, which waits for it.
    pub(super) fn copy_from_host(
        &mut self,
        device: usize,
        (block, slice): (StageBlock, usize),
        ahead: &[Dependency],
        chain: &mut OperationChain,
    ) {
        let copy = self.kept_copy(block, slice);
        if copy > 0.0 {
            let task = (FROM_HOST, copy, "activations from host");
            chain.after.push(self.host_task(device, task, ahead));
        }
    }

    /// Seconds of a copy of what a block keeps of a slice for its backward pass, one way.
    fn kept_copy(&self, StageBlock { block, again }: StageBlock, slice: usize) -> f64 {
        let composer = self.composer;
        let role = composer.job.graph.blocks[block].role;
        if composer.plan.offload_activations == 0 || role != BlockRole::Layer {
            return 0.0;
        }
        let factors = composer.factors;
        let factor = &factors.slices.get(slice).unwrap_or(factors).blocks[block];
        let (bytes, _) = kept_and_transient(composer.job, again, factor, role);
        composer.host_copy(bytes * composer.offloaded_share())
    }

    /// Sends the gradients of some blocks to the host that updates them.
    pub(super) fn copy_gradients_to_host(
        &mut self,
        device: usize,
        blocks: &[usize],
        after: &[Dependency],
    ) {
        if !self.composer.plan.offload_optimizer {
            return;
        }
        let [copy, _] = self.composer.host_swap(self.updated(blocks));
        let done = self.host_task(device, (TO_HOST, copy, "gradients to host"), after);
        self.devices[device].reductions.push(done);
    }

    /// Updates the blocks of a device in its host, one after another, and brings each one's weights
    /// back.
    pub(super) fn update_on_host(&mut self, device: usize, held: &[usize], after: &[Dependency]) {
        for &block in held {
            let elements = self.updated(&[block]);
            let update = self.composer.host_update(elements);
            let done = self.host_task(device, (HOST, update, "host optimizer"), after);
            let [_, copy] = self.composer.host_swap(elements);
            self.host_task(device, (FROM_HOST, copy, "weights from host"), &[done]);
        }
    }

    /// Elements of some blocks that a rank updates.
    fn updated(&self, blocks: &[usize]) -> f64 {
        let [dense, expert] = self.elements(blocks);
        self.composer.updated(dense, expert)
    }

    fn host_task(
        &mut self,
        device: usize,
        (engine, seconds, name): (usize, f64, &str),
        after: &[Dependency],
    ) -> Dependency {
        let label = self.state.labels.of(name);
        let engine = self.state.ranks[device].host[engine];
        let owner = Owner::of(Category::Host);
        self.state.add(engine, (seconds, label), owner, after)
    }
}

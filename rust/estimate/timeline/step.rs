//! Which traffic of weights and gradients runs under the passes, and what follows them?

use super::Category;
use super::builder::{OperationChain, Owner};
use super::layout::StepLayout;
use crate::estimate::newton_schulz::NewtonSchulz;
use crate::solve::Dependency;
use crate::workload::BlockRole;

impl StepLayout<'_, '_> {
    /// Gathers weights: a block's before each pass under ZeRO-3, one block ahead; once a step under ZeRO-1 and
    /// 2, before a block's `first` pass where gathers may run under passes, else all of a device at the start.
    pub(super) fn gather(
        &mut self,
        device: usize,
        block: usize,
        first: bool,
        chain: &mut OperationChain,
    ) {
        let plan = self.composer.plan;
        let once = matches!(plan.stage(), 1 | 2) && !self.composer.job.training.forward_only;
        let weights = &self.composer.factors.blocks[block].weights;
        let seconds = match (plan.stage(), plan.overlap_param_gather) {
            (3, _) => {
                let all = [
                    weights.dense + weights.frozen,
                    weights.expert + weights.frozen_expert,
                ];
                self.delivery(all, if self.is_layer(block) { 0.0 } else { all[0] })
            }
            (_, true) if once && first => self.part_of_delivery(device, block),
            (_, false) if once && !self.devices[device].gathered => {
                self.devices[device].gathered = true;
                self.whole_delivery(device)
            }
            _ => 0.0,
        };
        if seconds <= 0.0 {
            return;
        }
        let after: Vec<Dependency> = match (plan.stage(), plan.overlap_param_gather) {
            (3, true) => self.devices[device].recent[0].clone(),
            (3, false) => chain.after.clone(),
            _ => Vec::new(),
        };
        let task = (seconds, "weight gather");
        let done = self.state.traffic(device, self.replicas, task, &after);
        chain.after.push(done);
    }

    /// Seconds in which so many elements are gathered, `ends` of them in embedding and head.
    fn delivery(&self, elements: [f64; 2], ends: f64) -> f64 {
        let narrowed = self.composer.narrowed(elements, ends);
        self.composer.gather_time(narrowed)
    }

    /// Gather of all that a device has updated.
    fn whole_delivery(&self, device: usize) -> f64 {
        let blocks = self.placed_on(device);
        let ends = blocks.iter().filter(|&&block| !self.is_layer(block));
        let ends: Vec<usize> = ends.copied().collect();
        self.delivery(self.elements(&blocks), self.elements(&ends)[0])
    }

    /// Gather of a block before its first pass: of what owners of whole tensors broadcast of all blocks, the
    /// block's part.
    fn part_of_delivery(&self, device: usize, block: usize) -> f64 {
        let weights = &self.composer.factors.blocks[block].weights;
        let own = [weights.dense, weights.expert];
        if self.composer.job.training.software.zero.dealt_tensors == 0 {
            return self.delivery(own, if self.is_layer(block) { 0.0 } else { own[0] });
        }
        let all = self.elements(&self.placed_on(device));
        let share = own.iter().sum::<f64>() / all.iter().sum::<f64>().max(1.0);
        self.whole_delivery(device) * share
    }

    fn is_layer(&self, block: usize) -> bool {
        self.composer.job.graph.blocks[block].role == BlockRole::Layer
    }

    /// Blocks that a device runs in a step.
    fn placed_on(&self, device: usize) -> Vec<usize> {
        let mut stages: Vec<u32> = self.orders[device].iter().map(|o| o.stage).collect();
        stages.sort_unstable();
        stages.dedup();
        let placed = |&stage: &u32| self.sequences[stage as usize].iter().map(|p| p.block);
        stages.iter().flat_map(placed).collect()
    }

    /// Reduces a block's gradients: after each pass from ZeRO-2 on, else after the last one.
    pub(super) fn reduce(
        &mut self,
        device: usize,
        block: usize,
        last: bool,
        chain: &mut OperationChain,
    ) {
        let plan = self.composer.plan;
        let now = plan.stage() >= 2 || last && plan.overlap_grad_reduce;
        if !now {
            return;
        }
        let done = self.reduction(device, &[block], &chain.after);
        if plan.overlap_grad_reduce {
            self.devices[device].reductions.extend(done);
        } else {
            chain.after.extend(done);
        }
        if last && plan.overlap_grad_reduce {
            let ready = done.map_or_else(|| chain.after.clone(), |done| vec![done]);
            self.copy_gradients_to_host(device, &[block], &ready);
        }
    }

    /// Reduction of the gradients of some blocks.
    fn reduction(
        &mut self,
        device: usize,
        blocks: &[usize],
        after: &[Dependency],
    ) -> Option<Dependency> {
        let seconds = self
            .composer
            .reduce_time(self.elements(blocks)[0], self.elements(blocks)[1]);
        let task = (seconds, "gradient reduction");
        (seconds > 0.0).then(|| self.state.traffic(device, self.replicas, task, after))
    }

    /// Trained elements of some blocks, dense and expert.
    pub(super) fn elements(&self, blocks: &[usize]) -> [f64; 2] {
        let copied = self.composer.plan.copies_table();
        blocks.iter().fold([0.0, 0.0], |sum, &block| {
            let factor = &self.composer.factors.blocks[block];
            [
                sum[0] + factor.dense(copied),
                sum[1] + factor.weights.expert,
            ]
        })
    }

    /// What follows the last backward pass: reductions left, copies, tied embeddings, optimizer.
    pub(super) fn finish_step(&mut self) {
        if self.composer.job.training.forward_only {
            return;
        }
        let plan = self.composer.plan;
        for device in 0..self.devices.len() {
            let last = self.devices[device].last.clone();
            self.devices[device].reductions.extend(last.iter().copied());
            let held = self.placed_on(device);
            if plan.stage() < 2 && !plan.overlap_grad_reduce {
                let done = self.reduction(device, &held, &last);
                self.devices[device].reductions.extend(done);
            }
            if !plan.overlap_grad_reduce {
                let ready = self.devices[device].reductions.clone();
                self.copy_gradients_to_host(device, &held, &ready);
            }
        }
        self.join_copies();
        self.sum_tied();
        for device in 0..self.devices.len() {
            let held = self.placed_on(device);
            let after = std::mem::take(&mut self.devices[device].reductions);
            if plan.offload_optimizer {
                let seconds = self.composer.buffer_time(self.elements(&held));
                let owner = Owner::of(Category::Optimizer);
                let passed =
                    self.state
                        .kernel(device, (seconds, "passes over gradients"), owner, &after);
                self.update_on_host(device, &held, &[after, vec![passed]].concat());
                continue;
            }
            let mut newton = NewtonSchulz::default();
            for &block in &held {
                newton.add(&self.composer.factors.blocks[block].newton, 1.0);
            }
            let elements = self.elements(&held);
            let seconds = self.composer.optimizer_time(elements, &newton);
            let owner = Owner::of(Category::Optimizer);
            self.state
                .kernel(device, (seconds, "optimizer"), owner, &after);
        }
    }

    /// Adds up the gradients of a stage's copies inside the pipeline: all of its devices take part.
    fn join_copies(&mut self) {
        let plan = self.composer.plan;
        let copies = f64::from(plan.schedule.rule().copies(plan.pipeline_shape()));
        if copies < 2.0 {
            return;
        }
        let ready: Vec<Dependency> = self
            .devices
            .iter()
            .flat_map(|d| d.reductions.clone())
            .collect();
        for device in 0..self.devices.len() {
            let [dense, expert] = self.elements(&self.placed_on(device));
            let seconds = self.composer.join_copies(dense, expert, copies);
            let task = (seconds, "sum of a stage's copies");
            let done = self.state.traffic(device, self.replicas, task, &ready);
            self.devices[device].reductions.push(done);
        }
    }

    /// First and last stage add up their gradients of the shared table.
    fn sum_tied(&mut self) {
        let stages = self.devices.len();
        if !self.composer.plan.copies_table() {
            return;
        }
        let seconds = self.composer.embedding_sync();
        if seconds <= 0.0 {
            return;
        }
        let mut ready = self.devices[0].reductions.clone();
        ready.extend(self.devices[stages - 1].reductions.iter().copied());
        for device in [0, stages - 1] {
            let task = (seconds, "tied embedding sum");
            let done = self.state.traffic(device, self.replicas, task, &ready);
            self.devices[device].reductions.push(done);
        }
    }
}

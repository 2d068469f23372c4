//! What does a step come to where each layer's weights and state have a home among the tiers?

use super::rates::{Rates, Tier};
use super::report::{ByteUse, TierBytes};
use super::step::{Engine, Move, Pass, STAGED, Step, Update};
use super::work::{Layer, StepWork};
use crate::memory::footprint::FRAGMENTATION;

/// Passes ahead of its own at which a layer is read from drives, copied from the host and gathered
/// (Rajbhandari et al. 2021, section 6.2: operators i + 3, i + 2 and i + 1).
const AHEAD: [usize; 3] = [3, 2, 1];
/// Layers whose weights are on the device at once: the one that runs and the one behind it.
const GATHERED: f64 = 2.0;
/// Layers whose gradients are on the device at once: one that is made and one that leaves.
const LEAVING: f64 = 2.0;

/// Where a layer's weights, and its gradients and optimizer state, live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LayerTiers {
    pub(super) weights: Tier,
    pub(super) optimizer: Tier,
}

/// A placement of all layers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LayerPlacement {
    /// By layer.
    pub(super) homes: Vec<LayerTiers>,
    /// The first of the layers that use the same weights, by layer.
    pub(super) owners: Vec<usize>,
    /// Where kept activations go.
    pub(super) activations: Tier,
    /// True where each device holds all weights, not its part of them.
    pub(super) replicated: bool,
    /// Parts of a layer that run one behind the other, so that only one's weights are gathered.
    pub(super) tiles: f64,
    /// True where one rank's link brings a whole layer, which it then hands to the others.
    pub(super) one_link: bool,
    /// See `Step`.
    pub(super) serial: bool,
    pub(super) clipped: bool,
    pub(super) delay: usize,
}

impl LayerPlacement {
    /// The same home for all layers, and all that a scheme may change left plain.
    pub(super) fn all(work: &StepWork, home: LayerTiers) -> Self {
        Self {
            homes: vec![home; work.layers.len()],
            owners: (0..work.layers.len()).collect(),
            activations: Tier::Device,
            replicated: false,
            tiles: 1.0,
            one_link: false,
            serial: false,
            clipped: true,
            delay: 0,
        }
    }

    /// What lies where at the fullest moment.
    pub(super) fn memory_use(&self, work: &StepWork) -> TierBytes {
        let mut held = TierBytes::new(work);
        for (index, layer) in work.layers.iter().enumerate() {
            if self.owners[index] != index {
                continue;
            }
            let home = self.homes[index];
            let own = work.weights(layer, self.replicated);
            held.add(ByteUse::Weights, home.weights, own);
            if home.weights == Tier::Device {
                let trained = if self.replicated {
                    layer.whole
                } else {
                    layer.elements
                };
                let copies = trained * layer.copy_bytes;
                held.add(ByteUse::Weights, home.weights, copies);
            }
            let gradients = layer.elements * work.gradient_bytes;
            held.add(ByteUse::Gradients, home.optimizer, gradients);
            let state = layer.elements * work.state_bytes;
            held.add(ByteUse::Optimizer, home.optimizer, state);
        }
        self.hold_activations(work, &mut held);
        self.hold_buffers(work, &mut held);
        held
    }

    fn hold_activations(&self, work: &StepWork, held: &mut TierBytes) {
        let kept: f64 = work.layers.iter().map(|layer| layer.kept_bytes).sum();
        held.add(ByteUse::Activations, self.activations, kept);
        let mut device = work.working_bytes;
        if self.activations == Tier::Device {
            device += kept;
        } else {
            let passing = (GATHERED * work.most(|layer| layer.kept_bytes)).min(kept);
            held.add(ByteUse::Buffers, Tier::Device, passing);
            device += passing;
        }
        held.add(ByteUse::Workspace, Tier::Device, work.working_bytes);
        let lost = device * (FRAGMENTATION - 1.0);
        held.add(ByteUse::Fragmentation, Tier::Device, lost);
    }

    fn hold_buffers(&self, work: &StepWork, held: &mut TierBytes) {
        let (mut device, mut host) = (0.0, 0.0);
        let at = |of: fn(&LayerTiers) -> Tier, tier| self.homes.iter().any(|home| of(home) == tier);
        let away =
            |of: fn(&LayerTiers) -> Tier| self.homes.iter().any(|home| of(home) != Tier::Device);
        let (whole, part) = (work.most(|l| l.whole), work.most(|l| l.elements));
        let used = work.most(|layer| work.used_weights(layer));
        if away(|home| home.weights) || (work.shared() && !self.replicated) {
            device += GATHERED * used / self.tiles;
        }
        if away(|home| home.optimizer) || work.shared() {
            device += LEAVING * whole * work.gradient_bytes / self.tiles;
        }
        if at(|home| home.weights, Tier::Drive) {
            host += AHEAD[0] as f64 * work.most(|layer| work.weights(layer, false));
        }
        if at(|home| home.optimizer, Tier::Drive) {
            host += STAGED as f64 * part * (work.state_bytes + work.gradient_bytes);
        }
        held.add(ByteUse::Buffers, Tier::Device, device);
        held.add(
            ByteUse::Fragmentation,
            Tier::Device,
            device * (FRAGMENTATION - 1.0),
        );
        held.add(ByteUse::Buffers, Tier::Host, host);
    }

    /// The step's passes and updates.
    pub(super) fn lay_out(&self, work: &StepWork, rates: &Rates) -> Step {
        let lay = StepLayout {
            placed: self,
            work,
            rates,
        };
        let mut step = Step {
            serial: self.serial,
            clipped: self.clipped,
            delay: self.delay,
            ..Step::default()
        };
        for _ in 0..work.micro_batches {
            lay.micro_batch(&mut step);
        }
        lay.updates(&mut step);
        step
    }
}

/// What laying out reads.
struct StepLayout<'a> {
    placed: &'a LayerPlacement,
    work: &'a StepWork,
    rates: &'a Rates,
}

impl StepLayout<'_> {
    fn micro_batch(&self, step: &mut Step) {
        let (count, base) = (self.work.layers.len(), step.passes.len());
        for layer in 0..count {
            let after = self.store_activations(&self.work.layers[layer]);
            step.passes.push(Pass {
                layer,
                backward: false,
                seconds: self.work.layers[layer].forward_s,
                before: self.weights(step, layer, 0.0),
                after,
                needs: None,
            });
        }
        for layer in (0..count).rev() {
            let of = &self.work.layers[layer];
            let kept = if self.placed.activations == Tier::Device {
                0.0
            } else {
                of.kept_bytes
            };
            step.passes.push(Pass {
                layer,
                backward: true,
                seconds: of.backward_s,
                before: self.weights(step, layer, kept),
                after: self.gradients(layer),
                needs: (kept > 0.0).then_some(base + layer),
            });
        }
    }

    /// What brings a layer's weights, unless the pass before used the same ones, and `kept` bytes.
    fn weights(&self, step: &Step, layer: usize, kept: f64) -> [Move; 3] {
        let (placed, rates, of) = (self.placed, self.rates, &self.work.layers[layer]);
        let home = placed.homes[layer].weights;
        let before = step.passes.last().map(|pass| placed.owners[pass.layer]);
        let there = before == Some(placed.owners[layer]);
        let own = self.work.weights(of, false);
        let bytes = if there { 0.0 } else { own };
        let at = |from: Tier, bytes: f64| if home >= from { bytes } else { 0.0 };
        let linked = if placed.one_link {
            self.work.weights(of, true) / own.max(f64::MIN_POSITIVE)
        } else {
            1.0
        };
        let back = if placed.activations == Tier::Drive {
            kept
        } else {
            0.0
        };
        let drive = (at(Tier::Drive, bytes) + back) * rates.from_drive;
        let host = (at(Tier::Host, bytes) * linked + kept) * rates.from_host;
        let gathers = !there && !placed.replicated;
        [
            Move::on(Engine::FromDrive, drive, AHEAD[0]),
            Move::on(Engine::FromHost, host, AHEAD[1]),
            Move::on(
                Engine::Fabric,
                if gathers { of.gather_s } else { 0.0 },
                AHEAD[2],
            ),
        ]
    }

    fn store_activations(&self, layer: &Layer) -> [Move; 3] {
        let at = |tier| {
            if self.placed.activations >= tier {
                layer.kept_bytes
            } else {
                0.0
            }
        };
        [
            Move::NONE,
            Move::on(Engine::ToHost, at(Tier::Host) * self.rates.to_host, 0),
            Move::on(Engine::ToDrive, at(Tier::Drive) * self.rates.to_drive, 0),
        ]
    }

    /// Gradients leave behind the last of the layers that share them.
    fn gradients(&self, layer: usize) -> [Move; 3] {
        let of = &self.work.layers[layer];
        if self.placed.owners[layer] != layer {
            return [Move::NONE; 3];
        }
        let home = self.placed.homes[layer].optimizer;
        let bytes = of.elements * self.work.gradient_bytes;
        let at = |tier, pace: f64| if home >= tier { bytes * pace } else { 0.0 };
        [
            Move::on(Engine::Fabric, of.reduce_s, 0),
            Move::on(Engine::ToHost, at(Tier::Host, self.rates.to_host), 0),
            Move::on(Engine::ToDrive, at(Tier::Drive, self.rates.to_drive), 0),
        ]
    }

    fn updates(&self, step: &mut Step) {
        let last = step.passes.len();
        for layer in 0..self.work.layers.len() {
            if self.placed.owners[layer] == layer {
                // backward passes end with layer 0
                step.updates.push(self.update(layer, last - 1 - layer));
            }
        }
    }

    fn update(&self, layer: usize, pass: usize) -> Update {
        let (work, rates, of) = (self.work, self.rates, &self.work.layers[layer]);
        let LayerTiers { weights, optimizer } = self.placed.homes[layer];
        let state = work.state_bytes + work.gradient_bytes;
        let on = |there: bool, seconds: f64| if there { seconds } else { 0.0 };
        let (engine, one) = if optimizer == Tier::Device {
            (Engine::Compute, work.device_update_s)
        } else {
            (Engine::Host, work.host_traffic * rates.host_memory)
        };
        let kept = on(optimizer == Tier::Drive, work.state_bytes);
        let stored = kept + on(weights == Tier::Drive, work.weight_bytes);
        let returns = weights == Tier::Device && optimizer != Tier::Device;
        Update {
            layer,
            read: on(
                optimizer == Tier::Drive,
                of.elements * state * rates.from_drive,
            ),
            engine,
            seconds: of.elements * one,
            write: of.elements * stored * rates.to_drive,
            back: on(returns, of.elements * work.weight_bytes * rates.from_host),
            gather: on(self.placed.replicated, of.gather_s),
            pass,
            ..Update::none(engine)
        }
    }
}

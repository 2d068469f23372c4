//! What does one device do and hold in a step that offloads, before anything is placed?

use crate::error::amounts::{count, not_negative};
use crate::error::{Error, Result};

/// Most layers and most passes of a step.
const MOST: u64 = 1 << 20;

/// A block of the model as one device runs it; passes are those of one micro-batch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Layer {
    /// Forward pass, seconds.
    pub forward_s: f64,
    /// Backward pass with what is recomputed.
    pub backward_s: f64,
    /// Gather of its weights from the ranks that share them.
    pub gather_s: f64,
    /// Reduction of its gradients over those ranks.
    pub reduce_s: f64,
    /// Trained elements whose weights and state this device (or its part of the host) keeps.
    pub elements: f64,
    /// Elements that its passes need on the device: its own and those that are gathered.
    pub whole: f64,
    /// Elements without gradients and state (adapters' base, frozen layers) that this device keeps.
    pub frozen: f64,
    /// The same of those that its passes need on the device.
    pub frozen_whole: f64,
    /// Bytes of one of them.
    pub frozen_element_bytes: f64,
    /// Bytes beside each trained weight on the device: a scaled copy in a narrower format.
    pub copy_bytes: f64,
    /// Kept for the backward pass, bytes.
    pub kept_bytes: f64,
    /// True for a layer among like ones, false for embedding and head.
    pub repeats: bool,
}

/// A trained tensor of the whole model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tensor {
    /// Its layer, as a place in `StepWork::layers`.
    pub layer: usize,
    /// Its elements.
    pub elements: f64,
}

/// A step of one device.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepWork {
    /// Blocks along the model.
    pub layers: Vec<Layer>,
    /// Tensors in the order in which passes use them, for schemes that lay them out.
    pub tensors: Vec<Tensor>,
    /// Ranks that share weights and state.
    pub shards: u32,
    /// Micro-batches, each of which runs through the whole model.
    pub micro_batches: u64,
    /// What passes hold while they run, bytes.
    pub working_bytes: f64,
    /// Driver context and communicator buffers, bytes.
    pub reserve_bytes: f64,
    /// Bytes of a weight, of a gradient, and of an element's master weight and moments.
    pub weight_bytes: f64,
    /// See `weight_bytes`.
    pub gradient_bytes: f64,
    /// See `weight_bytes`.
    pub state_bytes: f64,
    /// Bytes of host memory that the update of an element moves, where the host updates.
    pub host_traffic: f64,
    /// Seconds of the update of an element, where the device updates.
    pub device_update_s: f64,
}

impl StepWork {
    /// Elements that this device (or its part of the host) keeps.
    pub fn elements(&self) -> f64 {
        self.layers.iter().map(|layer| layer.elements).sum()
    }

    /// Bytes of a layer's weights that this device keeps, all of them where it holds them `whole`.
    pub(super) fn weights(&self, layer: &Layer, whole: bool) -> f64 {
        let [trained, frozen] = if whole {
            [layer.whole, layer.frozen_whole]
        } else {
            [layer.elements, layer.frozen]
        };
        trained * self.weight_bytes + frozen * layer.frozen_element_bytes
    }

    /// Bytes of a layer's weights on the device while its passes run.
    pub(super) fn used_weights(&self, layer: &Layer) -> f64 {
        self.weights(layer, true) + layer.whole * layer.copy_bytes
    }

    /// The most of any layer.
    pub(super) fn most(&self, of: impl Fn(&Layer) -> f64) -> f64 {
        self.layers.iter().map(of).fold(0.0, f64::max)
    }

    /// Seconds of all passes of a step.
    pub(super) fn passes_s(&self) -> f64 {
        let once = self.layers.iter().map(|l| l.forward_s + l.backward_s);
        once.sum::<f64>() * self.micro_batches as f64
    }

    /// True where ranks share weights, so that passes must gather them.
    pub(super) fn shared(&self) -> bool {
        self.layers
            .iter()
            .any(|layer| layer.whole > layer.elements || layer.frozen_whole > layer.frozen)
    }

    pub(super) fn check(&self) -> Result<()> {
        let layers = self.layers.len() as u64;
        count("layers", layers, 1, MOST)?;
        count("micro_batches", self.micro_batches, 1, MOST)?;
        let passes = layers.saturating_mul(self.micro_batches);
        if passes > MOST {
            let allowed = format!("at most {MOST} of all micro-batches");
            return Err(Error::invalid("passes", passes, allowed));
        }
        for (index, layer) in self.layers.iter().enumerate() {
            for (name, amount) in [
                ("forward_s", layer.forward_s),
                ("backward_s", layer.backward_s),
                ("gather_s", layer.gather_s),
                ("reduce_s", layer.reduce_s),
                ("elements", layer.elements),
                ("whole", layer.whole),
                ("frozen", layer.frozen),
                ("frozen_whole", layer.frozen_whole),
                ("frozen_element_bytes", layer.frozen_element_bytes),
                ("copy_bytes", layer.copy_bytes),
                ("kept_bytes", layer.kept_bytes),
            ] {
                not_negative(&format!("layers[{index}].{name}"), amount)?;
            }
        }
        if let Some(lost) = self.tensors.iter().find(|t| t.layer as u64 >= layers) {
            let allowed = format!("a number below {layers}");
            return Err(Error::invalid("tensors.layer", lost.layer, allowed));
        }
        for (name, amount) in [
            ("working_bytes", self.working_bytes),
            ("reserve_bytes", self.reserve_bytes),
            ("weight_bytes", self.weight_bytes),
            ("gradient_bytes", self.gradient_bytes),
            ("state_bytes", self.state_bytes),
            ("host_traffic", self.host_traffic),
            ("device_update_s", self.device_update_s),
        ] {
            not_negative(name, amount)?;
        }
        Ok(())
    }
}

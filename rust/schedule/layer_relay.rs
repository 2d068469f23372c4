//! When does a step end on one device whose weights come from the host a layer at a time (L2L)?

use crate::error::amounts::{count, not_negative};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most layers and buffers.
const MOST: usize = 1 << 20;

/// A model that runs layer by layer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Layers along the model.
    pub layers: Vec<Layer>,
    /// Micro-batches that each layer runs before the next layer comes.
    pub micro_batches: u32,
    /// Layers whose weights the device holds at once, 1 or more: with two, one is loaded while
    /// another computes.
    #[serde(default = "two")]
    pub buffers: usize,
    /// True where the inputs of layers, kept for the backward pass, go to the host meanwhile.
    #[serde(default)]
    pub offload_inputs: bool,
}

/// A layer; passes and inputs are those of one micro-batch.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Forward pass, seconds.
    pub forward_s: f64,
    /// Backward pass, the forward pass run anew included: only the layer's input was kept.
    pub backward_s: f64,
    /// Weights from the host.
    #[serde(default)]
    pub load_s: f64,
    /// Gradients to the host.
    #[serde(default)]
    pub store_s: f64,
    /// Update of the weights on the host.
    #[serde(default)]
    pub optimizer_s: f64,
    /// The layer's input to the host, or from it; read where inputs are offloaded.
    #[serde(default)]
    pub input_s: f64,
    /// Weights.
    #[serde(default)]
    pub weight_bytes: f64,
    /// Gradients.
    #[serde(default)]
    pub gradient_bytes: f64,
    /// The layer's input.
    #[serde(default)]
    pub input_bytes: f64,
    /// What its passes hold while they run.
    #[serde(default)]
    pub working_bytes: f64,
}

/// A step of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LayerRelayStep {
    /// Until the host has updated the last layer.
    pub step_time_s: f64,
    /// Until the device has run the last backward pass.
    pub device_s: f64,
    /// Passes alone.
    pub compute_s: f64,
    /// The link from the host is busy.
    pub load_s: f64,
    /// The link to the host is busy.
    pub store_s: f64,
    /// The host is busy.
    pub optimizer_s: f64,
    /// What no order on these four could beat: the busiest of them.
    pub lower_bound_s: f64,
    /// What the device holds at most.
    pub device_bytes: f64,
    /// Of that, kept inputs.
    pub input_bytes: f64,
}

fn two() -> usize {
    2
}

/// One step, exactly (Pudipeddi et al. 2020).
///
/// Layers `0..N` go forward and come back, each over all `m` micro-batches; `k` buffers. Weights
/// come over one direction of the host link, gradients and kept inputs leave over the other, and the
/// host updates one layer at a time. Ends, in seconds, with `x-` for the one before of its sort:
///
/// ```text
/// L_j = max(L-, F_(j-k)) + load_j                        weights of j, forward
/// F_j = max(F-, L_j, I_(j-k)) + m forward_j              forward pass
/// I_j = max(I-, F_j) + m input_j                         kept inputs leave, if offloaded, j < N - k
/// L'_i = max(L-, B_(i-k), I_l) + load_l + m input_l      weights of l = N-1-i, backward, i >= k
/// B_i = max(B-, L'_i, S_(i-k)) + m backward_l            backward pass
/// S_i = max(S-, B_i) + store_l                           gradients leave
/// U_i = max(U-, S_i) + optimizer_l                       update
/// ```
///
/// The last `k` layers are still there when the way back begins. The next step cannot begin before
/// the last update: it is that of the layer that goes first.
pub fn layer_relay(request: &Request) -> Result<LayerRelayStep> {
    check(request)?;
    let ends = EngineEnds::run(request);
    let many = f64::from(request.micro_batches);
    let sum = |of: fn(&Layer) -> f64| request.layers.iter().map(of).sum::<f64>();
    let gone = request.layers.len() - kept(request);
    let again: f64 = request.layers[..gone].iter().map(|l| l.load_s).sum();
    let inputs = if request.offload_inputs {
        many * request.layers[..gone]
            .iter()
            .map(|l| l.input_s)
            .sum::<f64>()
    } else {
        0.0
    };
    let compute = many * sum(|l| l.forward_s + l.backward_s);
    let load = sum(|l| l.load_s) + again + inputs;
    let store = sum(|l| l.store_s) + inputs;
    let optimizer = sum(|l| l.optimizer_s);
    let (device_bytes, input_bytes) = held(request);
    Ok(LayerRelayStep {
        step_time_s: ends.update,
        device_s: ends.pass,
        compute_s: compute,
        load_s: load,
        store_s: store,
        optimizer_s: optimizer,
        lower_bound_s: compute.max(load).max(store).max(optimizer),
        device_bytes,
        input_bytes,
    })
}

/// Layers that are still on the device when the way back begins.
fn kept(request: &Request) -> usize {
    request.buffers.min(request.layers.len())
}

/// When each of the four is free, and the ends that later operations look back at.
#[derive(Default)]
struct EngineEnds {
    load: f64,
    pass: f64,
    store: f64,
    update: f64,
    /// Of forward passes by layer, then of backward passes from the last layer on.
    forward: Vec<f64>,
    backward: Vec<f64>,
    /// Of inputs that left, by layer, and of gradients from the last layer on.
    inputs: Vec<f64>,
    gradients: Vec<f64>,
}

impl EngineEnds {
    fn run(request: &Request) -> Self {
        let mut ends = Self::default();
        let gone = request.layers.len() - kept(request);
        for (index, layer) in request.layers.iter().enumerate() {
            let leaves = request.offload_inputs && index < gone;
            ends.forward_layer(request, layer, leaves);
        }
        for index in (0..request.layers.len()).rev() {
            ends.backward_layer(request, index, index < gone);
        }
        ends
    }

    fn forward_layer(&mut self, request: &Request, layer: &Layer, leaves: bool) {
        let many = f64::from(request.micro_batches);
        let before = |ends: &[f64]| {
            let at = self.forward.len().checked_sub(request.buffers);
            at.and_then(|at| ends.get(at)).copied().unwrap_or(0.0)
        };
        let (room, left) = (before(&self.forward), before(&self.inputs));
        self.load = self.load.max(room) + layer.load_s;
        self.pass = self.pass.max(self.load).max(left) + many * layer.forward_s;
        self.forward.push(self.pass);
        if leaves {
            self.store = self.store.max(self.pass) + many * layer.input_s;
        }
        // where nothing leaves nobody waits for it
        self.inputs.push(if leaves { self.store } else { 0.0 });
    }

    fn backward_layer(&mut self, request: &Request, index: usize, was_gone: bool) {
        let many = f64::from(request.micro_batches);
        let layer = &request.layers[index];
        let before = |ends: &[f64]| {
            let at = self.backward.len().checked_sub(request.buffers);
            at.and_then(|at| ends.get(at)).copied().unwrap_or(0.0)
        };
        let (room, left) = (before(&self.backward), before(&self.gradients));
        if was_gone {
            let input = if request.offload_inputs {
                many * layer.input_s
            } else {
                0.0
            };
            let there = self.inputs[index].max(room);
            self.load = self.load.max(there) + layer.load_s + input;
        }
        let ready = if was_gone { self.load } else { 0.0 };
        self.pass = self.pass.max(ready).max(left) + many * layer.backward_s;
        self.backward.push(self.pass);
        self.store = self.store.max(self.pass) + layer.store_s;
        self.gradients.push(self.store);
        self.update = self.update.max(self.store) + layer.optimizer_s;
    }
}

/// Bytes on the device at most, and kept inputs among them.
///
/// ```text
/// M = max weights of k layers + max gradients of k layers + max working set + inputs
/// inputs: m of every layer; of k + 1 layers at most where they are offloaded
/// ```
fn held(request: &Request) -> (f64, f64) {
    let layers = &request.layers;
    let most = |width: usize, of: fn(&Layer) -> f64| {
        let windows = layers.windows(width.clamp(1, layers.len()));
        let sums = windows.map(|window| window.iter().map(of).sum::<f64>());
        sums.fold(0.0, f64::max)
    };
    let width = if request.offload_inputs {
        request.buffers.saturating_add(1)
    } else {
        layers.len()
    };
    let inputs = f64::from(request.micro_batches) * most(width, |layer| layer.input_bytes);
    let weights = most(request.buffers, |layer| layer.weight_bytes);
    let gradients = most(request.buffers, |layer| layer.gradient_bytes);
    let working = most(1, |layer| layer.working_bytes);
    (weights + gradients + working + inputs, inputs)
}

fn check(request: &Request) -> Result<()> {
    count("layers", request.layers.len(), 1, MOST)?;
    count("buffers", request.buffers, 1, MOST)?;
    if request.micro_batches == 0 {
        return Err(Error::invalid("micro_batches", 0, "1 or more"));
    }
    for (index, layer) in request.layers.iter().enumerate() {
        let amounts = [
            ("forward_s", layer.forward_s),
            ("backward_s", layer.backward_s),
            ("load_s", layer.load_s),
            ("store_s", layer.store_s),
            ("optimizer_s", layer.optimizer_s),
            ("input_s", layer.input_s),
            ("weight_bytes", layer.weight_bytes),
            ("gradient_bytes", layer.gradient_bytes),
            ("input_bytes", layer.input_bytes),
            ("working_bytes", layer.working_bytes),
        ];
        for (name, amount) in amounts {
            not_negative(&format!("layers[{index}].{name}"), amount)?;
        }
    }
    Ok(())
}

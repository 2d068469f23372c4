//! What does a range of layers cost on a device, and what does it hold there?

use super::{Device, Layer, Link, Request};
use std::ops::Range;

/// Sums over prefixes of the layers, so that any range costs two look-ups.
pub(super) struct Costs<'a> {
    pub(super) request: &'a Request,
    /// How many layers.
    pub(super) layers: usize,
    /// How many devices.
    pub(super) devices: usize,
    /// Seconds of all passes by kind of device, from the front.
    work: Vec<Vec<f64>>,
    state: Vec<f64>,
    activation: Vec<f64>,
}

impl<'a> Costs<'a> {
    pub(super) fn new(request: &'a Request) -> Self {
        let kinds = request.layers[0].forward_s.len();
        let work = |kind: usize| {
            summed(&request.layers, |layer| {
                let weight = layer.weight_s.get(kind).copied().unwrap_or(0.0);
                layer.forward_s[kind] + layer.backward_s[kind] + weight
            })
        };
        Self {
            request,
            layers: request.layers.len(),
            devices: request.devices.len(),
            work: (0..kinds).map(work).collect(),
            state: summed(&request.layers, |layer| layer.state_bytes),
            activation: summed(&request.layers, |layer| layer.activation_bytes),
        }
    }

    pub(super) fn device(&self, device: usize) -> &Device {
        &self.request.devices[device]
    }

    /// Seconds of all passes of a range for one micro-batch.
    pub(super) fn seconds(&self, device: usize, range: &Range<usize>) -> f64 {
        let device = self.device(device);
        let sums = &self.work[device.kind];
        (sums[range.end] - sums[range.start]).max(0.0) / device.speed
    }

    /// Seconds of the whole model on a device: how slow it is.
    pub(super) fn pace(&self, device: usize) -> f64 {
        self.seconds(device, &(0..self.layers))
    }

    /// Micro-batches in flight on a stage: `min(p - s, m)`.
    pub(super) fn in_flight(&self, stage: usize) -> u32 {
        let behind = u32::try_from(self.devices - stage).unwrap_or(u32::MAX);
        behind.min(self.request.micro_batches)
    }

    /// Bytes that a range holds on a stage.
    pub(super) fn held(&self, stage: usize, range: &Range<usize>) -> f64 {
        let of = |sums: &[f64]| (sums[range.end] - sums[range.start]).max(0.0);
        of(&self.state) + f64::from(self.in_flight(stage)) * of(&self.activation)
    }

    /// True where a range fits a device that stands at `stage`.
    pub(super) fn fits(&self, device: usize, stage: usize, range: &Range<usize>) -> bool {
        // sums over prefixes round: what just fits must not fail by that
        let capacity = self.device(device).capacity_bytes;
        capacity.is_none_or(|capacity| self.held(stage, range) <= capacity * (1.0 + 1e-12))
    }

    /// True where each pair of devices has a link of its own.
    pub(super) fn by_pair(&self) -> bool {
        self.devices > 1 && self.request.links.len() == self.devices * self.devices
    }

    /// Seconds of a send into `stage`, whose first layer is `layer`, and of its gradient back: their mean,
    /// since all that follows depends on their sum alone. Nothing into the first stage.
    pub(super) fn hop(&self, stage: usize, pair: (Option<usize>, usize), layer: usize) -> f64 {
        let (Some(before), device) = pair else {
            return 0.0;
        };
        let links = &self.request.links;
        let bytes = self.request.layers[layer - 1].output_bytes;
        let send = |at: usize| links.get(at).map_or(0.0, |link| link.seconds(bytes));
        if self.by_pair() {
            let there = send(before * self.devices + device);
            return there.midpoint(send(device * self.devices + before));
        }
        send(stage - 1)
    }

    /// True where two devices may stand for each other.
    pub(super) fn alike(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.device(a), self.device(b));
        let same = a.kind == b.kind && a.speed.total_cmp(&b.speed).is_eq();
        same && a.capacity_bytes == b.capacity_bytes && !self.by_pair()
    }

    /// A time that no partition beats in any order: every layer on the device that is fastest for
    /// it, and all micro-batches shared by all devices without a rest.
    pub(super) fn bound_in_any_order(&self) -> f64 {
        let fastest = |layer: usize| {
            let of = |device| self.seconds(device, &(layer..layer + 1));
            (0..self.devices).map(of).fold(f64::INFINITY, f64::min)
        };
        let once: f64 = (0..self.layers).map(fastest).sum();
        let shared = once / self.devices as f64;
        once.max(f64::from(self.request.micro_batches) * shared)
    }
}

impl Link {
    /// Seconds of so many bytes.
    pub(in crate::schedule) fn seconds(&self, bytes: f64) -> f64 {
        let sent = self.bandwidth_bytes_per_s.map_or(0.0, |rate| bytes / rate);
        sent + self.latency_s
    }
}

/// Sums of the first layers: none, one, two and so on.
fn summed(layers: &[Layer], of: impl Fn(&Layer) -> f64) -> Vec<f64> {
    let mut sum = 0.0;
    let rest = layers.iter().map(|layer| {
        sum += of(layer);
        sum
    });
    std::iter::once(0.0).chain(rest).collect()
}

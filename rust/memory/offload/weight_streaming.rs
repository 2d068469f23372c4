//! What does a step come to where weights stream past a wafer that holds activations alone?

use super::layer_placement::{LayerPlacement, LayerTiers};
use super::rates::{Rates, Tier};
use super::report::{OffloadReport, TierBytes};
use super::work::StepWork;
use crate::error::{Error, Result};
use serde::Deserialize;

/// Weight streaming (Cerebras 2021, weight streaming white paper): `MemoryX` holds weights and
/// optimizer state, sends each layer's weights for the forward and for the backward pass, takes its
/// gradients and updates at the pace of the stream. `SwarmX` spreads weights over several systems
/// and adds their gradients, so that the stream takes as long for many as for one.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WeightStreaming {
    /// Share of the weights that are kept; the others are zero and neither stored nor sent.
    pub density: f64,
    /// Bytes that say where a kept weight stands, sent and stored with it.
    pub index_bytes: f64,
    /// True where zeros are not multiplied either.
    pub skips_zeros: bool,
}

impl Default for WeightStreaming {
    fn default() -> Self {
        Self {
            density: 1.0,
            index_bytes: 0.0,
            skips_zeros: true,
        }
    }
}

impl WeightStreaming {
    fn check(self) -> Result<()> {
        if !(self.density > 0.0 && self.density <= 1.0) {
            let allowed = "a share above 0, up to 1";
            return Err(Error::invalid("density", self.density, allowed));
        }
        crate::error::amounts::not_negative("index_bytes", self.index_bytes)?;
        Ok(())
    }

    /// The work with zeros left out and every element in the stream. The ranks' collectives are
    /// those of `SwarmX`, which adds no time to the stream.
    fn sparse(self, work: &StepWork) -> StepWork {
        let mut sparse = work.clone();
        sparse.weight_bytes += self.index_bytes;
        sparse.gradient_bytes += self.index_bytes;
        // MemoryX updates as gradients come in, at their pace
        sparse.host_traffic = 0.0;
        for layer in &mut sparse.layers {
            layer.elements = layer.whole * self.density;
            layer.whole = layer.elements;
            layer.frozen = layer.frozen_whole * self.density;
            layer.frozen_whole = layer.frozen;
            layer.frozen_element_bytes += self.index_bytes;
            (layer.gather_s, layer.reduce_s) = (0.0, 0.0);
            if self.skips_zeros {
                layer.forward_s *= self.density;
                layer.backward_s *= self.density;
            }
        }
        sparse
    }

    fn placement(work: &StepWork) -> LayerPlacement {
        let home = LayerTiers {
            weights: Tier::Host,
            optimizer: Tier::Host,
        };
        LayerPlacement {
            clipped: false,
            // what passes is used and dropped: no layer is ever whole on the wafer
            tiles: f64::INFINITY,
            ..LayerPlacement::all(work, home)
        }
    }

    pub(super) fn memory_use(self, work: &StepWork) -> Result<TierBytes> {
        self.check()?;
        let sparse = self.sparse(work);
        Ok(Self::placement(&sparse).memory_use(&sparse))
    }

    pub(super) fn run(self, work: &StepWork, rates: &Rates) -> Result<OffloadReport> {
        self.check()?;
        let sparse = self.sparse(work);
        let placed = Self::placement(&sparse);
        let ran = placed.lay_out(&sparse, rates).run(1)?;
        Ok(OffloadReport::new(
            &sparse,
            rates,
            &placed.memory_use(&sparse),
            ran,
        ))
    }
}

/// A step of `n` like layers on one system, one micro-batch, where a pass is never shorter than its
/// stream: `w + n (f + b) + g`, weights in `w`, passes `f` and `b`, gradients out `g`, seconds.
///
/// Where streams are longer they set the pace: `(2 n - 1) w + b + g` with passes and gradients
/// shorter than `w`; the last layer's weights serve both of its passes.
pub fn closed_form(layers: f64, [w, f, b, g]: [f64; 4]) -> f64 {
    let (compute, stream) = (layers * (f + b), (2.0 * layers - 1.0) * w);
    (w + compute + g).max(stream + b + g)
}

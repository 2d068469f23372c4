//! What does training software do beside a model's products: passes over memory, launches, gathers?

use crate::error::{Error, Result};
use crate::units::Seconds;
use serde::{Deserialize, Serialize};

/// Largest number of passes, bytes or collectives that is taken for real.
const MOST: f64 = 1000.0;

/// A software profile: facts of a training program that are no choice of a plan.
///
/// Passes are counted in tensors of the width that they go over, in the activation format, forward
/// and backward. The default is fused kernels, launched ahead of the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Software {
    /// Name of the profile.
    pub name: String,
    /// Passes of a norm. Fused: reads input, writes output; backward reads output gradient and input
    /// and writes the input gradient, and reads both again for the gains' gradient, which sums over
    /// tokens and not over columns (a kernel of its own).
    pub norm: [f64; 2],
    /// Passes of a rotation of queries and keys. Fused: reads and writes each way.
    pub rotary: [f64; 2],
    /// Passes of a plain activation. Fused: reads, writes; reads gradient and input, writes gradient.
    pub activation: [f64; 2],
    /// Passes of a gated activation over its output width. Fused: reads two halves, writes one; reads
    /// gradient and two halves, writes two gradients.
    pub gated_activation: [f64; 2],
    /// Passes over the scores of unfused attention between its products, dropout left out. Fused scale,
    /// mask and softmax: reads and writes; backward reads output and gradient and writes.
    pub scores: [f64; 2],
    /// Those that a causal mask spares: a kernel that knows it reads the lower triangle only.
    pub scores_spared: [f64; 2],
    /// Passes by which an addition to the residual stream exceeds one fused kernel.
    pub addition: [f64; 2],
    /// Bytes per logit that the cross-entropy moves. The default is Megatron-LM's separate passes of
    /// `vocab_parallel_cross_entropy`: cast to fp32 (2 + 4), row maximum (4), shift (4 + 4),
    /// exponential (4 + 4), row sum (4), normalisation (4 + 4); backward the fp32 softmax is scaled in
    /// place (4 + 4) and cast (4 + 2).
    pub loss: [f64; 2],
    /// Collectives into which ZeRO-3 cuts the gather of one layer's weights: 1 where they are flat.
    pub gathers_per_layer: f64,
    /// Backward passes over queries, keys and values by which their gradients become one tensor, where
    /// one product made all three and another program's fused attention takes them apart.
    pub joined: f64,
    /// Bytes per element by which casts to a narrower format exceed one read and one write: of what
    /// forward products read, of output gradients, and of the former again in the backward pass.
    /// Scales found from the tensor itself read it once more; transposed copies are read and written.
    pub narrow: [f64; 3],
    /// Bytes that a device moves per gathered weight beside a ZeRO-3 gather, which delivers one flat
    /// piece of each rank: 0 where weights are views of what the collective writes.
    pub gather_copy: f64,
    /// Bytes that a device moves per gradient before ZeRO stages 2 and 3 reduce it: gradients are put
    /// side by side, cast and divided.
    pub reduce_copy: f64,
    /// Bytes that clipping and update of Adam move per trained element; absent: those of the separate
    /// kernels of Megatron-LM (`memory::optimizer_traffic`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<f64>,
    /// Full recomputation of a layer ends with the last tensor that its backward pass reads, so what
    /// follows is not run again: the last product of a feed-forward part and the addition behind it
    /// (PyTorch 2.1 on, `torch/utils/checkpoint.py`, early stop of the non-reentrant kind).
    pub stops_early: bool,
    /// Time that the host takes to issue what one kernel of a lowered block stands for.
    pub host_time: Seconds,
}

impl Default for Software {
    fn default() -> Self {
        Self {
            name: String::new(),
            norm: [2.0, 5.0],
            rotary: [2.0, 2.0],
            activation: [2.0, 3.0],
            gated_activation: [3.0, 5.0],
            scores: [2.0, 3.0],
            scores_spared: [0.5, 1.0],
            addition: [0.0, 0.0],
            loss: [38.0, 14.0],
            gathers_per_layer: 1.0,
            joined: 0.0,
            narrow: [0.0; 3],
            gather_copy: 0.0,
            reduce_copy: 0.0,
            update: None,
            stops_early: false,
            host_time: Seconds::ZERO,
        }
    }
}

impl Software {
    /// Refuses figures that no program has.
    pub fn check(&self) -> Result<()> {
        let pairs = [
            ("norm", self.norm),
            ("rotary", self.rotary),
            ("activation", self.activation),
            ("gated_activation", self.gated_activation),
            ("scores", self.scores),
            ("scores_spared", self.scores_spared),
            ("addition", self.addition),
            ("loss", self.loss),
        ];
        for (field, pair) in pairs {
            for value in pair {
                within(field, value, 0.0, MOST)?;
            }
        }
        let bytes = [
            ("joined", self.joined),
            ("gather_copy", self.gather_copy),
            ("reduce_copy", self.reduce_copy),
            ("update", self.update.unwrap_or(0.0)),
        ];
        let narrow = self.narrow.map(|value| ("narrow", value));
        for (field, value) in bytes.into_iter().chain(narrow) {
            within(field, value, 0.0, MOST)?;
        }
        within("gathers_per_layer", self.gathers_per_layer, 1.0, MOST)?;
        within("host_time", self.host_time.value(), 0.0, 1.0)
    }
}

fn within(field: &str, value: f64, least: f64, most: f64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let field = format!("training.software.{field}");
    Err(Error::invalid(field, value, format!("{least} to {most}")))
}

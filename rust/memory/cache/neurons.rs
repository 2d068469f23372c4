//! How fast does a model generate whose weights lie on flash, with caches of layers in DRAM and of neurons in HBM?

use super::machine::{Machine, MachineOverrides};
use crate::error::amounts::{count, not_negative, positive, share};
use crate::error::{Error, Result};
use crate::hardware::Cluster;
use crate::units::Dtype;
use serde::{Deserialize, Serialize};

/// A dense model on one device, its host and flash.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeuronCacheRequest {
    /// Layers.
    pub layers: u64,
    /// Elements of feed-forward networks, all layers.
    pub ffn_parameters: f64,
    /// All other elements, which stay near.
    pub other_parameters: f64,
    /// Format in which weights are kept on flash and in DRAM.
    #[serde(default = "fp16")]
    pub dtype: Dtype,
    /// Share of the neurons of a feed-forward network that a token uses.
    #[serde(default = "all")]
    pub active_share: f64,
    /// Bits in which active neurons come near, on average; those of the format where left out.
    #[serde(default)]
    pub active_bits: Option<f64>,
    /// Share of the active neurons that the token before used too: with room for them near, hits of LRU.
    #[serde(default)]
    pub repeated_share: f64,
    /// Share of a layer's bytes that flash must deliver where DRAM does not hold the layer.
    #[serde(default = "all")]
    pub loaded_share: f64,
    /// Near memory for keys, values and activations.
    #[serde(default)]
    pub reserved_bytes: f64,
    /// DRAM that layers may not take.
    #[serde(default)]
    pub far_reserved_bytes: f64,
    /// How much flash holds; no flash where left out.
    #[serde(default)]
    pub storage_bytes: f64,
    /// Rate of flash, bytes a second.
    #[serde(default)]
    pub storage_bytes_per_s: f64,
    /// True where flash and links work while layers compute, ahead of their use.
    #[serde(default = "yes")]
    pub overlapped: bool,
    /// Figures in the place of those of the cluster.
    #[serde(default)]
    pub machine: MachineOverrides,
}

/// A token's way. Times are null where the model does not fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NeuronCacheReport {
    /// All weights in the kept format.
    pub model_bytes: f64,
    /// True if near memory holds them.
    pub fits_near: bool,
    /// True if near memory and DRAM hold them.
    pub fits_far: bool,
    /// True if they fit with flash, what must stay near having room.
    pub fits: bool,
    /// Share of the layers that DRAM holds.
    pub far_share: f64,
    /// Active neurons that near memory has, as a share of them.
    pub hit_rate: Option<f64>,
    /// Near memory is read.
    pub near_s: Option<f64>,
    /// The link carries neurons.
    pub copy_s: Option<f64>,
    /// Flash delivers layers.
    pub storage_s: Option<f64>,
    /// A token.
    pub token_s: Option<f64>,
    /// Tokens a second.
    pub tokens_per_s: Option<f64>,
}

fn fp16() -> Dtype {
    Dtype::Fp16
}

fn all() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

/// A token over three tiers (Peng et al. 2024, `M2Cache`, arXiv 2410.14740): an LRU cache of neurons near,
/// of layers in DRAM, all on flash.
///
/// ```text
/// A = F a bits / 8                                     active neurons, bytes
/// h = r min(1, room / A)                               hits: repeated neurons, where they all have room
/// t_near = (R + A) / B_near,  t_copy = (1 - h) A / B_copy,  t_flash = (1 - far share) F e u / B_flash
/// t_token = max of the three where overlapped, else their sum
/// ```
///
/// F: elements of feed-forward networks, R: bytes of the others, e: bytes of an element, a: active share,
/// r: repeated share, u: loaded share. LRU over tokens that use A each keeps the last token's neurons as long as A has room;
/// with less, the share of them that has. Where near memory holds the whole model, nothing is copied.
pub fn neuron_cache(cluster: &Cluster, request: &NeuronCacheRequest) -> Result<NeuronCacheReport> {
    check(cluster, request)?;
    let machine = Machine::of(cluster, request.dtype, &request.machine)?;
    let element = request.dtype.bytes();
    let (others, kept) = (
        request.other_parameters * element,
        request.ffn_parameters * element,
    );
    let near = machine.near_bytes - request.reserved_bytes;
    let far = (machine.far_bytes - request.far_reserved_bytes).max(0.0);
    let fits_near = others + kept <= near;
    // layers are whole
    let layers = request.layers as f64;
    let far_share = (far / (kept / layers)).floor().min(layers) / layers;
    let mut answer = NeuronCacheReport {
        model_bytes: others + kept,
        fits_near,
        fits_far: fits_near || others <= near && others + kept <= near + far,
        fits: fits_near || others <= near && (far_share >= 1.0 || request.storage_bytes >= kept),
        far_share,
        hit_rate: None,
        near_s: None,
        copy_s: None,
        storage_s: None,
        token_s: None,
        tokens_per_s: None,
    };
    if !answer.fits {
        return Ok(answer);
    }
    let bits = request.active_bits.unwrap_or(8.0 * element);
    let active = request.ffn_parameters * request.active_share * bits / 8.0;
    let hit_rate = if fits_near {
        1.0
    } else {
        request.repeated_share * ((near - others) / active).clamp(0.0, 1.0)
    };
    let read = (others + active) / machine.near_bytes_per_s;
    let copy = (1.0 - hit_rate) * active / machine.copy_bytes_per_s;
    let missing = if fits_near { 0.0 } else { 1.0 - far_share };
    let storage = if missing > 0.0 {
        missing * kept * request.loaded_share / request.storage_bytes_per_s
    } else {
        0.0
    };
    let token = if request.overlapped {
        read.max(copy).max(storage)
    } else {
        read + copy + storage
    };
    answer.hit_rate = Some(hit_rate);
    answer.near_s = Some(read);
    answer.copy_s = Some(copy);
    answer.storage_s = Some(storage);
    answer.token_s = Some(token);
    answer.tokens_per_s = Some(1.0 / token);
    Ok(answer)
}

fn check(cluster: &Cluster, request: &NeuronCacheRequest) -> Result<()> {
    if cluster.devices != 1 {
        let allowed = "1: neurons are cached on one device";
        return Err(Error::invalid("devices", cluster.devices, allowed));
    }
    count("layers", request.layers, 1, 1 << 20)?;
    positive("ffn_parameters", request.ffn_parameters)?;
    for (name, value) in [
        ("active_share", request.active_share),
        ("repeated_share", request.repeated_share),
        ("loaded_share", request.loaded_share),
    ] {
        share(name, value)?;
    }
    positive("active_share", request.active_share)?;
    if let Some(bits) = request.active_bits {
        positive("active_bits", bits)?;
    }
    for (name, value) in [
        ("other_parameters", request.other_parameters),
        ("reserved_bytes", request.reserved_bytes),
        ("far_reserved_bytes", request.far_reserved_bytes),
        ("storage_bytes", request.storage_bytes),
    ] {
        not_negative(name, value)?;
    }
    if request.storage_bytes > 0.0 {
        positive("storage_bytes_per_s", request.storage_bytes_per_s)?;
    }
    Ok(())
}

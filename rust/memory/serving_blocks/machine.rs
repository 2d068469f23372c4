//! Which problem does generating text with a model on a device of a cluster pose?

use super::problem::{Attention, Compute, Hop, Layer, MOST, MemoryPlace, Problem, SerialLanes};
use crate::error::{Error, Result};
use crate::hardware::{Cluster, Crossing, HOST_TIER, Memories};
use crate::units::{Bytes, BytesPerSecond, Dtype, FlopsPerSecond};
use crate::workload::Transformer;
use crate::workload::transformer::Family;
use serde::Deserialize;

/// What is asked beside the model and the machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServingOptions {
    /// Tokens of a prompt.
    pub prompt: u64,
    /// Tokens generated for each prompt.
    pub generated: u64,
    /// Format of the weights.
    #[serde(default = "fp16")]
    pub weights: Dtype,
    /// Format of the cache.
    #[serde(default = "fp16")]
    pub cache: Dtype,
    /// Share of each memory that may be filled, the device's after what driver and kernels take.
    #[serde(default = "default_usable")]
    pub usable: f64,
    /// Who attends to cache outside the device.
    #[serde(default)]
    pub attention: Attention,
    /// The device attends by a fused kernel, which keeps no scores in memory.
    #[serde(default = "yes")]
    pub flash_attention: bool,
    /// Cache that the host attends to in a second; absent: as fast as its memory is read.
    #[serde(default)]
    pub host_attention: Option<BytesPerSecond>,
    /// Fewest and most sequences of a batch.
    #[serde(default = "any")]
    pub batch: [u64; 2],
    /// Fewest and most batches of a block.
    #[serde(default = "any")]
    pub batches: [u64; 2],
    /// Relative gap to the proven bound at which the search ends.
    #[serde(default = "default_gap")]
    pub relative_gap: f64,
}

fn fp16() -> Dtype {
    Dtype::Fp16
}

fn yes() -> bool {
    true
}

/// Stated default: allocators lose some of a memory to blocks of unlike sizes.
fn default_usable() -> f64 {
    0.9
}

fn any() -> [u64; 2] {
    [1, MOST]
}

fn default_gap() -> f64 {
    1e-7
}

/// The problem of a decoder on one device of a cluster.
///
/// Matrix products and attention run at the share of the peak that the device's constants state; in
/// decoding the device's own memory bounds both, as a lane of its own: weights and the head's table once for
/// every batch, cache once for every token. The host attends as fast as its memory is read unless a rate is given.
/// Layers are taken to be alike: of a mixture or a hybrid, the mean. A mixture's experts come all, which large
/// blocks need; a sliding window's cache is taken whole.
pub fn problem_of(
    model: &Transformer,
    cluster: &Cluster,
    asked: &ServingOptions,
) -> Result<Problem> {
    if model.family != Family::Decoder {
        let what = format!(
            "model {}: got no decoder; allowed: models that generate",
            model.name
        );
        return Err(Error::inconsistent(what));
    }
    if model.attention_layers() == 0 {
        let what = format!(
            "model {}: got no layer that attends; allowed: models with a cache of keys and values",
            model.name
        );
        return Err(Error::inconsistent(what));
    }
    if !(1e-3..=1.0).contains(&asked.usable) {
        return Err(Error::invalid(
            "usable",
            asked.usable,
            "a share from 0.001 to 1",
        ));
    }
    let layer = layer(model, asked);
    let homes = memory_places(cluster, asked.usable)?;
    let host = homes.iter().any(|home| home.name == HOST_TIER);
    let parameters = model.parameters();
    let tables = parameters.total - parameters.layers;
    let problem = Problem {
        prompt: asked.prompt,
        generated: asked.generated,
        layers: model.layers,
        resident: Bytes::new(tables as f64 * asked.weights.bytes()),
        compute: compute(cluster, device_attention(model, &layer, cluster), asked),
        layer,
        homes,
        host: host.then(|| HOST_TIER.to_owned()),
        attention: asked.attention,
        flash_attention: asked.flash_attention,
        serial: SerialLanes::default(),
        batch: asked.batch,
        batches: asked.batches,
        relative_gap: asked.relative_gap,
    };
    problem.check()?;
    Ok(problem)
}

fn layer(model: &Transformer, asked: &ServingOptions) -> Layer {
    let parameters = model.parameters();
    let layers = model.layers as f64;
    let idle = parameters.total - parameters.active_per_token;
    let width = Dtype::Fp16.bytes();
    let heads = model.heads as f64;
    let table = (model.vocab * model.hidden) as f64;
    let AttentionLayer {
        cached,
        query,
        products: [prompt, _],
    } = AttentionLayer::of(model);
    let share = model.attention_layers() as f64 / layers;
    let [cached, query, prompt] = [cached, query, prompt].map(|count| count * share);
    let scans = ScanLayer::of(model);
    let mixing = model.scan_layers() as f64 / layers;
    let query = query + mixing * scans.query;
    Layer {
        hidden: model.hidden,
        weights: Bytes::new(parameters.layers as f64 / layers * asked.weights.bytes()),
        cache: Bytes::new(cached * asked.cache.bytes()),
        recurrent: Bytes::new(mixing * scans.state * width),
        state: Bytes::new(model.hidden as f64 * width),
        inner: Bytes::new(inner(model) * width),
        scores: Bytes::new(heads * width),
        query: Bytes::new(query * width),
        matmul: 2.0 * ((parameters.layers - idle) as f64 / layers + mixing * scans.products),
        attention: 2.0 * prompt,
        head: 2.0 * table / layers,
        head_table: Bytes::new(table / layers * asked.weights.bytes()),
    }
}

/// What a layer that attends has for each token, all heads together.
struct AttentionLayer {
    /// Elements of keys and values.
    cached: f64,
    /// Elements of queries.
    query: f64,
    /// Multiply-adds of one query and one key: in a prompt, and of a token that is generated.
    products: [f64; 2],
}

impl AttentionLayer {
    /// Latent attention expands keys and values to heads in a prompt: `heads (nope + rope + value)`. A token
    /// that is generated has its query and its output projected to the latent instead, of which all heads
    /// read the same: `heads (2 rank + rope)` (DeepSeek-V2, arXiv 2405.04434, section 2.1).
    fn of(model: &Transformer) -> Self {
        let heads = model.heads as f64;
        if let Some(latent) = &model.latent {
            let key = (latent.kv_rank + latent.rope_dim) as f64;
            let expanded = (latent.nope_dim + latent.rope_dim + latent.value_dim) as f64;
            return Self {
                cached: key,
                query: heads * key,
                products: [heads * expanded, heads * (key + latent.kv_rank as f64)],
            };
        }
        let head = model.head_width() as f64;
        Self {
            cached: 2.0 * model.key_value_heads() as f64 * head,
            query: heads * head,
            products: [2.0 * heads * head; 2],
        }
    }
}

/// What a layer that scans has for each sequence or token.
#[derive(Default)]
struct ScanLayer {
    /// Elements of a sequence's state.
    state: f64,
    /// Elements that go to whoever scans for a token.
    query: f64,
    /// Multiply-adds of a token.
    products: f64,
}

impl ScanLayer {
    /// A state of `heads head_dim state` and the last `taps - 1` inputs of the convolution over
    /// `heads head_dim + 2 groups state` channels, both in 16 bits as vLLM keeps them
    /// (`MambaStateShapeCalculator`); the scan's products as the recurrence takes them.
    fn of(model: &Transformer) -> Self {
        let Some(widths) = &model.state_space else {
            return Self::default();
        };
        let inner = (widths.heads * widths.head_dim) as f64;
        let channels = inner + (2 * widths.groups * widths.state) as f64;
        let numbers = (widths.heads * widths.rule.numbers()) as f64;
        Self {
            state: inner * widths.state as f64 + (widths.convolution - 1) as f64 * channels,
            query: channels + numbers,
            products: widths.scan().multiplications(1.0),
        }
    }
}

/// Inner activations of a token: of a mixture, of all the experts that it is sent to.
fn inner(model: &Transformer) -> f64 {
    let width = model.experts.as_ref().map_or(model.ffn, |mixture| {
        mixture.top_k * mixture.expert_ffn + mixture.shared_ffn
    });
    (width * model.activation.projections()) as f64
}

/// Operations a second of attention.
fn attention(cluster: &Cluster) -> f64 {
    let device = &cluster.device;
    device.engine_peak(Dtype::Fp16).value() * device.attention.forward_efficiency
}

/// Cache that the device attends to in a second, by its products; the bus is a lane of its own.
fn device_attention(model: &Transformer, layer: &Layer, cluster: &Cluster) -> BytesPerSecond {
    let share = model.attention_layers() as f64 / model.layers as f64;
    let [_, token] = AttentionLayer::of(model).products;
    BytesPerSecond::new(attention(cluster) * layer.cache.value() / (2.0 * share * token))
}

fn compute(cluster: &Cluster, device_attention: BytesPerSecond, asked: &ServingOptions) -> Compute {
    let device = &cluster.device;
    let peak = device.engine_peak(Dtype::Fp16).value();
    let alone = FlopsPerSecond::new(peak * device.matmul_efficiency(Dtype::Fp16));
    // generation goes on for hours: no product outruns the rate that lasts
    let engine = device.engine_format(Dtype::Fp16).unwrap_or(Dtype::Fp16);
    let lasting = device.sustained.get(&Dtype::Fp16);
    let lasting = lasting.or_else(|| device.sustained.get(&engine)).copied();
    let products = lasting.map_or(alone, |rate| rate.min(alone));
    Compute {
        prefill_matmul: products,
        prefill_attention: FlopsPerSecond::new(attention(cluster)),
        decode_matmul: products,
        device_attention,
        host_attention: asked.host_attention,
        small_batch: None,
    }
}

/// The memories from the one that holds the working set on, with what lies between.
fn memory_places(cluster: &Cluster, usable: f64) -> Result<Vec<MemoryPlace>> {
    let memories = Memories::new(cluster)?;
    let lane = |crossing: &Crossing| memories.lanes[crossing.lane].name.clone();
    let host_bus = memories
        .lanes
        .iter()
        .position(|lane| lane.name == HOST_TIER);
    let mut homes = Vec::new();
    for (index, place) in memories.places.iter().enumerate().skip(memories.main()) {
        let hops = |way: fn(&Crossing) -> f64| -> Vec<Hop> {
            let crossed = place.crosses.iter().filter(|c| way(c) > 0.0);
            crossed
                .map(|crossing| Hop {
                    lane: lane(crossing),
                    rate: BytesPerSecond::new(1.0 / way(crossing)),
                    weights: None,
                    cache: None,
                    states: None,
                })
                .collect()
        };
        let own = index == memories.main();
        let mut reads = hops(|c| c.read);
        reads.reverse();
        let writes = if own { Vec::new() } else { hops(|c| c.write) };
        let passed = place.crosses.iter().rposition(|c| Some(c.lane) == host_bus);
        // from the far end up to the bus of the host's memory
        let behind = passed.map(|at| {
            let beyond = place.crosses[at..].iter();
            beyond.filter(|c| c.read > 0.0).count()
        });
        let capacity = if own {
            place.capacity - cluster.device.reserved_memory
        } else {
            place.capacity
        };
        homes.push(MemoryPlace {
            name: place.tier.name.clone(),
            capacity: capacity.max(Bytes::ZERO) * usable,
            reads,
            writes,
            behind_host: behind,
            states: true,
        });
    }
    Ok(homes)
}

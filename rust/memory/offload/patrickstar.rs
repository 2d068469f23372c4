//! What does a step of `PatrickStar` come to: chunks of weights that move between device and host?

use super::chunks::{Chunks, Sizes, lay, search};
use super::eviction::{CachedChunks, Eviction, run};
use super::rates::{Rates, Tier};
use super::report::{ByteUse, OffloadReport, TierBytes};
use super::step::{Engine, Move, Pass, Step, Update};
use super::work::StepWork;
use crate::error::amounts::share;
use crate::error::{Error, Result};
use crate::memory::footprint::FRAGMENTATION;
use serde::Deserialize;

/// `PatrickStar` (Fang et al. 2021): tensors lie in chunks; a chunk of gradients takes the place of
/// its weights, so that an element has `2 + 12` bytes of model data; chunks come to the device when
/// a pass needs them and leave when what passes hold needs their room, which a first step traces.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PatrickStar {
    /// Elements of a chunk; none: the size that wastes least.
    pub chunk_elements: Option<u64>,
    /// Sizes that are tried.
    pub sizes: Sizes,
    /// Who makes room.
    pub eviction: Eviction,
    /// True where state whose chunks find room on the device at the fullest moment lives there and
    /// is updated there (device-aware placement, section 8.2).
    pub device_aware: bool,
    /// Shares of memory that it uses.
    pub shares: MemoryShares,
}

/// Shares of memory that `PatrickStar` uses; the defaults are those of its repository
/// (Tencent/PatrickStar `examples/ps_config.py`).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryShares {
    /// Of the device's memory.
    pub device: f64,
    /// Of the host's memory.
    pub host: f64,
    /// Of that of the device, for chunks while the first step traces what passes hold.
    pub warmup: f64,
    /// Of the room that the fullest moment leaves, for state.
    pub margin: f64,
}

impl Default for MemoryShares {
    fn default() -> Self {
        Self {
            device: 0.9,
            host: 0.9,
            warmup: 0.1,
            margin: 0.8,
        }
    }
}

impl Default for PatrickStar {
    fn default() -> Self {
        Self {
            chunk_elements: None,
            sizes: Sizes::default(),
            eviction: Eviction::default(),
            device_aware: true,
            shares: MemoryShares::default(),
        }
    }
}

/// Chunks of one rank; ranks own a chunk of each group in turn (section 7).
struct Layout {
    chunks: Chunks,
    /// Chunks of this rank, one of each group.
    own: usize,
    /// Groups that each layer uses.
    uses: Vec<Vec<u32>>,
    /// Bytes of a chunk's weights, and of its state.
    weights: f64,
    state: f64,
    /// Bytes beside own chunks: chunks of other ranks that a layer uses, a tensor's gradient.
    buffers: f64,
    /// Own chunks for which every pass leaves room, by pass of one micro-batch; may fall short.
    room: Vec<f64>,
    /// Own chunks on the device at the fullest moment, and those whose state is there too.
    resident: usize,
    updated: usize,
    /// Bytes of chunks that the first step keeps on the device.
    warm: f64,
}

impl PatrickStar {
    /// The parts of the tiers that it uses.
    pub(super) fn usable(&self, rates: &Rates) -> Rates {
        let [device, host, drive] = rates.capacity;
        let capacity = [device * self.shares.device, host * self.shares.host, drive];
        Rates {
            capacity,
            ..rates.clone()
        }
    }

    fn layout(&self, work: &StepWork, rates: &Rates) -> Result<Layout> {
        for (field, value) in [
            ("shares.device", self.shares.device),
            ("shares.host", self.shares.host),
            ("shares.warmup", self.shares.warmup),
            ("shares.margin", self.shares.margin),
        ] {
            share(field, value)?;
        }
        need_trained(work)?;
        let sizes: Vec<f64> = work.tensors.iter().map(|t| t.elements).collect();
        let chunks = match self.chunk_elements {
            None => search(&sizes, self.sizes, work.shards)?,
            Some(elements) => {
                let largest = sizes.iter().copied().fold(1.0, f64::max);
                let all: f64 = sizes.iter().sum();
                let allowed = format!("{largest}, the largest tensor, to {all}, all of them");
                let within = elements as f64 <= all.max(largest);
                let found = within.then(|| lay(&sizes, elements as f64, work.shards));
                found
                    .flatten()
                    .ok_or_else(|| Error::invalid("chunk_elements", elements, allowed))?
            }
        };
        let ranks = work.shards.max(1);
        let mut uses: Vec<Vec<u32>> = vec![Vec::new(); work.layers.len()];
        let mut spans = vec![0_u32; work.layers.len()];
        let mut last = None;
        for (tensor, &chunk) in work.tensors.iter().zip(&chunks.of) {
            let used = &mut uses[tensor.layer];
            spans[tensor.layer] += u32::from(last != Some((tensor.layer, chunk)));
            last = Some((tensor.layer, chunk));
            if !used.contains(&(chunk / ranks)) {
                used.push(chunk / ranks);
            }
        }
        // chunks of other ranks come one by one and go with the layer (its memory-saving mode)
        let most = if ranks > 1 {
            spans.iter().copied().max().unwrap_or(0)
        } else {
            0
        };
        let elements = chunks.elements;
        let weights = elements * work.weight_bytes;
        let largest = sizes.iter().copied().fold(0.0, f64::max);
        let mut layout = Layout {
            own: chunks.count.div_ceil(ranks) as usize,
            chunks,
            weights,
            state: elements * work.state_bytes,
            buffers: f64::from(most) * weights + largest * work.gradient_bytes,
            uses,
            room: Vec::new(),
            resident: 0,
            updated: 0,
            warm: self.shares.warmup * rates.capacity[Tier::Device as usize],
        };
        self.fill(&mut layout, work, rates);
        Ok(layout)
    }

    /// Says how many chunks each pass leaves room for.
    fn fill(&self, layout: &mut Layout, work: &StepWork, rates: &Rates) {
        let free = rates.capacity[Tier::Device as usize] - work.reserve_bytes;
        let mut kept = 0.0;
        let forward: Vec<f64> = work
            .layers
            .iter()
            .map(|layer| {
                kept += layer.kept_bytes;
                free - (kept + work.working_bytes + layout.buffers) * FRAGMENTATION
            })
            .collect();
        let peak = forward.last().copied().unwrap_or(0.0);
        let all = layout.own as f64 * layout.weights;
        if self.device_aware && peak > all {
            let spare = (peak - all) * self.shares.margin / layout.state;
            layout.updated = whole_chunks(spare, layout.own);
        }
        let state = layout.updated as f64 * layout.state;
        let back = forward.iter().rev();
        let passes = forward.iter().chain(back);
        layout.room = passes.map(|left| (left - state) / layout.weights).collect();
        let least = layout.room.iter().copied().fold(f64::INFINITY, f64::min);
        let needed = layout.uses.iter().map(Vec::len).max().unwrap_or(0);
        layout.resident = whole_chunks(least, layout.own).max(needed);
    }

    pub(super) fn memory_use(&self, work: &StepWork, rates: &Rates) -> Result<TierBytes> {
        Ok(chunk_memory(&self.layout(work, rates)?, work))
    }

    pub(super) fn run(&self, work: &StepWork, rates: &Rates) -> Result<OffloadReport> {
        let layout = self.layout(work, rates)?;
        let held = chunk_memory(&layout, work);
        let needed = layout.uses.iter().map(Vec::len).max().unwrap_or(0);
        // where too little fits the step is timed with the least that could run
        let room: Vec<usize> = (0..work.micro_batches)
            .flat_map(|_| &layout.room)
            .map(|&room| whole_chunks(room, layout.own).max(needed))
            .collect();
        let count = work.layers.len();
        let order = (0..count).chain((0..count).rev());
        let uses: Vec<Vec<u32>> = (0..work.micro_batches)
            .flat_map(|_| order.clone().map(|layer| layout.uses[layer].clone()))
            .collect();
        let cached = run(&uses, &room, layout.own, self.eviction)?;
        let step = step(&layout, work, rates, &cached);
        let mut answer = OffloadReport::new(work, rates, &held, step.run(1)?);
        let moved = cached.moves.iter().map(|m| u64::from(m.loads)).sum::<u64>();
        answer.chosen = vec![
            ("chunk_elements", layout.chunks.elements.to_string()),
            ("chunks", layout.chunks.count.to_string()),
            ("waste", format!("{:.4}", layout.chunks.waste)),
            ("chunks_loaded", moved.to_string()),
            ("chunks_updated_on_device", layout.updated.to_string()),
        ];
        Ok(answer)
    }
}

/// Refuses weights that are not trained.
fn need_trained(work: &StepWork) -> Result<()> {
    if work.layers.iter().all(|layer| layer.frozen_whole <= 0.0) {
        return Ok(());
    }
    let got = "weights that are not trained";
    let allowed =
        "a model all of whose weights are trained: chunks of gradients take the place of theirs";
    Err(Error::invalid("model", got, allowed))
}

/// How many of `most` chunks fit into room for so many.
fn whole_chunks(room: f64, most: usize) -> usize {
    (1..=most).take_while(|&count| count as f64 <= room).count()
}

fn chunk_memory(layout: &Layout, work: &StepWork) -> TierBytes {
    let mut held = TierBytes::new(work);
    let mut add = |what, tier, count: usize, bytes: f64| held.add(what, tier, count as f64 * bytes);
    let (resident, updated, own) = (layout.resident, layout.updated, layout.own);
    add(ByteUse::Weights, Tier::Device, resident, layout.weights);
    add(ByteUse::Weights, Tier::Host, own - resident, layout.weights);
    add(ByteUse::Optimizer, Tier::Device, updated, layout.state);
    add(ByteUse::Optimizer, Tier::Host, own - updated, layout.state);
    let kept: f64 = work.layers.iter().map(|layer| layer.kept_bytes).sum();
    let passing = kept + work.working_bytes + layout.buffers;
    held.add(ByteUse::Activations, Tier::Device, kept);
    held.add(ByteUse::Workspace, Tier::Device, work.working_bytes);
    held.add(ByteUse::Buffers, Tier::Device, layout.buffers);
    held.add(
        ByteUse::Fragmentation,
        Tier::Device,
        passing * (FRAGMENTATION - 1.0),
    );
    // the first step gives chunks less of the device, so that the host is fullest then
    let model = own as f64 * (layout.weights + layout.state);
    let first = (model - layout.warm - held.total(Tier::Host)).max(0.0);
    held.add(ByteUse::Buffers, Tier::Host, first);
    held
}

/// Chunks come when a pass begins and go before them; nothing runs ahead.
fn step(layout: &Layout, work: &StepWork, rates: &Rates, cached: &CachedChunks) -> Step {
    let count = work.layers.len();
    let mut step = Step {
        clipped: true,
        ..Step::default()
    };
    for (number, moves) in cached.moves.iter().enumerate() {
        let turn = number % (2 * count);
        let (layer, backward) = if turn < count {
            (turn, false)
        } else {
            (2 * count - 1 - turn, true)
        };
        let of = &work.layers[layer];
        let (out, back) = (f64::from(moves.evictions), f64::from(moves.loads));
        let reduce = if backward { of.reduce_s } else { 0.0 };
        let (to, from) = (rates.to_host, rates.from_host);
        step.passes.push(Pass {
            layer,
            backward,
            seconds: if backward {
                of.backward_s
            } else {
                of.forward_s
            },
            before: [
                Move::on(Engine::ToHost, out * layout.weights * to, 0),
                Move::on(Engine::FromHost, back * layout.weights * from, 0),
                Move::on(Engine::Fabric, of.gather_s, 0),
            ],
            after: [Move::on(Engine::Fabric, reduce, 0), Move::NONE, Move::NONE],
            needs: None,
        });
    }
    updates(layout, work, rates, cached, &mut step);
    step
}

/// The first resident chunks are updated on the device, the others on the host, where gradients of
/// those on the device go and weights come back from.
fn updates(
    layout: &Layout,
    work: &StepWork,
    rates: &Rates,
    cached: &CachedChunks,
    step: &mut Step,
) {
    let elements = layout.chunks.elements;
    let mut here = layout.updated;
    let chunks = (0_u32..).zip(&cached.resident).take(layout.own);
    for (chunk, &resident) in chunks {
        let used = layout.uses.iter().position(|uses| uses.contains(&chunk));
        let on_device = resident && here > 0;
        here -= usize::from(on_device);
        let (engine, one) = if on_device {
            (Engine::Compute, work.device_update_s)
        } else {
            (Engine::Host, work.host_traffic * rates.host_memory)
        };
        let moved = if resident && !on_device {
            layout.weights
        } else {
            0.0
        };
        step.updates.push(Update {
            layer: used.unwrap_or(0),
            down: moved * rates.to_host,
            engine,
            seconds: elements * one,
            back: moved * rates.from_host,
            pass: step.passes.len() - 1,
            ..Update::none(engine)
        });
    }
}

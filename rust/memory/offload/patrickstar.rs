//! What does a step of PatrickStar come to: chunks of weights that move between device and host?

use super::answer::{Answer, Held, Holding};
use super::chunks::{Chunks, Sizes, lay, search};
use super::eviction::{Cached, Eviction, run};
use super::rates::{Rates, Tier};
use super::step::{Engine, Move, Pass, Step, Update};
use super::work::Work;
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
}

impl Default for PatrickStar {
    fn default() -> Self {
        Self {
            chunk_elements: None,
            sizes: Sizes::default(),
            eviction: Eviction::default(),
            device_aware: true,
        }
    }
}

/// Chunks of one rank; ranks own a chunk of each group in turn and gather the group (section 7).
struct Layout {
    chunks: Chunks,
    /// Chunks of this rank, one of each group.
    own: usize,
    /// Groups that each layer uses.
    uses: Vec<Vec<u32>>,
    /// Bytes of a chunk's weights, and of its state.
    weights: f64,
    state: f64,
    /// Bytes beside own chunks: other ranks' chunks of the groups in use, a tensor's gradient.
    buffers: f64,
    /// Own chunks for which every pass leaves room, by pass of one micro-batch; may fall short.
    room: Vec<f64>,
    /// Own chunks on the device at the fullest moment, and those whose state is there too.
    resident: usize,
    updated: usize,
}

impl PatrickStar {
    fn layout(&self, work: &Work, rates: &Rates) -> Result<Layout> {
        let sizes: Vec<u64> = work.tensors.iter().map(|t| t.elements).collect();
        let chunks = match self.chunk_elements {
            None => search(&sizes, self.sizes)?,
            Some(elements) => lay(&sizes, elements).ok_or_else(|| {
                let largest = sizes.iter().max().copied().unwrap_or(1);
                let allowed = format!("at least {largest}, the largest tensor");
                Error::invalid("chunk_elements", elements, allowed)
            })?,
        };
        let ranks = work.shards.max(1.0);
        let mut uses = vec![Vec::new(); work.layers.len()];
        for (tensor, &chunk) in work.tensors.iter().zip(&chunks.of) {
            let group = group(chunk, ranks);
            let used: &mut Vec<u32> = &mut uses[tensor.layer];
            if !used.contains(&group) {
                used.push(group);
            }
        }
        let most = uses.iter().map(Vec::len).max().unwrap_or(0);
        let elements = chunks.elements as f64;
        let weights = elements * work.weight_bytes;
        let largest = sizes.iter().max().copied().unwrap_or(0) as f64;
        let mut layout = Layout {
            own: chunks
                .count
                .checked_sub(1)
                .map_or(0, |last| group(last, ranks) as usize + 1),
            chunks,
            weights,
            state: elements * work.state_bytes,
            buffers: most as f64 * (ranks - 1.0) * weights + largest * work.gradient_bytes,
            uses,
            room: Vec::new(),
            resident: 0,
            updated: 0,
        };
        self.fill(&mut layout, work, rates);
        Ok(layout)
    }

    /// Says how many chunks each pass leaves room for.
    fn fill(&self, layout: &mut Layout, work: &Work, rates: &Rates) {
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
            let spare = ((peak - all) / layout.state).floor();
            layout.updated = whole(spare).min(layout.own);
        }
        let state = layout.updated as f64 * layout.state;
        let back = forward.iter().rev();
        let passes = forward.iter().chain(back);
        layout.room = passes.map(|left| (left - state) / layout.weights).collect();
        let least = layout.room.iter().copied().fold(f64::INFINITY, f64::min);
        let needed = layout.uses.iter().map(Vec::len).max().unwrap_or(0);
        layout.resident = whole(least).max(needed).min(layout.own);
    }

    pub(super) fn hold(&self, work: &Work, rates: &Rates) -> Result<Held> {
        Ok(held(&self.layout(work, rates)?, work))
    }

    pub(super) fn run(&self, work: &Work, rates: &Rates) -> Result<Answer> {
        let layout = self.layout(work, rates)?;
        let held = held(&layout, work);
        let needed = layout.uses.iter().map(Vec::len).max().unwrap_or(0);
        // where too little fits the step is timed with the least that could run
        let room: Vec<usize> = (0..work.micro_batches)
            .flat_map(|_| &layout.room)
            .map(|&room| whole(room).max(needed))
            .collect();
        let count = work.layers.len();
        let order = (0..count).chain((0..count).rev());
        let uses: Vec<Vec<u32>> = (0..work.micro_batches)
            .flat_map(|_| order.clone().map(|layer| layout.uses[layer].clone()))
            .collect();
        let cached = run(&uses, &room, layout.own, self.eviction)?;
        let step = step(&layout, work, rates, &cached);
        let mut answer = Answer::new(work, rates, &held, step.run(1)?);
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

/// The group of a chunk.
fn group(chunk: u32, ranks: f64) -> u32 {
    (f64::from(chunk) / ranks).floor() as u32
}

/// A number of chunks that fits.
fn whole(room: f64) -> usize {
    room.max(0.0).floor() as usize
}

fn held(layout: &Layout, work: &Work) -> Held {
    let mut held = Held::new(work);
    let mut add = |what, tier, count: usize, bytes: f64| held.add(what, tier, count as f64 * bytes);
    let (resident, updated, own) = (layout.resident, layout.updated, layout.own);
    add(Holding::Weights, Tier::Device, resident, layout.weights);
    add(Holding::Weights, Tier::Host, own - resident, layout.weights);
    add(Holding::Optimizer, Tier::Device, updated, layout.state);
    add(Holding::Optimizer, Tier::Host, own - updated, layout.state);
    let kept: f64 = work.layers.iter().map(|layer| layer.kept_bytes).sum();
    let passing = kept + work.working_bytes + layout.buffers;
    held.add(Holding::Activations, Tier::Device, kept);
    held.add(Holding::Workspace, Tier::Device, work.working_bytes);
    held.add(Holding::Buffers, Tier::Device, layout.buffers);
    held.add(
        Holding::Fragmentation,
        Tier::Device,
        passing * (FRAGMENTATION - 1.0),
    );
    held
}

/// Chunks come when a pass begins and go before them; nothing runs ahead.
fn step(layout: &Layout, work: &Work, rates: &Rates, cached: &Cached) -> Step {
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
fn updates(layout: &Layout, work: &Work, rates: &Rates, cached: &Cached, step: &mut Step) {
    let elements = layout.chunks.elements as f64;
    let mut here = layout.updated;
    for (chunk, &resident) in cached.resident.iter().enumerate().take(layout.own) {
        let used = layout
            .uses
            .iter()
            .position(|uses| uses.contains(&(chunk as u32)));
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

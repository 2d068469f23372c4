//! How much sooner does training end whose layers freeze from the front while pipelines shrink?

use super::partition::Link;
use super::{
    Hops, Pass, Passes, Pipeline, PipelineShape, Schedule, Scratch, step_time_extrapolated,
};
use crate::control::Control;
use crate::error::amounts::{count, not_negative, positive, share};
use crate::error::{Error, Result};
use crate::units::Seconds;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Most layers, devices and epochs.
const MOST: usize = 4096;

/// A model that is trained with freezing.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Layers along the model.
    pub layers: Vec<Layer>,
    /// Layers frozen in each epoch, from the front.
    pub frozen: Vec<usize>,
    /// Nodes.
    pub nodes: u32,
    /// Devices of a node; a pipeline stays inside one.
    pub devices_per_node: u32,
    /// Devices of a pipeline at the beginning, in halves of which it shrinks.
    pub pipeline: u32,
    /// Samples of an epoch.
    pub samples: u64,
    /// Samples of a pipeline's step.
    pub batch: u32,
    /// Micro-batches of a step; the best from `K` to `6 K` for `K` devices where left out.
    #[serde(default)]
    pub chunks: Option<u32>,
    /// Link between neighbours of a pipeline.
    #[serde(default = "at_once")]
    pub link: Link,
    /// What all devices of a pipeline together send to those of the others in an all-reduce.
    #[serde(default = "at_once")]
    pub all_reduce: Link,
    /// Memory of a frozen layer against that of an active one.
    #[serde(default = "sixth")]
    pub frozen_share: f64,
    /// Reading of what frozen layers gave for a pipeline's step.
    #[serde(default)]
    pub cache_s: f64,
    /// What an epoch with other layers frozen than the one before costs once.
    #[serde(default)]
    pub transition_s: f64,
    /// Which of the system's parts are at work.
    #[serde(default)]
    pub parts: Parts,
    /// `gpipe`, or another schedule of one chunk.
    #[serde(default = "gpipe")]
    pub schedule: String,
}

/// A layer; times are those of all samples of a pipeline's step.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Forward pass, seconds.
    pub forward_s: f64,
    /// Backward pass, seconds.
    pub backward_s: f64,
    /// What each pass of each micro-batch takes beyond its share, seconds.
    #[serde(default)]
    pub overhead_s: f64,
    /// Parameters: exchanged, and what stages are balanced by.
    pub parameter_bytes: f64,
    /// What goes on to the next layer.
    #[serde(default)]
    pub output_bytes: f64,
}

/// Parts of the system that can be left out to see what each brings.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parts {
    /// Active layers are packed into fewer devices (`AutoPipe`); else all layers stay where they are,
    /// and frozen ones run forward there.
    pub repack: bool,
    /// Devices that become free run more pipelines (`AutoDP`).
    pub replicate: bool,
    /// Frozen layers run once, and what they gave is read from then on (`AutoCache`).
    pub cache: bool,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            repack: true,
            replicate: true,
            cache: true,
        }
    }
}

/// Training with freezing against training without.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Training {
    /// Epochs in turn.
    pub epochs: Vec<Epoch>,
    /// All of them.
    pub time_s: f64,
    /// As many epochs without freezing.
    pub plain_s: f64,
    /// How many times sooner it ends.
    pub speedup: f64,
}

/// An epoch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Epoch {
    /// Layers frozen.
    pub frozen: usize,
    /// Layers whose forward pass is read rather than run.
    pub cached: usize,
    /// Devices of a pipeline.
    pub pipeline: u32,
    /// Pipelines.
    pub replicas: u32,
    /// Micro-batches of a step.
    pub chunks: u32,
    /// First layer of every stage but the first.
    pub cuts: Vec<usize>,
    /// Steps.
    pub steps: u64,
    /// One step, exchange included.
    pub step_time_s: f64,
    /// Of that, the exchange of gradients.
    pub all_reduce_s: f64,
    /// The epoch, with the change before it.
    pub time_s: f64,
}

fn at_once() -> Link {
    Link {
        bandwidth_bytes_per_s: None,
        latency_s: 0.0,
    }
}

fn sixth() -> f64 {
    1.0 / 6.0
}

fn gpipe() -> String {
    Schedule::GPipe.rule().name().to_owned()
}

/// Layers frozen in each epoch where every decision freezes a share of those still active:
///
/// `L_T = floor(L (1 - (1 - alpha)^T))` after `T` decisions, of `L` layers that may be frozen
/// (He et al. 2021, section 3.1: the most that the freeze algorithm allows; it freezes fewer where
/// gradients say so). There is one decision at the start of each `every`-th epoch but the first.
pub fn frozen_by(freezable: usize, alpha: f64, epochs: usize, every: usize) -> Result<Vec<usize>> {
    share("alpha", alpha)?;
    count("epochs", epochs, 1, MOST)?;
    count("every", every, 1, MOST)?;
    count("freezable", freezable, 0, MOST)?;
    let at = |epoch: usize| {
        let decisions = i32::try_from(epoch / every).unwrap_or(i32::MAX);
        let frozen = freezable as f64 * (1.0 - (1.0 - alpha).powi(decisions));
        // one third of 12 is 4, also where it is 3.9999999
        let whole = (0..=freezable).rev().find(|n| *n as f64 <= frozen + 1e-9);
        whole.unwrap_or(0)
    };
    Ok((0..epochs).map(at).collect())
}

/// Training in which layers freeze and pipelines shrink (`PipeTransformer`, He et al. 2021).
///
/// Frozen layers run no backward pass and exchange nothing. They leave the pipeline and stand before
/// its first stage; the epoch after the one in which they froze reads what they gave. The active
/// layers are packed into `K / 2` devices as long as no device then holds more than the fullest did
/// at the beginning, parameters standing for memory and frozen ones counted at a share (section
/// 3.2); stages are cut so that the fullest holds least. `R` pipelines fill the devices
/// and share the samples (section 3.3):
///
/// ```text
/// epoch = ceil(samples / (R batch)) (T(K, chunks) + 2 (R - 1) (bytes / (R bandwidth) + latency))
/// ```
///
/// T: the schedule's step, run through. The exchange is not hidden, since it waits for the last
/// micro-batch.
///
/// The published runs: 2 nodes of 8 devices, pipelines of 8, `alpha` 1/3; ViT-B/16 on `ImageNet` with
/// some 400 samples a pipeline 2.83 times sooner (2.4 times in the first version). Seconds of its
/// layers and the number of epochs are not printed there; a run sets them up as data.
pub fn progressive_freezing(request: &Request, control: &Control) -> Result<Training> {
    check(request)?;
    control.set_total(request.frozen.len() as u64);
    let run = Run {
        request,
        kind: Schedule::named(&request.schedule)?,
    };
    run.kind
        .rule()
        .check(PipelineShape::new(request.pipeline, 1), 1)?;
    let first = run.cut(0, request.pipeline);
    let limit = run.fullest_stage_bytes(0, &first);
    let mut scratch = Scratch::new();
    let plain = run.epoch((0, 0), &first, &mut scratch);
    let mut epochs: Vec<Epoch> = Vec::new();
    let (mut pipeline, mut before) = (request.pipeline, 0);
    for &frozen in &request.frozen {
        if control.is_cancelled() {
            let what = format!("{} of {} epochs ran", epochs.len(), request.frozen.len());
            return Err(Error::Cancelled { what });
        }
        control.advance(1);
        let mut cuts = first.clone();
        if request.parts.repack {
            // more must be frozen than before, or nothing has changed
            while pipeline > 1 && frozen > before && run.can_halve(frozen, pipeline, limit) {
                pipeline /= 2;
            }
            cuts = run.cut(frozen, pipeline);
        }
        let cached = if request.parts.cache { before } else { 0 };
        let mut epoch = run.epoch((frozen, cached), &cuts, &mut scratch);
        if frozen != before {
            epoch.time_s += request.transition_s;
        }
        epochs.push(epoch);
        before = frozen;
    }
    let time = epochs.iter().map(|epoch| epoch.time_s).sum();
    let plain_s = plain.time_s * epochs.len() as f64;
    Ok(Training {
        epochs,
        time_s: time,
        plain_s,
        speedup: if time > 0.0 { plain_s / time } else { 1.0 },
    })
}

struct Run<'a> {
    request: &'a Request,
    kind: Schedule,
}

impl Run<'_> {
    /// True where half the devices hold what is active.
    fn can_halve(&self, frozen: usize, pipeline: u32, limit: f64) -> bool {
        let active = self.request.layers.len() - frozen;
        // a device without a layer holds nothing
        pipeline as usize > active
            || self.fullest_stage_bytes(frozen, &self.cut(frozen, pipeline / 2))
                <= limit * (1.0 + 1e-12)
    }

    /// Parameters of frozen layers as far as they count.
    fn weight_of_frozen(&self, frozen: usize) -> f64 {
        let layers = &self.request.layers[..frozen];
        self.request.frozen_share * layers.iter().map(|l| l.parameter_bytes).sum::<f64>()
    }

    /// Bytes of the fullest stage; the frozen layers stand on the first.
    fn fullest_stage_bytes(&self, frozen: usize, cuts: &[usize]) -> f64 {
        let stages = self.stages(frozen, cuts).into_iter().enumerate();
        let held = stages.map(|(stage, range)| {
            let layers = &self.request.layers[range];
            let own: f64 = layers.iter().map(|l| l.parameter_bytes).sum();
            own + if stage == 0 {
                self.weight_of_frozen(frozen)
            } else {
                0.0
            }
        });
        held.fold(0.0, f64::max)
    }

    /// Active layers of each stage.
    fn stages(&self, frozen: usize, cuts: &[usize]) -> Vec<Range<usize>> {
        let starts = std::iter::once(0).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([self.request.layers.len()]);
        let clipped = starts.zip(ends).map(|(a, b)| a.max(frozen)..b.max(frozen));
        clipped.collect()
    }

    /// First active layers of stages but the first, so that the fullest holds least: `O(K L^2)`.
    ///
    /// Stages beyond the number of active layers stay empty, at the back.
    fn cut(&self, frozen: usize, pipeline: u32) -> Vec<usize> {
        let layers = &self.request.layers;
        let stages = (pipeline as usize).min(layers.len() - frozen);
        // least fullest of the first `end` layers, by number of stages
        let mut least = vec![f64::INFINITY; layers.len() + 1];
        least[frozen] = self.weight_of_frozen(frozen);
        let mut starts = Vec::new();
        for stage in 0..stages {
            let mut next = vec![(f64::INFINITY, 0); layers.len() + 1];
            for (start, held) in least.iter().enumerate() {
                let mut own = 0.0;
                let before = if stage == 0 { 0.0 } else { *held };
                for end in start + 1..=layers.len() {
                    own += layers[end - 1].parameter_bytes;
                    let first = if stage == 0 { *held } else { 0.0 };
                    let fullest = before.max(own + first);
                    if fullest < next[end].0 {
                        next[end] = (fullest, start);
                    }
                }
            }
            least = next.iter().map(|cell| cell.0).collect();
            starts.push(next);
        }
        let mut cuts = vec![layers.len(); pipeline as usize - stages];
        let mut end = layers.len();
        for from in starts.iter().skip(1).rev() {
            end = from[end].1;
            cuts.insert(0, end);
        }
        cuts
    }

    /// An epoch with so many layers frozen, and so many of them cached.
    fn epoch(
        &self,
        (frozen, cached): (usize, usize),
        cuts: &[usize],
        scratch: &mut Scratch,
    ) -> Epoch {
        let request = self.request;
        let pipeline = u32::try_from(cuts.len() + 1).unwrap_or(u32::MAX);
        let all = request.nodes * (request.devices_per_node / pipeline);
        let at_first = request.nodes * (request.devices_per_node / request.pipeline);
        let replicas = if request.parts.replicate {
            all
        } else {
            at_first
        };
        let most = request.batch.min(6 * pipeline);
        let searched = pipeline.min(most)..=most;
        let tried = request.chunks.map_or(searched, |chunks| chunks..=chunks);
        let mut best = (f64::INFINITY, 1);
        for chunks in tried {
            let time = self.pipeline_s((frozen, cached), cuts, chunks, scratch);
            if time < best.0 {
                best = (time, chunks);
            }
        }
        let exchange = self.all_reduce_s(frozen, replicas);
        let together = u64::from(replicas) * u64::from(request.batch);
        let steps = request.samples.div_ceil(together);
        let step = best.0 + exchange;
        Epoch {
            frozen,
            cached,
            pipeline,
            replicas,
            chunks: best.1,
            cuts: cuts.to_vec(),
            steps,
            step_time_s: step,
            all_reduce_s: exchange,
            time_s: steps as f64 * step,
        }
    }

    /// One step of a pipeline.
    fn pipeline_s(
        &self,
        (frozen, cached): (usize, usize),
        cuts: &[usize],
        chunks: u32,
        scratch: &mut Scratch,
    ) -> f64 {
        let layers = &self.request.layers;
        let many = f64::from(chunks);
        let time = |range: Range<usize>, of: fn(&Layer) -> f64| {
            let times = layers[range].iter();
            let times = times.map(|layer| of(layer) / many + layer.overhead_s);
            times.sum::<f64>()
        };
        let forward = |range| time(range, |layer| layer.forward_s);
        let backward = |range| time(range, |layer| layer.backward_s);
        let read = if cached > 0 {
            self.request.cache_s / many
        } else {
            0.0
        };
        let starts = std::iter::once(0).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([layers.len()]);
        let mut passes: Vec<Pass> = Vec::new();
        for (start, end) in starts.zip(ends) {
            // frozen layers run forward where they stand
            let runs = start.max(cached)..end.max(cached);
            let learns = start.max(frozen)..end.max(frozen);
            let first = if start == 0 { read } else { 0.0 };
            passes.push(Pass::new(
                Seconds::new(forward(runs) + first),
                Seconds::new(backward(learns)),
            ));
        }
        let hop = |cut: &usize| {
            let bytes = layers[cut - 1].output_bytes / many;
            let none = *cut <= cached || *cut == layers.len();
            Seconds::new(if none {
                0.0
            } else {
                self.request.link.seconds(bytes)
            })
        };
        let hops: Vec<Seconds> = cuts.iter().map(hop).collect();
        let shape = PipelineShape::new(u32::try_from(passes.len()).unwrap_or(u32::MAX), 1);
        let pipeline = Pipeline {
            hops: Hops::Each(&hops),
            ..Pipeline::new(shape, Passes::Each(&passes), Seconds::ZERO)
        };
        step_time_extrapolated(self.kind, &pipeline, chunks, scratch).value()
    }

    /// A ring all-reduce of the active layers' gradients among all pipelines.
    fn all_reduce_s(&self, frozen: usize, replicas: u32) -> f64 {
        let active = &self.request.layers[frozen..];
        let bytes: f64 = active.iter().map(|layer| layer.parameter_bytes).sum();
        let rounds = 2.0 * f64::from(replicas - 1);
        rounds * self.request.all_reduce.seconds(bytes / f64::from(replicas))
    }
}

fn check(request: &Request) -> Result<()> {
    count("layers", request.layers.len(), 1, MOST)?;
    count("frozen", request.frozen.len(), 1, MOST)?;
    for (index, layer) in request.layers.iter().enumerate() {
        let amounts = [
            ("forward_s", layer.forward_s),
            ("backward_s", layer.backward_s),
            ("overhead_s", layer.overhead_s),
            ("parameter_bytes", layer.parameter_bytes),
            ("output_bytes", layer.output_bytes),
        ];
        for (name, amount) in amounts {
            not_negative(&format!("layers[{index}].{name}"), amount)?;
        }
    }
    let mut before = 0;
    for (epoch, &frozen) in request.frozen.iter().enumerate() {
        let field = format!("frozen[{epoch}]");
        if frozen < before || frozen >= request.layers.len() {
            let most = request.layers.len() - 1;
            let allowed = format!("{before} to {most}: layers stay frozen, the last never is");
            return Err(Error::invalid(field, frozen, allowed));
        }
        before = frozen;
    }
    for (name, value) in [("nodes", request.nodes), ("batch", request.batch)] {
        count(name, value as usize, 1, 1 << 24)?;
    }
    count(
        "devices_per_node",
        request.devices_per_node as usize,
        1,
        MOST,
    )?;
    let most = (request.devices_per_node as usize).min(request.layers.len());
    count("pipeline", request.pipeline as usize, 1, most)?;
    if request.samples == 0 {
        return Err(Error::invalid("samples", 0, "1 or more"));
    }
    if let Some(chunks) = request.chunks {
        count("chunks", chunks as usize, 1, request.batch as usize)?;
    }
    share("frozen_share", request.frozen_share)?;
    not_negative("cache_s", request.cache_s)?;
    not_negative("transition_s", request.transition_s)?;
    for (name, link) in [("link", &request.link), ("all_reduce", &request.all_reduce)] {
        if let Some(rate) = link.bandwidth_bytes_per_s {
            positive(&format!("{name}.bandwidth_bytes_per_s"), rate)?;
        }
        not_negative(&format!("{name}.latency_s"), link.latency_s)?;
    }
    Ok(())
}

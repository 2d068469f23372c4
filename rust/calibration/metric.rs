//! Which figure would a paper print for a priced plan, in its own metric, convention and unit?

use super::observed::Priced;
use crate::error::{Error, Result};
use crate::estimate::Job;
use crate::plan::RecomputePolicy;
use crate::units::{Bytes, FlopsPerSecond, GIBI, Seconds};
use crate::workload::FlopConvention;
use serde::Deserialize;

const SECONDS_PER_DAY: f64 = 86_400.0;
const SECONDS_PER_HOUR: f64 = 3_600.0;

/// What a paper prints and by which convention.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The metric, as `mfu` or `days_for_300b_tokens`.
    pub metric: String,
    /// The unit; empty: the metric's base unit, and percent for a share.
    #[serde(default)]
    pub unit: String,
    /// How the paper counts FLOPs.
    pub flops: FlopConvention,
    /// How it counts what is recomputed.
    #[serde(default)]
    pub recomputed: Recomputed,
    /// The peak that it divides by; absent: the device's in the job's matrix format.
    #[serde(default)]
    pub peak: Option<FlopsPerSecond>,
}

/// How hardware FLOPs count what is computed again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recomputed {
    /// What the plan computes again.
    #[default]
    AsRun,
    /// Full recomputation counts a third more, head and all (llm-foundry's `8 N` for `6 N`).
    ThirdMore,
}

/// A published metric, its name understood.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// FLOP/s of one device.
    DeviceRate,
    /// FLOP/s of all devices.
    JobRate,
    /// Share of the peak.
    ModelUtilisation,
    /// Share of the peak, recomputation counted as work.
    HardwareUtilisation,
    /// Time of a step.
    StepTime,
    /// Tokens per second of the job.
    Tokens,
    /// Tokens per second of one device.
    DeviceTokens,
    /// Sequences per second of the job.
    Sequences,
    /// Sequences per second of one device.
    DeviceSequences,
    /// Time of a run of so many tokens.
    RunTime(f64),
    /// Time of a run of so many tokens, that of each device added.
    DeviceTime(f64),
    /// Bytes on the fullest rank, as the driver shows them.
    PeakMemory,
    /// Bytes that the allocator has taken on the fullest rank: the driver's share is not in it.
    ReservedMemory,
    /// Bytes that tensors take on the fullest rank.
    AllocatedMemory,
    /// The same on a rank of the last stage, where Megatron-LM and torchtitan write their logs.
    LastAllocatedMemory,
    /// Weights, gradients and optimizer state of a stage of layers alone, where there is one: published
    /// sums leave out the tables of the ends (Korthikanti et al. 2022, figure 1: `18 * 12 L h^2 / ranks`).
    StateMemory,
    /// Kept activations of layers on the fullest stage: published sums leave out what embedding, head and
    /// loss keep (Korthikanti et al. 2022, figures 1 and 7, table 2; section 4.3 finds it small).
    ActivationMemory,
    /// Forward time of one layer and micro-batch.
    LayerForward,
    /// Backward time of one layer and micro-batch, recomputation in it.
    LayerBackward,
    /// Both.
    LayerTotal,
}

/// Examples of names that say a run's tokens.
const RUNS: [&str; 3] = [
    "days_for_300b_tokens",
    "training_time_for_300b_tokens",
    "gpu_hours_per_1t_tokens",
];

const NAMES: [(&str, Metric); 48] = [
    ("achieved_tflops", Metric::DeviceRate),
    ("achieved_tflops_per_gpu", Metric::DeviceRate),
    ("achieved_tflops_per_device", Metric::DeviceRate),
    ("model_tflops", Metric::DeviceRate),
    ("model_tflops_per_gpu", Metric::DeviceRate),
    ("model_tflops_per_device", Metric::DeviceRate),
    ("tflops_per_gpu", Metric::DeviceRate),
    ("tflops_per_chip", Metric::DeviceRate),
    ("tflops_per_device", Metric::DeviceRate),
    ("aggregate_pflops", Metric::JobRate),
    ("aggregate_tflops", Metric::JobRate),
    ("total_pflops", Metric::JobRate),
    ("mfu", Metric::ModelUtilisation),
    ("percent_of_peak", Metric::ModelUtilisation),
    ("hfu", Metric::HardwareUtilisation),
    ("iteration_time", Metric::StepTime),
    ("iteration_latency", Metric::StepTime),
    ("step_time", Metric::StepTime),
    ("time_per_step", Metric::StepTime),
    ("time_per_iteration", Metric::StepTime),
    ("throughput", Metric::Tokens),
    ("tokens_per_s", Metric::Tokens),
    ("tokens_per_second", Metric::Tokens),
    ("tokens_per_s_per_gpu", Metric::DeviceTokens),
    ("tokens_per_s_per_chip", Metric::DeviceTokens),
    ("tokens_per_s_per_device", Metric::DeviceTokens),
    ("tokens_per_second_per_gpu", Metric::DeviceTokens),
    ("tokens_per_second_per_device", Metric::DeviceTokens),
    ("sequences_per_s", Metric::Sequences),
    ("samples_per_s", Metric::Sequences),
    ("samples_per_second", Metric::Sequences),
    ("sequences_per_s_per_gpu", Metric::DeviceSequences),
    ("sequences_per_s_per_device", Metric::DeviceSequences),
    ("samples_per_s_per_gpu", Metric::DeviceSequences),
    ("samples_per_s_per_device", Metric::DeviceSequences),
    ("peak_memory", Metric::PeakMemory),
    ("peak_memory_per_gpu", Metric::PeakMemory),
    ("peak_memory_per_device", Metric::PeakMemory),
    ("peak_reserved_per_gpu", Metric::ReservedMemory),
    ("peak_reserved_per_device", Metric::ReservedMemory),
    ("peak_allocated_per_gpu", Metric::AllocatedMemory),
    ("peak_allocated_per_device", Metric::AllocatedMemory),
    ("peak_allocated_last_stage", Metric::LastAllocatedMemory),
    (
        "weights_grads_optimizer_memory_per_gpu",
        Metric::StateMemory,
    ),
    ("activation_memory_per_gpu", Metric::ActivationMemory),
    ("layer_forward_time", Metric::LayerForward),
    ("layer_backward_time", Metric::LayerBackward),
    ("layer_total_time", Metric::LayerTotal),
];

impl Metric {
    /// Understands a metric's name.
    pub fn named(name: &str) -> Result<Self> {
        let wanted = name.trim().to_ascii_lowercase();
        if let Some(run) = run_of_tokens(&wanted) {
            return Ok(run);
        }
        NAMES
            .iter()
            .find(|(known, _)| *known == wanted)
            .map(|(_, metric)| *metric)
            .ok_or_else(|| {
                let known = NAMES.iter().map(|(known, _)| *known);
                Error::unknown("metric", name, known.chain(RUNS))
            })
    }

    /// The units in which the metric is printed, with their sizes; the first is the default.
    fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::DeviceRate | Self::JobRate => &[
                ("FLOP/s", 1.0),
                ("GFLOP/s", 1e9),
                ("TFLOP/s", 1e12),
                ("PFLOP/s", 1e15),
                ("EFLOP/s", 1e18),
            ],
            Self::ModelUtilisation | Self::HardwareUtilisation => {
                &[("%", 0.01), ("share", 1.0), ("fraction", 1.0)]
            }
            Self::StepTime
            | Self::RunTime(_)
            | Self::LayerForward
            | Self::LayerBackward
            | Self::LayerTotal => &[
                ("s", 1.0),
                ("ms", 1e-3),
                ("min", 60.0),
                ("h", SECONDS_PER_HOUR),
                ("day", SECONDS_PER_DAY),
                ("days", SECONDS_PER_DAY),
            ],
            Self::DeviceTime(_) => &[
                ("h", SECONDS_PER_HOUR),
                ("GPU-h", SECONDS_PER_HOUR),
                ("K h", 1e3 * SECONDS_PER_HOUR),
                ("K GPU-h", 1e3 * SECONDS_PER_HOUR),
                ("day", SECONDS_PER_DAY),
                ("days", SECONDS_PER_DAY),
            ],
            Self::Tokens | Self::DeviceTokens => &[("tokens/s", 1.0), ("K tokens/s", 1e3)],
            Self::Sequences | Self::DeviceSequences => &[("sequences/s", 1.0), ("samples/s", 1.0)],
            _ => &[
                ("B", 1.0),
                ("MB", 1e6),
                ("GB", 1e9),
                ("MiB", 1_048_576.0),
                ("GiB", GIBI),
            ],
        }
    }

    fn unit_size(self, unit: &str) -> Result<f64> {
        let units = self.units();
        let wanted = plain_unit(unit);
        if wanted.is_empty() {
            return Ok(units[0].1);
        }
        units
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(&wanted))
            .map(|(_, size)| *size)
            .ok_or_else(|| Error::unknown("unit", unit, units.iter().map(|(known, _)| *known)))
    }
}

/// A unit in one spelling: "% of 312" says the peak as well, "tokens/s/GPU" whose tokens they are,
/// and rates are written "TFLOPS", "TFLOPs/s" or "TFLOP/s".
fn plain_unit(unit: &str) -> String {
    let head = unit.split(" of ").next().unwrap_or(unit).trim();
    let mut plain = head.to_ascii_lowercase();
    for owner in ["/gpu", "/chip", "/device", "/accelerator"] {
        plain = plain.replace(owner, "");
    }
    let rate = plain.strip_suffix("flops/s");
    if let Some(scale) = rate.or_else(|| plain.strip_suffix("flops")) {
        return format!("{scale}flop/s");
    }
    let spelt = match plain.as_str() {
        "sec" | "seconds" | "second" => "s",
        "milliseconds" => "ms",
        "minutes" => "min",
        "hours" | "hour" => "h",
        "percent" => "%",
        "tok/s" | "tokens/sec" | "tokens/second" => "tokens/s",
        other => other,
    };
    spelt.to_owned()
}

/// The figure that a paper would print for `priced`, in the request's unit.
///
/// With `F` FLOPs per token by the convention, `T` tokens a step, `t` its time in seconds, `n`
/// devices, `P` the peak of one: rate per device `F T / (t n)` in FLOP/s, utilisation `F T / (t n
/// P)`, run of `R` tokens `R t / T` in seconds (Narayanan et al. 2021, section 5.1), `n` times that over
/// all devices.
pub fn published(job: &Job, priced: &Priced, request: &Request) -> Result<f64> {
    let metric = Metric::named(&request.metric)?;
    let step = priced.step_time_s;
    let devices = f64::from(job.cluster.devices);
    let sequence = job.training.sequence;
    let counted = job.model.flops_per_token(sequence, request.flops) * job.tokens();
    let rate = counted.value() / step.value();
    let value = match metric {
        Metric::DeviceRate => rate / devices,
        Metric::JobRate => rate,
        Metric::ModelUtilisation => rate / devices / peak(job, request)?,
        Metric::HardwareUtilisation => {
            let ran = hardware_ratio(priced, request.recomputed, counted.value());
            rate * ran / devices / peak(job, request)?
        }
        Metric::StepTime => step.value(),
        Metric::Tokens => job.tokens() / step.value(),
        Metric::DeviceTokens => job.tokens() / step.value() / devices,
        Metric::Sequences => job.training.global_batch as f64 / step.value(),
        Metric::DeviceSequences => job.training.global_batch as f64 / step.value() / devices,
        Metric::RunTime(tokens) => run_time(tokens, job, step).value(),
        Metric::DeviceTime(tokens) => run_time(tokens, job, step).value() * devices,
        Metric::PeakMemory => priced.peak_memory_bytes.value(),
        Metric::ReservedMemory => {
            let taken = |s: &super::observed::Stage| s.total_bytes - s.reserve_bytes;
            priced.most(taken).value()
        }
        Metric::AllocatedMemory => priced.most(allocated).value(),
        Metric::LastAllocatedMemory => {
            let last = priced.memory.last();
            last.map_or(0.0, |stage| allocated(stage).value())
        }
        Metric::StateMemory => priced
            .inner_most(|s| {
                let gradients = s.gradients_bytes + s.later_gradients_bytes;
                s.weights_bytes + gradients + s.optimizer_bytes
            })
            .value(),
        Metric::ActivationMemory => {
            let layers = |s: &super::observed::Stage| {
                s.activations_bytes - s.end_activations_bytes + s.earlier_activations_bytes
            };
            priced.most(layers).value()
        }
        Metric::LayerForward | Metric::LayerBackward | Metric::LayerTotal => {
            let counts: fn(&str) -> bool = match metric {
                Metric::LayerForward => |phase| phase == "forward",
                Metric::LayerBackward => |phase| matches!(phase, "backward" | "recompute"),
                _ => |phase| matches!(phase, "forward" | "backward" | "recompute"),
            };
            priced.layer_time(job.model.layers, counts)?.value()
        }
    };
    Ok(value / metric.unit_size(&request.unit)?)
}

fn allocated(stage: &super::observed::Stage) -> Bytes {
    stage.total_bytes - stage.reserve_bytes - stage.fragmentation_bytes
}

/// Hardware FLOPs over the counted ones.
fn hardware_ratio(priced: &Priced, recomputed: Recomputed, counted: f64) -> f64 {
    let full = priced.plan.recompute == RecomputePolicy::Full;
    if recomputed == Recomputed::ThirdMore && full {
        return 4.0 / 3.0;
    }
    let again = priced.hardware_flops_per_step - priced.model_flops_per_step;
    1.0 + again.value() / counted
}

fn run_time(tokens: f64, job: &Job, step: Seconds) -> Seconds {
    step * (tokens / job.tokens() / job.training.goodput)
}

fn peak(job: &Job, request: &Request) -> Result<f64> {
    let format = job.training.precision.matmul();
    let own = || job.cluster.device.matrix_peak(format);
    match request.peak.or_else(own) {
        Some(peak) if peak.value() > 0.0 => Ok(peak.value()),
        Some(peak) => Err(Error::invalid("peak", peak.value(), "a rate above 0")),
        None => Err(Error::inconsistent(format!(
            "device {} has no peak in {}",
            job.cluster.device.name,
            format.name()
        ))),
    }
}

/// What a name that says tokens means: `days_for_300b_tokens`, `gpu_hours_per_trillion_tokens`.
fn run_of_tokens(name: &str) -> Option<Metric> {
    let amount = |start: &str| tokens_in(name.strip_prefix(start)?.strip_suffix("_tokens")?);
    let whole = ["days_for_", "training_time_for_"];
    if let Some(tokens) = whole.into_iter().find_map(amount) {
        return Some(Metric::RunTime(tokens));
    }
    let each = [
        "gpu_hours_per_",
        "gpu_hours_for_",
        "device_hours_per_",
        "device_hours_for_",
    ];
    each.into_iter().find_map(amount).map(Metric::DeviceTime)
}

/// A number of tokens as `300b`, `1t` or `trillion`.
fn tokens_in(amount: &str) -> Option<f64> {
    match amount {
        "million" => return Some(1e6),
        "billion" => return Some(1e9),
        "trillion" => return Some(1e12),
        _ => {}
    }
    let scale = match amount.chars().last()? {
        'm' => 1e6,
        'b' => 1e9,
        't' => 1e12,
        _ => 1.0,
    };
    let tokens: f64 = amount.trim_end_matches(['m', 'b', 't']).parse().ok()?;
    (1e-6..=1e18).contains(&tokens).then_some(tokens * scale)
}

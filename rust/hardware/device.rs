//! A device: compute engines by number format, memory tiers, launch overhead, power, area, price.

use super::attention_model::{AttentionModel, AttentionPass, TrainingAttention};
use super::matmul_model::MatmulModel;
use super::serving::{DecodeModel, ExpertModel, PrefillModel};
use super::tier::{MemoryTier, TierKind};
use crate::defaults;
use crate::error::{Error, Result};
use crate::units::{Bytes, Dollars, Dtype, FlopsPerSecond, Seconds, SquareMillimetres, Watts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One accelerator as the framework sees it (one rank).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Catalog name, as `a100-sxm-80gb`.
    pub name: String,
    /// Full product name.
    pub title: String,
    /// Maker.
    pub vendor: String,
    /// Year of first shipment.
    pub year: u32,
    /// Other spellings that mean this device.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Dense peak rate of the matrix engine by number format.
    pub matrix: BTreeMap<Dtype, FlopsPerSecond>,
    /// Peak rate of the vector engine in fp32.
    pub vector: FlopsPerSecond,
    /// Memory tiers, nearest first; the last one holds the working set.
    pub tiers: Vec<MemoryTier>,
    /// Main memory that the driver, kernels and communicator buffers take.
    #[serde(default = "default_reserve")]
    pub reserved_memory: Bytes,
    /// What one kernel launch adds at least.
    pub launch_overhead: Seconds,
    /// What a kernel that moves bytes adds to its traffic in a stream of such, launch included: it starts
    /// when the one before has drained, fills the memory's pipes and drains them; absent: `launch_overhead`.
    #[serde(default)]
    pub stream_overhead: Option<Seconds>,
    /// Share of the rate of other streaming kernels that casts reach which write a tensor in a narrow format
    /// twice, along its rows and along its columns.
    #[serde(default = "whole")]
    pub cast_share: f64,
    /// Rate that large products hold hour after hour at the power limit, by number format, where it is
    /// known to be below what they reach in a short test.
    #[serde(default)]
    pub sustained: BTreeMap<Dtype, FlopsPerSecond>,
    /// Share of the device's rate in a test that large products reach with the library of the running
    /// program, by number format; what is not listed reaches all of it.
    #[serde(default)]
    pub product_share: BTreeMap<Dtype, f64>,
    /// How matrix products use the matrix engine.
    #[serde(default)]
    pub matmul: MatmulModel,
    /// How fused attention kernels use the matrix engine: those of inference in 16 bits, and of training in formats
    /// that `training_attention` does not list.
    #[serde(default)]
    pub attention: AttentionModel,
    /// Attention kernels of training that were timed by themselves, by the format of their products; fp16 runs as bf16.
    #[serde(default)]
    pub training_attention: BTreeMap<Dtype, TrainingAttention>,
    /// How prefill attention of inference runs, by format of the queries.
    #[serde(default)]
    pub prefill: BTreeMap<Dtype, PrefillModel>,
    /// How decode attention runs, by format of the cache.
    #[serde(default)]
    pub decode: BTreeMap<Dtype, DecodeModel>,
    /// How the experts of a mixture run in inference, by the format that their products read.
    #[serde(default)]
    pub experts: BTreeMap<Dtype, ExpertModel>,
    /// Compute units that collectives occupy while they run beside kernels (NCCL channels);
    /// 0 where the network moves data by itself.
    #[serde(default)]
    pub communication_units: f64,
    /// Standard deviation of matrix speed among devices of the kind, as a share of the mean: power
    /// management holds unlike chips at unlike clocks.
    #[serde(default)]
    pub speed_spread: f64,
    /// Electrical power.
    pub power: DevicePower,
    /// Silicon area of the compute dies.
    #[serde(default)]
    pub die_area: Option<SquareMillimetres>,
    /// Price of one device.
    #[serde(default)]
    pub price: Option<Dollars>,
    /// What the efficiency constants rest on.
    #[serde(default)]
    pub calibration: Calibration,
    /// Where each figure comes from, by field path.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
    /// The device before `Cluster::scaled` changed it, where rates last: what a short test reaches is
    /// taken from it, and `sustained` is held against that.
    #[serde(skip)]
    pub unscaled: Option<Arc<Device>>,
}

/// Electrical power of one device.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevicePower {
    /// Sustained power limit.
    pub peak: Watts,
    /// Power while waiting.
    pub idle: Watts,
}

/// What the efficiency constants of a device rest on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Calibration {
    /// True when the constants were fitted to measurements of this device.
    pub measured: bool,
    /// The measurements, or the device whose constants were taken over.
    pub basis: String,
}

impl Device {
    /// Dense peak of the matrix engine; a format it lacks runs in the nearest wider one it has.
    pub fn matrix_peak(&self, dtype: Dtype) -> Option<FlopsPerSecond> {
        let listed = self.engine_format(dtype).and_then(|d| self.matrix.get(&d));
        listed
            .copied()
            .or(matches!(dtype, Dtype::Fp32 | Dtype::Tf32).then_some(self.vector))
    }

    /// Peak at which products in `dtype` run: the matrix engine's, or else the vector engine's.
    pub fn engine_peak(&self, dtype: Dtype) -> FlopsPerSecond {
        self.matrix_peak(dtype).unwrap_or(self.vector)
    }

    /// The format in which the matrix engine runs products in `dtype`.
    pub(crate) fn engine_format(&self, dtype: Dtype) -> Option<Dtype> {
        let fallbacks: &[Dtype] = match dtype {
            Dtype::Fp16 => &[Dtype::Fp16, Dtype::Bf16, Dtype::Tf32, Dtype::Fp32],
            Dtype::Bf16 => &[Dtype::Bf16, Dtype::Fp16, Dtype::Tf32, Dtype::Fp32],
            Dtype::Mxfp8 => &[Dtype::Mxfp8, Dtype::Fp8],
            Dtype::Fp32 => &[Dtype::Fp32],
            Dtype::Tf32 => &[Dtype::Tf32, Dtype::Fp32],
            Dtype::Fp64 => &[Dtype::Fp64],
            Dtype::Fp8 => &[Dtype::Fp8],
            Dtype::Int8 => &[Dtype::Int8],
            Dtype::Nvfp4 => &[Dtype::Nvfp4],
            Dtype::Mxfp4 => &[Dtype::Mxfp4, Dtype::Nvfp4],
            Dtype::Int4 => &[Dtype::Int4],
        };
        fallbacks
            .iter()
            .copied()
            .find(|d| self.matrix.contains_key(d))
    }

    /// Share of the compute units that a running collective takes from kernels beside it.
    pub fn contention(&self) -> f64 {
        (self.communication_units / f64::from(self.matmul.units)).min(1.0)
    }

    /// The same of chunks that tensor ranks exchange: copy engines carry them, which take one unit at
    /// most (Transformer Engine, `ring_exchange` of user buffers: `num_sm` 1 and `use_ce`,
    /// `transformer_engine/pytorch/module/base.py`).
    pub fn chunk_contention(&self) -> f64 {
        (self.communication_units.min(1.0) / f64::from(self.matmul.units)).min(1.0)
    }

    /// The same of a ring whose ranks send to one peer over a network and receive from one: `NCCL` gives a peer there
    /// two channels (`ncclTopoGetNchannels` of `src/graph/paths.cc`), one unit each, which send and receive.
    pub fn peer_contention(&self) -> f64 {
        (self
            .communication_units
            .min(defaults::library::peer::CHANNELS)
            / f64::from(self.matmul.units))
        .min(1.0)
    }

    /// How much longer matrix work takes on the slowest of `count` devices than on a typical one.
    /// Synchronous training waits for it: `1 + speed_spread * E[largest of count normal draws]`.
    pub fn slowest_of(&self, count: u32) -> f64 {
        1.0 + self.speed_spread * crate::solve::expected_largest(count)
    }

    /// What a kernel that moves bytes adds to its traffic.
    pub fn stream_overhead(&self) -> Seconds {
        self.stream_overhead.unwrap_or(self.launch_overhead)
    }

    /// The format in which attention of training multiplies what is asked for in `dtype`: kernels narrower than 16 bits
    /// are known of devices alone that list them.
    pub fn attention_format(&self, dtype: Dtype) -> Dtype {
        if dtype.bytes() >= Dtype::Bf16.bytes() || self.training_attention.contains_key(&dtype) {
            dtype
        } else {
            Dtype::Bf16
        }
    }

    /// The constants of an attention pass of training with products in `dtype`.
    pub fn attention_pass(&self, dtype: Dtype, backward: bool) -> AttentionPass {
        let family = if dtype == Dtype::Fp16 {
            Dtype::Bf16
        } else {
            dtype
        };
        let timed = self.training_attention.get(&family);
        timed
            .and_then(|passes| passes.pass(backward))
            .unwrap_or_else(|| self.attention.pass(backward))
    }

    /// The tier that holds weights and activations: the last one.
    pub fn main_memory(&self) -> &MemoryTier {
        &self.tiers[self.tiers.len() - 1]
    }

    /// On-chip memory, where a device has another tier behind it.
    pub fn cache(&self) -> Option<&MemoryTier> {
        self.tiers
            .iter()
            .rev()
            .skip(1)
            .find(|t| t.kind == TierKind::Sram)
    }

    /// The same, to be changed.
    pub(super) fn cache_mut(&mut self) -> Option<&mut MemoryTier> {
        let mut behind = self.tiers.iter_mut().rev().skip(1);
        behind.find(|t| t.kind == TierKind::Sram)
    }

    /// Refuses figures that no device can have.
    pub fn check(&self) -> Result<()> {
        let at = |field: &str| format!("device {}.{field}", self.name);
        if self.tiers.is_empty() {
            return Err(Error::invalid(
                at("tiers"),
                "none",
                "at least one memory tier",
            ));
        }
        for tier in &self.tiers {
            let path = at(&format!("tiers.{}", tier.name));
            tier.check(&path)?;
        }
        self.check_rates()?;
        if !(0.0..0.5).contains(&self.speed_spread) {
            let allowed = "a share from 0 up to 0.5";
            return Err(Error::invalid(
                at("speed_spread"),
                self.speed_spread,
                allowed,
            ));
        }
        not_negative(&at("communication_units"), self.communication_units)?;
        share(&at("cast_share"), self.cast_share)?;
        not_negative(&at("launch_overhead"), self.launch_overhead.value())?;
        not_negative(&at("stream_overhead"), self.stream_overhead().value())?;
        positive(&at("power.peak"), self.power.peak.value())?;
        if self.power.idle > self.power.peak {
            let allowed = format!("at most power.peak = {} W", self.power.peak.value());
            return Err(Error::invalid(
                at("power.idle"),
                self.power.idle.value(),
                allowed,
            ));
        }
        self.matmul.check(&at("matmul"))?;
        self.attention.check(&at("attention"))?;
        for (dtype, passes) in &self.training_attention {
            passes.check(&at(&format!("training_attention.{}", dtype.name())))?;
        }
        for (dtype, model) in &self.prefill {
            model.check(&at(&format!("prefill.{}", dtype.name())))?;
        }
        for (dtype, model) in &self.decode {
            model.check(&at(&format!("decode.{}", dtype.name())))?;
        }
        for (dtype, model) in &self.experts {
            model.check(&at(&format!("experts.{}", dtype.name())))?;
        }
        Ok(())
    }

    /// Refuses engines without a rate, or with one that none can have.
    fn check_rates(&self) -> Result<()> {
        let at = |field: &str| format!("device {}.{field}", self.name);
        if self.matrix.is_empty() {
            return Err(Error::invalid(
                at("matrix"),
                "none",
                "a peak for at least one dtype",
            ));
        }
        for (dtype, peak) in &self.matrix {
            positive(&at(&format!("matrix.{}", dtype.name())), peak.value())?;
        }
        for (dtype, rate) in &self.sustained {
            let field = at(&format!("sustained.{}", dtype.name()));
            positive(&field, rate.value())?;
            if let Some(peak) = self
                .matrix
                .get(dtype)
                .filter(|peak| rate.value() > peak.value())
            {
                let allowed = format!("up to the peak, {:e} FLOP/s", peak.value());
                return Err(Error::invalid(field, rate.value(), allowed));
            }
        }
        for (dtype, part) in &self.product_share {
            share(&at(&format!("product_share.{}", dtype.name())), *part)?;
        }
        positive(&at("vector"), self.vector.value())
    }
}

/// Refuses anything but a number above zero whose products stay finite.
pub(super) fn positive(field: &str, value: f64) -> Result<()> {
    if (1e-30..=1e30).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid(field, value, "1e-30 to 1e30"))
    }
}

/// Refuses anything but a share above 0 and up to 1.
pub(super) fn share(field: &str, value: f64) -> Result<()> {
    if (1e-9..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid(field, value, "a share from 1e-9 to 1"))
    }
}

fn whole() -> f64 {
    1.0
}

fn default_reserve() -> Bytes {
    defaults::device::RESERVED_MEMORY
}

/// Refuses anything but a number of at least zero whose products stay finite.
pub(super) fn not_negative(field: &str, value: f64) -> Result<()> {
    if (0.0..=1e9).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid(field, value, "0 to 1e9"))
    }
}

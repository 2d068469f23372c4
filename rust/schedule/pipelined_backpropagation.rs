//! How does a pipeline run that updates after every micro-batch (Kosson et al. 2021)?

use super::one_forward_one_backward::with_warm_up;
use super::operation::Operation;
use super::pipeline::Pipeline;
use super::rule::ScheduleRule;
use super::stages::{Makespan, PipelineShape};
use super::turns::{self, PassOffsets};
use crate::error::{Error, Result};
use crate::units::Seconds;

/// Every stage runs one forward and one backward in each time step; nothing is flushed or stashed.
///
/// Filling and draining the pipeline for each batch of `N` would take `N + 2 (p - 1)` time steps,
/// a utilisation of `N / (N + 2 p - 2)`; here every time step is full (Kosson et al. 2021).
pub(super) struct PipelinedBackpropagation;

/// How a stage makes up for the updates between a micro-batch's forward and backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mitigation {
    /// It does not: the backward pass takes whatever weights there are.
    None,
    /// The update weighs the newest gradient more, as if its delay had been none.
    SpikeCompensation,
    /// The forward pass takes the weights that the velocity foretells for the backward pass.
    WeightPrediction,
    /// Spike compensation and weight prediction.
    Both,
    /// The backward pass takes the weights of the forward pass, which are kept meanwhile.
    WeightStashing,
}

impl Mitigation {
    /// Every way with its name.
    pub const NAMED: [(&'static str, Self); 5] = [
        ("none", Self::None),
        ("spike-compensation", Self::SpikeCompensation),
        ("weight-prediction", Self::WeightPrediction),
        ("both", Self::Both),
        ("weight-stashing", Self::WeightStashing),
    ];

    /// The way of a name.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::NAMED.iter().find(|(known, _)| *known == name);
        let names = Self::NAMED.map(|(known, _)| known);
        let unknown = || Error::unknown("mitigation", name, names);
        found.map(|(_, way)| *way).ok_or_else(unknown)
    }
}

/// Tensors of the weights' size that a stage holds for it beside weights, gradient and velocity.
///
/// `delay`: updates between a micro-batch's forward and backward pass, `staleness` of the stage.
///
/// Spike compensation updates `w - lr (a v + b g)` from the velocity `v` and gradient `g` that are
/// there (Kosson et al. 2021). Weight prediction takes forward passes through
/// `w - lr D v`, held beside the weights `w` of the backward passes, for the delay `D`.
/// Stashing keeps one older version per update of delay.
pub fn mitigation_copies(mitigation: Mitigation, delay: u32) -> u32 {
    match mitigation {
        Mitigation::None | Mitigation::SpikeCompensation => 0,
        // without a delay the weights foretold are the weights
        Mitigation::WeightPrediction | Mitigation::Both => delay.min(1),
        Mitigation::WeightStashing => delay,
    }
}

fn delay(shape: PipelineShape, device: u32) -> u32 {
    shape.stages.saturating_sub(device + 1).saturating_mul(2)
}

impl ScheduleRule for PipelinedBackpropagation {
    fn name(&self) -> &'static str {
        "pipelined-backpropagation"
    }

    fn source(&self) -> &'static str {
        "Kosson et al. 2021 (Pipelined Backpropagation at Scale), arXiv 2003.11666"
    }

    /// `2 (p - 1 - i)` forwards, then one forward and one backward in turn.
    fn order(
        &self,
        shape: PipelineShape,
        micro_batches: u32,
        device: u32,
        order: &mut Vec<Operation>,
    ) {
        with_warm_up(delay(shape, device), device, micro_batches, order);
    }

    fn flushes(&self) -> bool {
        false
    }

    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        let shape = pipeline.shape;
        let turns = |stage| PassOffsets {
            warm_up: delay(shape, stage),
            lag: 0,
        };
        Makespan {
            time: Seconds::new(turns::bound(pipeline, micro_batches, false, turns)),
            exact: pipeline.uniform(shape.stages) && pipeline.alike(),
        }
    }

    /// `min(2 (p - 1 - i) + 1, m)` micro-batches.
    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        delay(shape, device).saturating_add(1).min(micro_batches)
    }

    /// `2 (p - 1 - i)` updates.
    fn staleness(&self, shape: PipelineShape, _micro_batches: u32, device: u32) -> u32 {
        delay(shape, device)
    }
}

//! What runs when on each rank of a plan, if the step's tasks are simulated on its resources?
//!
//! The witness of `compose`: the same priced kernels and collectives as tasks on engines, one rank of
//! each pipeline stage standing for all ranks of it, since tensor, context, expert and data ranks of
//! a stage do the same at the same time. Kernels slow down while a collective runs beside them by
//! the share of compute units that it takes (`contention`).

mod builder;
mod layout;
mod offload;
mod pieces;
mod step;

use super::compose::Composer;
use super::job::Job;
use crate::control::Control;
use crate::error::Result;
use crate::plan::{BrokenRule, Plan};
use crate::schedule::Scratch;
use crate::solve;
use layout::StepLayout;

/// Most tasks of a simulated step.
pub const MOST_TASKS: usize = 1 << 24;

/// What a task of the timeline belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Category {
    /// Forward pass.
    Forward,
    /// Backward pass.
    Backward,
    /// Gradients of inputs alone.
    Input,
    /// Gradients of weights alone.
    Weight,
    /// A tensor on its way to another stage.
    Send,
    /// Gather or reduction of weights and gradients over replicas.
    Replicas,
    /// Optimizer.
    Optimizer,
    /// Copies between device and host, and the host's update.
    Host,
}

impl Category {
    /// Names, by number.
    pub const NAMES: [&'static str; 8] = [
        "forward",
        "backward",
        "input",
        "weight",
        "send",
        "replicas",
        "optimizer",
        "host",
    ];
}

/// A resource of one stage's representative rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// Pipeline stage.
    pub stage: u32,
    /// `compute`, a fabric level, the direction of a send or of a copy, or the host.
    pub name: String,
}

/// A simulated step, task by task.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepTimeline {
    /// Resources, stage after stage.
    pub engines: Vec<Engine>,
    /// Names of what runs.
    pub labels: Vec<String>,
    /// Engine of each task.
    pub engine: Vec<u32>,
    /// Label of each task.
    pub label: Vec<u16>,
    /// Category of each task, as a number of `Category`.
    pub category: Vec<u8>,
    /// Micro-batch of each task; -1 where it belongs to none.
    pub micro_batch: Vec<i32>,
    /// Virtual stage of each task; -1 where it belongs to none.
    pub virtual_stage: Vec<i32>,
    /// Start of each task, seconds.
    pub start: Vec<f64>,
    /// End of each task, seconds.
    pub end: Vec<f64>,
    /// End of the last task, seconds.
    pub simulated_step_time_s: f64,
    /// The step time that `estimate` gives, seconds.
    pub estimated_step_time_s: f64,
    /// Devices for which each representative rank stands.
    pub stands_for: u32,
}

/// Simulates a step of a plan, or says which rule the plan breaks.
///
/// Fails on a step of more than `MOST_TASKS` tasks and when cancelled.
pub fn simulate(
    job: &Job,
    plan: &Plan,
    control: &Control,
) -> Result<std::result::Result<StepTimeline, BrokenRule>> {
    let split = match crate::plan::check(plan, &job.shape, &job.training, job.cluster.devices) {
        Ok(split) => split,
        Err(rule) => return Ok(Err(rule)),
    };
    let simulated = super::verdict::with_composer(job, plan, |composer| {
        let mut layout = StepLayout::new(composer, split)?;
        layout.lay_out(control)?;
        finish(composer, layout)
    });
    match simulated {
        Ok(timeline) => timeline.map(Ok),
        Err(rule) => Ok(Err(rule)),
    }
}

fn finish(composer: &Composer, layout: StepLayout) -> Result<StepTimeline> {
    let line = solve::simulate(&layout.state.tasks)?;
    let composed = composer.compose(&mut Scratch::new());
    let devices = composer.job.cluster.devices;
    Ok(StepTimeline {
        simulated_step_time_s: line.makespan(),
        estimated_step_time_s: composed.time,
        stands_for: devices / composer.plan.pipeline,
        start: line.start,
        end: line.end,
        ..layout.state.into_timeline()
    })
}

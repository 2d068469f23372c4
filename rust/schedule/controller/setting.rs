//! What does a step compute, on which hosts, and what does it cost to tell them?

use crate::defaults::controller;
use crate::error::{Error, Result};
use crate::schedule::Schedule;
use crate::units::Seconds;
use serde::Deserialize;

/// Computations, or passes of a pipeline, that one step may have.
const MOST_COMPUTATIONS: u64 = 1 << 18;
/// Hosts that a controller may have.
const MOST_HOSTS: u32 = 1 << 20;
/// Keeps sums of all times finite.
const LONGEST: f64 = 1e12;

/// A program, the machines that run it and what dispatching it costs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DispatchSetting {
    /// What a step computes.
    pub program: Program,
    /// Machines that enqueue work on their own devices.
    pub hosts: u32,
    /// Devices of each host.
    #[serde(default = "one")]
    pub devices_per_host: u32,
    /// Groups of hosts whose devices share a fast fabric; each has its own gang scheduler.
    #[serde(default = "one")]
    pub islands: u32,
    /// What dispatch costs.
    #[serde(default)]
    pub costs: Costs,
    /// Data between groups of devices.
    #[serde(default)]
    pub transfers: Transfers,
    /// Seconds that a host's input pipeline takes for a step: one for all hosts, or one each.
    #[serde(default)]
    pub input: Vec<Seconds>,
    /// Steps whose input may lie ready before they start; 0: read when the step before has ended.
    #[serde(default = "one")]
    pub prefetch: u32,
}

/// What a step computes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// Computations one after another, each with the output of the one before.
    Chain(Chain),
    /// Passes of micro-batches over stages.
    Pipeline(Stages),
}

/// Computations one after another.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// Seconds of each computation on its devices.
    pub seconds: Vec<Seconds>,
    /// Groups of devices that take turns at the computations; 1: all devices run each one (SPMD).
    #[serde(default = "one")]
    pub groups: u32,
    /// Seconds that each computation's gradients take between islands; empty where there are none.
    #[serde(default)]
    pub exchange: Vec<Seconds>,
}

/// A pipeline of alike stages.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stages {
    /// Order of the passes: a schedule that flushes and runs the backward pass whole.
    pub schedule: Schedule,
    /// Groups of devices, one per stage.
    pub stages: u32,
    /// Micro-batches of a step.
    pub micro_batches: u32,
    /// Forward pass of a micro-batch on one virtual stage.
    pub forward: Seconds,
    /// Its backward pass.
    pub backward: Seconds,
}

/// What it costs to tell a device what to run.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// One way from the controller to a host, or between hosts, over the data-centre network.
    pub latency: Seconds,
    /// Time of the controller's CPU for a message to one host and its answer.
    pub message: Seconds,
    /// Time of the controller's CPU for the handle of one device's part of a computation.
    pub handle: Seconds,
    /// Time of an island's scheduler to put one gang of computations in order.
    pub scheduler: Seconds,
    /// Time of a host's CPU to allocate buffers and launch one computation.
    pub prepare: Seconds,
    /// From the host's launch to the device over PCIe.
    pub enqueue: Seconds,
}

impl Default for Costs {
    /// Typical figures; what is unknown takes nothing.
    fn default() -> Self {
        Self {
            latency: controller::LATENCY,
            message: controller::MESSAGE,
            handle: Seconds::ZERO,
            scheduler: Seconds::ZERO,
            prepare: controller::PREPARE,
            enqueue: controller::ENQUEUE,
        }
    }
}

/// Data that groups of devices hand on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Transfers {
    /// From one group to the next inside an island.
    pub within: Seconds,
    /// From one group to the next where they lie on two islands.
    pub between: Seconds,
    /// True where the sender's devices wait for the data to arrive, and every next computation for
    /// the gradients exchanged before it.
    pub blocking: bool,
}

fn one() -> u32 {
    1
}

impl DispatchSetting {
    /// Fails on a value that is not allowed, naming it.
    pub fn check(&self) -> Result<()> {
        let count = |field: &str, value: u32, most: u32| {
            if (1..=most).contains(&value) {
                return Ok(());
            }
            Err(Error::invalid(field, value, format!("1 to {most}")))
        };
        count("hosts", self.hosts, MOST_HOSTS)?;
        count("devices_per_host", self.devices_per_host, MOST_HOSTS)?;
        count("islands", self.islands, self.hosts)?;
        if !self.hosts.is_multiple_of(self.islands) {
            let allowed = format!("a divisor of hosts={}: islands are alike", self.hosts);
            return Err(Error::invalid("islands", self.islands, allowed));
        }
        match &self.program {
            Program::Chain(chain) => self.check_chain(chain)?,
            Program::Pipeline(stages) => self.check_stages(stages)?,
        }
        if ![0, 1, self.hosts as usize].contains(&self.input.len()) {
            let got = format!("{} numbers", self.input.len());
            let allowed = format!("none, one for all, or one for each of hosts={}", self.hosts);
            return Err(Error::invalid("input", got, allowed));
        }
        self.input
            .iter()
            .try_for_each(|seconds| time("input", *seconds))?;
        self.costs.check()?;
        time("transfers.within", self.transfers.within)?;
        time("transfers.between", self.transfers.between)
    }

    fn check_chain(&self, chain: &Chain) -> Result<()> {
        let count = chain.seconds.len();
        if !(1..=MOST_COMPUTATIONS).contains(&(count as u64)) {
            let got = format!("{count} computations");
            let allowed = format!("1 to {MOST_COMPUTATIONS}");
            return Err(Error::invalid("program.chain.seconds", got, allowed));
        }
        let field = "program.chain.exchange";
        if ![0, count].contains(&chain.exchange.len()) {
            let got = format!("{} numbers", chain.exchange.len());
            let allowed = format!("none, or one for each of {count} computations");
            return Err(Error::invalid(field, got, allowed));
        }
        let all = |field: &str, times: &[Seconds]| times.iter().try_for_each(|s| time(field, *s));
        all("program.chain.seconds", &chain.seconds)?;
        all(field, &chain.exchange)?;
        self.check_groups("program.chain.groups", chain.groups)
    }

    fn check_stages(&self, stages: &Stages) -> Result<()> {
        let rule = stages.schedule.rule();
        let whole = rule.flushes() && !rule.bypasses() && !rule.splits() && !rule.runs_pairs();
        let shape = stages.shape();
        if !whole || rule.gradient(shape) != crate::schedule::Gradient::Chain {
            let allowed = "gpipe, 1f1b or interleaved: a step ends before the next begins, \
                           and backward passes run whole";
            return Err(Error::invalid(
                "program.pipeline.schedule",
                rule.name(),
                allowed,
            ));
        }
        self.check_groups("program.pipeline.stages", stages.stages)?;
        let passes = u64::from(stages.micro_batches) * u64::from(shape.parts()) * 2;
        if !(1..=MOST_COMPUTATIONS).contains(&passes) {
            let allowed = format!("1 or more, and at most {MOST_COMPUTATIONS} passes in all");
            let field = "program.pipeline.micro_batches";
            return Err(Error::invalid(field, stages.micro_batches, allowed));
        }
        rule.check(shape, stages.micro_batches)?;
        time("program.pipeline.forward", stages.forward)?;
        time("program.pipeline.backward", stages.backward)
    }

    /// Groups are alike: each has as many hosts, or each host as many groups.
    fn check_groups(&self, field: &str, groups: u32) -> Result<()> {
        let devices = u64::from(self.hosts) * u64::from(self.devices_per_host);
        let alike = groups > 0
            && (self.hosts.is_multiple_of(groups) || groups.is_multiple_of(self.hosts))
            && devices.is_multiple_of(u64::from(groups));
        if alike {
            return Ok(());
        }
        let allowed = format!(
            "a divisor of {devices} devices that divides hosts={} or is a multiple of it",
            self.hosts
        );
        Err(Error::invalid(field, groups, allowed))
    }
}

impl Costs {
    fn check(&self) -> Result<()> {
        time("costs.latency", self.latency)?;
        time("costs.message", self.message)?;
        time("costs.handle", self.handle)?;
        time("costs.scheduler", self.scheduler)?;
        time("costs.prepare", self.prepare)?;
        time("costs.enqueue", self.enqueue)
    }
}

fn time(field: &str, seconds: Seconds) -> Result<()> {
    if (0.0..=LONGEST).contains(&seconds.value()) {
        return Ok(());
    }
    Err(Error::invalid(field, seconds.value(), "0 to 1e12 seconds"))
}

impl Stages {
    /// Devices and chunks of the schedule.
    pub(super) fn shape(&self) -> crate::schedule::PipelineShape {
        crate::schedule::PipelineShape::new(self.stages, self.schedule.rule().chunks())
    }
}

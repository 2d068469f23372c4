//! In which steps do ranks talk, and which of these rounds are compressed?

use super::gossip::Gossip;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most steps of a policy, so that counts stay exact as numbers.
const MOST_STEPS: u64 = 1_000_000_000_000_000;

/// When ranks talk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Full rounds while the variance settles, then compressed ones (1-bit Adam).
    OneBitAdam(OneBitAdam),
    /// Rare full rounds among compressed ones, then rarer and rarer compressed ones (0/1 Adam).
    ZeroOneAdam(ZeroOneAdam),
    /// Models are averaged every so many steps (local SGD).
    Local(Local),
    /// Any policy, stage by stage.
    Stages(Stages),
    /// Ranks average with neighbours only.
    Gossip(Gossip),
}

/// 1-bit Adam: `warm_up_steps` full rounds, then a compressed one each step. Tang et al. 2021.
///
/// Volume against full rounds in fp16: `w + (1 - w) / 16`, `w` the share of warm-up steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneBitAdam {
    /// Steps of the job.
    pub steps: u64,
    /// Steps before the variance is frozen: `DeepSpeed`'s `freeze_step`, 15 to 25 % of all.
    pub warm_up_steps: u64,
}

/// 0/1 Adam. Lu et al. 2022; the defaults are those of `DeepSpeed`'s `ZeroOneAdam`.
///
/// Until `variance_freeze_step` each step has a round; that of update `j` of the variance is full, and
/// `k_(j+1) - k_j = 2^floor(j / updates_per_doubling)`. From then on rounds are compressed and lie
/// `min(2^floor(i / steps_per_doubling), longest_interval)` steps apart, `i` steps after the freeze.
/// `DeepSpeed` takes the steps of the job that are multiples of the interval: a few rounds differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZeroOneAdam {
    /// Steps of the job.
    pub steps: u64,
    /// Last step in which the variance may change (`var_freeze_step`).
    pub variance_freeze_step: u64,
    /// Updates of the variance after which the steps between them double (`var_update_scaler`).
    #[serde(default = "sixteen")]
    pub updates_per_doubling: u64,
    /// Steps after which those between rounds double (`local_step_scaler`).
    #[serde(default = "learning_rate_halves")]
    pub steps_per_doubling: u64,
    /// Most steps between rounds (`local_step_clipper`).
    #[serde(default = "sixteen")]
    pub longest_interval: u64,
}

/// Averaging of models every `every` steps; 1 is an all-reduce each step.
///
/// `McMahan` et al. 2017; Stich 2019.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Local {
    /// Steps between two rounds.
    pub every: u64,
    /// Steps of the job; absent: one interval.
    #[serde(default)]
    pub steps: Option<u64>,
}

/// A policy given as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stages {
    /// One after the other.
    pub stages: Vec<Stage>,
}

/// Steps with a round every `interval` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Steps of the stage.
    pub steps: u64,
    /// A round comes this many steps after the one before it, which may lie in an earlier stage.
    pub interval: u64,
    /// A full round comes this many rounds after the full one before it; absent: all are compressed.
    #[serde(default)]
    pub full_every: Option<u64>,
}

/// What walking a policy counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps in all.
    pub steps: u64,
    /// Rounds at full precision.
    pub full: u64,
    /// Rounds in the compressed format.
    pub compressed: u64,
}

impl Counts {
    /// Counts the rounds of a policy exactly, stage by stage.
    pub fn of(stages: &[Stage]) -> Self {
        let (mut counts, mut since_round, mut since_full) = (Self::default(), 0, 0);
        for stage in stages {
            let rounds = events_within(&mut since_round, stage.steps, stage.interval);
            let full = if let Some(every) = stage.full_every {
                events_within(&mut since_full, rounds, every)
            } else {
                since_full += rounds;
                0
            };
            counts.steps += stage.steps;
            counts.full += full;
            counts.compressed += rounds - full;
        }
        counts
    }
}

/// Events in `count` ticks that follow one another at `interval`, `since` ticks after the last one.
fn events_within(since: &mut u64, count: u64, interval: u64) -> u64 {
    let interval = interval.max(1);
    let first = interval.saturating_sub(*since).max(1);
    if count < first {
        *since += count;
        return 0;
    }
    *since = (count - first) % interval;
    1 + (count - first) / interval
}

impl OneBitAdam {
    pub(super) fn stages(&self) -> Result<Vec<Stage>> {
        check("one_bit_adam.steps", self.steps, 1)?;
        within("one_bit_adam.warm_up_steps", self.warm_up_steps, self.steps)?;
        let stage = |steps, full_every| Stage {
            steps,
            interval: 1,
            full_every,
        };
        let rest = self.steps - self.warm_up_steps;
        Ok(vec![stage(self.warm_up_steps, Some(1)), stage(rest, None)])
    }
}

impl ZeroOneAdam {
    pub(super) fn stages(&self) -> Result<Vec<Stage>> {
        let at = |field: &str| format!("zero_one_adam.{field}");
        check(&at("steps"), self.steps, 1)?;
        let freeze = self.variance_freeze_step;
        within(&at("variance_freeze_step"), freeze, self.steps)?;
        check(&at("updates_per_doubling"), self.updates_per_doubling, 1)?;
        check(&at("steps_per_doubling"), self.steps_per_doubling, 1)?;
        check(&at("longest_interval"), self.longest_interval, 1)?;
        let mut stages = Vec::new();
        let (mut left, mut gap) = (freeze, 1_u64);
        while left > 0 {
            let steps = left.min(self.updates_per_doubling.saturating_mul(gap));
            stages.push(Stage {
                steps,
                interval: 1,
                full_every: Some(gap),
            });
            left -= steps;
            gap = gap.saturating_mul(2);
        }
        (left, gap) = (self.steps - freeze, 1);
        while left > 0 {
            let longest = gap >= self.longest_interval;
            let steps = if longest {
                left
            } else {
                left.min(self.steps_per_doubling)
            };
            stages.push(Stage {
                steps,
                interval: gap,
                full_every: None,
            });
            left -= steps;
            gap = gap.saturating_mul(2).min(self.longest_interval);
        }
        Ok(stages)
    }
}

impl Local {
    pub(super) fn stages(&self, compressed: bool) -> Result<Vec<Stage>> {
        check("local.every", self.every, 1)?;
        let steps = self.steps.unwrap_or(self.every);
        check("local.steps", steps, 1)?;
        Ok(vec![Stage {
            steps,
            interval: self.every,
            full_every: (!compressed).then_some(1),
        }])
    }
}

impl Stages {
    pub(super) fn checked(&self) -> Result<Vec<Stage>> {
        let mut left = MOST_STEPS;
        for (i, stage) in self.stages.iter().enumerate() {
            let at = |field: &str| format!("stages.stages[{i}].{field}");
            check(&at("interval"), stage.interval, 1)?;
            check(&at("full_every"), stage.full_every.unwrap_or(1), 1)?;
            within(&at("steps"), stage.steps, left)?;
            left -= stage.steps;
        }
        if left == MOST_STEPS {
            return Err(Error::invalid(
                "policy.stages.stages",
                "no step",
                "1 step or more",
            ));
        }
        Ok(self.stages.clone())
    }
}

pub(super) fn check(field: &str, got: u64, least: u64) -> Result<()> {
    if (least..=MOST_STEPS).contains(&got) {
        return Ok(());
    }
    let allowed = format!("a whole number from {least} to 10^15");
    Err(Error::invalid(format!("policy.{field}"), got, allowed))
}

fn within(field: &str, got: u64, most: u64) -> Result<()> {
    if got <= most {
        return Ok(());
    }
    let allowed = format!("0 to {most}, the steps that there are");
    Err(Error::invalid(format!("policy.{field}"), got, allowed))
}

fn sixteen() -> u64 {
    16
}

/// Steps in which the learning rate of BERT pre-training halves (recalled from Lu et al. 2022);
/// `DeepSpeed`'s default has these digits, not those of a power of two.
fn learning_rate_halves() -> u64 {
    32_678
}

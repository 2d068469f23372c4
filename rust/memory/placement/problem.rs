//! A step's tensors, windows and wishes: what is to be placed, and is it well formed?

use super::tensor::{Class, Tensor};
use crate::error::{Error, Result};
use crate::hardware::Memories;
use serde::{Deserialize, Serialize};

/// Most instants of a step, and most tensors.
pub const MOST_INSTANTS: u32 = 1 << 16;
/// See `MOST_INSTANTS`.
pub const MOST_TENSORS: usize = 1 << 20;

/// A stretch of a step within which transfers run beside compute and wait for nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Name, as `forward 3`.
    #[serde(default)]
    pub name: String,
    /// Seconds of compute.
    pub compute_s: f64,
    /// Instants of it, at which memory is counted.
    #[serde(default = "single")]
    pub instants: u32,
    /// How many like windows it stands for.
    #[serde(default = "one")]
    pub repeats: f64,
}

/// Bytes that never leave the main tier, instant by instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// Kind.
    pub class: Class,
    /// Bytes at each instant.
    pub bytes: Vec<f64>,
}

/// What is minimised: a weighted sum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Objective {
    /// For each second of a step.
    pub per_s: f64,
    /// For each joule that moving and keeping bytes takes in a step.
    pub per_j: f64,
    /// For each dollar of memory that is filled at its fullest instant.
    pub per_usd: f64,
}

impl Default for Objective {
    fn default() -> Self {
        Self {
            per_s: 1.0,
            per_j: 0.0,
            per_usd: 0.0,
        }
    }
}

/// What is to be placed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// The step, in order.
    pub windows: Vec<Window>,
    /// What may lie in any tier.
    pub tensors: Vec<Tensor>,
    /// What lies in the main tier in any case.
    #[serde(default)]
    pub fixed: Vec<Fixed>,
    /// Bytes that an activation takes in the main tier over its size: the allocator's loss.
    #[serde(default = "one")]
    pub activation_factor: f64,
    /// Seconds of a step beside its windows.
    #[serde(default)]
    pub rest_s: f64,
    /// What is minimised.
    #[serde(default, rename = "objective_weights")]
    pub objective: Objective,
    /// Years of steps, one after another, that no tier may wear out in; none: wear is not asked for.
    #[serde(default)]
    pub years: Option<f64>,
    /// Share of the main tier that may be filled.
    #[serde(default = "one")]
    pub main_share: f64,
}

impl Problem {
    /// Instants of the step.
    pub fn instants(&self) -> u32 {
        self.windows.iter().map(|w| w.instants).sum()
    }

    /// The step with no transfer in its way.
    pub fn transfer_free_s(&self) -> f64 {
        let windows = self.windows.iter().map(|w| w.compute_s * w.repeats);
        windows.sum::<f64>() + self.rest_s
    }

    /// The window of each instant.
    pub fn window_of(&self) -> Vec<u32> {
        let of = |(index, window): (u32, &Window)| vec![index; window.instants as usize];
        (0..).zip(&self.windows).flat_map(of).collect()
    }

    /// Refuses what cannot be placed, naming the field.
    pub fn check(&self, memories: &Memories) -> Result<()> {
        self.check_windows()?;
        let most = self.instants();
        if self.tensors.len() > MOST_TENSORS {
            let allowed = format!("up to {MOST_TENSORS} tensors");
            return Err(Error::invalid("tensors", self.tensors.len(), allowed));
        }
        for fixed in &self.fixed {
            let field = format!("fixed.{}.bytes", fixed.class.name());
            if fixed.bytes.len() != most as usize {
                let allowed = format!("{most} numbers: one for each instant");
                return Err(Error::invalid(field, fixed.bytes.len(), allowed));
            }
            fixed.bytes.iter().try_for_each(|b| amount(&field, *b))?;
        }
        for tensor in &self.tensors {
            check_tensor(tensor, most, memories)?;
        }
        let objective = &self.objective;
        for (field, value) in [
            ("objective.per_s", objective.per_s),
            ("objective.per_j", objective.per_j),
            ("objective.per_usd", objective.per_usd),
            ("rest_s", self.rest_s),
        ] {
            amount(field, value)?;
        }
        if objective.per_s + objective.per_j + objective.per_usd <= 0.0 {
            let what = "objective: got no weight; allowed: per_s, per_j or per_usd above 0";
            return Err(Error::inconsistent(what));
        }
        between("activation_factor", self.activation_factor, [1.0, 10.0])?;
        between("main_share", self.main_share, [1e-6, 1.0])?;
        self.years
            .map_or(Ok(()), |years| between("years", years, [1e-6, 1e4]))
    }

    fn check_windows(&self) -> Result<()> {
        let instants: u64 = self.windows.iter().map(|w| u64::from(w.instants)).sum();
        if instants == 0 || instants > u64::from(MOST_INSTANTS) {
            let allowed = format!("1 to {MOST_INSTANTS} instants in all");
            return Err(Error::invalid("windows.instants", instants, allowed));
        }
        for (index, window) in self.windows.iter().enumerate() {
            amount(&format!("windows[{index}].compute_s"), window.compute_s)?;
            between(
                &format!("windows[{index}].repeats"),
                window.repeats,
                [0.0, 1e12],
            )?;
        }
        Ok(())
    }
}

fn check_tensor(tensor: &Tensor, most: u32, memories: &Memories) -> Result<()> {
    let at = |field: &str| format!("tensor '{}'.{field}", tensor.name);
    amount(&at("bytes"), tensor.bytes)?;
    let to = tensor.to.unwrap_or(most);
    if tensor.from >= to || to > most {
        let got = format!("{} to {to}", tensor.from);
        let allowed = format!("an instant, and a later one up to {most}");
        return Err(Error::invalid(at("from, to"), got, allowed));
    }
    let mut last = tensor.from;
    for used in &tensor.uses {
        if used.at < last || used.at >= to {
            let allowed = format!("instants {} to {} in order", tensor.from, to - 1);
            return Err(Error::invalid(at("uses.at"), used.at, allowed));
        }
        last = used.at;
        for (field, bytes) in [("read", used.read_bytes), ("written", used.written_bytes)] {
            amount(&at(&format!("uses.{field}_bytes")), bytes)?;
        }
    }
    if let Some(update) = &tensor.update {
        let used = tensor.uses.iter().any(|u| u.at == update.at);
        if !used || update.out_at > update.at {
            let got = format!("{}, {}", update.at, update.out_at);
            let allowed = "the instant of one of its uses, and one not after it";
            return Err(Error::invalid(at("update.at, out_at"), got, allowed));
        }
        for (field, bytes) in [
            ("out_bytes", update.out_bytes),
            ("back_bytes", update.back_bytes),
            ("touched_bytes", update.touched_bytes),
        ] {
            amount(&at(&format!("update.{field}")), bytes)?;
        }
    }
    for name in &tensor.tiers {
        if memories.find(name).is_none() {
            let known = memories.places.iter().map(|p| p.tier.name.as_str());
            return Err(Error::unknown(&at("tiers"), name, known));
        }
    }
    Ok(())
}

fn amount(field: &str, value: f64) -> Result<()> {
    between(field, value, [0.0, 1e30])
}

fn between(field: &str, value: f64, [low, high]: [f64; 2]) -> Result<()> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid(field, value, format!("{low} to {high:e}")))
    }
}

fn one() -> f64 {
    1.0
}

fn single() -> u32 {
    1
}

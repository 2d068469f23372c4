//! Which block is best, where does everything lie, what binds, and how near is it to the bound?

use super::family::{Bounds, Family, Span, Terms};
use super::problem::Problem;
use super::search::{BlockSearchOutcome, ROUNDING, nearest, search};
use super::tables::{Class, PHASES, Tables, tables};
use crate::control::Control;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The best block of a problem, or one that was given.
#[derive(Debug, Clone, Serialize)]
pub struct Block {
    /// False where it does not fit; of a search: where no block fits.
    pub fits: bool,
    /// Sequences of a batch on the device.
    pub batch: u64,
    /// Batches of a block.
    pub batches: u64,
    /// Seconds until all sequences of the block have all their tokens.
    #[serde(rename = "time_s")]
    pub seconds: f64,
    /// Generated tokens in a second: `batch batches generated / seconds`.
    pub tokens_per_s: f64,
    /// Proven: no block and no shares generate more; absent for shares that were given.
    pub most_tokens_per_s: Option<f64>,
    /// `1 - tokens_per_s / most_tokens_per_s`.
    pub relative_gap: Option<f64>,
    /// Seconds of one layer over all batches while prompts are read, and of a token's decoding.
    pub layer_s: [f64; 2],
    /// Share of the weights by home.
    pub weights: BTreeMap<String, f64>,
    /// Share of the cache by home.
    pub cache: BTreeMap<String, f64>,
    /// Of it, what the host attends to.
    pub cache_by_host: BTreeMap<String, f64>,
    /// Share of the hidden states by home.
    pub states: BTreeMap<String, f64>,
    /// Every memory in each phase.
    pub memory: Vec<Memory>,
    /// Every group of lanes in each phase.
    pub lanes: Vec<Lanes>,
    /// Linear programs that were solved.
    pub programs: u64,
    /// Boxes of batches and numbers of batches that were looked at.
    pub boxes: u64,
}

/// What a memory holds at most in a phase.
#[derive(Debug, Clone, Serialize)]
pub struct Memory {
    /// Its name.
    #[serde(rename = "tier")]
    pub home: String,
    /// `prefill` or `decode`.
    pub phase: &'static str,
    /// What it holds.
    #[serde(rename = "total_bytes")]
    pub bytes: f64,
    /// What it may hold.
    #[serde(rename = "capacity_bytes")]
    pub capacity: f64,
    /// Price of its room at this batch and number of batches: the part by which the seconds fall for
    /// each part by which it grows; 0 where it does not bind.
    pub worth: f64,
}

/// How long lanes are busy for one layer in a phase.
#[derive(Debug, Clone, Serialize)]
pub struct Lanes {
    /// Their names; more than one where they run one after another.
    pub lanes: Vec<String>,
    /// `prefill` or `decode`.
    pub phase: &'static str,
    /// Seconds of one layer.
    #[serde(rename = "time_s")]
    pub seconds: f64,
    /// The part by which the seconds of the run fall for each part by which these lanes are faster.
    pub worth: f64,
}

/// A block that is given rather than sought.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Sequences of a batch.
    pub batch: u64,
    /// Batches of a block.
    pub batches: u64,
    /// Share of the weights by home; homes left out hold nothing.
    pub weights: BTreeMap<String, f64>,
    /// Share of the cache by home.
    pub cache: BTreeMap<String, f64>,
    /// Share of the hidden states by home.
    pub states: BTreeMap<String, f64>,
}

/// The block and the shares that generate the most tokens in a second; of shares that are as good, those
/// that keep the fewest bytes far from the device.
pub fn serving_blocks(problem: &Problem, control: &Control) -> Result<Block> {
    problem.check()?;
    let tables = tables(problem)?;
    let span = Span {
        least: [problem.batch[0], problem.batches[0]],
        most: [problem.batch[1], problem.batches[1]],
    };
    let found = search(&tables.family, span, problem.relative_gap, control)?;
    let Some(best) = &found.best else {
        return Ok(smallest_block(problem, &tables, &found));
    };
    let factors = tables.family.factors(best.at);
    let near = nearest(&tables.family, best, &tables.distances(&factors), control)?;
    let told = ShareReporter {
        problem,
        tables: &tables,
        at: best.at,
        factors,
        shares: near.as_deref().unwrap_or(&best.shares),
        prices: &best.prices,
    };
    let mut block = told.block();
    let generated = problem.generated as f64;
    let most = generated / found.bound;
    block.most_tokens_per_s = Some(most.max(block.tokens_per_s));
    block.relative_gap = Some((1.0 - block.tokens_per_s / most).max(0.0));
    block.programs = found.programs;
    block.boxes = found.boxes;
    Ok(block)
}

/// The same for a block and shares that are given, whether they fit or not.
pub fn serving_policy(problem: &Problem, policy: &Policy) -> Result<Block> {
    problem.check()?;
    let tables = tables(problem)?;
    for (field, count) in [("batch", policy.batch), ("batches", policy.batches)] {
        if !(1..=super::problem::MOST).contains(&count) {
            let allowed = format!("1 to {}", super::problem::MOST);
            return Err(Error::invalid(format!("policy.{field}"), count, allowed));
        }
    }
    let shares = policy_shares(problem, &tables, policy)?;
    let at = [policy.batch, policy.batches];
    let told = ShareReporter {
        problem,
        tables: &tables,
        at,
        factors: tables.family.factors(at),
        shares: &shares,
        prices: &vec![0.0; tables.family.rows.len()],
    };
    Ok(told.block())
}

/// Where no block fits: the smallest one, with everything where there is the most room.
fn smallest_block(problem: &Problem, tables: &Tables, found: &BlockSearchOutcome) -> Block {
    let at = [problem.batch[0], problem.batches[0]];
    let mut shares = vec![0.0; tables.choices.len()];
    for item in &tables.family.items {
        let room = |option: &usize| problem.homes[tables.choices[*option].home].capacity.value();
        let widest = item.clone().max_by(|a, b| room(a).total_cmp(&room(b)));
        if let Some(option) = widest {
            shares[option] = 1.0;
        }
    }
    let told = ShareReporter {
        problem,
        tables,
        at,
        factors: tables.family.factors(at),
        shares: &shares,
        prices: &vec![0.0; tables.family.rows.len()],
    };
    let mut block = told.block();
    block.fits = false;
    block.programs = found.programs;
    block.boxes = found.boxes;
    block
}

fn policy_shares(problem: &Problem, tables: &Tables, policy: &Policy) -> Result<Vec<f64>> {
    let mut shares = vec![0.0; tables.choices.len()];
    let classes = [
        ("weights", Class::Weights, &policy.weights),
        ("cache", Class::Cache, &policy.cache),
        ("states", Class::States, &policy.states),
    ];
    for (field, class, given) in classes {
        let sum: f64 = given.values().sum();
        let wrong = given.values().find(|share| !(0.0..=1.0).contains(*share));
        if wrong.is_some() || (sum - 1.0).abs() > ROUNDING {
            let allowed = "shares from 0 to 1 that add to 1";
            let got = wrong.map_or(format!("a sum of {sum}"), ToString::to_string);
            return Err(Error::invalid(format!("policy.{field}"), got, allowed));
        }
        for (name, share) in given {
            let options = tables.choices.iter().enumerate().filter(|(_, choice)| {
                choice.class == class && &problem.homes[choice.home].name == name
            });
            // the host attends wherever it may
            let Some((option, _)) = options.max_by_key(|(_, choice)| choice.by_host) else {
                let of = tables.choices.iter().filter(|c| c.class == class);
                let known = of.map(|c| problem.homes[c.home].name.as_str());
                return Err(Error::unknown(&format!("policy.{field}"), name, known));
            };
            shares[option] = *share;
        }
    }
    Ok(shares)
}

/// Shares at a block, ready to be told.
struct ShareReporter<'a> {
    problem: &'a Problem,
    tables: &'a Tables,
    at: [u64; 2],
    factors: Terms,
    shares: &'a [f64],
    prices: &'a [f64],
}

impl ShareReporter<'_> {
    fn family(&self) -> &Family {
        &self.tables.family
    }

    fn block(&self) -> Block {
        let windows = self.family().windows(&self.factors, self.shares);
        let seconds = self.family().seconds(&self.factors, self.shares);
        let sequences = self.factors[1];
        let by = |class: Class, host: bool| self.share_by_memory(class, host);
        let mut cache = by(Class::Cache, false);
        let cache_by_host = by(Class::Cache, true);
        for (home, share) in &cache_by_host {
            *cache.entry(home.clone()).or_default() += share;
        }
        Block {
            fits: self.family().overfull(&self.factors, self.shares) <= ROUNDING,
            batch: self.at[0],
            batches: self.at[1],
            seconds,
            tokens_per_s: sequences * self.problem.generated as f64 / seconds,
            most_tokens_per_s: None,
            relative_gap: None,
            layer_s: [windows[0], windows[1]],
            weights: by(Class::Weights, false),
            cache,
            cache_by_host,
            states: by(Class::States, false),
            memory: self.memory(seconds),
            lanes: self.lanes(seconds),
            programs: 0,
            boxes: 0,
        }
    }

    fn share_by_memory(&self, class: Class, by_host: bool) -> BTreeMap<String, f64> {
        let mut shares = BTreeMap::new();
        for (choice, share) in self.tables.choices.iter().zip(self.shares) {
            if choice.class == class && choice.by_host == by_host {
                shares.insert(self.problem.homes[choice.home].name.clone(), *share);
            }
        }
        shares
    }

    fn memory(&self, seconds: f64) -> Vec<Memory> {
        let rows = self.family().rows.iter().enumerate();
        rows.filter_map(|(row, of)| match of.bounds {
            Bounds::Bytes(capacity) => Some(Memory {
                home: self.tables.names[row][0].clone(),
                phase: PHASES[row % PHASES.len()],
                bytes: self.family().total(row, &self.factors, self.shares),
                capacity,
                worth: self.prices[row] * capacity / seconds,
            }),
            Bounds::Window(_) => None,
        })
        .collect()
    }

    fn lanes(&self, seconds: f64) -> Vec<Lanes> {
        let rows = self.family().rows.iter().enumerate();
        rows.filter_map(|(row, of)| match of.bounds {
            Bounds::Window(window) => {
                let busy = self.family().total(row, &self.factors, self.shares);
                Some(Lanes {
                    lanes: self.tables.names[row].clone(),
                    phase: PHASES[window],
                    seconds: busy,
                    worth: self.prices[row] * busy / seconds,
                })
            }
            Bounds::Bytes(_) => None,
        })
        .filter(|lanes| lanes.seconds > 0.0)
        .collect()
    }
}

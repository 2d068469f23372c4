//! Which rows and options does a problem pose: memories that must hold a block, lanes that it occupies?

use super::family::{
    BATCH, BATCHES, BLOCK, Bounds, CONSTANT, Family, Row, SLOWED, Slowness, TERMS, Terms, add, dot,
};
use super::problem::{Attention, DEVICE_LANE, HOST_LANE, Hop, MemoryPlace, Problem};
use crate::error::{Error, Result};
use crate::units::Bytes;

/// The classes of tensors, in the order of the items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Weights of the layers.
    Weights,
    /// Keys and values.
    Cache,
    /// The residual stream between layers.
    States,
}

/// Prefill and decoding, the windows of the programs.
pub(super) const PHASES: [&str; 2] = ["prefill", "decode"];

/// One way to keep a class of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TensorChoice {
    pub(super) class: Class,
    pub(super) home: usize,
    /// The host attends; the device otherwise.
    pub(super) by_host: bool,
}

/// A problem as programs, and what their options and rows stand for.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub(super) family: Family,
    pub(super) choices: Vec<TensorChoice>,
    /// Lanes of the rows of time, the memory's name of the rows of bytes.
    pub(super) names: Vec<Vec<String>>,
}

impl Tables {
    /// How far from the device each option keeps its bytes: bytes times homes before its own, over both
    /// phases.
    pub(super) fn distances(&self, factors: &Terms) -> Vec<f64> {
        let options = self.choices.iter().enumerate();
        let far = |(option, choice): (usize, &TensorChoice)| {
            let phases = 0..PHASES.len();
            let bytes = phases.map(|phase| {
                dot(
                    self.family.used(option, PHASES.len() * choice.home + phase),
                    factors,
                )
            });
            choice.home as f64 * bytes.sum::<f64>()
        };
        options.map(far).collect()
    }
}

/// Builds the rows while the options are visited.
struct Lowering<'a> {
    problem: &'a Problem,
    choices: Vec<TensorChoice>,
    /// By phase, groups of lanes.
    groups: [Vec<Vec<String>>; 2],
    rows: Vec<Row>,
    uses: Vec<Terms>,
}

/// The programs of a problem.
///
/// Symbols: prompt `s` and generated `n` tokens, `l` layers; `W` bytes of a layer's weights, `K` of
/// one token's keys and values, `R` of a sequence's states of scans, `S` of its residual stream, `F` of
/// its inner activations, `A` of its scores with one key; `g` sequences a batch, `b` a block; shares
/// `w, c, h` of weights, cache and states by home. Each memory holds in each phase what is at home there
///
/// ```text
/// prefill: l W w + s S b h + l (K t + R) b c    t = s + n on the device, which allocates at once; s elsewhere
/// decode:  l W w + S b h + l (K (s + n) + R) b c
/// ```
///
/// and what passes. The device: the layer at work and the next one, a batch of states, activations
///
/// ```text
/// prefill: 2 W (1 - w) + s S g (1 - h) + g s (9 S + F + A s) + g R
/// decode:  2 W (1 - w) + S g (1 - h) + g (7 S + F) + g (2 S + (s + n) (2 K + A) + 2 R) c
/// ```
///
/// where cache that comes from elsewhere takes another `((s + n) K + R) g` to arrive beside the batch at
/// work, and a fused kernel has no `A` (Dao et al. 2022, section 3.1). The host's memory, for all that
/// goes through it and for what lies beyond it (`w', c', h'`):
///
/// ```text
/// prefill: W (1 - w) + s S g (1 - h)
/// decode:  W w' + 2 S g h' + 2 (K (s + n) + R) g c' + g ((s + n) A + S)
/// ```
///
/// Seconds of one layer: of each lane, what crosses it over its rate; weights and states come, states
/// go; cache of `s + 1` tokens goes in prefill, of one token in decoding, and `s + n / 2` tokens come
/// to whoever attends. States of scans come and go whole for each token. All else is section 4.3 and
/// appendix A.3 of Sheng et al. 2023 with the buffers of `experimental/cost_model.py` in
/// `FMInference/FlexGen`, for any homes and lanes.
pub(super) fn tables(problem: &Problem) -> Result<Tables> {
    let mut lowering = Lowering::new(problem)?;
    lowering.memories();
    lowering.lanes();
    lowering.compute();
    let ends = [Class::Weights, Class::Cache, Class::States].map(|class| {
        let of = lowering.choices.iter().filter(|c| c.class == class);
        of.count()
    });
    if ends[2] == 0 {
        let what = "homes: got none with `states`; allowed: one or more";
        return Err(Error::inconsistent(what));
    }
    let firsts = [0, ends[0], ends[0] + ends[1]];
    let layers = problem.layers as f64;
    let names = lowering.names();
    let family = Family {
        items: firsts.iter().zip(ends).map(|(&f, n)| f..f + n).collect(),
        rows: lowering.rows,
        uses: lowering.uses,
        weights: vec![layers, layers * (problem.generated - 1) as f64],
        slowness: slowness(problem),
    };
    Ok(Tables {
        family,
        choices: lowering.choices,
        names,
    })
}

fn slowness(problem: &Problem) -> Slowness {
    let [c1, c2, c3] = problem.compute.small_batch.unwrap_or_default();
    let narrow = (4096.0 / problem.layer.hidden as f64).log2().max(0.0);
    Slowness {
        whole: 1.0 - c3 * narrow,
        part: c2 - c1 * narrow,
    }
}

/// One term alone.
fn term(index: usize, amount: f64) -> Terms {
    let mut terms = [0.0; TERMS];
    terms[index] = amount;
    terms
}

impl<'a> Lowering<'a> {
    fn new(problem: &'a Problem) -> Result<Self> {
        let groups = [
            groups(problem, &problem.serial.prefill, "serial.prefill")?,
            groups(problem, &problem.serial.decode, "serial.decode")?,
        ];
        let choices = choices(problem);
        let mut rows = Vec::new();
        for home in &problem.homes {
            let bounds = Bounds::Bytes(home.capacity.value());
            let base = [0.0; TERMS];
            rows.extend([Row { bounds, base }, Row { bounds, base }]);
        }
        for (phase, groups) in groups.iter().enumerate() {
            rows.extend(groups.iter().map(|_| Row {
                bounds: Bounds::Window(phase),
                base: [0.0; TERMS],
            }));
        }
        let uses = vec![[0.0; TERMS]; rows.len() * choices.len()];
        Ok(Self {
            problem,
            choices,
            groups,
            rows,
            uses,
        })
    }

    fn names(&self) -> Vec<Vec<String>> {
        let homes = self.problem.homes.iter();
        let mut names: Vec<Vec<String>> = homes
            .flat_map(|home| [vec![home.name.clone()], vec![home.name.clone()]])
            .collect();
        names.extend(self.groups.iter().flatten().cloned());
        names
    }

    fn hold(&mut self, option: usize, [home, phase]: [usize; 2], terms: &Terms) {
        let row = 2 * home + phase;
        let at = option * self.rows.len() + row;
        add(&mut self.uses[at], terms, 1.0);
    }

    /// The rows of the groups that a lane is in.
    fn rows_of(&self, phase: usize, lane: &str) -> Vec<usize> {
        let before = 2 * self.problem.homes.len() + phase * self.groups[0].len();
        let groups = self.groups[phase].iter().enumerate();
        groups
            .filter(|(_, group)| group.iter().any(|name| name == lane))
            .map(|(index, _)| before + index)
            .collect()
    }

    fn occupy(&mut self, option: Option<usize>, phase: usize, lane: &str, terms: &Terms) {
        for row in self.rows_of(phase, lane) {
            let sum = match option {
                Some(option) => &mut self.uses[option * self.rows.len() + row],
                None => &mut self.rows[row].base,
            };
            add(sum, terms, 1.0);
        }
    }

    /// Bytes in the memories.
    fn memories(&mut self) {
        for option in 0..self.choices.len() {
            let choice = self.choices[option];
            for phase in 0..PHASES.len() {
                let at_home = self.bytes_in_place(choice, phase);
                self.hold(option, [choice.home, phase], &at_home);
                let passing = self.on_the_device(choice, phase);
                self.hold(option, [0, phase], &passing);
                if let Some(host) = self.problem.host() {
                    let staged = self.at_the_host(choice, phase, host);
                    self.hold(option, [host, phase], &staged);
                }
            }
        }
        let Problem { layer, prompt, .. } = self.problem;
        let (s, tokens) = (*prompt as f64, self.tokens());
        let [state, inner, scores] = [layer.state, layer.inner, layer.scores].map(Bytes::value);
        let resident = term(CONSTANT, self.problem.resident.value());
        let made = layer.recurrent.value();
        let prompts = s * (9.0 * state + inner + self.scores() * s) + made;
        for (phase, working) in [prompts, 7.0 * state + inner].into_iter().enumerate() {
            self.rows[phase].base = resident;
            self.rows[phase].base[BATCH] = working;
        }
        if let Some(host) = self.problem.host() {
            self.rows[2 * host + 1].base[BATCH] = tokens * scores + state;
        }
    }

    /// Bytes of one query's scores with one key that lie on the device.
    fn scores(&self) -> f64 {
        if self.problem.flash_attention {
            0.0
        } else {
            self.problem.layer.scores.value()
        }
    }

    /// Tokens at the end.
    fn tokens(&self) -> f64 {
        (self.problem.prompt + self.problem.generated) as f64
    }

    /// Tokens whose residual stream a sequence has in a phase.
    fn stream(&self, phase: usize) -> f64 {
        [self.problem.prompt as f64, 1.0][phase]
    }

    fn bytes_in_place(&self, choice: TensorChoice, phase: usize) -> Terms {
        let layer = &self.problem.layer;
        let layers = self.problem.layers as f64;
        match choice.class {
            Class::Weights => term(CONSTANT, layers * layer.weights.value()),
            Class::States => term(BLOCK, self.stream(phase) * layer.state.value()),
            Class::Cache => {
                let grows = phase == 0 && choice.home != 0;
                let tokens = if grows {
                    self.problem.prompt as f64
                } else {
                    self.tokens()
                };
                let sequence = tokens * layer.cache.value() + layer.recurrent.value();
                term(BLOCK, layers * sequence)
            }
        }
    }

    fn on_the_device(&self, choice: TensorChoice, phase: usize) -> Terms {
        let layer = &self.problem.layer;
        let away = choice.home != 0;
        match choice.class {
            Class::Weights if away => term(CONSTANT, 2.0 * layer.weights.value()),
            Class::States if away => term(BATCH, self.stream(phase) * layer.state.value()),
            Class::Cache if phase == 1 && !choice.by_host => {
                let copies = if away { 3.0 } else { 2.0 };
                let token = copies * layer.cache.value() + self.scores();
                let scanned = copies * layer.recurrent.value();
                term(
                    BATCH,
                    2.0 * layer.state.value() + self.tokens() * token + scanned,
                )
            }
            _ => [0.0; TERMS],
        }
    }

    fn at_the_host(&self, choice: TensorChoice, phase: usize, host: usize) -> Terms {
        let layer = &self.problem.layer;
        let through = self.problem.homes[choice.home].behind_host.is_some();
        let beyond = through && choice.home != host;
        match (choice.class, phase) {
            (Class::Weights, 0) if through => term(CONSTANT, layer.weights.value()),
            (Class::Weights, 1) if beyond => term(CONSTANT, layer.weights.value()),
            (Class::States, 0) if through => term(BATCH, self.stream(0) * layer.state.value()),
            (Class::States, 1) if beyond => term(BATCH, 2.0 * layer.state.value()),
            (Class::Cache, 1) if beyond => {
                let sequence = self.tokens() * layer.cache.value() + layer.recurrent.value();
                term(BATCH, 2.0 * sequence)
            }
            _ => [0.0; TERMS],
        }
    }

    /// Seconds on the lanes between the homes and the device.
    fn lanes(&mut self) {
        let problem = self.problem;
        let layer = &problem.layer;
        for option in 0..self.choices.len() {
            let choice = self.choices[option];
            let home = &problem.homes[choice.home];
            if choice.home == 0 {
                continue;
            }
            for phase in 0..PHASES.len() {
                let state = self.stream(phase) * layer.state.value();
                match choice.class {
                    Class::Weights => {
                        let bytes = term(CONSTANT, layer.weights.value());
                        self.cross(option, phase, Class::Weights, &home.reads, &bytes);
                    }
                    Class::States => {
                        let bytes = term(BLOCK, state);
                        self.cross(option, phase, Class::States, &home.reads, &bytes);
                        self.cross(option, phase, Class::States, &home.writes, &bytes);
                    }
                    Class::Cache => self.cache_lanes(option, choice, phase, home),
                }
            }
        }
    }

    fn cache_lanes(
        &mut self,
        option: usize,
        choice: TensorChoice,
        phase: usize,
        home: &MemoryPlace,
    ) {
        let layer = &self.problem.layer;
        let s = self.problem.prompt as f64;
        let made = [s + 1.0, 1.0][phase];
        let scanned = layer.recurrent.value();
        // the host scans where the states of scans lie, so that they do not come to the device
        let leaving = if phase == 1 && choice.by_host {
            0.0
        } else {
            scanned
        };
        let written = term(BLOCK, made * layer.cache.value() + leaving);
        self.cross(option, phase, Class::Cache, &home.writes, &written);
        if phase == 0 {
            return;
        }
        let held = s + self.problem.generated as f64 / 2.0;
        let read = term(BLOCK, held * layer.cache.value() + scanned);
        if !choice.by_host {
            self.cross(option, phase, Class::Cache, &home.reads, &read);
            return;
        }
        let behind = home.behind_host.unwrap_or(0);
        let (beyond, between) = home.reads.split_at(behind);
        self.cross(option, phase, Class::Cache, beyond, &read);
        let asked = term(BLOCK, layer.query.value());
        self.cross(option, phase, Class::States, between, &asked);
        let (back, kept) = home.writes.split_at(home.writes.len() - behind);
        self.cross(option, phase, Class::States, back, &asked);
        let scanned = term(BLOCK, scanned);
        self.cross(option, phase, Class::Cache, kept, &scanned);
    }

    fn cross(&mut self, option: usize, phase: usize, class: Class, hops: &[Hop], bytes: &Terms) {
        for hop in hops {
            let seconds = bytes.map(|amount| amount / rate(hop, class, phase));
            self.occupy(Some(option), phase, &hop.lane, &seconds);
        }
    }

    /// Seconds of device and host, and of the device's own memory.
    fn compute(&mut self) {
        let Problem { layer, compute, .. } = self.problem;
        let s = self.problem.prompt as f64;
        let products = compute.prefill_matmul.value();
        let prefill = (s * layer.matmul + layer.head) / products
            + s * s * layer.attention / compute.prefill_attention.value();
        let decode = (layer.matmul + layer.head) / compute.decode_matmul.value();
        self.occupy(None, 0, DEVICE_LANE, &term(BLOCK, prefill));
        self.occupy(None, 1, DEVICE_LANE, &term(BLOCK, decode));
        let held = s + self.problem.generated as f64 / 2.0;
        let cache = held * layer.cache.value();
        // read and written anew
        let moved = cache + 2.0 * layer.recurrent.value();
        let bus = self.problem.homes[0].reads.clone();
        let table = layer.head_table.value();
        for phase in 0..PHASES.len() {
            for hop in &bus {
                let seconds = term(BATCHES, table / rate(hop, Class::Weights, phase));
                self.occupy(None, phase, &hop.lane, &seconds);
            }
        }
        for option in 0..self.choices.len() {
            let choice = self.choices[option];
            match choice.class {
                Class::Cache if choice.by_host => {
                    if let Some(rate) = compute.host_attention {
                        let seconds = term(SLOWED, moved / rate.value());
                        self.occupy(Some(option), 1, HOST_LANE, &seconds);
                    }
                }
                Class::Cache => {
                    let seconds = term(BLOCK, cache / compute.device_attention.value());
                    self.occupy(Some(option), 1, DEVICE_LANE, &seconds);
                    // what came from elsewhere is written there first
                    let copies = if choice.home == 0 { 1.0 } else { 2.0 };
                    self.cross(option, 1, Class::Cache, &bus, &term(BLOCK, copies * moved));
                }
                Class::Weights => {
                    // each batch of the block reads them anew
                    let bytes = term(BATCHES, layer.weights.value());
                    for phase in 0..PHASES.len() {
                        self.cross(option, phase, Class::Weights, &bus, &bytes);
                    }
                }
                Class::States => {}
            }
        }
    }
}

fn rate(hop: &Hop, class: Class, phase: usize) -> f64 {
    let own = match class {
        Class::Weights => hop.weights,
        Class::Cache => hop.cache,
        Class::States => hop.states,
    };
    own.map_or(hop.rate, |rates| rates[phase]).value()
}

/// Where each class may lie.
fn choices(problem: &Problem) -> Vec<TensorChoice> {
    let homes = 0..problem.homes.len();
    let choice = |class, home, by_host| TensorChoice {
        class,
        home,
        by_host,
    };
    let mut choices: Vec<TensorChoice> = homes
        .clone()
        .map(|home| choice(Class::Weights, home, false))
        .collect();
    for home in homes.clone() {
        if home == 0 || problem.attention != Attention::Host {
            choices.push(choice(Class::Cache, home, false));
        }
        let reached = problem.host.is_some() && problem.homes[home].behind_host.is_some();
        if home != 0 && reached && problem.attention != Attention::Device {
            choices.push(choice(Class::Cache, home, true));
        }
    }
    let states = homes.filter(|&home| problem.homes[home].states);
    choices.extend(states.map(|home| choice(Class::States, home, false)));
    choices
}

/// The given groups and, alone, every lane that none of them names.
fn groups(problem: &Problem, given: &[Vec<String>], field: &str) -> Result<Vec<Vec<String>>> {
    let mut lanes = vec![DEVICE_LANE.to_owned(), HOST_LANE.to_owned()];
    for hop in problem
        .homes
        .iter()
        .flat_map(|h| h.reads.iter().chain(&h.writes))
    {
        if !lanes.contains(&hop.lane) {
            lanes.push(hop.lane.clone());
        }
    }
    for lane in given.iter().flatten() {
        if !lanes.contains(lane) {
            return Err(Error::unknown(field, lane, lanes));
        }
    }
    let mut groups = given.to_vec();
    for lane in lanes {
        if !groups.iter().flatten().any(|name| *name == lane) {
            groups.push(vec![lane]);
        }
    }
    Ok(groups)
}

//! What does one device that generates text from a model too large for it choose among?

use crate::error::{Error, Result};
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond};
use serde::{Deserialize, Serialize};

/// Name of the lane on which the device computes.
pub const DEVICE_LANE: &str = "device";
/// Name of the lane on which the host's processor computes.
pub const HOST_LANE: &str = "host";
/// Most sequences of a batch and most batches of a block that are looked at.
pub const MOST: u64 = 1 << 20;
/// Most homes.
const MOST_HOMES: usize = 16;

/// A model, the memories that it may lie in, and what is left to choose.
///
/// Names of fields say the unit of a number; those of memories, hops and rates of computing may leave
/// it out where a text says it (`capacity = "12 GiB"`).
///
/// A *block* is `batch x batches` sequences: the weights of a layer come once and serve all
/// batches of the block before the next layer comes (Sheng et al. 2023, section 4.2).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// Tokens of a prompt.
    pub prompt: u64,
    /// Tokens generated for each prompt.
    pub generated: u64,
    /// Layers, taken to be alike.
    pub layers: u64,
    /// One layer.
    pub layer: Layer,
    /// What always lies in the device's memory: tables of the embedding and the head.
    #[serde(rename = "resident_bytes", default)]
    pub resident: Bytes,
    /// Where tensors may lie; the first is the device's own memory.
    pub homes: Vec<MemoryPlace>,
    /// The home whose processor may attend to the cache; others that it stands before are staged there.
    #[serde(default)]
    pub host: Option<String>,
    /// How fast is computed.
    pub compute: Compute,
    /// Who attends to cache that does not lie on the device.
    #[serde(default)]
    pub attention: Attention,
    /// The device attends by a fused kernel, which keeps no scores in memory (Dao et al. 2022, algorithm 1);
    /// without it all scores of a batch lie there, as `FlexGen`'s do.
    #[serde(default)]
    pub flash_attention: bool,
    /// Lanes that run one after another.
    #[serde(default)]
    pub serial: SerialLanes,
    /// Fewest and most sequences of a batch.
    #[serde(default = "any")]
    pub batch: [u64; 2],
    /// Fewest and most batches of a block.
    #[serde(default = "any")]
    pub batches: [u64; 2],
    /// Relative gap to the proven bound at which the search ends.
    #[serde(default = "default_gap")]
    pub relative_gap: f64,
}

/// Bytes and operations of one layer.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Width of the residual stream.
    pub hidden: u64,
    /// All weights.
    #[serde(rename = "weights_bytes")]
    pub weights: Bytes,
    /// Key and value of one token.
    #[serde(rename = "cache_bytes_per_token")]
    pub cache: Bytes,
    /// States of scans of one sequence, which do not grow: each token reads them and writes them anew. They
    /// lie with the cache.
    #[serde(rename = "recurrent_bytes_per_sequence", default)]
    pub recurrent: Bytes,
    /// The residual stream of one token.
    #[serde(rename = "state_bytes_per_token")]
    pub state: Bytes,
    /// The feed-forward's inner activations of one token.
    #[serde(rename = "inner_bytes_per_token")]
    pub inner: Bytes,
    /// Scores of one query with one key, over all heads.
    #[serde(rename = "score_bytes_per_query_and_key")]
    pub scores: Bytes,
    /// What goes to the host for one token that is attended to there, and what comes back.
    #[serde(rename = "query_bytes_per_token", default)]
    pub query: Bytes,
    /// Operations of the matrix products for one token.
    #[serde(rename = "matmul_flops_per_token")]
    pub matmul: f64,
    /// Operations of attention for one query and one key of a prompt.
    #[serde(rename = "attention_flops_per_query_and_key")]
    pub attention: f64,
    /// Operations of the head for one sequence, divided over the layers.
    #[serde(rename = "head_flops_per_sequence", default)]
    pub head: f64,
    /// Bytes of the head's table that each batch reads for a token, divided over the layers.
    #[serde(rename = "head_bytes_per_batch", default)]
    pub head_table: Bytes,
}

/// A memory that tensors may lie in.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryPlace {
    /// Its name.
    pub name: String,
    /// What the plan may fill of it.
    #[serde(rename = "capacity_bytes", alias = "capacity")]
    pub capacity: Bytes,
    /// What bytes cross on their way to the device, the far side first. Of the device's own memory:
    /// the bus through which it reads weights and cache.
    #[serde(default)]
    pub reads: Vec<Hop>,
    /// What bytes cross on their way from the device, the device's side first.
    #[serde(default)]
    pub writes: Vec<Hop>,
    /// Of these hops, how many at the far end lie behind the host's processor; absent where the bytes do not pass it.
    #[serde(default)]
    pub behind_host: Option<usize>,
    /// False where hidden states may not lie here.
    #[serde(default = "yes")]
    pub states: bool,
}

/// A lane that bytes cross, with the rate of each class of tensors.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// The lane; hops of the same name wait for one another.
    pub lane: String,
    /// Rate of everything that has none of its own below.
    #[serde(rename = "rate_bytes_per_s", alias = "rate")]
    pub rate: BytesPerSecond,
    /// Rates of weights in prefill and in decoding.
    #[serde(
        rename = "weights_bytes_per_s",
        alias = "weights",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub weights: Option<[BytesPerSecond; 2]>,
    /// Rates of the cache.
    #[serde(
        rename = "cache_bytes_per_s",
        alias = "cache",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub cache: Option<[BytesPerSecond; 2]>,
    /// Rates of hidden states and queries.
    #[serde(
        rename = "states_bytes_per_s",
        alias = "states",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub states: Option<[BytesPerSecond; 2]>,
}

/// How fast device and host compute.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compute {
    /// Matrix products over prompts.
    #[serde(rename = "prefill_matmul_flops_per_s", alias = "prefill_matmul")]
    pub prefill_matmul: FlopsPerSecond,
    /// Attention over prompts.
    #[serde(rename = "prefill_attention_flops_per_s", alias = "prefill_attention")]
    pub prefill_attention: FlopsPerSecond,
    /// Matrix products of single tokens.
    #[serde(rename = "decode_matmul_flops_per_s", alias = "decode_matmul")]
    pub decode_matmul: FlopsPerSecond,
    /// Cache that the device attends to in a second of decoding.
    #[serde(rename = "device_attention_bytes_per_s", alias = "device_attention")]
    pub device_attention: BytesPerSecond,
    /// Cache that the host attends to in a second of decoding; absent: as fast as its memory is read.
    #[serde(
        rename = "host_attention_bytes_per_s",
        alias = "host_attention",
        default
    )]
    pub host_attention: Option<BytesPerSecond>,
    /// `c1, c2, c3` by which small batches and narrow models slow the host down, as in
    /// `experimental/cost_model.py` of `FMInference/FlexGen`:
    /// `rate = host_attention max(0.1, 1 + c1 a b - c2 a - c3 b)` with
    /// `a = max(0, log2(64 / batch))` and `b = max(0, log2(4096 / hidden))`.
    #[serde(default)]
    pub small_batch: Option<[f64; 3]>,
}

/// Who attends to cache outside the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attention {
    /// Whoever makes the block faster, sequence by sequence.
    #[default]
    Either,
    /// The host: the cache stays outside.
    Host,
    /// The device: the cache comes to it.
    Device,
}

/// Groups of lanes whose times add up, by phase; a lane in no group runs beside all others.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SerialLanes {
    /// While prompts are read.
    #[serde(default)]
    pub prefill: Vec<Vec<String>>,
    /// While tokens are generated.
    #[serde(default = "one_after_another")]
    pub decode: Vec<Vec<String>>,
}

impl Default for SerialLanes {
    fn default() -> Self {
        Self {
            prefill: Vec::new(),
            decode: one_after_another(),
        }
    }
}

/// The host attends between two products of the device for the same sequences (Sheng et al. 2023, section 4.3).
fn one_after_another() -> Vec<Vec<String>> {
    vec![vec![DEVICE_LANE.to_owned(), HOST_LANE.to_owned()]]
}

fn any() -> [u64; 2] {
    [1, MOST]
}

fn default_gap() -> f64 {
    1e-7
}

fn yes() -> bool {
    true
}

impl Problem {
    /// Reads a problem from its JSON text and checks it.
    pub fn from_json(text: &str) -> Result<Self> {
        let problem: Self = crate::error::from_json("problem", text)?;
        problem.check()?;
        Ok(problem)
    }

    /// Index of the host's home.
    pub(super) fn host(&self) -> Option<usize> {
        let name = self.host.as_ref()?;
        self.homes.iter().position(|home| &home.name == name)
    }

    /// Refuses what no machine can be.
    pub fn check(&self) -> Result<()> {
        for (field, value) in [
            ("prompt", self.prompt),
            ("generated", self.generated),
            ("layers", self.layers),
            ("layer.hidden", self.layer.hidden),
        ] {
            if !(1..=1 << 32).contains(&value) {
                return Err(Error::invalid(field, value, "1 to 2^32"));
            }
        }
        for (field, [least, most]) in [("batch", self.batch), ("batches", self.batches)] {
            if least == 0 || least > most || most > MOST {
                if least == most {
                    return Err(Error::invalid(field, least, format!("1 to {MOST}")));
                }
                let allowed = format!("two numbers from 1 to {MOST}, the smaller one first");
                return Err(Error::invalid(field, format!("{least}, {most}"), allowed));
            }
        }
        if !(1e-10..=1.0).contains(&self.relative_gap) {
            return Err(Error::invalid(
                "relative_gap",
                self.relative_gap,
                "1e-10 to 1",
            ));
        }
        self.layer.check()?;
        self.compute.check()?;
        self.check_homes()
    }

    fn check_homes(&self) -> Result<()> {
        if self.homes.is_empty() || self.homes.len() > MOST_HOMES {
            let allowed = format!("1 to {MOST_HOMES}");
            return Err(Error::invalid("homes", self.homes.len(), allowed));
        }
        for (index, home) in self.homes.iter().enumerate() {
            if self.homes[..index].iter().any(|h| h.name == home.name) {
                return Err(Error::invalid("homes.name", &home.name, "each name once"));
            }
            home.check()?;
        }
        let names = || self.homes.iter().map(|home| home.name.as_str());
        if let (Some(name), None) = (&self.host, self.host()) {
            return Err(Error::unknown("host", name, names()));
        }
        if self.host() == Some(0) {
            let allowed = "a home outside the device";
            return Err(Error::invalid("host", &self.homes[0].name, allowed));
        }
        if self.attention == Attention::Host && self.host.is_none() {
            let what = "attention: got host without a home named in `host`; allowed: device";
            return Err(Error::inconsistent(what));
        }
        Ok(())
    }
}

impl Layer {
    fn check(&self) -> Result<()> {
        for (field, value) in [
            ("matmul_flops_per_token", self.matmul),
            ("attention_flops_per_query_and_key", self.attention),
            ("head_flops_per_sequence", self.head),
            ("head_bytes_per_batch", self.head_table.value()),
        ] {
            if !(value == 0.0 || (1e-30..=1e30).contains(&value)) {
                let allowed = "0 or from 1e-30 to 1e30";
                return Err(Error::invalid(format!("layer.{field}"), value, allowed));
            }
        }
        Ok(())
    }
}

impl MemoryPlace {
    fn check(&self) -> Result<()> {
        let at = |field: &str| format!("homes.{}.{field}", self.name);
        for (way, hops) in [("reads", &self.reads), ("writes", &self.writes)] {
            for hop in hops {
                let own = [hop.weights, hop.cache, hop.states];
                let own = own.into_iter().flatten().flatten();
                for rate in own.chain([hop.rate]) {
                    above_zero(&at(&format!("{way}.{}", hop.lane)), rate.value())?;
                }
            }
        }
        let hops = self.reads.len().min(self.writes.len());
        match self.behind_host {
            Some(behind) if behind > hops => {
                let allowed = format!("0 to {hops}, the hops of each way");
                Err(Error::invalid(at("behind_host"), behind, allowed))
            }
            _ => Ok(()),
        }
    }
}

impl Compute {
    fn check(&self) -> Result<()> {
        for (field, value) in [
            ("prefill_matmul_flops_per_s", self.prefill_matmul.value()),
            (
                "prefill_attention_flops_per_s",
                self.prefill_attention.value(),
            ),
            ("decode_matmul_flops_per_s", self.decode_matmul.value()),
            (
                "device_attention_bytes_per_s",
                self.device_attention.value(),
            ),
        ] {
            above_zero(&format!("compute.{field}"), value)?;
        }
        if let Some(rate) = self.host_attention {
            above_zero("compute.host_attention_bytes_per_s", rate.value())?;
        }
        for constant in self.small_batch.into_iter().flatten() {
            if !(0.0..=1.0).contains(&constant) {
                return Err(Error::invalid("compute.small_batch", constant, "0 to 1"));
            }
        }
        Ok(())
    }
}

fn above_zero(field: &str, value: f64) -> Result<()> {
    if (1e-30..=1e30).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid(field, value, "1e-30 to 1e30"))
    }
}

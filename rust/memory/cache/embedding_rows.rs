//! Do the rows of embedding tables fit a cluster's memories, which of them hit near, and how long do look-ups take?

use super::machine::{Machine, MachineOverrides};
use super::policy::Policy;
use super::popularity::Popularity;
use super::tiers::{Level, Served, TieredAccessRequest as Batch, cache_time};
use crate::control::Control;
use crate::error::amounts::{count, not_negative, positive};
use crate::error::{Error, Result};
use crate::hardware::Cluster;
use crate::units::Dtype;
use serde::{Deserialize, Serialize};

/// Tables of a recommendation model, spread evenly over all devices of a cluster.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingCacheRequest {
    /// Elements of all tables.
    pub parameters: f64,
    /// Elements of a row.
    pub width: u64,
    /// Format of the elements.
    pub dtype: Dtype,
    /// What training keeps beside a row.
    #[serde(default)]
    pub optimizer: Optimizer,
    /// Samples of a batch, over all devices.
    pub samples: u64,
    /// Rows that a sample looks up.
    pub lookups_per_sample: f64,
    /// Exponent of the Zipf law of rows.
    pub exponent: f64,
    /// What full memory gives up.
    #[serde(default)]
    pub policy: Policy,
    /// Near memory that tables may not take, on all devices together.
    #[serde(default)]
    pub reserved_bytes: f64,
    /// Storage behind the hosts' memory, on all nodes together.
    #[serde(default)]
    pub storage: Option<Storage>,
    /// True where levels work beside one another.
    #[serde(default = "yes")]
    pub overlapped: bool,
    /// Figures in the place of those of the cluster.
    #[serde(default)]
    pub machine: MachineOverrides,
}

/// What is kept beside a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Optimizer {
    /// Nothing: rows are read only.
    #[default]
    None,
    /// Rows are written, without state: SGD.
    Sgd,
    /// One fp32 number a row: `AdaGrad` whose second moment is that of the row (Mudigere et al. 2022).
    RowWiseAdagrad,
    /// One fp32 number an element.
    Adagrad,
    /// Two fp32 numbers an element.
    Adam,
}

/// Flash behind the hosts' memory.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// How much it holds.
    pub capacity_bytes: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Time to the first byte.
    #[serde(default)]
    pub latency_s: f64,
    /// Accesses that wait for it at one time.
    #[serde(default = "one")]
    pub in_flight: f64,
}

/// What tables come to. Rates are null where they do not fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EmbeddingCacheReport {
    /// True if the farthest memory holds all rows.
    pub fits: bool,
    /// Rows of all tables.
    pub rows: u64,
    /// A row with its optimizer state.
    pub row_bytes: f64,
    /// All rows.
    pub total_bytes: f64,
    /// Near memory, hosts' memory, storage.
    pub levels: Vec<Served>,
    /// Look-ups of a batch, and updates where rows are trained.
    pub time_s: Option<f64>,
    /// Samples over that time.
    pub samples_per_s: Option<f64>,
    /// The level that is busy the longest.
    pub slowest: Option<String>,
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

impl Optimizer {
    /// State of a row of `width` elements.
    fn bytes(self, width: f64) -> f64 {
        match self {
            Self::None | Self::Sgd => 0.0,
            Self::RowWiseAdagrad => 4.0,
            Self::Adagrad => 4.0 * width,
            Self::Adam => 8.0 * width,
        }
    }
}

/// Look-ups of a batch over near memory, the hosts' memory and storage; each holds what the nearer
/// ones hold, and the last holds all (`tiers.rs` has the times).
///
/// ```text
/// row = width * element + state,   rows = parameters / width,   accesses = samples * look-ups
/// ```
///
/// Look-ups count each as its own: where a batch asks for a row several times, less is moved. All
/// devices are taken to be asked for equally often; collectives and dense layers are not in it.
pub fn embedding_cache(
    cluster: &Cluster,
    request: &EmbeddingCacheRequest,
    control: &Control,
) -> Result<EmbeddingCacheReport> {
    check(request)?;
    let machine = Machine::of(cluster, request.dtype, &request.machine)?;
    let width = request.width as f64;
    let row_bytes = width * request.dtype.bytes() + request.optimizer.bytes(width);
    // at most 2^53 by the check
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rows = (request.parameters / width).ceil() as u64;
    let near = (machine.near_bytes - request.reserved_bytes).max(0.0);
    let mut levels = vec![level("near", near, machine.near_bytes_per_s)];
    if machine.far_bytes > near {
        levels.push(level("far", machine.far_bytes, machine.copy_bytes_per_s));
    }
    if let Some(storage) = request.storage {
        let mut last = level("storage", storage.capacity_bytes, storage.bytes_per_s);
        (last.latency_s, last.in_flight) = (storage.latency_s, storage.in_flight);
        levels.push(last);
    }
    let batch = Batch {
        levels,
        popularity: Popularity::Zipf {
            objects: rows,
            exponent: request.exponent,
        },
        object_bytes: row_bytes,
        accesses: request.samples as f64 * request.lookups_per_sample,
        policy: request.policy,
        written_share: if request.optimizer == Optimizer::None {
            0.0
        } else {
            1.0
        },
        overlapped: request.overlapped,
    };
    let found = cache_time(&batch, control)?;
    Ok(EmbeddingCacheReport {
        fits: found.fits,
        rows,
        row_bytes,
        total_bytes: found.total_bytes,
        samples_per_s: found.time_s.map(|time| request.samples as f64 / time),
        levels: found.levels,
        time_s: found.time_s,
        slowest: found.slowest,
    })
}

fn level(name: &str, capacity_bytes: f64, bytes_per_s: f64) -> Level {
    Level {
        name: name.to_owned(),
        capacity_bytes,
        bytes_per_s,
        latency_s: 0.0,
        in_flight: 1.0,
    }
}

fn check(request: &EmbeddingCacheRequest) -> Result<()> {
    count("width", request.width, 1, 1 << 32)?;
    count("samples", request.samples, 1, 1 << 40)?;
    positive("lookups_per_sample", request.lookups_per_sample)?;
    // the number of rows stays a whole one
    if !(1.0..=1e15).contains(&request.parameters) {
        let got = request.parameters;
        return Err(Error::invalid("parameters", got, "1 to 1e15"));
    }
    not_negative("reserved_bytes", request.reserved_bytes)?;
    Ok(())
}

//! How long do accesses take when the popular objects lie near and all of them far away?

use super::policy::Policy;
use super::popularity::{Demand, Popularity};
use crate::control::Control;
use crate::error::amounts::{count, not_negative, positive, share};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most levels.
const MOST_LEVELS: usize = 16;

/// Accesses to objects that are all alike, over levels of memory.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TieredAccessRequest {
    /// From the nearest to the one that holds everything.
    pub levels: Vec<Level>,
    /// Chances of the objects.
    pub popularity: Popularity,
    /// Size of an object.
    pub object_bytes: f64,
    /// Accesses of a batch.
    pub accesses: f64,
    /// What full levels give up; each level holds what those before it hold.
    #[serde(default)]
    pub policy: Policy,
    /// Share of accesses that change their object: 1 where rows are trained, 0 where they are read.
    #[serde(default)]
    pub written_share: f64,
    /// True where levels work beside one another, false where a batch waits for one after the other.
    #[serde(default = "yes")]
    pub overlapped: bool,
}

/// A level of memory.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Its name, as `hbm`.
    pub name: String,
    /// How much it holds, bytes.
    pub capacity_bytes: f64,
    /// Reads and writes together, bytes a second.
    pub bytes_per_s: f64,
    /// Time to the first byte.
    #[serde(default)]
    pub latency_s: f64,
    /// Accesses that wait for it at one time.
    #[serde(default = "one")]
    pub in_flight: f64,
}

/// What a level does for a batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Served {
    /// Its name.
    pub name: String,
    /// Accesses that this level or a nearer one serves, as a share of all.
    pub hit_rate: f64,
    /// Accesses that this level serves, as a share of all.
    pub share: f64,
    /// Bytes read from it.
    pub read_bytes: f64,
    /// Bytes written to it: what comes in from farther levels, and changed objects that go back.
    pub written_bytes: f64,
    /// How long it is busy.
    pub time_s: f64,
}

/// A batch over levels of memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TieredAccessReport {
    /// True if the last level holds all objects; times are null where it does not.
    pub fits: bool,
    /// All objects.
    pub total_bytes: f64,
    /// Levels, the nearest first; none where the objects do not fit.
    pub levels: Vec<Served>,
    /// The batch.
    pub time_s: Option<f64>,
    /// The batch over its accesses.
    pub access_s: Option<f64>,
    /// Name of the level that is busy the longest.
    pub slowest: Option<String>,
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

/// A batch of `n` accesses to objects of `b` bytes over levels 0, 1, .. that hold a share `H_k` of what
/// is asked for; each holds what the nearer ones hold. `H` before level 0 is 0.
///
/// ```text
/// m_k = 1 - H_(k-1)                       accesses that reach level k
/// reads_k = n m_k b + w n m_(k+1) b       also changed objects on their way back
/// writes_k = n m_(k+1) b + w n m_k b      what comes in; changed objects, here or from nearer
/// t_k = (reads_k + writes_k) / B_k + n m_k l_k / q_k
/// T = max_k t_k where levels overlap, else sum_k t_k
/// ```
///
/// w: share of accesses that write; B: bytes/s; l: latency; q: accesses in flight. In the long run each
/// object that comes in pushes one out, changed with chance w: exact where all accesses write or none.
pub fn cache_time(request: &TieredAccessRequest, control: &Control) -> Result<TieredAccessReport> {
    check(request)?;
    let demand = Demand::new(&request.popularity, &[])?;
    let size = request.object_bytes;
    let total = match &request.popularity {
        Popularity::Zipf { objects, .. } => *objects as f64,
        Popularity::Measured(weights) => weights.len() as f64,
    } * size;
    let mut answer = TieredAccessReport {
        fits: request
            .levels
            .last()
            .is_some_and(|l| l.capacity_bytes >= total),
        total_bytes: total,
        levels: Vec::new(),
        time_s: None,
        access_s: None,
        slowest: None,
    };
    if !answer.fits {
        return Ok(answer);
    }
    answer.levels = served(request, &demand, control)?;
    let times = answer.levels.iter().map(|level| level.time_s);
    let whole = if request.overlapped {
        times.fold(0.0, f64::max)
    } else {
        times.sum()
    };
    let longest = answer
        .levels
        .iter()
        .max_by(|a, b| a.time_s.total_cmp(&b.time_s));
    answer.slowest = longest.map(|level| level.name.clone());
    answer.time_s = Some(whole);
    answer.access_s = Some(whole / request.accesses);
    Ok(answer)
}

fn served(
    request: &TieredAccessRequest,
    demand: &Demand,
    control: &Control,
) -> Result<Vec<Served>> {
    let last = request.levels.len() - 1;
    let asked = request.accesses * request.object_bytes;
    let mut before = 0.0_f64;
    let mut found = Vec::with_capacity(request.levels.len());
    for (index, level) in request.levels.iter().enumerate() {
        let hit_rate = if index == last {
            1.0
        } else {
            let objects = level.capacity_bytes / request.object_bytes;
            let hits = demand.hits(request.policy, objects, control)?;
            hits.hit_rate.max(before)
        };
        let (reach, pass) = (asked * (1.0 - before), asked * (1.0 - hit_rate));
        let read = reach + request.written_share * pass;
        let written = pass + request.written_share * reach;
        let waits = request.accesses * (1.0 - before) * level.latency_s / level.in_flight;
        found.push(Served {
            name: level.name.clone(),
            hit_rate,
            share: hit_rate - before,
            read_bytes: read,
            written_bytes: written,
            time_s: (read + written) / level.bytes_per_s + waits,
        });
        before = hit_rate;
    }
    Ok(found)
}

fn check(request: &TieredAccessRequest) -> Result<()> {
    let levels = &request.levels;
    if levels.is_empty() || levels.len() > MOST_LEVELS {
        return Err(Error::invalid("levels", levels.len(), "1 to 16 levels"));
    }
    positive("object_bytes", request.object_bytes)?;
    positive("accesses", request.accesses)?;
    share("written_share", request.written_share)?;
    let mut held = 0.0;
    for (index, level) in levels.iter().enumerate() {
        let at = |name: &str| format!("levels[{index}].{name}");
        not_negative(&at("capacity_bytes"), level.capacity_bytes)?;
        positive(&at("bytes_per_s"), level.bytes_per_s)?;
        not_negative(&at("latency_s"), level.latency_s)?;
        positive(&at("in_flight"), level.in_flight)?;
        if level.capacity_bytes < held {
            let allowed = format!("{held} or more: what the nearer level holds is here as well");
            let field = at("capacity_bytes");
            return Err(Error::invalid(field, level.capacity_bytes, allowed));
        }
        held = level.capacity_bytes;
    }
    if let Popularity::Measured(weights) = &request.popularity {
        count("popularity", weights.len() as u64, 1, 1 << 32)?;
    }
    Ok(())
}

//! What does a step that offloads come to: seconds, what is exposed, bytes by tier, tasks?

use super::rates::{Rates, Tier};
use super::step::{Engine, Span, StepRun};
use super::work::StepWork;
use serde::{Serialize, Serializer};

/// What bytes are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ByteUse {
    /// Weights in the compute format, at home.
    Weights,
    /// Gradients, at home.
    Gradients,
    /// Master weights and moments.
    Optimizer,
    /// Activations kept for the backward pass, at home.
    Activations,
    /// On their way: gathered weights, gradients that leave, activations that pass, state that is staged.
    Buffers,
    /// Working set of the running operators.
    Workspace,
    /// Allocator loss on buffers, activations and workspace of the device.
    Fragmentation,
    /// Driver context and communicator buffers.
    Reserve,
}

impl ByteUse {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Weights,
        Self::Gradients,
        Self::Optimizer,
        Self::Activations,
        Self::Buffers,
        Self::Workspace,
        Self::Fragmentation,
        Self::Reserve,
    ];

    /// The name of a field that holds its bytes.
    pub fn field(self) -> &'static str {
        match self {
            Self::Weights => "weights_bytes",
            Self::Gradients => "gradients_bytes",
            Self::Optimizer => "optimizer_bytes",
            Self::Activations => "activations_bytes",
            Self::Buffers => "buffers_bytes",
            Self::Workspace => "workspace_bytes",
            Self::Fragmentation => "fragmentation_bytes",
            Self::Reserve => "reserve_bytes",
        }
    }
}

/// Bytes by what they are for and by tier, of one device and its part of the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TierBytes {
    bytes: [[f64; 3]; 8],
}

impl TierBytes {
    /// Nothing but the driver's reserve.
    pub(super) fn new(work: &StepWork) -> Self {
        let mut held = Self::default();
        held.add(ByteUse::Reserve, Tier::Device, work.reserve_bytes);
        held
    }

    pub(super) fn add(&mut self, what: ByteUse, tier: Tier, bytes: f64) {
        self.bytes[what as usize][tier as usize] += bytes;
    }

    /// Bytes of one use in one tier.
    pub fn of(&self, what: ByteUse, tier: Tier) -> f64 {
        self.bytes[what as usize][tier as usize]
    }

    /// All bytes of a tier.
    pub fn total(&self, tier: Tier) -> f64 {
        self.bytes.iter().map(|row| row[tier as usize]).sum()
    }

    /// Bytes that a tier lacks; 0 where all fits.
    pub fn missing_bytes(&self, rates: &Rates, tier: Tier) -> f64 {
        (self.total(tier) - rates.capacity[tier as usize]).max(0.0)
    }

    /// True where every tier holds what it is given.
    pub fn fits(&self, rates: &Rates) -> bool {
        Tier::ALL
            .iter()
            .all(|&tier| self.missing_bytes(rates, tier) <= 0.0)
    }
}

/// A tier at its fullest moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TierUse {
    /// Which one.
    pub tier: Tier,
    /// Its name in the catalog; empty where there is none.
    pub name: String,
    /// The bytes of one device by use, in the order of `ByteUse::ALL`.
    #[serde(flatten, serialize_with = "by_use")]
    pub by_use: Vec<(ByteUse, f64)>,
    /// Their sum.
    #[serde(rename = "total_bytes")]
    pub bytes: f64,
    /// One device's part of the tier.
    pub capacity_bytes: f64,
    /// True where it holds them.
    pub fits: bool,
}

/// A field for each use, as `weights_bytes`.
fn by_use<S: Serializer>(uses: &[(ByteUse, f64)], to: S) -> Result<S::Ok, S::Error> {
    let fields = uses.iter().map(|(what, bytes)| (what.field(), bytes));
    to.collect_map(fields)
}

/// The part of a step in which no pass runs, seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Exposed {
    /// Passes wait for weights, room or activations.
    pub loads_s: f64,
    /// Gradients are still on their way behind the last pass.
    pub stores_s: f64,
    /// Updates, and what comes back from them, behind that.
    pub updates_s: f64,
}

/// Seconds for which an engine works.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Busy {
    /// Who.
    pub engine: Engine,
    /// How long.
    pub busy_s: f64,
}

/// A step that offloads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OffloadReport {
    /// Seconds of a step; of one of many where its update runs under the next.
    pub step_time_s: f64,
    /// Passes alone.
    pub compute_s: f64,
    /// `step_time_s` less `compute_s`, by what is waited for.
    pub exposed: Exposed,
    /// What every engine does in a step.
    pub busy: Vec<Busy>,
    /// What no order could beat: the busiest engine.
    pub lower_bound_s: f64,
    /// Every tier.
    pub tiers: Vec<TierUse>,
    /// True where all tiers hold what they are given.
    pub fits: bool,
    /// Where the scheme chose something: names and values.
    pub chosen: Vec<(&'static str, String)>,
    /// Every task.
    pub spans: Vec<Span>,
}

impl OffloadReport {
    /// Views a run of one step.
    pub(super) fn new(work: &StepWork, rates: &Rates, held: &TierBytes, ran: StepRun) -> Self {
        let compute = work.passes_s();
        let busy = Engine::ALL.iter().zip(ran.busy);
        Self {
            step_time_s: ran.end,
            compute_s: compute,
            exposed: Exposed {
                loads_s: (ran.passes - compute).max(0.0),
                stores_s: ran.stores - ran.passes,
                updates_s: ran.end - ran.stores,
            },
            busy: busy
                .map(|(&engine, busy_s)| Busy { engine, busy_s })
                .collect(),
            lower_bound_s: ran.busy.iter().copied().fold(0.0, f64::max),
            tiers: Tier::ALL
                .iter()
                .map(|&tier| used(held, rates, tier))
                .collect(),
            fits: held.fits(rates),
            chosen: Vec::new(),
            spans: ran.spans,
        }
    }
}

fn used(held: &TierBytes, rates: &Rates, tier: Tier) -> TierUse {
    TierUse {
        tier,
        name: rates.names[tier as usize].clone(),
        bytes: held.total(tier),
        capacity_bytes: rates.capacity[tier as usize],
        fits: held.missing_bytes(rates, tier) <= 0.0,
        by_use: ByteUse::ALL
            .iter()
            .map(|&what| (what, held.of(what, tier)))
            .collect(),
    }
}

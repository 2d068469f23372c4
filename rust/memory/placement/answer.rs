//! Where does everything lie, what does that cost, and what would be worth buying?

use super::build::{BuiltModel, Overfull, UNIT};
use super::live_set::LiveSet;
use super::option_costs::PlacementContext;
use super::problem::Problem;
use super::rules::RuleCost;
use super::step_lengths::{BestPlacement, PlacementProof};
use super::tensor::Class;
use super::wear::{lifetime_years, writes_per_cell};
use crate::hardware::Memories;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// Where one tensor lies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlacedTensor {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub class: Class,
    /// Its size.
    pub bytes: f64,
    /// Share of it in each tier while it is not in use.
    pub shares: Vec<f64>,
    /// Share of it that the host updates in place.
    pub updated_in_place: f64,
}

/// What one tier holds and does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TierUse {
    /// The tier.
    pub name: String,
    /// A device's part of it.
    pub capacity_bytes: f64,
    /// The most that lies in it at one instant.
    pub peak_bytes: f64,
    /// Bytes read in a step.
    pub read_bytes: f64,
    /// Bytes written in a step, those that keep data alive included.
    pub written_bytes: f64,
    /// By how much the objective falls for each more byte of it.
    pub value_per_byte: f64,
    /// Times that a cell is written in the years asked for, one where none are, if writes are spread
    /// evenly.
    pub writes_per_cell: f64,
    /// Years until it wears out at this rate; none where nothing limits it.
    pub lifetime_years: Option<f64>,
    /// By how much the objective falls for each more write a cell survives, relative to what it does.
    pub value_of_endurance: f64,
    /// Dollars of the memory that is filled at the fullest instant, where its price is known.
    pub price_usd: Option<f64>,
}

/// What one tier holds of a class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldBytes {
    /// The tier.
    pub tier: String,
    /// The class.
    pub class: Class,
    /// Bytes of each instant.
    #[serde(rename = "bytes_by_instant")]
    pub bytes: Vec<f64>,
}

/// What one lane does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaneUse {
    /// The lane.
    pub name: String,
    /// Seconds of a step in which it moves bytes.
    pub busy_s: f64,
    /// One device's part of its rate, of reads where they are unlike writes.
    pub rate_bytes_per_s: f64,
    /// By how much the objective falls for each more byte per second of it.
    pub value_per_byte_per_s: f64,
}

/// Where everything lies, with the proof.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Placement {
    /// What was minimised: the sum of weight times seconds, joules and dollars.
    #[serde(rename = "objective_value")]
    pub objective: f64,
    /// What no placement of the kinds considered can beat.
    #[serde(rename = "objective_bound")]
    pub bound: f64,
    /// `(objective - bound) / objective`.
    pub relative_gap: f64,
    /// Length of a step.
    pub step_time_s: f64,
    /// Length of a step with no transfer in its way.
    pub transfer_free_s: f64,
    /// Energy of moving and keeping bytes in a step.
    #[serde(rename = "memory_energy_j")]
    pub energy_j: f64,
    /// Dollars of the memory that is filled.
    pub memory_usd: f64,
    /// Tensor by tensor.
    pub tensors: Vec<PlacedTensor>,
    /// Tier by tier.
    pub tiers: Vec<TierUse>,
    /// Lane by lane.
    pub lanes: Vec<LaneUse>,
    /// Length of each window.
    pub window_s: Vec<f64>,
    /// Bytes over the instants of each tier and class.
    pub memory: Vec<HeldBytes>,
    /// The live set, wherever it lies.
    #[serde(skip)]
    pub live: LiveSet,
    /// Branch-and-bound nodes that the proof took.
    pub nodes: u64,
    /// What fixed rules of well-known systems come to on the same step.
    pub rules: Vec<RuleCost>,
}

/// What a tier lacks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shortage {
    /// The tier, or what else is short.
    pub what: String,
    /// The instant at which most is missing.
    #[serde(rename = "instant")]
    pub at: u32,
    /// Bytes that more of it would make the placement possible.
    pub missing_bytes: f64,
}

/// A placement, or what is missing.
#[derive(Debug, Clone, PartialEq)]
pub enum PlacementOutcome {
    /// Everything has a place.
    Placed(Box<Placement>),
    /// Something has none.
    Impossible(Vec<Shortage>),
}

impl Serialize for PlacementOutcome {
    /// `status`, and beside it `placed` and `missing`, of which one is empty.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (status, placed, missing) = match self {
            Self::Placed(placement) => ("placed", Some(placement), &[][..]),
            Self::Impossible(missing) => ("impossible", None, missing.as_slice()),
        };
        let mut told = to.serialize_struct("PlacementOutcome", 3)?;
        told.serialize_field("status", status)?;
        told.serialize_field("placed", &placed)?;
        told.serialize_field("missing", missing)?;
        told.end()
    }
}

impl PlacementContext<'_> {
    /// Tells what was found.
    pub(super) fn answer(&self, best: &BestPlacement, proven: &PlacementProof) -> Placement {
        let problem = self.problem;
        let (built, tally) = (&best.built, &best.tally);
        let of = |(item, tensor): (u32, &super::Tensor)| {
            let mut placed = PlacedTensor {
                name: tensor.name.clone(),
                class: tensor.class,
                bytes: tensor.bytes,
                shares: vec![0.0; self.memories.places.len()],
                updated_in_place: 0.0,
            };
            for option in built.model.options_of(item) {
                let (share, site) = (best.shares[option as usize], built.options[option as usize]);
                placed.shares[site.place] += share;
                placed.updated_in_place += if site.in_place { share } else { 0.0 };
            }
            placed
        };
        let tiers = self.tiers(best);
        let objective = tally.objective();
        Placement {
            objective,
            bound: proven.bound.min(objective),
            relative_gap: gap(objective, proven.bound),
            step_time_s: tally.step_s,
            transfer_free_s: problem.transfer_free_s(),
            energy_j: tally.joules,
            memory_usd: tiers.iter().filter_map(|t| t.price_usd).sum(),
            tensors: (0..).zip(&problem.tensors).map(of).collect(),
            tiers,
            lanes: self.lanes(best),
            window_s: tally.window_s.clone(),
            memory: tally.bytes_by_instant(),
            live: LiveSet::new(problem),
            nodes: proven.nodes,
            rules: Vec::new(),
        }
    }

    fn tiers(&self, best: &BestPlacement) -> Vec<TierUse> {
        let BestPlacement {
            built,
            prices,
            tally,
            ..
        } = best;
        let step = tally.step_s;
        let years = self.problem.years.unwrap_or(1.0);
        let count = self.instants;
        let sum = |first: u32| -> f64 {
            prices[first as usize..(first + count) as usize]
                .iter()
                .sum()
        };
        let places = self.memories.places.iter().enumerate();
        let of = |(index, place): (usize, &crate::hardware::TierAccess)| {
            let peak = tally.peaks[index];
            let written = tally.written[index];
            let wear = built.rows.wear[index].map_or(0.0, |row| prices[row as usize]);
            TierUse {
                name: place.tier.name.clone(),
                capacity_bytes: self.capacity(index),
                peak_bytes: peak,
                read_bytes: tally.read[index],
                written_bytes: written,
                value_per_byte: built.rows.capacity[index].map_or(0.0, sum) / UNIT,
                writes_per_cell: writes_per_cell(place, written, step) * years,
                lifetime_years: lifetime_years(place, written, step),
                value_of_endurance: wear * written / UNIT,
                price_usd: place.tier.price.map(|price| price.value() * peak),
            }
        };
        places.map(of).collect()
    }

    /// Bytes per second of a lane: the most that any tier gets, those that bounce in it left out.
    fn rate(&self, lane: usize) -> f64 {
        let crosses = self.memories.places.iter().flat_map(|place| &place.crosses);
        let of = |c: &crate::hardware::Crossing| if c.read > 0.0 { c.read } else { c.write };
        let paces = crosses.filter(|c| c.lane == lane).map(of);
        1.0 / paces.fold(f64::INFINITY, f64::min)
    }

    fn lanes(&self, best: &BestPlacement) -> Vec<LaneUse> {
        let BestPlacement {
            built,
            prices,
            tally,
            ..
        } = best;
        let count = self.memories.lanes.len();
        let of = |(lane, named): (usize, &crate::hardware::Lane)| {
            let (mut busy_s, mut value) = (0.0, 0.0);
            let rate = self.rate(lane);
            for (index, window) in self.problem.windows.iter().enumerate() {
                let busy = tally.busy[index * count + lane];
                busy_s += busy * window.repeats;
                let row = built.rows.lanes[index * count + lane];
                value += busy * row.map_or(0.0, |row| prices[row as usize]);
            }
            LaneUse {
                name: named.name.clone(),
                busy_s,
                rate_bytes_per_s: rate,
                value_per_byte_per_s: value / rate,
            }
        };
        self.memories.lanes.iter().enumerate().map(of).collect()
    }
}

fn gap(objective: f64, bound: f64) -> f64 {
    if objective > 0.0 {
        ((objective - bound) / objective).max(0.0)
    } else {
        0.0
    }
}

/// What is missing, in the names of tiers.
pub(super) fn shortages(
    context: &PlacementContext,
    built: &BuiltModel,
    rows: &[(u32, f64)],
) -> Vec<Shortage> {
    let memories: &Memories = context.memories;
    let mut found: Vec<Shortage> = Vec::new();
    for &(row, missing) in rows {
        let missing_bytes = missing * UNIT;
        let at_tier = built.rows.capacity.iter().position(|first| {
            first.is_some_and(|first| (first..first + context.instants).contains(&row))
        });
        let worn = built.rows.wear.iter().position(|wear| *wear == Some(row));
        let (what, at) = match (at_tier, worn) {
            (Some(place), _) => {
                let first = built.rows.capacity[place].unwrap_or(row);
                (memories.places[place].tier.name.clone(), row - first)
            }
            (_, Some(place)) => {
                let name = &memories.places[place].tier.name;
                (format!("endurance of {name}, bytes a step"), 0)
            }
            _ => continue,
        };
        match found.iter_mut().find(|f| f.what == what) {
            Some(same) if same.missing_bytes >= missing_bytes => {}
            Some(same) => (same.at, same.missing_bytes) = (at, missing_bytes),
            None => found.push(Shortage {
                what,
                at,
                missing_bytes,
            }),
        }
    }
    found
}

/// The main tier does not hold what is fixed.
pub(super) fn overfull(context: &PlacementContext, over: &Overfull) -> Vec<Shortage> {
    let main = &context.memories.places[context.memories.main()];
    vec![Shortage {
        what: main.tier.name.clone(),
        at: over.at,
        missing_bytes: over.bytes,
    }]
}

/// Whole tensors that are larger than every tier in which they may lie.
pub(super) fn tensors_without_tier(problem: &Problem, context: &PlacementContext) -> Vec<Shortage> {
    let largest = |tensor: &super::Tensor| {
        let places = context.memories.places.iter().enumerate();
        let allowed =
            places.filter(|(_, p)| tensor.tiers.is_empty() || tensor.tiers.contains(&p.tier.name));
        allowed.fold(0.0_f64, |most, (index, _)| {
            most.max(context.capacity(index))
        })
    };
    let tensors = problem.tensors.iter().filter(|t| t.whole);
    let of = |tensor: &super::Tensor| {
        let missing_bytes = tensor.bytes - largest(tensor);
        (missing_bytes > 0.0).then(|| Shortage {
            what: format!("a tier for tensor '{}'", tensor.name),
            at: tensor.from,
            missing_bytes,
        })
    };
    tensors.filter_map(of).collect()
}

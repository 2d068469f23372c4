//! How does a placement problem become items, options and rows?

use super::option_costs::{LayoutSink, PlacementContext, PlacementOption};
use super::problem::Window;
use super::tensor::Tensor;
use super::wear::{refresh_rate, writable_bytes};
use crate::solve::assign::Model;
use std::ops::Range;

/// Bytes that rows count by: then they are of the size of seconds.
pub(super) const UNIT: f64 = 1e9;

/// How far what is kept may rise: rounding of its sums.
const ROUNDING: f64 = 1e-11;

/// Which lengths of a step a model is written for.
///
/// Over one length it says what that step wears, refreshes and keeps. Over a stretch it never says more
/// than a step of any length in it: refreshes and keeping are of the shortest, what may be written of
/// the longest.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepLengths {
    pub(super) least_s: f64,
    pub(super) most_s: f64,
    /// Weight of a second beside the objective's own.
    pub(super) surcharge: f64,
}

impl StepLengths {
    /// Steps of this length alone.
    pub(super) fn only(step_s: f64) -> Self {
        Self {
            least_s: step_s,
            most_s: step_s,
            surcharge: 0.0,
        }
    }
}

/// What a placement comes to: none that is as good in all of it has a larger objective.
pub(super) struct ParetoLimits {
    pub(super) step_s: f64,
    pub(super) window_s: Vec<f64>,
    /// Fullest instant of each tier, bytes.
    pub(super) peaks: Vec<f64>,
    pub(super) joules: f64,
}

/// What a model minimises.
#[derive(Clone, Copy)]
pub(super) enum ModelObjective<'a> {
    /// The objective.
    Objective(StepLengths),
    /// Bytes behind the main tier, moved or lying, while nothing that is kept gets worse.
    Near(&'a ParetoLimits),
}

impl ModelObjective<'_> {
    fn lengths(&self) -> StepLengths {
        match self {
            Self::Objective(lengths) => *lengths,
            Self::Near(kept) => StepLengths::only(kept.step_s),
        }
    }

    /// Opens a window of the step, whose lanes get their rows once something crosses them.
    fn window(&self, model: &mut Model, window: &Window, per_s: f64) {
        if let Self::Objective(lengths) = self {
            let weight = (per_s + lengths.surcharge) * window.repeats;
            model.window(window.compute_s, weight);
        }
    }

    fn lane(&self, model: &mut Model, window: u32) -> u32 {
        match self {
            Self::Objective(_) => model.timed_row(window, 0.0),
            Self::Near(kept) => {
                model.limited_row(kept.window_s[window as usize] * (1.0 + ROUNDING))
            }
        }
    }
}

/// A model and what its rows and options mean.
pub(super) struct BuiltModel {
    pub(super) model: Model,
    /// Site of each option.
    pub(super) options: Vec<PlacementOption>,
    pub(super) rows: ModelRows,
}

/// Which rows of the model belong to what.
pub(super) struct ModelRows {
    /// First capacity row of each tier; none where the tier holds everything at once.
    pub(super) capacity: Vec<Option<u32>>,
    /// First row of what must be bought of each tier.
    bought: Vec<Option<u32>>,
    /// Row of each lane in each window.
    pub(super) lanes: Vec<Option<u32>>,
    /// Row of the wear of each tier.
    pub(super) wear: Vec<Option<u32>>,
    /// Row of the energy, where it is kept.
    joules: Option<u32>,
    window_of: Vec<u32>,
    lane_count: usize,
}

/// The main tier does not even hold what is fixed: by so many bytes at an instant.
pub(super) struct Overfull {
    pub(super) at: u32,
    pub(super) bytes: f64,
}

impl ModelRows {
    /// Index into `lanes`.
    fn lane(&self, at: u32, lane: usize) -> usize {
        self.window_of[at as usize] as usize * self.lane_count + lane
    }
}

impl PlacementContext<'_> {
    /// Bytes of the main tier that are taken in any case at each instant.
    pub(super) fn fixed(&self) -> Vec<f64> {
        let mut sum = vec![0.0; self.instants as usize];
        for fixed in &self.problem.fixed {
            sum.iter_mut().zip(&fixed.bytes).for_each(|(a, b)| *a += b);
        }
        sum
    }

    /// Bytes that tensors may take of a tier.
    pub(super) fn capacity(&self, place: usize) -> f64 {
        let all = self.memories.places[place].capacity.value();
        if place == self.memories.main() {
            all * self.problem.main_share
        } else {
            all
        }
    }

    /// Writes the model.
    pub(super) fn build(&self, aim: ModelObjective) -> Result<BuiltModel, Overfull> {
        let mut model = Model::new();
        let rows = self.rows(&mut model, aim)?;
        let mut built = BuiltModel {
            model,
            options: Vec::new(),
            rows,
        };
        let mut options = Vec::new();
        for tensor in &self.problem.tensors {
            self.options_of(tensor, &mut options);
            built.model.item(tensor.whole);
            for &option in &options {
                self.option(tensor, option, &mut built, aim);
            }
        }
        Ok(built)
    }

    fn rows(&self, model: &mut Model, aim: ModelObjective) -> Result<ModelRows, Overfull> {
        let (problem, memories) = (self.problem, self.memories);
        let places = memories.places.len();
        let fixed = self.fixed();
        let everything: f64 =
            problem.tensors.iter().map(|t| t.bytes).sum::<f64>() * problem.activation_factor;
        let mut rows = ModelRows {
            capacity: vec![None; places],
            bought: vec![None; places],
            lanes: vec![None; problem.windows.len() * memories.lanes.len()],
            wear: vec![None; places],
            joules: None,
            window_of: problem.window_of(),
            lane_count: memories.lanes.len(),
        };
        for window in &problem.windows {
            aim.window(model, window, problem.objective.per_s);
        }
        if let (ModelObjective::Near(kept), true) = (aim, problem.objective.per_j > 0.0) {
            rows.joules = Some(model.limited_row(kept.joules * (1.0 + ROUNDING)));
        }
        let none = vec![0.0; self.instants as usize];
        for place in 0..places {
            let taken = if place == memories.main() {
                &fixed
            } else {
                &none
            };
            let capacity = self.capacity(place);
            let fullest = taken.iter().copied().fold(0.0, f64::max);
            if everything + fullest > capacity {
                for (at, taken) in (0..).zip(taken) {
                    if *taken > capacity {
                        let bytes = fullest - capacity;
                        return Err(Overfull { at, bytes });
                    }
                    let row = model.limited_row((capacity - taken) / UNIT);
                    rows.capacity[place].get_or_insert(row);
                }
            }
            rows.bought[place] = self.purchase_row(model, aim, place, taken);
            let writable =
                |years| writable_bytes(&memories.places[place], aim.lengths().most_s, years);
            rows.wear[place] = problem
                .years
                .and_then(writable)
                .map(|bytes| model.limited_row(bytes / UNIT));
        }
        Ok(rows)
    }

    /// First row of what must be bought of a tier, where that costs anything.
    fn purchase_row(
        &self,
        model: &mut Model,
        aim: ModelObjective,
        place: usize,
        taken: &[f64],
    ) -> Option<u32> {
        let price = self.memories.places[place].tier.price?;
        let per_byte = price.value() * self.problem.objective.per_usd;
        if per_byte <= 0.0 {
            return None;
        }
        let rows: Vec<u32> = match aim {
            ModelObjective::Objective(_) => {
                let window = model.window(0.0, per_byte * UNIT);
                let row = |taken: &f64| model.timed_row(window, *taken / UNIT);
                taken.iter().map(row).collect()
            }
            ModelObjective::Near(kept) => {
                let most = kept.peaks[place] * (1.0 + ROUNDING);
                let row = |taken: &f64| model.limited_row((most - taken).max(0.0) / UNIT);
                taken.iter().map(row).collect()
            }
        };
        rows.first().copied()
    }

    fn option(
        &self,
        tensor: &Tensor,
        option: PlacementOption,
        built: &mut BuiltModel,
        aim: ModelObjective,
    ) {
        built.options.push(option);
        let mut draft = OptionDraft {
            context: self,
            rows: &mut built.rows,
            held: Vec::new(),
            loads: Vec::new(),
            joules: 0.0,
            written: vec![0.0; self.memories.places.len()],
            far: tensor.bytes * option.place.saturating_sub(self.memories.main()) as f64,
        };
        self.add_costs(tensor, option, &mut draft);
        let StepLengths {
            least_s, most_s, ..
        } = aim.lengths();
        let home = &self.memories.places[option.place];
        let refreshed = refresh_rate(home, tensor, least_s);
        draft.written[option.place] += refreshed * most_s;
        draft.joules += refreshed * least_s * home.tier.write_energy.value();
        draft.joules += tensor.bytes * home.tier.keeping_power.value() * least_s;
        draft.write(&mut built.model, aim);
    }
}

/// An option on its way into the model.
struct OptionDraft<'a, 'b> {
    context: &'a PlacementContext<'b>,
    rows: &'a mut ModelRows,
    held: Vec<(usize, Range<u32>, f64)>,
    /// Index of a lane in a window, seconds.
    loads: Vec<(usize, f64)>,
    joules: f64,
    written: Vec<f64>,
    /// Bytes moved to and from tiers behind the main one, and those lying there by how far it is.
    far: f64,
}

impl OptionDraft<'_, '_> {
    fn write(self, model: &mut Model, aim: ModelObjective) {
        let windows = self.rows.lane_count;
        for (index, _) in &self.loads {
            if self.rows.lanes[*index].is_none() {
                let window = u32::try_from(index / windows).unwrap_or(u32::MAX);
                self.rows.lanes[*index] = Some(aim.lane(model, window));
            }
        }
        model.option(match aim {
            ModelObjective::Objective(_) => self.joules * self.context.problem.objective.per_j,
            ModelObjective::Near(_) => self.far / UNIT,
        });
        if let Some(row) = self.rows.joules {
            model.uses(row..row + 1, self.joules);
        }
        let shift = |rows: &Range<u32>, first: u32| first + rows.start..first + rows.end;
        for (place, instants, bytes) in &self.held {
            if let Some(first) = self.rows.capacity[*place] {
                model.uses(shift(instants, first), *bytes / UNIT);
            }
            if let Some(first) = self.rows.bought[*place] {
                model.uses(shift(instants, first), *bytes / UNIT);
            }
        }
        for (index, seconds) in &self.loads {
            if let Some(row) = self.rows.lanes[*index] {
                model.uses(row..row + 1, *seconds);
            }
        }
        for (row, bytes) in self.rows.wear.iter().zip(&self.written) {
            if let Some(row) = row.filter(|_| *bytes > 0.0) {
                model.uses(row..row + 1, *bytes / UNIT);
            }
        }
    }
}

impl LayoutSink for OptionDraft<'_, '_> {
    fn hold(&mut self, place: usize, instants: Range<u32>, bytes: f64) {
        if bytes > 0.0 && !instants.is_empty() {
            self.held.push((place, instants, bytes));
        }
    }

    fn load(&mut self, at: u32, lane: usize, seconds: f64) {
        let index = self.rows.lane(at, lane);
        match self.loads.iter_mut().find(|(other, _)| *other == index) {
            Some((_, sum)) => *sum += seconds,
            None => self.loads.push((index, seconds)),
        }
    }

    fn touch(&mut self, place: usize, at: u32, read: f64, written: f64) {
        let tier = &self.context.memories.places[place].tier;
        let window = self.rows.window_of[at as usize] as usize;
        let times = self.context.problem.windows[window].repeats;
        self.joules +=
            times * (read * tier.read_energy.value() + written * tier.write_energy.value());
        self.written[place] += times * written;
        if place > self.context.memories.main() {
            self.far += times * (read + written);
        }
    }
}

//! How does a placement problem become items, options and rows?

use super::lay::{Ground, Sink, Site};
use super::tensor::Tensor;
use super::wear::{refreshed_bytes, writable_bytes};
use crate::solve::assign::Model;
use std::ops::Range;

/// Bytes that rows count by: then they are of the size of seconds.
pub(super) const UNIT: f64 = 1e9;

/// A model and what its rows and options mean.
pub(super) struct Built {
    pub(super) model: Model,
    /// Site of each option.
    pub(super) sites: Vec<Site>,
    pub(super) rows: Rows,
}

/// Which rows of the model belong to what.
pub(super) struct Rows {
    /// First capacity row of each tier; none where the tier holds everything at once.
    pub(super) capacity: Vec<Option<u32>>,
    /// Window whose length is what must be bought of each tier, in `UNIT`, and its first row.
    pub(super) bought: Vec<Option<(u32, u32)>>,
    /// Row of each lane in each window.
    pub(super) lanes: Vec<Option<u32>>,
    /// Row of the wear of each tier.
    pub(super) wear: Vec<Option<u32>>,
    window_of: Vec<u32>,
    lane_count: usize,
}

/// The main tier does not even hold what is fixed: by so many bytes at an instant.
pub(super) struct Overfull {
    pub(super) at: u32,
    pub(super) bytes: f64,
}

impl Rows {
    /// Index into `lanes`.
    fn lane(&self, at: u32, lane: usize) -> usize {
        self.window_of[at as usize] as usize * self.lane_count + lane
    }
}

impl Ground<'_> {
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
    pub(super) fn build(&self) -> Result<Built, Overfull> {
        let mut model = Model::new();
        let rows = self.rows(&mut model)?;
        let mut built = Built {
            model,
            sites: Vec::new(),
            rows,
        };
        let mut sites = Vec::new();
        for tensor in &self.problem.tensors {
            self.sites(tensor, &mut sites);
            built.model.item(tensor.whole);
            for &site in &sites {
                self.option(tensor, site, &mut built);
            }
        }
        Ok(built)
    }

    fn rows(&self, model: &mut Model) -> Result<Rows, Overfull> {
        let (problem, memories) = (self.problem, self.memories);
        let places = memories.places.len();
        let fixed = self.fixed();
        let everything: f64 =
            problem.tensors.iter().map(|t| t.bytes).sum::<f64>() * problem.activation_factor;
        let mut rows = Rows {
            capacity: vec![None; places],
            bought: vec![None; places],
            lanes: vec![None; problem.windows.len() * memories.lanes.len()],
            wear: vec![None; places],
            window_of: problem.window_of(),
            lane_count: memories.lanes.len(),
        };
        for window in &problem.windows {
            model.window(window.compute_s, problem.objective.per_s * window.repeats);
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
            let price = memories.places[place]
                .tier
                .price
                .map_or(0.0, crate::units::DollarsPerByte::value);
            let per_byte = price * problem.objective.per_usd;
            if per_byte > 0.0 {
                let window = model.window(0.0, per_byte * UNIT);
                for taken in taken {
                    let row = model.timed_row(window, *taken / UNIT);
                    rows.bought[place].get_or_insert((window, row));
                }
            }
            let step = problem.transfer_free_s();
            let writable = |years| writable_bytes(&memories.places[place], step, years);
            rows.wear[place] = problem
                .years
                .and_then(writable)
                .map(|bytes| model.limited_row(bytes / UNIT));
        }
        Ok(rows)
    }

    fn option(&self, tensor: &Tensor, site: Site, built: &mut Built) {
        built.sites.push(site);
        let mut draft = Draft {
            ground: self,
            rows: &mut built.rows,
            held: Vec::new(),
            loads: Vec::new(),
            joules: 0.0,
            written: vec![0.0; self.memories.places.len()],
        };
        self.lay(tensor, site, &mut draft);
        let step = self.problem.transfer_free_s();
        let home = &self.memories.places[site.place];
        let refreshed = refreshed_bytes(home, tensor, step);
        draft.written[site.place] += refreshed;
        draft.joules += refreshed * home.tier.write_energy.value();
        draft.joules += tensor.bytes * home.tier.keeping_power.value() * step;
        draft.write(&mut built.model, self.problem.objective.per_j);
    }
}

/// An option on its way into the model.
struct Draft<'a, 'b> {
    ground: &'a Ground<'b>,
    rows: &'a mut Rows,
    held: Vec<(usize, Range<u32>, f64)>,
    /// Index of a lane in a window, seconds.
    loads: Vec<(usize, f64)>,
    joules: f64,
    written: Vec<f64>,
}

impl Draft<'_, '_> {
    fn write(self, model: &mut Model, per_j: f64) {
        let windows = self.rows.lane_count;
        for (index, _) in &self.loads {
            if self.rows.lanes[*index].is_none() {
                let window = u32::try_from(index / windows).unwrap_or(u32::MAX);
                self.rows.lanes[*index] = Some(model.timed_row(window, 0.0));
            }
        }
        model.option(self.joules * per_j);
        let shift = |rows: &Range<u32>, first: u32| first + rows.start..first + rows.end;
        for (place, instants, bytes) in &self.held {
            if let Some(first) = self.rows.capacity[*place] {
                model.uses(shift(instants, first), *bytes / UNIT);
            }
            if let Some((_, first)) = self.rows.bought[*place] {
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

impl Sink for Draft<'_, '_> {
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
        let tier = &self.ground.memories.places[place].tier;
        let window = self.rows.window_of[at as usize] as usize;
        let times = self.ground.problem.windows[window].repeats;
        self.joules +=
            times * (read * tier.read_energy.value() + written * tier.write_energy.value());
        self.written[place] += times * written;
    }
}

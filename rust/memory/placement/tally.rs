//! What do shares of options come to: bytes by instant, busy lanes, writes, joules, the step?

use super::answer::HeldBytes;
use super::build::BuiltModel;
use super::option_costs::{LayoutSink, PlacementContext, PlacementOption};
use super::problem::Window;
use super::tensor::{Class, Tensor};
use super::wear::{lifetime_years, refresh_rate, writable_bytes};
use std::ops::Range;

/// How far a limit may be passed and still count as kept: as far as the solver does.
const ROUNDING: f64 = 1e-8;

/// What a placement comes to, at the length of its own step.
pub(super) struct PlacementTally<'a> {
    context: &'a PlacementContext<'a>,
    window_of: Vec<u32>,
    share: f64,
    class: Class,
    /// By tier and class.
    memory: Vec<Vec<Option<Vec<f64>>>>,
    /// By window and lane.
    pub(super) busy: Vec<f64>,
    pub(super) read: Vec<f64>,
    /// What keeps data alive included.
    pub(super) written: Vec<f64>,
    pub(super) joules: f64,
    pub(super) window_s: Vec<f64>,
    pub(super) step_s: f64,
    /// Fullest instant of each tier.
    pub(super) peaks: Vec<f64>,
    /// Watts that keep what lies where it does, refreshes left out.
    pub(super) keeping_w: f64,
}

impl<'a> PlacementTally<'a> {
    /// Lays out all tensors; then the step has its length, over which what lies is kept.
    pub(super) fn new(
        context: &'a PlacementContext<'a>,
        built: &BuiltModel,
        shares: &[f64],
    ) -> Self {
        let mut tally = Self::empty(context);
        let mut chosen: Vec<(&Tensor, PlacementOption, f64)> = Vec::new();
        for (item, tensor) in (0..).zip(&context.problem.tensors) {
            for option in built.model.options_of(item) {
                let share = shares[option as usize];
                if share > 0.0 {
                    chosen.push((tensor, built.options[option as usize], share));
                }
            }
        }
        for &(tensor, option, share) in &chosen {
            (tally.share, tally.class) = (share, tensor.class);
            context.add_costs(tensor, option, &mut tally);
        }
        tally.measure();
        for (tensor, option, share) in chosen {
            tally.add_share(tensor, option, share);
        }
        tally
    }

    fn empty(context: &'a PlacementContext<'a>) -> Self {
        let places = context.memories.places.len();
        let mut tally = Self {
            context,
            window_of: context.problem.window_of(),
            share: 1.0,
            class: Class::Other,
            memory: vec![vec![None; Class::ALL.len()]; places],
            busy: vec![0.0; context.problem.windows.len() * context.memories.lanes.len()],
            read: vec![0.0; places],
            written: vec![0.0; places],
            joules: 0.0,
            window_s: Vec::new(),
            step_s: 0.0,
            peaks: Vec::new(),
            keeping_w: 0.0,
        };
        for fixed in &context.problem.fixed {
            tally.class = fixed.class;
            for (at, bytes) in (0..).zip(&fixed.bytes) {
                tally.hold(context.memories.main(), at..at + 1, *bytes);
            }
        }
        tally
    }

    /// Lengths of windows and step, and peaks.
    fn measure(&mut self) {
        let problem = self.context.problem;
        let busy = self.busy.chunks(self.context.memories.lanes.len().max(1));
        let windows = problem.windows.iter().zip(busy);
        let longest = |(window, busy): (&Window, &[f64])| {
            busy.iter().copied().fold(window.compute_s, f64::max)
        };
        self.window_s = windows.map(longest).collect();
        let lengths = problem.windows.iter().zip(&self.window_s);
        self.step_s = lengths.map(|(w, s)| w.repeats * s).sum::<f64>() + problem.rest_s;
        let peaks = (0..self.memory.len()).map(|place| self.peak(place));
        self.peaks = peaks.collect();
    }

    /// Keeps a share of a tensor through the step.
    fn add_share(&mut self, tensor: &Tensor, option: PlacementOption, share: f64) {
        let home = &self.context.memories.places[option.place];
        let refreshed = share * refresh_rate(home, tensor, self.step_s) * self.step_s;
        self.written[option.place] += refreshed;
        self.joules += refreshed * home.tier.write_energy.value();
        let watts = share * tensor.bytes * home.tier.keeping_power.value();
        self.keeping_w += watts;
        self.joules += watts * self.step_s;
    }

    fn peak(&self, place: usize) -> f64 {
        let mut sum = vec![0.0; self.context.instants as usize];
        for bytes in self.memory[place].iter().flatten() {
            sum.iter_mut().zip(bytes).for_each(|(a, b)| *a += b);
        }
        sum.into_iter().fold(0.0, f64::max)
    }

    /// The objective: weighted seconds, joules and dollars.
    pub(super) fn objective(&self) -> f64 {
        let weights = &self.context.problem.objective;
        let places = self.context.memories.places.iter().zip(&self.peaks);
        let price = |(place, peak): (&crate::hardware::TierAccess, &f64)| {
            place.tier.price.map_or(0.0, |price| price.value() * peak)
        };
        let usd: f64 = places.map(price).sum();
        weights.per_s * self.step_s + weights.per_j * self.joules + weights.per_usd * usd
    }

    /// True where no tier wears out within the years that are asked for.
    pub(super) fn endures(&self) -> bool {
        let Some(years) = self.context.problem.years else {
            return true;
        };
        let mut places = self.context.memories.places.iter().zip(&self.written);
        places.all(|(place, written)| {
            let most = writable_bytes(place, self.step_s, years);
            most.is_none_or(|most| *written <= most * (1.0 + ROUNDING))
        })
    }

    /// Years until the first tier wears out.
    pub(super) fn years(&self) -> f64 {
        let places = self.context.memories.places.iter().zip(&self.written);
        let years =
            places.filter_map(|(place, written)| lifetime_years(place, *written, self.step_s));
        years.fold(f64::INFINITY, f64::min)
    }

    /// True where something moves or lies behind the main tier.
    pub(super) fn uses_far_tiers(&self) -> bool {
        let behind = self.context.memories.main() + 1..self.peaks.len();
        behind
            .into_iter()
            .any(|place| self.peaks[place] + self.read[place] + self.written[place] > 0.0)
    }

    /// Bytes by instant of each tier and class that has any.
    pub(super) fn bytes_by_instant(&self) -> Vec<HeldBytes> {
        let tiers = self.context.memories.places.iter().zip(&self.memory);
        let of = |(place, classes): (&crate::hardware::TierAccess, &Vec<Option<Vec<f64>>>)| {
            let lines = classes.iter().zip(Class::ALL);
            let held = |(line, class): (&Option<Vec<f64>>, Class)| {
                let tier = place.tier.name.clone();
                line.clone().map(|bytes| HeldBytes { tier, class, bytes })
            };
            lines.filter_map(held).collect::<Vec<_>>()
        };
        tiers.flat_map(of).collect()
    }
}

impl LayoutSink for PlacementTally<'_> {
    fn hold(&mut self, place: usize, instants: Range<u32>, bytes: f64) {
        let count = self.context.instants as usize;
        let slot = &mut self.memory[place][self.class as usize];
        let line = slot.get_or_insert_with(|| vec![0.0; count]);
        for sum in &mut line[instants.start as usize..instants.end as usize] {
            *sum += bytes * self.share;
        }
    }

    fn load(&mut self, at: u32, lane: usize, seconds: f64) {
        let window = self.window_of[at as usize] as usize;
        self.busy[window * self.context.memories.lanes.len() + lane] += seconds * self.share;
    }

    fn touch(&mut self, place: usize, at: u32, read: f64, written: f64) {
        let tier = &self.context.memories.places[place].tier;
        let window = &self.context.problem.windows[self.window_of[at as usize] as usize];
        let times = self.share * window.repeats;
        self.read[place] += times * read;
        self.written[place] += times * written;
        self.joules +=
            times * (read * tier.read_energy.value() + written * tier.write_energy.value());
    }
}

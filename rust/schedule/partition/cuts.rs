//! Where are the cuts that make sum and slowest stage together least?

use super::costs::Costs;
use super::pipeline_states::PipelineStates;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::solve::{Front, Point};
use std::ops::Range;

/// Room for rounding where a prefix is weighed against the best partition so far.
const SLACK: f64 = 1e-12;

/// What the layers and devices that are left cost at least, by state and first layer left.
pub(super) struct Tables<'a> {
    costs: &'a Costs<'a>,
    places: &'a PipelineStates,
    /// Least sum of the stages that are left, sends into them included.
    sums: Vec<f64>,
    /// Least slowest stage of those that are left.
    slowest: Vec<f64>,
    /// Least of what no step with this rest can beat.
    bounds: Vec<f64>,
}

/// A partition: the device of each stage and the layers that it holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cut {
    /// Device and layers by stage.
    pub(super) stages: Vec<(usize, Range<usize>)>,
    /// Sum of stages and sends.
    pub(super) sum: f64,
    /// Slowest stage.
    pub(super) slowest: f64,
    /// What is made least.
    pub(super) objective: f64,
}

/// A prefix of the model, cut: where it came from.
#[derive(Debug, Clone, Copy)]
struct Prefix {
    device: usize,
    state: usize,
    layer: usize,
    /// Sum of stages and sends of the prefix before.
    sum: f64,
    slowest: f64,
}

/// One step from a state: a device takes a range.
struct Stage {
    device: usize,
    to: usize,
    range: Range<usize>,
    /// Sends into it, there and back.
    hops: f64,
    seconds: f64,
}

/// A prefix that ends at a state and a layer, with one more stage.
fn extended(point: &Point<Prefix>, (state, layer): (usize, usize), stage: &Stage) -> Point<Prefix> {
    Point {
        x: point.x + stage.hops + stage.seconds,
        y: point.y.max(stage.seconds),
        index: layer as u64,
        item: Prefix {
            device: stage.device,
            state,
            layer,
            sum: point.x,
            slowest: point.y,
        },
    }
}

/// True where the first partition is better than the second, beyond rounding.
pub(super) fn beats(first: Option<&Cut>, second: Option<&Cut>) -> bool {
    match (first, second) {
        (Some(a), Some(b)) => a.objective < b.objective * (1.0 - SLACK),
        (first, _) => first.is_some(),
    }
}

impl<'a> Tables<'a> {
    /// Fills the tables from the back: `O(states x devices x layers^2)`.
    pub(super) fn new(
        costs: &'a Costs<'a>,
        places: &'a PipelineStates,
        control: &Control,
    ) -> Result<Self> {
        let cells = places.states.len() * (costs.layers + 1);
        let mut tables = Self {
            costs,
            places,
            sums: vec![f64::INFINITY; cells],
            slowest: vec![f64::INFINITY; cells],
            bounds: vec![f64::INFINITY; cells],
        };
        for state in (0..places.states.len()).rev() {
            watched(control)?;
            tables.fill(state);
        }
        Ok(tables)
    }

    fn fill(&mut self, state: usize) {
        let layers = self.costs.layers;
        if self.places.states[state].next.is_empty() {
            let at = self.at(state, layers);
            (self.sums[at], self.slowest[at], self.bounds[at]) = (0.0, 0.0, 0.0);
            return;
        }
        let again = f64::from(self.costs.request.micro_batches);
        for layer in 0..layers {
            let (mut sum, mut slowest, mut bound) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
            self.stages(state, layer, |stage| {
                let rest = self.at(stage.to, stage.range.end);
                let own = stage.hops + stage.seconds;
                sum = sum.min(own + self.sums[rest]);
                slowest = slowest.min(stage.seconds.max(self.slowest[rest]));
                let behind = stage.seconds + self.bounds[rest];
                bound = bound.min(stage.hops + behind.max(again * stage.seconds));
            });
            let at = self.at(state, layer);
            (self.sums[at], self.slowest[at], self.bounds[at]) = (sum, slowest, bound);
        }
    }

    fn at(&self, state: usize, layer: usize) -> usize {
        state * (self.costs.layers + 1) + layer
    }

    /// Calls `each` with every stage that may follow a prefix and leaves enough for the others.
    fn stages(&self, state: usize, layer: usize, mut each: impl FnMut(Stage)) {
        let place = &self.places.states[state];
        // nothing follows where every device has its layers
        let behind = self.costs.devices.saturating_sub(place.filled + 1);
        for &(device, to) in &place.next {
            let before = place.last.filter(|_| place.filled > 0);
            let hop = match layer {
                0 => 0.0,
                _ => self.costs.hop(place.filled, (before, device), layer),
            };
            for end in layer + 1..=self.costs.layers.saturating_sub(behind) {
                let range = layer..end;
                if !self.costs.fits(device, place.filled, &range) {
                    break;
                }
                each(Stage {
                    device,
                    to,
                    hops: 2.0 * hop,
                    seconds: self.costs.seconds(device, &range),
                    range,
                });
            }
        }
    }

    /// What no partition's step can beat: `max_s (sum_(r<s) (g_r + 2 c_r) + m g_s)`, at its least.
    pub(super) fn bound(&self) -> f64 {
        self.bounds[0]
    }

    /// The best partition, or nothing where none fits.
    pub(super) fn best(&self, control: &Control) -> Result<Option<Cut>> {
        if self.sums[0].is_infinite() {
            return Ok(None);
        }
        let by_sum = self.best_by(|stage, rest| stage.hops + stage.seconds + self.sums[rest]);
        let by_slowest = self.best_by(|stage, rest| stage.seconds.max(self.slowest[rest]));
        let mut best = by_sum;
        if beats(Some(&by_slowest), Some(&best)) {
            best = by_slowest;
        }
        let fronts = self.fronts(best.objective, control)?;
        for state in 0..self.places.states.len() {
            for point in fronts[self.at(state, self.costs.layers)].points() {
                if self.objective(point.x, point.y) < best.objective {
                    best = self.partition_of(&fronts, point);
                }
            }
        }
        Ok(Some(best))
    }

    fn objective(&self, sum: f64, slowest: f64) -> f64 {
        sum + f64::from(self.costs.request.micro_batches - 1) * slowest
    }

    /// The partition whose every stage is best by a table.
    fn best_by(&self, worth: impl Fn(&Stage, usize) -> f64) -> Cut {
        let (mut state, mut layer) = (0, 0);
        let (mut sum, mut slowest) = (0.0, 0.0_f64);
        let mut stages = Vec::new();
        while layer < self.costs.layers {
            let mut best: Option<(f64, Stage)> = None;
            self.stages(state, layer, |stage| {
                let value = worth(&stage, self.at(stage.to, stage.range.end));
                if value.is_finite() && best.as_ref().is_none_or(|held| value < held.0) {
                    best = Some((value, stage));
                }
            });
            let Some((_, stage)) = best else { break };
            sum += stage.hops + stage.seconds;
            slowest = slowest.max(stage.seconds);
            (state, layer) = (stage.to, stage.range.end);
            stages.push((stage.device, stage.range));
        }
        Cut {
            stages,
            sum,
            slowest,
            objective: self.objective(sum, slowest),
        }
    }

    /// Of every prefix the pairs of sum and slowest stage that may still beat `limit`.
    fn fronts(&self, limit: f64, control: &Control) -> Result<Vec<Front<Prefix>>> {
        let limit = limit * (1.0 + SLACK);
        let mut fronts = vec![Front::new(); self.sums.len()];
        fronts[0].insert(Point {
            x: 0.0,
            y: 0.0,
            index: 0,
            item: Prefix {
                device: 0,
                state: 0,
                layer: 0,
                sum: 0.0,
                slowest: 0.0,
            },
        });
        for state in 0..self.places.states.len() {
            watched(control)?;
            for layer in 0..self.costs.layers {
                let from = self.at(state, layer);
                let held = std::mem::take(&mut fronts[from]);
                if held.points().is_empty() {
                    continue;
                }
                self.stages(state, layer, |stage| {
                    let to = self.at(stage.to, stage.range.end);
                    let longer = held.points().iter();
                    let longer = longer.map(|point| extended(point, (state, layer), &stage));
                    for point in longer {
                        let slowest = point.y.max(self.slowest[to]);
                        if self.objective(point.x + self.sums[to], slowest) <= limit {
                            fronts[to].insert(point);
                        }
                    }
                });
                fronts[from] = held;
            }
        }
        Ok(fronts)
    }

    /// The partition that a last prefix belongs to.
    fn partition_of(&self, fronts: &[Front<Prefix>], last: &Point<Prefix>) -> Cut {
        let mut stages = Vec::new();
        let (mut prefix, mut end) = (last.item, self.costs.layers);
        loop {
            stages.push((prefix.device, prefix.layer..end));
            if prefix.layer == 0 {
                break;
            }
            end = prefix.layer;
            let before = fronts[self.at(prefix.state, prefix.layer)].points();
            let same = |p: &&Point<Prefix>| {
                p.x.total_cmp(&prefix.sum).is_eq() && p.y.total_cmp(&prefix.slowest).is_eq()
            };
            let Some(point) = before.iter().find(same) else {
                break;
            };
            prefix = point.item;
        }
        stages.reverse();
        Cut {
            stages,
            sum: last.x,
            slowest: last.y,
            objective: self.objective(last.x, last.y),
        }
    }

    /// The longest prefix that any devices can hold, and how many stages hold it.
    pub(super) fn farthest(&self) -> (usize, usize) {
        let cells = self.sums.len();
        let mut reached = vec![false; cells];
        reached[0] = true;
        let mut farthest = (0, 0);
        for state in 0..self.places.states.len() {
            for layer in 0..=self.costs.layers {
                if !reached[self.at(state, layer)] {
                    continue;
                }
                if layer > farthest.0 {
                    farthest = (layer, state);
                }
                if layer < self.costs.layers {
                    self.stages(state, layer, |stage| {
                        reached[self.at(stage.to, stage.range.end)] = true;
                    });
                }
            }
        }
        farthest
    }
}

fn watched(control: &Control) -> Result<()> {
    if control.is_cancelled() {
        let what = "the partition was not finished".to_owned();
        return Err(Error::Cancelled { what });
    }
    Ok(())
}

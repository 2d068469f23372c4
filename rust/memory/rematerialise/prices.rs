//! What can no choice for the remaining blocks beat?

use super::chain::Chain;
use super::retention::RetentionChoice;
use super::transfers::{ChainState, Lanes};

/// Steps towards the best prices.
const STEPS: u32 = 240;
/// Steps that may better nothing before the next ones are made shorter.
const PATIENCE: u32 = 12;

/// Blocks, their choices, and the lanes.
pub(super) struct ChoiceField<'a> {
    pub(super) chain: &'a Chain<'a>,
    pub(super) lanes: Lanes,
    pub(super) choices: &'a [Vec<RetentionChoice>],
    /// Of each block, the most that may lie beside its passes when it runs, forward and back.
    rooms: Vec<[f64; 2]>,
}

/// Prices of a block's choice.
pub(super) struct Rates {
    /// Of a second forward and back.
    passes: [f64; 2],
    /// Of a byte that is held, and of one that moves.
    held: f64,
    moved: f64,
}

impl Rates {
    /// Price of a choice, the passes themselves left out.
    pub(super) fn of(&self, choice: &RetentionChoice) -> f64 {
        let again = self.passes[1] * choice.again;
        again + self.held * choice.held + self.moved * choice.moved
    }
}

impl<'a> ChoiceField<'a> {
    pub(super) fn new(
        chain: &'a Chain<'a>,
        lanes: Lanes,
        choices: &'a [Vec<RetentionChoice>],
    ) -> Self {
        let room = |of: &Vec<RetentionChoice>, need: fn(&RetentionChoice) -> f64| {
            lanes.budget - of.iter().map(need).fold(f64::INFINITY, f64::min)
        };
        let rooms = |of: &Vec<RetentionChoice>| [room(of, |c| c.forward), room(of, |c| c.backward)];
        Self {
            chain,
            lanes,
            choices,
            rooms: choices.iter().map(rooms).collect(),
        }
    }

    fn room(&self, l: usize) -> f64 {
        self.rooms[l][0].min(self.rooms[l][1])
    }

    /// After each block, the most that may be held if later blocks are to fit at all.
    pub(super) fn most_held(&self) -> Vec<f64> {
        let count = self.choices.len();
        let mut most = vec![f64::INFINITY; count];
        for l in (1..count).rev() {
            let least = self.choices[l].iter().map(|c| c.held);
            let least = least.fold(f64::INFINITY, f64::min);
            // sums in another order may differ in the last bits
            let slack = 1e-12 * self.lanes.budget;
            most[l - 1] = (self.room(l) + slack).min(most[l] - least);
        }
        most
    }

    /// The block whose room binds most where all is kept.
    pub(super) fn tightest(&self) -> usize {
        let (mut held, mut best) = (0.0, (f64::NEG_INFINITY, 0));
        for (l, block) in self.chain.blocks.iter().enumerate() {
            if held - self.room(l) >= best.0 {
                best = (held - self.room(l), l);
            }
            held += block.kept_bytes;
        }
        best.1
    }

    /// The choice of a block whose price is least, and that price.
    fn cheapest(&self, l: usize, rates: &Rates) -> (f64, &RetentionChoice) {
        let block = &self.chain.blocks[l];
        let passes = rates.passes[0] * block.forward_s + rates.passes[1] * block.backward_s;
        let mut best = (f64::INFINITY, &self.choices[l][0]);
        for choice in &self.choices[l] {
            let price = rates.of(choice);
            if price < best.0 {
                best = (price, choice);
            }
        }
        (best.0 + passes, best.1)
    }
}

/// Shares of a lower bound's parts; `held` in passes' seconds for all kept bytes.
#[derive(Debug, Clone, Copy)]
struct Weights {
    link: f64,
    write: f64,
    read: f64,
    held: f64,
}

impl Weights {
    /// Moves along a direction and back to where the parts are shares.
    fn along(self, direction: [f64; 4], step: f64) -> Self {
        let link = (self.link + step * direction[0]).clamp(0.0, 1.0);
        let within = |share: f64| share.clamp(0.0, 1.0 - link);
        Self {
            link,
            write: within(self.write + step * direction[1]),
            read: within(self.read + step * direction[2]),
            held: (self.held + step * direction[3]).max(0.0),
        }
    }
}

/// A lower bound from prices of memory, link and passes (Lagrange's relaxation; Geoffrion 1974).
///
/// Of the blocks in front of block `p`, `R` bytes are held and `M` moved; the passes take `F` seconds
/// forward and `G` back. When `p` runs, all but its room of `R + M` has left, or is not back yet, so
/// with `f_p..` for the passes from `p` on
///
/// ```text
/// forward  >= F,  (R + M - room_p) / write rate + f_p..
/// backward >= G,  (R + M - room'_p) / read rate + g_p..
/// step     >= forward + backward,  all moved bytes (1 / write rate + 1 / read rate)
/// R        <= room_p
/// ```
///
/// Any mean of these, with any price of the last, bounds the step; its least value over all choices
/// is found block by block. The weights are bettered by steps along the gradient (Polyak 1969).
#[derive(Debug, Clone)]
pub(super) struct Prices {
    weights: Weights,
    /// Price of a held byte, seconds.
    held: f64,
    at: usize,
    rooms: [f64; 2],
    lanes: Lanes,
    /// Least prices of the blocks from each one on.
    rest: Vec<f64>,
}

impl Prices {
    /// Good prices for a front after `done` blocks, with the memory in front of block `at`.
    /// `target`: what the bound may reach, as the best time known.
    pub(super) fn best(
        field: &ChoiceField,
        (front, done): (&ChainState, usize),
        at: usize,
        target: f64,
    ) -> Self {
        let mut prices = Self {
            weights: Weights {
                link: 0.0,
                write: 0.0,
                read: 0.0,
                held: 0.0,
            },
            held: 0.0,
            at,
            rooms: field.rooms[at],
            lanes: field.lanes,
            rest: vec![],
        };
        let bytes: f64 = field.chain.blocks.iter().map(|b| b.kept_bytes).sum();
        let scale = field.chain.compute() / bytes.max(f64::MIN_POSITIVE);
        let mut weights = prices.weights;
        let mut best = (f64::NEG_INFINITY, weights);
        let (mut reach, mut idle) = (1.0, 0);
        for _ in 0..STEPS {
            prices.set(weights, scale);
            let (value, slope) = prices.slope(field, front, done, scale);
            idle += 1;
            if value > best.0 {
                (best, idle) = ((value, weights), 0);
            } else if idle > PATIENCE {
                (reach, idle, weights) = (reach * 0.5, 0, best.1);
            }
            let square: f64 = slope.iter().map(|s| s * s).sum();
            let goal = if target.is_finite() {
                target
            } else {
                1.05 * best.0.abs()
            };
            if square <= 0.0 || goal <= value {
                break;
            }
            weights = weights.along(slope, reach * (goal - value) / square);
        }
        prices.set(best.1, scale);
        prices.rest = vec![0.0; field.choices.len() + 1];
        for l in (0..field.choices.len()).rev() {
            prices.rest[l] = prices.rest[l + 1] + field.cheapest(l, &prices.rates(l, 1.0)).0;
        }
        prices
    }

    fn set(&mut self, weights: Weights, scale: f64) {
        (self.weights, self.held) = (weights, weights.held * scale);
    }

    /// Prices of a block's choice, held bytes so many times as dear.
    pub(super) fn rates(&self, l: usize, dearer: f64) -> Rates {
        let Weights {
            link, write, read, ..
        } = self.weights;
        let moved = link * (self.lanes.write + self.lanes.read);
        if l >= self.at {
            return Rates {
                passes: [1.0 - link; 2],
                held: 0.0,
                moved,
            };
        }
        let lies = write * self.lanes.write + read * self.lanes.read;
        Rates {
            passes: [1.0 - link - write, 1.0 - link - read],
            held: self.held * dearer + lies,
            moved: moved + lies,
        }
    }

    /// What a front after `done` blocks adds, and how that changes with each weight.
    fn start(&self, front: &ChainState, done: usize) -> (f64, [f64; 4]) {
        let Weights {
            link, write, read, ..
        } = self.weights;
        let mut slope = [front.link() - front.passes, 0.0, 0.0, 0.0];
        let mut value = front.passes + link * slope[0];
        if done <= self.at {
            let late = |room: f64, rate: f64| (front.held - room) * rate;
            slope[1] = front.writes + late(self.rooms[0], self.lanes.write);
            slope[2] = front.reads + late(self.rooms[1], self.lanes.read);
            slope[3] = front.held - self.rooms[0].min(self.rooms[1]);
            value += write * slope[1] + read * slope[2] + self.held * slope[3];
        }
        (value, slope)
    }

    /// The bound, and how it changes with each weight.
    fn slope(
        &self,
        field: &ChoiceField,
        front: &ChainState,
        done: usize,
        scale: f64,
    ) -> (f64, [f64; 4]) {
        let (mut value, mut slope) = self.start(front, done);
        slope[3] *= scale;
        let rate = self.lanes.write + self.lanes.read;
        for l in done..field.choices.len() {
            let (price, choice) = field.cheapest(l, &self.rates(l, 1.0));
            let block = &field.chain.blocks[l];
            let back = block.backward_s + choice.again;
            value += price;
            slope[0] += choice.moved * rate - block.forward_s - back;
            if l < self.at {
                let lies = choice.held + choice.moved;
                slope[1] += lies * self.lanes.write - block.forward_s;
                slope[2] += lies * self.lanes.read - back;
                slope[3] += choice.held * scale;
            }
        }
        if self.lanes.write == 0.0 {
            slope[..3].fill(0.0);
        }
        (value, slope)
    }

    /// What no step can beat that goes on from a front after `done` blocks.
    pub(super) fn bound(&self, front: &ChainState, done: usize) -> f64 {
        self.start(front, done).0 + self.rest[done]
    }
}

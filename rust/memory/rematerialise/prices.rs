//! What can no choice for the remaining blocks beat?

use super::chain::Chain;
use super::retention::Choice;
use super::transfers::{Front, Lanes};

/// Points at which a price is tried, by halving an interval; enough for bounds that lose nothing.
const MEMORY_STEPS: u32 = 40;
const LINK_STEPS: u32 = 16;
/// The golden section.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Blocks, their choices, and the lanes.
pub(super) struct Field<'a> {
    pub(super) chain: &'a Chain<'a>,
    pub(super) lanes: Lanes,
    pub(super) choices: &'a [Vec<Choice>],
    /// Of each block, the most that earlier ones may hold when it runs.
    pub(super) rooms: Vec<f64>,
}

impl<'a> Field<'a> {
    pub(super) fn new(chain: &'a Chain<'a>, lanes: Lanes, choices: &'a [Vec<Choice>]) -> Self {
        let least = |of: &Vec<Choice>| {
            let needs = of.iter().map(|c| c.forward.max(c.backward));
            needs.fold(f64::INFINITY, f64::min)
        };
        Self {
            chain,
            lanes,
            choices,
            rooms: choices.iter().map(|of| lanes.budget - least(of)).collect(),
        }
    }

    /// After each block, the most that may be held if later blocks are to fit at all.
    pub(super) fn most_held(&self) -> Vec<f64> {
        let count = self.choices.len();
        let mut most = vec![f64::INFINITY; count];
        for l in (1..count).rev() {
            let least = self.choices[l].iter().map(|c| c.held);
            let least = least.fold(f64::INFINITY, f64::min);
            most[l - 1] = self.rooms[l].min(most[l] - least);
        }
        most
    }

    /// The block whose room binds most where all is kept.
    pub(super) fn tightest(&self) -> usize {
        let (mut held, mut best) = (0.0, (f64::NEG_INFINITY, 0));
        for (l, block) in self.chain.blocks.iter().enumerate() {
            if held - self.rooms[l] >= best.0 {
                best = (held - self.rooms[l], l);
            }
            held += block.kept_bytes;
        }
        best.1
    }

    /// A block's least price: seconds of the pass and the link by their weights, and held bytes.
    fn least(&self, l: usize, [link, memory]: [f64; 2], holds: bool) -> f64 {
        let rate = self.lanes.write + self.lanes.read;
        let passes = self.chain.blocks[l].passes();
        let of = |choice: &Choice| {
            let held = if holds { memory * choice.held } else { 0.0 };
            (1.0 - link) * (passes + choice.again) + link * choice.moved * rate + held
        };
        self.choices[l].iter().map(of).fold(f64::INFINITY, f64::min)
    }
}

/// A lower bound from prices of memory and link (Lagrange's relaxation; Geoffrion 1974).
///
/// With the passes `P`, the link's work `Q` and the bytes `R` of the blocks in front of block `p`,
/// every step takes `max(P, Q)` seconds or more and has `R <= room_p`. So for any share `v` from 0
/// to 1 and any price `u >= 0`, seconds a byte,
///
/// ```text
/// step >= (1 - v) P + v Q + u (R - room_p)
/// ```
///
/// whose least value is found block by block.
#[derive(Debug, Clone)]
pub(super) struct Prices {
    weights: [f64; 2],
    at: usize,
    room: f64,
    /// Least prices of the blocks from each one on.
    rest: Vec<f64>,
}

impl Prices {
    /// The best prices for a front after `done` blocks, with the memory in front of block `at`.
    pub(super) fn best(field: &Field, front: &Front, done: usize, at: usize) -> Self {
        let value = |prices: [f64; 2]| {
            let rest = (done..field.choices.len()).map(|l| field.least(l, prices, l < at));
            let held = if done <= at {
                front.held - field.rooms[at]
            } else {
                0.0
            };
            price(front, prices, held) + rest.sum::<f64>()
        };
        let links = if field.lanes.write > 0.0 {
            LINK_STEPS
        } else {
            0
        };
        let along = |log: f64| {
            let memory = log.exp();
            golden(links, [0.0, 1.0], |link| value([link, memory]))
        };
        let bytes: f64 = field.chain.blocks.iter().map(|b| b.kept_bytes).sum();
        let usual = (field.chain.compute().max(f64::MIN_POSITIVE) / bytes.max(1.0)).ln();
        let (log, (link, _)) = {
            let (log, _) = golden(MEMORY_STEPS, [usual - 12.0, usual + 9.0], |log| {
                along(log).1
            });
            (log, along(log))
        };
        // where memory does not bind its price is nothing
        let (free, without) = golden(links, [0.0, 1.0], |link| value([link, 0.0]));
        let prices = if value([link, log.exp()]) > without {
            [link, log.exp()]
        } else {
            [free, 0.0]
        };
        Self::new(field, prices, at)
    }

    fn new(field: &Field, prices: [f64; 2], at: usize) -> Self {
        let count = field.choices.len();
        let mut rest = vec![0.0; count + 1];
        for l in (0..count).rev() {
            rest[l] = rest[l + 1] + field.least(l, prices, l < at);
        }
        Self {
            weights: prices,
            at,
            room: field.rooms[at],
            rest,
        }
    }

    /// What no step can beat that goes on from a front after `done` blocks.
    pub(super) fn bound(&self, front: &Front, done: usize) -> f64 {
        let held = if done <= self.at {
            front.held - self.room
        } else {
            0.0
        };
        price(front, self.weights, held) + self.rest[done]
    }
}

fn price(front: &Front, [link, memory]: [f64; 2], held: f64) -> f64 {
    (1.0 - link) * front.passes + link * front.link() + memory * held
}

/// Where a function of one peak has it, and how high it is there (Kiefer 1953).
fn golden(steps: u32, [mut low, mut high]: [f64; 2], of: impl Fn(f64) -> f64) -> (f64, f64) {
    if steps == 0 {
        return (low, of(low));
    }
    let inner = |low: f64, high: f64| [high - GOLDEN * (high - low), low + GOLDEN * (high - low)];
    let [mut left, mut right] = inner(low, high);
    let (mut at_left, mut at_right) = (of(left), of(right));
    for _ in 0..steps {
        if at_left < at_right {
            low = left;
            (left, at_left) = (right, at_right);
            right = inner(low, high)[1];
            at_right = of(right);
        } else {
            high = right;
            (right, at_right) = (left, at_left);
            left = inner(low, high)[0];
            at_left = of(left);
        }
    }
    if at_left > at_right {
        (left, at_left)
    } else {
        (right, at_right)
    }
}

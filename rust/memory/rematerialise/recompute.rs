//! Which schedule of a chain that only computes again takes the least time in a budget?

use super::chain::Chain;
use super::sequence::{SplitSource, SplitStep};
use crate::control::Control;
use crate::error::{Error, Result};

/// Slack of rounding to slots, so that whole multiples of a slot stay such.
const SLACK: f64 = 1e-12;
/// Slots that are weighed one by one.
const STRETCH: usize = 24;

/// How bytes become slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    /// Up: what fits in slots fits in bytes.
    Up,
    /// Down: what fits in bytes fits in slots.
    Down,
}

/// Least time by first block, last block and slots.
///
/// With `m` slots beside the input of block `s`, and the gradient behind block `t` among them, the
/// blocks `s..=t` go forward and come back in
///
/// ```text
/// C(s, s, m) = f_s + b_s
/// C(s, t, m) = min of
///     f_s + C(s+1, t, m - e_s - x_(s+1)) + b_s                        all of s is kept
///     f_s + C(s+1, t, m - e'_s - x_(s+1)) + b_s + r_s                 part of s is kept
///     f_s + .. + f_(u-1) + C(u, t, m - x_u) + C(s, u-1, m), s < u <= t   the input of u is kept
/// ```
///
/// seconds where the passes fit, infinite where not (Beaumont et al. 2019, Optimal checkpointing for
/// heterogeneous chains: the best of all schedules that keep a tensor, once they keep it, until its
/// backward pass has run; Griewank and Walther 2000 for like blocks). `O(L^3 slots)`.
pub(super) struct Table<'a> {
    chain: &'a Chain<'a>,
    slots: usize,
    unit: f64,
    rounding: Rounding,
    /// Rows of `slots + 1`, by last block, then first block.
    times: Vec<f64>,
    /// From how many slots on each row is finite.
    begins: Vec<usize>,
    /// Slots of each block's input, the chain's output behind them.
    inputs: Vec<usize>,
    /// Of each block, what stays behind a forward pass that keeps all, or part, its output included.
    stays: Vec<[Option<usize>; 2]>,
}

/// What the blocks in front of one that ends a chain need, in slots.
struct Needs {
    /// A forward pass that keeps nothing, as first block and as later one.
    passing: Vec<[usize; 2]>,
    /// Forward pass that keeps all, or part, of a first block.
    keeping: Vec<[usize; 2]>,
    /// Backward pass of a first block, without and with a forward pass again.
    back: Vec<[usize; 2]>,
}

impl<'a> Table<'a> {
    /// Fills the table for a budget of bytes.
    pub(super) fn new(
        chain: &'a Chain<'a>,
        (budget, slots): (f64, usize),
        rounding: Rounding,
        control: &Control,
    ) -> Result<Self> {
        let count = chain.blocks.len();
        let mut table = Self {
            chain,
            slots,
            unit: (budget - chain.inputs[0]).max(0.0) / slots as f64,
            rounding,
            times: vec![f64::INFINITY; count * (count + 1) / 2 * (slots + 1)],
            begins: vec![0; count * (count + 1) / 2],
            inputs: vec![],
            stays: vec![],
        };
        table.inputs = chain.inputs.iter().map(|x| table.round(*x)).collect();
        table.stays = (0..count)
            .map(|l| {
                let output = chain.inputs[l + 1];
                let part = chain.kept_part(l).map(|part| table.round(part + output));
                [Some(table.round(chain.kept_beside_input(l) + output)), part]
            })
            .collect();
        let mut best = vec![f64::INFINITY; slots + 1];
        for last in 0..count {
            if control.is_cancelled() {
                let what = format!("{last} of {count} blocks are in the table");
                return Err(Error::Cancelled { what });
            }
            let needs = table.needs(last);
            for first in (0..=last).rev() {
                table.fill(first, last, &needs, &mut best);
            }
        }
        Ok(table)
    }

    /// Least seconds of the whole chain; infinite where it does not fit.
    pub(super) fn best(&self) -> f64 {
        self.row(0, self.chain.blocks.len() - 1)[self.slots]
    }

    /// Slots of some bytes; one more than there are where they do not fit.
    fn round(&self, bytes: f64) -> usize {
        if self.unit == 0.0 {
            return if bytes > 0.0 { self.slots + 1 } else { 0 };
        }
        let holds = |slots: usize| slots as f64 * self.unit;
        let (mut low, mut high) = (0, self.slots + 1);
        // the least number of slots that is not too small
        while low < high {
            let middle = usize::midpoint(low, high);
            let small = match self.rounding {
                Rounding::Up => holds(middle) * (1.0 + SLACK) < bytes,
                Rounding::Down => holds(middle + 1) <= bytes * (1.0 + SLACK),
            };
            if small {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn row(&self, first: usize, last: usize) -> &[f64] {
        &self.times[index(first, last) * (self.slots + 1)..][..=self.slots]
    }

    fn set(&mut self, first: usize, last: usize, times: &[f64]) {
        let begin = index(first, last) * times.len();
        self.times[begin..begin + times.len()].copy_from_slice(times);
        self.begins[index(first, last)] = times.partition_point(|time| time.is_infinite());
    }

    fn needs(&self, last: usize) -> Needs {
        let chain = self.chain;
        let gradient = chain.inputs[last + 1];
        let working = |l: usize| gradient + chain.forward(l, 0.0);
        let keeping = |l: usize, kept: f64| self.round(gradient + chain.forward(l, kept));
        Needs {
            passing: (0..last)
                .map(|l| [working(l), working(l) + chain.inputs[l]].map(|b| self.round(b)))
                .collect(),
            keeping: (0..=last)
                .map(|l| {
                    let part = chain.kept_part(l).unwrap_or(0.0);
                    [keeping(l, chain.kept_beside_input(l)), keeping(l, part)]
                })
                .collect(),
            back: (0..=last)
                .map(|l| {
                    let back = chain.backward(l);
                    [back, back.max(chain.rerun_bytes(l))].map(|b| self.round(b))
                })
                .collect(),
        }
    }

    /// What keeping all (0) or part (1) of the first block adds to the rest, from how many slots on.
    fn kept(&self, first: usize, part: usize, needs: &Needs) -> Option<(f64, usize)> {
        self.stays[first][part]?;
        let block = &self.chain.blocks[first];
        let again = block.partial.filter(|_| part == 1);
        let least = needs.keeping[first][part].max(needs.back[first][part]);
        Some((block.passes() + again.map_or(0.0, |p| p.again_s), least))
    }

    /// Computes a row in `best`, which holds as many times as a row.
    fn fill(&mut self, first: usize, last: usize, needs: &Needs, best: &mut [f64]) {
        let width = best.len();
        best.fill(f64::INFINITY);
        if first == last {
            if let Some((time, least)) = self.kept(first, 0, needs) {
                best[least.min(width)..].fill(time);
            }
            self.set(first, last, best);
            return;
        }
        for part in 0..2 {
            if let Some((time, least)) = self.kept(first, part, needs)
                && let Some(stays) = self.stays[first][part]
                && least < width
            {
                let behind = &self.row(first + 1, last)[least - stays..];
                for (best, behind) in best[least..].iter_mut().zip(behind) {
                    *best = best.min(time + behind);
                }
            }
        }
        self.split(first, last, needs, best);
        self.set(first, last, best);
    }

    /// Weighs every later block whose input may be kept alone.
    fn split(&self, first: usize, last: usize, needs: &Needs, best: &mut [f64]) {
        let (mut passed, mut least) = (0.0, 0);
        for from in first + 1..=last {
            let front = from - 1;
            if !self.chain.blocks[front].repeats {
                return;
            }
            passed += self.chain.blocks[front].forward_s;
            least = least.max(needs.passing[front][usize::from(front > first)]);
            let input = self.inputs[from];
            let start = least
                .max(input + self.begins[index(from, last)])
                .max(self.begins[index(first, front)]);
            if start > self.slots {
                continue;
            }
            let (behind, before) = (self.row(from, last), self.row(first, front));
            let behind = &behind[start - input..=self.slots - input];
            better(&mut best[start..], behind, &before[start..], passed);
        }
    }
}

/// Which row holds the blocks `first..=last`.
fn index(first: usize, last: usize) -> usize {
    last * (last + 1) / 2 + first
}

/// Lowers each time to the sum of two others and `passed`, where that is less. All fall with slots,
/// so a stretch whose last sum is no less than its first time has none that is.
fn better(best: &mut [f64], behind: &[f64], before: &[f64], passed: f64) {
    let (Some(&slowest), [.., behind_end], [.., before_end]) = (best.first(), behind, before)
    else {
        return;
    };
    if passed + behind_end + before_end >= slowest {
        return;
    }
    if best.len() > STRETCH {
        let half = best.len() / 2;
        let (low, high) = best.split_at_mut(half);
        better(low, &behind[..half], &before[..half], passed);
        better(high, &behind[half..], &before[half..], passed);
        return;
    }
    for (best, (behind, before)) in best.iter_mut().zip(behind.iter().zip(before)) {
        let time = passed + behind + before;
        *best = if time < *best { time } else { *best };
    }
}

impl SplitSource for Table<'_> {
    type Room = usize;

    fn whole(&self) -> usize {
        self.slots
    }

    /// The choice whose time is least: the entry was the least of the same sums.
    fn choose(&self, first: usize, last: usize, slots: usize) -> SplitStep<usize> {
        let needs = self.needs(last);
        let (mut best, mut step) = (f64::INFINITY, SplitStep::All(0));
        for part in 0..2 {
            if let Some((time, least)) = self.kept(first, part, &needs)
                && let Some(stays) = self.stays[first][part]
                && least <= slots
                && first < last
            {
                let time = time + self.row(first + 1, last)[slots - stays];
                if time < best {
                    best = time;
                    step = [SplitStep::All, SplitStep::Part][part](slots - stays);
                }
            }
        }
        let (mut passed, mut least) = (0.0, 0);
        for from in first + 1..=last {
            let front = from - 1;
            if !self.chain.blocks[front].repeats {
                break;
            }
            passed += self.chain.blocks[front].forward_s;
            least = least.max(needs.passing[front][usize::from(front > first)]);
            let input = self.inputs[from];
            if least.max(input) <= slots {
                let behind = self.row(from, last)[slots - input];
                let time = passed + behind + self.row(first, front)[slots];
                if time < best {
                    best = time;
                    step = SplitStep::Split(from, slots - input);
                }
            }
        }
        step
    }
}

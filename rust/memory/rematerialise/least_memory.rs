//! What is the least memory in which a chain can be run at all, if it only computes again?

use super::chain::Chain;
use super::sequence::{SplitSource, SplitStep};

/// The schedule that needs least memory, and of those one that takes little time.
///
/// The recurrence of `Table` with bytes for the value: `O(L^3)`, without rounding.
pub(super) struct LeastMemorySchedule {
    count: usize,
    /// Bytes beside the first block's input, and seconds, by first and last block.
    needs: Vec<(f64, f64)>,
    /// What the first block does: 0 keeps all, 1 keeps part, else the block whose input is kept.
    choices: Vec<usize>,
}

impl LeastMemorySchedule {
    pub(super) fn new(chain: &Chain) -> Self {
        let count = chain.blocks.len();
        let mut least = Self {
            count,
            needs: vec![(0.0, 0.0); count * count],
            choices: vec![0; count * count],
        };
        for last in 0..count {
            for first in (0..=last).rev() {
                let (need, choice) = least.best(chain, first, last);
                least.needs[first * count + last] = need;
                least.choices[first * count + last] = choice;
            }
        }
        least
    }

    /// Bytes of the whole chain.
    pub(super) fn bytes(&self, chain: &Chain) -> f64 {
        chain.inputs[0] + self.needs[self.count - 1].0
    }

    fn best(&self, chain: &Chain, first: usize, last: usize) -> ((f64, f64), usize) {
        let block = &chain.blocks[first];
        let gradient = chain.inputs[last + 1];
        let (all, back) = (chain.kept_beside_input(first), chain.backward(first));
        let keeping = gradient + chain.forward(first, all);
        if first == last {
            return ((keeping.max(back), block.passes()), 0);
        }
        let (bytes, time) = self.needs[(first + 1) * self.count + last];
        let output = chain.inputs[first + 1];
        let behind = all + output + bytes;
        let whole = keeping.max(back).max(behind);
        let mut best = ((whole, block.passes() + time), 0);
        let mut weigh = |need: (f64, f64), choice: usize| {
            if need < best.0 {
                best = (need, choice);
            }
        };
        if let (Some(part), Some(partial)) = (chain.kept_part(first), block.partial) {
            let keeping = gradient + chain.forward(first, part);
            let back = back.max(chain.rerun_bytes(first));
            let bytes = keeping.max(back).max(part + output + bytes);
            weigh((bytes, block.passes() + partial.again_s + time), 1);
        }
        let (mut passed, mut passing) = (0.0, 0.0_f64);
        for from in first + 1..=last {
            let front = from - 1;
            if !chain.blocks[front].repeats {
                break;
            }
            passed += chain.blocks[front].forward_s;
            let input = if front > first {
                chain.inputs[front]
            } else {
                0.0
            };
            passing = passing.max(gradient + chain.forward(front, 0.0) + input);
            let behind = self.needs[from * self.count + last];
            let before = self.needs[first * self.count + front];
            let bytes = passing.max(chain.inputs[from] + behind.0).max(before.0);
            weigh((bytes, passed + behind.1 + before.1), from + 1);
        }
        best
    }
}

impl SplitSource for LeastMemorySchedule {
    type Room = ();

    fn whole(&self) {}

    fn choose(&self, first: usize, last: usize, (): ()) -> SplitStep<()> {
        match self.choices[first * self.count + last] {
            0 => SplitStep::All(()),
            1 => SplitStep::Part(()),
            next => SplitStep::Split(next - 1, ()),
        }
    }
}

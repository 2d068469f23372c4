//! In which order do the passes of a recomputed chain run, and what do they hold at most?

use super::chain::Chain;
use serde::Serialize;

/// What the first block of a part of the chain does.
#[derive(Debug, Clone, Copy)]
pub(super) enum SplitStep<R> {
    /// It keeps all; the rest has this much room.
    All(R),
    /// It keeps part.
    Part(R),
    /// Only inputs are kept: its own and that of a later block, from which the rest goes on with
    /// this much room.
    Split(usize, R),
}

/// Where choices come from.
pub(super) trait SplitSource {
    /// How room is measured.
    type Room: Copy;
    /// Room of the whole chain.
    fn whole(&self) -> Self::Room;
    /// The choice for blocks `first..=last`, more than one, in some room.
    fn choose(&self, first: usize, last: usize, room: Self::Room) -> SplitStep<Self::Room>;
}

/// One pass of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// Forward; its input is dropped.
    Forward,
    /// Forward; its input stays.
    ForwardKeepInput,
    /// Forward; all stays that its backward pass reads.
    ForwardKeepAll,
    /// Forward; part of that stays.
    ForwardKeepPart,
    /// Backward.
    Backward,
}

/// A pass and its block, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// What runs.
    pub pass: Pass,
    /// Of which block.
    pub block: usize,
}

/// A part of the work that is still to be laid out.
enum OpenPart<R> {
    Chain(usize, usize, R),
    Back(usize),
}

/// The passes in order.
pub(super) fn operations<C: SplitSource>(chain: &Chain, choices: &C) -> Vec<Operation> {
    let mut order = Vec::new();
    let mut open = vec![OpenPart::Chain(0, chain.blocks.len() - 1, choices.whole())];
    let add = |order: &mut Vec<Operation>, pass, block| order.push(Operation { pass, block });
    while let Some(next) = open.pop() {
        let (first, last, room) = match next {
            OpenPart::Back(block) => {
                add(&mut order, Pass::Backward, block);
                continue;
            }
            OpenPart::Chain(first, last, room) => (first, last, room),
        };
        if first == last {
            add(&mut order, Pass::ForwardKeepAll, first);
            add(&mut order, Pass::Backward, first);
            continue;
        }
        let (pass, behind) = match choices.choose(first, last, room) {
            SplitStep::All(behind) => (Pass::ForwardKeepAll, behind),
            SplitStep::Part(behind) => (Pass::ForwardKeepPart, behind),
            SplitStep::Split(from, behind) => {
                add(&mut order, Pass::ForwardKeepInput, first);
                for block in first + 1..from {
                    add(&mut order, Pass::Forward, block);
                }
                open.push(OpenPart::Chain(first, from - 1, room));
                open.push(OpenPart::Chain(from, last, behind));
                continue;
            }
        };
        add(&mut order, pass, first);
        open.push(OpenPart::Back(first));
        open.push(OpenPart::Chain(first + 1, last, behind));
    }
    order
}

/// Seconds of an order, and the most bytes that it holds.
pub(super) fn time_and_peak(chain: &Chain, order: &[Operation]) -> (f64, f64) {
    let count = chain.blocks.len();
    // beside inputs that stay: what each block keeps, and the gradient that has come so far
    let mut kept = vec![0.0; count];
    let mut part = vec![false; count];
    let (mut inputs, mut gradient) = (vec![false; count], count);
    inputs[0] = true;
    let (mut time, mut peak) = (0.0, 0.0_f64);
    for &Operation { pass, block: l } in order {
        let block = &chain.blocks[l];
        let held: f64 = kept.iter().sum::<f64>()
            + (0..count)
                .filter(|&i| inputs[i])
                .map(|i| chain.inputs[i])
                .sum::<f64>();
        let back = chain.inputs[gradient];
        if pass == Pass::Backward {
            // kept tensors and the gradient behind it are in both terms
            let need = chain.backward(l) - kept[l] - back;
            let again = if part[l] {
                chain.rerun_bytes(l) - kept[l] - back
            } else {
                0.0
            };
            peak = peak.max(held + back + need.max(again));
            let again = block.partial.filter(|_| part[l]);
            time += block.backward_s + again.map_or(0.0, |p| p.again_s);
            (kept[l], part[l], inputs[l], gradient) = (0.0, false, false, l);
            continue;
        }
        let stays = match pass {
            Pass::ForwardKeepAll => chain.kept_beside_input(l),
            Pass::ForwardKeepPart => chain.kept_part(l).unwrap_or(0.0),
            _ => 0.0,
        };
        peak = peak.max(held + back + chain.forward(l, stays));
        time += block.forward_s;
        kept[l] = stays;
        part[l] = pass == Pass::ForwardKeepPart;
        inputs[l] = pass != Pass::Forward;
        // the output is the input of the next block, unless its gradient is there already
        if l + 1 < gradient && l + 1 < count {
            inputs[l + 1] = true;
        }
    }
    (time, peak)
}

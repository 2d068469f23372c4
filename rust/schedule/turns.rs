//! How do devices with one chunk each take turns: forwards ahead of backwards, weight gradients behind?

use super::bound::StageTimes;
use super::operation::{Operation, Work};
use super::pipeline::{Pipeline, Sends};

/// How far the three passes of one micro-batch lie apart on a device, in turns.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassOffsets {
    /// Forwards before the first turn of one forward and one backward.
    pub(super) warm_up: u32,
    /// Turns by which gradients of weights come after those of inputs.
    pub(super) lag: u32,
}

impl PassOffsets {
    /// Warm-up; turns of a forward, gradients of inputs and, `lag` turns later, those of weights;
    /// then what is left.
    pub(super) fn order(self, device: u32, micro_batches: u32, order: &mut Vec<Operation>) {
        let one = |work, m| Operation::new(work, device, m);
        let warm_up = self.warm_up.min(micro_batches);
        order.extend((0..warm_up).map(|m| one(Work::Forward, m)));
        for m in 0..micro_batches {
            let ahead = m.saturating_add(warm_up);
            if ahead < micro_batches {
                order.push(one(Work::Forward, ahead));
            }
            order.push(one(Work::Input, m));
            if let Some(behind) = m.checked_sub(self.lag) {
                order.push(one(Work::Weight, behind));
            }
        }
        let left = micro_batches.saturating_sub(self.lag);
        order.extend((left..micro_batches).map(|m| one(Work::Weight, m)));
    }

    /// `min(w + l + 1, m)`: activations are held until the gradients of weights are there.
    pub(super) fn in_flight(self, micro_batches: u32) -> u32 {
        let behind = self.warm_up.saturating_add(self.lag);
        behind.saturating_add(1).min(micro_batches)
    }
}

/// Which passes wait for which, where devices take turns.
///
/// ```text
/// A_s = max( sum_(r<s) d_r + (w_s + 1) F_s,  A_(s+1) + u_(s+1) )
/// Z_s = max( A_s + (m - w_s - 1) F_s + m B_s + (m - l_s - 1) W_s,  Z_(s+1) + hop_s + B_s )
/// T >= max over s of  Z_s + (l_s + 1) W_s
/// ```
///
/// Seconds. A: start of the first backward; Z: end of the last; d, u: a forward and a backward with
/// the hop behind and before it; F, B, W: passes of stage s; w, l: its warm-up and lag, w + 1 and
/// l + 1 at most m, the micro-batches. Where backward passes are whole, W is part of B.
/// Derivation: longest paths of the precedence graph that go down once and come up once.
pub(super) fn bound(
    pipeline: &Pipeline<'_>,
    micro_batches: u32,
    split: bool,
    turns: impl Fn(u32) -> PassOffsets,
) -> f64 {
    if micro_batches == 0 {
        return 0.0;
    }
    let count = pipeline.shape.stages;
    let line = StageTimes::new(count, pipeline, micro_batches);
    let (total, least) = pipeline.lengths(micro_batches);
    let most = pipeline.longest(micro_batches);
    let all = f64::from(micro_batches);
    let mut fill: f64 = (0..count).map(|stage| line.down(stage)).sum();
    let (mut first, mut last, mut longest) = (0.0_f64, 0.0_f64, 0.0_f64);
    for stage in (0..count).rev() {
        fill -= line.down(stage);
        let pass = line.pass(stage);
        let (forward, mut backward, mut weight) = (
            pass.forward.value(),
            pass.backward.value(),
            pass.weight.value(),
        );
        let PassOffsets { warm_up, lag } = turns(stage);
        let ahead = f64::from(warm_up.saturating_add(1).min(micro_batches));
        let behind = f64::from(lag.saturating_add(1).min(micro_batches));
        if !split {
            backward += std::mem::take(&mut weight);
        }
        let (sent, sent_back) = (line.sent(stage), line.sent_back(stage));
        first = first.max(fill + ahead * (forward * least.forward + sent));
        let forwards = forward * (total.forward - ahead * most.forward).max(0.0);
        let weights = weight * (total.backward - behind * most.backward).max(0.0);
        let sends = sent * (all - ahead) + sent_back * all;
        let one = backward * least.backward + sent_back;
        last = (last + one).max(first + forwards + backward * total.backward + weights + sends);
        longest = longest
            .max(last + behind * weight * least.backward)
            .max(fill + line.work(stage, micro_batches));
        // a blocking send is over when its backward is
        let hop = match (pipeline.sends, stage.checked_sub(1)) {
            (Sends::Asynchronous, Some(border)) => line.hop(border),
            _ => 0.0,
        };
        first += one + hop;
        last += hop;
    }
    longest
}

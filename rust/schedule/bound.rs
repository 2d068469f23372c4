//! Which times can no order of operations beat?

use super::pipeline::{Pipeline, Sends, Size};
use super::stages::Pass;

/// Stages along the model with sends taken into account.
pub(super) struct StageTimes<'p, 'a> {
    pipeline: &'p Pipeline<'a>,
    count: u32,
    total: Size,
    least: Size,
    /// Border between two stages on one device, if there is one.
    fold: Option<u32>,
}

impl<'p, 'a> StageTimes<'p, 'a> {
    /// `count` virtual stages, device by device, chunk after chunk.
    pub(super) fn new(count: u32, pipeline: &'p Pipeline<'a>, micro_batches: u32) -> Self {
        let (total, least) = pipeline.lengths(micro_batches);
        Self {
            pipeline,
            count,
            total,
            least,
            fold: None,
        }
    }

    /// Two chunks per device that go down the devices and come back.
    pub(super) fn down_and_back(pipeline: &'p Pipeline<'a>, micro_batches: u32) -> Self {
        let stages = pipeline.shape.stages;
        Self {
            fold: stages.checked_sub(1),
            ..Self::new(stages.saturating_mul(2), pipeline, micro_batches)
        }
    }

    pub(super) fn pass(&self, stage: u32) -> Pass {
        self.pipeline.pass(stage, self.count)
    }

    /// Seconds between a stage and the next; nothing on one and the same device.
    pub(super) fn hop(&self, border: u32) -> f64 {
        let away = self.pipeline.shape.stages > 1 && self.fold != Some(border);
        if away && border + 1 < self.count {
            self.pipeline.hop(border)
        } else {
            0.0
        }
    }

    /// What the senders of a stage's outputs wait for each micro-batch: forward and backward.
    fn sender_wait(&self, stage: u32) -> f64 {
        self.sent(stage) + self.sent_back(stage)
    }

    /// Seconds that a blocking send of one activation holds a stage's device.
    pub(super) fn sent(&self, stage: u32) -> f64 {
        match self.pipeline.sends {
            Sends::Asynchronous => 0.0,
            Sends::Blocking => self.hop(stage),
        }
    }

    /// Seconds that a blocking send of one gradient holds a stage's device.
    pub(super) fn sent_back(&self, stage: u32) -> f64 {
        match self.pipeline.sends {
            Sends::Asynchronous => 0.0,
            Sends::Blocking => stage.checked_sub(1).map_or(0.0, |border| self.hop(border)),
        }
    }

    /// Seconds that a stage's device is taken by all micro-batches.
    pub(super) fn work(&self, stage: u32, micro_batches: u32) -> f64 {
        let share = Share {
            total: self.total,
            count: micro_batches,
        };
        self.work_of(stage, share)
    }

    /// Seconds that a copy of a stage takes its device for its share of the micro-batches.
    pub(super) fn work_of(&self, stage: u32, share: Share) -> f64 {
        let pass = self.pass(stage);
        pass.forward.value() * share.total.forward
            + pass.whole() * share.total.backward
            + self.sender_wait(stage) * f64::from(share.count)
    }

    /// A forward pass of the shortest micro-batch and the hop behind it.
    pub(super) fn down(&self, stage: u32) -> f64 {
        self.pass(stage).forward.value() * self.least.forward + self.hop(stage)
    }

    /// A whole backward pass of the shortest micro-batch and the hop before it.
    pub(super) fn up(&self, stage: u32) -> f64 {
        self.pass(stage).whole() * self.least.backward + self.hop(stage)
    }
}

/// The micro-batches that one of several copies of the model runs.
#[derive(Clone, Copy)]
pub(super) struct Share {
    /// Their lengths together.
    pub(super) total: Size,
    /// How many.
    pub(super) count: u32,
}

/// Shares of all copies of the model.
pub(super) struct Shares {
    micro_batches: u32,
    copies: u32,
    span: u32,
    /// One per copy where micro-batches are not alike.
    unlike: Vec<Share>,
}

impl Shares {
    /// Runs of `span` micro-batches are dealt to the copies in turn.
    pub(super) fn new(pipeline: &Pipeline<'_>, micro_batches: u32, copies: u32, span: u32) -> Self {
        let mut shares = Self {
            micro_batches,
            copies: copies.max(1),
            span: span.max(1),
            unlike: Vec::new(),
        };
        if pipeline.sizes.is_empty() {
            return shares;
        }
        let mut unlike: Vec<Share> = (0..shares.copies).map(|_| Share::of_alike(0)).collect();
        for micro_batch in 0..micro_batches {
            let copy = micro_batch / shares.span % shares.copies;
            let (share, size) = (&mut unlike[copy as usize], pipeline.size(micro_batch));
            share.total.forward += size.forward;
            share.total.backward += size.backward;
            share.count += 1;
        }
        shares.unlike = unlike;
        shares
    }

    /// The share of one copy.
    pub(super) fn of(&self, copy: u32) -> Share {
        if let Some(share) = self.unlike.get(copy as usize) {
            return *share;
        }
        let runs = self.micro_batches / self.span;
        Share::of_alike((runs + self.copies - 1).saturating_sub(copy) / self.copies * self.span)
    }
}

impl Share {
    fn of_alike(count: u32) -> Self {
        let all = f64::from(count);
        let total = Size {
            forward: all,
            backward: all,
        };
        Self { total, count }
    }
}

/// For orders that do not split the backward pass, chunks dealt in rounds.
///
/// ```text
/// T >= max over devices d of  sum_(s<d) u_s + sum_(s on d) m w_s
/// T >= max over stages s of   sum_(r<s) u_r + m w_s
/// ```
///
/// Seconds; w: forward and backward pass, u: the same with the hops behind and before them, m:
/// micro-batches. A device starts when the first micro-batch has come down to it, runs all passes of
/// its stages, and after its last one that micro-batch goes up from it.
pub(super) fn whole_backward_bound(count: u32, pipeline: &Pipeline<'_>, micro_batches: u32) -> f64 {
    if micro_batches == 0 {
        return 0.0;
    }
    let line = StageTimes::new(count, pipeline, micro_batches);
    let stages = pipeline.shape.stages.max(1);
    let (mut outside, mut longest) = (0.0, 0.0_f64);
    for stage in 0..count {
        // the last gradient's way back is counted with what comes after this stage
        let mut work = line.work(stage, micro_batches) - line.sent_back(stage);
        if stage < stages {
            let rest = (stage + stages..count).step_by(stages as usize);
            work += rest.map(|s| line.work(s, micro_batches)).sum::<f64>();
        }
        longest = longest.max(outside + work);
        outside += line.down(stage) + line.up(stage);
    }
    longest
}

//! When does a ZB-V step end: two chunks per device, laid out as a V (Qi et al. 2023)?

use super::bound::StageTimes;
use super::operation::{Operation, Work};
use super::pipeline::Pipeline;
use super::rule::ScheduleRule;
use super::stages::{Makespan, PipelineShape};
use crate::error::{Error, Result};

/// Zero bubble within the activations of 1F1B: the model goes down the devices and comes back.
///
/// Where F, B and W of a chunk are alike and there are `2 p - 1` micro-batches or more, no device
/// idles between its first and last operation (Qi et al. 2023, section on ZB-V).
pub(super) struct ZeroBubbleV;

/// The order of one device while it is written down.
struct Writer<'a> {
    order: &'a mut Vec<Operation>,
    /// Virtual stages of the two chunks.
    stages: [u32; 2],
    micro_batches: u32,
    /// Passes written so far by kind and chunk.
    written: [[u32; 2]; 3],
}

impl Writer<'_> {
    /// Writes the chunk's next pass of each kind, as long as micro-batches are left.
    fn run(&mut self, chunk: usize, works: &[Work]) {
        for &work in works {
            let lane = work.lane();
            let inputs = self.written[Work::Input.lane()][chunk];
            let left = match work {
                Work::Weight => inputs,
                _ => self.micro_batches,
            };
            let next = self.written[lane][chunk];
            if next < left {
                self.order
                    .push(Operation::new(work, self.stages[chunk], next));
                self.written[lane][chunk] += 1;
            }
        }
    }

    /// True while forwards of either chunk are left.
    fn forwards_left(&self) -> bool {
        self.written[Work::Forward.lane()]
            .iter()
            .any(|written| *written < self.micro_batches)
    }
}

impl ScheduleRule for ZeroBubbleV {
    fn name(&self) -> &'static str {
        "zb-v"
    }

    fn source(&self) -> &'static str {
        "Qi et al. 2023 (Zero Bubble Pipeline Parallelism), section on ZB-V; Qi et al. 2024 \
         (Pipeline Parallelism with Controllable Memory)"
    }

    fn chunks(&self) -> u32 {
        2
    }

    fn check(&self, shape: PipelineShape, _micro_batches: u32) -> Result<()> {
        if shape.chunks == 2 {
            return Ok(());
        }
        let allowed = "2: the schedule zb-v lays two model chunks per device out as a V";
        Err(Error::invalid("chunks", shape.chunks, allowed))
    }

    fn splits(&self) -> bool {
        true
    }

    fn bypasses(&self) -> bool {
        true
    }

    /// The first device holds both ends of the model.
    fn held(&self, shape: PipelineShape, device: u32) -> [u32; 3] {
        match (device, shape.stages) {
            (0, _) => [1, 0, 1],
            _ => [0, 2, 0],
        }
    }

    /// Down the devices and back: the last device holds the two middle chunks.
    fn device(&self, shape: PipelineShape, stage: u32, _micro_batch: u32) -> u32 {
        if stage < shape.stages {
            stage
        } else {
            (2 * shape.stages - 1).saturating_sub(stage)
        }
    }

    /// Device `i` of `p`: forwards of its first chunk until the first micro-batch is back from the
    /// turn, `2 (p - i) - 1` passes; both chunks' forwards until its gradient has come, `i` of each;
    /// the second chunk's three passes until the gradient has gone round too, `p - i` of each; both
    /// chunks' three passes in turn; and at the end the gradients of inputs before those of weights,
    /// so that the devices before wait for none.
    fn order(
        &self,
        shape: PipelineShape,
        micro_batches: u32,
        device: u32,
        order: &mut Vec<Operation>,
    ) {
        let back = shape.stages - device;
        let mut writer = Writer {
            order,
            stages: [device, 2 * shape.stages - 1 - device],
            micro_batches,
            written: [[0; 2]; 3],
        };
        let all = [Work::Forward, Work::Input, Work::Weight];
        for _ in 0..(2 * back - 1).min(micro_batches) {
            writer.run(0, &[Work::Forward]);
        }
        for _ in 0..device.min(micro_batches) {
            writer.run(1, &[Work::Forward]);
            writer.run(0, &[Work::Forward]);
        }
        for _ in 0..back.min(micro_batches) {
            writer.run(1, &all);
        }
        while writer.forwards_left() {
            writer.run(0, &all);
            writer.run(1, &all);
        }
        for _ in 0..device.min(micro_batches) {
            writer.run(0, &[Work::Input]);
            writer.run(1, &[Work::Input]);
        }
        for _ in 0..back.min(micro_batches) {
            writer.run(0, &[Work::Input, Work::Weight]);
        }
        for chunk in [1, 0] {
            for _ in 0..micro_batches {
                writer.run(chunk, &[Work::Weight]);
            }
        }
    }

    /// Exact where all passes of all chunks take the same `t` seconds:
    ///
    /// ```text
    /// T = t max(6 m + p - 1, 5 m + 3 p - 3, 3 m + 4 p - 1)
    /// ```
    ///
    /// for p devices and m micro-batches: the last device is always busy; or it waits for gradients
    /// between two micro-batches; or the first device does. Elsewhere the busiest device's path and
    /// one micro-batch's way bound from below.
    fn bound(&self, pipeline: &Pipeline<'_>, micro_batches: u32) -> Makespan {
        if micro_batches == 0 {
            return Makespan::NOTHING;
        }
        let shape = pipeline.shape;
        let count = shape.parts();
        let pass = pipeline.pass(0, count);
        if pipeline.uniform(count) && pass.balanced() {
            let (p, m) = (f64::from(shape.stages), f64::from(micro_batches));
            let busy = 6.0 * m + p - 1.0;
            let waits = (5.0 * m + 3.0 * p - 3.0).max(3.0 * m + 4.0 * p - 1.0);
            return Makespan::exactly(busy.max(waits) * pass.forward.value());
        }
        let line = StageTimes::down_and_back(pipeline, micro_batches);
        let (_, least) = pipeline.lengths(micro_batches);
        let (mut before, mut longest) = (0.0, 0.0_f64);
        for device in 0..shape.stages {
            let work = line.work(device, micro_batches);
            let back = line.work(count - 1 - device, micro_batches);
            longest = longest.max(before + work + back);
            before += line.down(device);
        }
        let way = (0..count).map(|stage| {
            let backward = line.pass(stage).backward.value() * least.backward;
            line.down(stage) + backward + line.hop(stage)
        });
        let weight = line.pass(0).weight.value() * least.backward;
        Makespan::at_least(longest.max(way.sum::<f64>() + weight))
    }

    /// `min(m + i + 1, 2 m, 2 p)` chunks of half a stage: as much as the first device in 1F1B.
    fn in_flight(&self, shape: PipelineShape, micro_batches: u32, device: u32) -> u32 {
        let until_back = micro_batches.saturating_add(device + 1);
        let both = micro_batches.saturating_mul(2);
        until_back.min(both).min(shape.stages.saturating_mul(2))
    }
}

//! Which device runs which pass of bidirectional pipelines, and in which turn?

use crate::schedule::operation::{Operation, Work};

/// Pipelines both ways over one set of devices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// Stages of each pipeline, as many as devices.
    pub(super) stages: u32,
    /// Pipelines each way.
    pub(super) groups: u32,
    /// Micro-batches of a forward pass.
    pub(super) span: u32,
}

/// Which pipelines' forward passes a device's slots begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotOrder {
    Down,
    Up,
}

impl Layout {
    /// Devices from the front of one pipeline to that of the next one the same way.
    pub(super) fn reach(self) -> u32 {
        (self.stages / self.groups.max(1)).max(1)
    }

    /// Forward passes of one pipeline in a unit.
    pub(super) fn turns(self) -> u32 {
        (self.reach() / 2).max(1)
    }

    /// Micro-batches of a unit.
    pub(super) fn unit(self) -> u32 {
        self.stages.max(1).saturating_mul(self.span)
    }

    /// Pipelines, each with a copy of every stage.
    pub(super) fn copies(self) -> u32 {
        2 * self.groups.max(1)
    }

    /// Pipeline of a micro-batch: even ones run down, odd ones up.
    pub(super) fn copy(self, micro_batch: u32) -> u32 {
        micro_batch / self.span % self.copies()
    }

    /// Device of a pipeline's stage.
    pub(super) fn device(self, copy: u32, stage: u32) -> u32 {
        let place = self.turned(copy, stage);
        (place + copy / 2 * self.reach()) % self.stages.max(1)
    }

    /// Stage of a pipeline on a device.
    pub(super) fn stage(self, copy: u32, device: u32) -> u32 {
        let shift = copy / 2 * self.reach() % self.stages.max(1);
        let place = (device + self.stages - shift) % self.stages.max(1);
        self.turned(copy, place)
    }

    fn turned(self, copy: u32, place: u32) -> u32 {
        if copy.is_multiple_of(2) {
            place
        } else {
            self.stages.saturating_sub(place + 1)
        }
    }

    /// How many operations the half of a device's slots that begins later lies behind the other.
    pub(super) fn lag(self, device: u32) -> u32 {
        let [down, up] = [SlotOrder::Down, SlotOrder::Up].map(|way| self.offset(device, way));
        down.abs_diff(up).saturating_sub(1) / 2
    }

    /// First slot of a way on a device. Those of the two ways are never both odd or both even.
    fn offset(self, device: u32, way: SlotOrder) -> u32 {
        let place = device % self.reach();
        match way {
            SlotOrder::Down => place,
            SlotOrder::Up => self.reach() - 1 - place,
        }
    }

    /// Operations of a device in the order of their slots, every other slot belonging to one way.
    pub(super) fn operations(
        self,
        micro_batches: u32,
        device: u32,
    ) -> impl Iterator<Item = Operation> {
        let units = micro_batches.div_ceil(self.unit());
        let total = units * self.in_unit();
        let lag = self.lag(device);
        let down_first = self.offset(device, SlotOrder::Down) < self.offset(device, SlotOrder::Up);
        let (first, second) = if down_first {
            (SlotOrder::Down, SlotOrder::Up)
        } else {
            (SlotOrder::Up, SlotOrder::Down)
        };
        let both = move |turn: u32| {
            let late = turn.checked_sub(lag);
            let one = (turn < total).then(|| self.operation(device, first, turn));
            [one, late.map(|turn| self.operation(device, second, turn))]
        };
        let all = (0..total + lag).flat_map(both).flatten();
        all.filter(move |operation| operation.micro_batch < micro_batches)
    }

    /// Slots of one way in a unit.
    fn in_unit(self) -> u32 {
        self.stages / 2 * (1 + self.span)
    }

    /// Operation of a way's slot: in each unit the forward passes of its pipelines, that with the
    /// earliest stage first, then the backward passes of the pipelines the other way.
    fn operation(self, device: u32, way: SlotOrder, slot: u32) -> Operation {
        let in_unit = self.in_unit().max(1);
        let (unit, place) = (slot / in_unit, slot % in_unit);
        let back = place.checked_sub(self.stages / 2);
        let (nth, turn, part) = match back {
            None => (place / self.turns(), place % self.turns(), 0),
            Some(back) => {
                let turns = self.turns() * self.span;
                let part = back % self.span;
                (back / turns, back % turns / self.span, part)
            }
        };
        let group = device / self.reach();
        let copy = match way {
            SlotOrder::Down => (group + self.groups - nth) % self.groups.max(1) * 2,
            SlotOrder::Up => (group + nth + 1) % self.groups.max(1) * 2 + 1,
        };
        let run = |copy| unit * self.stages + turn * self.copies() + copy;
        let stage = self.offset(device, way) + nth * self.reach();
        if back.is_none() {
            let operation = Operation::new(Work::Forward, stage, run(copy) * self.span);
            return operation.over(self.span);
        }
        let other = copy ^ 1;
        let micro_batch = run(other) * self.span + part;
        Operation::new(Work::Backward, self.stages - 1 - stage, micro_batch)
    }
}

//! Which part of a torus does a job get that does not fill it?

use super::level::{Level, Wrap};

/// The shape of a torus.
#[derive(Debug, Clone)]
pub(super) struct Torus {
    devices: Option<u32>,
    dims: Vec<u32>,
    wrap: Wrap,
}

impl Level {
    /// Gives a job of `devices` devices a slice of the torus, where `block` says that parts are given out so and units
    /// of `below` devices fill a box.
    ///
    /// The box has the least sum of sides, of whole blocks if some box has. Its rings close along sides of the torus,
    /// and all of them where it is made of blocks, which switches join anew (TPU v4: Jouppi et al. 2023, arXiv
    /// 2304.01433, section 2).
    pub(super) fn cut(&mut self, devices: u32, below: u32) {
        if let Some(whole) = self.whole.take() {
            (self.devices, self.dims, self.wrap) = (whole.devices, whole.dims, whole.wrap);
        }
        let Some(block) = self.block else {
            return;
        };
        let fills = self.devices.is_none_or(|all| devices >= all);
        if fills || devices <= below || !devices.is_multiple_of(below) {
            return;
        }
        let Some(sides) = slice(&self.dims, devices / below, block) else {
            return;
        };
        let joined = made_of(&sides, block);
        let closes = |axis: usize| {
            self.wrap.closes(axis) && (joined || sides.get(axis) == self.dims.get(axis))
        };
        let wrap = Wrap::Each((0..sides.len()).map(closes).collect());
        self.whole = Some(Box::new(Torus {
            devices: self.devices,
            dims: std::mem::replace(&mut self.dims, sides),
            wrap: std::mem::replace(&mut self.wrap, wrap),
        }));
        self.devices = Some(devices);
    }
}

/// True for a box of whole blocks.
fn made_of(sides: &[u32], block: u32) -> bool {
    block > 0 && sides.iter().all(|side| side.is_multiple_of(block))
}

/// The sides of a box of so many units in a torus: of blocks before others, then of the least sum.
fn slice(dims: &[u32], units: u32, block: u32) -> Option<Vec<u32>> {
    let mut best: Option<Vec<u32>> = None;
    let mut sides = Vec::with_capacity(dims.len());
    let mut take = |sides: &[u32]| {
        let rank = |sides: &[u32]| (!made_of(sides, block), sides.iter().sum::<u32>());
        if best.as_ref().is_none_or(|known| rank(sides) < rank(known)) {
            best = Some(sides.to_vec());
        }
    };
    boxes(dims, units, &mut sides, &mut take);
    best
}

/// Visits all boxes of so many units, the first side growing slowest.
fn boxes(dims: &[u32], units: u32, sides: &mut Vec<u32>, take: &mut impl FnMut(&[u32])) {
    let Some((&dim, rest)) = dims.split_first() else {
        if units == 1 {
            take(sides);
        }
        return;
    };
    for side in (1..=dim.min(units)).filter(|side| units.is_multiple_of(*side)) {
        sides.push(side);
        boxes(rest, units / side, sides, take);
        sides.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_as_near_to_cubes_as_blocks_allow() {
        let pod = [16, 16, 24];
        for (units, sides) in [
            (64, [4, 4, 4]),
            (128, [4, 4, 8]),
            (256, [4, 8, 8]),
            (512, [8, 8, 8]),
            (1024, [8, 8, 16]),
            (32, [2, 4, 4]),
            (16, [2, 2, 4]),
        ] {
            assert_eq!(slice(&pod, units, 4), Some(sides.to_vec()), "{units}");
        }
        assert_eq!(slice(&[16, 16], 128, 0), Some(vec![8, 16]));
        assert_eq!(slice(&pod, 101, 4), None);
    }
}

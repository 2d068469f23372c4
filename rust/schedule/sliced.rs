//! When does a step end whose sequences go through the pipeline slice by slice, each slice with times of its own?

use super::borders::Borders;

/// Seconds of one slice of a sequence, sends left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlicePasses {
    /// Forward pass on the first stage, one between, the last one.
    pub forward: [f64; 3],
    /// Backward pass.
    pub backward: [f64; 3],
    /// Its tensor between neighbouring stages.
    pub borders: Borders,
}

/// Seconds of a step in the order of `terapipe`: all slices of all micro-batches go forward, then back, the
/// last slice of a micro-batch first (Li et al. 2021, section 3.2). Exact.
///
/// ```text
/// C(u, k) = max(C(u - 1, k), C(u, k - 1) + h(u, k)) + t(u, k)
/// ```
///
/// C: end of unit u on stage k, counted in the direction in which it travels; t: its pass there, the send
/// that holds the stage included; h: what its receiver waits beside that. Each half is a flow shop, and the second
/// begins where the first has ended on the last stage. Micro-batches repeat the same slices, so from as many of
/// them as stages on each adds the work of the busiest stage: a path through more of them stays on
/// some stage for a whole micro-batch, without which it is a path through one less.
pub fn sliced_step(slices: &[SlicePasses], stages: u32, micro_batches: u32) -> f64 {
    if stages == 0 || micro_batches == 0 {
        return 0.0;
    }
    half(slices, stages, micro_batches, false) + half(slices, stages, micro_batches, true)
}

/// One direction.
fn half(slices: &[SlicePasses], stages: u32, micro_batches: u32, back: bool) -> f64 {
    let count = stages as usize;
    let mut cells = Vec::with_capacity(slices.len() * count);
    let mut work = vec![0.0; count];
    for place in 0..slices.len() {
        let slice = &slices[if back {
            slices.len() - 1 - place
        } else {
            place
        }];
        for (step, work) in (0..stages).zip(&mut work) {
            let cell = cell(slice, step, stages, back);
            *work += cell[0];
            cells.push(cell);
        }
    }
    let rounds = micro_batches.min(stages);
    let mut ends = vec![0.0_f64; count];
    for _ in 0..rounds {
        for unit in cells.chunks_exact(count) {
            let mut arrived = 0.0_f64;
            for (end, &[seconds, delay]) in ends.iter_mut().zip(unit) {
                *end = end.max(arrived + delay) + seconds;
                arrived = *end;
            }
        }
    }
    let busiest = work.into_iter().fold(0.0, f64::max);
    let last = ends.last().copied().unwrap_or(0.0);
    last + f64::from(micro_batches - rounds) * busiest
}

/// Seconds of a slice on the stage that it comes to as its `step`-th, and what that stage waits for it after the
/// one before.
fn cell(slice: &SlicePasses, step: u32, stages: u32, back: bool) -> [f64; 2] {
    let stage = if back { stages - 1 - step } else { step };
    let kind = match stage {
        0 => 0,
        s if s + 1 == stages => 2,
        _ => 1,
    };
    let passes = if back {
        &slice.backward
    } else {
        &slice.forward
    };
    let borders = &slice.borders;
    // the border that it has crossed, and the one before it
    let [crossed, ahead] = if back {
        [stage, stage.saturating_sub(1)]
    } else {
        [stage.saturating_sub(1), stage]
    };
    let sends = step + 1 < stages;
    let held = if sends {
        borders.held()[usize::from(back)] * borders.at(ahead)
    } else {
        0.0
    };
    let waits = if step > 0 {
        borders.apart() * borders.at(crossed)
    } else {
        0.0
    };
    [passes[kind] + held, waits]
}

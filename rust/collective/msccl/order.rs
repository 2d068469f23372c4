//! In which order can the steps of an algorithm be laid out, so that each waits only for earlier ones?

use super::read::Step;
use crate::error::{Error, Result};

/// The steps, each behind all that it waits for; refuses steps that wait in a circle.
pub(super) fn by_waits(steps: &[Step]) -> Result<Vec<Step>> {
    let count = steps.len();
    let mut missing = vec![0_usize; count];
    let mut next = vec![Vec::new(); count];
    for (index, step) in steps.iter().enumerate() {
        for &wait in step.after.iter().chain(&step.source) {
            next[wait].push(index);
            missing[index] += 1;
        }
    }
    let mut order: Vec<usize> = (0..count).filter(|&step| missing[step] == 0).collect();
    let mut done = 0;
    while let Some(&step) = order.get(done) {
        done += 1;
        for &waiting in &next[step] {
            missing[waiting] -= 1;
            if missing[waiting] == 0 {
                order.push(waiting);
            }
        }
    }
    if let Some(stuck) = missing.iter().position(|&count| count > 0) {
        let line = steps[stuck].line;
        let what = "waits in a circle: the algorithm never ends";
        return Err(Error::inconsistent(format!("line {line}: step {what}")));
    }
    let mut places = vec![0; count];
    for (place, &step) in order.iter().enumerate() {
        places[step] = place;
    }
    let moved = order.iter().map(|&step| {
        let mut step = steps[step].clone();
        for wait in &mut step.after {
            *wait = places[*wait];
        }
        step.source = step.source.map(|source| places[source]);
        step
    });
    Ok(moved.collect())
}

//! Is a choice bettered by another one for a single block, or for two blocks that exchange theirs?

use super::prices::ChoiceField;
use super::transfers::ChainState;

/// Blocks that are run through anew, after which a choice is left as it is.
const MOST_STEPS: usize = 4_000_000;

/// Betters a choice, given by the places of each block's in `ChoiceField::choices`, and its time.
///
/// Every single change and every exchange is weighed, from the first block on that it changes; the
/// first that betters the time is taken. It ends where none does, or after `MOST_STEPS`.
pub(super) fn polish(field: &ChoiceField, picks: &mut [u8], time: &mut f64) {
    let mut fronts = vec![ChainState::default(); picks.len() + 1];
    let mut left = MOST_STEPS;
    if !chain_states(field, picks, &mut fronts) {
        return;
    }
    while left > 0 {
        let before = *time;
        for l in 0..picks.len() {
            for pick in (0..).take(field.choices[l].len()) {
                let old = std::mem::replace(&mut picks[l], pick);
                if !take_if_better(field, picks, &mut fronts, l, time) {
                    picks[l] = old;
                }
            }
            for other in l + 1..picks.len() {
                left = left.saturating_sub(picks.len() - l);
                if left == 0 {
                    return;
                }
                if !exchange(field, picks, l, other) {
                    continue;
                }
                if !take_if_better(field, picks, &mut fronts, l, time) {
                    exchange(field, picks, l, other);
                }
            }
        }
        if *time >= before {
            return;
        }
    }
}

/// Exchanges the retentions of two unlike blocks, if both are open to them.
fn exchange(field: &ChoiceField, picks: &mut [u8], l: usize, other: usize) -> bool {
    let [of, to] = [l, other].map(|at| &field.choices[at]);
    let wanted = [
        of[usize::from(picks[l])].retention,
        to[usize::from(picks[other])].retention,
    ];
    let there = of.iter().position(|c| c.retention == wanted[1]);
    let back = to.iter().position(|c| c.retention == wanted[0]);
    let places = [there, back].map(|place| place.and_then(|p| u8::try_from(p).ok()));
    match places {
        [Some(there), Some(back)] if wanted[0] != wanted[1] => {
            (picks[l], picks[other]) = (there, back);
            true
        }
        _ => false,
    }
}

/// Fills in where the chain stands after each block; false where a choice does not fit.
fn chain_states(field: &ChoiceField, picks: &[u8], fronts: &mut [ChainState]) -> bool {
    for (l, pick) in picks.iter().enumerate() {
        let choice = &field.choices[l][usize::from(*pick)];
        let Some(next) = fronts[l].next(field.chain, &field.lanes, l, choice) else {
            return false;
        };
        fronts[l + 1] = next;
    }
    true
}

/// Takes a change from block `first` on over, if it betters the time.
fn take_if_better(
    field: &ChoiceField,
    picks: &[u8],
    fronts: &mut [ChainState],
    first: usize,
    time: &mut f64,
) -> bool {
    let mut front = fronts[first];
    for (l, pick) in picks.iter().enumerate().skip(first) {
        let choice = &field.choices[l][usize::from(*pick)];
        match front.next(field.chain, &field.lanes, l, choice) {
            Some(next) if next.passes < *time => front = next,
            _ => return false,
        }
    }
    // less than the last bits is no better, and might go round in a circle
    if front.end() >= *time * (1.0 - 1e-12) {
        return false;
    }
    *time = front.end();
    chain_states(field, picks, fronts)
}

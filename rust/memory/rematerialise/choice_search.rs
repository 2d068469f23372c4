//! Which blocks should keep, compute again or move their tensors, and is that proven?

use super::chain::Chain;
use super::polish::polish;
use super::prices::{ChoiceField, Prices};
use super::retention::{Retention, RetentionChoice};
use super::transfers::{ChainState, Lanes, evaluate};
use crate::control::Control;
use crate::error::{Error, Result};

/// How often prices are made anew along a chain.
const ANEW: usize = 12;
/// Labels that are completed then, and how dear held bytes are meanwhile.
const FEW: usize = 8;
const DEARER: [f64; 5] = [1.0, 0.8, 1.25, 0.5, 2.0];

/// The best choices found, and what no choices can beat.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    pub(super) choices: Vec<RetentionChoice>,
    pub(super) time: f64,
    pub(super) bound: f64,
}

/// The best choices found so far, if any, and the bound of all that were not followed.
struct Best {
    picks: Vec<u8>,
    time: f64,
    left_out: f64,
}

/// What becomes of the blocks so far.
#[derive(Debug, Clone, Copy)]
struct Label {
    front: ChainState,
    bound: f64,
    parent: u32,
    pick: u8,
}

/// Chooses by branch and bound.
///
/// Blocks are decided in order. Of choices for the first blocks, those are dropped that another one
/// dominates, or whose bound (`Prices`) is no better than the best that is known. At most `width` go
/// on, those with the least bounds; the least bound among the others joins the answer's. What is
/// found is bettered by changes of single blocks and exchanges of two (`polish`). So the answer is
/// proven best where nothing had to be left out, and else within its gap.
///
/// `known`: a choice that is to be bettered, if there is one.
pub(super) fn choose(
    chain: &Chain,
    lanes: Lanes,
    (link, width): (bool, usize),
    known: Option<&Chosen>,
    control: &Control,
) -> Result<Option<Chosen>> {
    let count = chain.blocks.len();
    let choices: Vec<Vec<RetentionChoice>> = (0..count)
        .map(|l| RetentionChoice::all(chain, l, link))
        .collect();
    let field = ChoiceField::new(chain, lanes, &choices);
    let mut best = Best {
        picks: vec![],
        time: f64::INFINITY,
        left_out: f64::INFINITY,
    };
    try_uniform(&field, &mut best);
    if let Some(known) = known.filter(|known| known.time < best.time) {
        let pick = |(of, choice): (&Vec<RetentionChoice>, &RetentionChoice)| {
            let place = of.iter().position(|c| c.retention == choice.retention);
            u8::try_from(place.unwrap_or(0)).unwrap_or(0)
        };
        best.picks = choices.iter().zip(&known.choices).map(pick).collect();
        best.time = known.time;
    }
    polish(&field, &mut best.picks, &mut best.time);
    for width in [(width / 16).max(1), width] {
        best.left_out = f64::INFINITY;
        beam_search(&field, width, &mut best, control)?;
        polish(&field, &mut best.picks, &mut best.time);
        if best.left_out >= best.time {
            break;
        }
    }
    if best.picks.is_empty() {
        return Ok(None);
    }
    let picked = best.picks.iter().zip(&choices);
    Ok(Some(Chosen {
        choices: picked.map(|(pick, of)| of[usize::from(*pick)]).collect(),
        time: best.time,
        bound: best.left_out.min(best.time),
    }))
}

/// The same for all blocks, where it fits, is a first answer.
fn try_uniform(field: &ChoiceField, best: &mut Best) {
    for wanted in Retention::ALL {
        let pick =
            |of: &Vec<RetentionChoice>| of.iter().position(|c| c.retention == wanted).unwrap_or(0);
        let picks: Vec<usize> = field.choices.iter().map(pick).collect();
        let of = picks.iter().zip(field.choices).map(|(pick, of)| of[*pick]);
        let time = evaluate(field.chain, &field.lanes, &of.collect::<Vec<_>>());
        if let Some(time) = time.filter(|time| *time < best.time) {
            best.time = time;
            best.picks = picks.iter().filter_map(|p| u8::try_from(*p).ok()).collect();
        }
    }
}

/// Decides block after block and betters the best.
fn beam_search(
    field: &ChoiceField,
    width: usize,
    best: &mut Best,
    control: &Control,
) -> Result<()> {
    let count = field.choices.len();
    let start = Label {
        front: ChainState::default(),
        bound: 0.0,
        parent: 0,
        pick: 0,
    };
    let most_held = field.most_held();
    let at = [count - 1, field.tightest()];
    let root = at.map(|at| Prices::best(field, (&start.front, 0), at, best.time));
    let mut current = root.clone();
    let mut levels: Vec<Vec<Label>> = vec![vec![start]];
    let mut open: Vec<Label> = Vec::new();
    for l in 0..count {
        if control.is_cancelled() {
            let what = format!("{l} of {count} blocks are decided");
            return Err(Error::Cancelled { what });
        }
        let level = &levels[l];
        if l % (count / ANEW + 1) == 0 {
            current = at.map(|at| Prices::best(field, (&level[0].front, l), at, best.time));
            for prices in &current {
                complete_greedily(field, &levels, prices, &most_held, best);
            }
        }
        open.clear();
        for (parent, label) in (0..).zip(level) {
            for (pick, choice) in (0..).zip(&field.choices[l]) {
                let next = label.front.next(field.chain, &field.lanes, l, choice);
                let Some(front) = next.filter(|next| next.held <= most_held[l]) else {
                    continue;
                };
                let mut bound = label.bound.max(front.passes).max(front.link());
                for prices in root.iter().chain(&current) {
                    bound = bound.max(prices.bound(&front, l + 1));
                }
                if bound < best.time {
                    open.push(Label {
                        front,
                        bound,
                        parent,
                        pick,
                    });
                }
            }
        }
        let kept = keep(&mut open, width, &mut best.left_out);
        if kept.is_empty() {
            return Ok(());
        }
        levels.push(kept);
    }
    take_best_label(&levels, best);
    Ok(())
}

/// Goes on from the first few labels by the cheapest choices that fit, at prices more and less dear.
fn complete_greedily(
    field: &ChoiceField,
    levels: &[Vec<Label>],
    prices: &Prices,
    most_held: &[f64],
    best: &mut Best,
) {
    let (done, count) = (levels.len() - 1, field.choices.len());
    let mut tail = Vec::with_capacity(count - done);
    for label in levels[done].iter().take(FEW) {
        for dearer in DEARER {
            let mut front = Some(label.front);
            tail.clear();
            for (l, &most) in most_held.iter().enumerate().skip(done) {
                let Some(from) = front else { break };
                let rates = prices.rates(l, dearer);
                let next = (0..).zip(&field.choices[l]).filter_map(|(pick, choice)| {
                    let next = from.next(field.chain, &field.lanes, l, choice)?;
                    (next.held <= most).then(|| (rates.of(choice), pick, next))
                });
                let next = next.min_by(|a, b| a.0.total_cmp(&b.0));
                front = next.map(|(_, _, front)| front);
                tail.extend(next.map(|(_, pick, _)| pick));
            }
            if let Some(time) = front.map(|front| front.end()).filter(|t| *t < best.time) {
                best.time = time;
                best.picks = choices_of_label(levels, label);
                best.picks.extend(&tail);
            }
        }
    }
}

/// The labels that go on: none dominated, the least bounds first.
fn keep(open: &mut [Label], width: usize, left_out: &mut f64) -> Vec<Label> {
    let key = |label: &Label| (label.bound, label.front.passes);
    open.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let mut kept: Vec<Label> = Vec::with_capacity(width.min(open.len()));
    for label in open.iter() {
        if kept.iter().any(|other| other.front.dominates(&label.front)) {
            continue;
        }
        if kept.len() == width {
            *left_out = left_out.min(label.bound);
            break;
        }
        kept.push(*label);
    }
    kept
}

/// Takes the best of the last level over, if it betters what is known.
fn take_best_label(levels: &[Vec<Label>], best: &mut Best) {
    let last = levels.last().into_iter().flatten();
    let Some(label) = last.min_by(|a, b| a.front.end().total_cmp(&b.front.end())) else {
        return;
    };
    if label.front.end() >= best.time {
        return;
    }
    best.time = label.front.end();
    best.picks = choices_of_label(levels, label);
}

/// The choices that led to a label of the last level.
fn choices_of_label(levels: &[Vec<Label>], last: &Label) -> Vec<u8> {
    let mut label = last;
    let mut picks = Vec::with_capacity(levels.len());
    for level in levels[..levels.len() - 1].iter().rev() {
        picks.push(label.pick);
        label = &level[label.parent as usize];
    }
    picks.reverse();
    picks
}

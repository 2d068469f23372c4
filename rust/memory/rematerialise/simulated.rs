//! When does each pass and copy of a choice run, if its tasks are simulated, and what is held then?

use super::chain::Chain;
use super::retention::RetentionChoice;
use super::transfers::Lanes;
use crate::error::Result;
use crate::solve::{Dependency, QueueDiscipline, Tasks, Timeline, simulate};
use serde::Serialize;

/// A pass or a copy: start and end, seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Span {
    /// It begins.
    pub start_s: f64,
    /// It has ended; of a copy its last byte.
    pub end_s: f64,
}

/// A choice as tasks on three engines, run by the event simulation.
pub(super) struct SimulatedChoice {
    pub(super) time: f64,
    /// The most bytes held at any moment.
    pub(super) peak: f64,
    pub(super) forward: Vec<Span>,
    pub(super) backward: Vec<Span>,
    pub(super) write: Vec<Option<Span>>,
    pub(super) read: Vec<Option<Span>>,
}

/// Bytes of a copy, from and to, counted along all copies of its direction.
#[derive(Debug, Clone, Copy)]
struct Piece {
    from: f64,
    to: f64,
    block: usize,
}

/// What the layout reads, by block.
struct Layout<'a> {
    choices: &'a [RetentionChoice],
    /// Room beside what earlier blocks hold and the pass needs, forward and backward.
    rooms: Vec<[f64; 2]>,
    /// Bytes that earlier blocks move, and all behind the last one.
    moved: Vec<f64>,
    /// The first block behind the last one that moves.
    behind: usize,
}

impl<'a> Layout<'a> {
    fn new(lanes: &Lanes, choices: &'a [RetentionChoice]) -> Self {
        let (mut held, mut sum) = (0.0, 0.0);
        let (mut rooms, mut moved) = (vec![], vec![0.0]);
        for choice in choices {
            let room = |need: f64| (lanes.budget - held - need).max(0.0);
            rooms.push([room(choice.forward), room(choice.backward)]);
            held += choice.held;
            sum += choice.moved;
            moved.push(sum);
        }
        let behind = choices.iter().rposition(|c| c.moved > 0.0);
        Self {
            choices,
            rooms,
            moved,
            behind: behind.map_or(0, |last| last + 1),
        }
    }

    fn all(&self) -> f64 {
        self.moved[self.choices.len()]
    }

    /// How many bytes must have left when a block's passes begin.
    fn must_have_left(&self, l: usize) -> [f64; 2] {
        let trailing = self.all() - self.rooms[l][1];
        let backward = if l < self.behind { 0.0 } else { trailing };
        [self.moved[l] - self.rooms[l][0], backward]
    }

    /// How many bytes may be back when a block's passes end.
    fn may_be_back(&self, l: usize) -> [f64; 2] {
        let early = self.rooms[l][0];
        let forward = if l < self.behind {
            f64::INFINITY
        } else {
            early
        };
        [forward, self.all() - self.moved[l] + self.rooms[l][1]]
    }

    /// Copies of a direction, cut wherever a pass waits for one or one for a pass.
    fn pieces(&self, reads: bool) -> Vec<Piece> {
        let count = self.choices.len();
        let cuts = |l: usize| {
            if reads {
                self.may_be_back(l)
            } else {
                self.must_have_left(l)
            }
        };
        let mut cuts: Vec<f64> = (0..count).flat_map(cuts).collect();
        cuts.sort_by(f64::total_cmp);
        let mut pieces = Vec::new();
        for place in 0..count {
            let block = if reads { count - 1 - place } else { place };
            let [begin, end] = [self.moved[block], self.moved[block + 1]];
            let (mut from, to) = if reads {
                (self.all() - end, self.all() - begin)
            } else {
                (begin, end)
            };
            let first = cuts.partition_point(|cut| *cut <= from);
            for &cut in cuts[first..].iter().take_while(|cut| **cut < to) {
                if cut > from {
                    let to = cut;
                    pieces.push(Piece { from, to, block });
                    from = cut;
                }
            }
            if to > from {
                pieces.push(Piece { from, to, block });
            }
        }
        pieces
    }
}

/// The piece with which a number of bytes are through; none for no bytes.
fn piece_at(pieces: &[Piece], bytes: f64) -> Option<usize> {
    let last = pieces.len().checked_sub(1)?;
    // pieces end at the very numbers that are looked for
    (bytes > 0.0).then(|| pieces.partition_point(|piece| piece.to < bytes).min(last))
}

/// Lays a choice out and runs it: the witness of the recurrence of `ChainState`.
pub(super) fn simulate_choice(
    chain: &Chain,
    lanes: &Lanes,
    choices: &[RetentionChoice],
) -> Result<SimulatedChoice> {
    let layout = Layout::new(lanes, choices);
    let pieces = [layout.pieces(false), layout.pieces(true)];
    let tasks = tasks(chain, lanes, &layout, &pieces);
    let line = simulate(&tasks)?;
    let count = choices.len();
    let span = |task: usize| Span {
        start_s: line.start[task],
        end_s: line.end[task],
    };
    let copies = |begin: usize, pieces: &[Piece]| {
        let mut spans: Vec<Option<Span>> = vec![None; count];
        for (task, piece) in (begin..).zip(pieces) {
            let new = span(task);
            let old = spans[piece.block].unwrap_or(new);
            spans[piece.block] = Some(Span {
                start_s: old.start_s,
                end_s: new.end_s,
            });
        }
        spans
    };
    Ok(SimulatedChoice {
        time: line.makespan(),
        peak: peak(&layout, &pieces, &line),
        forward: (0..count).map(span).collect(),
        backward: (0..count).map(|l| span(2 * count - 1 - l)).collect(),
        write: copies(2 * count, &pieces[0]),
        read: copies(2 * count + pieces[0].len(), &pieces[1]),
    })
}

/// Passes forward, passes back, writes, reads: what each waits for.
fn tasks(chain: &Chain, lanes: &Lanes, layout: &Layout, pieces: &[Vec<Piece>; 2]) -> Tasks {
    let count = layout.choices.len();
    let [writes, reads] = pieces;
    let mut tasks = Tasks::new();
    let [passes, out, back] = [0; 3].map(|_| tasks.engine(QueueDiscipline::Added));
    let task = |index: usize| Dependency {
        task: u32::try_from(index).unwrap_or(u32::MAX),
        delay: 0.0,
    };
    let written = |bytes: f64| piece_at(writes, bytes).map(|piece| task(2 * count + piece));
    let first_read = 2 * count + writes.len();
    for (l, block) in chain.blocks.iter().enumerate() {
        let room = written(layout.must_have_left(l)[0]);
        tasks.add(passes, block.forward_s, room.as_slice());
    }
    for l in (0..count).rev() {
        let mut waits: Vec<Dependency> = written(layout.must_have_left(l)[1]).into_iter().collect();
        if layout.choices[l].moved > 0.0 {
            let there = piece_at(reads, layout.all() - layout.moved[l]);
            waits.extend(there.map(|piece| task(first_read + piece)));
        }
        let seconds = chain.blocks[l].backward_s + layout.choices[l].again;
        tasks.add(passes, seconds, &waits);
    }
    for piece in writes {
        let seconds = (piece.to - piece.from) * lanes.write;
        tasks.add(out, seconds, &[task(piece.block)]);
    }
    let mut waits = Vec::new();
    for (index, piece) in reads.iter().enumerate() {
        waits.clear();
        if index == 0 {
            waits.extend(written(layout.all()));
        }
        for l in 0..count {
            let [forward, backward] = layout.may_be_back(l);
            if piece.from >= forward {
                waits.push(task(l));
            }
            if piece.from >= backward {
                waits.push(task(2 * count - 1 - l));
            }
        }
        tasks.add(back, (piece.to - piece.from) * lanes.read, &waits);
    }
    tasks
}

/// Bytes that are through at some time, of the pieces whose tasks begin at `first`.
fn bytes_copied(line: &Timeline, first: usize, pieces: &[Piece], time: f64) -> f64 {
    let of = (first..).zip(pieces).map(|(task, piece)| {
        let [start, end] = [line.start[task], line.end[task]];
        let share = if time >= end {
            1.0
        } else {
            ((time - start) / (end - start)).max(0.0)
        };
        share * (piece.to - piece.from)
    });
    of.sum()
}

/// The most bytes held. All writes end before the first read, so that what is on its way falls, then
/// grows while a pass runs: its start and end are enough.
fn peak(layout: &Layout, [writes, reads]: &[Vec<Piece>; 2], line: &Timeline) -> f64 {
    let count = layout.choices.len();
    let all = layout.all();
    let (mut held, mut peak) = (0.0, 0.0_f64);
    for (l, choice) in layout.choices.iter().enumerate() {
        let moved = layout.moved[l];
        for (task, need, issued, used) in [
            (l, choice.forward, moved, 0.0),
            (2 * count - 1 - l, choice.backward, all, all - moved),
        ] {
            for time in [line.start[task], line.end[task]] {
                let pending = issued - bytes_copied(line, 2 * count, writes, time);
                let back = bytes_copied(line, 2 * count + writes.len(), reads, time) - used;
                peak = peak.max(held + need + pending.max(0.0) + back.max(0.0));
            }
        }
        held += choice.held;
    }
    peak
}

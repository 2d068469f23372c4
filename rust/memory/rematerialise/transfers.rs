//! How long does a chain take whose kept tensors leave and come back beside the passes?

use super::chain::{Chain, Link};
use super::retention::RetentionChoice;

/// Memory and link, as the recurrence reads them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lanes {
    /// Bytes that may be held.
    pub(super) budget: f64,
    /// Seconds per byte away from the device and back; 0 without a link, where nothing moves.
    pub(super) write: f64,
    pub(super) read: f64,
}

impl Lanes {
    pub(super) fn new(budget: f64, link: Option<Link>) -> Self {
        let [write, read] = link.map_or([0.0; 2], |link| {
            [link.write_bytes_per_s, link.read_bytes_per_s].map(|rate| 1.0 / rate)
        });
        Self {
            budget,
            write,
            read,
        }
    }
}

/// Where a chain stands when its first blocks have been decided, seconds and bytes.
///
/// The forward pass is followed from its start, the backward pass from its end: both meet the same
/// blocks in the same order with the same tensors held. Times of the latter run backwards, so that a
/// read is a write that must not begin too soon.
///
/// Model. Passes run one at a time in order: blocks forward, then back. Each direction of the link
/// copies one byte after another at its rate, in the order in which blocks went forward, or come
/// back. A block's bytes begin to leave when its forward pass has ended, and each is free once it has
/// left; each that comes back takes memory from when it is there, and all are there when the block's
/// backward pass begins. A pass waits until there is room for it. With the bytes `R` that earlier
/// blocks hold, the need `n` of the pass and the budget `B`:
///
/// ```text
/// S_l = max(T_(l-1), W_(l-1) - (B - R_l - n_l) / rate)       a pass begins when enough has left
/// T_l = S_l + seconds of the pass
/// W_l = max(W_(l-1), T_l) + moved_l / rate                   the link, if the block moves
/// ```
///
/// for both directions, with `T'`, `W'` of the way back. The step is the longest way through:
///
/// ```text
/// max( T_L + T'_L,  W + W',                                  passes; the first read follows the last write
///      W - (B - R_l - n'_l) / write rate + T'_l,             writes that trail into the way back
///      T_l + W' - (B - R_l - n_l) / read rate )              reads that begin on the way there
/// ```
///
/// over the blocks `l` behind the last one that moves. It is exact for this model.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ChainState {
    /// Held by the blocks so far.
    pub(super) held: f64,
    /// Seconds of both ways, waits included: `T + T'`.
    pub(super) passes: f64,
    /// How long after the passes the link is still busy: `W - T` and `W' - T'`; may be below 0.
    pub(super) writes: f64,
    pub(super) reads: f64,
    /// The longest of the ways that cross between link and passes, since the last block that moves.
    pub(super) crossing: f64,
}

impl ChainState {
    /// Goes on by a block; none where its passes do not fit beside what is held.
    pub(super) fn next(
        &self,
        chain: &Chain,
        lanes: &Lanes,
        l: usize,
        choice: &RetentionChoice,
    ) -> Option<Self> {
        let room = [choice.forward, choice.backward].map(|need| lanes.budget - self.held - need);
        // sums in another order may differ in the last bits
        let slack = -1e-12 * lanes.budget;
        if room[0] < slack || room[1] < slack {
            return None;
        }
        let room = room.map(|room| room.max(0.0));
        let block = &chain.blocks[l];
        let waits = [
            (self.writes - room[0] * lanes.write).max(0.0),
            (self.reads - room[1] * lanes.read).max(0.0),
        ];
        let forward = waits[0] + block.forward_s;
        let backward = waits[1] + block.backward_s + choice.again;
        let mut next = Self {
            held: self.held + choice.held,
            passes: self.passes + forward + backward,
            writes: self.writes - forward,
            reads: self.reads - backward,
            crossing: 0.0,
        };
        if choice.moved > 0.0 {
            next.writes = next.writes.max(0.0) + choice.moved * lanes.write;
            next.reads = next.reads.max(0.0) + choice.moved * lanes.read;
        } else {
            next.crossing = self
                .crossing
                .max(next.passes + next.writes - room[1] * lanes.write)
                .max(next.passes + next.reads - room[0] * lanes.read);
        }
        Some(next)
    }

    /// Seconds until the link is done, or would be with no more than this: `W + W'`.
    pub(super) fn link(&self) -> f64 {
        self.passes + self.writes + self.reads
    }

    /// Seconds of the chain, all blocks decided.
    pub(super) fn end(&self) -> f64 {
        self.passes.max(self.link()).max(self.crossing)
    }

    /// True where whatever follows `other` follows this one as soon: time to spare may be waited.
    pub(super) fn dominates(&self, other: &Self) -> bool {
        let late = (self.writes - other.writes).max(0.0) + (self.reads - other.reads).max(0.0);
        self.held <= other.held
            && self.crossing <= other.crossing
            && self.passes + late <= other.passes
    }
}

/// Seconds of a chain whose every block's choice is given; none where it does not fit.
pub(super) fn evaluate(chain: &Chain, lanes: &Lanes, choices: &[RetentionChoice]) -> Option<f64> {
    let mut blocks = choices.iter().enumerate();
    let front = blocks.try_fold(ChainState::default(), |front, (l, choice)| {
        front.next(chain, lanes, l, choice)
    })?;
    Some(front.end())
}

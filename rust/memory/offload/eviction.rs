//! Which chunks come to a device that cannot hold all, and which make room for them?

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Who makes room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Eviction {
    /// The chunk whose next use is farthest (Belady 1966): a step repeats, so uses are known.
    #[default]
    Belady,
    /// The chunk that was used longest ago.
    Lru,
}

/// What one pass moves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PassMoves {
    /// Chunks that come.
    pub loads: u32,
    /// Chunks that go.
    pub evictions: u32,
}

/// A step on chunks: which are on the device behind it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CachedChunks {
    /// By pass.
    pub moves: Vec<PassMoves>,
    /// By chunk.
    pub resident: Vec<bool>,
}

/// Chunks on the device in the course of steps.
struct Cache<'a> {
    uses: &'a [Vec<u32>],
    policy: Eviction,
    /// Passes that use each chunk, in order.
    turns: Vec<Vec<usize>>,
    /// Passes since the start at which each was last used, counted from 1.
    last: Vec<usize>,
    resident: Vec<bool>,
    held: usize,
}

/// Runs the passes of a step, each of which uses some of `chunks` chunks and leaves room for so many,
/// again and again until a step begins as the one before did, and gives the last one.
///
/// With Belady's rule a chunk's next use may lie in the next step.
pub fn run(
    uses: &[Vec<u32>],
    room: &[usize],
    chunks: usize,
    policy: Eviction,
) -> Result<CachedChunks> {
    let mut turns = vec![Vec::new(); chunks];
    for (pass, (used, &room)) in uses.iter().zip(room).enumerate() {
        if used.len() > room {
            let allowed = format!("at least {}, which pass {pass} uses", used.len());
            return Err(Error::invalid("room", room, allowed));
        }
        for &chunk in used {
            let known = turns.len();
            let turns = turns.get_mut(chunk as usize);
            let turns = turns
                .ok_or_else(|| Error::invalid("chunk", chunk, format!("a number below {known}")))?;
            turns.push(pass);
        }
    }
    let mut cache = Cache {
        uses,
        policy,
        turns,
        last: vec![0; chunks],
        resident: vec![false; chunks],
        held: 0,
    };
    let mut moves = cache.step(room, 0);
    // the first step finds nothing there; from the second on it repeats, with rare exceptions
    for round in 1..ROUNDS {
        let before = cache.resident.clone();
        moves = cache.step(room, round);
        if before == cache.resident {
            break;
        }
    }
    Ok(CachedChunks {
        moves,
        resident: cache.resident,
    })
}

/// Most steps until one is taken for all that follow.
const ROUNDS: usize = 4;

impl Cache<'_> {
    fn step(&mut self, room: &[usize], round: usize) -> Vec<PassMoves> {
        let count = self.uses.len();
        (0..count)
            .map(|pass| self.pass(pass, room[pass], round * count))
            .collect()
    }

    fn pass(&mut self, pass: usize, room: usize, base: usize) -> PassMoves {
        let used = &self.uses[pass];
        let mut moves = PassMoves::default();
        for &chunk in used {
            self.last[chunk as usize] = base + pass + 1;
            if !self.resident[chunk as usize] {
                self.resident[chunk as usize] = true;
                self.held += 1;
                moves.loads += 1;
            }
        }
        while self.held > room {
            let Some(victim) = self.victim(pass) else {
                break;
            };
            self.resident[victim] = false;
            self.held -= 1;
            moves.evictions += 1;
        }
        moves
    }

    fn victim(&self, pass: usize) -> Option<usize> {
        let used = &self.uses[pass];
        let free = (0..self.resident.len())
            .filter(|&chunk| self.resident[chunk] && !used.iter().any(|&c| c as usize == chunk));
        match self.policy {
            Eviction::Belady => free.max_by_key(|&chunk| self.next(chunk, pass)),
            Eviction::Lru => free.min_by_key(|&chunk| self.last[chunk]),
        }
    }

    /// The next pass that uses a chunk, those of the next step behind those of this one.
    fn next(&self, chunk: usize, pass: usize) -> usize {
        let turns = &self.turns[chunk];
        let at = turns.partition_point(|&turn| turn <= pass);
        turns.get(at).copied().unwrap_or_else(|| {
            let first = turns.first().copied();
            first.map_or(usize::MAX, |turn| turn + self.uses.len())
        })
    }
}

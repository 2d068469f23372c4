//! How long should the slices of a sequence be, so that a pipeline over tokens ends soonest?

use crate::control::Control;
use crate::error::amounts::{count, not_negative};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most sequences of a batch.
const MOST: usize = 4096;
/// Most units of a sequence: about a minute.
const MOST_UNITS: usize = 2048;

/// What is to be sliced.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Times of slices, by how many sequences go through together.
    pub tables: Vec<Table>,
    /// Sequences in all.
    #[serde(default = "one")]
    pub sequences: u32,
    /// Pipeline stages, all alike.
    pub stages: u32,
    /// Limits of the slowest slice that lie closer than this are not told apart; 0: all are.
    #[serde(default)]
    pub epsilon_s: f64,
}

/// Times of slices of some sequences that go through together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Sequences.
    pub sequences: u32,
    /// Seconds on one stage, sends included, of a slice of `l` units behind a context of `c`:
    /// `times_s[l - 1][c]`, for `c` up to the sequence's units less `l`. None: not allowed.
    pub times_s: Vec<Vec<Option<f64>>>,
}

/// Slices that end soonest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slices {
    /// Parts of the batch in the order in which they go through.
    pub parts: Vec<Part>,
    /// Time of one step's passes: of all slices on one stage, and of the slowest on the others.
    pub time_s: f64,
    /// All slices on one stage.
    pub sum_s: f64,
    /// The slowest slice.
    pub slowest_s: f64,
    /// The step where no sequence is sliced and all that may go together do; none where not allowed.
    pub whole_s: Option<f64>,
    /// How much sooner another slicing might end; 0: none does.
    pub error_s: f64,
}

/// Sequences that go through together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// How many.
    pub sequences: u32,
    /// Units of each slice.
    pub lengths: Vec<u32>,
    /// Seconds of each slice on one stage.
    pub times_s: Vec<f64>,
}

fn one() -> u32 {
    1
}

/// The slices of a batch of sequences that end soonest, or nothing where no slicing is allowed.
///
/// ```text
/// T = sum_i t_i + (K - 1) max_i t_i,    t_i = t(b_i, l_i, c_i)
/// ```
///
/// Seconds; t: one slice on one of K alike stages, of `l` units of `b` sequences behind a context of
/// `c` (Li et al. 2021, section 3.3). For a limit of the slowest slice the
/// least sum follows from prefixes in `O(L^2)`; a knapsack then shares the batch out (section 3.4).
/// The paper charges `(K - 1) max` to each part of the batch; parts follow one another without a
/// gap, so it is charged once here.
///
/// The paper raises the limit through all times. Here it falls: the answer to a limit is also the
/// answer to every lower one down to its own slowest slice, so the next limit is just below that,
/// and the search ends where even the least slowest slice would not help. An `epsilon` lowers it by
/// that much more, and costs `(K - 1) epsilon` at most.
pub fn token_slices(request: &Request, control: &Control) -> Result<Option<Slices>> {
    check(request)?;
    let tables = Tables::new(request);
    let again = f64::from(request.stages - 1);
    let Some(least) = tables.batch(f64::INFINITY, SliceObjective::Slowest) else {
        return Ok(None);
    };
    let least_slowest = least.slowest;
    let mut best = least;
    let mut limit = f64::INFINITY;
    while let Some(found) = tables.batch(limit, SliceObjective::Sum) {
        if control.is_cancelled() {
            let what = "the slices were not all weighed".to_owned();
            return Err(Error::Cancelled { what });
        }
        if found.time(again) < best.time(again) {
            best = found.clone();
        }
        // a lower limit makes no sum smaller
        if found.sum + again * least_slowest >= best.time(again) {
            break;
        }
        limit = found.slowest - request.epsilon_s;
    }
    let whole = tables.whole(again);
    Ok(Some(Slices {
        time_s: best.time(again),
        sum_s: best.sum,
        slowest_s: best.slowest,
        whole_s: whole,
        error_s: again * request.epsilon_s,
        parts: tables.named(&best),
    }))
}

/// What is made least under a limit of the slowest slice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SliceObjective {
    Sum,
    Slowest,
}

/// Slices of some units or parts of some sequences: the last one ends here.
#[derive(Clone, Copy)]
struct Prefix {
    worth: f64,
    /// Size of the last slice or part.
    last: usize,
}

/// A batch shared out: slices of each part, by table.
#[derive(Clone)]
struct BatchShares {
    parts: Vec<(usize, Vec<usize>)>,
    sum: f64,
    slowest: f64,
}

impl BatchShares {
    fn time(&self, again: f64) -> f64 {
        self.sum + again * self.slowest
    }
}

/// Times without gaps, infinite where a slice is not allowed.
struct Tables<'a> {
    request: &'a Request,
    units: usize,
    /// By table, then context, then units.
    times: Vec<Vec<f64>>,
}

impl<'a> Tables<'a> {
    fn new(request: &'a Request) -> Self {
        let units = request.tables[0].times_s.len();
        let flat = |table: &Table| {
            let mut times = vec![f64::INFINITY; units * units];
            for (index, row) in table.times_s.iter().enumerate() {
                for (context, time) in row.iter().enumerate().take(units - index) {
                    times[context * units + index] = time.unwrap_or(f64::INFINITY);
                }
            }
            times
        };
        Self {
            request,
            units,
            times: request.tables.iter().map(flat).collect(),
        }
    }

    fn time(&self, table: usize, context: usize, units: usize) -> f64 {
        self.times[table][context * self.units + units - 1]
    }

    /// Best slices of one table with all times below `limit`.
    fn sequence(&self, table: usize, limit: f64, worth: SliceObjective) -> Option<Vec<usize>> {
        let mut best = vec![Prefix {
            worth: 0.0,
            last: 0,
        }];
        for end in 1..=self.units {
            let mut least = Prefix {
                worth: f64::INFINITY,
                last: 0,
            };
            for units in 1..=end {
                let time = self.time(table, end - units, units);
                if time < limit {
                    let before = best[end - units].worth;
                    let with = match worth {
                        SliceObjective::Sum => before + time,
                        SliceObjective::Slowest => before.max(time),
                    };
                    if with < least.worth {
                        least = Prefix {
                            worth: with,
                            last: units,
                        };
                    }
                }
            }
            best.push(least);
        }
        unwound(&best)
    }

    /// Best sharing of the batch with all times below `limit`: a knapsack over parts.
    fn batch(&self, limit: f64, worth: SliceObjective) -> Option<BatchShares> {
        let options: Vec<Option<BatchShares>> = (0..self.times.len())
            .map(|table| {
                let lengths = self.sequence(table, limit, worth)?;
                Some(self.totals(vec![(table, lengths)]))
            })
            .collect();
        let mut best = vec![Prefix {
            worth: 0.0,
            last: 0,
        }];
        for sequences in 1..=self.request.sequences as usize {
            let mut least = Prefix {
                worth: f64::INFINITY,
                last: 0,
            };
            for (table, option) in options.iter().enumerate() {
                let own = self.request.tables[table].sequences as usize;
                let (Some(option), true) = (option, own <= sequences) else {
                    continue;
                };
                let before = best[sequences - own].worth;
                let with = match worth {
                    SliceObjective::Sum => before + option.sum,
                    SliceObjective::Slowest => before.max(option.slowest),
                };
                if with < least.worth {
                    least = Prefix {
                        worth: with,
                        last: own,
                    };
                }
            }
            best.push(least);
        }
        let sizes = unwound(&best)?;
        let of = |size: &usize| {
            let tables = &self.request.tables;
            let table = tables.iter().position(|t| t.sequences as usize == *size)?;
            options[table].as_ref()?.parts.first().cloned()
        };
        let parts = sizes.iter().map(of).collect::<Option<Vec<_>>>()?;
        Some(self.totals(parts))
    }

    /// Sum and slowest of what goes through.
    fn totals(&self, parts: Vec<(usize, Vec<usize>)>) -> BatchShares {
        let times = parts
            .iter()
            .flat_map(|(table, lengths)| self.each(*table, lengths));
        let (sum, slowest) = times.fold((0.0, 0.0_f64), |(sum, slowest), time| {
            (sum + time, slowest.max(time))
        });
        BatchShares {
            parts,
            sum,
            slowest,
        }
    }

    /// Seconds of each slice.
    fn each(&self, table: usize, lengths: &[usize]) -> Vec<f64> {
        let mut context = 0;
        let time = |units: &usize| {
            let time = self.time(table, context, *units);
            context += units;
            time
        };
        lengths.iter().map(time).collect()
    }

    /// The step without slices, in as few parts as can be.
    fn whole(&self, again: f64) -> Option<f64> {
        let tables = &self.request.tables;
        let allowed = (0..tables.len()).filter(|t| self.time(*t, 0, self.units).is_finite());
        let mut left = self.request.sequences;
        let mut sizes: Vec<(u32, usize)> = allowed.map(|t| (tables[t].sequences, t)).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let mut parts = Vec::new();
        for (size, table) in sizes {
            while left >= size {
                left -= size;
                parts.push((table, vec![self.units]));
            }
        }
        (left == 0).then(|| self.totals(parts).time(again))
    }

    fn named(&self, shared: &BatchShares) -> Vec<Part> {
        let named = shared.parts.iter().map(|(table, lengths)| Part {
            sequences: self.request.tables[*table].sequences,
            lengths: lengths
                .iter()
                .filter_map(|l| u32::try_from(*l).ok())
                .collect(),
            times_s: self.each(*table, lengths),
        });
        named.collect()
    }
}

/// Sizes from the first to the last, or nothing where the end was not reached.
fn unwound(best: &[Prefix]) -> Option<Vec<usize>> {
    let mut end = best.len() - 1;
    let mut sizes = Vec::new();
    while end > 0 {
        let size = best[end].last;
        if size == 0 {
            return None;
        }
        sizes.push(size);
        end -= size;
    }
    sizes.reverse();
    Some(sizes)
}

fn check(request: &Request) -> Result<()> {
    if request.stages == 0 {
        return Err(Error::invalid("stages", 0, "1 or more"));
    }
    count("sequences", request.sequences as usize, 1, MOST)?;
    count("tables", request.tables.len(), 1, MOST)?;
    not_negative("epsilon_s", request.epsilon_s)?;
    let units = request.tables[0].times_s.len();
    count("tables[0].times_s", units, 1, MOST_UNITS)?;
    for (index, table) in request.tables.iter().enumerate() {
        let field = |name: &str| format!("tables[{index}].{name}");
        let most = request.sequences as usize;
        count(&field("sequences"), table.sequences as usize, 1, most)?;
        let before = &request.tables[..index];
        if before.iter().any(|t| t.sequences == table.sequences) {
            let allowed = "each number of sequences once";
            return Err(Error::invalid(field("sequences"), table.sequences, allowed));
        }
        if table.times_s.len() != units {
            let allowed = format!("{units} rows, one per length, as in the first table");
            return Err(Error::invalid(
                field("times_s"),
                table.times_s.len(),
                allowed,
            ));
        }
        for (row, times) in table.times_s.iter().enumerate() {
            let field = field(&format!("times_s[{row}]"));
            if times.len() < units - row {
                let allowed = format!("{} times or more, one per context", units - row);
                return Err(Error::invalid(field, times.len(), allowed));
            }
            for time in times.iter().flatten() {
                not_negative(&field, *time)?;
            }
        }
    }
    Ok(())
}

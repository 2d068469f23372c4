//! Which rate and latency does the link between each two ranks have, and how do ports limit it?

use crate::error::{Error, Result};

/// Most ranks that are priced pair by pair.
const MOST_RANKS: usize = 512;
/// Keeps every time finite.
const MOST: f64 = 1e30;

/// Links between ranks as they are given, a row for each sender.
#[derive(Debug, Clone, Copy)]
pub struct Matrices<'a> {
    /// Number of ranks, 2 to 512.
    pub ranks: usize,
    /// `rates[i * ranks + j]` bytes/s from rank `i` to rank `j`, of that pair alone; 0: no link.
    pub rates: &'a [f64],
    /// Seconds from sending to arrival, likewise.
    pub latencies: &'a [f64],
    /// Bytes/s that each rank can send over all its links together; none: no limit.
    pub out: Option<&'a [f64]>,
    /// Bytes/s that each rank can receive over all its links together; none: no limit.
    pub into: Option<&'a [f64]>,
}

/// Checked links between ranks. Each pair has its own link, and each direction of it its own rate.
#[derive(Debug, Clone)]
pub struct Pairs {
    ranks: usize,
    /// What a link can carry if its ports carry nothing else; 0 without a link.
    rates: Vec<f64>,
    latencies: Vec<f64>,
    out: Vec<f64>,
    into: Vec<f64>,
}

impl Pairs {
    /// Checks the matrices. What stands on their diagonals, or as latency where no link is, is not read.
    pub fn new(given: &Matrices) -> Result<Self> {
        let ranks = given.ranks;
        if !(2..=MOST_RANKS).contains(&ranks) {
            let allowed = format!("2 to {MOST_RANKS} ranks");
            return Err(Error::invalid("ranks", ranks, allowed));
        }
        square("bandwidth_bytes_per_s", given.rates, ranks)?;
        square("latency_s", given.latencies, ranks)?;
        let out = ports("port_out_bytes_per_s", given.out, ranks)?;
        let into = ports("port_in_bytes_per_s", given.into, ranks)?;
        let mut rates = vec![0.0; ranks * ranks];
        let mut latencies = vec![0.0; ranks * ranks];
        for at in (0..ranks * ranks).filter(|at| at / ranks != at % ranks) {
            let (from, to) = (at / ranks, at % ranks);
            let (rate, latency) = (given.rates[at], given.latencies[at]);
            if rate != 0.0 && !(1.0 / MOST..=MOST).contains(&rate) {
                let field = format!("bandwidth_bytes_per_s[{from}][{to}]");
                return Err(Error::invalid(field, rate, "0 (no link) or 1e-30 to 1e30"));
            }
            if rate > 0.0 && !(0.0..=MOST).contains(&latency) {
                let field = format!("latency_s[{from}][{to}]");
                return Err(Error::invalid(field, latency, "0 to 1e30"));
            }
            if rate > 0.0 {
                rates[at] = rate.min(out[from]).min(into[to]);
                latencies[at] = latency;
            }
        }
        Ok(Self {
            ranks,
            rates,
            latencies,
            out,
            into,
        })
    }

    /// The same links with every direction turned round: what a reduction to a root sees.
    pub(super) fn reversed(&self) -> Self {
        let turn = |matrix: &[f64]| -> Vec<f64> {
            let places = 0..self.ranks * self.ranks;
            places
                .map(|at| matrix[at % self.ranks * self.ranks + at / self.ranks])
                .collect()
        };
        Self {
            ranks: self.ranks,
            rates: turn(&self.rates),
            latencies: turn(&self.latencies),
            out: self.into.clone(),
            into: self.out.clone(),
        }
    }

    /// Number of ranks.
    pub(super) fn ranks(&self) -> usize {
        self.ranks
    }

    /// Bytes/s between two ranks whose ports carry nothing else; 0 without a link.
    pub(super) fn rate(&self, from: usize, to: usize) -> f64 {
        self.rates[from * self.ranks + to]
    }

    /// All rates, a row for each sender.
    pub(super) fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Seconds from sending to arrival; infinite without a link.
    pub(super) fn latency(&self, from: usize, to: usize) -> f64 {
        if self.rate(from, to) > 0.0 {
            self.latencies[from * self.ranks + to]
        } else {
            f64::INFINITY
        }
    }

    /// Bytes/s that a rank can send in all; may be infinite.
    pub(super) fn out(&self, rank: usize) -> f64 {
        self.out[rank]
    }

    /// Bytes/s that a rank can receive in all; may be infinite.
    pub(super) fn into(&self, rank: usize) -> f64 {
        self.into[rank]
    }

    /// Time of one message, `latency + bytes / rate` (Hockney 1994); infinite without a link.
    pub(super) fn message(&self, from: usize, to: usize, bytes: f64) -> f64 {
        let latency = self.latency(from, to);
        if latency.is_finite() {
            latency + bytes / self.rate(from, to)
        } else {
            f64::INFINITY
        }
    }

    /// A rank that no path of links reaches from `root`.
    pub(super) fn cut_off(&self, root: usize) -> Option<usize> {
        let mut seen = vec![false; self.ranks];
        seen[root] = true;
        let mut open = vec![root];
        while let Some(from) = open.pop() {
            for (to, seen) in seen.iter_mut().enumerate() {
                if !*seen && self.rate(from, to) > 0.0 {
                    *seen = true;
                    open.push(to);
                }
            }
        }
        seen.into_iter().position(|seen| !seen)
    }
}

fn square(field: &str, matrix: &[f64], ranks: usize) -> Result<()> {
    if matrix.len() == ranks * ranks {
        return Ok(());
    }
    let allowed = format!("{ranks} x {ranks}, a row for each sender");
    let value = format!("{} numbers", matrix.len());
    Err(Error::invalid(field, value, allowed))
}

fn ports(field: &str, rates: Option<&[f64]>, ranks: usize) -> Result<Vec<f64>> {
    let Some(rates) = rates else {
        return Ok(vec![f64::INFINITY; ranks]);
    };
    if rates.len() != ranks {
        let value = format!("{} numbers", rates.len());
        return Err(Error::invalid(
            field,
            value,
            format!("one for each of {ranks} ranks"),
        ));
    }
    for (rank, &rate) in rates.iter().enumerate() {
        if !(1.0 / MOST..=MOST).contains(&rate) {
            return Err(Error::invalid(
                format!("{field}[{rank}]"),
                rate,
                "1e-30 to 1e30",
            ));
        }
    }
    Ok(rates.to_vec())
}

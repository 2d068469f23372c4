//! How does a small linear program change with the batch and the number of batches?

/// Terms of an amount: constant, times the block, times the batch, times the batches, and times the
/// block and the host's slowness.
pub(super) const TERMS: usize = 5;
/// Coefficients of the terms.
pub(super) type Terms = [f64; TERMS];

/// Index of each term.
pub(super) const CONSTANT: usize = 0;
/// See `CONSTANT`.
pub(super) const BLOCK: usize = 1;
/// See `CONSTANT`.
pub(super) const BATCH: usize = 2;
/// See `CONSTANT`.
pub(super) const BATCHES: usize = 3;
/// See `CONSTANT`.
pub(super) const SLOWED: usize = 4;

/// What a bound gives away, as a part of its terms: more than rounding of some hundred sums can add.
const ROUNDING: f64 = 1e-13;

/// What a row bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bounds {
    /// Base and uses add up to at most this many bytes.
    Bytes(f64),
    /// Base and uses add up to at most the seconds of this window.
    Window(usize),
}

/// A row of the program.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) bounds: Bounds,
    pub(super) base: Terms,
}

/// How much longer the host takes with small batches: `1 / max(0.1, whole - part log2(64 / batch))`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slowness {
    pub(super) whole: f64,
    pub(super) part: f64,
}

impl Slowness {
    pub(super) fn at(self, batch: u64) -> f64 {
        let halvings = (64.0 / batch as f64).log2().max(0.0);
        1.0 / (self.whole - self.part * halvings).max(0.1)
    }
}

/// Programs over all batches and numbers of batches: the same items, options and rows, and amounts
/// that are sums of terms, none negative.
#[derive(Debug, Clone)]
pub(super) struct Family {
    pub(super) rows: Vec<Row>,
    /// Of each option, a `Terms` for every row.
    pub(super) uses: Vec<Terms>,
    /// Options of each item, as ranges.
    pub(super) items: Vec<std::ops::Range<usize>>,
    /// Seconds of the whole run for a second of each window.
    pub(super) weights: Vec<f64>,
    pub(super) slowness: Slowness,
}

impl Family {
    pub(super) fn options(&self) -> usize {
        self.items.last().map_or(0, |range| range.end)
    }

    pub(super) fn used(&self, option: usize, row: usize) -> &Terms {
        &self.uses[option * self.rows.len() + row]
    }

    /// The factors of the terms for a block of `batch * batches` sequences.
    pub(super) fn factors(&self, [batch, batches]: [u64; 2]) -> Terms {
        let (batch_, batches) = (batch as f64, batches as f64);
        let block = batch_ * batches;
        let slowed = block * self.slowness.at(batch);
        [1.0, block, batch_, batches, slowed]
    }

    /// What a row comes to under given shares.
    pub(super) fn total(&self, row: usize, factors: &Terms, shares: &[f64]) -> f64 {
        let base = dot(&self.rows[row].base, factors);
        shares
            .iter()
            .enumerate()
            .fold(base, |sum, (option, share)| {
                sum + share * dot(self.used(option, row), factors)
            })
    }

    /// Seconds of each window under given shares.
    pub(super) fn windows(&self, factors: &Terms, shares: &[f64]) -> Vec<f64> {
        let mut windows = vec![0.0_f64; self.weights.len()];
        for (index, row) in self.rows.iter().enumerate() {
            if let Bounds::Window(window) = row.bounds {
                windows[window] = windows[window].max(self.total(index, factors, shares));
            }
        }
        windows
    }

    /// Seconds of the whole run under given shares.
    pub(super) fn seconds(&self, factors: &Terms, shares: &[f64]) -> f64 {
        let windows = self.windows(factors, shares);
        windows.iter().zip(&self.weights).map(|(w, x)| w * x).sum()
    }

    /// The worst share by which given shares overfill a memory, 0 where all fits.
    pub(super) fn overfull(&self, factors: &Terms, shares: &[f64]) -> f64 {
        let rows = self.rows.iter().enumerate();
        rows.filter_map(|(index, row)| match row.bounds {
            Bounds::Bytes(limit) => Some(self.total(index, factors, shares) / limit - 1.0),
            Bounds::Window(_) => None,
        })
        .fold(0.0, f64::max)
    }
}

/// The Lagrangian of the family under one set of prices: a bound for every batch and every number of
/// batches at once.
///
/// With prices `y` of the rows of a window that add up to at most its weight, and `z` of bytes, no
/// shares take fewer seconds a sequence than
///
/// ```text
/// L(y, z) = (sum y base + sum z (base - limit) + sum over items of min over options (y + z) use) / block
/// ```
///
/// A sequence's part of an amount has the factors `u = 1 / block, 1, v = 1 / batches, 1 / batch,
/// slowness`. So `L` is a sum of minima of linear functions of `(u, v)` for a given batch: concave.
/// The `(u, v)` of a box of batches and numbers of batches form a convex quadrangle whose corners are
/// the corners of the box, and there a concave function is least. The last two factors are taken at
/// their least over the box, which only lowers `L`: their coefficients are not negative.
#[derive(Debug, Clone)]
pub(super) struct Cut {
    base: Terms,
    options: Vec<Terms>,
}

/// Batches and numbers of batches, from the first to the last of each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    pub(super) least: [u64; 2],
    pub(super) most: [u64; 2],
}

impl Cut {
    /// From the prices of the rows; prices that add up to more than a window's weight are scaled down.
    pub(super) fn new(family: &Family, prices: &[f64]) -> Self {
        let mut sums = vec![0.0; family.weights.len()];
        for (row, price) in family.rows.iter().zip(prices) {
            if let Bounds::Window(window) = row.bounds {
                sums[window] += price.max(0.0);
            }
        }
        let mut cut = Self {
            base: [0.0; TERMS],
            options: vec![[0.0; TERMS]; family.options()],
        };
        for (index, row) in family.rows.iter().enumerate() {
            let mut price = prices[index].max(0.0);
            match row.bounds {
                Bounds::Window(window) if sums[window] > family.weights[window] => {
                    price *= family.weights[window] / sums[window];
                }
                Bounds::Bytes(limit) => cut.base[CONSTANT] -= price * limit,
                Bounds::Window(_) => {}
            }
            if price > 0.0 {
                add(&mut cut.base, &row.base, price);
                for (option, sum) in cut.options.iter_mut().enumerate() {
                    add(sum, family.used(option, index), price);
                }
            }
        }
        cut
    }

    /// No fewer seconds a sequence are possible anywhere in the box.
    pub(super) fn bound(&self, family: &Family, span: &Span) -> f64 {
        let ([g0, n0], [g1, n1]) = (span.least, span.most);
        let slowness = family.slowness.at(g0).min(family.slowness.at(g1));
        let mut least = f64::INFINITY;
        for batch in [g0, g1] {
            for batches in [n0, n1] {
                let v = 1.0 / batches as f64;
                let factors = [v / batch as f64, 1.0, v, 1.0 / g1 as f64, slowness];
                least = least.min(self.at(family, &factors));
            }
        }
        least
    }

    fn at(&self, family: &Family, factors: &Terms) -> f64 {
        let mut sum = dot(&self.base, factors);
        let parts = self.base.iter().zip(factors);
        let mut size: f64 = parts.map(|(term, factor)| (term * factor).abs()).sum();
        for range in &family.items {
            let options = self.options[range.clone()].iter();
            let least = options.fold(f64::INFINITY, |least, of| least.min(dot(of, factors)));
            sum += least;
            size += least;
        }
        sum - ROUNDING * size
    }
}

pub(super) fn dot(terms: &Terms, factors: &Terms) -> f64 {
    terms.iter().zip(factors).map(|(t, f)| t * f).sum()
}

pub(super) fn add(sum: &mut Terms, terms: &Terms, times: f64) {
    for (sum, term) in sum.iter_mut().zip(terms) {
        *sum += term * times;
    }
}

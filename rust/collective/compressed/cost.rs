//! What does a mix of collectives and memory passes cost, and at which sizes is it dearer than another?

use crate::collective::Forms;
use crate::hardware::Device;
use crate::units::{Bytes, Seconds};

/// Differences below this share of the smaller time are rounding, not a loss.
const ROUNDING: f64 = 1e-12;

/// A collective whose bytes are a line in those of the buffer, run `weight` times.
#[derive(Debug, Clone)]
struct CostTerm {
    forms: Forms,
    weight: f64,
    /// Bytes of the collective for each byte of the buffer.
    per_byte: f64,
    /// Bytes of the collective whatever the buffer, as its scales.
    extra: f64,
}

impl CostTerm {
    fn bytes(&self, buffer: f64) -> f64 {
        self.per_byte * buffer + self.extra
    }

    /// The time as `(fixed, slope)` by the form that is best at `buffer` bytes.
    fn line(&self, buffer: f64) -> (f64, f64) {
        let best = self.forms.best(Bytes::new(self.bytes(buffer)));
        best.map_or((0.0, 0.0), |(form, _)| {
            let fixed = form.fixed.value() + self.extra * form.per_byte;
            let slope = self.per_byte * form.per_byte;
            (self.weight * fixed, self.weight * slope)
        })
    }

    /// Adds the buffers at which two forms take the same time: where the best may change.
    fn kinks(&self, into: &mut Vec<f64>) {
        let forms = self.forms.all();
        for (i, a) in forms.iter().enumerate() {
            for b in &forms[i + 1..] {
                let bytes = (b.fixed - a.fixed).value() / (a.per_byte - b.per_byte);
                into.push((bytes - self.extra) / self.per_byte);
            }
        }
    }
}

/// `T(n) = passes + sum_t w_t * min_f (fixed_f + (a_t n + c_t) * per_byte_f)`: straight pieces in `n`,
/// the bytes of the buffer. Nothing is paid for an empty buffer.
#[derive(Debug, Clone, Default)]
pub(super) struct ExchangeCost {
    terms: Vec<CostTerm>,
    fixed: f64,
    per_byte: f64,
}

impl ExchangeCost {
    /// Adds a collective of `per_byte` bytes for each byte of the buffer and `extra` more.
    pub(super) fn collective(mut self, forms: &Forms, per_byte: f64, extra: Bytes) -> Self {
        self.terms.push(CostTerm {
            forms: *forms,
            weight: 1.0,
            per_byte,
            extra: extra.value(),
        });
        self
    }

    /// Adds kernels that stream `per_byte` bytes through main memory for each byte of the buffer.
    ///
    /// `launches * t_stream + per_byte * n / (bandwidth * efficiency)`: what such kernels sustain.
    pub(super) fn passes(mut self, per_byte: f64, launches: f64, device: &Device) -> Self {
        self.fixed += launches * device.stream_overhead().value();
        self.per_byte += per_byte / device.main_memory().sustained().value();
        self
    }

    /// The same work on a share of the buffer.
    pub(super) fn on_share(mut self, share: f64) -> Self {
        self.per_byte *= share;
        for term in &mut self.terms {
            term.per_byte *= share;
        }
        self
    }

    /// The memory passes alone.
    pub(super) fn local(&self, buffer: Bytes) -> Seconds {
        if buffer.value() <= 0.0 {
            return Seconds::ZERO;
        }
        Seconds::new(self.fixed + self.per_byte * buffer.value())
    }

    /// Time for a buffer.
    pub(super) fn time(&self, buffer: Bytes) -> Seconds {
        if buffer.value() <= 0.0 {
            return Seconds::ZERO;
        }
        let bytes = |term: &CostTerm| Bytes::new(term.bytes(buffer.value()));
        let collectives = self.terms.iter();
        let collectives = collectives.map(|term| term.forms.time(bytes(term)) * term.weight);
        self.local(buffer) + collectives.sum()
    }

    /// Adds `weight` times another cost.
    pub(super) fn add(&mut self, weight: f64, other: &Self) {
        self.fixed += weight * other.fixed;
        self.per_byte += weight * other.per_byte;
        self.terms.extend(other.terms.iter().map(|term| CostTerm {
            weight: weight * term.weight,
            ..term.clone()
        }));
    }

    fn line(&self, buffer: f64) -> (f64, f64) {
        let own = (self.fixed, self.per_byte);
        let lines = self.terms.iter().map(|term| term.line(buffer));
        lines.fold(own, |sum, line| (sum.0 + line.0, sum.1 + line.1))
    }

    /// The buffers, from and to, for which this costs more than `other`; `None`: without end.
    ///
    /// Both are straight between the sizes at which a best algorithm changes, so the places where
    /// they cross are roots of lines, not the result of a search.
    pub(super) fn dearer_than(&self, other: &Self) -> Vec<(f64, Option<f64>)> {
        let mut cuts = vec![0.0];
        for term in self.terms.iter().chain(&other.terms) {
            term.kinks(&mut cuts);
        }
        cuts.retain(|cut| cut.is_finite() && *cut >= 0.0);
        cuts.sort_by(f64::total_cmp);
        cuts.dedup();
        let mut roots = Vec::new();
        for (from, to) in pieces(&cuts) {
            let (ours, theirs) = (self.line(inside(from, to)), other.line(inside(from, to)));
            let root = (theirs.0 - ours.0) / (ours.1 - theirs.1);
            if root > from && to.is_none_or(|to| root < to) && root.is_finite() {
                roots.push(root);
            }
        }
        cuts.extend(roots);
        cuts.sort_by(f64::total_cmp);
        let mut dearer: Vec<(f64, Option<f64>)> = Vec::new();
        for (from, to) in pieces(&cuts) {
            let middle = Bytes::new(inside(from, to));
            let (ours, theirs) = (self.time(middle).value(), other.time(middle).value());
            if ours - theirs <= ROUNDING * theirs {
                continue;
            }
            match dearer.last_mut().filter(|last| last.1 == Some(from)) {
                Some(last) => last.1 = to,
                None => dearer.push((from, to)),
            }
        }
        dearer
    }
}

/// What lies between the cuts, and after the last one.
fn pieces(cuts: &[f64]) -> impl Iterator<Item = (f64, Option<f64>)> {
    let ends = cuts.iter().skip(1).copied().map(Some).chain([None]);
    cuts.iter().copied().zip(ends)
}

/// A size within a piece.
fn inside(from: f64, to: Option<f64>) -> f64 {
    to.map_or(2.0 * from + 1.0, |to| 0.5 * (from + to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Algorithm, Form, Protocol};

    /// `min(n + 1/2, 1)` seconds.
    fn bent() -> ExchangeCost {
        let mut forms = Forms::FREE;
        for (fixed, per_byte) in [(0.0, 1.0), (1.0, 0.0)] {
            assert!(forms.push(Form {
                algorithm: Algorithm::Ring,
                protocol: Protocol::Simple,
                fixed: Seconds::new(fixed),
                per_byte,
            }));
        }
        ExchangeCost::default().collective(&forms, 1.0, Bytes::new(0.5))
    }

    fn straight(fixed: f64, per_byte: f64) -> ExchangeCost {
        ExchangeCost {
            terms: Vec::new(),
            fixed,
            per_byte,
        }
    }

    #[test]
    fn a_bend_above_a_line_loses_between_two_roots() {
        let found = bent().dearer_than(&straight(0.9, 0.15));
        let [(from, Some(to))] = found[..] else {
            panic!("{found:?}");
        };
        assert!((from - 0.4 / 0.85).abs() < 1e-12, "{from}");
        assert!((to - 0.1 / 0.15).abs() < 1e-12, "{to}");
    }

    #[test]
    fn costs_that_never_cross_lose_nowhere_or_everywhere() {
        assert_eq!(bent().dearer_than(&bent()), []);
        assert_eq!(bent().dearer_than(&straight(1.1, 0.0)), []);
        assert_eq!(bent().dearer_than(&straight(0.1, 0.0)), [(0.0, None)]);
    }
}

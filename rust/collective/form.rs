//! Hoisted closed forms: once group and algorithm are fixed, a collective's time is a line in its bytes.

use super::route::{GroupPlacement, Route};
use super::rules::Rules;
use super::token_crossing::Crossing;
use crate::error::{Error, Result};
use crate::hardware::{Cluster, Group};
use crate::units::{Bytes, Seconds};

pub use super::algorithm::Algorithm;
pub use super::operation::Collective;

/// Which of the library's protocols carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Flags inside 8-byte stores (NCCL's LL).
    LowLatency,
    /// Flags inside 128-byte stores (NCCL's LL128).
    LowLatency128,
    /// Large chunks with separate flags.
    Simple,
}

/// One algorithm's time on one group: `fixed + bytes * per_byte`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Form {
    /// How it is carried out.
    pub algorithm: Algorithm,
    /// What carries the bytes.
    pub protocol: Protocol,
    /// Latency part.
    pub fixed: Seconds,
    /// Seconds per byte.
    pub per_byte: f64,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::LowLatency, Self::LowLatency128, Self::Simple];

    /// Name in text, as `low_latency`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LowLatency => "low_latency",
            Self::LowLatency128 => "low_latency_128",
            Self::Simple => "simple",
        }
    }

    /// The protocol of this name, or of NCCL's: `LL`, `LL128` or `Simple`.
    pub fn named(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().zip(["ll", "ll128", "simple"]);
        known
            .into_iter()
            .find(|(own, nccl)| own.name() == name || name.eq_ignore_ascii_case(nccl))
            .map(|(own, _)| own)
            .ok_or_else(|| Error::unknown("protocol", name, Self::ALL.map(Self::name)))
    }
}

impl Form {
    /// Time of this form for `bytes`.
    pub fn time(&self, bytes: Bytes) -> Seconds {
        Seconds::new(self.fixed.value() + bytes.value() * self.per_byte)
    }

    const NONE: Self = Self {
        algorithm: Algorithm::Ring,
        protocol: Protocol::Simple,
        fixed: Seconds::ZERO,
        per_byte: 0.0,
    };
}

/// Most forms that are held: more than a fabric's library offers unasked, three protocols of three algorithms and
/// the sums of its switches.
const MAX_FORMS: usize = 12;

/// The forms that compete on one group; the least wins at each size. Held inline, no heap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forms {
    held: [Form; MAX_FORMS],
    count: usize,
    bound: Form,
    /// True for a barrier, which takes its time without a byte.
    without_bytes: bool,
}

impl Forms {
    /// All algorithms that the fabric's library offers for `collective` on `group`. A group of one is free.
    pub fn new(collective: Collective, group: &Group, cluster: &Cluster) -> Self {
        if super::select::is_free(group, cluster) {
            return Self::FREE;
        }
        let place = GroupPlacement::new(group, cluster);
        let rules = Rules::default();
        let mut forms = Self::empty(&rules, collective, &place, cluster);
        let mut room = true;
        rules.each(collective, &place, cluster, &mut |form| {
            room &= forms.push(form);
        });
        debug_assert!(room, "a library offers more lines than are held");
        forms
    }

    /// An all-to-all of tokens that cross as `token_crossing` says (`pairwise::copied`); where the library does not
    /// send pairwise, every copy crosses.
    ///
    /// What goes beside a token takes the bytes for one rank times the ranks of the innermost unit, and no start.
    pub fn crossing(crossing: Crossing, group: &Group, cluster: &Cluster) -> Self {
        let all = Self::new(Collective::AllToAll, group, cluster);
        let (copies, direct, times) = match crossing {
            Crossing::Each => return all,
            Crossing::Once { copies, direct } => (copies, direct, None),
            Crossing::Beside { copies, direct } => {
                (copies, direct, Some(f64::from(group.covered(1))))
            }
        };
        if all.count == 0 {
            return all;
        }
        let place = GroupPlacement::new(group, cluster);
        let mut forms = Self::FREE;
        for form in all.all() {
            let route = Route::new(&place, cluster, form.protocol);
            let pairwise = form.algorithm == Algorithm::Pairwise;
            let form = if pairwise {
                super::pairwise::copied(&route, copies.max(1), direct)
            } else {
                *form
            };
            let form = times.map_or(form, |times| Form {
                fixed: Seconds::ZERO,
                per_byte: form.per_byte * times,
                ..form
            });
            let room = forms.push(form);
            debug_assert!(room, "no more lines than before");
        }
        forms
    }

    /// So many of these one after another, which share the bytes evenly: each starts anew.
    pub fn repeated(mut self, times: u32) -> Self {
        for form in &mut self.held[..self.count] {
            form.fixed = form.fixed * f64::from(times);
        }
        self.bound.fixed = self.bound.fixed * f64::from(times);
        self
    }

    /// The forms that `rules` leave.
    ///
    /// Refuses an algorithm that cannot do the collective, rank count or fabric and says what it needs;
    /// and rules that leave nothing, or more lines than are held that are each the least at some size.
    pub fn by_rules(
        rules: &Rules,
        collective: Collective,
        group: &Group,
        cluster: &Cluster,
    ) -> Result<Self> {
        if super::select::is_free(group, cluster) {
            return Ok(Self::FREE);
        }
        let place = GroupPlacement::new(group, cluster);
        let mut forms = Self::empty(rules, collective, &place, cluster);
        rules.check(collective, &place, cluster)?;
        let mut room = true;
        rules.each(collective, &place, cluster, &mut |form| {
            room &= forms.push(form);
        });
        if !room {
            let got = format!("{} that win at more sizes each", rules.allowed.len());
            let allowed = format!("fewer: at most {MAX_FORMS} lines that are least at some size");
            return Err(Error::invalid("algorithms", got, allowed));
        }
        Ok(forms)
    }

    /// As `new`, without the algorithms in `forbidden`. Refuses to forbid all that the fabric has.
    pub fn without(
        forbidden: &[Algorithm],
        collective: Collective,
        group: &Group,
        cluster: &Cluster,
    ) -> Result<Self> {
        let rules = Rules {
            forbidden: forbidden.to_vec(),
            ..Rules::default()
        };
        Self::by_rules(&rules, collective, group, cluster)
    }

    /// The given algorithm alone, whether or not the level's library has it; see `by_rules`.
    pub fn forced(
        algorithm: Algorithm,
        collective: Collective,
        group: &Group,
        cluster: &Cluster,
    ) -> Result<Self> {
        Self::least_of(&[algorithm], collective, group, cluster)
    }

    /// The least of the given algorithms, each of which must be able to run here.
    pub fn least_of(
        allowed: &[Algorithm],
        collective: Collective,
        group: &Group,
        cluster: &Cluster,
    ) -> Result<Self> {
        if allowed.is_empty() {
            return Err(Error::invalid("algorithms", "none", "one or more"));
        }
        let rules = Rules {
            allowed: allowed.to_vec(),
            ..Rules::default()
        };
        Self::by_rules(&rules, collective, group, cluster)
    }

    /// No form yet, with what none can beat; where host memory is a way, its links count too.
    fn empty(
        rules: &Rules,
        collective: Collective,
        place: &GroupPlacement,
        cluster: &Cluster,
    ) -> Self {
        let mut forms = Self::FREE;
        let route = Route::new(place, cluster, Protocol::Simple);
        let by_host = rules.allowed.iter().any(|a| a.passes_host()) || route.through_host();
        let host = cluster.system.host.as_ref().filter(|_| by_host);
        forms.bound = super::bound::form(collective, &route, host);
        forms.without_bytes = collective == Collective::Barrier;
        forms
    }

    /// No form: everything is free.
    pub(super) const FREE: Self = Self {
        held: [Form::NONE; MAX_FORMS],
        count: 0,
        bound: Form::NONE,
        without_bytes: false,
    };

    /// Adds a form unless another is at least as good at every size; drops those it beats, and where there is
    /// no room those that are nowhere the least. False where that leaves too many, so that a form is lost.
    #[must_use]
    pub(super) fn push(&mut self, form: Form) -> bool {
        let beats = |a: &Form, b: &Form| a.fixed <= b.fixed && a.per_byte <= b.per_byte;
        if self.all().iter().any(|other| beats(other, &form)) {
            return true;
        }
        self.retain(|kept| !beats(&form, kept));
        if self.count == MAX_FORMS {
            let all = *self;
            self.retain(|kept| wins(kept, all.all(), &form));
            if self.count == MAX_FORMS {
                return !wins(&form, all.all(), &form);
            }
        }
        self.held[self.count] = form;
        self.count += 1;
        true
    }

    /// Keeps those of which `keep` says true, in order.
    fn retain(&mut self, keep: impl Fn(&Form) -> bool) {
        let mut kept = 0;
        for i in 0..self.count {
            if keep(&self.held[i]) {
                self.held[kept] = self.held[i];
                kept += 1;
            }
        }
        self.count = kept;
    }

    fn is_free(&self, bytes: Bytes) -> bool {
        bytes.value() <= 0.0 && !self.without_bytes
    }

    /// The forms that are best at some size, in no particular order.
    pub fn all(&self) -> &[Form] {
        &self.held[..self.count]
    }

    /// Time of the best form. Zero for a group of one or for no bytes.
    #[inline]
    pub fn time(&self, bytes: Bytes) -> Seconds {
        if self.count == 0 || self.is_free(bytes) {
            return Seconds::ZERO;
        }
        let mut least = f64::INFINITY;
        for form in self.all() {
            least = least.min(form.fixed.value() + bytes.value() * form.per_byte);
        }
        Seconds::new(least)
    }

    /// Times for many sizes at once, form by form so that the processor takes several sizes a step.
    pub fn times(&self, bytes: &[f64], times: &mut [f64]) {
        times.fill(if self.count == 0 { 0.0 } else { f64::INFINITY });
        for form in self.all() {
            let (fixed, per_byte) = (form.fixed.value(), form.per_byte);
            for (time, &bytes) in times.iter_mut().zip(bytes) {
                *time = time.min(fixed + bytes * per_byte);
            }
        }
        if !self.without_bytes {
            for (time, &bytes) in times.iter_mut().zip(bytes) {
                *time = if bytes > 0.0 { *time } else { 0.0 };
            }
        }
    }

    /// The best form for `bytes` and its time; `None` where the collective is free.
    pub fn best(&self, bytes: Bytes) -> Option<(Form, Seconds)> {
        if self.is_free(bytes) {
            return None;
        }
        self.all()
            .iter()
            .map(|form| (*form, form.time(bytes)))
            .min_by(|a, b| a.1.value().total_cmp(&b.1.value()))
    }

    /// What no algorithm on this fabric can beat (see `bound`).
    pub fn lower_bound(&self, bytes: Bytes) -> Seconds {
        if self.is_free(bytes) {
            return Seconds::ZERO;
        }
        let bound = &self.bound;
        bound
            .fixed
            .max(Seconds::new(bytes.value() * bound.per_byte))
    }
}

/// True where `form` is the least of `others` and `last` at some size.
///
/// It is below another where `n (other.per_byte - per_byte) >= fixed - other.fixed`: from a size on, or up to one.
fn wins(form: &Form, others: &[Form], last: &Form) -> bool {
    let (mut from, mut to) = (0.0_f64, f64::INFINITY);
    for other in others.iter().chain([last]) {
        let later = form.fixed.value() - other.fixed.value();
        let gains = other.per_byte - form.per_byte;
        if gains > 0.0 {
            from = from.max(later / gains);
        } else if gains < 0.0 {
            to = to.min(later / gains);
        }
    }
    from < to
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(fixed: f64, per_byte: f64) -> Form {
        Form {
            fixed: Seconds::new(fixed),
            per_byte,
            ..Form::NONE
        }
    }

    proptest! {
        #[test]
        fn no_line_is_lost_that_is_the_least_at_some_size(
            lines in proptest::collection::vec((0.0_f64..1.0, 0.0_f64..1.0), 1..200),
        ) {
            let mut forms = Forms::FREE;
            let room = lines.iter().all(|&(fixed, per_byte)| forms.push(line(fixed, per_byte)));
            for k in -40..60 {
                let bytes = f64::from(k).exp2();
                let least = lines.iter().map(|(fixed, per_byte)| fixed + bytes * per_byte);
                let least = least.fold(f64::INFINITY, f64::min);
                let found = forms.time(Bytes::new(bytes)).value();
                prop_assert!(!room || (found / least - 1.0).abs() < 1e-12, "{found} {least}");
            }
        }
    }

    #[test]
    fn too_many_lines_that_all_win_are_reported() {
        // tangents of a hyperbola: each touches it alone
        let tangent = |k: u32| line(f64::from(k), 1.0 / f64::from(k));
        let mut forms = Forms::FREE;
        assert!((1..=12).all(|k| forms.push(tangent(k))));
        assert!(!forms.push(tangent(13)));
        assert!(forms.push(line(100.0, 1.0))); // nowhere the least
        assert!(forms.push(line(0.5, 0.01))); // beats them all but at the ends
    }
}

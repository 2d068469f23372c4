//! Why is this algorithm chosen for a message, what comes second, and what limits the winner?

use super::form::{Collective, Form, Forms};
use super::route::GroupPlacement;
use super::rules::Rules;
use crate::error::Result;
use crate::hardware::{Cluster, Group, LevelKind};
use crate::units::{Bytes, BytesPerSecond, Seconds};

/// What most of a collective's time goes into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// Start-up and steps.
    Latency,
    /// The links of a device or a node into a level.
    Injection,
    /// The links across a level: a torus under all-to-all, uplinks that are oversubscribed, links
    /// between groups of a dragonfly.
    Bisection,
    /// Copies through memory of device or host.
    Memory,
}

impl Binding {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Latency,
        Self::Injection,
        Self::Bisection,
        Self::Memory,
    ];

    /// Name in text, as `bisection`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Injection => "injection",
            Self::Bisection => "bisection",
            Self::Memory => "memory",
        }
    }
}

/// The winner for one message, with what stands beside it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The fastest form.
    pub winner: Form,
    /// Its time.
    pub time: Seconds,
    /// The next one, of another algorithm or protocol.
    pub runner_up: Option<(Form, Seconds)>,
    /// What no algorithm on this fabric can beat.
    pub lower_bound: Seconds,
    /// What most of the winner's time goes into.
    pub binding: Binding,
    /// The level of the fabric that binds; for `Latency` the outermost that the group crosses.
    pub level: usize,
}

/// A size at which the winner changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crossover {
    /// Bytes at which both take as long.
    pub bytes: Bytes,
    /// Wins below.
    pub before: Form,
    /// Wins above.
    pub after: Form,
}

/// All that competes for one collective on one group, losers included.
#[derive(Debug, Clone)]
pub struct Choices {
    forms: Forms,
    all: Vec<Form>,
    /// What the bytes of each of `all` wait for.
    limits: Vec<(Binding, usize)>,
    outermost: usize,
}

impl Choices {
    /// Everything that `rules` leave; see `Forms::under` for what is refused.
    pub fn new(
        rules: &Rules,
        collective: Collective,
        group: &Group,
        cluster: &Cluster,
    ) -> Result<Self> {
        let forms = Forms::by_rules(rules, collective, group, cluster)?;
        let all = distinct_forms(rules, collective, group, cluster);
        let limits = limits(&all, (rules, collective, group), cluster);
        let outermost = group.outermost();
        Ok(Self {
            forms,
            all,
            limits,
            outermost,
        })
    }

    /// Everything that competes, losers at every size included.
    pub fn all(&self) -> &[Form] {
        &self.all
    }

    /// Winner, runner-up and limit for `bytes`; `None` where the collective is free.
    pub fn choose(&self, bytes: Bytes) -> Option<Choice> {
        let (best, time) = self.forms.best(bytes)?;
        let same = |form: &Form| form.algorithm == best.algorithm && form.protocol == best.protocol;
        let runner_up = self
            .all
            .iter()
            .filter(|form| !same(form))
            .map(|form| (*form, form.time(bytes)))
            .min_by(|a, b| a.1.value().total_cmp(&b.1.value()));
        let place = self.all.iter().position(|form| *form == best);
        let (binding, level) = if best.fixed.value() >= time.value() * 0.5 {
            (Binding::Latency, self.outermost)
        } else {
            place.map_or((Binding::Injection, self.outermost), |at| self.limits[at])
        };
        Some(Choice {
            winner: best,
            time,
            runner_up,
            lower_bound: self.forms.lower_bound(bytes),
            binding,
            level,
        })
    }

    /// The sizes at which the winner changes, from the smallest.
    ///
    /// The lower envelope of lines: from the line that wins for no bytes, the next crossing with a
    /// flatter one.
    pub fn crossovers(&self) -> Vec<Crossover> {
        let least = |a: &&Form, b: &&Form| {
            let fixed = a.fixed.value().total_cmp(&b.fixed.value());
            fixed.then(a.per_byte.total_cmp(&b.per_byte))
        };
        let mut found = Vec::new();
        let mut before = self.forms.all().iter().min_by(least).copied();
        while let Some(now) = before {
            let crossing =
                |form: &Form| (form.fixed - now.fixed).value() / (now.per_byte - form.per_byte);
            let flatter = self
                .forms
                .all()
                .iter()
                .filter(|f| f.per_byte < now.per_byte);
            let next = flatter.min_by(|a, b| {
                let near = crossing(a).total_cmp(&crossing(b));
                near.then(a.per_byte.total_cmp(&b.per_byte))
            });
            before = next.copied();
            if let Some(after) = before {
                let bytes = Bytes::new(crossing(&after));
                found.push(Crossover {
                    bytes,
                    before: now,
                    after,
                });
            }
        }
        found
    }
}

/// Every form, but of equal lines of one algorithm only the first.
fn distinct_forms(
    rules: &Rules,
    collective: Collective,
    group: &Group,
    cluster: &Cluster,
) -> Vec<Form> {
    let mut all: Vec<Form> = Vec::new();
    if super::select::is_free(group, cluster) {
        return all;
    }
    let place = GroupPlacement::new(group, cluster);
    rules.each(collective, &place, cluster, &mut |form| {
        let equal = |other: &Form| {
            other.algorithm == form.algorithm
                && (other.fixed, other.per_byte) == (form.fixed, form.per_byte)
        };
        if !all.iter().any(equal) {
            all.push(form);
        }
    });
    all
}

/// Which constant shortens each form's bytes most when it doubles: the rate of a level, or memory's.
fn limits(
    all: &[Form],
    asked: (&Rules, Collective, &Group),
    cluster: &Cluster,
) -> Vec<(Binding, usize)> {
    let (rules, collective, group) = asked;
    let place = GroupPlacement::new(group, cluster);
    let mut best = vec![(0.0, Binding::Injection, group.outermost()); all.len()];
    let mut weigh = |faster: &Cluster, rules: &Rules, binding: Binding, level: usize| {
        let mut slopes = Vec::new();
        rules.each(collective, &place, faster, &mut |form| slopes.push(form));
        for (form, best) in all.iter().zip(&mut best) {
            let same = |other: &&Form| {
                other.algorithm == form.algorithm && other.protocol == form.protocol
            };
            let slope = slopes.iter().filter(same).map(|f| f.per_byte);
            let gained = form.per_byte - slope.fold(f64::INFINITY, f64::min);
            if gained > best.0 * (1.0 + 1e-9) {
                *best = (gained, binding, level);
            }
        }
    };
    for level in 0..=group.outermost() {
        let mut faster = cluster.clone();
        let place = &mut faster.system.levels[level];
        place.bandwidth = BytesPerSecond::new(place.bandwidth.value() * 2.0);
        let across = match place.kind {
            LevelKind::Torus | LevelKind::WaferMesh => collective == Collective::AllToAll,
            LevelKind::Dragonfly => true,
            _ => place.oversubscription > 1.0,
        };
        let binding = if across {
            Binding::Bisection
        } else {
            Binding::Injection
        };
        weigh(&faster, rules, binding, level);
    }
    let mut faster = cluster.clone();
    if let Some(host) = &mut faster.system.host {
        host.memory_bandwidth = BytesPerSecond::new(host.memory_bandwidth.value() * 2.0);
        weigh(&faster, rules, Binding::Memory, group.outermost());
    }
    let in_place = Rules {
        in_place: true,
        ..rules.clone()
    };
    weigh(cluster, &in_place, Binding::Memory, 0);
    best.into_iter()
        .map(|(_, binding, level)| (binding, level))
        .collect()
}

//! Which algorithms and protocols may carry a collective, and does it read and write one buffer?

use super::form::{Algorithm, Collective, Form, Protocol};
use super::route::{GroupPlacement, Route};
use super::{forced_algorithms, select};
use crate::error::{Error, Result};
use crate::hardware::Cluster;
use std::mem::discriminant;

/// Full rate first: where protocols do not differ, that is the one to name.
const PROTOCOLS: [Protocol; 3] = [
    Protocol::Simple,
    Protocol::LowLatency128,
    Protocol::LowLatency,
];

/// What a user asks of the choice; the default leaves it to the library of the fabric.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Only these compete, whether or not the library offers them; none: what the library offers.
    pub allowed: Vec<Algorithm>,
    /// These never run.
    pub forbidden: Vec<Algorithm>,
    /// The one protocol that may run; none: all three compete.
    pub protocol: Option<Protocol>,
    /// True where every rank's result takes the place of its input, so that its own part stays where it is.
    pub in_place: bool,
}

impl Rules {
    /// Refuses names that cannot run here and rules that leave nothing.
    pub(super) fn check(
        &self,
        collective: Collective,
        place: &GroupPlacement,
        cluster: &Cluster,
    ) -> Result<()> {
        let route = Route::new(place, cluster, Protocol::Simple);
        for algorithm in &self.allowed {
            algorithm.check(collective, &route, cluster.system.host.as_ref())?;
        }
        if self.leave_any(collective, place, cluster) {
            return Ok(());
        }
        let on = format!(
            "for {} on a group of {}",
            collective.name(),
            place.group.size
        );
        let any_protocol = Self {
            protocol: None,
            ..self.clone()
        };
        match self.protocol {
            Some(protocol) if any_protocol.leave_any(collective, place, cluster) => {
                let left = if self.forbidden.is_empty() {
                    "there are"
                } else {
                    "are left"
                };
                let allowed = format!("a protocol of the algorithms that {left} {on}");
                Err(Error::invalid("protocol", protocol.name(), allowed))
            }
            _ => {
                let names: Vec<&str> = self.forbidden.iter().map(|a| a.name()).collect();
                let allowed = format!("to leave an algorithm {on}");
                Err(Error::invalid("forbid", names.join(", "), allowed))
            }
        }
    }

    /// True where some form may run.
    fn leave_any(&self, collective: Collective, place: &GroupPlacement, cluster: &Cluster) -> bool {
        let mut left = false;
        self.each(collective, place, cluster, &mut |_| left = true);
        left
    }

    /// True for a forbidden algorithm, whatever its counts.
    fn forbids(&self, algorithm: Algorithm) -> bool {
        let same = |other: &Algorithm| discriminant(other) == discriminant(&algorithm);
        self.forbidden.iter().any(same)
    }

    /// Hands every form that may run to `take`; what the algorithms need has been checked.
    #[inline]
    pub(super) fn each(
        &self,
        collective: Collective,
        place: &GroupPlacement,
        cluster: &Cluster,
        take: &mut impl FnMut(Form),
    ) {
        let mut route = Route::without_protocol(place, cluster).in_place(self.in_place);
        let scales = route.scales();
        for protocol in self.protocols() {
            route.set_protocol(protocol, &scales);
            self.on(collective, &route, cluster, take);
        }
    }

    /// The routes of the protocols that may run.
    pub(super) fn routes<'a>(
        &self,
        place: &'a GroupPlacement,
        cluster: &'a Cluster,
    ) -> Vec<Route<'a>> {
        let bare = Route::without_protocol(place, cluster).in_place(self.in_place);
        let scales = bare.scales();
        let mut routes = vec![bare; self.protocols().count()];
        for (route, protocol) in routes.iter_mut().zip(self.protocols()) {
            route.set_protocol(protocol, &scales);
        }
        routes
    }

    fn protocols(&self) -> impl Iterator<Item = Protocol> {
        let runs = |protocol: &Protocol| self.protocol.is_none_or(|only| only == *protocol);
        PROTOCOLS.into_iter().filter(runs)
    }

    /// As `each`, under the protocol of one route.
    #[inline]
    pub(super) fn on(
        &self,
        collective: Collective,
        route: &Route,
        cluster: &Cluster,
        take: &mut impl FnMut(Form),
    ) {
        let mut offer = |form: Form| {
            if self.forbidden.is_empty() || !self.forbids(form.algorithm) {
                take(form);
            }
        };
        if self.allowed.is_empty() {
            select::offered(&mut offer, collective, route, cluster);
        }
        for &algorithm in &self.allowed {
            forced_algorithms::forms(&mut offer, algorithm, collective, route, cluster);
        }
    }
}

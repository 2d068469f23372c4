//! At which rates do the transfers under way share their links?

use super::queue::NONE;
use super::schedule::{Flows, Link};

/// Shares closer than this are equal: rounding alone parts them.
const SAME: f64 = 1e-12;

/// Transfers to share among, and on one link, between two looks at whether to go on.
const MANY: usize = 4096;
const MANY_ON_ONE: u32 = 64;

/// Who is on each link, and what the last sharing found.
#[derive(Debug)]
pub(super) struct Sharing {
    links: Vec<State>,
    /// Neighbours in a link's list, by hop.
    slots: Vec<Slot>,
    /// The transfer that owns each hop.
    owners: Vec<u32>,
    /// Round in which a transfer was last reached, and its rate (negative: not yet fixed).
    rates: Vec<(u64, f64)>,
    round: u64,
    /// Links and transfers that one change can reach, each through shared links.
    reached: Vec<u32>,
    pub(super) changed: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    first: u32,
    count: u32,
    round: u64,
    /// Transfers without a rate yet, and the capacity that is left for them.
    open: u32,
    left: f64,
    peak: f64,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    next: u32,
    previous: u32,
}

impl Sharing {
    /// Calls `look` for each transfer, and fails as it does.
    pub(super) fn new<E>(flows: &Flows, look: &impl Fn(u32) -> Result<(), E>) -> Result<Self, E> {
        let idle = State {
            first: NONE,
            count: 0,
            round: 0,
            open: 0,
            left: 0.0,
            peak: 0.0,
        };
        let slot = Slot {
            next: NONE,
            previous: NONE,
        };
        let mut owners = Vec::with_capacity(flows.hops.len());
        for (transfer, &end) in (0..).zip(&flows.hop_ends) {
            owners.resize(end as usize, transfer);
            look(transfer)?;
        }
        Ok(Self {
            links: vec![idle; flows.links.len()],
            slots: vec![slot; flows.hops.len()],
            owners,
            rates: vec![(0, 0.0); flows.len()],
            round: 0,
            reached: Vec::with_capacity(flows.links.len()),
            changed: Vec::with_capacity(flows.len()),
        })
    }

    /// Forgets the peaks of the run before.
    pub(super) fn reset(&mut self) {
        for link in &mut self.links {
            link.peak = 0.0;
        }
    }

    /// Takes all transfers off their links.
    pub(super) fn clear(&mut self) {
        for link in &mut self.links {
            link.first = NONE;
            link.count = 0;
        }
    }

    /// Most that `link` ever carried a second.
    pub(super) fn peak(&self, link: usize) -> f64 {
        self.links[link].peak
    }

    /// Puts `transfer` on its links.
    pub(super) fn enter(&mut self, flows: &Flows, transfer: u32) {
        for (hop, slot) in (flows.hops[flows.route(transfer)].iter()).zip(flows.route(transfer)) {
            let link = &mut self.links[*hop as usize];
            let next = std::mem::replace(&mut link.first, place(slot));
            link.count += 1;
            if next != NONE {
                self.slots[next as usize].previous = link.first;
            }
            self.slots[slot] = Slot {
                next,
                previous: NONE,
            };
        }
    }

    /// Takes `transfer` off its links; true where others remain on one of them.
    pub(super) fn leave(&mut self, flows: &Flows, transfer: u32) -> bool {
        let mut shared = false;
        for slot in flows.route(transfer) {
            let link = &mut self.links[flows.hops[slot] as usize];
            let Slot { next, previous } = self.slots[slot];
            link.count -= 1;
            shared |= link.count > 0;
            if next != NONE {
                self.slots[next as usize].previous = previous;
            }
            if previous == NONE {
                link.first = next;
            } else {
                self.slots[previous as usize].next = next;
            }
        }
        shared
    }

    /// The rate of `transfer` where it is alone on all its links.
    pub(super) fn alone(&mut self, flows: &Flows, transfer: u32) -> Option<f64> {
        let route = &flows.hops[flows.route(transfer)];
        let mut rate = f64::INFINITY;
        for &hop in route {
            if self.links[hop as usize].count > 1 {
                return None;
            }
            rate = rate.min(flows.links[hop as usize].capacity);
        }
        for &hop in route {
            let link = &mut self.links[hop as usize];
            link.peak = link.peak.max(rate);
        }
        Some(rate)
    }

    /// Starts a new round: nothing is reached yet.
    pub(super) fn begin(&mut self) {
        self.round += 1;
        self.changed.clear();
    }

    /// Shares anew all links that can feel a change on the route of `transfer`.
    ///
    /// Max-min fairness by progressive filling: the links on which an equal share of what is left is
    /// least fix the rates of their transfers; the rest share what remains. Bertsekas and Gallager
    /// 1992, section 6.5.2. Only transfers joined to the route through shared links are touched,
    /// which is exact: rates of the others do not depend on it. They are appended to `changed`. `None` once
    /// `goes_on` says false, which is asked where many are joined.
    pub(super) fn share(
        &mut self,
        flows: &Flows,
        transfer: u32,
        goes_on: &impl Fn() -> bool,
    ) -> Option<()> {
        let first = self.changed.len();
        self.find_joined(flows, transfer, goes_on)?;
        let mut open = self.changed.len() - first;
        while open > 0 {
            if open > MANY {
                goes_on().then_some(())?;
            }
            let least = self.least_share();
            for i in 0..self.reached.len() {
                let link = self.links[self.reached[i] as usize];
                if link.open > 0 && link.left <= least * f64::from(link.open) * (1.0 + SAME) {
                    if link.count > MANY_ON_ONE {
                        goes_on().then_some(())?;
                    }
                    open -= self.fix_rate(flows, link.first, least);
                }
            }
        }
        for &reached in &self.reached {
            let link = &mut self.links[reached as usize];
            link.peak = link
                .peak
                .max(flows.links[reached as usize].capacity - link.left);
        }
        Some(())
    }

    pub(super) fn rate(&self, transfer: u32) -> f64 {
        self.rates[transfer as usize].1
    }

    /// Finds the busy links and the transfers that are joined to the route of `transfer`.
    fn find_joined(
        &mut self,
        flows: &Flows,
        transfer: u32,
        goes_on: &impl Fn() -> bool,
    ) -> Option<()> {
        self.reached.clear();
        for &hop in &flows.hops[flows.route(transfer)] {
            self.add(hop, flows.links[hop as usize]);
        }
        let mut done = 0;
        while let Some(&link) = self.reached.get(done) {
            done += 1;
            if self.links[link as usize].count > MANY_ON_ONE || done % MANY_ON_ONE as usize == 0 {
                goes_on().then_some(())?;
            }
            let mut slot = self.links[link as usize].first;
            while slot != NONE {
                let owner = self.owners[slot as usize];
                if self.rates[owner as usize].0 != self.round {
                    self.rates[owner as usize] = (self.round, -1.0);
                    self.changed.push(owner);
                    for &hop in &flows.hops[flows.route(owner)] {
                        self.add(hop, flows.links[hop as usize]);
                    }
                }
                slot = self.slots[slot as usize].next;
            }
        }
        Some(())
    }

    fn add(&mut self, link: u32, figures: Link) {
        let state = &mut self.links[link as usize];
        if state.round != self.round && state.count > 0 {
            state.round = self.round;
            state.open = state.count;
            state.left = figures.capacity;
            self.reached.push(link);
        }
    }

    fn least_share(&self) -> f64 {
        self.reached
            .iter()
            .map(|&link| &self.links[link as usize])
            .filter(|link| link.open > 0)
            .map(|link| link.left / f64::from(link.open))
            .fold(f64::INFINITY, f64::min)
    }

    /// Gives `rate` to all on one link's list that have none; returns how many.
    fn fix_rate(&mut self, flows: &Flows, mut slot: u32, rate: f64) -> usize {
        let mut fixed = 0;
        while slot != NONE {
            let owner = self.owners[slot as usize];
            slot = self.slots[slot as usize].next;
            if self.rates[owner as usize].1 >= 0.0 {
                continue;
            }
            self.rates[owner as usize].1 = rate;
            fixed += 1;
            for &hop in &flows.hops[flows.route(owner)] {
                let link = &mut self.links[hop as usize];
                link.open -= 1;
                link.left = (link.left - rate).max(0.0);
            }
        }
        fixed
    }
}

/// Hops are fewer than 2^31.
#[allow(clippy::cast_possible_truncation)]
fn place(slot: usize) -> u32 {
    slot as u32
}

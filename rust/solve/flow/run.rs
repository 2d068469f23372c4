//! What happens from one instant to the next?

use super::queue::Queue;
use super::schedule::{Flows, SENT, span};
use super::sharing::Sharing;
use std::convert::Infallible;

/// Events between two looks at whether to go on: well below a millisecond.
const EVENTS: usize = 4096;

/// Looks whether to go on, every few thousand calls with `i` one more each.
#[inline]
fn check_going_on(i: usize, goes_on: &impl Fn() -> bool) -> Option<()> {
    (!(i + 1).is_multiple_of(EVENTS) || goes_on()).then_some(())
}

/// What one link did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Units that it carried.
    pub carried: f64,
    /// Most units a second that it carried at any time.
    pub peak: f64,
}

/// When everything happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// When each transfer sent its first unit, in seconds.
    pub starts: Vec<f64>,
    /// When the last unit of each transfer arrived, in seconds.
    pub ends: Vec<f64>,
    /// What each link did.
    pub loads: Vec<Load>,
}

impl Outcome {
    /// When the last transfer arrived.
    pub fn end(&self) -> f64 {
        self.ends.iter().copied().fold(0.0, f64::max)
    }
}

/// A schedule made ready to run, as often as wanted. Running allocates nothing.
#[derive(Debug)]
pub struct Simulation<'a> {
    flows: &'a Flows,
    /// Who waits for each transfer, with `SENT` where its last unit sent is enough.
    dependents: Vec<u32>,
    dependent_ends: Vec<u32>,
    states: Vec<State>,
    queue: Queue,
    sharing: Sharing,
    /// Transfers of the present instant, and those of them that start.
    due: Vec<u32>,
    starting: Vec<u32>,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Waits that are not over.
    missing: u32,
    sending: bool,
    /// Before sending: when the inputs are there. Then: up to when `left` is right.
    time: f64,
    left: f64,
    rate: f64,
}

impl<'a> Simulation<'a> {
    /// Makes room for everything that a run of `flows` needs.
    pub fn new(flows: &'a Flows) -> Self {
        let Ok(simulation) = Self::built(flows, &|| Ok::<(), Infallible>(()));
        simulation
    }

    /// As `new`, but stops with `None` soon after `goes_on` says false.
    pub fn new_while(flows: &'a Flows, goes_on: impl Fn() -> bool) -> Option<Self> {
        Self::built(flows, &|| goes_on().then_some(()).ok_or(())).ok()
    }

    /// Looks whether to go on between its parts, and every few thousand transfers.
    fn built<E>(flows: &'a Flows, look: &impl Fn() -> Result<(), E>) -> Result<Self, E> {
        let (dependents, dependent_ends) = dependents(flows, look)?;
        let mut loads = vec![Load::default(); flows.links.len()];
        for (transfer, &size) in (0..).zip(&flows.sizes) {
            for &hop in &flows.hops[flows.route(transfer)] {
                loads[hop as usize].carried += size;
            }
            check_now_and_then(transfer, look)?;
        }
        let count = flows.len();
        let states = vec![State::default(); count];
        look()?;
        let queue = Queue::new(count);
        look()?;
        let sharing = Sharing::new(flows, &|transfer| check_now_and_then(transfer, look))?;
        Ok(Self {
            flows,
            dependents,
            dependent_ends,
            states,
            queue,
            sharing,
            due: Vec::with_capacity(count),
            starting: Vec::with_capacity(count),
            outcome: Outcome {
                starts: vec![0.0; count],
                ends: vec![0.0; count],
                loads,
            },
        })
    }

    /// Runs all transfers, each as early as its waits allow, and tells when they ended.
    pub fn run(&mut self) -> &Outcome {
        self.advance(&|| true);
        &self.outcome
    }

    /// As `run`, but stops with `None` soon after `goes_on` says false; it is asked every few thousand events.
    pub fn run_while(&mut self, goes_on: impl Fn() -> bool) -> Option<&Outcome> {
        if self.advance(&goes_on).is_none() {
            self.queue.clear();
            self.sharing.clear();
            self.due.clear();
            return None;
        }
        Some(&self.outcome)
    }

    /// The whole run; `None` where it was stopped.
    fn advance(&mut self, goes_on: &impl Fn() -> bool) -> Option<()> {
        self.reset(goes_on)?;
        let mut events = 0;
        while let Some(now) = self.queue.pop(&mut self.due) {
            events += self.due.len();
            if events >= EVENTS {
                events = 0;
                goes_on().then_some(())?;
            }
            self.step(now, goes_on)?;
        }
        for (link, load) in self.outcome.loads.iter_mut().enumerate() {
            load.peak = self.sharing.peak(link);
        }
        Some(())
    }

    fn reset(&mut self, goes_on: &impl Fn() -> bool) -> Option<()> {
        self.sharing.reset();
        let mut before = 0;
        for (transfer, state) in (0..).zip(&mut self.states) {
            let index = transfer as usize;
            check_going_on(index, goes_on)?;
            let end = self.flows.wait_ends[index];
            *state = State {
                missing: end - before,
                left: self.flows.sizes[index],
                ..State::default()
            };
            if end == before {
                self.queue.push(transfer, self.flows.start_ups[index]);
            }
            before = end;
        }
        Some(())
    }

    /// Ends and starts what is due, then shares the links on which something changed.
    fn step(&mut self, now: f64, goes_on: &impl Fn() -> bool) -> Option<()> {
        self.sharing.begin();
        self.starting.clear();
        let mut felt = 0; // head of `due` that holds those whose leaving others feel
        for i in 0..self.due.len() {
            check_going_on(i, goes_on)?;
            let transfer = self.due[i];
            if self.states[transfer as usize].sending {
                if self.sharing.leave(self.flows, transfer) {
                    self.due[felt] = transfer;
                    felt += 1;
                }
                self.finish(transfer, now);
            } else {
                self.starting.push(transfer);
            }
        }
        let mut begun = 0;
        while let Some(&transfer) = self.starting.get(begun) {
            begun += 1;
            check_going_on(begun, goes_on)?;
            self.begin(transfer, now);
        }
        for i in 0..felt {
            check_going_on(i, goes_on)?;
            self.sharing.share(self.flows, self.due[i], goes_on)?;
        }
        self.due.clear();
        self.start_sending(now, goes_on)?;
        for i in 0..self.sharing.changed.len() {
            check_going_on(i, goes_on)?;
            let transfer = self.sharing.changed[i];
            self.set_rate(transfer, self.sharing.rate(transfer), now);
        }
        Some(())
    }

    /// Gives rates to those that start, and to those with which they share links.
    fn start_sending(&mut self, now: f64, goes_on: &impl Fn() -> bool) -> Option<()> {
        for i in 0..self.starting.len() {
            check_going_on(i, goes_on)?;
            let transfer = self.starting[i];
            if !self.states[transfer as usize].sending {
                continue; // there was nothing to send
            }
            if let Some(rate) = self.sharing.alone(self.flows, transfer) {
                self.set_rate(transfer, rate, now);
            } else {
                self.sharing.share(self.flows, transfer, goes_on)?;
            }
        }
        Some(())
    }

    /// Sends the first unit of `transfer`; one without units or links ends at once.
    fn begin(&mut self, transfer: u32, now: f64) {
        self.outcome.starts[transfer as usize] = now;
        let state = &mut self.states[transfer as usize];
        if state.left <= 0.0 || self.flows.route(transfer).is_empty() {
            self.finish(transfer, now);
            return;
        }
        state.sending = true;
        state.time = now;
        self.sharing.enter(self.flows, transfer);
    }

    #[allow(clippy::float_cmp)] // an event stays where it is only if its rate is the very same
    fn set_rate(&mut self, transfer: u32, rate: f64, now: f64) {
        let state = &mut self.states[transfer as usize];
        if state.rate == rate {
            return;
        }
        if state.rate > 0.0 {
            state.left = (state.left - state.rate * (now - state.time)).max(0.0);
            self.queue.remove(transfer);
        }
        state.time = now;
        state.rate = rate;
        self.queue.push(transfer, now + state.left / rate);
    }

    /// Records the arrival of `transfer` and frees what waited for it.
    fn finish(&mut self, transfer: u32, now: f64) {
        let arrival = now + self.flows.latencies[transfer as usize];
        self.outcome.ends[transfer as usize] = arrival;
        for i in span(&self.dependent_ends, transfer) {
            let entry = self.dependents[i];
            let (next, time) = if entry & SENT == 0 {
                (entry, arrival)
            } else {
                (entry & !SENT, now)
            };
            let state = &mut self.states[next as usize];
            state.time = state.time.max(time);
            state.missing -= 1;
            if state.missing > 0 {
                continue;
            }
            let start = state.time + self.flows.start_ups[next as usize];
            if start <= now {
                self.starting.push(next);
            } else {
                self.queue.push(next, start);
            }
        }
    }
}

/// Turns waits round: who waits for each transfer, and where each part of that list ends.
fn dependents<E>(
    flows: &Flows,
    look: &impl Fn() -> Result<(), E>,
) -> Result<(Vec<u32>, Vec<u32>), E> {
    let mut ends = vec![0_u32; flows.len() + 1];
    for (place, &wait) in (0..).zip(&flows.waits) {
        ends[(wait & !SENT) as usize + 1] += 1;
        check_now_and_then(place, look)?;
    }
    for i in 1..ends.len() {
        ends[i] += ends[i - 1];
    }
    look()?;
    let mut all = vec![0; flows.waits.len()];
    let mut before = 0;
    for (transfer, &end) in (0_u32..).zip(&flows.wait_ends) {
        for &wait in &flows.waits[before..end as usize] {
            let place = &mut ends[(wait & !SENT) as usize];
            all[*place as usize] = transfer | (wait & SENT);
            *place += 1;
        }
        before = end as usize;
        check_now_and_then(transfer, look)?;
    }
    ends.pop();
    Ok((all, ends))
}

/// Looks every few thousand calls with `i` one more each.
#[inline]
fn check_now_and_then<E>(i: u32, look: &impl Fn() -> Result<(), E>) -> Result<(), E> {
    if (i as usize + 1).is_multiple_of(EVENTS) {
        look()?;
    }
    Ok(())
}

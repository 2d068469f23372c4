//! Which peers are there, what waits at each, and how much of their time was used?

use super::{Request, Routing, Stage};
use crate::solve::Random;
use std::collections::VecDeque;

/// What a peer computes for a micro-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pass {
    Forward,
    Backward,
    /// The forward pass anew, since the peer that ran it is gone, and the backward pass.
    Both,
}

/// A pass of a micro-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Job {
    pub(super) micro_batch: u32,
    pub(super) pass: Pass,
}

/// A peer in one stage; one that moves becomes another.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) speed: f64,
    pub(super) stage: usize,
    pub(super) alive: bool,
    pub(super) running: Option<Job>,
    pub(super) waiting: VecDeque<Job>,
}

/// All peers that there ever were, and the accounts of their stages.
pub(super) struct Peers {
    pub(super) all: Vec<Peer>,
    /// Those of each stage that are there.
    pub(super) by_stage: Vec<Vec<usize>>,
    /// Seconds of work that each trainer has sent to each peer.
    sent: Vec<Vec<f64>>,
    accounts: Vec<Account>,
}

/// Integrals over time.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    since: f64,
    /// Speeds of those that are there, and of those of them that work.
    speed: f64,
    busy: f64,
    jobs: f64,
    peer_time: f64,
    speed_time: f64,
    busy_time: f64,
    job_time: f64,
    /// `job_time` at the last look.
    job_time_seen: f64,
}

impl Peers {
    pub(super) fn new(request: &Request) -> Self {
        let stages = request.stages.len();
        Self {
            all: Vec::new(),
            by_stage: vec![Vec::new(); stages],
            sent: vec![Vec::new(); request.trainers as usize],
            accounts: vec![Account::default(); stages],
        }
    }

    /// A peer begins to work in a stage.
    pub(super) fn add(&mut self, now: f64, stage: usize, speed: f64, random: &mut Random) -> usize {
        self.settle(now, stage);
        let peer = self.all.len();
        for sent in &mut self.sent {
            // as much as was sent to the least used, so that the new one is neither flooded nor
            // passed over; a random part of a micro-batch more keeps trainers out of step
            let known = self.by_stage[stage].iter().map(|peer| sent[*peer]);
            let least = known.fold(f64::INFINITY, f64::min);
            let least = if least.is_finite() { least } else { 0.0 };
            sent.push(least + random.uniform() / speed);
        }
        self.all.push(Peer {
            speed,
            stage,
            alive: true,
            running: None,
            waiting: VecDeque::new(),
        });
        self.by_stage[stage].push(peer);
        self.accounts[stage].speed = self.speed(stage);
        peer
    }

    /// Passes wait for a stage without a peer, or wait no longer.
    pub(super) fn strand(&mut self, now: f64, stage: usize, more: f64) {
        self.settle(now, stage);
        self.accounts[stage].jobs += more;
    }

    /// A peer leaves; what it had to do is left over.
    pub(super) fn remove(&mut self, now: f64, peer: usize) -> Vec<Job> {
        let stage = self.all[peer].stage;
        self.settle(now, stage);
        self.by_stage[stage].retain(|other| *other != peer);
        let gone = &mut self.all[peer];
        gone.alive = false;
        let account = &mut self.accounts[stage];
        if gone.running.is_some() {
            account.busy -= gone.speed;
        }
        account.speed = there(&self.all, &self.by_stage[stage]);
        let gone = &mut self.all[peer];
        let left: Vec<Job> = gone
            .running
            .take()
            .into_iter()
            .chain(gone.waiting.drain(..))
            .collect();
        account.jobs -= left.len() as f64;
        left
    }

    /// The peer of a stage that a trainer sends to next; nothing where there is none.
    ///
    /// The backward pass of what is sent will come to the same peer, and is counted with it.
    pub(super) fn route(
        &mut self,
        (trainer, stage): (usize, usize),
        routing: Routing,
        random: &mut Random,
    ) -> Option<usize> {
        let there = &self.by_stage[stage];
        let chosen = match routing {
            Routing::RoundRobin => {
                let sent = &self.sent[trainer];
                let least = |a: &&usize, b: &&usize| sent[**a].total_cmp(&sent[**b]);
                there.iter().min_by(least).copied()?
            }
            Routing::Random => {
                let speeds = there.iter().map(|peer| self.all[*peer].speed);
                let mut left = random.uniform() * speeds.sum::<f64>();
                let met = there.iter().find(|peer| {
                    left -= self.all[**peer].speed;
                    left < 0.0
                });
                met.or(there.last()).copied()?
            }
        };
        self.sent[trainer][chosen] += 1.0 / self.all[chosen].speed;
        Some(chosen)
    }

    /// A pass arrives at a peer.
    pub(super) fn arrive(&mut self, now: f64, peer: usize, job: Job) {
        let stage = self.all[peer].stage;
        self.settle(now, stage);
        self.accounts[stage].jobs += 1.0;
        self.all[peer].waiting.push_back(job);
    }

    /// An idle peer begins its next pass, if there is one.
    pub(super) fn begin(&mut self, now: f64, peer: usize) -> Option<Job> {
        let stage = self.all[peer].stage;
        if self.all[peer].running.is_some() {
            return None;
        }
        let job = self.all[peer].waiting.pop_front()?;
        self.settle(now, stage);
        self.all[peer].running = Some(job);
        self.accounts[stage].busy += self.all[peer].speed;
        Some(job)
    }

    /// A peer ends its pass.
    pub(super) fn end(&mut self, now: f64, peer: usize) -> Option<Job> {
        let stage = self.all[peer].stage;
        self.settle(now, stage);
        let job = self.all[peer].running.take()?;
        let account = &mut self.accounts[stage];
        account.busy -= self.all[peer].speed;
        account.jobs -= 1.0;
        Some(job)
    }

    /// Passes that wait or run at a peer.
    fn jobs(&self, peer: usize) -> usize {
        let peer = &self.all[peer];
        peer.waiting.len() + usize::from(peer.running.is_some())
    }

    /// Speeds of a stage's peers together.
    fn speed(&self, stage: usize) -> f64 {
        there(&self.all, &self.by_stage[stage])
    }

    /// Carries a stage's integrals on to `now`.
    fn settle(&mut self, now: f64, stage: usize) {
        let peers = self.by_stage[stage].len() as f64;
        let account = &mut self.accounts[stage];
        let passed = now - account.since;
        account.since = now;
        account.peer_time += peers * passed;
        account.speed_time += account.speed * passed;
        account.busy_time += account.busy * passed;
        account.job_time += account.jobs * passed;
    }

    /// Queue of each stage since the last look.
    fn queues_since_last(&mut self, now: f64) -> Vec<f64> {
        let stages = 0..self.accounts.len();
        let queue = |stage| {
            self.settle(now, stage);
            let account = &mut self.accounts[stage];
            let since = account.job_time - account.job_time_seen;
            account.job_time_seen = account.job_time;
            since
        };
        stages.map(queue).collect()
    }

    /// The stage with the longest queue now.
    pub(super) fn longest(&self) -> usize {
        let longer = |a: &usize, b: &usize| {
            let (a, b) = (self.accounts[*a].jobs, self.accounts[*b].jobs);
            a.total_cmp(&b)
        };
        (0..self.accounts.len()).rev().max_by(longer).unwrap_or(0)
    }

    /// The peer that should move and the stage that it should move to, by the queues since the last
    /// look.
    pub(super) fn peer_to_move(&mut self, now: f64) -> Option<(usize, usize)> {
        let queues = self.queues_since_last(now);
        let shorter = |a: &usize, b: &usize| queues[*a].total_cmp(&queues[*b]);
        let from = (0..queues.len()).min_by(shorter)?;
        let to = (0..queues.len()).max_by(shorter)?;
        if queues[from] >= queues[to] {
            return None;
        }
        let peer = *self.by_stage[from]
            .iter()
            .min_by_key(|peer| self.jobs(**peer))?;
        let (here, there, moved) = (self.speed(from), self.speed(to), self.all[peer].speed);
        ((here - moved).min(there + moved) > here.min(there)).then_some((peer, to))
    }

    /// Means over `duration` by stage.
    pub(super) fn means(&mut self, duration: f64) -> Vec<Stage> {
        let stages = 0..self.accounts.len();
        let mean = |stage| {
            self.settle(duration, stage);
            let account = &self.accounts[stage];
            let share = account.busy_time / account.speed_time;
            Stage {
                peers: account.peer_time / duration,
                speed_per_s: account.speed_time / duration,
                utilization: if account.speed_time > 0.0 { share } else { 0.0 },
                queue: account.job_time / duration,
            }
        };
        stages.map(mean).collect()
    }
}

/// Speeds of some peers together.
fn there(all: &[Peer], peers: &[usize]) -> f64 {
    peers.iter().map(|peer| all[*peer].speed).sum()
}

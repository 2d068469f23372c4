//! What happens in a swarm, event by event?

use super::peers::{Job, Pass, Peers};
use super::{Request, Service, Stage};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::solve::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One run.
pub(super) struct Outcome {
    pub(super) throughput: f64,
    pub(super) bound: f64,
    pub(super) stages: Vec<Stage>,
    pub(super) failures: u32,
    pub(super) joins: u32,
    pub(super) moves: u32,
}

/// No peer.
const NOBODY: usize = usize::MAX;
/// Events between two looks at whether to stop.
const LOOK: u64 = 1 << 14;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Event {
    time: f64,
    /// Order of events at the same time: as they were planned.
    number: u64,
    what: EventKind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum EventKind {
    /// A pass reaches the peer that it was sent to.
    Arrive { peer: usize, job: Job },
    /// A peer ends its pass.
    End { peer: usize },
    /// A trainer sends a micro-batch off.
    Start { micro_batch: u32 },
    /// A peer fails.
    Fail { peer: usize },
    /// Someone wants to join.
    Join,
    /// A peer has loaded the weights of its stage.
    Ready { stage: usize, speed: f64 },
    /// Loads are looked at.
    Rebalance,
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let time = self.time.total_cmp(&other.time);
        time.then(self.number.cmp(&other.number))
    }
}

/// Runs until the time is over.
pub(super) fn run(request: &Request, random: Random, control: &Control) -> Result<Outcome> {
    let mut run = Run::new(request, random);
    run.open();
    let mut left = LOOK;
    while let Some(Reverse(event)) = run.events.pop() {
        if event.time > request.duration_s {
            break;
        }
        left -= 1;
        if left == 0 {
            left = LOOK;
            if control.is_cancelled() {
                let what = "the swarm did not run to its end".to_owned();
                return Err(Error::Cancelled { what });
            }
        }
        run.now = event.time;
        run.process(event.what);
    }
    Ok(run.outcome())
}

struct Run<'a> {
    request: &'a Request,
    random: Random,
    now: f64,
    planned: u64,
    events: BinaryHeap<Reverse<Event>>,
    peers: Peers,
    /// Peer that took each micro-batch forward, by micro-batch and stage.
    path: Vec<usize>,
    /// Passes for which a stage has no peer.
    stranded: Vec<Vec<Job>>,
    done: u64,
    failures: u32,
    joins: u32,
    moves: u32,
}

impl<'a> Run<'a> {
    fn new(request: &'a Request, random: Random) -> Self {
        let under_way = request.trainers as usize * request.in_flight as usize;
        Self {
            request,
            random,
            now: 0.0,
            planned: 0,
            events: BinaryHeap::new(),
            peers: Peers::new(request),
            path: vec![NOBODY; under_way * request.stages.len()],
            stranded: vec![Vec::new(); request.stages.len()],
            done: 0,
            failures: 0,
            joins: 0,
            moves: 0,
        }
    }

    /// All peers are there and all micro-batches set out.
    fn open(&mut self) {
        for (stage, speeds) in self.request.stages.iter().enumerate() {
            for &speed in speeds {
                self.add(stage, speed);
            }
        }
        for micro_batch in 0..self.request.trainers * self.request.in_flight {
            self.plan(0.0, EventKind::Start { micro_batch });
        }
        if self.request.joins_per_s > 0.0 {
            let wait = self.random.exponential(1.0 / self.request.joins_per_s);
            self.plan(wait, EventKind::Join);
        }
        if let Some(every) = self.request.rebalance_s {
            self.plan(every, EventKind::Rebalance);
        }
    }

    fn plan(&mut self, after: f64, what: EventKind) {
        self.planned += 1;
        self.events.push(Reverse(Event {
            time: self.now + after,
            number: self.planned,
            what,
        }));
    }

    fn process(&mut self, what: EventKind) {
        match what {
            EventKind::Start { micro_batch } => {
                let pass = Pass::Forward;
                self.send(0, Job { micro_batch, pass });
            }
            EventKind::Arrive { peer, job } => self.arrive(peer, job),
            EventKind::End { peer } => self.end(peer),
            EventKind::Fail { peer } => {
                if self.peers.all[peer].alive {
                    self.failures += 1;
                    self.leave(peer);
                }
            }
            EventKind::Join => self.join(),
            EventKind::Ready { stage, speed } => self.add(stage, speed),
            EventKind::Rebalance => self.rebalance(),
        }
    }

    /// A peer begins to work in a stage, and takes what waited for one.
    fn add(&mut self, stage: usize, speed: f64) {
        let peer = self.peers.add(self.now, stage, speed, &mut self.random);
        if self.request.failures_per_s > 0.0 {
            let wait = self.random.exponential(1.0 / self.request.failures_per_s);
            self.plan(wait, EventKind::Fail { peer });
        }
        for job in std::mem::take(&mut self.stranded[stage]) {
            self.peers.strand(self.now, stage, -1.0);
            self.send(stage, job);
        }
    }

    /// A trainer sends a pass to a peer of a stage.
    fn send(&mut self, stage: usize, job: Job) {
        let trainer = (job.micro_batch / self.request.in_flight) as usize;
        let routing = self.request.routing;
        let chosen = self
            .peers
            .route((trainer, stage), routing, &mut self.random);
        if let Some(peer) = chosen {
            self.plan(self.request.delay_s, EventKind::Arrive { peer, job });
        } else {
            self.peers.strand(self.now, stage, 1.0);
            self.stranded[stage].push(job);
        }
    }

    /// Share of a micro-batch's work.
    fn work(&self, pass: Pass) -> f64 {
        match pass {
            Pass::Forward => self.request.forward_share,
            Pass::Backward => 1.0 - self.request.forward_share,
            Pass::Both => 1.0,
        }
    }

    fn arrive(&mut self, peer: usize, job: Job) {
        if self.peers.all[peer].alive {
            self.peers.arrive(self.now, peer, job);
            self.begin(peer);
        } else {
            self.again(self.peers.all[peer].stage, job);
        }
    }

    fn begin(&mut self, peer: usize) {
        if let Some(job) = self.peers.begin(self.now, peer) {
            let mean = self.work(job.pass) / self.peers.all[peer].speed;
            let seconds = match self.request.service {
                Service::Constant => mean,
                Service::Exponential => self.random.exponential(mean),
            };
            self.plan(seconds, EventKind::End { peer });
        }
    }

    /// A pass whose peer is gone goes to another.
    fn again(&mut self, stage: usize, job: Job) {
        let pass = match job.pass {
            Pass::Forward => Pass::Forward,
            Pass::Backward | Pass::Both => Pass::Both,
        };
        self.send(stage, Job { pass, ..job });
    }

    fn end(&mut self, peer: usize) {
        // the end of a pass that was cut short
        if !self.peers.all[peer].alive {
            return;
        }
        let Some(job) = self.peers.end(self.now, peer) else {
            return;
        };
        let stage = self.peers.all[peer].stage;
        let stages = self.request.stages.len();
        let first = job.micro_batch as usize * stages;
        let back = Job {
            pass: Pass::Backward,
            ..job
        };
        if job.pass == Pass::Forward {
            self.path[first + stage] = peer;
            if stage + 1 < stages {
                self.send(stage + 1, job);
            } else {
                self.peers.arrive(self.now, peer, back);
            }
        } else if stage > 0 {
            let before = self.path[first + stage - 1];
            if self.peers.all[before].alive {
                let what = EventKind::Arrive {
                    peer: before,
                    job: back,
                };
                self.plan(self.request.delay_s, what);
            } else {
                self.again(stage - 1, back);
            }
        } else {
            self.done += 1;
            let micro_batch = job.micro_batch;
            self.plan(self.request.delay_s, EventKind::Start { micro_batch });
        }
        self.begin(peer);
    }

    /// A peer is gone; others do what it had to do.
    fn leave(&mut self, peer: usize) {
        let stage = self.peers.all[peer].stage;
        for job in self.peers.remove(self.now, peer) {
            self.again(stage, job);
        }
    }

    fn join(&mut self) {
        self.joins += 1;
        let speeds = &self.request.join_speeds;
        let speed = speeds[self.random.below(speeds.len())];
        let stage = match self.request.rebalance_s {
            Some(_) => self.peers.longest(),
            None => self.random.below(self.request.stages.len()),
        };
        self.plan(self.request.move_s, EventKind::Ready { stage, speed });
        let wait = self.random.exponential(1.0 / self.request.joins_per_s);
        self.plan(wait, EventKind::Join);
    }

    fn rebalance(&mut self) {
        if let Some((peer, stage)) = self.peers.peer_to_move(self.now) {
            self.moves += 1;
            let speed = self.peers.all[peer].speed;
            self.leave(peer);
            self.plan(self.request.move_s, EventKind::Ready { stage, speed });
        }
        if let Some(every) = self.request.rebalance_s {
            self.plan(every, EventKind::Rebalance);
        }
    }

    fn outcome(mut self) -> Outcome {
        let duration = self.request.duration_s;
        let stages = self.peers.means(duration);
        let speeds = stages.iter().map(|stage| stage.speed_per_s);
        Outcome {
            throughput: self.done as f64 / duration,
            bound: speeds.fold(f64::INFINITY, f64::min),
            stages,
            failures: self.failures,
            joins: self.joins,
            moves: self.moves,
        }
    }
}
